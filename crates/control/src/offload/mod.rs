//! Offload devices: which there are, what happens to them, and which SAs they have.

pub mod cryptodevs;
pub mod device;
pub mod devices;
pub mod packet_devices;
pub mod rtl_simulation;
mod serve;

use std::time::Instant;

use self::devices::SharedDevices;
use crate::clock::Now;

/// State of the offload devices.
pub(super) struct Offload {
    pub(super) devices: SharedDevices,
    /// When the counters of SAs in devices were read.
    pub(super) read_at: Instant,
}

impl Offload {
    /// These devices, whose counters were never read.
    pub(super) const fn new(devices: SharedDevices, now: Now) -> Offload {
        Offload { devices, read_at: now.at }
    }
}
