//! The loss event rate of what arrives (RFC 5348, sections 5 and 6), by its sequence numbers.

use super::throughput;

/// How many loss intervals are remembered.
const INTERVALS: usize = 8;
/// Weights of the intervals, the youngest first (section 5.4).
const WEIGHTS: [f64; INTERVALS] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
/// A packet is lost once so many later ones have come (section 5.1).
const LATER: u32 = 3;
/// Numbers above the lowest that is waited for: more than enough for what is out of order.
const REMEMBERED: u64 = 64;

/// Loss event rate of what has come: the intervals between loss events (RFC 5348 §5).
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// The lowest number that is waited for; 0 before the first packet.
    next: u64,
    /// Which of those above have come: bit 0 is `next + 1`.
    above: u64,
    /// When the first above `next` came.
    gap_us: u64,
    /// The current event: the number of its first loss, and when it was noticed.
    event: Option<(u64, u64)>,
    /// Lengths in packets of the intervals between events, the youngest first.
    intervals: [f64; INTERVALS],
    count: usize,
    /// Which of them ended with a mark: bit 0 is the youngest.
    marks: u8,
    /// The inverse of the loss event rate before the first packet, 0 for none.
    inherited: u32,
    /// The largest number that has come.
    last: u64,
    receiving: Receiving,
}

/// Packets a second that come.
#[derive(Clone, Copy, Debug, Default)]
struct Receiving {
    since_us: u64,
    packets: u32,
    most_per_s: f64,
}

impl Receiving {
    fn arrived(&mut self, rtt_us: u32, now_us: u64) {
        if self.packets == 0 {
            self.since_us = now_us;
        }
        self.packets += 1;
        let passed_us = now_us.saturating_sub(self.since_us);
        if self.packets > 4 && passed_us >= u64::from(rtt_us) && passed_us > 0 {
            let per_s = f64::from(self.packets - 1) * 1e6 / passed_us as f64; // far below 2^52
            self.most_per_s = self.most_per_s.max(per_s);
            (self.since_us, self.packets) = (now_us, 1);
        }
    }
}

impl Losses {
    /// A new count that goes on from the inverse of another one's loss event rate.
    pub fn after(inverse_rate: u32) -> Losses {
        Losses { inherited: inverse_rate, ..Losses::default() }
    }

    /// Counts the numbers below this one that have not come as no losses.
    pub fn forgive(&mut self, seq: u64) {
        if self.last != 0 && seq >= self.next {
            (self.next, self.above) = (seq, 0);
        }
    }

    /// True if congestion marks are part of the loss event rate.
    pub fn has_marks(&self) -> bool {
        self.marks != 0
    }

    /// A packet has come, and was not there before. `rtt_us`: the sender's round-trip time, 0 while it knows none.
    pub fn arrived(&mut self, seq: u64, is_marked: bool, rtt_us: u32, now_us: u64) {
        self.receiving.arrived(rtt_us, now_us);
        if self.last == 0 {
            (self.next, self.last) = (seq + 1, seq);
            if self.inherited != 0 {
                self.event = Some((seq, now_us));
                (self.intervals[0], self.count) = (self.inherited.into(), 1);
            }
        }
        self.last = self.last.max(seq);
        if is_marked {
            self.lost(seq, true, rtt_us, now_us);
        }
        if seq < self.next {
            return;
        }
        if seq - self.next > REMEMBERED {
            self.skip_to(seq - REMEMBERED, rtt_us, now_us);
        }
        if seq == self.next {
            self.advance();
        } else {
            if self.above == 0 {
                self.gap_us = now_us;
            }
            self.above |= 1 << (seq - self.next - 1);
        }
        while self.above.count_ones() >= LATER {
            self.next_is_lost(rtt_us, now_us);
        }
    }

    /// The inverse of the loss event rate, as the header has it: 0 for no loss.
    pub fn inverse_rate(&self) -> u32 {
        let Some((first, _)) = self.event else { return 0 };
        let known = self.intervals.get(..self.count).unwrap_or_default();
        let mean = |intervals: &mut dyn Iterator<Item = f64>| {
            let weighted =
                intervals.zip(WEIGHTS).map(|(interval, weight)| (interval * weight, weight));
            let (sum, weights) = weighted.fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
            sum / f64::max(weights, f64::MIN_POSITIVE)
        };
        // The open one counts only if that makes the rate smaller.
        let open = (self.last - first) as f64; // far below 2^52
        let mut with_open = core::iter::once(open).chain(known.iter().copied());
        let inverse = mean(&mut known.iter().copied()).max(mean(&mut with_open));
        inverse.round().clamp(1.0, f64::from(u32::MAX)) as u32 // in range
    }

    fn next_is_lost(&mut self, rtt_us: u32, now_us: u64) {
        let noticed_us = if self.above == 0 { now_us } else { self.gap_us };
        self.lost(self.next, false, rtt_us, noticed_us);
        self.advance();
        self.gap_us = now_us;
    }

    /// Gives up all below a number: one event, as none of them was noticed before.
    fn skip_to(&mut self, number: u64, rtt_us: u32, now_us: u64) {
        self.lost(self.next, false, rtt_us, now_us);
        let by = number - self.next;
        let has_come = by <= REMEMBERED && self.above >> (by - 1) & 1 != 0;
        self.above = if by < REMEMBERED { self.above >> by } else { 0 };
        self.next = number;
        if has_come {
            self.advance();
        }
    }

    /// Waits for the next number that has not come.
    fn advance(&mut self) {
        self.next += 1;
        while self.above & 1 != 0 {
            (self.next, self.above) = (self.next + 1, self.above >> 1);
        }
        self.above >>= 1;
    }

