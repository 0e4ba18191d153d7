//! Packets with segments that ICMPv6 errors quote, and the test if a headend has made one.
//!
//! Errors from inside of the path come to the source of the outer header (RFC 8754 §5.4), and quote the packet as
//! it was there: with fewer segments left, at another segment, perhaps without its routing header (PSP), perhaps
//! with another part of a container for a destination (RFC 9800). What has not changed is the source, and the list.

use core::cmp::Ordering;
use core::net::Ipv6Addr;

use wire::ipv6::{self, Ipv6Header};
use wire::protocol;

use crate::ETHERNET;
use crate::headend::Headend;
use crate::srh::{FIXED_LEN, Srh};

/// A quoted packet, as far as headends are known by it.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a> {
    src: Ipv6Addr,
    dst: Ipv6Addr,
    total_len: usize,
    srh: Option<Srh<'a>>,
}

impl<'a> Quoted<'a> {
    /// Reads what an error quotes. None if it has no segments, and no packet inside that could have had some, or if
    /// its list is not there as a whole.
    pub fn parse(bytes: &'a [u8]) -> Option<Quoted<'a>> {
        let header = Ipv6Header::parse_quoted(bytes).ok()?;
        let srh = match header.next_header() {
            protocol::ROUTING => Some(Srh::parse(header.payload()).filter(Srh::is_consistent)?),
            protocol::IPV4 | protocol::IPV6 | ETHERNET => None,
            _ => return None,
        };
        let total_len = usize::from(header.payload_len()) + ipv6::HEADER_LEN;
        Some(Quoted { src: header.src(), dst: header.dst(), total_len, srh })
    }

    /// The outer source address, to which the error has to come.
    pub const fn src(&self) -> Ipv6Addr {
        self.src
    }

    /// The segment that the packet was on its way to; of a container what is left of it.
    pub const fn dst(&self) -> Ipv6Addr {
        self.dst
    }

    /// The packet's length by its own header, in bytes.
    pub const fn total_len(&self) -> usize {
        self.total_len
    }

    /// True if its segment routing header was there yet.
    pub const fn has_list(&self) -> bool {
        self.srh.is_some()
    }
}

impl Headend {
    /// True if the headend may have made a packet. The source is its own, and the packet has its
    /// list, with no more left of it than there was; or the packet has no list, and is on its way
    /// to the last segment.
    ///
    /// A list that is put into packets ([`Mode::Inline`](crate::Mode::Inline)) has the source of those, who hears of it
    /// himself.
    pub fn has_made(&self, quoted: &Quoted<'_>) -> bool {
        if quoted.src != self.source() || self.mode().is_inline() {
            return false;
        }
        match (&quoted.srh, Srh::parse(self.srh())) {
            (Some(theirs), Some(own)) => {
                let on_its_way = match theirs.segments_left().cmp(&own.segments_left()) {
                    Ordering::Less => true,
                    // A reduced list does not say the first segment.
                    Ordering::Equal => is_at(self.first(), quoted.dst),
                    Ordering::Greater => false,
                };
                on_its_way && theirs.list() == own.list()
            }
            (Some(_), None) => false,
            (None, _) => self.ends_at(quoted.dst),
        }
    }

    /// True if a packet without a list, on its way to this destination, goes to the last segment.
    /// That is the segment itself, or the rest of it as a container of NEXT-CSIDs.
    pub fn ends_at(&self, dst: Ipv6Addr) -> bool {
        self.segments().last().is_some_and(|last| is_at(*last, dst))
    }
}

/// True if a destination is that of a packet on its way to a segment, or through the containers in
/// it.
fn is_at(segment: Ipv6Addr, dst: Ipv6Addr) -> bool {
    segment == dst || is_left_of(segment.to_bits(), dst.to_bits())
}

impl<'a> Srh<'a> {
    /// The list and what follows it, as bytes.
    fn list(&self) -> &'a [u8] {
        self.bytes().get(FIXED_LEN..).unwrap_or_default()
    }
}

/// The shortest block that is tried, in bits: a shorter one would have addresses of nobody's domain in it.
const LEAST_BLOCK: u32 = 16;

/// True if `dst` is a container whose first identifiers were used up (RFC 9800 §4.1.1): behind some
/// block the rest of it has moved to the left, and zeros have come in. Nobody but the segments
/// knows the lengths of block and identifiers: all that are whole bytes are tried.
fn is_left_of(container: u128, dst: u128) -> bool {
    let common = (container ^ dst).leading_zeros();
    let mut blocks = (LEAST_BLOCK..=common.min(120)).step_by(8);
    blocks.any(|block| {
        let below = u128::MAX >> block;
        let (argument, left) = (container & below, dst & below);
        let mut shifts = (8..128 - block).step_by(8);
        left != 0 && shifts.any(|shift| argument << shift & below == left)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> u128 {
        text.parse::<Ipv6Addr>().expect("an address").to_bits()
    }

    #[test]
    fn what_is_left_of_a_container_is_known() {
        let container = bits("fc00:0:1:2:3::");
        for (dst, is_left) in [
            ("fc00:0:2:3::", true),
            ("fc00:0:3::", true),
            ("fc00:0:1:2:3::", false),
            ("fc00:0:1:2::", false),
            ("fc00:0:2::", false),
            ("fc00:1:2:3::", true),
            ("fd00:0:2:3::", false),
            ("fc00::", false),
            ("::", false),
        ] {
            assert_eq!(is_left_of(container, bits(dst)), is_left, "{dst}");
        }
        // Identifiers of 32 bits, behind a block of 48.
        let container = bits("fc00:1:2:a:b:c:d:0");
        assert!(is_left_of(container, bits("fc00:1:2:c:d::")));
        // A segment that is no container has nothing left of it but by a shift that nobody makes.
        assert!(!is_left_of(bits("fc00:2::46"), bits("fc00:2::45")));
        assert!(!is_left_of(bits("fc00:2::46"), bits("fc00:2::")));
    }
}
