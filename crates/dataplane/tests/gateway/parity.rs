//! Parity: packets that are lost on their one way come out of the others of their group.

use dataplane::{Came, ParityPlan, Step};
use outcome::DropReason;
use preof::{Group, LONGEST_COVERED, Numbered, Outside, PARITY_LEN, Parity};

use crate::explain::ask;
use crate::packets::{Ip, hopped};
use crate::replication::{Sites, forged, many_labels, sized, voice, with_class};
use crate::support::{Gateway, Side};

const MS: u64 = 1_000_000;
pub const PLAN: ParityPlan = ParityPlan { of: 4, wait_ns: 20 * MS };

/// All that A sends of packets of a host, in its order.
fn sent(sites: &mut Sites, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    packets.iter().for_each(|packet| sites.a.put_lan(packet));
    sites.a.run();
    sites.a.wan_out()
}

fn calls(from: u16, count: u16) -> Vec<Vec<u8>> {
    (from..from + count).map(voice).collect()
}

/// Sites whose far end has heard parity once, so that it keeps packets.
fn warm(wait_ms: u64) -> Sites {
    let mut sites = Sites::with_parity(wait_ms, PLAN);
    let out = sent(&mut sites, &calls(0, 4));
    assert_eq!(out.len(), 5);
    out.iter().for_each(|packet| sites.b.put_wan(packet));
    assert_eq!(sites.delivered(), [0, 1, 2, 3]);
    sites
}

#[test]
fn any_one_packet_of_a_group_comes_back_as_it_was_and_in_order() {
    for lost in 0..4 {
        let mut sites = warm(50);
        // Of all lengths, and with marks of congestion of their own.
        let packets: Vec<_> = (0..4)
            .map(|n| with_class(sized(100 + 300 * usize::from(n % 3), 10 + n), 46 << 2 | n as u8))
            .collect();
        let out = sent(&mut sites, &packets);
        assert_eq!(out.len(), 5);
        for (at, packet) in out.iter().enumerate() {
            if at != lost {
                sites.b.put_wan(packet);
            }
        }
        sites.b.run();
        let expected: Vec<_> = packets.iter().map(|packet| hopped(packet, 2)).collect();
        assert_eq!(sites.b.lan_out(), expected, "{lost}");
        let work = &sites.b.counters.work;
        assert_eq!((work.parity_taken.value(), work.parity_recovered.value()), (2, 1));
        assert_eq!(work.copies_gaps.value(), 0);
        assert_eq!(sites.a.drops(), []);
        assert_eq!(
            (sites.a.counters.work.parity_made.value(), sites.a.counters.totals().balance()),
            (2, 0)
        );
        // Each is as long as the longest of its packets.
        assert_eq!(sites.a.counters.work.parity_made_bytes.value(), 100 + 700);
        assert_eq!(sites.b.counters.totals().balance(), 0);
        // The lost one comes late.
        assert_eq!(sites.arrive(&out[lost]), []);
        assert_eq!(
            sites.b.drops(),
            [(DropReason::CopyDuplicate, 1), (DropReason::ParityMissing, 1)]
        );
    }
}

#[test]
fn two_losses_are_not_recovered_and_nothing_wrong_is_delivered() {
    let mut sites = warm(50);
    let out = sent(&mut sites, &calls(10, 4));
    [0, 3, 4].iter().for_each(|at: &usize| sites.b.put_wan(&out[*at]));
    assert_eq!(sites.delivered(), [10]);
    assert_eq!(sites.pass_ms(50), [13]);
    assert_eq!(sites.b.dropped(DropReason::ParityMissing), 2);
    assert_eq!(sites.b.counters.work.parity_recovered.value(), 0);
}

#[test]
fn a_group_that_does_not_fill_has_its_parity_in_time() {
    let mut sites = warm(50);
    let out = sent(&mut sites, &calls(10, 2));
    assert_eq!(out.len(), 2);
    sites.a.now.ns += 19 * MS;
    sites.a.run();
    assert_eq!(sites.a.wan_out().len(), 0);
    sites.a.now.ns += MS;
    sites.a.run();
    let parity = sites.a.wan_out();
    assert_eq!(parity.len(), 1);
    sites.b.put_wan(&out[1]);
    assert_eq!(sites.delivered(), []);
    assert_eq!(sites.arrive(&parity[0]), [10, 11]);
    // And one of a single packet is that packet.
    sent(&mut sites, &calls(12, 1));
    sites.a.now.ns += 20 * MS;
    sites.a.run();
    let alone = sites.a.wan_out().remove(0);
    assert_eq!(sites.arrive(&alone), [12]);
}

