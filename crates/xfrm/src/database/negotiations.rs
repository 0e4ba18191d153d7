//! What reserved SPIs tell of negotiations: IKE itself is not seen here.
//!
//! An IKE daemon reserves the SPI of its inbound SA when the peer has answered the first exchange, and installs the SA
//! under it after the second. One that is refused there gives the SPI back.

use core::net::IpAddr;

use super::Database;
use super::sad::Sa;
use crate::backend::Backend;

/// SPIs that were given back without an SA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// How many there were since the start.
    pub count: u64,
    /// The peer of the last one.
    pub peer: Option<IpAddr>,
}

impl<B: Backend> Database<B> {
    /// SPIs that were given back without an SA.
    pub fn given_back(&self) -> GivenBack {
        self.given_back
    }

    /// The SPI that has been reserved longest without an SA: its peer, and since when, in milliseconds of the
    /// monotonic clock.
    pub fn oldest_reservation(&self) -> Option<(IpAddr, u64)> {
        let reserved = self.sad.iter().map(|(_, sa)| sa).filter(|sa| is_reservation(sa));
        let oldest = reserved.min_by_key(|sa| sa.added_mono_ms)?;
        Some((peer(oldest)?, u64::try_from(oldest.added_mono_ms).unwrap_or(0)))
    }

    /// A larval SA was deleted by its owner.
    pub(super) fn note_given_back(&mut self, sa: &Sa) {
        if is_reservation(sa) {
            self.given_back.count += 1;
            self.given_back.peer = peer(sa);
        }
    }
}

fn is_reservation(sa: &Sa) -> bool {
    sa.larval() && sa.info.id.spi.0 != 0
}

/// The other end of an inbound SA.
fn peer(sa: &Sa) -> Option<IpAddr> {
    sa.info.src.ip(sa.info.family)
}
