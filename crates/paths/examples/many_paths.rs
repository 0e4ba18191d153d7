//! Cost of 50 000 sessions for the worker that measures: time of a round of 100 ms, in which as many probes are sent and
//! answered as an instance may send.
//!
//! `cargo run --release -p culvert-paths --example many_paths`

use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;

use paths::echo::Echo;
use paths::stamp::Timestamp;
use paths::{Bounds, Kind, Plan, Prober, Reply};

const SESSIONS: u64 = 50_000;
/// Probes a second of all sessions.
const A_SECOND: u64 = 10_000;
const ROUND_NS: u64 = 100_000_000;
const ROUNDS: u64 = 100;
/// Time from a probe to its reply.
const TRIP_NS: u64 = 1_000_000;

fn main() {
    let interval_ns = SESSIONS * 1_000_000_000 / A_SECOND;
    let bounds = Bounds { loss_ppm: 20_000, delay_ns: Some(50_000_000), jitter_ns: None };
    let plan = Plan {
        interval_ns,
        timeout_ns: interval_ns * 3,
        misses: 5,
        window: 100,
        bounds,
        hold_ns: 10_000_000_000,
    };
    let mut sessions: Vec<Prober> = (0..SESSIONS)
        .map(|n| Prober::new(Kind::Echo, plan, 1, n * interval_ns / SESSIONS))
        .collect();
    // Full windows, which take the longest to look at.
    for (n, prober) in (0..SESSIONS).zip(&mut sessions) {
        for at in 0..100 {
            let now_ns = n * interval_ns / SESSIONS + at * interval_ns;
            black_box(answered(prober, now_ns, n as u16));
            black_box(prober.tick(now_ns + TRIP_NS));
        }
    }
    let begin_ns = 100 * interval_ns;
    let mut due: BinaryHeap<_> =
        (0..sessions.len()).map(|at| std::cmp::Reverse((sessions[at].due_ns(), at))).collect();
    let (mut probes, mut spent) = (0_u64, Vec::new());
    for round in 0..ROUNDS {
        let until_ns = begin_ns + (round + 1) * ROUND_NS;
        let begun = Instant::now();
        while due.peek().is_some_and(|std::cmp::Reverse((at_ns, _))| *at_ns < until_ns) {
            let Some(std::cmp::Reverse((now_ns, at))) = due.pop() else { break };
            let prober = &mut sessions[at];
            if prober.is_due(now_ns) {
                probes += 1;
                black_box(answered(prober, now_ns, at as u16));
            }
            black_box(prober.tick(now_ns + TRIP_NS));
            due.push(std::cmp::Reverse((prober.due_ns(), at)));
        }
        spent.push(begun.elapsed());
    }
    spent.sort_unstable();
    let report = Instant::now();
    let lost: u32 = sessions.iter().take(64).map(|prober| prober.quality().lost).sum();
    let report = report.elapsed();
    println!(
        "{SESSIONS} sessions, {probes} probes in {ROUNDS} rounds of 100 ms: median {:?} a round, longest {:?}; \
         64 reports {report:?} ({lost} lost)",
        spent[spent.len() / 2],
        spent[spent.len() - 1],
    );
}

/// Sends a probe, and takes its reply.
fn answered(prober: &mut Prober, now_ns: u64, noise: u16) -> Option<Reply> {
    let mut out = [0; 112];
    let (seq, len) = prober.send(now_ns, Timestamp(now_ns << 16), noise, None, &mut out)?;
    let echo = Echo::parse(&out[..len])?;
    let mut reply = [0; 64];
    Echo { seq, ..echo }.emit(&mut reply)?;
    Some(prober.receive(now_ns + TRIP_NS, &reply, None))
}
