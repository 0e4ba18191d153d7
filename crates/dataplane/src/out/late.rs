//! Packets whose SA may have come while the round went on.
//!
//! A worker decides by the databases as they were when its round began. Where its core is taken from it meanwhile,
//! or where more has changed than one round takes over, an SA may be installed, and its peer may use it, before
//! the worker knows it. So a packet whose SA is not there waits for as long as the worker is behind.

use std::collections::VecDeque;

use io::BURST_LEN;

use crate::model::Arrived;

/// Most packets that wait.
const MOST: usize = 4 * BURST_LEN;

/// The packets, in the order in which they came.
pub(crate) struct Late(VecDeque<Arrived>);

impl Late {
    pub(crate) fn new() -> Late {
        Late(VecDeque::with_capacity(MOST))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// True if no more may wait.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    pub(super) fn push(&mut self, arrived: Arrived) {
        self.0.push_back(arrived);
    }

    /// Takes out the packet that has waited longest.
    pub(super) fn pop(&mut self) -> Option<Arrived> {
        self.0.pop_front()
    }
}
