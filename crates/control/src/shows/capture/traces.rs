//! Traces that have begun: each waits for its client to ask what has come.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dataplane::TapReader;

use super::slots::Slot;
use super::text::Names;
use crate::clock::Now;

/// The traces, by number.
#[derive(Default)]
pub struct Traces {
    all: BTreeMap<u64, Running>,
    last: u64,
}

/// A trace that has begun.
pub(super) struct Running {
    pub(super) reader: TapReader,
    pub(super) left: u64,
    pub(super) names: Names,
    pub(super) asked: Instant,
    pub(super) _slot: Slot,
}

/// How long a trace waits for its client.
const PATIENCE: Duration = Duration::from_secs(5);

impl Traces {
    /// One more; returns its number.
    pub(super) fn add(&mut self, running: Running) -> u64 {
        self.last += 1;
        self.all.insert(self.last, running);
        self.last
    }

    /// Takes one out, to be put back unless it is over.
    pub(super) fn take(&mut self, trace: u64) -> Option<Running> {
        self.all.remove(&trace)
    }

    /// Puts a trace back that goes on.
    pub(super) fn put_back(&mut self, trace: u64, running: Running) {
        self.all.insert(trace, running);
    }

    /// Ends those whose clients are gone.
    pub fn forget(&mut self, now: Now) {
        self.all.retain(|_, running| now.since(running.asked) < PATIENCE);
    }
}
