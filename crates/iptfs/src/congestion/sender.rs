//! The allowed rate of a sender (RFC 5348, section 4), and what its payloads say.

use super::report::Report;
use super::{low_half, throughput};
use crate::header::Congestion;

/// A payload every 64 seconds is sent whatever happens (section 4.3).
const LEAST_PER_S: f64 = 1.0 / 64.0;
/// Payloads of the first round trip (section 4.2, of packets of some 1500 bytes).
const FIRST_ROUND: f64 = 3.0;
/// How long the first word is waited for.
const FIRST_WORD_US: u64 = 2_000_000;

/// Bounds of the rate, in payloads a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Not less, however many are lost; 0 for what RFC 5348 has.
    pub least_per_s: f64,
    /// Not more, however few are lost.
    pub most_per_s: f64,
}

impl Bounds {
    fn clamp(self, per_s: f64) -> f64 {
        let most = self.most_per_s.max(LEAST_PER_S);
        per_s.clamp(self.least_per_s.max(LEAST_PER_S).min(most), most)
    }
}

/// The rate, and what it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    per_s: f64,
    bounds: Bounds,
    /// The path's delay there and back, smoothed; 0 before it is known.
    path_us: f64,
    /// The interval at which the other end sends.
    their_interval_us: u32,
    /// When the rate may rise again.
    next_rise_us: u64,
    /// When silence halves the rate.
    silence_us: u64,
    /// When the last word was that was heard.
    heard_us: u64,
}

impl Sender {
    /// Before anything was sent.
    pub fn new(bounds: Bounds, now_us: u64) -> Sender {
        Sender {
            // One a second until a round trip is known.
            per_s: bounds.clamp(1.0),
            bounds,
            path_us: 0.0,
            their_interval_us: 0,
            next_rise_us: now_us,
            silence_us: now_us.saturating_add(FIRST_WORD_US),
            heard_us: 0,
        }
    }

