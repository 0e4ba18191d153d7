//! Which SA has which sender or receiver.

use std::collections::HashMap;

use policy::SaHandle;

/// The place of an SA among those that have one.
#[derive(Default)]
pub(super) struct Places {
    of: HashMap<SaHandle, usize, ahash::RandomState>,
    /// The last that was asked for.
    pub(super) last: Option<(SaHandle, usize)>,
}

impl Places {
    #[inline]
    pub(super) fn get(&mut self, sa: SaHandle) -> Option<usize> {
        match self.last {
            Some((last, place)) if last == sa => Some(place),
            _ => {
                let place = *self.of.get(&sa)?;
                self.last = Some((sa, place));
                Some(place)
            }
        }
    }

    pub(super) fn add(&mut self, sa: SaHandle, place: usize) {
        self.of.insert(sa, place);
    }

    /// Notes the places of these, in their order.
    pub(super) fn set(&mut self, sas: impl Iterator<Item = SaHandle>) {
        self.last = None;
        self.of = sas.enumerate().map(|(place, sa)| (sa, place)).collect();
    }
}
