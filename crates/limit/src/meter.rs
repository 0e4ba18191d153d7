//! A limiter's buckets with one owner.

use crate::colour::Which;
use crate::{Colour, Fill, PARTS, Settings};

/// One or two buckets that one thread has. Exact: see the crate's page.
///
/// Which settings they are of is told with each call, and is to be the same; other ones take effect from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    first: u64,
    second: u64,
    /// When tokens were last added.
    at_ns: u64,
}

/// Level of a full bucket, in parts of tokens.
pub(crate) const fn depth(fill: Fill) -> u64 {
    fill.burst.saturating_mul(PARTS)
}

impl Meter {
    /// A meter whose buckets are full.
    pub fn full(settings: &Settings, now_ns: u64) -> Meter {
        let second = settings.second().map_or(0, depth);
        Meter { first: depth(settings.first()), second, at_ns: now_ns }
    }

    /// Adds the tokens of the time since the last call. A clock that goes back adds none.
    pub fn refill(&mut self, settings: &Settings, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
        let first = settings.first();
        let level = self.first.saturating_add(first.rate.saturating_mul(passed));
        self.first = level.min(depth(first));
        let Some(second) = settings.second() else { return };
        let came = match settings.overflows() {
            true => level - self.first,
            false => second.rate.saturating_mul(passed),
        };
        self.second = self.second.saturating_add(came).min(depth(second));
    }

    /// The colour of a packet of so many parts of tokens that came with one, as of the last refill.
    pub fn colour(&self, settings: &Settings, cost: u64, came: Colour) -> Colour {
        let came = if settings.is_aware { came } else { Colour::Green };
        settings.rule().colour(came, |which| match which {
            Which::First => self.first >= cost,
            Which::Second => self.second >= cost,
        })
    }

    /// Takes the tokens of a packet that has been given a colour.
    pub fn take(&mut self, settings: &Settings, cost: u64, colour: Colour) {
        let of = |which| if settings.rule().takes(colour, which) { cost } else { 0 };
        self.first = self.first.saturating_sub(of(Which::First));
        self.second = self.second.saturating_sub(of(Which::Second));
    }

    /// True if the buckets are as those of a new meter at this time: then it need not be
    /// remembered.
    pub fn is_full(&self, settings: &Settings, now_ns: u64) -> bool {
        let mut later = *self;
        later.refill(settings, now_ns);
        later.first == depth(settings.first()) && later.second == settings.second().map_or(0, depth)
    }

    /// Levels of the buckets, in parts of tokens.
    pub const fn levels(&self) -> [u64; 2] {
        [self.first, self.second]
    }

    /// A meter of these parts, as a shared cell kept them.
    pub const fn from_parts(levels: [u64; 2], at_ns: u64) -> Meter {
        Meter { first: levels[0], second: levels[1], at_ns }
    }

    /// When tokens were last added.
    pub const fn at_ns(&self) -> u64 {
        self.at_ns
    }
}
