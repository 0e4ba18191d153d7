//! Outbound sequence numbers (RFC 4303 §2.2, §3.3.3).
//!
//! A number, and with a counter mode so a nonce, is used once in the life of a key. The number that
//! holds the last number handed out is therefore moved past a number *before* that number is
//! used: a crash between the two skips a number, it never repeats one.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use outcome::DropReason;

/// How many numbers an outbound SA has left, for alarms and for rekeying in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumbersLeft {
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

/// Some consecutive outbound numbers that are one caller's alone; an iterator of [`Number`]s.
///
/// The rest of a lease that is dropped is skipped on the wire, as after a crash.
#[derive(Debug)]
#[must_use = "numbers that are leased are never leased again"]
pub struct Lease {
    next: u64,
    left: u32,
}

impl Lease {
    /// How many numbers are left in the lease.
    pub fn left(&self) -> u32 {
        self.left
    }
}

impl Iterator for Lease {
    type Item = Number;

    #[inline]
    fn next(&mut self) -> Option<Number> {
        self.left = self.left.checked_sub(1)?;
        let number = self.next;
        // Behind the very last number there is none, and it is never handed out.
        self.next = number.wrapping_add(1);
        Some(Number(number))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

/// An outbound sequence number that nobody else has.
///
/// Neither `Clone` nor `Copy`: sealing a packet uses it up, so that the compiler sees to it that
/// no number goes into two packets.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a number that is not used is lost"]
pub struct Number(pub(crate) u64);

impl Number {
    /// The number: all 64 bits of it with ESN, 32 without.
    pub fn value(&self) -> u64 {
        self.0
    }
}

/// Leases the next numbers: `n` of them, or as many as are left.
///
/// One compare-and-swap for all, so that threads that break the one-writer contract get numbers of
/// their own: with a counter mode anything else would repeat a nonce. The lease is empty if `n`
/// is 0.
///
/// # Errors
/// [`DropReason::OutSequenceExhausted`] when `last`, the last number that may be leased, has been leased; the
/// number stays.
#[inline]
pub(crate) fn lease(sent: &AtomicU64, last: u64, n: u32) -> Result<Lease, DropReason> {
    let mut before = sent.load(Relaxed);
    loop {
        // A number beyond the last number (ESN switched off by a reinstall) is exhausted.
        let left = last.saturating_sub(before).min(n.into());
        if left == 0 && n != 0 {
            return Err(DropReason::OutSequenceExhausted);
        }
        match sent.compare_exchange_weak(before, before + left, Relaxed, Relaxed) {
            Ok(_) => return Ok(Lease { next: before.wrapping_add(1), left: left as u32 }), // at most n
            Err(now) => before = now,
        }
    }
}

/// The value of a closed number. Nothing can be leased beyond it.
pub(crate) const CLOSED: u64 = u64::MAX;

/// Ends the handing out of numbers, for every thread, and returns the last one handed out.
///
/// All leases, and this, are read-modify-writes of one number, and those have one order: each lease
/// either came before, and all its numbers are at most the one told, or comes later and gets
/// nothing. No thread need be waited for.
pub(crate) fn close(sent: &AtomicU64) -> u64 {
    sent.swap(CLOSED, Relaxed)
}

/// How many numbers are left.
pub(crate) fn numbers_left(sent: &AtomicU64, esn: bool) -> NumbersLeft {
    let last = last_number(esn);
    match last.saturating_sub(sent.load(Relaxed)) {
        0 => NumbersLeft::Exhausted,
        left if left <= last / LOW_FRACTION => NumbersLeft::Low { left },
        _ => NumbersLeft::Ample,
    }
}

/// How many numbers can be leased until the rest is [`NumbersLeft::Low`].
pub(crate) fn numbers_until_low(sent: &AtomicU64, esn: bool) -> u64 {
    let last = last_number(esn);
    (last - last / LOW_FRACTION).saturating_sub(sent.load(Relaxed))
}

/// The part of all numbers below which the rest is [`NumbersLeft::Low`].
const LOW_FRACTION: u64 = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(sent: &AtomicU64, esn: bool, n: u32) -> Result<Vec<u64>, DropReason> {
        lease(sent, last_number(esn), n).map(|lease| {
            assert_eq!(lease.size_hint(), (lease.left() as usize, Some(lease.left() as usize)));
            lease.map(|number| number.value()).collect()
        })
    }

    #[test]
    fn what_was_closed_hands_out_nothing_and_tells_the_last() {
        for esn in [false, true] {
            let sent = AtomicU64::new(41);
            assert_eq!(take(&sent, esn, 2), Ok(vec![42, 43]));
            assert_eq!(close(&sent), 43);
            assert_eq!(take(&sent, esn, 1), Err(DropReason::OutSequenceExhausted));
            assert_eq!(numbers_left(&sent, esn), NumbersLeft::Exhausted);
        }
    }

    /// While others lease: what they got is 1 up to the number told, each once and none left out. They yield
    /// after each lease: on few cores they would lease millions before the one who closes has a turn.
    #[test]
    fn closing_is_exact_while_others_lease() {
        for esn in [false, true] {
            for round in 0..100 {
                let sent = AtomicU64::new(0);
                let (mut all, told) = std::thread::scope(|scope| {
                    let lease_all = |n: u32| {
                        let sent = &sent;
                        move || {
                            let mut got = Vec::new();
                            while let Ok(numbers) = take(sent, esn, n) {
                                got.extend(numbers);
                                std::thread::yield_now();
                            }
                            got
                        }
                    };
                    let threads = [1, 7, 64].map(|n| scope.spawn(lease_all(n)));
                    while sent.load(Relaxed) < round {
                        std::thread::yield_now();
                    }
                    let told = close(&sent);
                    (threads.map(|thread| thread.join().expect("no panic")).concat(), told)
                });
                all.sort_unstable();
                assert!(all.into_iter().eq(1..=told), "told {told}");
            }
        }
    }

    #[test]
    fn starts_at_one() {
        let sent = AtomicU64::new(0);
        assert_eq!(take(&sent, false, 1), Ok(vec![1]));
        assert_eq!(take(&sent, false, 3), Ok(vec![2, 3, 4]));
        assert_eq!(take(&sent, false, 0), Ok(vec![]));
        assert_eq!(sent.load(Relaxed), 4);
    }

    #[test]
    fn stops_at_the_last_number() {
        for esn in [false, true] {
            let last = last_number(esn);
            let sent = AtomicU64::new(last - 3);
            assert_eq!(take(&sent, esn, 1), Ok(vec![last - 2]));
            assert_eq!(take(&sent, esn, u32::MAX), Ok(vec![last - 1, last]));
            for n in [1, 2, u32::MAX] {
                assert_eq!(take(&sent, esn, n), Err(DropReason::OutSequenceExhausted));
            }
            assert_eq!(take(&sent, esn, 0), Ok(vec![]));
            assert_eq!(sent.load(Relaxed), last);
        }
    }

    #[test]
    fn crosses_32_bits_only_with_esn() {
        let sent = AtomicU64::new(u64::from(u32::MAX) - 1);
        assert_eq!(take(&sent, false, 2), Ok(vec![u64::from(u32::MAX)]));
        assert_eq!(take(&sent, false, 1), Err(DropReason::OutSequenceExhausted));
        assert_eq!(take(&sent, true, 2), Ok(vec![1 << 32, (1 << 32) + 1]));
        // A number past 32 bits (ESN switched off by a reinstall) is exhausted, not truncated.
        assert_eq!(take(&sent, false, 1), Err(DropReason::OutSequenceExhausted));
        assert_eq!(numbers_left(&sent, false), NumbersLeft::Exhausted);
    }

    #[test]
    fn the_cell_moves_before_a_number_is_seen() {
        let sent = AtomicU64::new(41);
        let mut numbers = lease(&sent, last_number(true), 4).unwrap();
        assert_eq!(sent.load(Relaxed), 45);
        assert_eq!(numbers.next(), Some(Number(42)));
        drop(numbers);
        assert_eq!(take(&sent, true, 1), Ok(vec![46]), "what was not used is skipped");
    }

    #[test]
    fn fewer_are_left_in_three_steps() {
        let at = |n: u64, esn| numbers_left(&AtomicU64::new(n), esn);
        let last = u64::from(u32::MAX);
        assert_eq!(at(0, false), NumbersLeft::Ample);
        assert_eq!(at(last - last / 16 - 1, false), NumbersLeft::Ample);
        assert_eq!(at(last - last / 16, false), NumbersLeft::Low { left: last / 16 });
        assert_eq!(at(last - 1, false), NumbersLeft::Low { left: 1 });
        assert_eq!(at(last, false), NumbersLeft::Exhausted);
        assert_eq!(at(last, true), NumbersLeft::Ample);
        assert_eq!(at(u64::MAX - 1, true), NumbersLeft::Low { left: 1 });
        assert_eq!(at(u64::MAX, true), NumbersLeft::Exhausted);
    }

    /// How many numbers each request of each thread asks for.
    fn requests() -> impl Strategy<Value = Vec<Vec<u32>>> {
        let size = prop_oneof![4 => 1u32..70, 2 => Just(1u32), 1 => 0u32..3000];
        proptest::collection::vec(proptest::collection::vec(size, 1..60), 1..5)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Several threads lease at once, and the numbers may run out meanwhile: every number up
        /// to the last goes to one of them and to one alone, none beyond it, and somebody is
        /// refused just if more was asked for than was there.
        #[test]
        fn no_number_twice_between_threads(
            requests in requests(),
            esn: bool,
            left in prop_oneof![1 => 0u64..2000, 1 => 2000u64..1 << 20],
        ) {
            let last = last_number(esn);
            let sent = AtomicU64::new(last - left);
            let results: Vec<Vec<Result<Vec<u64>, DropReason>>> = std::thread::scope(|s| {
                let threads: Vec<_> = requests
                    .iter()
                    .map(|sizes| s.spawn(|| sizes.iter().map(|n| take(&sent, esn, *n)).collect()))
                    .collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            let asked: u64 = requests.iter().flatten().map(|n| u64::from(*n)).sum();
            let mut all = Vec::new();
            for (n, result) in requests.iter().flatten().zip(results.into_iter().flatten()) {
                match result {
                    Ok(numbers) => {
                        prop_assert!(numbers.len() <= *n as usize);
                        prop_assert!(numbers.windows(2).all(|w| w[0] + 1 == w[1]), "consecutive");
                        all.extend(numbers);
                    }
                    Err(reason) => {
                        prop_assert_eq!(reason, DropReason::OutSequenceExhausted);
                        prop_assert!(asked > left, "refused although enough was left");
                    }
                }
            }
            all.sort_unstable();
            let taken = asked.min(left);
            prop_assert_eq!(all.len() as u64, taken);
            prop_assert!(all.iter().zip((last - left).wrapping_add(1)..=last).all(|(a, b)| *a == b));
            prop_assert_eq!(sent.load(Relaxed), last - left + taken);
        }
    }
}
