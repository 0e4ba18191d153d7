//! When nothing comes: how long the worker goes on looking, and how it sleeps.
//!
//! To be woken costs about [`WAKE_NS`]: the system call, the switch to another thread and back, the
//! processor's own sleep. A packet that comes sooner than that after the last one is cheaper to wait
//! for by looking; one that comes later is cheaper to sleep for. Which it will be nobody knows, and
//! what the last gaps were like is the best guess:
//!
//! | the last gaps | the worker |
//! | --- | --- |
//! | within [`LONGEST_LOOK_NS`] | looks for as long, and so never sleeps while they stay so |
//! | longer | sleeps at once, from the second or third such gap on |
//!
//! So under load there are no interrupts and no wake-ups, and without load no core is burnt. In
//! between the time spent on looking in vain is at most that of the wake-up that it tried to save.

use core::time::Duration;

/// Behaviour of a worker without packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polling {
    /// Looks while packets come fast, sleeps when they do not.
    #[default]
    Adaptive,
    /// Looks all the time: the shortest latency, for a whole core.
    Always,
}

impl core::fmt::Display for Polling {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Polling::Adaptive => "adaptive",
            Polling::Always => "always",
        })
    }
}

/// Decides between looking again and sleeping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    polling: Polling,
    /// When the last packet came.
    last_ns: u64,
    /// How long to look after it.
    look_ns: u64,
    /// The worker has slept since then.
    slept: bool,
    /// When the ports were asked last whether they still work, by `poll` or one by one.
    asked_ns: u64,
}

impl Idle {
    pub(crate) const fn new(polling: Polling, now_ns: u64) -> Idle {
        Idle { polling, last_ns: now_ns, look_ns: 0, slept: false, asked_ns: now_ns }
    }

    /// After a round that began at `now_ns` and brought `came` packets: whether to sleep.
    pub(crate) fn should_sleep(&mut self, came: usize, now_ns: u64) -> bool {
        let gap_ns = now_ns.saturating_sub(self.last_ns);
        if came == 0 {
            return self.polling == Polling::Adaptive && gap_ns >= self.look_ns;
        }
        if gap_ns > LONGEST_LOOK_NS {
            self.look_ns = if self.look_ns > SHORTEST_LOOK_NS { self.look_ns / 2 } else { 0 };
        } else if self.slept {
            // It would have been worth waiting for.
            self.look_ns = (self.look_ns * 2).clamp(SHORTEST_LOOK_NS, LONGEST_LOOK_NS);
        }
        self.last_ns = now_ns;
        self.slept = false;
        false
    }

    /// The worker has slept, from `now_ns` on.
    pub(crate) const fn has_slept(&mut self, now_ns: u64) {
        self.slept = true;
        self.asked_ns = now_ns;
    }

    /// True if it is time to ask the ports if they still work. A sleeper learns it by `poll`, a
    /// worker that never sleeps does not.
    pub(super) fn should_ask(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns.saturating_sub(self.asked_ns) >= SLEEP.as_nanos() as u64;
        if is_due {
            self.asked_ns = now_ns;
        }
        is_due
    }
}

/// About what it costs to sleep and be woken.
const WAKE_NS: u64 = 10_000;

/// The longest gap that is worth waiting for with open eyes: a wake-up's cost in processor time, and
/// as much again for the packet's latency.
pub(super) const LONGEST_LOOK_NS: u64 = 2 * WAKE_NS;

/// First length of a look.
const SHORTEST_LOOK_NS: u64 = WAKE_NS / 2;

/// The longest sleep: held packets time out at this grain.
pub(super) const SLEEP: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Work of a worker with rounds of one microsecond while packets come at these gaps.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Spent {
        looked_ns: u64,
        sleeps: u64,
    }

    const ROUND_NS: u64 = 1_000;

    fn play(idle: &mut Idle, gaps: impl IntoIterator<Item = u64>) -> Spent {
        let mut spent = Spent::default();
        for gap_ns in gaps {
            let from_ns = idle.last_ns;
            let at_ns = from_ns + gap_ns;
            let mut now_ns = from_ns;
            while now_ns < at_ns {
                if idle.should_sleep(0, now_ns) {
                    idle.has_slept(now_ns);
                    spent.sleeps += 1;
                    now_ns = at_ns;
                } else {
                    spent.looked_ns += ROUND_NS;
                    now_ns += ROUND_NS;
                }
            }
            assert!(!idle.should_sleep(1, now_ns), "there may be more at once");
        }
        spent
    }

    fn adaptive() -> Idle {
        Idle::new(Polling::Adaptive, 0)
    }

    #[test]
    fn never_sleeps_while_packets_come_every_few_microseconds() {
        for gap_ns in [500, 3_000, 9_000, LONGEST_LOOK_NS - ROUND_NS] {
            let mut idle = adaptive();
            let learning = play(&mut idle, [gap_ns; 5]);
            assert!(learning.sleeps <= 4, "{gap_ns}: {learning:?}");
            assert_eq!(play(&mut idle, [gap_ns; 1000]).sleeps, 0, "{gap_ns}");
        }
    }

    #[test]
    fn looks_at_nothing_when_packets_are_rare() {
        let mut idle = adaptive();
        play(&mut idle, [2_000; 100]);
        let learning = play(&mut idle, [1_000_000; 4]);
        assert!(learning.looked_ns <= 2 * LONGEST_LOOK_NS, "{learning:?}");
        let later = play(&mut idle, [1_000_000; 1000]);
        assert_eq!(later, Spent { looked_ns: 0, sleeps: 1000 });
    }

    #[test]
    fn wakes_up_to_a_burst_and_back() {
        let mut idle = adaptive();
        play(&mut idle, [1_000_000; 10]);
        assert!(play(&mut idle, [2_000; 1000]).sleeps <= 3);
        assert_eq!(play(&mut idle, [1_000_000; 3]).sleeps, 3);
    }

    #[test]
    fn always_means_always() {
        let mut idle = Idle::new(Polling::Always, 0);
        assert_eq!(play(&mut idle, [1_000_000, 5_000, 3_000_000]).sleeps, 0);
    }

    #[test]
    fn one_that_never_sleeps_asks_its_ports_now_and_then() {
        let mut idle = Idle::new(Polling::Always, 0);
        let asked = (0..1_000_000).filter(|us| idle.should_ask(us * 1_000)).count();
        assert_eq!(asked, 19, "in a second, every 50 ms");
    }

    proptest! {
        /// Whatever comes: no gap costs more than the longest look, and packets that are never far
        /// apart put nobody to sleep more than a few times.
        #[test]
        fn looking_is_bounded(gaps in prop::collection::vec(1_u64..100_000, 1..300)) {
            let mut idle = adaptive();
            for &gap_ns in &gaps {
                let spent = play(&mut idle, [gap_ns]);
                prop_assert!(spent.looked_ns <= LONGEST_LOOK_NS + ROUND_NS);
                prop_assert!(spent.sleeps <= 1);
            }
            let long = gaps.iter().filter(|gap| **gap > LONGEST_LOOK_NS).count() as u64;
            let mut idle = adaptive();
            prop_assert!(play(&mut idle, gaps).sleeps <= 3 + 4 * long);
        }
    }
}
