//! Which devices for packet offload a worker has a queue of.

use policy::WorkerIndex;

/// The worker that has a queue of each device.
pub(crate) const DEVICES_HOME: usize = WorkerIndex::FIRST.get();

/// The devices that a worker has a queue of, by their numbers; those beyond the 64th only the first worker has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach(u64);

impl Reach {
    pub(crate) fn add(&mut self, device: u8) {
        self.0 |= 1_u64.checked_shl(device.into()).unwrap_or(0);
    }

    pub(crate) fn has(self, device: u8) -> bool {
        self.0.checked_shr(device.into()).unwrap_or(0) & 1 == 1
    }
}
