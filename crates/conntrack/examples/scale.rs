//! Memory and look-ups of a table of connections: `cargo run --release -p culvert-conntrack --example scale [MILLIONS]`.

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use conntrack::{Binding, Bindings, Change, Direction, Entry, Status, Tuple};

/// Connection `n`, of ten thousand hosts.
fn entry(n: u32) -> Entry {
    let [_, a, b, c] = (n % 10_000).to_be_bytes();
    let port = (n / 10_000) as u16 + 1024;
    let tuple = |src: [u8; 4], dst: [u8; 4], src_port, dst_port| Tuple {
        src: src.into(),
        dst: dst.into(),
        protocol: 17,
        src_port,
        dst_port,
    };
    let far = [198, 18, (n >> 16) as u8, (n >> 8) as u8];
    Entry {
        original: tuple([10, a, b, c], far, port, 53),
        reply: tuple(far, [192, 0, 2, 1], 53, (n % 60_000) as u16 + 1024),
        status: Status::CONFIRMED,
        tcp: None,
        id: n,
        zone: 0,
    }
}

/// Memory that the process has, in KiB.
fn resident_kib() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn main() {
    let millions: f64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1.0);
    let count = (millions * 1e6) as u32;
    let table = Bindings::default();
    let before = resident_kib();
    let begun = Instant::now();
    // As events bring them.
    for first in (0..count).step_by(1000) {
        let changes = (first..count.min(first + 1000)).flat_map(|n| {
            let binding = Arc::new(Binding::new(entry(n)));
            let both = [Direction::Original, Direction::Reply];
            both.map(|direction| Change::Put(Arc::clone(&binding), direction))
        });
        table.apply(changes);
    }
    let filled = begun.elapsed();
    let bytes = (resident_kib() - before) * 1024 / u64::from(count.max(1));
    let look_ups = 1_000_000_u32;
    // Far apart in memory.
    let tuples: Vec<Tuple> =
        (0..look_ups).map(|n| entry(n.wrapping_mul(7919) % count.max(1)).original).collect();
    let begun = Instant::now();
    let found = tuples.iter().filter(|tuple| table.find(tuple).is_some()).count();
    let ns = begun.elapsed().as_nanos() / u128::from(look_ups);
    println!(
        "{count} connections, {} directions: {bytes} bytes each, {:.2} us to put one in, {ns} ns to find one ({found} found)",
        table.len(),
        filled.as_micros() as f64 / f64::from(count.max(1)),
    );
}
