//! Where to a whole burst's lines are asked for, found out by trying.
//!
//! While bursts are spread over many SAs, each packet asks for some twenty lines long before they are needed. To the
//! first-level cache a core has a score of lines under way, and some processors forget what is asked for
//! beyond that. To the second there may be twice as many, until the processor finds the memory too busy and forgets
//! those too. Which is faster hangs on the processor, on the traffic, and, on a shared machine, on the others;
//! the difference is up to a quarter of the time either way. So both are tried for a moment now and then,
//! and the one stays whose packets took less time.
//!
//! ```text
//!   stay       | measure || settle              | measure || stay ...
//!   the chosen | the chosen || the other one    | the other one || the better one
//! ```
//!
//! A trial begins with time to settle: a processor that has been forgetting takes some milliseconds
//! to change its mind. Each trial that changes nothing makes the next stay twice as long.

use mem::Cache;

/// The choice of one worker.
#[derive(Debug)]
pub(crate) struct Asking {
    chosen: Cache,
    stage: Stage,
    /// Packets until the stage ends.
    left: u64,
    /// Packets of the next stay.
    stay: u64,
    /// What was measured of the chosen one, and of the stage under way.
    before: Pace,
    now: Pace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Stay,
    Measure,
    Settle,
    Try,
}

/// How long packets took.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    packets: u64,
    ns: u64,
}

impl Pace {
    fn add(&mut self, packets: u64, ns: u64) {
        self.packets += packets;
        self.ns += ns;
    }

    /// Whether packets took less time, by more than chance.
    fn is_faster_than(self, other: Pace) -> bool {
        let [own, others] = [(self.ns, other.packets), (other.ns, self.packets)]
            .map(|(ns, packets)| u128::from(ns) * u128::from(packets));
        own * 100 < others * (100 - CHANCE_PERCENT)
    }
}

impl Asking {
    /// Nothing has been tried yet.
    pub(crate) const fn new() -> Asking {
        let none = Pace { packets: 0, ns: 0 };
        Asking {
            chosen: Cache::First,
            stage: Stage::Stay,
            left: SHORTEST_STAY,
            stay: SHORTEST_STAY,
            before: none,
            now: none,
        }
    }

    /// The cache to ask into now.
    #[inline]
    pub(crate) fn cache(&self) -> Cache {
        match (self.chosen, self.stage) {
            (chosen, Stage::Stay | Stage::Measure) => chosen,
            (Cache::First, _) => Cache::Second,
            (Cache::Second, _) => Cache::First,
        }
    }

    /// Whether it has to be known how long the next packets take.
    #[inline]
    pub(crate) fn is_measuring(&self) -> bool {
        matches!(self.stage, Stage::Measure | Stage::Try)
    }

    /// Some packets of full bursts are done; `ns` is how long they took, if that was
    /// [asked for](Asking::is_measuring).
    #[inline]
    pub(crate) fn note(&mut self, packets: u64, ns: u64) {
        self.now.add(packets, ns);
        self.left = self.left.saturating_sub(packets);
        if self.left == 0 {
            self.step();
        }
    }

    #[cold]
    fn step(&mut self) {
        let pace = core::mem::take(&mut self.now);
        (self.stage, self.left) = match self.stage {
            Stage::Stay => (Stage::Measure, MEASURED),
            Stage::Measure => {
                self.before = pace;
                (Stage::Settle, SETTLING)
            }
            Stage::Settle => (Stage::Try, MEASURED),
            Stage::Try if pace.is_faster_than(self.before) => {
                self.chosen = self.cache();
                self.stay = SHORTEST_STAY;
                (Stage::Stay, self.stay)
            }
            Stage::Try => {
                self.stay = (self.stay * 2).min(LONGEST_STAY);
                (Stage::Stay, self.stay)
            }
        };
    }
}

/// Packets by which a choice is measured: some ten milliseconds.
const MEASURED: u64 = 1 << 15;

/// Packets before one is measured that was not in use.
const SETTLING: u64 = 1 << 15;

/// Packets between two trials, at least and at most. At most a fiftieth of the packets then goes the slower way.
const SHORTEST_STAY: u64 = 1 << 16;
const LONGEST_STAY: u64 = 1 << 22;

/// Differences up to here are taken for chance.
const CHANCE_PERCENT: u128 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of a burst.
    const BURST: u64 = 64;

    /// Lets so many packets pass, each of which takes so many nanoseconds by cache; returns how many asked
    /// into the second-level cache.
    fn run(asking: &mut Asking, packets: u64, ns: impl Fn(Cache) -> u64) -> u64 {
        let mut second = 0;
        for _ in 0..packets / BURST {
            let cache = asking.cache();
            second += if cache == Cache::Second { BURST } else { 0 };
            let ns = if asking.is_measuring() { BURST * ns(cache) } else { 0 };
            asking.note(BURST, ns);
        }
        second
    }

    fn second_is(ns_of_second: u64) -> impl Fn(Cache) -> u64 {
        move |cache| if cache == Cache::Second { ns_of_second } else { 400 }
    }

    #[test]
    fn the_faster_one_is_found_and_stays() {
        let mut asking = Asking::new();
        assert_eq!(asking.cache(), Cache::First);
        run(&mut asking, SHORTEST_STAY + 2 * MEASURED + SETTLING, second_is(300));
        assert_eq!((asking.cache(), asking.stage), (Cache::Second, Stage::Stay));
        let packets = 64 * LONGEST_STAY;
        let second = run(&mut asking, packets, second_is(300));
        assert!(second * 50 > packets * 49, "{second} of {packets}");
    }

    #[test]
    fn the_slower_one_is_only_tried() {
        let mut asking = Asking::new();
        let packets = 64 * LONGEST_STAY;
        let second = run(&mut asking, packets, second_is(500));
        assert!((1..packets / 50).contains(&second), "{second} of {packets}");
        assert_eq!(asking.chosen, Cache::First);
    }

    #[test]
    fn what_is_as_fast_changes_nothing() {
        let mut asking = Asking::new();
        for ns in [400, 395, 389] {
            run(&mut asking, 4 * LONGEST_STAY, second_is(ns));
            assert_eq!(asking.chosen, Cache::First, "{ns}");
        }
        run(&mut asking, 4 * LONGEST_STAY, second_is(387));
        assert_eq!(asking.chosen, Cache::Second);
    }

    #[test]
    fn a_change_is_noticed_both_ways() {
        let mut asking = Asking::new();
        for (ns, chosen) in [(300, Cache::Second), (500, Cache::First), (300, Cache::Second)] {
            run(&mut asking, 2 * LONGEST_STAY, second_is(ns));
            assert_eq!(asking.chosen, chosen, "{ns}");
        }
    }
}
