//! A constant rate (RFC 9347, section 2.4.1): when payloads are due.

/// Equal intervals from a beginning on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// In 2^-16 ns, so that no rate is off by more than 0.01 %.
    interval: u64,
    next_ns: u64,
    /// Fraction that `next_ns` leaves out, in 2^-16 ns.
    rest: u64,
}

impl Pace {
    /// Packets of `packet_len` bytes at so many bits a second, the first one now.
    pub(super) fn new(bits_per_s: u64, packet_len: usize, now_ns: u64) -> Pace {
        let interval = interval(bits_per_s, packet_len);
        Pace { interval, next_ns: now_ns, rest: 0 }
    }

    /// The same rate with packets of another length.
    pub(super) fn set_packet_len(&mut self, bits_per_s: u64, packet_len: usize) {
        self.interval = interval(bits_per_s, packet_len);
    }

    /// Another rate, in packets a second, from the last packet on.
    pub(super) fn set_per_s(&mut self, per_s: f64, now_ns: u64) {
        let interval = 1e9 / per_s * f64::from(1 << SHIFT);
        self.interval = interval.clamp(SHORTEST as f64, LONGEST as f64) as u64; // in range
        let next_ns = now_ns.saturating_add(self.interval >> SHIFT);
        self.next_ns = self.next_ns.min(next_ns);
    }

    /// When the next packet is due.
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// How many packets are due by now, at most [`MOST_AT_ONCE`]: after a longer stall the rest is left out, as a burst
    /// of them would tell more than their absence, and hit a queue somewhere.
    pub(super) fn due(&mut self, now_ns: u64) -> usize {
        let mut due = 0;
        while self.next_ns <= now_ns {
            if due == MOST_AT_ONCE {
                (self.next_ns, self.rest) = (now_ns, 0);
                self.step();
                break;
            }
            due += 1;
            self.step();
        }
        due
    }

    fn step(&mut self) {
        self.rest += self.interval;
        self.next_ns = self.next_ns.saturating_add(self.rest >> SHIFT);
        self.rest &= (1 << SHIFT) - 1;
    }
}

fn interval(bits_per_s: u64, packet_len: usize) -> u64 {
    let bits = packet_len as u128 * 8;
    let interval = ((bits * 1_000_000_000) << SHIFT) / u128::from(bits_per_s.max(1));
    interval.clamp(SHORTEST.into(), LONGEST.into()) as u64
}

const SHIFT: u32 = 16;

/// One nanosecond in these units.
const SHORTEST: u64 = 1 << SHIFT;
/// A packet every 64 seconds is the least (RFC 5348, section 4.3).
const LONGEST: u64 = 64_000_000_000 << SHIFT;

/// Packets that are caught up with after a stall.
const MOST_AT_ONCE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_due_at_their_rate() {
        // 1250 bytes at 3 Mbit/s: 300 a second.
        let mut pace = Pace::new(3_000_000, 1250, 1_000);
        let due: usize = (0..100_000).map(|tick| pace.due(1_000 + tick * 100_000)).sum();
        assert_eq!(due, 3_000, "in ten seconds, one at the beginning");
    }

    #[test]
    fn after_a_stall_few_are_caught_up_with() {
        let mut pace = Pace::new(8_000_000, 1_000, 0);
        assert_eq!((pace.due(0), pace.due(999_999), pace.due(3_000_000)), (1, 0, 3));
        assert_eq!(pace.due(1_000_000_000), MOST_AT_ONCE);
        assert_eq!((pace.due(1_000_000_001), pace.next_ns()), (0, 1_001_000_000));
        assert_eq!(pace.due(1_001_000_000), 1);
    }

    #[test]
    fn a_rate_that_rises_is_not_waited_for() {
        let mut pace = Pace::new(8_000, 1_000, 0);
        assert_eq!((pace.due(0), pace.next_ns()), (1, 1_000_000_000));
        pace.set_per_s(100.0, 5_000_000);
        assert_eq!(pace.next_ns(), 15_000_000);
        pace.set_per_s(0.01, 6_000_000);
        assert_eq!((pace.due(15_000_000), pace.next_ns()), (1, 64_015_000_000));
    }

    #[test]
    fn no_rate_is_without_end() {
        for (rate, len) in [(0, 1500), (u64::MAX, 20), (1, 9000)] {
            let mut pace = Pace::new(rate, len, 5);
            assert!(pace.due(5) <= MOST_AT_ONCE && pace.next_ns() > 5);
        }
        let mut pace = Pace::new(8_000_000_000, 1_000, 0);
        pace.set_packet_len(8_000_000_000, 500);
        assert_eq!((pace.due(0), pace.next_ns()), (1, 500));
    }
}
