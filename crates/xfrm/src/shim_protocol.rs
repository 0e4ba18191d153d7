//! Records that the preload library and the server exchange beside netlink.
//!
//! One `AF_UNIX` `SOCK_SEQPACKET` connection stands for one `NETLINK_XFRM` socket. A datagram is
//! one of two things:
//!
//! * **netlink**: raw bytes, one message or several, exactly as the program sent them or is to
//!   receive them;
//! * **control**: [`MAGIC`], then records of 8 bytes each:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                    kind (native byte order)                   |
//! +---------------------------------------------------------------+
//! |                    value (native byte order)                  |
//! +---------------------------------------------------------------+
//! ```
//!
//! The two cannot be confused: read as a netlink length, the magic is above 1 GiB.
//!
//! Rules for the client (the preload library):
//!
//! 1. The first datagram on a connection is control and its first record is [`Record::Hello`]. All
//!    options and memberships that the socket already has may follow in the same datagram; after a
//!    reconnection that is how they are renewed. Netlink before the hello closes the connection.
//! 2. Later changes (`bind` with groups, `setsockopt`) are further control datagrams. They take
//!    effect in order with the netlink on the same connection.
//! 3. A program may expect that once `bind` returned, nothing is missed. Who needs that across two
//!    connections sends [`Record::Sync`] and waits for the same value back.
//! 4. Control from the server never reaches the program: [`Record::Overrun`] becomes `ENOBUFS`
//!    from the next receive call, [`Record::Sync`] is an answer to rule 3.
//! 5. Kinds that one side does not know are skipped.
//! 6. A UDP socket by which ESP in UDP comes is handed over on a connection of its own, that lasts as long as the
//!    socket is to be used. The client asks first ([`Record::Sockets`], with [`Record::Sync`] behind it, which an
//!    older server answers alone), and sends the descriptor (`SCM_RIGHTS`) with the datagram that has
//!    [`Record::Socket`]. The server answers that with 0 or an errno.
//!
//! This file depends on `core` alone, so that the preload library can be small.

/// How a control datagram starts.
pub const MAGIC: [u8; 8] = *b"CVSHIM01";

/// Length in bytes of one record.
pub const RECORD_LEN: usize = 8;

/// The longest datagram in bytes that the server reads; a longer one is refused whole.
pub const MAX_DATAGRAM_LEN: usize = 256 * 1024;

/// Where the server listens unless configured otherwise.
pub const DEFAULT_PATH: &str = "/run/culvert/xfrm.sock";

/// The routing protocol (`rtm_protocol`, `FRA_PROTOCOL`) that culvert's own routes and rules have.
/// The preload library hides them from the programs that it is loaded into.
pub const ROUTE_PROTOCOL: u8 = 219;

/// One record of a control datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Client: the port id that `getsockname` gives the program (`nl_pid`); every answer carries
    /// it in `nlmsg_pid`. Never 0.
    Hello {
        /// The port id.
        port_id: u32,
    },
    /// Client: the whole set of multicast groups 1 to 32 as `bind` has it in `nl_groups` (bit 0
    /// is group 1). Replaces the memberships.
    Groups {
        /// Bits that are compared.
        mask: u32,
    },
    /// Client: joins one multicast group (`NETLINK_ADD_MEMBERSHIP`).
    Subscribe {
        /// Group number, from 1.
        group: u32,
    },
    /// Client: leaves one multicast group (`NETLINK_DROP_MEMBERSHIP`).
    Unsubscribe {
        /// Group number, from 1.
        group: u32,
    },
    /// Client: switches a `SOL_NETLINK` option on, for instance `NETLINK_EXT_ACK` (11) or
    /// `NETLINK_CAP_ACK` (10). Options that the server does not know do nothing.
    OptionOn {
        /// The option's number as in `setsockopt`.
        option: u32,
    },
    /// Client: switches a `SOL_NETLINK` option off.
    OptionOff {
        /// The option's number as in `setsockopt`.
        option: u32,
    },
    /// Client: asks for an answer; server: the answer, with the same value. All that the client
    /// sent before it on this connection has been handled.
    Sync {
        /// Value of these bits.
        value: u32,
    },
    /// Client: asks whether UDP sockets are wanted that ESP in UDP comes by (0); server: the answer, 1 or 0.
    Sockets {
        /// True if culvert wants them.
        wanted: u32,
    },
    /// Client: such a socket is the descriptor that comes with this datagram (0); server: what became of it.
    Socket {
        /// 0 if it was taken.
        errno: u32,
    },
    /// Server: messages for this socket were dropped because the program reads too slowly.
    Overrun {
        /// How many datagrams, at least 1.
        lost: u32,
    },
}

