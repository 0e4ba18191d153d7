//! A fragment as its headers tell it: what it belongs to, and where it lies there.

use core::net::IpAddr;
use core::ops::Range;

/// Fields that the fragments of one packet have in common (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentKey {
    /// Source address of the packet.
    pub src: IpAddr,
    /// Destination address of the packet.
    pub dst: IpAddr,
    /// IPv4's protocol; 0 for IPv6, whose fragments need not agree in it.
    pub protocol: u8,
    /// Identification, which the sender gave the packet.
    pub ident: u32,
    /// Context that the fragments must share too, chosen by the caller: the SA that they came by,
    /// for one.
    pub scope: u64,
}

/// Where a fragment lies in its packet. Lengths and offsets in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Where its payload lies in the fragmentable part.
    pub offset: usize,
    /// Length of its payload, in bytes.
    pub len: usize,
    /// More fragments follow.
    pub more: bool,
    /// Length of the headers in front of the fragmentable part.
    pub head_len: usize,
}

impl From<wire::FragmentFields> for Piece {
    fn from(fields: wire::FragmentFields) -> Piece {
        Piece {
            offset: fields.offset.into(),
            len: fields.len.into(),
            more: fields.more,
            head_len: fields.head_len.into(),
        }
    }
}

impl Piece {
    pub(super) const fn span(&self) -> Range<usize> {
        self.offset..self.offset + self.len
    }
}

/// Why a fragment comes to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unjoined {
    /// The fragment has no payload, or one that is no multiple of 8 bytes although more follow.
    Malformed,
    /// The very same fragment waits already.
    Duplicate,
    /// The fragment, or another of its packet, overlaps others or contradicts them.
    Overlap,
    /// The packet, its source or all together had too many fragments.
    Limit,
    /// The others did not come in time.
    Timeout,
}