    /// Other bounds, as payloads have another length.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        self.per_s = bounds.clamp(self.per_s);
    }

    /// Takes what the pair's receiver tells; whether there was a word of the other end's in it that was not heard yet.
    pub fn hear(&mut self, report: &Report) -> bool {
        let Some(heard) = report.heard.filter(|heard| heard.at_us > self.heard_us) else {
            return false;
        };
        let now_us = heard.at_us;
        self.heard_us = now_us;
        let sample = f64::from(heard.path_us.max(1));
        let is_first = self.path_us == 0.0;
        self.path_us = if is_first { sample } else { 0.9 * self.path_us + 0.1 * sample };
        self.their_interval_us = heard.transmit_delay_us;
        if is_first {
            self.per_s = FIRST_ROUND * 1e6 / f64::from(self.rtt_us());
        }
        let may_rise = is_first || now_us >= self.next_rise_us;
        let rise = if may_rise && !is_first { 2.0 } else { 1.0 };
        let allowed = match heard.loss_event_rate {
            0 => f64::INFINITY,
            inverse => throughput::packets_per_s(self.rtt_us(), 1.0 / f64::from(inverse)),
        };
        self.per_s = self.bounds.clamp(allowed.min(rise * self.per_s));
        if may_rise {
            self.next_rise_us = now_us.saturating_add(self.rtt_us().into());
        }
        self.silence_us = now_us.saturating_add(self.patience_us());
        true
    }

    /// Header of the next payload.
    pub fn header(&mut self, report: &Report, now_us: u64) -> Congestion {
        let delay_us = if report.echo == 0 { 0 } else { now_us.saturating_sub(report.came_us) };
        let rtt_us = if self.path_us == 0.0 { 0 } else { self.rtt_us() };
        Congestion {
            is_probe: false,
            is_congested: report.is_congested,
            loss_event_rate: report.loss_event_rate,
            rtt_us: rtt_us.min(Congestion::MAX_RTT),
            echo_delay_us: u32::try_from(delay_us)
                .map_or(Congestion::MAX_DELAY, |us| us.min(Congestion::MAX_DELAY)),
            transmit_delay_us: self.interval_us(now_us).min(Congestion::MAX_DELAY),
            value: low_half(now_us).max(1),
            echo: report.echo,
        }
    }

    /// Payloads a second that may be sent: half as many each time that nothing was heard for too long (section 4.4).
    pub fn rate_per_s(&mut self, now_us: u64) -> f64 {
        while now_us >= self.silence_us && self.per_s > self.bounds.clamp(0.0) {
            self.per_s = self.bounds.clamp(self.per_s / 2.0);
            self.silence_us = self.silence_us.saturating_add(self.patience_us());
        }
        self.per_s
    }

    /// Microseconds between two payloads.
    pub fn interval_us(&mut self, now_us: u64) -> u32 {
        (1e6 / self.rate_per_s(now_us)).round().clamp(1.0, f64::from(u32::MAX)) as u32 // in range
    }

    /// The round-trip time in microseconds, 0 before it is known: that of the path, or as long as payloads there and back
    /// wait for their turn, whichever is longer (RFC 9347, section 3).
    pub fn rtt_us(&self) -> u32 {
        if self.path_us == 0.0 {
            return 0;
        }
        let turns_us = 1e6 / self.per_s + f64::from(self.their_interval_us);
        self.path_us.max(turns_us).round().clamp(1.0, f64::from(u32::MAX)) as u32 // in range
    }

    /// When nothing is heard until then, the rate falls.
    pub fn silence_us(&self) -> u64 {
        self.silence_us
    }

    fn patience_us(&self) -> u64 {
        let four_trips = match self.rtt_us() {
            0 => FIRST_WORD_US as f64,
            rtt_us => 4.0 * f64::from(rtt_us),
        };
        four_trips.max(2e6 / self.per_s).max(1.0) as u64 // at most some hours
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::report::Heard;
    use super::*;

    const RTT: u32 = 50_000;
    const BOUNDS: Bounds = Bounds { least_per_s: 0.0, most_per_s: 1e6 };

    fn report(loss_event_rate: u32, path_us: u32, at_us: u64) -> Report {
        let heard = Heard { loss_event_rate, path_us, transmit_delay_us: 0, at_us };
        Report { heard: Some(heard), ..Report::default() }
    }

    /// Feedback for so many round trips.
    fn rounds(sender: &mut Sender, inverse: u32, rounds: u64, now_us: &mut u64) -> f64 {
        for _ in 0..rounds * 4 {
            *now_us += u64::from(RTT) / 4;
            assert!(sender.hear(&report(inverse, RTT, *now_us)));
        }
        sender.rate_per_s(*now_us)
    }

    #[test]
    fn it_doubles_until_a_loss_and_follows_the_equation_then() {
        let (mut sender, mut now) = (Sender::new(BOUNDS, 0), 0);
        assert!((sender.rate_per_s(now) - 1.0).abs() < 1e-9);
        // As long as its own turns are longer than the path they are the round trip.
        let first = rounds(&mut sender, 0, 20, &mut now);
        let fifth = rounds(&mut sender, 0, 4, &mut now);
        assert!((fifth / first / 16.0 - 1.0).abs() < 0.01, "{first} {fifth}");
        for inverse in [400, 100, 1600] {
            let rate = rounds(&mut sender, inverse, 10, &mut now);
            let equation = throughput::packets_per_s(RTT, 1.0 / f64::from(inverse));
            assert!((rate / equation - 1.0).abs() < 0.03, "{rate}, not {equation}");
        }
    }

    #[test]
    fn silence_halves_it_down_to_a_payload_a_minute_or_its_least() {
        for (least_per_s, at_last) in [(0.0, LEAST_PER_S), (100.0, 100.0)] {
            let bounds = Bounds { least_per_s, most_per_s: 1000.0 };
            let (mut sender, mut now) = (Sender::new(bounds, 0), 0);
            assert!((rounds(&mut sender, 0, 200, &mut now) - 1000.0).abs() < 1e-9, "its most");
            now += 4 * u64::from(RTT);
            assert!((sender.rate_per_s(now) - 500.0).abs() < 1e-9);
            now += 4 * u64::from(RTT);
            assert!((sender.rate_per_s(now) - 250.0).abs() < 1e-9);
            assert!((sender.rate_per_s(now + 1_000_000_000) - at_last).abs() < 1e-9);
        }
    }

    #[test]
    fn the_round_trip_is_not_shorter_than_the_turns() {
        let mut sender = Sender::new(Bounds { least_per_s: 0.0, most_per_s: 10.0 }, 0);
        assert_eq!(sender.rtt_us(), 0);
        let mut word = report(0, 2_000, 1_000_000);
        word.heard.as_mut().unwrap().transmit_delay_us = 30_000;
        assert!(sender.hear(&word) && !sender.hear(&word), "each word once");
        for second in 2..20 {
            word.heard.as_mut().unwrap().at_us = second * 1_000_000;
            sender.hear(&word);
        }
        assert_eq!(sender.rtt_us(), 130_000, "10 a second, and 30 ms");
    }

    #[test]
    fn a_header_says_what_is_known() {
        let mut sender = Sender::new(BOUNDS, 0);
        let nothing = sender.header(&Report::default(), 500);
        assert_eq!((nothing.echo, nothing.echo_delay_us, nothing.rtt_us), (0, 0, 0));
        assert_eq!((nothing.value, nothing.transmit_delay_us), (500, 1_000_000));
        let told = Report {
            loss_event_rate: 77,
            is_congested: true,
            echo: 5,
            came_us: 900,
            ..report(0, 3_000, 1_000)
        };
        sender.hear(&told);
        let header = sender.header(&told, 1_200);
        assert_eq!((header.loss_event_rate, header.is_congested), (77, true));
        assert_eq!((header.echo, header.echo_delay_us), (5, 300));
        assert!(!header.is_probe && header.rtt_us > 0);
    }

    proptest! {
        #[test]
        fn it_stays_between_its_bounds(
            heard in proptest::collection::vec((any::<u32>(), any::<u32>(), 0u64..1_000_000), 1..100),
            least_per_s in 0.0..6000.0
        ) {
            let bounds = Bounds { least_per_s, most_per_s: 5000.0 };
            let (mut sender, mut now) = (Sender::new(bounds, 0), 1);
            for (inverse, path_us, passed) in heard {
                now += passed;
                sender.hear(&report(inverse, path_us, now));
                let rate = sender.rate_per_s(now);
                prop_assert!((least_per_s.clamp(LEAST_PER_S, 5000.0)..=5000.0).contains(&rate));
            }
        }
    }
}
