//! Names of what is in a device.

/// An SA in a device. The device chooses the number, and does not use it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SaHandle(pub u32);

/// A policy in a device, likewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyHandle(pub u32);

/// Which way an SA's packets go: XFRM's SAs have no direction until they are offloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SaDirection {
    /// The device seals.
    Outbound,
    /// The device opens.
    Inbound,
}