    /// Losses within a round trip of the first are one event (section 5.2), if one is known.
    fn lost(&mut self, seq: u64, is_mark: bool, rtt_us: u32, noticed_us: u64) {
        let interval = match self.event {
            Some((_, at_us)) if rtt_us != 0 && noticed_us <= at_us + u64::from(rtt_us) => return,
            Some((first, _)) => seq.saturating_sub(first).max(1) as f64, // far below 2^52
            None => self.first_interval(seq, rtt_us),
        };
        self.event = Some((seq, noticed_us));
        self.intervals.rotate_right(1);
        self.intervals[0] = interval;
        // As many bits as intervals.
        self.marks = self.marks << 1 | u8::from(is_mark);
        self.count = (self.count + 1).min(INTERVALS);
    }

    /// The interval before the first loss: as long as makes the rate what has come (section 6.3.1).
    fn first_interval(&self, seq: u64, rtt_us: u32) -> f64 {
        if rtt_us == 0 || self.receiving.most_per_s == 0.0 {
            return seq.max(1) as f64; // far below 2^52
        }
        1.0 / throughput::loss_event_rate(rtt_us, self.receiving.most_per_s)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RTT: u32 = 10_000;

    /// A packet a millisecond, but those that are lost.
    fn run(losses: &mut Losses, numbers: core::ops::Range<u64>, is_lost: impl Fn(u64) -> bool) {
        for seq in numbers.filter(|seq| !is_lost(*seq)) {
            losses.arrived(seq, false, RTT, seq * 1000);
        }
    }

    #[test]
    fn without_loss_there_is_no_rate() {
        let mut losses = Losses::default();
        run(&mut losses, 1..1000, |_| false);
        assert_eq!(losses.inverse_rate(), 0);
        // Nor with packets out of order by less than three.
        for (seq, at_ms) in [1002, 1001, 1000, 1004, 1003].into_iter().zip(1000..) {
            losses.arrived(seq, false, RTT, at_ms * 1000);
        }
        assert_eq!(losses.inverse_rate(), 0);
    }

    #[test]
    fn even_losses_give_their_distance() {
        for distance in [20, 100, 500] {
            let mut losses = Losses::default();
            run(&mut losses, 1..20 * distance, |seq| seq % distance == 0);
            let inverse = u64::from(losses.inverse_rate());
            assert!(inverse.abs_diff(distance) <= 1, "{inverse} for {distance}");
        }
    }

    #[test]
    fn losses_of_one_round_trip_are_one_event() {
        let mut losses = Losses::default();
        run(&mut losses, 1..4000, |seq| (1..=5).contains(&(seq % 200)) && seq > 100);
        assert!(losses.inverse_rate().abs_diff(200) <= 1, "{}", losses.inverse_rate());
    }

    #[test]
    fn a_mark_is_a_loss_and_a_long_time_without_any_is_forgiven() {
        let mut losses = Losses::default();
        for seq in 1..2000 {
            losses.arrived(seq, seq % 50 == 0, RTT, seq * 1000);
        }
        assert!(losses.inverse_rate().abs_diff(50) <= 1, "{}", losses.inverse_rate());
        run(&mut losses, 2000..20_000, |_| false);
        assert!(losses.inverse_rate() > 2500, "{}", losses.inverse_rate());
    }

    #[test]
    fn marks_are_told_as_long_as_they_count() {
        let mut losses = Losses::default();
        let mut is_told = Vec::new();
        for seq in (1..1200).filter(|seq| seq % 100 != 0) {
            losses.arrived(seq, seq == 150, RTT, seq * 1000);
            if seq % 100 == 70 {
                is_told.push(losses.has_marks());
            }
        }
        // One of eight intervals.
        let expected: Vec<_> = (0..12).map(|at| (1..9).contains(&at)).collect();
        assert_eq!(is_told, expected);
    }

    #[test]
    fn what_is_forgiven_is_no_loss() {
        let mut losses = Losses::default();
        for seq in (1..1000).filter(|seq| seq % 100 > 10) {
            losses.forgive(seq);
            losses.arrived(seq, false, RTT, seq * 1000);
        }
        assert_eq!(losses.inverse_rate(), 0);
    }

    #[test]
    fn another_count_goes_on_from_where_one_was() {
        let mut losses = Losses::after(120);
        run(&mut losses, 5000..5100, |_| false);
        assert_eq!(losses.inverse_rate(), 120);
        run(&mut losses, 5100..9000, |seq| seq % 50 == 0);
        assert!(losses.inverse_rate().abs_diff(50) <= 1, "{}", losses.inverse_rate());
    }

    #[test]
    fn the_first_interval_is_that_of_what_came() {
        let mut losses = Losses::default();
        run(&mut losses, 1..1000, |seq| seq == 900);
        // 1000 packets a second at 10 ms.
        let inverse = f64::from(losses.inverse_rate());
        let rate = throughput::packets_per_s(RTT, 1.0 / inverse);
        assert!((rate / 1000.0 - 1.0).abs() < 0.3, "{inverse}: {rate}");
    }

    proptest! {
        #[test]
        fn any_numbers_will_do(seqs in proptest::collection::vec(1u64..5000, 1..300)) {
            let mut losses = Losses::default();
            let mut seen = std::collections::HashSet::new();
            for (at, seq) in seqs.into_iter().filter(|seq| seen.insert(*seq)).enumerate() {
                losses.arrived(seq, seq % 7 == 0, RTT, at as u64 * 1000);
                let _ = losses.inverse_rate();
            }
        }
    }
}
