//! Packets in copies, and parity, while something around them changes: workers, keys, consent, paths, and numbers that go round.

use dataplane::ParityPlan;
use outcome::DropReason;
use policy::{Action, Direction, PolicyConfig};
use preof::{Group, LONGEST_COVERED, NUMBERS, Numbered, Outside, PARITY_LEN};

use crate::packets::{Ip, hopped, number};
use crate::parity::PLAN;
use crate::replication::{
    FIRST_SPI, FIRST_TUNNEL, REKEYED, Setup, Sites, forged, remove_sa, spi, voice, with_class,
};
use crate::route_based::everything;
use crate::support::{LAN, Side, ethernet, policy};

const MS: u64 = 1_000_000;
const HOSTS: u16 = 12;

/// Packets of several calls, each of a port of its own.
fn calls(from: u16, count: u16, is_v6: bool) -> Vec<Vec<u8>> {
    let ip = Ip::new(Side::A.lan(is_v6, 10), Side::B.lan(is_v6, 10));
    let packet =
        |n: u16| ip.udp(5000 + n % HOSTS, 6000, &[&n.to_be_bytes()[..], &[7; 80]].concat());
    (from..from + count).map(|n| with_class(packet(n), 46 << 2)).collect()
}

/// All that A sends of packets, and of parity that becomes due.
fn sent(sites: &mut Sites, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    packets.iter().for_each(|packet| sites.a.put_lan(packet));
    sites.a.run();
    let mut out = sites.a.wan_out();
    sites.a.pass_ns(PLAN.wait_ns);
    out.extend(sites.a.wan_out());
    out
}

/// Packets that B forwards of those that arrive, by their numbers, once nothing waits.
fn arrived<'a>(sites: &mut Sites, packets: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<Vec<u8>> {
    packets.into_iter().for_each(|packet| sites.b.put_wan(packet));
    sites.b.run();
    let mut out = sites.b.lan_out();
    sites.b.pass_ns(50 * MS);
    out.extend(sites.b.lan_out());
    out.sort_by_key(|packet| number(packet));
    out
}

fn two_hops(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    packets.iter().map(|packet| hopped(packet, 2)).collect()
}

/// Of each copy's flow another worker than that of its SA, or of its stream, may be the owner.
#[test]
fn any_loss_of_one_path_is_made_good_by_workers_that_share_flows_and_sas() {
    for (more_workers, v6, outer_v6) in
        [(0, true, false), (1, false, true), (2, false, false), (2, true, true)]
    {
        let setup = Setup { wait_ms: 50, more_workers, outer_v6, ..Setup::default() };
        let mut sites = Sites::with(setup);
        let packets = calls(0, 60, v6);
        let out = sent(&mut sites, &packets);
        assert_eq!(out.len(), 120);
        // The first path loses every third packet, the second one every second of the others.
        let mut of_path = [0, 0];
        let left = out.iter().filter(|copy| {
            let path = (spi(copy) - FIRST_SPI) as usize;
            of_path[path] += 1;
            match path {
                0 => of_path[0] % 3 != 0,
                _ => of_path[1] % 3 != 1,
            }
        });
        assert_eq!(arrived(&mut sites, left), two_hops(&packets), "{more_workers} {v6} {outer_v6}");
        assert_eq!(
            (sites.a.drops(), sites.b.drops()),
            (vec![], vec![(DropReason::CopyDuplicate, 20)])
        );
        let taken: u64 = sites.b.all_counters().map(|c| c.work.copies_taken.value()).sum();
        assert_eq!(taken, 80);
    }
}

