//! One receiver for each inbound SA of IP-TFS mode.

use std::collections::VecDeque;

use esp::Sa;
use io::Packet;
use iptfs::{Deaggregator, Window};
use policy::{SaEntry, SaHandle};

use super::places::Places;
use super::watch::Watch;
use crate::model::{Metas, Payload};
use crate::view::View;

/// The receivers of one worker.
#[derive(Default)]
pub(crate) struct Receivers {
    pub(super) all: Vec<Receiver>,
    pub(super) places: Places,
    /// Payloads whose turn has come.
    pub(super) in_order: VecDeque<Payload>,
    /// Packets that came out of one payload, and what they are classified into.
    pub(crate) inner: Vec<Packet>,
    pub(crate) metas: Box<Metas>,
}

/// Receiver of the payloads of one SA.
pub(super) struct Receiver {
    pub(super) sa: SaHandle,
    pub(super) window: Window<Payload>,
    pub(super) pieces: Deaggregator,
    /// The packet of which pieces are missing, and when the last of them came.
    pub(super) partial: Option<Packet>,
    pub(super) since_ns: u64,
    wait_ns: u64,
    /// Of an SA whose rate heeds losses.
    pub(super) watch: Option<Box<Watch>>,
}

/// Payloads of one SA that wait for a missing one, at most: each has a frame.
pub(super) const MOST_EARLY: u16 = 256;

impl Receiver {
    fn new(view: &View, sa: SaHandle, entry: &SaEntry<Sa>) -> Receiver {
        let rules = entry.config.iptfs.as_deref().copied().unwrap_or_default();
        let wait_ns = u64::from(rules.drop_time_us) * 1_000;
        Receiver {
            sa,
            window: Window::new(rules.reorder_window.min(MOST_EARLY), wait_ns),
            pieces: Deaggregator::default(),
            partial: None,
            since_ns: 0,
            wait_ns,
            watch: Watch::new(view, entry),
        }
    }

    pub(super) fn pieces_due_ns(&self) -> Option<u64> {
        self.partial.as_ref().map(|_| self.since_ns.saturating_add(self.wait_ns))
    }

    fn due_ns(&self) -> Option<u64> {
        self.window.due_ns().into_iter().chain(self.pieces_due_ns()).min()
    }
}

impl Receivers {
    /// The next payload whose turn has come.
    pub(crate) fn next_in_order(&mut self) -> Option<Payload> {
        self.in_order.pop_front()
    }

    pub(super) fn due_ns(&self) -> Option<u64> {
        self.all.iter().filter_map(Receiver::due_ns).min()
    }

    /// The place of an SA's receiver, which is made with its first payload.
    #[inline]
    pub(super) fn place(&mut self, view: &View, sa: SaHandle, entry: &SaEntry<Sa>) -> usize {
        match self.places.get(sa) {
            Some(place) => place,
            None => self.add(view, sa, entry),
        }
    }

    #[cold]
    fn add(&mut self, view: &View, sa: SaHandle, entry: &SaEntry<Sa>) -> usize {
        let place = self.all.len();
        self.all.push(Receiver::new(view, sa, entry));
        self.places.add(sa, place);
        place
    }
}
