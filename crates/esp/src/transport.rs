//! Transport mode: which headers stay in front of ESP, and how they are rewritten.
//!
//! ```text
//!   before   IP, options | hop-by-hop, routing, ... | upper layer
//!   after    IP, options | hop-by-hop, routing, ... | [UDP] | ESP header | upper layer | ...
//! ```
//!
//! RFC 4303 §3.1.1: headers that routers on the way read (hop-by-hop options, routing headers and
//! the destination options before these) stay visible; destination options that only the final
//! host reads are protected.

use wire::{Family, Fields, Fragment, ipv4, ipv6, protocol};

use outcome::DropReason;

/// The headers that stand in front of ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visible {
    /// Their length in bytes, from the IP header's first byte.
    pub len: usize,
    /// Offset of the field that names what follows them.
    pub next_header_at: usize,
    /// Protocol of the payload, as that field had it.
    pub protocol: u8,
}

/// Splits a cleartext packet, which `h` was parsed from, into visible headers and payload.
///
/// # Errors
/// [`DropReason::OutMode`] for fragments, an IPv6 fragment header of any kind included: transport
/// mode protects whole datagrams only (RFC 4303 §3.3.4). [`DropReason::MalformedIp`] if the
/// headers are not what `h` says.
pub(crate) fn split(packet: &[u8], h: Fields) -> Result<Visible, DropReason> {
    if h.fragment() != Fragment::Whole {
        return Err(DropReason::OutMode);
    }
    match h.family() {
        Family::V4 => Ok(Visible {
            len: usize::from(h.header_len()),
            next_header_at: ipv4::field::PROTOCOL,
            protocol: h.protocol(),
        }),
        Family::V6 => split_v6(packet, usize::from(h.header_len())),
    }
}

fn split_v6(packet: &[u8], upper_at: usize) -> Result<Visible, DropReason> {
    let mut next_header_at = ipv6::field::NEXT_HEADER;
    let mut at = ipv6::HEADER_LEN;
    let mut visible = None;
    // Ends at the upper layer at the latest, and each turn takes at least 8 bytes.
    loop {
        let protocol = *packet.get(next_header_at).ok_or(DropReason::MalformedIp)?;
        let here = Visible { len: at, next_header_at, protocol };
        match protocol {
            protocol::HOP_BY_HOP | protocol::ROUTING => visible = None,
            protocol::DESTINATION_OPTIONS => _ = visible.get_or_insert(here),
            protocol::FRAGMENT => return Err(DropReason::OutMode),
            _ => return Ok(visible.unwrap_or(here)),
        }
        if at >= upper_at {
            return Err(DropReason::MalformedIp);
        }
        let words = *packet.get(at + 1).ok_or(DropReason::MalformedIp)?;
        next_header_at = at;
        at += (usize::from(words) + 1) * 8;
    }
}

/// Finds the field that names ESP (or the UDP around it) in an IPv6 header chain of `len` bytes.
///
/// Returns `None` if the chain does not end there.
pub(crate) fn last_next_header(chain: &[u8], len: usize) -> Option<usize> {
    let mut next_header_at = ipv6::field::NEXT_HEADER;
    let mut at = ipv6::HEADER_LEN;
    while at < len {
        let protocol = *chain.get(next_header_at)?;
        let words = usize::from(*chain.get(at + 1)?);
        next_header_at = at;
        at += match protocol {
            protocol::FRAGMENT => ipv6::FRAGMENT_HEADER_LEN,
            _ => (words + 1) * 8,
        };
    }
    (at == len).then_some(next_header_at)
}