#[test]
fn parity_fits_the_path_and_what_is_too_long_goes_without() {
    let mut sites = warm(0);
    // MTU 1400, less IP, UDP, label, control word, and what parity has more.
    let longest = 1400 - 36 - PARITY_LEN;
    let packets: Vec<_> = (0..4).map(|n| sized(longest, n)).collect();
    let out = sent(&mut sites, &packets);
    assert_eq!(out.len(), 5);
    assert!(out.iter().all(|packet| packet.len() <= 1500), "{}", out[4].len());
    out[1..].iter().for_each(|packet| sites.b.put_wan(packet));
    let mut came = sites.delivered();
    came.sort_unstable();
    assert_eq!(came, [0, 1, 2, 3]);
    assert!(longest < LONGEST_COVERED);
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    let longer = Ip { dont_fragment: true, ..ip }.sized(longest + 1, 9);
    let longer = with_class(longer, 46 << 2);
    assert_eq!(sent(&mut sites, &[longer]).len(), 0);
}

#[test]
fn why_names_the_parity() {
    let mut sites = warm(0);
    let told = ask(&mut sites.a, &voice(1), Came::Port { ifindex: crate::support::LAN }).steps;
    assert!(told.contains(&Step::WithParity { of: 4 }), "{told:?}");
}

/// Parity by A's own programs, for a peer that is hostile.
fn forged_parity(parity: Parity, body: &[u8]) -> Vec<u8> {
    let (src, dst) = (Side::A.lan(false, 1), Side::B.lan(false, 1));
    let mut whole = vec![0; preof::overhead(dst) + PARITY_LEN];
    whole.extend(body);
    assert!(parity.emit(Outside { src, dst, class: 0, src_port: 49_152 }, &mut whole));
    whole
}

/// Parity of packets with the numbers from 100 on, and its body.
fn honest(label: u32, packets: &[Vec<u8>]) -> (Parity, Vec<u8>) {
    let (mut group, mut body) = (Group::new(label, 100), vec![0; LONGEST_COVERED]);
    for (packet, number) in packets.iter().zip(100..) {
        assert!(group.add(number, packet, &mut body));
    }
    body.truncate(group.body_len());
    (group.parity(), body)
}

/// Sites that have got the first of two packets of a group, and keep it.
fn one_of_two() -> (Sites, Parity, Vec<u8>) {
    let mut sites = Sites::with_parity(0, PLAN);
    let label = sites.label();
    let packets = calls(1, 2);
    let (parity, body) = honest(label, &packets);
    assert_eq!(sites.arrive_inside(&forged(Numbered { label, number: 99 }, &voice(9))), [9]);
    let early = Parity { label, base: 99, covered: 3, len: 0 };
    assert_eq!(sites.arrive_inside(&forged_parity(early, &[0; 100])), []);
    assert_eq!(sites.b.drops(), [(DropReason::ParityMissing, 1)]);
    assert_eq!(sites.arrive_inside(&forged(Numbered { label, number: 100 }, &packets[0])), [1]);
    (sites, parity, body)
}

#[test]
fn parity_with_lies_ends_with_its_name() {
    let (mut sites, parity, body) = one_of_two();
    let mut changed = body.clone();
    // No IP version, and a total length that is another.
    changed[0] ^= 0xf0;
    let mut longer = body.clone();
    longer[3] ^= 1;
    for (parity, body, reason) in [
        (parity, changed, DropReason::ParityMalformed),
        (parity, longer, DropReason::ParityMalformed),
        (parity, body[..99].to_vec(), DropReason::ParityMalformed),
        (parity, Vec::new(), DropReason::ParityMalformed),
        (Parity { len: 1, ..parity }, body.clone(), DropReason::ParityMalformed),
        (Parity { len: u16::MAX, ..parity }, body.clone(), DropReason::ParityMalformed),
        (Parity { covered: u64::MAX, ..parity }, body.clone(), DropReason::ParityMissing),
        (Parity { base: 7, ..parity }, body.clone(), DropReason::ParityMissing),
        (Parity { label: parity.label + 1, ..parity }, body.clone(), DropReason::ParityMissing),
        (Parity { covered: 2, ..parity }, body.clone(), DropReason::CopyMalformed),
        (Parity { base: 1 << 28, ..parity }, body.clone(), DropReason::CopyMalformed),
        // Of a packet that was delivered before parity was known: it is taken already.
        (Parity { base: 99, covered: 1, len: 100, ..parity }, voice(9), DropReason::CopyDuplicate),
    ] {
        let before = sites.b.dropped(reason);
        assert_eq!(sites.arrive_inside(&forged_parity(parity, &body)), [], "{reason:?}");
        assert_eq!(sites.b.dropped(reason), before + 1, "{parity:?}: {:?}", sites.b.drops());
    }
    // The true one, behind all these.
    assert_eq!(sites.arrive_inside(&forged_parity(parity, &body)), [2]);
    // Groups may overlap.
    assert_eq!(sites.arrive_inside(&forged_parity(parity, &body)), []);
    assert_eq!(sites.b.counters.totals().balance(), 0);
    assert!(sites.b.linux_out().is_empty());
}

