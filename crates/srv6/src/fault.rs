//! Why a packet does not go on at a segment, and what its sender is told.

/// Fault of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A header is truncated or contradicts itself.
    Malformed,
    /// The segments that are left do not fit the list, or are left where none may be (RFC 8986 §4.1, §4.4).
    SegmentsLeft,
    /// The upper layer is not the one that the segment decapsulates (RFC 8986 §4.1.1).
    UpperLayer,
    /// The hop limit ends here.
    HopLimit,
    /// The packet has an HMAC, which is not checked here.
    Hmac,
    /// The packet is a fragment, and what follows is wanted.
    Fragment,
    /// There is no room for further headers.
    NoRoom,
}

/// ICMP error for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Icmp {
    /// Time exceeded: the hop limit ended here.
    TimeExceeded,
    /// Parameter problem: the code, and the offset of the field in bytes.
    Parameter {
        /// 0: erroneous field; 4: SR upper-layer header error (RFC 8986 §9.2).
        code: u8,
        /// From the first byte of the IPv6 header.
        pointer: u32,
    },
}

/// A packet that does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// Fault of the packet.
    pub fault: Fault,
    /// Where, in bytes from the first one of the IPv6 header.
    pub at: usize,
}

impl Refusal {
    /// The error that its sender is told; none where nothing could be done about it.
    pub fn icmp(&self) -> Option<Icmp> {
        let pointer = u32::try_from(self.at).unwrap_or(u32::MAX);
        match self.fault {
            Fault::HopLimit => Some(Icmp::TimeExceeded),
            Fault::SegmentsLeft => Some(Icmp::Parameter { code: 0, pointer }),
            Fault::UpperLayer => Some(Icmp::Parameter { code: UPPER_LAYER, pointer }),
            Fault::Malformed | Fault::Hmac | Fault::Fragment | Fault::NoRoom => None,
        }
    }
}

/// ICMPv6's code for what follows the segments.
const UPPER_LAYER: u8 = 4;

impl Fault {
    /// Found at an offset in bytes.
    pub(crate) const fn at(self, at: usize) -> Refusal {
        Refusal { fault: self, at }
    }
}
