//! A token bucket, kept as one point in time.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Lets events through at a rate, with bursts.
///
/// This is a token bucket that holds `burst` tokens and gains `rate` a second, kept as the time
/// at which it would be full again (the form that RFC 4443 §2.4 (f) asks for, without a fraction
/// of a token to lose).
///
/// Threads: any may call; several workers that share one let no more through than one alone. The times
/// of all callers are from one clock. Lock-free: one compare and exchange for each token.
#[derive(Debug)]
pub struct RateLimiter {
    /// Time that one token takes to come, in ns; `None` for a rate of zero.
    interval_ns: Option<u64>,
    /// Time that all tokens but one take to come, in ns.
    tolerance_ns: u64,
    /// When the bucket will be full, in ns.
    full_at_ns: AtomicU64,
}

impl RateLimiter {
    /// A limiter with a full bucket. `per_second` of 0, or `burst` of 0, lets nothing through;
    /// rates above one a nanosecond count as that.
    pub fn new(per_second: u32, burst: u32) -> Self {
        let interval_ns = 1_000_000_000u64.checked_div(per_second.into()).filter(|_| burst > 0);
        let tolerance_ns =
            interval_ns.unwrap_or(0).saturating_mul(u64::from(burst.saturating_sub(1)));
        Self { interval_ns, tolerance_ns, full_at_ns: AtomicU64::new(0) }
    }

    /// Takes a token if there is one. `now_ns` is from a monotonic clock; an earlier time than
    /// before only means that no tokens have come.
    #[must_use]
    pub fn allow(&self, now_ns: u64) -> bool {
        let Some(interval) = self.interval_ns else { return false };
        let take = |before: u64| {
            let full_at = before.max(now_ns);
            let is_there = full_at - now_ns <= self.tolerance_ns;
            is_there.then(|| full_at.saturating_add(interval))
        };
        // Relaxed: the word is all there is to agree on.
        self.full_at_ns.fetch_update(Relaxed, Relaxed, take).is_ok()
    }
}

impl RateLimiter {
    /// True if there is a token. Takes none.
    #[must_use]
    pub fn is_ready(&self, now_ns: u64) -> bool {
        let full_at = self.full_at_ns.load(Relaxed);
        self.interval_ns.is_some() && full_at.saturating_sub(now_ns) <= self.tolerance_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn burst_then_rate() {
        let limiter = RateLimiter::new(1000, 3);
        let allowed: Vec<bool> = (0..5).map(|_| limiter.allow(5_000_000)).collect();
        assert_eq!(allowed, [true, true, true, false, false]);
        assert!(!limiter.allow(5_999_999));
        assert!(limiter.allow(6_000_000));
        assert!(!limiter.allow(6_000_001));
        // An hour later there are three tokens, not more.
        let later = 3_600_000_000_000;
        assert_eq!((0..9).filter(|_| limiter.allow(later)).count(), 3);
    }

    #[test]
    fn a_look_takes_nothing() {
        let limiter = RateLimiter::new(1000, 1);
        assert!(limiter.is_ready(5) && limiter.is_ready(5) && limiter.allow(5));
        assert!(!limiter.is_ready(5) && !limiter.is_ready(1_000_004));
        assert!(limiter.is_ready(1_000_005));
        assert!(!RateLimiter::new(0, 5).is_ready(1));
    }

    #[test]
    fn nothing_at_zero() {
        assert!(!RateLimiter::new(0, 5).allow(1));
        assert!(!RateLimiter::new(5, 0).allow(1));
        assert!(RateLimiter::new(u32::MAX, 1).allow(1));
    }

    #[test]
    fn time_going_back_gives_nothing() {
        let limiter = RateLimiter::new(10, 1);
        assert!(limiter.allow(1_000_000_000));
        assert!(!limiter.allow(500_000_000));
        assert!(limiter.allow(1_100_000_000));
    }

    #[test]
    fn four_threads_get_what_one_would() {
        let limiter = RateLimiter::new(1000, 50);
        let allowed: usize = std::thread::scope(|scope| {
            let ask = || (0..10_000).filter(|_| limiter.allow(7_000_000)).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(allowed, 50);
        assert!(limiter.allow(8_000_000));
        assert!(!limiter.allow(8_000_000));
        assert!(!RateLimiter::new(0, 5).allow(1));
    }

    proptest! {
        #[test]
        fn never_more_than_burst_and_rate(
            rate in 1u32..10_000, burst in 1u32..50,
            steps in prop::collection::vec(0u64..3_000_000, 1..300),
        ) {
            let limiter = RateLimiter::new(rate, burst);
            let mut now = 0u64;
            let mut allowed = 0u64;
            for step in steps {
                now += step;
                allowed += u64::from(limiter.allow(now));
                let interval = 1_000_000_000 / u64::from(rate);
                prop_assert!(allowed <= u64::from(burst) + now / interval);
            }
        }
    }
}
