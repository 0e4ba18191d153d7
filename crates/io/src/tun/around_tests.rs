//! TCP segments in tunnels are joined for Linux's own ends alone, and cutting undoes it.

use proptest::prelude::*;

use super::tests::{Tcp, cut_again};
use super::*;

/// A tunnel whose packets go to 192.0.2.1 or fd00::1.
#[derive(Clone, Debug)]
struct Tunnel {
    v6: bool,
    id: u16,
    /// DF is set outside.
    df: bool,
    has_checksum: bool,
    /// UDP's destination port.
    port: u16,
    /// From VXLAN's or GENEVE's header to the inner IP header.
    header: Vec<u8>,
}

impl Default for Tunnel {
    fn default() -> Self {
        let frame = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
        let header = [[8, 0, 0, 0, 0, 0, 42, 0].as_slice(), &frame].concat();
        Self { v6: false, id: 100, df: false, has_checksum: false, port: 4789, header }
    }
}

impl Tunnel {
    fn around(&self, inside: &[u8]) -> Vec<u8> {
        let len = 8 + self.header.len() + inside.len();
        let mut packet = if self.v6 {
            let mut ip = vec![0x60, 0, 0, 9, (len >> 8) as u8, len as u8, UDP, 64];
            ip.extend([[0xfd; 15].as_slice(), &[2], &[0xfd; 15], &[1]].concat());
            ip
        } else {
            let mut ip = vec![0x45, 0, ((len + 20) >> 8) as u8, (len + 20) as u8];
            ip.extend(self.id.to_be_bytes());
            ip.extend([if self.df { 0x40 } else { 0 }, 0, 64, UDP, 0, 0]);
            ip.extend([192, 0, 2, 2, 192, 0, 2, 1]);
            set_ipv4_checksum(&mut ip);
            ip
        };
        let ip_len = packet.len();
        packet.extend([0x9c, 0x40]);
        packet.extend(self.port.to_be_bytes());
        packet.extend([(len >> 8) as u8, len as u8, 0, 0]);
        packet.extend(&self.header);
        packet.extend(inside);
        if self.has_checksum {
            let layout = Layout { is_v4: !self.v6, protocol: UDP, ip_len, is_fragment: false };
            let checksum = layout.pseudo_header(&packet, len).bytes(&packet[ip_len..]).checksum();
            put(&mut packet, ip_len + 6, if checksum == 0 { 0xffff } else { checksum });
        }
        packet
    }

    /// Ends after one packet that Linux has sent.
    fn ends(&self) -> Ends {
        let mut packet = self.around(&Tcp::default().bytes());
        let (src, dst) = if self.v6 { (23, 39) } else { (15, 19) };
        packet.swap(src, dst);
        let mut ends = Ends::default();
        ends.learn(&packet, packet.len() - 1000);
        ends
    }
}

fn plan<'a>(packets: &'a [Vec<u8>], ends: &Ends) -> Plan<'a> {
    let packets = packets.iter().map(|packet| crate::tun::back::split(packet));
    Plan::with_tunnels(packets, Joined::Tcp, Some(ends))
}

fn runs(packets: &[Vec<u8>], ends: &Ends) -> Vec<Vec<usize>> {
    let mut plan = plan(packets, ends);
    core::iter::from_fn(|| plan.next_run()).map(|run| run.members.to_vec()).collect()
}

/// Two segments that follow on one another, in packets that do.
fn two(tunnel: &Tunnel) -> [Vec<u8>; 2] {
    let (first, next) = (Tcp::default(), Tunnel { id: tunnel.id + 1, ..tunnel.clone() });
    [tunnel.around(&first.bytes()), next.around(&first.next().bytes())]
}

#[test]
fn only_what_goes_to_an_end_of_linuxs_is_joined() {
    for v6 in [false, true] {
        let tunnel = Tunnel { v6, ..Tunnel::default() };
        let ends = tunnel.ends();
        assert_eq!(runs(&two(&tunnel), &ends), [[0, 1]]);
        assert_eq!(runs(&two(&tunnel), &Ends::default()).len(), 2, "nothing is known");
        let other = Tunnel { port: 4790, ..tunnel.clone() };
        assert_eq!(runs(&two(&other), &ends).len(), 2, "another port");
        let mut elsewhere = two(&tunnel);
        elsewhere.iter_mut().for_each(|packet| {
            let (src, dst) = if v6 { (23, 39) } else { (15, 19) };
            packet.swap(src, dst);
            let header = packet.get_mut(..20).filter(|_| !v6);
            header.into_iter().for_each(set_ipv4_checksum);
        });
        assert_eq!(runs(&elsewhere, &ends).len(), 2, "another address");
        let mut plain = Ends::default();
        let mut datagram = two(&tunnel)[0].clone();
        datagram.swap(if v6 { 23 } else { 15 }, if v6 { 39 } else { 19 });
        plain.learn(&datagram, if v6 { 40 } else { 20 });
        plain.learn(&[0x45; 60], 60);
        assert_eq!(runs(&two(&tunnel), &plain).len(), 2, "a program's datagram is no tunnel");
    }
    let tagged = |packet: &[u8]| [&[0x81, 0, 0, 1, 8, 0], [3; 14].as_slice(), packet].concat();
    let back = two(&Tunnel::default()).map(|packet| tagged(&packet));
    assert_eq!(runs(&back, &Tunnel::default().ends()).len(), 2, "goes back to its interface");
}

