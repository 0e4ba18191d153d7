//! Negotiations, as reserved SPIs show them: IKE itself is not seen here.
//!
//! An IKE daemon reserves the SPI of its inbound SA when the peer has answered the first exchange, and installs the SA
//! under it after the second. One that is refused there gives the SPI back.

use core::net::IpAddr;

use super::sad::{Sa, Sad};

/// SPIs that were given back without an SA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// How many there were since the start.
    pub count: u64,
    /// The peer of the last one.
    pub peer: Option<IpAddr>,
}

impl GivenBack {
    /// Counts an SA that its owner has deleted, if it was larval with an SPI.
    pub(super) fn note(&mut self, sa: &Sa) {
        if is_reservation(sa) {
            self.count += 1;
            self.peer = peer(sa);
        }
    }
}

/// The peer of the SPI that has been reserved longest without an SA, and since when, in milliseconds of the monotonic
/// clock.
pub(super) fn oldest(sad: &Sad) -> Option<(IpAddr, u64)> {
    let reserved = sad.iter().map(|(_, sa)| sa).filter(|sa| is_reservation(sa));
    let oldest = reserved.min_by_key(|sa| sa.added_mono_ms)?;
    Some((peer(oldest)?, u64::try_from(oldest.added_mono_ms).unwrap_or(0)))
}

fn is_reservation(sa: &Sa) -> bool {
    sa.larval() && sa.info.id.spi.0 != 0
}

/// The other end of an inbound SA.
fn peer(sa: &Sa) -> Option<IpAddr> {
    sa.info.src.ip(sa.info.family)
}
