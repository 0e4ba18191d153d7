//! Timing: one pinned thread, pieces that add up to repetitions, medians and spread.
//!
//! Of a repetition the *quiet* pieces count, before and after which nobody worked on the other halves of its cores
//! ([`crate::sibling`]). What else was measured counts only where there is no quiet piece within the time that a
//! repetition may take.

use core::time::Duration;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use crate::cycles;
use crate::error::BenchError;
use crate::outside;
use crate::row::Row;
use crate::sibling::{Post, are_quiet, await_quiet};

/// Sums of the timed pieces of a repetition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timed {
    pub(crate) packets: u64,
    pub(crate) time: Duration,
    pub(crate) cycles: Option<u64>,
    pub(crate) allocations: u64,
    /// True if it is of quiet pieces.
    is_quiet: bool,
    /// Time of pieces that were thrown away as another process had the core.
    thrown: Duration,
    /// When the first quiet piece was looked for.
    begun: Option<Instant>,
    /// How long it may look for quiet and undisturbed pieces, if that is given.
    patience: Option<Duration>,
}

impl Timed {
    /// Of nothing yet; `patience` bounds how long a repetition looks for quiet pieces ([`Timed::has_time`]).
    pub(crate) fn within(patience: Option<Duration>) -> Timed {
        Timed { patience, ..Timed::default() }
    }

    /// Does a piece of work of so many packets under the clock; returns whether it counts.
    ///
    /// A piece during which another process had the core does not, unless that happens all the
    /// time: what it would tell is how busy the machine is.
    pub(crate) fn piece(
        &mut self,
        packets: usize,
        allocations: Option<fn() -> u64>,
        work: impl FnOnce(),
    ) -> bool {
        let work = || {
            work();
            packets
        };
        self.piece_on(&mut (), allocations, |()| work(), |()| false)
    }

    /// As [`Timed::piece`], when the core is quiet.
    pub(crate) fn quiet_piece(
        &mut self,
        packets: usize,
        allocations: Option<fn() -> u64>,
        work: impl FnOnce(),
    ) {
        let work = || {
            work();
            packets
        };
        self.quiet_piece_on(&mut (), &[], allocations, |()| work(), |()| 0);
    }

    /// As [`Timed::quiet_piece`], with other threads of the work on the cores of `posts`; `switches` says how
    /// often they had to leave them so far. The work says how many packets it had.
    pub(crate) fn quiet_piece_on<S>(
        &mut self,
        subject: &mut S,
        posts: &[Post],
        allocations: Option<fn() -> u64>,
        work: impl FnOnce(&mut S) -> usize,
        switches: impl Fn(&S) -> u64,
    ) {
        self.begun.get_or_insert_with(Instant::now);
        await_quiet(posts, self.patience);
        let before = switches(subject);
        let mut piece = Timed { thrown: self.thrown, ..Timed::within(self.patience) };
        let is_disturbed = |subject: &S| switches(subject) != before;
        let counts = piece.piece_on(subject, allocations, work, is_disturbed);
        self.thrown = piece.thrown;
        if counts {
            self.add(piece, are_quiet(posts));
        }
    }

    /// Adds what another process has done, whose core is the calling thread's too: `work` waits for it, and says
    /// how many packets it had and how long they took.
    pub(crate) fn quiet_slice(
        &mut self,
        work: impl FnOnce() -> Result<(u64, Duration), BenchError>,
    ) -> Result<(), BenchError> {
        self.begun.get_or_insert_with(Instant::now);
        await_quiet(&[], self.patience);
        let (packets, time) = work()?;
        self.add(Timed { packets, time, ..Timed::default() }, are_quiet(&[]));
        Ok(())
    }

    /// Adds a piece. All pieces count until one was quiet, and only quiet ones from then on.
    fn add(&mut self, piece: Timed, is_quiet: bool) {
        if self.is_quiet && !is_quiet {
            return;
        }
        if is_quiet && !self.is_quiet {
            let Timed { thrown, begun, patience, .. } = *self;
            *self = Timed { is_quiet, thrown, begun, patience, ..Timed::default() };
        }
        self.time += piece.time;
        self.packets += piece.packets;
        self.allocations += piece.allocations;
        if let Some(cycles) = piece.cycles {
            self.cycles = Some(self.cycles.unwrap_or(0) + cycles);
        }
    }

