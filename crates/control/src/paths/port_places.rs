//! Ports of sessions between the same two addresses: each has one of its own, and keeps it while others come and go.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Addresses of this host and of the far end.
type Ends = (IpAddr, IpAddr);

/// Places that are taken, counted from the first port.
#[derive(Default)]
pub(super) struct PortPlaces {
    taken: HashMap<Ends, HashSet<u16>>,
    /// No place below is free.
    next: HashMap<Ends, u16>,
}

impl PortPlaces {
    /// A session that stays has this place.
    pub(super) fn keep(&mut self, ends: Ends, place: u16) {
        self.taken.entry(ends).or_default().insert(place);
    }

    /// The first place that is free, which is taken by this. The configuration is checked: there are enough.
    pub(super) fn free(&mut self, ends: Ends) -> u16 {
        let (taken, next) =
            (self.taken.entry(ends).or_default(), self.next.entry(ends).or_default());
        let place = (*next..=u16::MAX).find(|place| taken.insert(*place)).unwrap_or(u16::MAX);
        *next = place.saturating_add(1);
        place
    }
}
