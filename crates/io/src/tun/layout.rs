//! Where the transport header of an IP packet lies: as much as segmentation needs.

use crate::checksum::{Sum, pseudo_header};

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

/// An IP packet's frame of reference. All offsets are within the packet that it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) is_v4: bool,
    /// Transport protocol, after extension headers.
    pub(super) protocol: u8,
    /// Length of the IP header with options and extension headers.
    pub(super) ip_len: usize,
    /// IPv4's offset field or an IPv6 fragment header says that this is a part.
    pub(super) is_fragment: bool,
}

impl Layout {
    /// Reads the IP headers; `None` if they are malformed or reach past the end.
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of_v4(packet),
            6 => Self::of_v6(packet),
            _ => None,
        }
    }

    fn of_v4(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<20>()?;
        let ip_len = usize::from(header[0] & 0xf) * 4;
        if ip_len < 20 || packet.len() < ip_len {
            return None;
        }
        let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        Some(Self { is_v4: true, protocol: header[9], ip_len, is_fragment })
    }

    fn of_v6(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<40>()?;
        let mut protocol = header[6];
        let mut ip_len = 40;
        let mut is_fragment = false;
        for _ in 0..MAX_EXTENSIONS {
            let extension = packet.get(ip_len..);
            ip_len += match protocol {
                // Hop-by-hop, routing, destination options (RFC 8200 §4).
                0 | 43 | 60 => {
                    let [next, len] = *extension?.first_chunk::<2>()?;
                    protocol = next;
                    usize::from(len) * 8 + 8
                }
                44 => {
                    let [next, _] = *extension?.first_chunk::<2>()?;
                    protocol = next;
                    is_fragment = true;
                    8
                }
                _ => break,
            };
        }
        let fits = packet.len() >= ip_len;
        fits.then_some(Self { is_v4: false, protocol, ip_len, is_fragment })
    }

    /// The pseudo header's sum over `packet`'s addresses for a transport length.
    pub(super) fn pseudo_header(&self, packet: &[u8], len: usize) -> Sum {
        let addresses = if self.is_v4 { 12..20 } else { 8..40 };
        pseudo_header(packet.get(addresses).unwrap_or(&[]), self.protocol).word(len as u16)
    }
}

/// Sets two bytes; does nothing past the end.
pub(super) fn put(packet: &mut [u8], at: usize, value: u16) {
    if let Some(field) = packet.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// Reads two bytes; 0 past the end.
pub(super) fn word(packet: &[u8], at: usize) -> u16 {
    let field = packet.get(at..).and_then(|rest| rest.first_chunk::<2>());
    field.map_or(0, |field| u16::from_be_bytes(*field))
}

/// Reads four bytes; 0 past the end.
pub(super) fn double_word(packet: &[u8], at: usize) -> u32 {
    let field = packet.get(at..).and_then(|rest| rest.first_chunk::<4>());
    field.map_or(0, |field| u32::from_be_bytes(*field))
}

/// Recomputes an IPv4 header's checksum. `header` is the whole header.
pub(crate) fn set_ipv4_checksum(header: &mut [u8]) {
    put(header, 10, 0);
    let checksum = Sum::default().bytes(header).checksum();
    put(header, 10, checksum);
}

/// More extension headers than any real packet has.
const MAX_EXTENSIONS: usize = 8;