impl Record {
    const fn parts(self) -> (u32, u32) {
        match self {
            Record::Hello { port_id } => (kind::HELLO, port_id),
            Record::Groups { mask } => (kind::GROUPS, mask),
            Record::Subscribe { group } => (kind::SUBSCRIBE, group),
            Record::Unsubscribe { group } => (kind::UNSUBSCRIBE, group),
            Record::OptionOn { option } => (kind::OPTION_ON, option),
            Record::OptionOff { option } => (kind::OPTION_OFF, option),
            Record::Sync { value } => (kind::SYNC, value),
            Record::Sockets { wanted } => (kind::SOCKETS, wanted),
            Record::Socket { errno } => (kind::SOCKET, errno),
            Record::Overrun { lost } => (kind::OVERRUN, lost),
        }
    }

    /// The record's bytes.
    pub fn to_bytes(self) -> [u8; RECORD_LEN] {
        let (kind, value) = self.parts();
        let [a, b, c, d] = kind.to_ne_bytes();
        let [e, f, g, h] = value.to_ne_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// The record that these bytes are, or `None` for a kind that is not known.
    pub fn from_bytes(bytes: [u8; RECORD_LEN]) -> Option<Record> {
        let [a, b, c, d, e, f, g, h] = bytes;
        let value = u32::from_ne_bytes([e, f, g, h]);
        Some(match u32::from_ne_bytes([a, b, c, d]) {
            kind::HELLO => Record::Hello { port_id: value },
            kind::GROUPS => Record::Groups { mask: value },
            kind::SUBSCRIBE => Record::Subscribe { group: value },
            kind::UNSUBSCRIBE => Record::Unsubscribe { group: value },
            kind::OPTION_ON => Record::OptionOn { option: value },
            kind::OPTION_OFF => Record::OptionOff { option: value },
            kind::SYNC => Record::Sync { value },
            kind::SOCKETS => Record::Sockets { wanted: value },
            kind::SOCKET => Record::Socket { errno: value },
            kind::OVERRUN => Record::Overrun { lost: value },
            _ => return None,
        })
    }

    /// A control datagram of this one record.
    pub fn datagram(self) -> [u8; MAGIC.len() + RECORD_LEN] {
        let mut bytes = [0; MAGIC.len() + RECORD_LEN];
        let (magic, record) = bytes.split_at_mut(MAGIC.len());
        magic.copy_from_slice(&MAGIC);
        record.copy_from_slice(&self.to_bytes());
        bytes
    }
}

/// The records of a control datagram, or `None` if the datagram is netlink.
///
/// Records of unknown kind and an incomplete one at the end are skipped.
pub fn records(datagram: &[u8]) -> Option<impl Iterator<Item = Record> + '_> {
    let body = datagram.strip_prefix(&MAGIC)?;
    let whole = body.chunks_exact(RECORD_LEN);
    Some(whole.filter_map(|c| Record::from_bytes(c.try_into().ok()?)))
}

/// The records' kinds on the wire.
mod kind {
    pub const HELLO: u32 = 1;
    pub const GROUPS: u32 = 2;
    pub const SUBSCRIBE: u32 = 3;
    pub const UNSUBSCRIBE: u32 = 4;
    pub const OPTION_ON: u32 = 5;
    pub const OPTION_OFF: u32 = 6;
    pub const SYNC: u32 = 7;
    pub const SOCKETS: u32 = 8;
    pub const SOCKET: u32 = 9;
    pub const OVERRUN: u32 = 32;
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Record; 10] = [
        Record::Hello { port_id: 4711 },
        Record::Groups { mask: 0x42 },
        Record::Subscribe { group: 3 },
        Record::Unsubscribe { group: 3 },
        Record::OptionOn { option: 11 },
        Record::OptionOff { option: 10 },
        Record::Sync { value: 7 },
        Record::Sockets { wanted: 1 },
        Record::Socket { errno: 22 },
        Record::Overrun { lost: 1 },
    ];

    #[test]
    fn every_record_survives() {
        let mut datagram = MAGIC.to_vec();
        for r in ALL {
            datagram.extend(r.to_bytes());
        }
        assert_eq!(records(&datagram).unwrap().collect::<Vec<_>>(), ALL);
    }

    #[test]
    fn unknown_kinds_and_stumps_are_skipped() {
        let mut datagram = MAGIC.to_vec();
        datagram.extend(999u32.to_ne_bytes());
        datagram.extend(1u32.to_ne_bytes());
        datagram.extend(Record::Sync { value: 5 }.to_bytes());
        datagram.extend([1, 2, 3]);
        assert_eq!(records(&datagram).unwrap().collect::<Vec<_>>(), [Record::Sync { value: 5 }]);
    }

    #[test]
    fn netlink_is_not_control() {
        assert!(records(&[]).is_none());
        assert!(records(b"CVSHIM0").is_none());
        assert!(records(&[16, 0, 0, 0, 0x15, 0, 5, 0]).is_none());
        assert_eq!(records(&Record::Sync { value: 9 }.datagram()).unwrap().count(), 1);
    }
}
