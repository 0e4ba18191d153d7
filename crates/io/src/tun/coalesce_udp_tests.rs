//! Tests of coalescing UDP datagrams.

use super::*;
use crate::tun::segment::{Limits, Segmenter};

/// A UDP datagram, with the fields that decide about joining.
#[derive(Clone, Debug)]
struct Udp {
    v6: bool,
    ports: [u16; 2],
    id: u16,
    df: bool,
    /// None: the right one.
    checksum: Option<u16>,
    payload: Vec<u8>,
}

const ESP: Udp = Udp {
    v6: false,
    ports: [4500, 31000],
    id: 0,
    df: true,
    checksum: Some(0),
    payload: Vec::new(),
};

impl Udp {
    fn of(&self, value: u8, len: usize) -> Self {
        Self { payload: vec![value; len], ..self.clone() }
    }

    fn bytes(&self) -> Vec<u8> {
        let len = 8 + self.payload.len();
        let mut packet = if self.v6 {
            let mut ip = vec![0x60, 0, 0, 9, (len >> 8) as u8, len as u8, 17, 64];
            ip.extend([0xfd; 16]);
            ip.extend([0xfc; 16]);
            ip
        } else {
            let mut ip = vec![0x45, 0, ((len + 20) >> 8) as u8, (len + 20) as u8];
            ip.extend(self.id.to_be_bytes());
            ip.extend([if self.df { 0x40 } else { 0 }, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            set_ipv4_checksum(&mut ip);
            ip
        };
        let ip_len = packet.len();
        for word in [self.ports[0], self.ports[1], len as u16, 0] {
            packet.extend(word.to_be_bytes());
        }
        packet.extend(&self.payload);
        let layout = Layout { is_v4: !self.v6, protocol: UDP, ip_len, is_fragment: false };
        let sum = layout.pseudo_header(&packet, len).bytes(&packet[ip_len..]);
        put(&mut packet, ip_len + 6, self.checksum.unwrap_or(sum.checksum()));
        packet
    }
}

fn plan(packets: &[Vec<u8>], joined: Joined) -> Plan<'_> {
    Plan::new(packets.iter().map(|packet| (&[][..], &packet[..])), joined)
}

fn runs(packets: &[Udp]) -> Vec<Vec<usize>> {
    let packets: Vec<_> = packets.iter().map(Udp::bytes).collect();
    let mut plan = plan(&packets, Joined::TcpAndUdp);
    core::iter::from_fn(|| plan.next_run()).map(|run| run.members.to_vec()).collect()
}

#[test]
fn datagrams_of_one_length_are_joined_and_a_shorter_one_ends_it() {
    let long = |value| ESP.of(value, 900);
    assert_eq!(
        runs(&[long(1), long(2), ESP.of(3, 100), long(4), long(5)]),
        [vec![0, 1, 2], vec![3, 4]]
    );
    assert_eq!(runs(&[ESP.of(1, 100), long(2), long(3)]), [vec![0], vec![1, 2]]);
    // Of 64 such only as many as fit.
    let many: Vec<_> = (0..64).map(|value| ESP.of(value, 1400)).collect();
    assert_eq!(runs(&many).iter().map(Vec::len).collect::<Vec<_>>(), [46, 18]);
}

#[test]
fn only_those_of_one_flow_are_joined() {
    let first = ESP.of(1, 900);
    let other = Udp { ports: [4500, 31001], ..ESP.of(2, 900) };
    assert_eq!(runs(&[first.clone(), other, first.clone()]), [vec![0, 2], vec![1]]);
    let v6 = Udp { v6: true, checksum: None, ..first.clone() };
    assert_eq!(runs(&[v6.clone(), first.clone(), v6]), [vec![0, 2], vec![1]]);
    // What may be a part of the same flow is not overtaken.
    let all = [first.bytes(), first.bytes(), first.bytes()];
    let mut all = all.map(|packet| packet[..28].to_vec());
    all[1][6] = 0x20;
    let mut plan = plan(&all, Joined::TcpAndUdp);
    let lens = core::iter::from_fn(|| plan.next_run()).map(|run| run.members.len());
    assert_eq!(lens.collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn a_checksum_is_right_or_that_of_esp_which_has_none() {
    let plain = |checksum, port| Udp { ports: [port, 9], checksum, ..ESP.of(1, 50) };
    assert_eq!(runs(&[plain(None, 7), plain(None, 7)]), [[0, 1]]);
    assert_eq!(runs(&[plain(Some(0), 4500), plain(Some(0), 4500)]), [[0, 1]]);
    for wrong in [plain(Some(0), 7), plain(Some(1), 4500)] {
        assert_eq!(runs(&[wrong.clone(), wrong]), [[0], [1]]);
    }
}

#[test]
fn an_identification_that_somebody_may_read_counts_up() {
    let fragile = |id| Udp { df: false, id, ..ESP.of(1, 50) };
    assert_eq!(runs(&[fragile(7), fragile(8)]), [[0, 1]]);
    assert_eq!(runs(&[fragile(7), fragile(7)]), [[0], [1]]);
    let atomic = |id| Udp { id, ..ESP.of(1, 50) };
    assert_eq!(runs(&[atomic(7), atomic(0), atomic(7)]), [[0, 1, 2]]);
}

#[test]
fn only_what_is_asked_for_is_joined() {
    let packets = [ESP.of(1, 50).bytes(), ESP.of(2, 50).bytes()];
    for joined in [Joined::Tcp, Joined::None] {
        let mut plan = plan(&packets, joined);
        let lens = core::iter::from_fn(|| plan.next_run()).map(|run| run.members.len());
        assert_eq!(lens.collect::<Vec<_>>(), [1, 1]);
    }
}

#[test]
fn cutting_undoes_joining() {
    for (v6, esp) in [(false, false), (false, true), (true, false)] {
        // With the right checksum, and as ESP has none.
        let (ports, checksum) = if esp { (ESP.ports, Some(0)) } else { ([5, 6], None) };
        let udp = Udp { v6, df: false, checksum, ports, ..ESP };
        let of = |id, value, len| Udp { id, ..udp.of(value, len) };
        let packets = [of(5, 1, 700), of(6, 2, 700), of(7, 3, 33)].map(|udp| udp.bytes());
        let mut plan = plan(&packets, Joined::TcpAndUdp);
        let run = plan.next_run().expect("a run");
        let (vnet, header, payload_at) = plan.super_header(&run).expect("joined");
        assert_eq!((vnet.gso, vnet.gso_size, vnet.csum_offset), (Gso::Udp, 700, 6));
        let mut joined = header.to_vec();
        packets.iter().for_each(|packet| joined.extend(&packet[payload_at..]));
        let limits = Limits { segment: 2000, frame: 2000 };
        let mut cutter = Segmenter::new(&vnet, &mut joined, limits).expect("well-formed");
        assert_eq!(cutter.left(joined.len()), 3);
        let mut out = [0; 2000];
        for packet in &packets {
            let len = cutter.next(&joined, &mut out).expect("a segment");
            assert_eq!(&out[..len], packet);
        }
        assert_eq!(cutter.left(joined.len()), 0);
    }
}
