//! Fit of a packet to the path to the peer once it is sealed, and what is done if it does not.
//!
//! | packet | SA | too long |
//! | --- | --- | --- |
//! | IPv4, DF set | any | ICMP "fragmentation needed" |
//! | IPv4, DF clear | tunnel | fragmented before encryption: each fragment is a packet of its own |
//! | IPv4, DF clear | transport | sealed whole, then fragmented (RFC 4303 §3.3.4) |
//! | IPv6 above 1280 bytes | any | ICMPv6 "packet too big", of 1280 at least |
//! | IPv6 up to 1280 bytes | any | sealed whole, then fragmented (RFC 2473 §7.1) |
//! | IPv6 that came in fragments | transport | sealed whole, then fragmented (RFC 4303 §3.3.4) |
//!
//! `nopmtudisc` does not enter: as in Linux it keeps DF out of the outer header, and the sender of
//! a packet with DF is told all the same.

use esp::{Mode, Sa};
use outcome::DropReason;
use wire::{Family, Headers, ipv4, ipv6};

use crate::crypt::Lengths;

/// Result of a packet's comparison with an SA and an MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Seal it; it fits.
    Whole,
    /// Cut it into packets of at most `mtu` bytes, and seal each.
    CutBefore {
        /// MTU of each fragment, in bytes.
        mtu: usize,
    },
    /// Seal it, and cut what comes out.
    CutAfter,
    /// The sender has to send shorter packets.
    TooBig {
        /// MTU for the sender, in bytes.
        mtu: usize,
    },
}

impl Fit {
    /// Decides about `packet`, whose headers are `h`, towards a path of `mtu` bytes.
    ///
    /// # Errors
    /// As [`Sa::sealed_len_of`]: the packet cannot travel in this mode.
    pub(crate) fn decide(
        sa: &Sa,
        packet: &[u8],
        h: &Headers,
        mtu: usize,
    ) -> Result<Fit, DropReason> {
        if sa.sealed_len_of(packet, h)? <= mtu {
            return Ok(Fit::Whole);
        }
        Ok(Fit::of_too_long(sa.params().mode, h, longest_that_fits(sa, h, mtu)))
    }

    /// The same for several SAs, one inside the other; `is_tunnel` if one of them is.
    pub(crate) fn decide_all(
        lengths: &Lengths<'_>,
        is_tunnel: bool,
        h: &Headers,
        mtu: usize,
    ) -> Fit {
        if lengths.sealed_len() <= mtu {
            return Fit::Whole;
        }
        let mode = if is_tunnel { Mode::Tunnel } else { Mode::Transport };
        Fit::of_too_long(mode, h, lengths.longest(mtu))
    }

    /// Of a packet that does not fit; `longest` would.
    pub(super) fn of_too_long(mode: Mode, h: &Headers, longest: usize) -> Fit {
        match (h.family(), mode) {
            (Family::V4, _) if h.dont_fragment => Fit::TooBig { mtu: longest },
            (Family::V4, Mode::Tunnel | Mode::Iptfs) => Fit::CutBefore { mtu: longest },
            (Family::V4, Mode::Transport) => Fit::CutAfter,
            (Family::V6, Mode::Transport) if !h.dont_fragment => Fit::CutAfter,
            (Family::V6, _) => {
                let told = longest.max(V6_MIN_MTU);
                if usize::from(h.total_len) > told {
                    Fit::TooBig { mtu: told }
                } else {
                    Fit::CutAfter
                }
            }
        }
    }
}

/// The longest packet with such headers that fits, or up to 15 bytes less.
fn longest_that_fits(sa: &Sa, h: &Headers, mtu: usize) -> usize {
    let base = match h.family() {
        Family::V4 => ipv4::MIN_HEADER_LEN,
        Family::V6 => ipv6::HEADER_LEN,
    };
    let longest = sa.max_inner_len(mtu);
    if sa.params().mode == Mode::Transport && usize::from(h.header_len) > base {
        // Other headers in front of ESP, other padding behind: 15 bytes at most.
        longest.saturating_sub(15)
    } else {
        longest
    }
}

const V6_MIN_MTU: usize = ipv6::MIN_MTU as usize;
