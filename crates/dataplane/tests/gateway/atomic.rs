//! Limits that one worker has at a time: what passes is exact, by any worker that received it, and the home moves when it is idle.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use dataplane::{Each, RateRule, RateRules, TrafficDirection, TrafficMatch};
use limit::{LimitPath, Limiter, Place, Settings, Sharing};
use outcome::DropReason;

use crate::packets::Ip;
use crate::support::{Gateway, Side, Sizes, Spec};

const SIZES: Sizes = Sizes { chunks: 16384, stock: 8192, port_limit: 4096 };

/// Bytes a second, and the burst in bytes.
pub fn settings(rate: u64, burst: u64) -> Settings {
    Settings { sharing: Sharing::Atomic, ..Settings::single(rate * 8, burst) }
}

pub fn limiter(settings: Settings, parent: Option<&Arc<Limiter>>) -> Arc<Limiter> {
    Arc::new(Limiter::new("atomic", settings, parent.cloned(), (3, 0)))
}

/// Packets of these directions are under these limits.
pub fn publish(g: &mut Gateway, limits: &[(TrafficDirection, &Arc<Limiter>)]) {
    let rules = limits.iter().map(|(direction, limiter)| {
        let matches = TrafficMatch { direction: *direction, ..TrafficMatch::default() };
        RateRule { matches, each: Each::All, limiter: Arc::clone(limiter) }
    });
    g.rates = Arc::new(RateRules::new(rules.collect()));
    g.set_topology(1500, Vec::new());
}

/// A gateway whose outbound SA has one home, and the inbound one another.
pub fn gateway(workers: usize) -> Gateway {
    let mut g = Gateway::with_workers(Side::A, SIZES, 1024, workers);
    g.protect(&Spec::default());
    assert_eq!(g.sa(Side::A, &Spec::default()).home().claim(0), 0);
    assert_eq!(g.sa(Side::B, &Spec::default()).home().claim(1), 1);
    g
}

/// Has a worker hold a limiter's home until the end of this, as one does whose round is not over.
pub fn hold(limiter: &Limiter, worker: usize) -> Option<Place> {
    let place = LimitPath::new(limiter, worker).come();
    assert!(matches!(place, Some(Place::Held(_))), "{place:?}");
    place
}

/// A packet of 100 bytes of one of many flows, with its number.
pub fn packet(from: Side, flow: u16, number: u16) -> Vec<u8> {
    let header = Ip::new(from.lan(false, 10), from.other().lan(false, 10));
    let mut payload = [7; 72];
    payload[..2].copy_from_slice(&number.to_be_bytes());
    header.udp(1000 + flow, 2000, &payload)
}

/// The peer, which sends ESP and opens what it gets.
fn peer() -> Gateway {
    let mut peer = Gateway::with_sizes(Side::B, SIZES);
    peer.protect(&Spec::default());
    peer
}

/// So many ESP packets of the peer's, one for each number.
fn sealed(peer: &mut Gateway, numbers: impl Iterator<Item = u16>) -> Vec<Vec<u8>> {
    numbers.for_each(|n| peer.put_lan(&packet(Side::B, n % 8, n)));
    peer.run();
    peer.wan_out()
}

/// Checks that packets of each flow are in their order. Returns how many there are.
fn in_order(packets: &[Vec<u8>]) -> usize {
    for flow in 0..8 {
        let of = |p: &&Vec<u8>| u16::from_be_bytes([p[20], p[21]]) == 1000 + flow;
        let numbers = packets.iter().filter(of).map(|p| u16::from_be_bytes([p[28], p[29]]));
        assert!(numbers.is_sorted(), "flow {flow}");
    }
    packets.len()
}

/// A round of each worker but the first, the last one first.
fn others_round(g: &mut Gateway) {
    for other in g.others.iter_mut().rev() {
        other.worker.round_at(g.now);
    }
}

fn handed_over(g: &Gateway) -> u64 {
    g.all_counters().map(|counters| counters.totals().handed_over).sum()
}

/// Packets that a policy has counted.
fn counted(g: &Gateway, index: u32) -> u64 {
    g.db.policies().find(|p| p.config.index == index).expect("a policy").packets()
}