#[test]
fn parity_recovers_what_flows_of_several_workers_lose() {
    for (more_workers, v6, outer_v6) in
        [(0, true, false), (1, false, true), (2, false, false), (2, true, true)]
    {
        let parity = Some(PLAN);
        let mut sites = Sites::with(Setup { wait_ms: 50, more_workers, outer_v6, parity });
        // B keeps packets of a stream from its first parity on.
        let warm = sent(&mut sites, &calls(0, 60, v6));
        assert_eq!(arrived(&mut sites, &warm).len(), 60);
        let missing = sites.b.dropped(DropReason::ParityMissing);
        for lost in 0..40 {
            let packets = calls(100, 40, v6);
            let mut out = sent(&mut sites, &packets);
            assert!(out.len() > 40, "{}", out.len());
            out.remove(lost);
            let came = arrived(&mut sites, &out);
            assert_eq!(came, two_hops(&packets), "{more_workers} {v6} {outer_v6} {lost}");
        }
        assert_eq!(sites.b.drops(), [(DropReason::ParityMissing, missing)]);
        let sum = |count: fn(&dataplane::Counters) -> u64, sites: &Sites| {
            let all = sites.a.all_counters().chain(sites.b.all_counters());
            all.map(|counters| count(counters)).sum::<u64>()
        };
        assert!(sum(|c| c.work.parity_recovered.value(), &sites) >= 20);
        assert_eq!(sites.a.drops(), []);
    }
}

#[test]
fn open_groups_are_closed_when_workers_change() {
    for (before, after) in [(1, 2), (3, 1)] {
        let setup =
            Setup { wait_ms: 50, more_workers: before - 1, parity: Some(PLAN), ..Setup::default() };
        let mut sites = Sites::with(setup);
        let packets = calls(0, 3, false);
        packets.iter().for_each(|packet| sites.a.put_lan(packet));
        sites.a.run();
        assert_eq!(sites.a.wan_out().len(), 3);
        sites.a.set_workers(after);
        sites.a.run();
        let parity = sites.a.wan_out().len();
        assert!(parity > 0);
        sites.a.pass_ns(PLAN.wait_ns);
        assert_eq!(sites.a.wan_out().len(), 0);
        let made: u64 = sites.a.all_counters().map(|c| c.work.parity_made.value()).sum();
        assert_eq!(made, parity as u64);
    }
}

#[test]
fn all_streams_go_on_when_workers_change() {
    let mut sites = Sites::new(1000);
    let first = sites.label();
    for (label, n) in (first..first + 3).zip(1..) {
        assert_eq!(sites.arrive_inside(&forged(Numbered { label, number: 1 }, &voice(n))), []);
    }
    sites.b.set_workers(2);
    let mut went = sites.delivered();
    went.sort_unstable();
    assert_eq!((went, sites.b.drops()), (vec![1, 2, 3], vec![]));
}

/// Frames that have left come back to the wire of the test, and not to the pool.
#[test]
fn without_buffers_packets_go_once_and_without_parity() {
    for parity in [None, Some(PLAN)] {
        let mut sites = Sites::with(Setup { parity, ..Setup::default() });
        let mut most = 0;
        let last = loop {
            (0..200).for_each(|n| sites.a.put_lan(&voice(n)));
            sites.a.run();
            let out = sites.a.wan_out().len();
            most = most.max(out);
            if sites.a.dropped(DropReason::NoFrames) > 200 {
                break out;
            }
        };
        assert_eq!((most, last), if parity.is_some() { (250, 200) } else { (400, 200) });
        assert_eq!(sites.a.drops().len(), 1, "{:?}", sites.a.drops());
    }
}

#[test]
fn a_packet_without_room_in_front_is_copied_all_the_same() {
    let mut sites = Sites::new(0);
    let frame = ethernet(Side::A.mac(LAN), Side::A.host_mac(10), &voice(1));
    let lan = sites.a.lan.clone();
    sites.a.put_at(&lan, &frame, 2);
    sites.a.run();
    let out = sites.a.wan_out();
    assert_eq!((out.len(), sites.a.drops()), (2, vec![]));
    assert_eq!(sites.arrive(&out[0]), [1]);
}

