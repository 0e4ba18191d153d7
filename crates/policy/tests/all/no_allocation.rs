//! Readers do not allocate, and what an SA or a policy costs to add does not grow with their number.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};

use crate::common::{ESP, UDP, headers, policy, sa, template, v4};
use policy::{Databases, Direction, Flow, Outbound, PolicyConfig};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting per thread.
struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        BYTES.with(|n| n.set(n.get() + layout.size() as u64));
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

/// Far more than an SA or a policy takes; copying all of them for each would be megabytes.
const MOST_EACH: u64 = 20_000;

#[test]
fn readers_do_not_allocate_among_100_000_sas() {
    let mut databases = Databases::new();
    let host = |i: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + i));
    let protect = PolicyConfig { templates: vec![template(v4(9))], ..policy(1, Direction::Out, 5) };
    databases.put_policy(protect.clone());
    databases.put_policy(PolicyConfig { direction: Direction::In, index: 2, ..protect });
    let mut reader = databases.reader();
    let before = BYTES.get();
    for i in 0..100_000 {
        databases.add_sa(sa(host(i), 1000 + i), i).unwrap();
    }
    let each = (BYTES.get() - before) / 100_000;
    assert!(each < MOST_EACH, "{each} bytes for each SA");
    assert_eq!(databases.sa_count(), 100_000);

    let before = ALLOCATIONS.get();
    assert!(reader.refresh());
    let h = headers(v4(1), v4(2), UDP, 1, 2);
    let flow = Flow::new(&h, 3);
    for i in 0..100_000 {
        let sa = reader.inbound_sa(host(i), 1000 + i, ESP, 0).unwrap();
        assert_eq!(reader.sa(sa).map(|sa| sa.esp), Some(i));
        assert!(reader.inbound_sa(host(i), i, ESP, 0).is_none());
    }
    let Outbound::Protect(_, sa) = reader.outbound(&flow) else { panic!("no SA") };
    assert!(reader.verify(Direction::In, &flow, reader.sa(sa).as_slice()).is_ok());
    assert!(reader.verify(Direction::Forward, &flow, &[]).is_ok());
    assert_eq!(ALLOCATIONS.get(), before, "a reader allocated");
}

#[test]
fn ten_thousand_policies_are_not_copied_for_each() {
    let mut databases = Databases::<()>::new();
    let host = |i: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + i));
    let before = BYTES.get();
    for i in 1..=10_000 {
        let mut config = policy(i, Direction::Out, 100 + i % 7);
        config.selector = crate::common::hosts(host(i), host(i + 1));
        databases.put_policy(config);
    }
    for i in (1..=10_000).filter(|i| i % 10 != 0) {
        databases.remove_policy(i).unwrap();
    }
    let each = (BYTES.get() - before) / 19_000;
    assert!(each < MOST_EACH, "{each} bytes for each policy");
    assert_eq!(databases.policies().len(), 1000);
}
