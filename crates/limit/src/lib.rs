//! Rate limits: token buckets, three colours, hierarchies, and tokens that workers lease.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`units`] | how rates and bursts are written: `100Mbit`, `10kpps`, `64kB` |
//! | [`Settings`] | one limiter's rates and bursts, and which algorithm they make |
//! | [`Meter`] | a limiter's buckets with one owner |
//! | [`Pool`] | a bucket that many threads draw from, in time rather than in tokens |
//! | [`Limiter`] | a limiter that workers share: pools, and a lane of leased tokens for each worker |
//! | [`Lanes`] | where lanes lie: a worker's beside each other, one cache line a limiter |
//! | [`Place`], [`Visit`] | which worker has a limiter, where one has it at a time |
//! | [`LimitPath`] | the limiters that a packet passes, from its own to the outermost |
//! | [`Queue`], [`Store`] | what waits for tokens, by classes, and the memory of all that does |
//! | [`Meters`] | meters of flows or tunnels, as many as there is room for, found by a key |
//!
//! # Arithmetic
//!
//! Tokens are bits or packets, counted in thousand-millionths. A rate of `r` a second then gives exactly `r` of them
//! in a nanosecond, so nothing is ever rounded: a [`Meter`] is equal to a bucket of rational numbers. The largest
//! burst is [`MAX_BURST_BYTES`], so that a full bucket fits 63 bits.
//!
//! # Sharing
//!
//! A [`Pool`] knows one number: up to which time its tokens are spent. A thread that takes moves it on by a
//! compare-and-swap. The tokens of `n` nanoseconds are exactly `n * rate`, so two numbers (level, and time of the last
//! refill) need not change together.
//!
//! **Contract.** Over any interval of length `t`, on the callers' clocks, all workers together pass at most
//! `burst + rate * t`. The pool's depth is the burst less what all workers may hold, so leased tokens count as in the
//! bucket. A worker holds at most one [quantum](Limiter::quantum); a limiter whose burst is too small to be shared out has a
//! quantum of 0, and each packet draws from the pool. What a worker holds goes back when it is idle
//! ([`Limiter::give_back`]). One lane has one writer. Workers' clocks may differ: a difference of `d` adds at most
//! `rate * d`.
//!
//! That is [`Sharing::Leases`]. With [`Sharing::Atomic`] a hierarchy has one [home](Place) at a time, the only worker that
//! touches its buckets: there is one lane and nothing is leased. Other workers' packets go there and back.
//!
//! A packet passes a [`LimitPath`] only if each limiter lets it, and takes tokens from none if one does not. Where its own limiter
//! [has packets wait](Settings::queue), the caller keeps it in a [`Queue`] until [`LimitPath::pass_or_wait`] lets it.
#![forbid(unsafe_code)]

mod class;
mod colour;
mod home;
mod lane;
mod lanes;
mod leased;
mod meter;
mod meters;
mod path;
mod pool;
mod queue;
mod settings;
mod sync;
mod treatment;
pub mod units;
mod waits;

pub use class::{CLASSES, Class};
pub use colour::Colour;
pub use home::Hold;
pub use lane::{Counts, Lane};
pub use lanes::Lanes;
pub use leased::{Level, Limiter};
pub use meter::Meter;
pub use meters::Meters;
pub use path::{LimitPath, Passed, Place, Refused, Stop, Visit};
pub use pool::Pool;
pub use queue::{Bounds, Queue, Store, Waiting};
pub use settings::{
    Algorithm, Fill, MAX_BURST_BYTES, MAX_LEVELS, MAX_RATE, Settings, SettingsError, Sharing, Unit,
};
pub use treatment::{Treatment, Treatments};
pub use waits::{Waited, Waits};

/// Parts of a token: thousand-millionths.
pub(crate) const PARTS: u64 = 1_000_000_000;
