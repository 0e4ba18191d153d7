//! Tests of coalescing: what is joined, what is not, and that cutting undoes joining.

use proptest::prelude::*;

use super::*;
use crate::tun::segment::{Limits, Segmenter};

/// A TCP segment, with the fields that decide about joining.
#[derive(Clone, Debug)]
pub(super) struct Tcp {
    pub(super) v6: bool,
    pub(super) port: u16,
    pub(super) id: u16,
    pub(super) ttl: u8,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) options: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            v6: false,
            port: 1000,
            id: 7,
            ttl: 64,
            seq: 0xffff_fc00,
            ack: 5,
            flags: 0x10,
            options: vec![1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8],
            payload: vec![0x5a; 1000],
        }
    }
}

impl Tcp {
    /// The segment after this one.
    pub(super) fn next(&self) -> Self {
        let seq = self.seq.wrapping_add(self.payload.len() as u32);
        Self { id: self.id.wrapping_add(1), seq, ..self.clone() }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let tcp_len = 20 + self.options.len();
        let len = tcp_len + self.payload.len();
        let mut packet = if self.v6 {
            let mut ip = vec![0x60, 0, 0, 9, (len >> 8) as u8, len as u8, 6, self.ttl];
            ip.extend([0xfd; 16]);
            ip.extend([0xfc; 16]);
            ip
        } else {
            let mut ip = vec![0x45, 0, ((len + 20) >> 8) as u8, (len + 20) as u8];
            ip.extend(self.id.to_be_bytes());
            ip.extend([0x40, 0, self.ttl, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            set_ipv4_checksum(&mut ip);
            ip
        };
        let ip_len = packet.len();
        packet.extend(self.port.to_be_bytes());
        packet.extend([0, 80]);
        packet.extend(self.seq.to_be_bytes());
        packet.extend(self.ack.to_be_bytes());
        packet.extend([(tcp_len as u8 / 4) << 4, self.flags, 1, 2, 0, 0, 0, 0]);
        packet.extend(&self.options);
        packet.extend(&self.payload);
        let layout = Layout { is_v4: !self.v6, protocol: TCP, ip_len, is_fragment: false };
        let sum = layout.pseudo_header(&packet, len).bytes(&packet[ip_len..]);
        let checksum = sum.checksum();
        put(&mut packet, ip_len + 16, checksum);
        packet
    }
}

/// A plan of packets of the private interface.
fn plan_of(packets: &[Vec<u8>], joined: Joined) -> Plan<'_> {
    Plan::new(packets.iter().map(|packet| crate::tun::back::split(packet)), joined)
}

/// The runs, as the places of their members.
fn runs(packets: &[Vec<u8>]) -> Vec<Vec<usize>> {
    let mut plan = plan_of(packets, Joined::Tcp);
    core::iter::from_fn(|| plan.next_run()).map(|run| run.members.to_vec()).collect()
}

/// Joins, then cuts each run again; returns the packets in their original places.
fn join_and_cut(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    cut_again(packets, plan_of(packets, Joined::Tcp))
}

/// Cuts each run of a plan again.
pub(super) fn cut_again(packets: &[Vec<u8>], mut plan: Plan<'_>) -> Vec<Vec<u8>> {
    let mut result = vec![Vec::new(); packets.len()];
    while let Some(run) = plan.next_run() {
        let Some((vnet, header, payload_at)) = plan.super_header(&run) else {
            let place = run.members[0];
            result[place] = packets[place].clone();
            continue;
        };
        let mut joined = header.to_vec();
        for &member in &run.members {
            joined.extend(&packets[member][payload_at..]);
        }
        assert!(joined.len() <= 65535);
        let limits = Limits { segment: 65535, frame: 65535 };
        let mut cutter = Segmenter::new(&vnet, &mut joined, limits).expect("well-formed");
        let mut out = vec![0; 65535];
        for &member in &run.members {
            let len = cutter.next(&joined, &mut out).expect("as many as were joined");
            result[member] = out[..len].to_vec();
        }
        assert!(cutter.is_done());
    }
    result
}

#[test]
fn a_stream_becomes_one() {
    for v6 in [false, true] {
        let mut stream = vec![Tcp { v6, ..Tcp::default() }];
        for _ in 0..40 {
            stream.push(stream[stream.len() - 1].next());
        }
        let last = stream.last_mut().expect("not empty");
        last.flags = 0x18;
        last.payload.truncate(10);
        let packets: Vec<_> = stream.iter().map(Tcp::bytes).collect();
        assert_eq!(runs(&packets), [(0..41).collect::<Vec<_>>()]);
        assert_eq!(join_and_cut(&packets), packets);
    }
}

#[test]
fn never_longer_than_an_ip_packet() {
    let mut stream = vec![Tcp { payload: vec![1; 1448], ..Tcp::default() }];
    while stream.len() < 64 {
        stream.push(stream[stream.len() - 1].next());
    }
    let packets: Vec<_> = stream.iter().map(Tcp::bytes).collect();
    let runs = runs(&packets);
    assert_eq!(runs.iter().map(Vec::len).collect::<Vec<_>>(), [45, 19]);
    assert_eq!(join_and_cut(&packets), packets);
}

#[test]
fn two_flows_are_told_apart_and_order_within_a_flow_is_kept() {
    let a = Tcp::default();
    let b = Tcp { port: 2000, ..Tcp::default() };
    let (a2, b2) = (a.next(), b.next());
    let fin = Tcp { flags: 0x11, ..a2.next() };
    let late = Tcp { seq: fin.seq.wrapping_add(1), ..fin.next() };
    let udp = {
        let mut packet = Tcp::default().bytes();
        packet[9] = 17;
        packet
    };
    let packets = [&a, &b, &a2, &b2, &fin, &late].map(Tcp::bytes);
    let mut with_udp = packets.to_vec();
    with_udp.insert(2, udp);
    assert_eq!(runs(&packets), [vec![0, 2], vec![1, 3], vec![4], vec![5]]);
    assert_eq!(runs(&with_udp), [vec![0, 3], vec![1, 4], vec![2], vec![5], vec![6]]);
}

#[test]
fn each_difference_keeps_segments_apart() {
    type Change = (&'static str, fn(&mut Tcp));
    let changes: [Change; 13] = [
        ("gap", |next| next.seq = next.seq.wrapping_add(1)),
        ("repetition", |next| next.seq = next.seq.wrapping_sub(1000)),
        ("other ack", |next| next.ack += 1),
        ("fin", |next| next.flags |= 0x01),
        ("syn", |next| next.flags |= 0x02),
        ("rst", |next| next.flags |= 0x04),
        ("urg", |next| next.flags |= 0x20),
        ("ece", |next| next.flags |= 0x40),
        ("cwr", |next| next.flags |= 0x80),
        ("other timestamp", |next| next.options[7] ^= 1),
        ("fewer options", |next| next.options.truncate(8)),
        ("other ttl", |next| next.ttl -= 1),
        ("no payload", |next| next.payload.clear()),
    ];
    for v6 in [false, true] {
        let first = Tcp { v6, ..Tcp::default() };
        assert_eq!(runs(&[first.bytes(), first.next().bytes()]).len(), 1);
        for (what, change) in changes {
            let mut next = first.next();
            change(&mut next);
            assert_eq!(runs(&[first.bytes(), next.bytes()]).len(), 2, "{what}");
        }
        let longer = Tcp { payload: vec![0; 1001], ..first.next() };
        assert_eq!(runs(&[first.bytes(), longer.bytes()]).len(), 2, "longer than the first");
        let pushed = Tcp { flags: 0x18, ..first.clone() };
        assert_eq!(runs(&[pushed.bytes(), pushed.next().bytes()]).len(), 2, "after a push");
        let shorter = Tcp { payload: vec![0; 999], ..first.next() };
        let packets = [first.bytes(), shorter.bytes(), shorter.next().bytes()];
        assert_eq!(runs(&packets), [vec![0, 1], vec![2]], "a shorter one is the last");
    }
    let first = Tcp::default();
    let same_id = Tcp { id: first.id, ..first.next() };
    assert_eq!(
        runs(&[first.bytes(), same_id.bytes()]).len(),
        2,
        "identification does not count up"
    );
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let (first, second) = (Tcp::default(), Tcp::default().next());
    for (damaged, at) in [(0, 10), (0, 36), (1, 10), (1, 36), (0, 500), (1, 500)] {
        let mut packets = [first.bytes(), second.bytes()];
        packets[damaged][at] ^= 1;
        assert_eq!(runs(&packets).len(), 2, "packet {damaged}, byte {at}");
    }
}

#[test]
fn fragments_and_options_are_not_moved_past() {
    let (first, second) = (Tcp::default(), Tcp::default().next());
    let mut fragment = first.bytes();
    fragment[6] = 0x20;
    assert_eq!(runs(&[first.bytes(), fragment, second.bytes()]).len(), 3);
    let mut padded = second.bytes();
    padded.push(0);
    assert_eq!(runs(&[first.bytes(), padded]).len(), 2, "longer than its header says");
}

fn any_segment() -> impl Strategy<Value = (u8, usize, bool, u8)> {
    (0_u8..3, prop_oneof![Just(100_usize), Just(100), 1..200_usize], any::<bool>(), 0_u8..24)
}

proptest! {
    /// Streams with gaps, pushes and odd sizes: whatever is joined comes apart as it was.
    #[test]
    fn cutting_undoes_joining(v6: bool, steps in prop::collection::vec(any_segment(), 1..64)) {
        let mut flows: Vec<Tcp> =
            (0..3).map(|port| Tcp { v6, port, payload: Vec::new(), ..Tcp::default() }).collect();
        let mut packets = Vec::new();
        for (flow, len, push, fault) in steps {
            let flow = &mut flows[usize::from(flow)];
            let mut next = flow.next();
            next.payload = (0..len).map(|at| (at * 7) as u8 ^ fault).collect();
            next.flags = if push && fault > 12 { 0x18 } else { 0x10 };
            match fault {
                0 => next.seq = next.seq.wrapping_add(1),
                1 => next.ack += 1,
                2 => next.id = next.id.wrapping_add(3),
                3 => next.flags |= 0x01,
                _ => {}
            }
            packets.push(next.bytes());
            *flow = next;
        }
        prop_assert_eq!(join_and_cut(&packets), packets.clone());
        let places: Vec<_> = runs(&packets).concat();
        let mut sorted = places.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..packets.len()).collect::<Vec<_>>());
    }

