//! Look-ups of tables, and the reasons why one was not changed.

use crate::registers::{MAGIC, VERSION};
use crate::sa::{SaError, SaIndex};
use crate::selector::Action;

/// Outbound or inbound: each has its own policies and SAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the protected side to the unprotected one.
    Outbound,
    /// The other way.
    Inbound,
}

/// A policy in the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyIndex(pub u16);

/// Why a table was not changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The registers are of another version.
    #[error(
        "the gateway has version {found:#010x}; this program is made for {VERSION:#010x} and what follows it"
    )]
    Version {
        /// Version in its register.
        found: u32,
    },
    /// There is something else behind these registers.
    #[error("no gateway: its first register holds {0:#010x}, not {MAGIC:#010x}")]
    NotAGateway(u32),
    /// The gateway was built with other tables.
    #[error(
        "the gateway's tables have sizes {found:#010x}; this program is made for {wanted:#010x}"
    )]
    Sizes {
        /// Sizes in its register.
        found: u32,
        /// Sizes that this program is made for.
        wanted: u32,
    },
    /// No place is left.
    #[error("the gateway has room for {most} {what}, and all are taken")]
    Full {
        /// Name of the table.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// The action is one of the other direction, or its reqid is too large.
    #[error("{0:?} is no action for {1:?} policies")]
    Action(Action, Direction),
    /// The selector is none.
    #[error("the selector mixes IPv4 and IPv6, or a prefix is longer than its address")]
    Selector,
    /// Another policy has the same selector.
    #[error("policy {} has this selector already", .0.0)]
    SelectorTaken(PolicyIndex),
    /// Another inbound SA has this destination and SPI.
    #[error("SA {} has this destination and SPI already", .0.0)]
    SpiTaken(SaIndex),
    /// There is no such entry.
    #[error("there is no {what} {index}")]
    Missing {
        /// Policy or SA.
        what: &'static str,
        /// Index of the entry.
        index: u16,
    },
    /// A policy still leads to the SA.
    #[error("policy {} still asks for this SA", .0.0)]
    InUse(PolicyIndex),
    /// The gateway cannot carry the SA.
    #[error(transparent)]
    Sa(#[from] SaError),
    /// There are no random bits for an SA's IVs.
    #[error("the kernel gives no random bytes for the IVs of an SA")]
    Random,
    /// The gateway does not answer.
    #[error("the gateway is busy with a table access that does not end")]
    Stuck,
}

/// Counters and numbers of an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaUse {
    /// Outbound the last number used, inbound the highest one accepted.
    pub number: u64,
    /// The anti-replay window: bit n says that `number - n` was accepted. Inbound only; outbound the
    /// gateway has the salt of AES-GCM's IVs here, which is drawn anew for each state.
    pub window: u128,
    /// Bytes inside ESP.
    pub bytes: u64,
    /// Packets that the SA has carried.
    pub packets: u64,
}

impl SaUse {
    /// Of an SA that has used or accepted this number, and of which nothing else is known.
    pub const fn at(number: u64) -> SaUse {
        SaUse { number, window: 1, bytes: 0, packets: 0 }
    }
}
