//! The look-up of inbound SAs, by destination and SPI.

use core::net::IpAddr;
use std::collections::HashMap;

use offload::SaHandle;

/// The inbound SAs by what their packets have.
#[derive(Debug, Default)]
pub struct SaIndex(HashMap<(IpAddr, u32), SaHandle>);

impl SaIndex {
    /// Adds an SA, in the place of the one with the same destination and SPI.
    pub fn add(&mut self, dst: IpAddr, spi: u32, handle: SaHandle) {
        self.0.insert((dst, spi), handle);
    }

    /// Removes the SA of a destination and SPI.
    pub fn remove(&mut self, dst: IpAddr, spi: u32) {
        self.0.remove(&(dst, spi));
    }

    /// The SA of a packet.
    pub fn find(&self, dst: IpAddr, spi: u32) -> Option<SaHandle> {
        self.0.get(&(dst, spi)).copied()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
