//! Message types.

pub use netlink::kind::{DONE, ERROR, NOOP};

/// The first type that means something to XFRM.
pub const BASE: u16 = 0x10;
/// Adds an SA.
pub const NEWSA: u16 = 0x10;
/// Deletes an SA.
pub const DELSA: u16 = 0x11;
/// Reads one SA, or all.
pub const GETSA: u16 = 0x12;
/// Adds a policy.
pub const NEWPOLICY: u16 = 0x13;
/// Deletes a policy.
pub const DELPOLICY: u16 = 0x14;
/// Reads one policy, or all.
pub const GETPOLICY: u16 = 0x15;
/// Reserves an SPI.
pub const ALLOCSPI: u16 = 0x16;
/// A packet needs an SA.
pub const ACQUIRE: u16 = 0x17;
/// An SA's lifetime is over.
pub const EXPIRE: u16 = 0x18;
/// Adds or replaces a policy.
pub const UPDPOLICY: u16 = 0x19;
/// Updates an SA.
pub const UPDSA: u16 = 0x1a;
/// A policy's lifetime is over.
pub const POLEXPIRE: u16 = 0x1b;
/// Deletes all SAs.
pub const FLUSHSA: u16 = 0x1c;
/// Deletes all policies.
pub const FLUSHPOLICY: u16 = 0x1d;
/// Sets replay state and counters.
pub const NEWAE: u16 = 0x1e;
/// Reads replay state and counters.
pub const GETAE: u16 = 0x1f;
/// Mobile IPv6's report.
pub const REPORT: u16 = 0x20;
/// Moves SAs and policies to other addresses.
pub const MIGRATE: u16 = 0x21;
/// Counts of the SAD.
pub const NEWSADINFO: u16 = 0x22;
/// Reads SAD information.
pub const GETSADINFO: u16 = 0x23;
/// Counts of the SPD.
pub const NEWSPDINFO: u16 = 0x24;
/// Reads SPD information.
pub const GETSPDINFO: u16 = 0x25;
/// The peer behind NAT moved.
pub const MAPPING: u16 = 0x26;
/// Sets the default action.
pub const SETDEFAULT: u16 = 0x27;
/// Reads the default action.
pub const GETDEFAULT: u16 = 0x28;
/// Moves one SA to other addresses.
pub const MIGRATE_STATE: u16 = 0x29;
/// The last type.
pub const MAX: u16 = MIGRATE_STATE;
