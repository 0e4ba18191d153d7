//! The allowed rate of a sender (RFC 5348, section 4).

use super::throughput;

/// A payload every 64 seconds is sent whatever happens (section 4.3).
const LEAST_PER_S: f64 = 1.0 / 64.0;
/// Payloads of the first round trip (section 4.2, of packets of some 1500 bytes).
const FIRST_ROUND: f64 = 3.0;
/// How long the first word is waited for.
const FIRST_WORD_US: u64 = 2_000_000;

/// The rate, and what it comes from.
#[derive(Clone, Debug)]
pub struct Sender {
    per_s: f64,
    most_per_s: f64,
    /// Smoothed; 0 before the first.
    rtt_us: f64,
    /// When the rate may rise again.
    next_rise_us: u64,
    /// When silence halves the rate.
    silence_us: u64,
}

impl Sender {
    /// Before anything was sent.
    pub fn new(most_per_s: f64, now_us: u64) -> Sender {
        let most_per_s = most_per_s.max(LEAST_PER_S);
        Sender {
            // One a second until a round trip is known.
            per_s: most_per_s.min(1.0),
            most_per_s,
            rtt_us: 0.0,
            next_rise_us: now_us,
            silence_us: now_us + FIRST_WORD_US,
        }
    }

    /// The other end has spoken: the inverse of the loss event rate (0 for no loss), and a round-trip time.
    pub fn heard(&mut self, inverse_rate: u32, rtt_us: u32, now_us: u64) {
        let sample = f64::from(rtt_us.max(1));
        let is_first = self.rtt_us == 0.0;
        self.rtt_us = if is_first { sample } else { 0.9 * self.rtt_us + 0.1 * sample };
        if is_first {
            self.per_s = FIRST_ROUND * 1e6 / self.rtt_us;
        }
        let may_rise = is_first || now_us >= self.next_rise_us;
        let rise = if may_rise && !is_first { 2.0 } else { 1.0 };
        let allowed = match inverse_rate {
            0 => f64::INFINITY,
            inverse => throughput::packets_per_s(self.rtt_us(), 1.0 / f64::from(inverse)),
        };
        self.per_s = allowed.min(rise * self.per_s).clamp(LEAST_PER_S, self.most_per_s);
        if may_rise {
            self.next_rise_us = now_us + u64::from(self.rtt_us());
        }
        self.silence_us = now_us + self.patience_us();
    }

    /// Payloads a second that may be sent: half as many each time that nothing was heard for too long (section 4.4).
    pub fn rate_per_s(&mut self, now_us: u64) -> f64 {
        while now_us >= self.silence_us && self.per_s > LEAST_PER_S {
            self.per_s = (self.per_s / 2.0).max(LEAST_PER_S);
            self.silence_us += self.patience_us();
        }
        self.per_s
    }

    /// The round-trip time in microseconds, 0 before it is known.
    pub fn rtt_us(&self) -> u32 {
        self.rtt_us.round().clamp(0.0, f64::from(u32::MAX)) as u32 // in range
    }

    fn patience_us(&self) -> u64 {
        let four_trips = if self.rtt_us == 0.0 { FIRST_WORD_US as f64 } else { 4.0 * self.rtt_us };
        four_trips.max(2e6 / self.per_s).max(1.0) as u64 // at most 128 s
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RTT: u32 = 50_000;

    /// Feedback for so many round trips.
    fn rounds(sender: &mut Sender, inverse: u32, rounds: u64, now_us: &mut u64) -> f64 {
        for _ in 0..rounds * 4 {
            *now_us += u64::from(RTT) / 4;
            sender.heard(inverse, RTT, *now_us);
        }
        sender.rate_per_s(*now_us)
    }

    #[test]
    fn it_doubles_until_a_loss_and_follows_the_equation_then() {
        let (mut sender, mut now) = (Sender::new(1e6, 0), 0);
        assert!((sender.rate_per_s(now) - 1.0).abs() < 1e-9);
        let first = rounds(&mut sender, 0, 1, &mut now);
        let fifth = rounds(&mut sender, 0, 4, &mut now);
        assert!((fifth / first / 16.0 - 1.0).abs() < 0.01, "{first} {fifth}");
        for inverse in [400, 100, 1600] {
            let rate = rounds(&mut sender, inverse, 10, &mut now);
            let equation = throughput::packets_per_s(RTT, 1.0 / f64::from(inverse));
            assert!((rate / equation - 1.0).abs() < 0.03, "{rate}, not {equation}");
        }
    }

    #[test]
    fn silence_halves_it_down_to_a_payload_a_minute() {
        let (mut sender, mut now) = (Sender::new(1000.0, 0), 0);
        assert!((rounds(&mut sender, 0, 30, &mut now) - 1000.0).abs() < 1e-9, "its most");
        now += 4 * u64::from(RTT);
        assert!((sender.rate_per_s(now) - 500.0).abs() < 1e-9);
        now += 4 * u64::from(RTT);
        assert!((sender.rate_per_s(now) - 250.0).abs() < 1e-9);
        assert!((sender.rate_per_s(now + 1_000_000_000) - LEAST_PER_S).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn it_stays_between_its_bounds(
            heard in proptest::collection::vec((any::<u32>(), any::<u32>(), 0u64..1_000_000), 1..100)
        ) {
            let (mut sender, mut now) = (Sender::new(5000.0, 0), 0);
            for (inverse, rtt, passed) in heard {
                now += passed;
                sender.heard(inverse, rtt, now);
                let rate = sender.rate_per_s(now);
                prop_assert!((LEAST_PER_S..=5000.0).contains(&rate));
            }
        }
    }
}