    fn piece_on<S>(
        &mut self,
        subject: &mut S,
        allocations: Option<fn() -> u64>,
        work: impl FnOnce(&mut S) -> usize,
        is_disturbed: impl FnOnce(&S) -> bool,
    ) -> bool {
        let allocated = allocations.map_or(0, |count| count());
        let own_before = own_time();
        let spent_before = outside::spent();
        let begun = Instant::now();
        let from = cycles::now();
        let packets = work(subject);
        let to = cycles::now();
        let time = begun.elapsed();
        let own = own_time().saturating_sub(own_before);
        let allocated_after = allocations.map_or(0, |count| count());
        let is_disturbed = time > own + own / 64 + CLOCK_GRAIN || is_disturbed(subject);
        let limit = self.patience.map_or(PATIENCE, |patience| patience.min(PATIENCE));
        if is_disturbed && self.thrown < limit {
            self.thrown += time;
            return false;
        }
        let cycles = from.zip(to).map(|(from, to)| to.wrapping_sub(from));
        let spent = outside::spent() - spent_before;
        let (time, cycles) = outside::without(time, cycles, spent);
        self.time += time;
        self.allocations += allocated_after - allocated;
        self.packets += packets as u64;
        if let Some(cycles) = cycles {
            self.cycles = Some(self.cycles.unwrap_or(0) + cycles);
        }
        true
    }

    /// Sum of several cores' work at the same time, as if of one: its rate is the sum of theirs,
    /// and its cycles are the mean of theirs for each packet.
    pub(crate) fn together(all: &[Timed]) -> Timed {
        let packets: u64 = all.iter().map(|timed| timed.packets).sum();
        let rate: f64 = all.iter().map(Timed::mpps).sum();
        Timed {
            packets,
            time: Duration::from_secs_f64(packets as f64 / (rate * 1e6)),
            cycles: all.iter().map(|timed| timed.cycles).sum(),
            allocations: all.iter().map(|timed| timed.allocations).sum(),
            is_quiet: all.iter().all(|timed| timed.is_quiet),
            begun: all.iter().find_map(|timed| timed.begun),
            ..Timed::default()
        }
    }

    /// True while a repetition of this length still has time.
    ///
    /// Where quiet pieces are rare it may take several times as long, its patience where that is given, and then
    /// ends with those that there are, or with others.
    pub(crate) fn has_time(&self, duration: Duration) -> bool {
        let is_short = self.time < duration || self.packets == 0;
        let Some(begun) = self.begun else { return is_short };
        let limit = match self.patience {
            Some(patience) => patience.max(duration * WRITING_TIMES),
            None => LOOKING + duration * LOOKING_TIMES,
        };
        let may_look = begun.elapsed() < limit;
        match self.is_quiet {
            true => is_short && may_look,
            false => is_short || may_look,
        }
    }

    /// True if it is of quiet pieces.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// True if quietness was looked at.
    pub(crate) const fn is_watched(&self) -> bool {
        self.begun.is_some()
    }

    pub(crate) fn mpps(&self) -> f64 {
        self.packets as f64 / self.time.as_secs_f64() / 1e6
    }

    pub(crate) fn rate(&self) -> Rate {
        Rate { mpps: self.mpps(), is_quiet: self.is_quiet }
    }

    pub(crate) fn cycles_per_packet(&self) -> Option<f64> {
        self.cycles.map(|cycles| cycles as f64 / self.packets as f64)
    }

    pub(crate) fn ns_per_packet(&self) -> f64 {
        self.time.as_nanos() as f64 / self.packets as f64
    }
}

/// The time that the calling thread itself has had of a core.
pub(crate) fn own_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// How often a thread of this process, by its number in the system, had to leave its core to
/// another; 0 where the system does not say.
pub(crate) fn switches(thread: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status"));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The repetitions of one measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repetitions(pub(crate) Vec<Timed>);

impl Repetitions {
    /// Measures so many repetitions of `work`, which does one each.
    pub(crate) fn of(
        repeat: usize,
        mut work: impl FnMut() -> Result<Timed, BenchError>,
    ) -> Result<Repetitions, BenchError> {
        (0..repeat).map(|_| work()).collect::<Result<Vec<_>, _>>().map(Repetitions)
    }

    /// The repetitions that count: the quiet ones, if there are any.
    fn counted(&self) -> Vec<&Timed> {
        quiet_ones(self.0.iter().map(|timed| (timed, timed.is_quiet)))
    }

    pub(crate) fn rates(&self) -> impl Iterator<Item = Rate> {
        self.0.iter().map(Timed::rate)
    }

    pub(crate) fn mpps(&self) -> f64 {
        median(self.counted().into_iter().map(Timed::mpps).collect())
    }

    pub(crate) fn ns_per_packet(&self) -> f64 {
        median(self.counted().into_iter().map(Timed::ns_per_packet).collect())
    }

    pub(crate) fn cycles_per_packet(&self) -> Option<f64> {
        let counted = self.counted().into_iter();
        let cycles: Option<Vec<f64>> = counted.map(Timed::cycles_per_packet).collect();
        cycles.map(median)
    }

    /// Writes rates, cycles and allocations into a row; `counted` says whether the program counts
    /// allocations.
    pub(crate) fn fill(&self, row: &mut Row, counted: bool) {
        let rates: Vec<f64> = self.counted().into_iter().map(Timed::mpps).collect();
        let packets: u64 = self.0.iter().map(|t| t.packets).sum();
        let allocations: u64 = self.0.iter().map(|t| t.allocations).sum();
        let mpps = self.mpps();
        row.mpps_min = Some(rates.iter().copied().fold(f64::INFINITY, f64::min));
        row.mpps_max = Some(rates.iter().copied().fold(0.0, f64::max));
        row.mpps_median = Some(mpps);
        row.gbps_median = row.size_bytes.map(|size| mpps * size as f64 * 8.0 / 1000.0);
        row.cycles_per_packet = self.cycles_per_packet();
        row.allocations_per_packet = counted.then(|| allocations as f64 / packets as f64);
        if self.0.iter().any(Timed::is_watched) {
            row.quiet_share = Some(share(self.0.iter().map(|timed| timed.is_quiet)));
        }
    }
}

/// The rate of a repetition, in million packets a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) mpps: f64,
    /// True if it is of quiet pieces.
    pub(crate) is_quiet: bool,
}

