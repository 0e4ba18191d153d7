//! How many taps there may be at a time.

use std::sync::Arc;

use dataplane::MAX_TAPS;

/// One of the taps that there may be at a time.
pub struct Slot(#[expect(dead_code, reason = "counted")] Arc<()>);

/// Counts the taps.
#[derive(Default)]
pub struct Slots(Arc<()>);

impl Slots {
    /// A place for one more.
    pub(super) fn take(&self) -> Result<Slot, String> {
        match Arc::strong_count(&self.0) <= MAX_TAPS {
            true => Ok(Slot(Arc::clone(&self.0))),
            false => Err(format!(
                "{MAX_TAPS} captures, traces and counts of flows run already: end one of them"
            )),
        }
    }
}
