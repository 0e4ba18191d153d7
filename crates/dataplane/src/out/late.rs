//! Packets whose SA may have come while the round went on.
//!
//! A worker decides by the databases as they were when its round began. Where its core is taken from it meanwhile,
//! or where more has changed than one round takes over, an SA may be installed, and its peer may use it, before
//! the worker knows it. So a packet whose SA is not there waits for as long as the worker is behind.

use std::collections::VecDeque;

use io::{BURST_LEN, Packet};
use outcome::{DropReason, Outcome};

use crate::model::{Arrived, Handed, Meta};
use crate::out::Out;
use crate::view::View;

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
}

impl Out {
    /// Keeps a packet whose SA is not there, or drops it: where nothing has changed since the round began, or too
    /// many wait.
    #[cold]
    pub(crate) fn put_off(&mut self, view: &View, packet: Packet, meta: &Meta) {
        if !view.reader.is_behind() {
            return self.drop(packet, DropReason::InNoState);
        }
        if self.batch.is_some() {
            // Helpers keep no packets.
            return self.leave(view, packet, meta);
        }
        if self.late.len() >= MOST {
            return self.drop(packet, DropReason::InNoState);
        }
        let handed = Handed::Arrived(Arrived::new(&view.reader, packet, meta));
        if let Some(taps) = &mut self.taps {
            taps.handed(&handed);
        }
        if let Handed::Arrived(arrived) = handed {
            self.counters.count(Outcome::Held, 1);
            self.late.0.push_back(arrived);
        }
    }

    /// Takes out the packet that has waited longest.
    pub(crate) fn next_late(&mut self) -> Option<Arrived> {
        let arrived = self.late.0.pop_front()?;
        self.released(1);
        Some(arrived)
    }

    /// Drops all of them.
    pub(crate) fn drop_late(&mut self) {
        while let Some(Arrived { packet, .. }) = self.next_late() {
            self.drop(packet, DropReason::InNoState);
        }
    }
}