#[test]
fn the_home_judges_for_all_and_moves_when_it_is_idle() {
    for workers in [2, 3] {
        let (mut g, all) = (gateway(workers), limiter(settings(1000, 1000), None));
        publish(&mut g, &[(TrafficDirection::Out, &all)]);
        let other = workers - 1;
        let held = hold(&all, other);
        let send = |g: &mut Gateway, packets: u16| {
            let lan = g.lan.clone();
            for n in 0..packets {
                let (host, mac) = (packet(Side::A, n % 8, n), Side::A.mac(crate::support::LAN));
                let frame = crate::support::ethernet(mac, Side::A.host_mac(10), &host);
                g.put_into(&lan, &frame, io::HEADROOM);
            }
            g.run();
            g.wan_out().len()
        };
        assert_eq!((send(&mut g, 25), all.home()), (10, Some(other)));
        // There all of them, and back those that passed.
        assert_eq!((handed_over(&g), all.counts().packets), (25 + 10, [10, 0, 15]));
        g.now.ns += 1_000_000_000;
        assert_eq!(send(&mut g, 25), 10, "by plans");
        assert_eq!((handed_over(&g), all.home()), (70, Some(other)));
        drop(held);
        g.now.ns += 1_000_000_000;
        assert_eq!((send(&mut g, 25), all.home()), (10, Some(0)));
        assert_eq!(handed_over(&g), 70, "it has them itself");
        assert_eq!((counted(&g, 11), g.drops()), (75, vec![(DropReason::RateLimit, 45)]));
        let sa = g.sa(Side::A, &Spec::default());
        assert_eq!(sa.esp.live().packets().load(Relaxed), 30);
    }
}

/// Packets of both directions, and so of two workers, for a second. The home is held elsewhere now and then.
fn exact(workers: usize, limits: [&Arc<Limiter>; 2], total: &Arc<Limiter>) {
    let (rate, burst) = (500_000, 4000);
    let (mut g, mut peer) = (gateway(workers), peer());
    publish(&mut g, &[(TrafficDirection::Out, limits[0]), (TrafficDirection::In, limits[1])]);
    let (mut passed, begin, mut held) = (0, g.now.ns, None);
    for ms in 0..1000_u64 {
        if ms % 7 == 0 {
            drop(held.take());
            held = (ms % 3 > 0).then(|| hold(total, ms as usize % workers));
        }
        (0..4).for_each(|n| g.put_lan(&packet(Side::A, n % 8, n)));
        sealed(&mut peer, 0..4).iter().for_each(|esp| g.put_wan(esp));
        g.run();
        passed += 100 * (g.wan_out().len() + g.lan_out().len()) as u64;
        let filled = rate * (g.now.ns - begin) / 1_000_000_000;
        assert!(passed <= burst + filled, "{passed} of {burst} and {filled}");
        g.now.ns += 1_000_000;
        peer.now = g.now;
    }
    drop(held);
    assert!((rate * 99 / 100..=rate + burst).contains(&passed), "{passed}");
    let counts = total.counts();
    assert_eq!(counts.bytes[0], passed);
    let [out, back] = limits.map(|limit| limit.counts().packets[2]);
    let red = if Arc::ptr_eq(limits[0], total) {
        counts.packets[2]
    } else {
        out + back + counts.packets[2]
    };
    assert_eq!(g.drops(), [(DropReason::RateLimit, red)]);
    assert_eq!(red + passed / 100, 8000, "no packet is judged twice");
    assert!(handed_over(&g) > 500);
}

#[test]
fn a_rate_is_kept_to_one_percent_and_the_burst_never_passed() {
    for workers in [2, 3] {
        let all = limiter(settings(500_000, 4000), None);
        exact(workers, [&all, &all], &all);
        let total = limiter(settings(500_000, 4000), None);
        let leaves = [350_000, 300_000].map(|rate| limiter(settings(rate, 3000), Some(&total)));
        exact(workers, leaves.each_ref(), &total);
        assert!(leaves.iter().all(|leaf| leaf.counts().packets[0] > 1500));
    }
}

