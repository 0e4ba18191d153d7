//! The common part of nfnetlink's messages: connection tracking, nf_tables, logs.
//!
//! Their type is a subsystem and a message of it, and their body begins with `nfgenmsg`. Numbers in
//! their attributes are in network byte order.

use crate::attribute::Attributes;
use crate::field::{Be16, Field as _, layout};

layout! {
    /// The fixed struct of nfnetlink (`nfgenmsg`).
    Nfgenmsg, 4 bytes {
        /// The address family, or the family of a table (`NFPROTO_*`).
        family: u8,
        /// The version, `NFNETLINK_V0`.
        version: u8,
        /// A group, a queue or nothing, as the subsystem has it.
        resource: Be16,
    }
}

impl Nfgenmsg {
    /// That of a family, for no resource.
    pub fn of(family: u8) -> Nfgenmsg {
        Nfgenmsg { family, ..Nfgenmsg::default() }
    }
}

/// The type of a subsystem's message.
pub const fn kind(subsystem: u16, message: u16) -> u16 {
    subsystem << 8 | message
}

/// The family and the attributes of a message's body; `None` if it is shorter than `nfgenmsg`.
pub fn split(body: &[u8]) -> Option<(u8, Attributes<'_>)> {
    let start = Nfgenmsg::decode(body).ok()?;
    Some((start.family, Attributes::new(body.get(Nfgenmsg::LEN..)?)))
}