#[test]
fn copies_under_old_and_new_keys_are_of_one_stream() {
    for more_workers in [0, 2] {
        let mut sites = Sites::with(Setup { wait_ms: 50, more_workers, ..Setup::default() });
        let mut copies: Vec<_> = (0..3).map(|n| sites.copies(&voice(n))).collect();
        sites.rekey(0);
        copies.extend((3..6).map(|n| sites.copies(&voice(n))));
        sites.rekey(1);
        copies.extend((6..9).map(|n| sites.copies(&voice(n))));
        let spis: Vec<_> = copies.iter().flatten().map(|copy| spi(copy) / REKEYED).collect();
        assert_eq!(spis, [0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1]);
        assert_eq!(sites.arrive(&copies[0][0]), [0]);
        // The last under the old key of each path come behind the first ones under the new keys.
        assert_eq!(sites.arrive(&copies[3][0]), []);
        assert_eq!(sites.arrive(&copies[6][1]), []);
        assert_eq!(sites.arrive(&copies[1][0]), [1]);
        assert_eq!(sites.arrive(&copies[2][1]), [2, 3]);
        assert_eq!(sites.arrive(&copies[4][1]), [4]);
        assert_eq!(sites.arrive(&copies[5][0]), [5, 6]);
        // The old SAs are gone; what waits goes on all the same.
        assert_eq!(sites.arrive(&copies[8][0]), []);
        remove_sa(&mut sites.b, FIRST_SPI);
        remove_sa(&mut sites.b, FIRST_SPI + 1);
        assert_eq!(sites.arrive(&copies[7][1]), [7, 8]);
        assert_eq!((sites.a.drops(), sites.b.drops()), (vec![], vec![]));
    }
}

/// Parity is about packets of one SA alone: of a group over two of them a loss is not made good, and nothing else is delivered for it.
#[test]
fn parity_of_the_group_in_which_keys_change_recovers_nothing_and_the_next_one_does() {
    let mut sites = Sites::with_parity(50, PLAN);
    let put = |sites: &mut Sites, from: u16, count: u16| {
        (from..from + count).for_each(|n| sites.a.put_lan(&voice(n)));
        sites.a.run();
        sites.a.wan_out()
    };
    let warm = put(&mut sites, 0, 4);
    assert_eq!(arrived(&mut sites, &warm).len(), 4);
    let mut group = put(&mut sites, 4, 2);
    sites.rekey(0);
    group.extend(put(&mut sites, 6, 2));
    let spis: Vec<_> = group.iter().map(|packet| spi(packet) / REKEYED).collect();
    assert_eq!(spis, [0, 0, 1, 1, 1]);
    group.remove(2);
    let came: Vec<_> = arrived(&mut sites, &group).iter().map(|packet| number(packet)).collect();
    assert_eq!(came, [4, 5, 7]);
    assert_eq!(sites.b.dropped(DropReason::ParityMissing), 2);
    let mut group = put(&mut sites, 8, 4);
    group.remove(1);
    let came: Vec<_> = arrived(&mut sites, &group).iter().map(|packet| number(packet)).collect();
    assert_eq!(came, [8, 9, 10, 11]);
}

#[test]
fn what_waits_goes_on_when_consent_is_withdrawn_and_later_copies_are_linuxs() {
    for more_workers in [0, 2] {
        let mut sites = Sites::with(Setup { wait_ms: 50, more_workers, ..Setup::default() });
        let copies: Vec<_> = (0..4).map(|n| sites.copies(&voice(n))).collect();
        assert_eq!(sites.arrive(&copies[0][0]), [0]);
        assert_eq!(sites.arrive(&copies[2][0]), []);
        sites.consent(false);
        // Those that come are datagrams as any.
        assert_eq!(sites.arrive(&copies[1][0]), []);
        assert_eq!(sites.arrive(&copies[2][1]), []);
        assert_eq!(sites.b.linux_out().len(), 2);
        assert_eq!(sites.pass_ms(50), [2]);
        sites.consent(true);
        assert_eq!(sites.arrive(&copies[3][1]), [3]);
        assert_eq!(sites.arrive(&copies[2][1]), []);
        let drops = sites.b.drops();
        // The same datagram came before: its SA has seen it.
        assert_eq!(drops.iter().map(|(_, count)| count).sum::<u64>(), 1, "{drops:?}");
    }
}

