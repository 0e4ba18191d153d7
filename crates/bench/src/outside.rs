//! Time that does not count: what hardware would do while the core goes on.
//!
//! A bench that plays a device as well has the device's work done by [`outside`]. The pieces of
//! [`Timed`](crate::timing::Timed) on the same thread leave that time out.

use core::cell::Cell;
use core::time::Duration;
use std::time::Instant;

use crate::cycles;

thread_local! {
    /// In cycles of the time stamp counter, or in nanoseconds where there is none.
    static SPENT: Cell<u64> = const { Cell::new(0) };
}

/// Does work that is not this core's.
///
/// The counter is read without waiting for what is under way, so a few tens of cycles fall on the wrong side: the work
/// is to be of many packets.
pub(crate) fn outside<R>(work: impl FnOnce() -> R) -> R {
    let (from, begun) = (cycles::now(), Instant::now());
    let done = work();
    let ticks = match from.zip(cycles::now()) {
        Some((from, to)) => to.wrapping_sub(from),
        None => begun.elapsed().as_nanos() as u64,
    };
    SPENT.set(SPENT.get() + ticks);
    done
}

/// Time that the calling thread has spent outside so far, in time stamps.
pub(crate) fn spent() -> u64 {
    SPENT.get()
}

/// A time, and its cycles if they are counted, without the time spent outside meanwhile.
pub(crate) fn without(time: Duration, cycles: Option<u64>, spent: u64) -> (Duration, Option<u64>) {
    match cycles {
        _ if spent == 0 => (time, cycles),
        None => (time.saturating_sub(Duration::from_nanos(spent)), None),
        Some(all) => {
            let left = all.saturating_sub(spent);
            (time.mul_f64(left as f64 / all.max(1) as f64), Some(left))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_cycles_is_the_same_part_of_the_time() {
        let time = Duration::from_micros(100);
        assert_eq!(without(time, Some(1000), 0), (time, Some(1000)));
        assert_eq!(without(time, Some(1000), 250), (Duration::from_micros(75), Some(750)));
        assert_eq!(without(time, None, 40_000), (Duration::from_micros(60), None));
        assert_eq!(without(time, Some(10), 20), (Duration::ZERO, Some(0)));
    }

    #[test]
    fn what_is_done_outside_adds_up() {
        let before = spent();
        let wait = || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(50) {}
        };
        wait();
        assert_eq!(spent(), before);
        outside(wait);
        assert!(spent() > before);
    }
}