/// Writes protocol, length and checksum of the headers that a packet begins with.
///
/// Returns `None`, perhaps half written, if the packet is shorter than its headers; the lengths
/// are the caller's to have checked.
pub(crate) fn rewrite(
    packet: &mut [u8],
    family: Family,
    next_header_at: usize,
    protocol: u8,
    total_len: u16,
) -> Option<()> {
    *packet.get_mut(next_header_at)? = protocol;
    match family {
        Family::V4 => {
            let header = packet.first_chunk_mut::<{ ipv4::MIN_HEADER_LEN }>()?;
            [header[2], header[3]] = total_len.to_be_bytes();
            ipv4::fill_checksum(packet);
        }
        Family::V6 => {
            let header = packet.first_chunk_mut::<{ ipv6::HEADER_LEN }>()?;
            let payload_len = total_len.checked_sub(ipv6::HEADER_LEN as u16)?;
            [header[4], header[5]] = payload_len.to_be_bytes();
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use wire::parse_ip;

    use super::*;

    /// An IPv6 packet with these extension headers (type, length in 8-byte units) and 8 bytes of
    /// an unknown upper layer (253, RFC 3692).
    fn v6(chain: &[(u8, u8)]) -> Vec<u8> {
        let mut p = vec![0; 40];
        p[0] = 0x60;
        let mut next_at = 6;
        for (kind, units) in chain {
            p[next_at] = *kind;
            next_at = p.len();
            p.resize(p.len() + usize::from(*units) * 8, 0);
            p[next_at + 1] = units - 1;
        }
        p[next_at] = 253;
        p.extend([0xaa; 8]);
        let len = (p.len() - 40) as u16;
        p[4..6].copy_from_slice(&len.to_be_bytes());
        p
    }

    #[test]
    fn what_routers_read_stays_visible() {
        const HBH: u8 = protocol::HOP_BY_HOP;
        const DST: u8 = protocol::DESTINATION_OPTIONS;
        const RT: u8 = protocol::ROUTING;
        // Chain; length of the visible part; offset of the last visible next header field; payload.
        type Case = (&'static [(u8, u8)], usize, usize, u8);
        let cases: &[Case] = &[
            (&[], 40, 6, 253),
            (&[(HBH, 1)], 48, 40, 253),
            (&[(RT, 3)], 64, 40, 253),
            (&[(DST, 2)], 40, 6, DST),
            (&[(HBH, 2), (DST, 1)], 56, 40, DST),
            (&[(HBH, 1), (DST, 1), (RT, 3)], 80, 56, 253),
            (&[(HBH, 1), (DST, 1), (RT, 3), (DST, 2)], 80, 56, DST),
            (&[(DST, 1), (DST, 1)], 40, 6, DST),
        ];
        for (chain, len, next_header_at, protocol) in cases {
            let packet = v6(chain);
            let h = parse_ip(&packet).unwrap();
            let expected =
                Visible { len: *len, next_header_at: *next_header_at, protocol: *protocol };
            assert_eq!(split(&packet, (&h).into()), Ok(expected), "{chain:?}");
            assert_eq!(last_next_header(&packet, *len), Some(*next_header_at), "{chain:?}");
            assert_eq!(last_next_header(&packet, len + 1), None);
        }
    }

    #[test]
    fn fragments_are_refused() {
        let whole = v6(&[]);
        let mut h = parse_ip(&whole).unwrap();
        for fragment in [Fragment::First, Fragment::Later] {
            h.fragment = fragment;
            assert_eq!(split(&whole, (&h).into()), Err(DropReason::OutMode));
        }
        // An atomic fragment: a fragment header on a whole packet (RFC 6946).
        let atomic = v6(&[(protocol::FRAGMENT, 1)]);
        let h = parse_ip(&atomic).unwrap();
        assert_eq!(h.fragment, Fragment::Whole);
        assert_eq!(split(&atomic, (&h).into()), Err(DropReason::OutMode));
    }

    #[test]
    fn headers_that_changed_since_they_were_parsed() {
        let packet = v6(&[(protocol::HOP_BY_HOP, 1)]);
        let mut h = parse_ip(&packet).unwrap();
        h.header_len = 40;
        assert_eq!(split(&packet, (&h).into()), Err(DropReason::MalformedIp));
        h.header_len = 48;
        assert_eq!(split(&packet[..41], (&h).into()), Err(DropReason::MalformedIp));
    }
}
