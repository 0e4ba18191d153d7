//! Where a segment routing header and the upper layer stand in a packet.

use wire::{ipv6, protocol};

use crate::fault::{Fault, Refusal};
use crate::srh::{ROUTING_TYPE, SEGMENTS_LEFT, Srh};

/// Where the headers of a packet stand, in bytes from its first one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    /// The segment routing header, and the field that names it.
    pub(crate) srh: Option<At>,
    /// Protocol behind the extension headers.
    pub(crate) upper: u8,
    pub(crate) upper_at: usize,
    /// The packet is a fragment, whose upper layer may be elsewhere.
    pub(crate) is_fragment: bool,
}

/// Where a header stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) named_at: usize,
}

impl Chain {
    /// Walks over the extension headers of an IPv6 packet.
    ///
    /// # Errors
    /// The chain is truncated, or has more headers than any packet needs; there are segments that contradict
    /// themselves, or that an HMAC is about; another routing header has segments left.
    pub(crate) fn of(packet: &[u8]) -> Result<Chain, Refusal> {
        let first = *packet.get(ipv6::field::NEXT_HEADER).ok_or(Fault::Malformed.at(0))?;
        let mut chain =
            Chain { srh: None, upper: first, upper_at: ipv6::HEADER_LEN, is_fragment: false };
        let mut named_at = ipv6::field::NEXT_HEADER;
        for _ in 0..=ipv6::MAX_EXTENSIONS {
            let start = chain.upper_at;
            let truncated = Fault::Malformed.at(start);
            if !ipv6::is_extension(chain.upper) {
                // Something has to follow.
                return if start <= packet.len() { Ok(chain) } else { Err(truncated) };
            }
            let fixed: &[u8; 8] =
                packet.get(start..).and_then(|b| b.first_chunk()).ok_or(truncated)?;
            let len = match chain.upper {
                protocol::FRAGMENT => ipv6::FRAGMENT_HEADER_LEN,
                _ => (usize::from(fixed[1]) + 1) * 8,
            };
            if packet.len() < start + len {
                return Err(truncated);
            }
            match chain.upper {
                protocol::ROUTING if fixed[2] == ROUTING_TYPE && chain.srh.is_none() => {
                    let srh = packet.get(start..).and_then(Srh::parse).ok_or(truncated)?;
                    if !srh.is_consistent() {
                        return Err(Fault::SegmentsLeft.at(start + SEGMENTS_LEFT));
                    }
                    if srh.has_hmac() {
                        return Err(Fault::Hmac.at(start));
                    }
                    chain.srh = Some(At { start, len, named_at });
                }
                // One of another type, or a second one, that is not done with.
                protocol::ROUTING if fixed[SEGMENTS_LEFT] != 0 && chain.srh.is_none() => {
                    return Err(Fault::SegmentsLeft.at(start + SEGMENTS_LEFT));
                }
                protocol::FRAGMENT => chain.is_fragment = true,
                _ => {}
            }
            chain.upper = fixed[0];
            chain.upper_at = start + len;
            named_at = start;
            // The upper layer may be in another fragment.
            if chain.is_fragment {
                return Ok(chain);
            }
        }
        Err(Fault::Malformed.at(chain.upper_at))
    }
}