/// Of values that were measured when it was quiet, or not, the quiet ones; all if there is none.
pub(crate) fn quiet_ones<T>(all: impl Iterator<Item = (T, bool)>) -> Vec<T> {
    let (quiet, others): (Vec<_>, Vec<_>) = all.partition(|(_, is_quiet)| *is_quiet);
    let counted = if quiet.is_empty() { others } else { quiet };
    counted.into_iter().map(|(value, _)| value).collect()
}

/// Which part of them is true.
pub(crate) fn share(all: impl ExactSizeIterator<Item = bool>) -> f64 {
    let count = all.len();
    all.filter(|is| *is).count() as f64 / count as f64
}

/// Writes rates into a row as multiples of those that were measured in turns with them: pairs of both. Of pairs
/// those count in which both are quiet, if there are any.
pub(crate) fn fill_gain(row: &mut Row, pairs: impl Iterator<Item = (Rate, Rate)>) {
    let gains = gains(pairs);
    row.gain_min = gains.iter().copied().reduce(f64::min);
    row.gain_max = gains.iter().copied().reduce(f64::max);
    row.gain_median = Some(median(gains));
}

/// Rates as multiples of those that were measured in turns with them, of the pairs that count.
pub(crate) fn gains(pairs: impl Iterator<Item = (Rate, Rate)>) -> Vec<f64> {
    let gain = |(rate, base): (Rate, Rate)| (rate.mpps / base.mpps, rate.is_quiet && base.is_quiet);
    quiet_ones(pairs.map(gain))
}

