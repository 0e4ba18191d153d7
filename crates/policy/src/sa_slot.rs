//! Where an SA is, in one view.

use core::sync::atomic::AtomicU32;
use std::sync::Arc;

use crate::sa_entry::SaEntry;

/// Where an SA is, in one view.
pub(crate) struct SaSlot<S> {
    pub(crate) entry: Option<Arc<SaEntry<S>>>,
    /// Differs each time that the slot is used.
    pub(crate) generation: u32,
    /// Note of the reader's owner beside the SA.
    pub(crate) note: AtomicU32,
}

impl<S> SaSlot<S> {
    pub(crate) fn new(entry: Arc<SaEntry<S>>, generation: u32) -> SaSlot<S> {
        SaSlot { entry: Some(entry), generation, note: AtomicU32::new(0) }
    }
}

const _: () = assert!(size_of::<SaSlot<()>>() == 16);

// Not derived: those would ask for `S: Clone` and `S: Default`.
impl<S> Clone for SaSlot<S> {
    fn clone(&self) -> SaSlot<S> {
        // Notes are each reader's own.
        let (entry, generation) = (self.entry.clone(), self.generation);
        SaSlot { entry, generation, note: AtomicU32::new(0) }
    }
}

impl<S> Default for SaSlot<S> {
    fn default() -> SaSlot<S> {
        SaSlot { entry: None, generation: 0, note: AtomicU32::new(0) }
    }
}
