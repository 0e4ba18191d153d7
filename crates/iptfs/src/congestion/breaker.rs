//! A circuit breaker for a rate that does not follow losses (RFC 9347, section 2.4.2.1; RFC 8084).
//!
//! ```text
//!              losses, silence or a full device for `after_us`
//!   closed ──────────────────────────────────────────────────────> open: a payload a second, nothing in it
//!      ^                                                               │
//!      └──── after `restart_us`, once the cause is not there any more ─┘
//! ```
//!
//! | cause | how it is known |
//! | --- | --- |
//! | losses | the other end reports them in the header of sub-type 1 |
//! | silence | the other end reports nothing: it gets nothing, or what it sends does not arrive |
//! | a full device | packets are refused by the port that they leave by |
//!
//! While it is open a payload a second goes on, for the other end's reports: by them it is known whether the path is
//! well again, and this end's reports are what the other direction's breaker waits for.

use super::report::Report;

/// When it opens and closes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Losses of so many of a million are too many.
    pub most_lost_ppm: u32,
    /// How long a cause lasts until it opens.
    pub after_us: u64,
    /// How long it stays open at least.
    pub restart_us: u64,
}

/// Why it has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Losses of so many of a million are reported.
    Losses {
        /// Losses, in millionths.
        ppm: u32,
    },
    /// Nothing is reported.
    Silence,
    /// The port takes no more.
    Device,
}

/// Change of the breaker by a look at its causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Only what the other end has to know is sent from now on.
    Opened(Cause),
    /// Everything is sent again.
    Closed,
}

/// The breaker of one outbound SA.
#[derive(Clone, Copy, Debug)]
pub struct Breaker {
    rules: Rules,
    /// Losses that the other end reported last, in millionths.
    lost_ppm: u32,
    heard_us: u64,
    /// Begin of each cause that lasts.
    losses_since_us: Option<u64>,
    device_since_us: Option<u64>,
    /// When the port refused a packet last.
    device_us: u64,
    opened_us: Option<u64>,
}

/// A port that has refused nothing for so long is not full.
const DEVICE_PAUSE_US: u64 = 1_000_000;

impl Breaker {
    /// One that is closed.
    pub fn new(rules: Rules, now_us: u64) -> Breaker {
        Breaker {
            rules,
            lost_ppm: 0,
            heard_us: now_us,
            losses_since_us: None,
            device_since_us: None,
            device_us: 0,
            opened_us: None,
        }
    }

    /// Takes a report in which the other end was heard anew.
    pub fn hear(&mut self, report: &Report) {
        let Some(heard) = report.heard else { return };
        self.heard_us = self.heard_us.max(heard.at_us);
        self.lost_ppm = 1_000_000_u32.checked_div(heard.loss_event_rate).unwrap_or(0);
        self.losses_since_us = match self.lost_ppm > self.rules.most_lost_ppm {
            true => self.losses_since_us.or(Some(heard.at_us)),
            false => None,
        };
    }

    /// The port has refused packets.
    pub fn device_is_full(&mut self, now_us: u64) {
        self.device_since_us.get_or_insert(now_us);
        self.device_us = now_us;
    }

    /// True if the breaker is open.
    pub const fn is_open(&self) -> bool {
        self.opened_us.is_some()
    }

    /// Opens or closes if it is time.
    pub fn look(&mut self, now_us: u64) -> Option<Change> {
        if now_us.saturating_sub(self.device_us) >= DEVICE_PAUSE_US {
            self.device_since_us = None;
        }
        let cause = self.cause(now_us);
        match self.opened_us {
            None => {
                let cause = cause?;
                self.opened_us = Some(now_us);
                Some(Change::Opened(cause))
            }
            Some(opened_us) => {
                let is_over = now_us.saturating_sub(opened_us) >= self.rules.restart_us;
                let is_well = cause.is_none() && self.losses_since_us.is_none();
                (is_over && is_well).then(|| {
                    self.opened_us = None;
                    Change::Closed
                })
            }
        }
    }

    /// The cause that has lasted for too long, if any.
    fn cause(&self, now_us: u64) -> Option<Cause> {
        let has_lasted = |since_us: u64| now_us.saturating_sub(since_us) >= self.rules.after_us;
        if has_lasted(self.heard_us) {
            return Some(Cause::Silence);
        }
        if self.losses_since_us.is_some_and(has_lasted) {
            return Some(Cause::Losses { ppm: self.lost_ppm });
        }
        self.device_since_us.is_some_and(has_lasted).then_some(Cause::Device)
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Heard;
    use super::*;

    const RULES: Rules =
        Rules { most_lost_ppm: 100_000, after_us: 10_000_000, restart_us: 60_000_000 };

    /// A report a second, from one second to another; what has changed in the end.
    fn run(breaker: &mut Breaker, seconds: core::ops::Range<u64>, inverse: u32) -> Option<Change> {
        let mut changed = None;
        for second in seconds {
            let at_us = second * 1_000_000;
            let heard = Heard { loss_event_rate: inverse, at_us, ..Heard::default() };
            breaker.hear(&Report { heard: Some(heard), ..Report::default() });
            changed = changed.or(breaker.look(at_us));
        }
        changed
    }

    #[test]
    fn losses_that_last_open_it_and_it_closes_when_they_are_over() {
        let mut breaker = Breaker::new(RULES, 0);
        assert_eq!(run(&mut breaker, 1..30, 0), None);
        assert_eq!(run(&mut breaker, 30..60, 10), None, "as many as are allowed");
        assert_eq!(run(&mut breaker, 60..70, 9), None, "not for long");
        assert_eq!(run(&mut breaker, 70..80, 12), None);
        assert_eq!(run(&mut breaker, 80..90, 4), None);
        let opened = Change::Opened(Cause::Losses { ppm: 250_000 });
        assert_eq!(run(&mut breaker, 90..91, 4), Some(opened));
        assert!(breaker.is_open());
        assert_eq!(run(&mut breaker, 91..200, 5), None, "they go on");
        assert_eq!(run(&mut breaker, 200..201, 50), Some(Change::Closed));
        assert_eq!(run(&mut breaker, 201..300, 50), None);
    }

    #[test]
    fn it_stays_open_for_a_while() {
        let mut breaker = Breaker::new(RULES, 0);
        assert!(run(&mut breaker, 1..12, 2).is_some());
        assert_eq!(run(&mut breaker, 12..71, 0), None);
        assert_eq!(run(&mut breaker, 71..72, 0), Some(Change::Closed));
    }

    #[test]
    fn silence_opens_it_and_a_word_closes_it() {
        let mut breaker = Breaker::new(RULES, 1_000_000);
        assert_eq!(breaker.look(10_999_999), None);
        assert_eq!(breaker.look(11_000_000), Some(Change::Opened(Cause::Silence)));
        assert_eq!(breaker.look(500_000_000), None);
        assert_eq!(run(&mut breaker, 501..502, 0), Some(Change::Closed));
    }

    #[test]
    fn a_port_that_is_full_opens_it() {
        let mut breaker = Breaker::new(RULES, 0);
        for tenth in 0..150 {
            let now_us = tenth * 100_000;
            run(&mut breaker, tenth / 10..tenth / 10 + 1, 0);
            // A pause of a second after the fourth.
            if !(40..=50).contains(&tenth) {
                breaker.device_is_full(now_us);
            }
            assert_eq!(breaker.look(now_us), None, "{tenth}");
        }
        breaker.device_is_full(15_100_000);
        assert_eq!(breaker.look(15_100_000), Some(Change::Opened(Cause::Device)));
    }
}