#[test]
fn a_sender_without_consent_sends_once_and_goes_on_with_its_numbers_afterwards() {
    for parity in [None, Some(PLAN)] {
        for more_workers in [0, 2] {
            let mut sites =
                Sites::with(Setup { wait_ms: 50, more_workers, parity, ..Setup::default() });
            let streams = sites.streams();
            sites.replicate(0, Some(&streams));
            let first = sent(&mut sites, &calls(0, 24, false));
            assert_eq!(arrived(&mut sites, &first).len(), 24);
            // Of a group that is open its parity is sent still.
            calls(24, 2, false).iter().for_each(|packet| sites.a.put_lan(packet));
            sites.a.run();
            sites.replicate(0, None);
            let second = sent(&mut sites, &calls(26, 24, false));
            // Two with two of parity, or two copies of each.
            assert_eq!(second.len(), 4 + 24);
            assert_eq!(arrived(&mut sites, &second).len(), 26);
            sites.replicate(0, Some(&streams));
            let third = sent(&mut sites, &calls(50, 24, false));
            assert_eq!(arrived(&mut sites, &third), two_hops(&calls(50, 24, false)));
            assert_eq!((sites.a.drops(), sites.b.dropped(DropReason::CopyLate)), (vec![], 0));
        }
    }
}

/// Policy judges a packet when its turn comes, by the SA that has brought it. Its second copy is refused, so that both would
/// be lost without it.
#[test]
fn what_waits_goes_on_when_its_sa_is_removed() {
    for more_workers in [0, 2] {
        let mut sites = Sites::with(Setup { wait_ms: 50, more_workers, ..Setup::default() });
        let copies: Vec<_> = (0..5).map(|n| sites.copies(&voice(n))).collect();
        assert_eq!(sites.arrive(&copies[0][0]), [0]);
        assert_eq!(sites.arrive(&copies[2][0]), []);
        remove_sa(&mut sites.b, FIRST_SPI);
        assert_eq!(sites.arrive(&copies[1][1]), [1, 2]);
        assert_eq!(sites.b.drops(), []);
        assert_eq!(sites.arrive(&copies[2][1]), []);
        assert_eq!(sites.b.drops(), [(DropReason::CopyDuplicate, 1)]);
        assert_eq!(sites.arrive(&copies[4][1]), []);
        remove_sa(&mut sites.b, FIRST_SPI + 1);
        assert_eq!(sites.pass_ms(50), [4]);
        assert_eq!(sites.b.drops(), [(DropReason::CopyDuplicate, 1)]);
        assert_eq!(sites.b.all_counters().map(|c| c.totals().held).sum::<u64>(), 0);
    }
}

#[test]
fn what_waits_is_refused_with_and_without_its_sa_where_a_policy_refuses_it() {
    for is_removed in [false, true] {
        let mut sites = Sites::new(50);
        let copies: Vec<_> = (0..3).map(|n| sites.copies(&voice(n))).collect();
        assert_eq!(sites.arrive(&copies[0][0]), [0]);
        assert_eq!(sites.arrive(&copies[2][0]), []);
        let refuses = policy(90, Direction::Forward, everything(), vec![]);
        let (if_id, action) = (FIRST_TUNNEL, Action::Block);
        sites.b.db.put_policy(PolicyConfig { if_id, action, priority: 1, ..refuses });
        if is_removed {
            remove_sa(&mut sites.b, FIRST_SPI);
        }
        assert_eq!(sites.arrive(&copies[1][1]), [1]);
        assert_eq!(sites.b.drops(), [(DropReason::InPolicyBlock, 1)]);
    }
}

/// A path may be dead long before its SA goes: what it has brought is delivered.
#[test]
fn what_waits_goes_on_when_nothing_more_comes_by_its_path() {
    let mut sites = Sites::new(50);
    let copies: Vec<_> = (0..5).map(|n| sites.copies(&voice(n))).collect();
    assert_eq!(sites.arrive(&copies[0][0]), [0]);
    assert_eq!(sites.arrive(&copies[2][0]), []);
    assert_eq!(sites.pass_ms(49), []);
    assert_eq!(sites.arrive(&copies[1][1]), [1, 2]);
    assert_eq!(sites.arrive(&copies[4][0]), []);
    assert_eq!(sites.pass_ms(50), [4]);
    assert_eq!(sites.arrive(&copies[3][1]), [3]);
    assert_eq!(sites.b.drops(), []);
}

