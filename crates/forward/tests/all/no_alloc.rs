//! Functions that workers call per packet do not allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use forward::icmp_error::{MAX_LEN, build};
use forward::{
    Fib, HoldLimits, HoldQueue, Hop, IcmpCause, NeighbourEntry, NeighbourState, Neighbours,
    RateLimiter, Reporter, RouteEntry, RouteKind, RuleEntry, Subnet, fragment, table,
};
use wire::ipv4::Ipv4Fields;
use wire::{MacAddr, parse_ip};

/// The system's allocator, counting what each thread asks of it.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came; the counter is a thread-local
// without a destructor, so using it does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(black_box(vec![0u8; 100]))), 1);
}

#[test]
fn per_packet_work_allocates_nothing() {
    let route = |i: u32| RouteEntry {
        table: table::MAIN,
        dst: Subnet { addr: std::net::IpAddr::V4((0x0a00_0000 | i << 8).into()), len: 24 },
        kind: RouteKind::Unicast,
        priority: 0,
        hops: vec![Hop { ifindex: 2, gateway: None, weight: 1 }; 2],
        mtu: None,
        src: None,
    };
    let fib = Fib::new((0..500).map(route), RuleEntry::defaults(), None);
    let mut packet = Ipv4Fields {
        traffic_class: 0,
        total_len: 1000,
        ident: 1,
        dont_fragment: false,
        ttl: 9,
        protocol: 50,
        src: [192, 0, 2, 1].into(),
        dst: [10, 0, 1, 1].into(),
    }
    .to_bytes()
    .to_vec();
    packet.resize(1000, 0);
    let neighbour = NeighbourEntry {
        ifindex: 2,
        addr: [10, 0, 1, 1].into(),
        mac: Some(MacAddr([2; 6])),
        state: NeighbourState::Reachable,
    };
    let neighbours: Neighbours = [neighbour].into_iter().collect();
    let mut queue = HoldQueue::new(HoldLimits { per_key: 8, total: 64, timeout_ns: 100 });
    let limiter = RateLimiter::new(1000, 10);
    let mut out = [0u8; MAX_LEN];

    let count = allocations(|| {
        for now in 0..10_000u64 {
            let h = parse_ip(&packet).unwrap();
            let result = black_box(fib.lookup(h.dst, h.src, 0, 1));
            let (ifindex, addr) = result.neighbour(h.dst).unwrap();
            black_box(neighbours.resolve(ifindex, addr));
            // Keys change all the time, so that the queue's map has to reuse its places.
            let _ = black_box(queue.push((now * 7) % 1009, now, now));
            if now % 3 == 0 {
                black_box(queue.pop(&((now * 7) % 1009)));
            }
            while queue.pop_expired(now).is_some() {}
            let plan = fragment::plan(&h, &packet, 576).unwrap();
            for n in 0..plan.count() {
                black_box(plan.write(n, &mut out).unwrap());
            }
            let from = Reporter { src: [192, 0, 2, 9].into(), ident: 1 };
            black_box(build(IcmpCause::NoRoute, &packet, &h, false, from, &mut out).unwrap());
            black_box(limiter.allow(now));
        }
    });
    assert_eq!(count, 0);
}