#[test]
fn parity_says_nothing_of_congestion() {
    let mut sites = warm(0);
    let packets: Vec<_> = calls(4, 4).into_iter().map(|p| with_class(p, 46 << 2 | 2)).collect();
    let out = sent(&mut sites, &packets);
    let classes: Vec<_> = out.iter().map(|packet| packet[1]).collect();
    assert_eq!(classes, [46 << 2 | 2, 46 << 2 | 2, 46 << 2 | 2, 46 << 2 | 2, 46 << 2]);
}

#[test]
fn what_was_recovered_recovers_others() {
    let (mut sites, parity, body) = one_of_two();
    assert_eq!(sites.arrive_inside(&forged_parity(parity, &body)), [2]);
    let (next, body) = honest(parity.label, &calls(2, 2));
    assert_eq!(sites.arrive_inside(&forged_parity(Parity { base: 101, ..next }, &body)), [3]);
}

#[test]
fn what_is_recovered_is_judged_as_what_came_by_the_same_tunnel() {
    let mut sites = Sites::with_parity(0, PLAN);
    let label = sites.label();
    // From a network that is B's own.
    let martian = Ip::new(Side::B.lan(false, 1), Side::B.lan(false, 10)).sized(80, 1);
    let (parity, body) = honest(label, &[voice(1), martian]);
    assert_eq!(sites.arrive_inside(&forged(Numbered { label, number: 99 }, &voice(9))), [9]);
    sites.arrive_inside(&forged_parity(parity, &body));
    assert_eq!(sites.arrive_inside(&forged(Numbered { label, number: 100 }, &voice(1))), [1]);
    assert_eq!(sites.arrive_inside(&forged_parity(parity, &body)), []);
    assert_eq!(sites.b.drops(), [(DropReason::MartianSource, 1), (DropReason::ParityMissing, 1)]);
}

#[test]
fn parity_of_another_peer_recovers_nothing() {
    let (mut sites, parity, body) = one_of_two();
    // By the other tunnel, whose SA is another.
    let sealed = sites.sealed_by_second(&forged_parity(parity, &body));
    assert_eq!(sites.arrive(&sealed), []);
    assert_eq!(sites.b.dropped(DropReason::ParityMissing), 2);
}

#[test]
fn streams_without_packets_leave_their_memory_for_parity_to_others() {
    let mut sites = Sites::new(0);
    let labels = many_labels(&mut sites, 5);
    let begin = |sites: &mut Sites, label| {
        assert_eq!(sites.arrive_inside(&forged(Numbered { label, number: 99 }, &voice(9))), [9]);
        let early = Parity { label, base: 99, covered: 3, len: 0 };
        assert_eq!(sites.arrive_inside(&forged_parity(early, &[0; 100])), []);
    };
    let recovered = |sites: &mut Sites, label| {
        let packets = calls(1, 2);
        let (parity, body) = honest(label, &packets);
        let first = forged(Numbered { label, number: 100 }, &packets[0]);
        assert_eq!(sites.arrive_inside(&first), [1]);
        sites.arrive_inside(&forged_parity(parity, &body))
    };
    // As many as have one, and one more.
    labels[..65].iter().for_each(|label| begin(&mut sites, *label));
    assert_eq!(recovered(&mut sites, labels[0]), [2]);
    assert_eq!(recovered(&mut sites, labels[64]), []);
    sites.pass_ms(61_000);
    begin(&mut sites, labels[65]);
    assert_eq!(recovered(&mut sites, labels[65]), [2]);
    assert_eq!(sites.b.counters.totals().balance(), 0);
}

/// Makes gateway B drop parity for a reason.
pub fn produce(reason: DropReason) -> Gateway {
    let (mut sites, parity, body) = one_of_two();
    if reason == DropReason::ParityMalformed {
        sites.arrive_inside(&forged_parity(parity, &body[1..]));
    }
    sites.b
}
