//! Timing: warm-up, repetitions in turns of gateway and raw cipher, medians.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use crypto::{Op, Suite};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::bed::Bed;
use crate::cycles;
use crate::{BenchError, Direction, EspOptions, MIN_SIZE, Row};

/// Measures every suite with every size in every direction, one after the other, on one core.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn esp(options: &EspOptions<'_>) -> Result<Vec<Row>, BenchError> {
    check(options)?;
    // A thread of its own, so that the caller's core is as before.
    thread::scope(|scope| {
        let measured = scope.spawn(|| {
            pin(options.cpu)?;
            let mut rows = Vec::new();
            for suite in &options.suites {
                for direction in &options.directions {
                    for size in &options.sizes {
                        rows.push(measure(options, *suite, *size, *direction)?);
                    }
                }
            }
            Ok(rows)
        });
        match measured.join() {
            Ok(rows) => rows,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn check(options: &EspOptions<'_>) -> Result<(), BenchError> {
    let refuse = |what, given, allowed| Err(BenchError::Option { what, given, allowed });
    if let Some(size) = options.sizes.iter().copied().find(|size| *size < MIN_SIZE) {
        return refuse("size", size, "28 bytes and more");
    }
    if options.repeat == 0 {
        return refuse("repeat", 0, "1 and more");
    }
    if !(1..=MAX_SAS).contains(&options.sas) {
        return refuse("sas", options.sas, "1 to 65536");
    }
    // The SAs take turns within the packets under way.
    if !(64..=1 << 20).contains(&options.frames) {
        return refuse("frames", options.frames as usize, "64 to 1048576");
    }
    if !(options.frames as usize).is_multiple_of(options.sas) {
        return refuse("sas", options.sas, "a divisor of frames");
    }
    Ok(())
}

/// Keeps the calling thread on one core: the one asked for, or where it is.
fn pin(cpu: Option<usize>) -> Result<(), BenchError> {
    let mut set = CpuSet::new();
    let cpu = cpu.unwrap_or_else(rustix::thread::sched_getcpu);
    if cpu >= CpuSet::MAX_CPU {
        let allowed = "the number of a core";
        return Err(BenchError::Option { what: "cpu", given: cpu, allowed });
    }
    set.set(cpu);
    let failed =
        |e: rustix::io::Errno| BenchError::System { what: "pin to a core", source: e.into() };
    sched_setaffinity(None, &set).map_err(failed)
}

/// One suite, size and direction.
fn measure(
    options: &EspOptions<'_>,
    suite: Suite,
    size: usize,
    direction: Direction,
) -> Result<Row, BenchError> {
    let mut bed = Bed::new(options, suite, size, direction)?;
    // Warm-up, and the proof that what is timed does its work.
    bed.load()?;
    bed.run();
    bed.unload()?;
    bed.verify()?;
    raw(&mut bed, direction, Duration::ZERO)?;

    let mut gateway = Vec::with_capacity(options.repeat);
    let mut cipher = Vec::with_capacity(options.repeat);
    for _ in 0..options.repeat {
        gateway.push(path(&mut bed, options)?);
        cipher.push(raw(&mut bed, direction, options.duration)?);
    }
    let rates: Vec<f64> = gateway.iter().map(Timed::mpps).collect();
    let mpps_median = median(rates.clone());
    let raw_mpps = median(cipher.iter().map(Timed::mpps).collect());
    let cycles: Option<Vec<f64>> = gateway.iter().map(Timed::cycles_per_packet).collect();
    let packets: u64 = gateway.iter().map(|t| t.packets).sum();
    let allocations: u64 = gateway.iter().map(|t| t.allocations).sum();
    Ok(Row {
        bench: "esp",
        engine: options.provider.name(),
        suite: suite.to_string(),
        direction,
        size_bytes: size,
        sas: options.sas,
        cores: 1,
        mpps_median,
        mpps_min: rates.iter().copied().fold(f64::INFINITY, f64::min),
        mpps_max: rates.iter().copied().fold(0.0, f64::max),
        gbps_median: mpps_median * size as f64 * 8.0 / 1000.0,
        cycles_per_packet: cycles.map(median),
        raw_mpps,
        ratio_raw: mpps_median / raw_mpps,
        allocations_per_packet: options.allocations.map(|_| allocations as f64 / packets as f64),
    })
}

/// The gateway's path, until the time is over.
fn path(bed: &mut Bed, options: &EspOptions<'_>) -> Result<Timed, BenchError> {
    let mut timed = Timed::default();
    while timed.time < options.duration || timed.packets == 0 {
        bed.load()?;
        let packets = bed.packets();
        timed.piece(packets, options.allocations, || bed.run());
        bed.unload()?;
    }
    Ok(timed)
}

/// The cipher alone, in the same buffers.
fn raw(bed: &mut Bed, direction: Direction, duration: Duration) -> Result<Timed, BenchError> {
    let mut timed = Timed::default();
    let mut result = Ok(());
    while timed.time < duration || timed.packets == 0 {
        bed.prepare_esp()?;
        let packets = bed.packets();
        match direction {
            Direction::Outbound => timed.piece(packets, None, || result = bed.run_cipher(Op::Seal)),
            Direction::Inbound => {
                bed.run_cipher(Op::Seal)?;
                timed.piece(packets, None, || result = bed.run_cipher(Op::Open));
            }
        }
        core::mem::replace(&mut result, Ok(()))?;
    }
    Ok(timed)
}

/// What the timed pieces of a repetition add up to.
#[derive(Clone, Copy, Debug, Default)]
struct Timed {
    packets: u64,
    time: Duration,
    cycles: Option<u64>,
    allocations: u64,
}

impl Timed {
    fn piece(&mut self, packets: usize, allocations: Option<fn() -> u64>, work: impl FnOnce()) {
        let allocated = allocations.map_or(0, |count| count());
        let begun = Instant::now();
        let from = cycles::now();
        work();
        let to = cycles::now();
        self.time += begun.elapsed();
        self.allocations += allocations.map_or(0, |count| count()) - allocated;
        self.packets += packets as u64;
        if let (Some(from), Some(to)) = (from, to) {
            self.cycles = Some(self.cycles.unwrap_or(0) + to.wrapping_sub(from));
        }
    }

    fn mpps(&self) -> f64 {
        self.packets as f64 / self.time.as_secs_f64() / 1e6
    }

    fn cycles_per_packet(&self) -> Option<f64> {
        self.cycles.map(|cycles| cycles as f64 / self.packets as f64)
    }
}

/// The middle one, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    let at = |i: usize| values.get(i).copied().unwrap_or(f64::NAN);
    if values.len() % 2 == 1 { at(upper) } else { (at(upper.wrapping_sub(1)) + at(upper)) / 2.0 }
}

/// The most SAs: each has a policy and a network of its own.
const MAX_SAS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }
}
