//! The hot path does not allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::packets::Ip;
use crate::replication::{Sites, voice};
use crate::support::{Gateway, Pair, Side, Sizes, Spec};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting per thread.
struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread while something is done.
pub fn by(what: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    what();
    ALLOCATIONS.get() - before
}

/// Rounds until nothing comes, without the harness's own checks; returns the allocations.
fn allocations(g: &mut Gateway) -> u64 {
    let made = by(|| while g.worker.round_at(g.now) > 0 {});
    g.check();
    made
}

fn traffic(pair: &mut Pair, count: u16) -> (u64, u64) {
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    let six = Ip::new(Side::A.lan(true, 10), Side::B.lan(true, 10));
    for n in 0..count {
        // Short ones, some that are cut in two, some whose hops run out, some for Linux.
        let packet = match n % 8 {
            0 => ip.sized(1500, n),
            1 => Ip { ttl: 1, ..ip }.sized(100, n),
            2 => six.sized(900, n),
            3 => Ip { dst: Side::B.lan(false, 1), ..ip }.sized(80, n),
            _ => ip.sized(100, n),
        };
        pair.a.put_lan(&packet);
    }
    let sealing = allocations(&mut pair.a);
    for packet in pair.a.wan_out() {
        pair.b.put_wan(&packet);
    }
    let opening = allocations(&mut pair.b);
    pair.a.lan_out();
    pair.b.lan_out();
    pair.b.linux_out();
    (sealing, opening)
}

#[test]
fn a_warm_worker_does_not_allocate() {
    for suite in [crate::support::GCM, crypto::Suite::ChaCha20Poly1305] {
        let mut pair = Pair::new(&Spec { suite, ..Spec::default() });
        traffic(&mut pair, 300);
        assert_eq!(traffic(&mut pair, 300), (0, 0), "{suite}");
    }
    let mut pair = Pair::new(&crate::iptfs::spec(|_| {}));
    traffic(&mut pair, 300);
    assert_eq!(traffic(&mut pair, 300), (0, 0), "in payloads");
}

/// Packets that are sent in copies, and wait for those before them at the far end.
#[test]
fn copies_do_not_allocate() {
    let mut sites = Sites::new(50);
    let mut made = (0, 0);
    for _ in 0..2 {
        (0..100).for_each(|n| sites.a.put_lan(&voice(n)));
        made.0 = allocations(&mut sites.a);
        let mut copies = sites.a.wan_out();
        // Each two in the wrong order, and one of seven lost.
        copies.chunks_mut(4).for_each(|four| four.reverse());
        let came = copies.iter().zip(0..).filter(|(_, n)| n % 7 != 0);
        came.for_each(|(copy, _)| sites.b.put_wan(copy));
        made.1 = allocations(&mut sites.b);
        sites.b.now.ns += 50_000_000;
        made.1 += allocations(&mut sites.b);
        assert!(sites.b.lan_out().len() > 90);
    }
    assert_eq!(made, (0, 0));
}

/// Packets that are sent with parity, and recovered by it at the far end.
#[test]
fn parity_does_not_allocate() {
    let mut sites = Sites::with_parity(50, crate::parity::PLAN);
    let mut made = (0, 0);
    for turn in 0..3 {
        (0..100).for_each(|n| sites.a.put_lan(&voice(n)));
        made.0 = allocations(&mut sites.a);
        let out = sites.a.wan_out();
        assert_eq!(out.len(), 125);
        // The second packet of each group, parity being the fifth.
        let came = out.iter().zip(0..).filter(|(_, n)| turn == 0 || n % 5 != 1);
        came.for_each(|(packet, _)| sites.b.put_wan(packet));
        made.1 = allocations(&mut sites.b);
        assert_eq!(sites.b.lan_out().len(), 100);
    }
    assert_eq!(made, (0, 0));
}

