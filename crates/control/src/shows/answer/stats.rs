//! `culvert stats` and `culvert drops`: counters of the workers.

use std::collections::BTreeMap;

use dataplane::{BOUNDS_NS, Counters, Times, Totals};
use outcome::DropReason;
use report::{self, Drops, Outcomes, Stats};

use super::Parts;
use crate::workers::Workers;

/// Counters of all workers, and of each.
pub fn of_all(workers: &Workers) -> Stats {
    // The counters balance between two bursts, not inside one.
    let mut totals = workers.totals();
    for _ in 0..SETTLE_ATTEMPTS {
        if totals.balance() == 0 {
            break;
        }
        std::thread::sleep(SETTLE_PAUSE);
        totals = workers.totals();
    }
    let by_worker: Vec<_> = workers.counters().map(|c| stats(c.totals(), [c])).collect();
    Stats { by_worker, ..stats(totals, workers.counters()) }
}

/// Dropped packets, by reason.
pub fn drops(parts: Parts<'_>) -> Drops {
    let drops = DropReason::ALL.iter();
    let drops = drops.map(|reason| (reason.name().to_owned(), parts.crew.workers.dropped(*reason)));
    Drops { drops: drops.collect(), kernel: parts.sa.kernel_blocked() }
}

/// Totals, and the work of one worker or all of them.
fn stats<'a>(totals: Totals, counters: impl IntoIterator<Item = &'a Counters>) -> Stats {
    let (mut work, mut gtpu) = (BTreeMap::new(), BTreeMap::<_, u64>::new());
    let mut times = Times::default();
    for counters in counters {
        for (name, n) in counters.work.iter() {
            *work.entry(name.to_owned()).or_default() += n;
        }
        for (name, n) in counters.gtpu.iter() {
            *gtpu.entry(name.to_owned()).or_default() += n;
        }
        times += counters.latency.times();
    }
    if gtpu.values().all(|n| *n == 0) {
        // As it is nearly everywhere.
        gtpu.clear();
    }
    Stats {
        received: totals.received,
        generated: totals.generated,
        handed_over: totals.handed_over,
        taken_over: totals.taken_over,
        outcomes: Outcomes {
            transmitted: totals.transmitted,
            to_linux: totals.to_linux,
            consumed: totals.consumed,
            held: totals.held,
            dropped: totals.dropped,
        },
        balance: totals.balance(),
        work,
        gtpu,
        latency: latency(&times),
        by_worker: Vec::new(),
    }
}

fn latency(times: &Times) -> report::Latency {
    let bounds = BOUNDS_NS.into_iter().map(Some).chain([None]);
    let ranges = bounds.zip(times.buckets);
    report::Latency {
        sampled: times.count(),
        sum_ns: times.sum_ns,
        p50_ns: times.quantile_ns(500),
        p99_ns: times.quantile_ns(990),
        ranges: ranges
            .map(|(up_to_ns, packets)| report::LatencyRange { up_to_ns, packets })
            .collect(),
    }
}

/// How often, and how long apart, counters are read anew while a burst is under way.
const SETTLE_ATTEMPTS: u32 = 200;
const SETTLE_PAUSE: std::time::Duration = std::time::Duration::from_micros(200);