/// By how much the two clocks may differ for nothing.
const CLOCK_GRAIN: Duration = Duration::from_micros(5);
/// How much disturbed time a repetition throws away at most.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a repetition looks for quiet pieces: this, and so many times its length. Packets are written between
/// pieces, which takes several times as long as a piece.
const LOOKING: Duration = Duration::from_millis(300);
const LOOKING_TIMES: u32 = 8;
/// How many times as long as its pieces a repetition takes at least, where all of them are quiet.
const WRITING_TIMES: u32 = 4;

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    let at = |i: usize| values.get(i).copied().unwrap_or(f64::NAN);
    if values.len() % 2 == 1 { at(upper) } else { (at(upper.wrapping_sub(1)) + at(upper)) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }

    #[test]
    fn a_row_tells_median_and_spread() {
        let timed = |ms| Timed {
            packets: 1000,
            time: Duration::from_millis(ms),
            cycles: Some(ms * 10_000),
            allocations: ms,
            ..Timed::default()
        };
        let all = Repetitions(vec![timed(1), timed(4), timed(2)]);
        let mut row = Row { size_bytes: Some(125), ..Row::default() };
        all.fill(&mut row, true);
        assert_eq!(
            (row.mpps_min, row.mpps_median, row.mpps_max),
            (Some(0.25), Some(0.5), Some(1.0))
        );
        assert_eq!((row.gbps_median, row.cycles_per_packet), (Some(0.5), Some(20.0)));
        assert_eq!(row.allocations_per_packet, Some(7.0 / 3000.0));
        all.fill(&mut row, false);
        assert_eq!(row.allocations_per_packet, None);
    }

    #[test]
    fn a_gain_is_of_what_was_measured_in_turns() {
        let mut row = Row::default();
        let rate = |(mpps, is_quiet)| Rate { mpps, is_quiet };
        let mut gains = |pairs: &[[(f64, bool); 2]]| {
            let pairs = pairs.iter().map(|[one, base]| (rate(*one), rate(*base)));
            fill_gain(&mut row, pairs);
            (row.gain_min, row.gain_median, row.gain_max)
        };
        let mut pairs = vec![
            [(2.0, false), (4.0, false)],
            [(1.0, true), (4.0, false)],
            [(4.0, false), (5.0, true)],
        ];
        assert_eq!(gains(&pairs), (Some(0.25), Some(0.5), Some(0.8)));
        pairs.push([(9.0, true), (3.0, true)]);
        assert_eq!(gains(&pairs), (Some(3.0), Some(3.0), Some(3.0)), "both were quiet");
    }

    #[test]
    fn a_piece_that_was_disturbed_does_not_count() {
        let mut timed = Timed::default();
        // Asleep, the thread has no core.
        assert!(!timed.piece(1, None, || std::thread::sleep(Duration::from_millis(2))));
        assert_eq!((timed.packets, timed.time), (0, Duration::ZERO));
        assert!(timed.has_time(Duration::ZERO), "nothing was measured yet");
        timed.thrown = PATIENCE;
        assert!(timed.piece(1, None, || std::thread::sleep(Duration::from_millis(2))));
        assert_eq!(timed.packets, 1);
        assert!(timed.time >= Duration::from_millis(2));
    }

    #[test]
    fn quiet_pieces_count_alone_once_there_is_one() {
        let piece = |packets| Timed {
            packets,
            time: Duration::from_millis(packets),
            cycles: Some(10 * packets),
            allocations: packets,
            ..Timed::default()
        };
        let mut timed = Timed { begun: Some(Instant::now()), ..Timed::default() };
        timed.add(piece(1), false);
        timed.add(piece(2), false);
        assert_eq!((timed.packets, timed.is_quiet()), (3, false));
        assert!(timed.has_time(Duration::from_millis(1)), "there may be a quiet one yet");
        timed.add(piece(4), true);
        timed.add(piece(8), false);
        timed.add(piece(16), true);
        assert_eq!((timed.packets, timed.time), (20, Duration::from_millis(20)));
        assert_eq!((timed.cycles, timed.allocations, timed.is_quiet()), (Some(200), 20, true));
        assert!(timed.has_time(Duration::from_millis(21)));
        assert!(!timed.has_time(Duration::from_millis(20)));
        let looked_for_long = Instant::now().checked_sub(LOOKING * 2).unwrap();
        timed.begun = Some(looked_for_long);
        assert!(!timed.has_time(Duration::from_millis(21)), "what there is has to do");
        let none_quiet = Timed { is_quiet: false, ..timed };
        assert!(none_quiet.has_time(Duration::from_millis(21)));
        assert!(!none_quiet.has_time(Duration::from_millis(20)));
        let mut row = Row::default();
        let slow = Timed { packets: 5, ..none_quiet };
        Repetitions(vec![slow, timed, slow]).fill(&mut row, false);
        assert_eq!((row.mpps_min, row.mpps_max), (Some(timed.mpps()), Some(timed.mpps())));
        assert_eq!(row.quiet_share, Some(1.0 / 3.0));
        let mut row = Row::default();
        Repetitions(vec![piece(1)]).fill(&mut row, false);
        assert_eq!(row.quiet_share, None, "never looked");
    }

    #[test]
    fn patience_bounds_a_repetition_that_finds_nothing_quiet() {
        let looked = |ms, patience| Timed {
            packets: 1,
            time: Duration::from_secs(1),
            begun: Instant::now().checked_sub(Duration::from_millis(ms)),
            ..Timed::within(patience)
        };
        let (length, patience) = (Duration::from_millis(50), Some(Duration::from_millis(400)));
        assert!(looked(300, patience).has_time(length));
        assert!(!looked(450, patience).has_time(length));
        assert!(looked(450, None).has_time(length), "it may take longer where nobody minds");
        assert!(looked(450, patience).has_time(length * 4), "what is written has to be in it");
    }

    #[test]
    fn patience_bounds_what_is_thrown_away() {
        let mut timed = Timed::within(Some(Duration::from_millis(1)));
        assert!(!timed.piece(1, None, || std::thread::sleep(Duration::from_millis(2))));
        assert!(timed.piece(1, None, || std::thread::sleep(Duration::from_millis(2))));
        assert_eq!(timed.packets, 1);
    }

    #[test]
    fn a_piece_is_measured_once_whether_it_is_quiet_or_not() {
        let (mut timed, mut subject) = (Timed::default(), 0);
        let work = |n: &mut i32| {
            *n += 1;
            7
        };
        timed.quiet_piece_on(&mut subject, &[], None, work, |_| 0);
        assert_eq!(subject, 1);
        assert!(timed.packets == 7 || timed.thrown > Duration::ZERO);
        assert!(timed.begun.is_some());
    }
}