/// Packets that wait for tokens, and go on or find no room.
#[test]
fn waiting_for_tokens_does_not_allocate() {
    let (mut g, _) = crate::shaping::shaped(crate::shaping::settings(10_000, 1500, (40, 40_000)));
    for turn in 0..3 {
        for _ in 0..20 {
            (0..4).for_each(|n| g.put_lan(&crate::shaping::packet(n, 8 * n as u8, 1000 + n, 100)));
            g.now.ns += 10_000_000;
            let made = allocations(&mut g);
            assert!(turn == 0 || made == 0, "turn {turn}: {made}");
            g.wan_out();
        }
    }
    assert!(g.counters.totals().held > 30 && g.dropped(outcome::DropReason::LimitQueueFull) > 0);
}

/// Packets that go to the home of their limits and back, or are judged where they are as the home moves.
#[test]
fn being_judged_by_a_home_does_not_allocate() {
    use crate::atomic::{gateway, hold, limiter, packet, publish, settings};
    let total = limiter(settings(5_000, 20_000), None);
    let all = limiter(settings(1_000_000, 1_000_000), Some(&total));
    let mut g = gateway(2);
    publish(&mut g, &[(dataplane::TrafficDirection::Out, &all)]);
    for turn in 0..6 {
        let held = (turn % 2 == 0).then(|| hold(&all, 1));
        (0..200).for_each(|n| g.put_lan(&packet(Side::A, n % 8, n)));
        let before = ALLOCATIONS.get();
        let mut quiet = 0;
        while quiet < 3 {
            let came = g.worker.round_at(g.now) + g.others[0].worker.round_at(g.now);
            quiet = if came == 0 { quiet + 1 } else { 0 };
        }
        let made = ALLOCATIONS.get() - before;
        assert!(turn < 2 || made == 0, "turn {turn}: {made}");
        drop(held);
        g.check();
        g.wan_out();
        g.now.ns += 1_000_000_000;
    }
    assert!(g.dropped(outcome::DropReason::RateLimit) > 0);
    let handed: u64 = g.all_counters().map(|c| c.totals().handed_over).sum();
    assert!(handed > 600 && total.home() == Some(0), "{handed}");
}

#[test]
fn holding_and_dropping_do_not_allocate_either() {
    let spec = Spec::default();
    let sizes = Sizes { chunks: 4096, stock: 2000, port_limit: 512 };
    let mut g = Gateway::with_sizes(Side::A, sizes);
    g.add_policies(&spec);
    for turn in 0..3 {
        g.set_neighbours(forward::NeighbourState::Incomplete);
        let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        for n in 0..100 {
            g.put_lan(&ip.sized(100, n));
            g.put_linux(&Ip { src: Side::A.lan(false, 1), ..ip }.sized(100, n));
        }
        assert_eq!(allocations(&mut g), 0, "hold, turn {turn}");
        g.now.ns += 6_000_000_000;
        assert_eq!(allocations(&mut g), 0, "time out, turn {turn}");
        g.events();
    }
}

/// Packets that get segments and go through IPsec or not, and packets at segments.
#[test]
fn segments_do_not_allocate() {
    for through in [false, true] {
        let mut g = Gateway::new(Side::A);
        g.protect(&Spec::default());
        crate::srv6::publish_for_steps(&g, 1500, through, srv6::Mode::Encap);
        for turn in 0..3 {
            for n in 0..100 {
                let header = Ip::new(Side::A.lan(false, 10), crate::support::ip("203.0.113.9"));
                g.put_lan(&header.sized(100, n));
                let back = Ip::new(crate::support::ip("10.9.0.1"), Side::A.lan(false, 10));
                let inner = back.sized(100, n);
                g.put_wan(&crate::srv6::for_steps(n % 2 == 0, 9, &inner));
            }
            let made = allocations(&mut g);
            assert!(turn == 0 || made == 0, "turn {turn}: {made}");
            assert_eq!((g.wan_out().len(), g.lan_out().len()), (150, 50));
        }
    }
}