#[test]
fn parity_goes_by_the_path_of_its_packets() {
    let mut sites = Sites::with_parity(50, PLAN);
    let streams = sites.streams();
    let mut put = |first: usize, from: u16| {
        sites.replicate(first, Some(&streams));
        (from..from + 2).for_each(|n| sites.a.put_lan(&voice(n)));
        sites.a.run();
        sites.a.wan_out().iter().map(|packet| spi(packet) - FIRST_SPI).collect::<Vec<_>>()
    };
    assert_eq!(put(0, 0), [0, 0]);
    // The group ends with its path: its parity leaves there.
    let mut moved = put(1, 2);
    moved.sort_unstable();
    assert_eq!(moved, [0, 1, 1]);
    assert_eq!(put(1, 4), [1, 1, 1]);
}

#[test]
fn a_flow_that_moves_to_the_other_path_stays_one_stream() {
    let mut sites = Sites::new(50);
    let streams = sites.streams();
    sites.replicate(0, Some(&streams));
    let copies: Vec<_> = (0..2).map(|n| sites.copies(&voice(n))).collect();
    assert_eq!(sites.arrive(&copies[0][0]), [0]);
    sites.replicate(1, Some(&streams));
    let moved: Vec<_> = (2..4).map(|n| sites.copies(&voice(n))).collect();
    assert_eq!(sites.arrive(&moved[0][1]), []);
    assert_eq!(sites.arrive(&copies[1][1]), [1, 2]);
    assert_eq!(sites.arrive(&moved[0][0]), []);
    assert_eq!(sites.arrive(&moved[1][0]), [3]);
    assert_eq!(sites.a.drops(), []);
    assert_eq!(sites.b.drops(), [(DropReason::CopyDuplicate, 1)]);
}

#[test]
fn a_group_over_the_end_of_the_numbers_is_put_in_order_and_recovered() {
    let plan = ParityPlan { of: 4, ..PLAN };
    let mut sites = Sites::with_parity(50, plan);
    let label = sites.label();
    let copy =
        |number: u32, n: u16| forged(Numbered { label, number: number % NUMBERS }, &voice(n));
    let parity = |base: u32, packets: &[u16]| {
        let (mut group, mut body) = (Group::new(label, base), vec![0; LONGEST_COVERED]);
        for (n, number) in packets.iter().zip(base..) {
            assert!(group.add(number % NUMBERS, &voice(*n), &mut body));
        }
        let (src, dst) = (Side::A.lan(false, 1), Side::B.lan(false, 1));
        let mut whole = vec![0; preof::overhead(dst) + PARITY_LEN];
        whole.extend(&body[..group.body_len()]);
        let outside = Outside { src, dst, class: 0, src_port: 49_152 };
        assert!(group.parity().emit(outside, &mut whole));
        whole
    };
    let first = NUMBERS - 3;
    assert_eq!(sites.arrive_inside(&copy(first, 1)), [1]);
    assert_eq!(sites.arrive_inside(&parity(first, &[1])), []);
    assert_eq!(sites.arrive_inside(&copy(first + 1, 2)), [2]);
    // The last number of all is lost.
    assert_eq!(sites.arrive_inside(&copy(first + 3, 4)), []);
    assert_eq!(sites.arrive_inside(&copy(first + 4, 5)), []);
    assert_eq!(sites.arrive_inside(&parity(first + 1, &[2, 3, 4, 5])), [3, 4, 5]);
    assert_eq!(sites.arrive_inside(&copy(first + 2, 3)), []);
    assert_eq!(sites.b.drops(), [(DropReason::CopyDuplicate, 1), (DropReason::ParityMissing, 1)]);
    assert_eq!(sites.b.counters.work.copies_gaps.value(), 0);
}