    #[test]
    fn arbitrary_bytes_never_break_it(data in prop::collection::vec(any::<u8>(), 0..4000)) {
        fuzz(&data);
    }

    #[test]
    fn damaged_segments_never_break_it(
        v6: bool, at in 0_usize..80, value: u8, len in 0_usize..1100,
    ) {
        let first = Tcp { v6, ..Tcp::default() };
        let mut data = Vec::new();
        for (number, segment) in [&first, &first.next(), &first.next().next()].iter().enumerate() {
            let mut bytes = segment.bytes();
            if number == 1 {
                bytes[at] = value;
                bytes.truncate(len);
            }
            data.extend((bytes.len() as u16).to_be_bytes());
            data.extend(bytes);
        }
        fuzz(&data);
    }
}

/// With this in front of it, as of a packet that goes back to its interface.
fn tagged(tag: u8, packet: &[u8]) -> Vec<u8> {
    let ethernet = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, tag, 0x08, 0x00];
    [&[0x81, 0x00, 0, tag, 0x08, 0x00], &ethernet[..], packet].concat()
}

#[test]
fn what_goes_back_is_joined_with_what_goes_back_likewise() {
    let first = Tcp::default();
    let second = first.next();
    let third = second.next();
    let [a, b, c] = [&first, &second, &third].map(Tcp::bytes);
    let all = [tagged(1, &a), tagged(1, &b), tagged(1, &c)];
    assert_eq!(runs(&all), [[0, 1, 2]]);
    let mut plan = plan_of(&all, Joined::Tcp);
    let run = plan.next_run().expect("a run");
    assert_eq!(plan.prefix(0), &all[0][..20]);
    assert_eq!(plan.packet(2), c);
    let (_, header, payload_at) = plan.super_header(&run).expect("joined");
    assert_eq!(header.len(), payload_at);
    assert_eq!(header[..2], a[..2], "without what stands in front");
    // Never across ports, senders, or what does not go back.
    assert_eq!(runs(&[tagged(1, &a), tagged(2, &b), tagged(1, &c)]), [[0], [1], [2]]);
    assert_eq!(runs(&[a.clone(), tagged(1, &b)]), [[0], [1]]);
    assert_eq!(runs(&[tagged(1, &a), b]), [[0], [1]]);
}