/// While the home is elsewhere, when it moves here, and when it moves away.
#[test]
fn flows_keep_their_order_when_the_home_moves() {
    let (mut g, all) = (gateway(3), limiter(settings(1, 1_000_000), None));
    publish(&mut g, &[(TrafficDirection::Both, &all)]);
    let mut peer = peer();
    let mut held = Some(hold(&all, 2));
    for round in 0..60_u16 {
        for n in 0..20 {
            g.put_lan(&packet(Side::A, n % 8, round * 20 + n));
        }
        // Some rounds of the workers, so that packets are on all parts of their way.
        for _ in 0..round % 4 {
            g.worker.round_at(g.now);
            if round % 3 == 0 {
                others_round(&mut g);
            }
        }
        match round % 5 {
            1 => held = None,
            3 => held = Some(LimitPath::new(&all, 2).come()),
            _ => {}
        }
    }
    drop(held);
    g.run();
    g.wan_out().iter().for_each(|esp| peer.put_wan(esp));
    peer.run();
    assert_eq!(in_order(&peer.lan_out()), 1200);
    assert_eq!((all.counts().packets, g.drops()), ([1200, 0, 0], vec![]));
}

/// A packet of which the home has seen nothing but its length is held against policies when it is back.
#[test]
fn policies_hold_for_what_is_on_its_way() {
    let (mut g, mut peer) = (gateway(3), peer());
    let all = limiter(settings(1, 100_000), None);
    publish(&mut g, &[(TrafficDirection::In, &all)]);
    let _held = hold(&all, 2);
    sealed(&mut peer, 0..8).iter().for_each(|esp| g.put_wan(esp));
    g.run();
    assert_eq!((g.lan_out().len(), all.counts().packets), (8, [8, 0, 0]));
    // Replayed packets never come so far.
    let again = sealed(&mut peer, 0..8);
    again.iter().chain(&again).for_each(|esp| g.put_wan(esp));
    // Two rounds of each, the last one first: they are decrypted, and at the home.
    for _ in 0..2 {
        others_round(&mut g);
        g.worker.round_at(g.now);
    }
    g.others[1].worker.round_at(g.now);
    assert_eq!((all.counts().packets, g.lan_out().len()), ([16, 0, 0], 0));
    g.db.remove_policy(13);
    g.run();
    assert_eq!(g.lan_out().len(), 0);
    assert_eq!(g.dropped(DropReason::InReplayDuplicate), 8);
    let drops: u64 = g.drops().iter().map(|(_, n)| n).sum();
    assert_eq!((drops, g.dropped(DropReason::RateLimit)), (16, 0), "{:?}", g.drops());
}

/// A judged packet goes on with its tokens when the SA has another home by then.
#[test]
fn a_verdict_goes_to_another_home_of_the_sa() {
    let (mut g, all) = (gateway(3), limiter(settings(1, 2000), None));
    publish(&mut g, &[(TrafficDirection::Out, &all)]);
    let held = hold(&all, 2);
    (0..30).for_each(|n| g.put_lan(&packet(Side::A, n % 8, n)));
    // To the SA's home, which asks.
    others_round(&mut g);
    g.worker.round_at(g.now);
    assert!(g.sa(Side::A, &Spec::default()).home().leave(0, 1));
    g.worker.forget_flows();
    g.run();
    assert_eq!((g.wan_out().len(), all.counts().packets), (20, [20, 0, 10]));
    assert_eq!((counted(&g, 11), g.drops()), (30, vec![(DropReason::RateLimit, 10)]));
    drop(held);
    assert!(matches!(LimitPath::new(&all, 1).come(), Some(Place::Held(_))), "nothing is under way");
}

/// A home that does not come to take anything over: what finds no room is dropped, and nothing holds the home for it.
#[test]
fn what_finds_no_room_is_dropped_and_said() {
    let (mut g, all) = (gateway(2), limiter(settings(1, 1_000_000), None));
    publish(&mut g, &[(TrafficDirection::Out, &all)]);
    let held = hold(&all, 1);
    let linux = g.linux.clone();
    for n in 0..2500 {
        let host = Ip {
            src: Side::A.lan(false, 1),
            ..Ip::new(Side::A.lan(false, 1), Side::B.lan(false, 10))
        };
        g.put_into(&linux, &host.udp(1000 + n % 8, 2000, &[7; 72]), io::HEADROOM);
    }
    while g.worker.round_at(g.now) > 0 {}
    let full = g.dropped(DropReason::HandOverFull);
    assert!((400..=500).contains(&full), "{full}");
    g.run();
    assert_eq!(g.wan_out().len() as u64, 2500 - full);
    assert_eq!(g.drops(), [(DropReason::HandOverFull, full)]);
    drop(held);
    assert!(matches!(LimitPath::new(&all, 0).come(), Some(Place::Held(_))), "nothing is under way");
}

