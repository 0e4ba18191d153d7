//! Outbound sequence numbers (RFC 4303 §2.2, §3.3.3).
//!
//! A number, and with a counter mode so a nonce, is used once in the life of a key. The cell that
//! holds the last number handed out is therefore moved past a number *before* that number is
//! used: a crash between the two skips a number, it never repeats one.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use outcome::DropReason;

/// How many numbers an outbound SA has left, for alarms and for rekeying in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// More than a sixteenth of all numbers are left.
    Ample,
    /// At most a sixteenth is left: rekey now, whatever the lifetimes say.
    Low {
        /// Numbers that can still be handed out; at least 1.
        left: u64,
    },
    /// No number is left; every further packet is dropped.
    Exhausted,
}

/// The last number that an SA may use: numbers never cycle (RFC 4303 §3.3.3).
pub(crate) const fn last_number(esn: bool) -> u64 {
    if esn { u64::MAX } else { u32::MAX as u64 }
}

/// Hands out the next number.
///
/// The cell moves by compare-and-swap, so that two threads that break the one-writer contract get
/// two numbers: with a counter mode anything else would repeat a nonce.
///
/// # Errors
/// [`DropReason::OutSequenceExhausted`] when the last number has been used; the cell stays.
pub(crate) fn assign(sent: &AtomicU64, esn: bool) -> Result<u64, DropReason> {
    let last = last_number(esn);
    sent.fetch_update(Relaxed, Relaxed, |n| if n < last { Some(n + 1) } else { None })
        .map(|before| before + 1)
        .map_err(|_| DropReason::OutSequenceExhausted)
}

/// How many numbers are left.
pub(crate) fn headroom(sent: &AtomicU64, esn: bool) -> Headroom {
    let last = last_number(esn);
    match last.saturating_sub(sent.load(Relaxed)) {
        0 => Headroom::Exhausted,
        left if left <= last / LOW_FRACTION => Headroom::Low { left },
        _ => Headroom::Ample,
    }
}

/// The part of all numbers below which the rest is [`Headroom::Low`].
const LOW_FRACTION: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_at_one() {
        let sent = AtomicU64::new(0);
        assert_eq!(assign(&sent, false), Ok(1));
        assert_eq!(assign(&sent, false), Ok(2));
        assert_eq!(sent.load(Relaxed), 2);
    }

    #[test]
    fn stops_at_the_last_number() {
        for esn in [false, true] {
            let sent = AtomicU64::new(last_number(esn) - 1);
            assert_eq!(assign(&sent, esn), Ok(last_number(esn)));
            for _ in 0..3 {
                assert_eq!(assign(&sent, esn), Err(DropReason::OutSequenceExhausted));
            }
            assert_eq!(sent.load(Relaxed), last_number(esn));
        }
    }

    #[test]
    fn crosses_32_bits_only_with_esn() {
        let sent = AtomicU64::new(u64::from(u32::MAX));
        assert_eq!(assign(&sent, false), Err(DropReason::OutSequenceExhausted));
        assert_eq!(assign(&sent, true), Ok(1 << 32));
        // A cell past 32 bits (ESN switched off by a reinstall) is exhausted, not truncated.
        assert_eq!(assign(&sent, false), Err(DropReason::OutSequenceExhausted));
        assert_eq!(headroom(&sent, false), Headroom::Exhausted);
    }

    #[test]
    fn headroom_falls_in_three_steps() {
        let at = |n: u64, esn| headroom(&AtomicU64::new(n), esn);
        let last = u64::from(u32::MAX);
        assert_eq!(at(0, false), Headroom::Ample);
        assert_eq!(at(last - last / 16 - 1, false), Headroom::Ample);
        assert_eq!(at(last - last / 16, false), Headroom::Low { left: last / 16 });
        assert_eq!(at(last - 1, false), Headroom::Low { left: 1 });
        assert_eq!(at(last, false), Headroom::Exhausted);
        assert_eq!(at(last, true), Headroom::Ample);
        assert_eq!(at(u64::MAX - 1, true), Headroom::Low { left: 1 });
        assert_eq!(at(u64::MAX, true), Headroom::Exhausted);
    }

    #[test]
    fn no_number_twice_between_threads() {
        let sent = AtomicU64::new(0);
        let mut all: Vec<u64> = std::thread::scope(|s| {
            let take = || (0..2000).map(|_| assign(&sent, true).unwrap()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| s.spawn(take)).collect();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=8000));
    }
}
