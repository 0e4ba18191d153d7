//! How far apart two cores are: the time of a cache line to the other one and back.
//!
//! On a virtual machine that is nothing to rely on. Its processors are moved about by the host, and
//! when they come to lie behind different third-level caches the way becomes several times as
//! long, for seconds or minutes. Whatever is handed from core to core then becomes dearer too, so
//! rates of several cores say little without this figure from beside them.

use core::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use crate::error::BenchError;
use crate::pin::pin;
use crate::timing::median;

/// A word on cache lines of its own.
#[repr(align(128))]
struct Apart(AtomicU64);

/// Nanoseconds of a round trip between the calling thread's core and another: the median of
/// stretches of [`TRIPS`].
///
/// # Errors
/// When a thread cannot be pinned to `other`.
pub(crate) fn round_trip_ns(other: usize) -> Result<f64, BenchError> {
    let (ping, pong) = (Apart(AtomicU64::new(0)), Apart(AtomicU64::new(0)));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let pinned = pin(Some(other));
            let mut last = 0;
            while !is_over.load(Relaxed) {
                let now = ping.0.load(Acquire);
                if now != last {
                    pong.0.store(now, Release);
                    last = now;
                }
            }
            pinned
        });
        let mut number = 0;
        let mut stretches = Vec::with_capacity(STRETCHES);
        let begun = Instant::now();
        // The first one waits for the thread to begin, so there is always a second.
        while stretches.len() <= STRETCHES && (stretches.len() < 2 || begun.elapsed() < PATIENCE) {
            let from = Instant::now();
            for _ in 0..TRIPS {
                number += 1;
                ping.0.store(number, Release);
                while pong.0.load(Acquire) != number {
                    core::hint::spin_loop();
                }
            }
            stretches.push(from.elapsed().as_nanos() as f64 / TRIPS as f64);
        }
        is_over.store(true, Relaxed);
        match echo.join() {
            Ok(pinned) => pinned.map(|()| median(stretches.split_off(1.min(stretches.len())))),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Round trips in a stretch, so that reading the clock adds nothing to them.
const TRIPS: u64 = 200;
/// Stretches, after one to begin with.
const STRETCHES: usize = 50;
/// Where both threads share a core, each trip waits for the scheduler.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trip_takes_time_and_a_core_that_is_not_there_is_refused() {
        let here = rustix::thread::sched_getcpu();
        let ns = round_trip_ns(here).unwrap();
        assert!(ns > 0.0, "{ns}");
        assert!(round_trip_ns(usize::MAX).is_err());
    }
}