/// Another set of workers, while packets are on their way between those that there are; how many leave.
fn change(g: &mut Gateway, workers: usize) -> usize {
    loop {
        let others: usize = g.others.iter_mut().map(|other| other.worker.settle()).sum();
        if others + g.worker.settle() == 0 {
            break;
        }
    }
    let left = g.wan_out().len();
    g.set_workers(workers);
    left
}

#[test]
fn other_workers_have_the_same_buckets() {
    let (mut g, all) = (gateway(3), limiter(settings(1, 4000), None));
    publish(&mut g, &[(TrafficDirection::Out, &all)]);
    let mut passed = Vec::new();
    for workers in [3, 1, 2, 3, 2] {
        let mut left = change(&mut g, workers);
        let held = (workers > 1).then(|| hold(&all, workers - 1));
        (0..9).for_each(|n| g.put_lan(&packet(Side::A, n % 8, n)));
        others_round(&mut g);
        g.worker.round_at(g.now);
        drop(held);
        left += change(&mut g, 4 - workers);
        g.run();
        passed.push(left + g.wan_out().len());
        assert!(all.home().is_some_and(|home| home < 3));
        assert!(all.changed(*all.settings(), None, (workers, g.now.ns)).shares_state(&all));
    }
    assert_eq!(passed, [9, 9, 9, 9, 4]);
    assert_eq!(all.counts().packets, [40, 0, 5]);
    assert_eq!(g.drops(), [(DropReason::RateLimit, 5)]);
}

#[test]
fn the_other_way_to_share_keeps_the_tokens() {
    let mut g = gateway(3);
    let leased = Settings::single(8, 1000);
    let mut all = limiter(leased, None);
    let mut passed = Vec::new();
    for (settings, packets) in
        [(leased, 4), (settings(1, 1000), 3), (leased, 2), (settings(1, 1000), 5)]
    {
        all = Arc::new(all.changed(settings, None, (3, g.now.ns)));
        publish(&mut g, &[(TrafficDirection::Out, &all)]);
        (0..packets).for_each(|n| g.put_lan(&packet(Side::A, n % 8, n)));
        g.run();
        passed.push(g.wan_out().len());
    }
    assert_eq!((passed, all.counts().packets), (vec![4, 3, 2, 1], [10, 0, 4]));
}

/// Three real threads, both directions, and a bucket that nothing fills.
#[test]
fn threads_pass_the_burst_to_the_packet() {
    // A bit a second, and half a packet more than 2000: the threads' clock is not that of the last round.
    let slow = |burst| Settings { sharing: Sharing::Atomic, ..Settings::single(1, burst) };
    let total = limiter(slow(200_050), None);
    let leaves = [150_000, 250_000].map(|burst| limiter(slow(burst), Some(&total)));
    let (mut g, mut peer) = (gateway(3), peer());
    let limits = [(TrafficDirection::Out, &leaves[0]), (TrafficDirection::In, &leaves[1])];
    publish(&mut g, &limits);
    let (mut out, mut back) = (Vec::new(), Vec::new());
    for round in 0..4_u16 {
        let numbers = round * 300..(round + 1) * 300;
        sealed(&mut peer, numbers.clone()).iter().for_each(|esp| g.put_wan(esp));
        numbers.for_each(|n| g.put_lan(&packet(Side::A, n % 8, n)));
        match round {
            // Of the last ones some do not pass: threads would not know when they are through.
            3 => {
                g.others.iter_mut().for_each(|other| other.worker.resume());
                g.worker.resume();
                g.run();
            }
            _ => g.run_threads(u64::from(round + 1) * 600),
        }
        out.extend(g.wan_out());
        back.extend(g.lan_out());
    }
    assert_eq!(in_order(&back) + out.len(), 2000);
    out.iter().for_each(|esp| peer.put_wan(esp));
    peer.run();
    assert_eq!(in_order(&peer.lan_out()), out.len());
    assert_eq!(total.counts().packets[0], 2000);
    assert_eq!(g.drops(), [(DropReason::RateLimit, 400)]);
}