#[test]
fn the_eight_ends_that_were_seen_last_are_known() {
    let mut ends = Ends::default();
    let tunnels: Vec<_> = (0..9).map(|port| Tunnel { port, ..Tunnel::default() }).collect();
    for tunnel in &tunnels {
        let [mut packet, _] = two(tunnel);
        packet.swap(15, 19);
        for _ in 0..2 {
            ends.learn(&packet, packet.len() - 1000);
        }
    }
    assert_eq!(runs(&two(&tunnels[0]), &ends).len(), 2, "forgotten");
    for tunnel in &tunnels[1..] {
        assert_eq!(runs(&two(tunnel), &ends).len(), 1);
    }
}

#[test]
fn each_difference_outside_keeps_them_apart() {
    type Change = (&'static str, usize);
    let changes: [Change; 6] = [
        ("DS field", 1),
        ("TTL", 8),
        ("source port", 21),
        ("network", 34),
        ("station", 41),
        ("options of GENEVE", 36),
    ];
    let tunnel = Tunnel::default();
    let ends = tunnel.ends();
    for (what, at) in changes {
        let [first, mut second] = two(&tunnel);
        second[at] ^= 1;
        set_ipv4_checksum(&mut second[..20]);
        assert_eq!(runs(&[first, second], &ends).len(), 2, "{what}");
    }
    let [first, _] = two(&tunnel);
    let same_id = tunnel.around(&Tcp::default().next().bytes());
    assert_eq!(runs(&[first.clone(), same_id], &ends).len(), 2, "identification");
    let with_checksum = Tunnel { id: 101, has_checksum: true, ..tunnel.clone() };
    let second = with_checksum.around(&Tcp::default().next().bytes());
    assert_eq!(runs(&[first, second], &ends).len(), 2, "a checksum, and none");
    let any_id = Tunnel { df: true, ..tunnel };
    let packets = [Tcp::default(), Tcp::default().next()].map(|tcp| any_id.around(&tcp.bytes()));
    assert_eq!(runs(&packets, &ends), [[0, 1]], "DF: any identification will do");
}

#[test]
fn wrong_checksums_and_lengths_stay_wrong() {
    let tunnel = Tunnel { has_checksum: true, ..Tunnel::default() };
    let ends = tunnel.ends();
    assert_eq!(runs(&two(&tunnel), &ends).len(), 1);
    // IP outside, UDP outside and its length, IP inside, TCP inside, payload.
    for (damaged, at) in
        [0, 1].into_iter().flat_map(|n| [10, 26, 25, 60, 86, 500].map(|at| (n, at)))
    {
        let mut packets = two(&tunnel);
        packets[damaged][at] ^= 1;
        assert_eq!(runs(&packets, &ends).len(), 2, "packet {damaged}, byte {at}");
    }
}

#[test]
fn the_header_names_the_tunnel() {
    let tunnel = Tunnel { has_checksum: true, ..Tunnel::default() };
    let packets = two(&tunnel);
    let ends = tunnel.ends();
    let mut plan = plan(&packets, &ends);
    let run = plan.next_run().expect("a run");
    assert!(run.is_in_tunnel(&plan));
    let (vnet, header, payload_at) = plan.super_header(&run).expect("joined");
    assert_eq!((payload_at, header.len(), vnet.hdr_len), (102, 102, 102));
    assert_eq!((vnet.csum_start, vnet.csum_offset, vnet.gso_size), (70, 16, 1000));
    let named = vnet.tunnel.expect("a tunnel");
    assert_eq!((named.is_v4, named.has_checksum), (true, true));
    assert_eq!((named.udp_at, named.inside_at), (20, 50));
    assert_eq!((word(&header, 2), word(&header, 24), word(&header, 52)), (2102, 2082, 2052));
    let one = &packets[0];
    let layout = Layout { is_v4: true, protocol: UDP, ip_len: 20, is_fragment: false };
    assert_eq!(word(&header, 26), layout.pseudo_header(one, 2082).folded(), "partial");
}

proptest! {
    /// Streams of both families in tunnels of both: what is joined comes apart as it was.
    #[test]
    fn cutting_undoes_joining(
        v6_outside: bool, v6: bool, has_checksum: bool, df: bool, geneve: bool, options in 0_u8..12,
        steps in prop::collection::vec((0_u16..2, 1_usize..300, 0_u8..20), 1..64),
    ) {
        let mut header = match geneve {
            true => {
                let fixed = [options, 0, 0x65, 0x58, 0, 0, 43, 0];
                [fixed.as_slice(), &vec![7; usize::from(options) * 4]].concat()
            }
            false => vec![8, 0, 0, 0, 0, 0, 42, 0],
        };
        header.extend([2; 12]);
        header.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        let mut tunnel = Tunnel { v6: v6_outside, has_checksum, df, header, ..Tunnel::default() };
        let ends = tunnel.ends();
        let mut flows = [1, 2].map(|port| Tcp { v6, port, payload: Vec::new(), ..Tcp::default() });
        let mut packets = Vec::new();
        for (flow, len, fault) in steps {
            let flow = &mut flows[usize::from(flow)];
            let mut next = flow.next();
            next.payload = vec![fault; if fault > 4 { 300 } else { len }];
            next.seq = next.seq.wrapping_add(u32::from(fault == 0));
            tunnel.id = tunnel.id.wrapping_add(1 + u16::from(fault == 1));
            packets.push(tunnel.around(&next.bytes()));
            *flow = next;
        }
        let mut cut = cut_again(&packets, plan(&packets, &ends));
        // With DF the identification outside may be any.
        if df && !v6_outside {
            for packet in cut.iter_mut().chain(&mut packets) {
                put(packet, 4, 0);
                set_ipv4_checksum(&mut packet[..20]);
            }
        }
        prop_assert_eq!(cut, packets);
    }
}
