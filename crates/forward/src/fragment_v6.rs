//! IPv6 fragmentation at the source (RFC 8200 §4.5): for tunnel packets, whose source is the
//! gateway itself.
//!
//! ```text
//!   before  fixed header | payload
//!   after   fixed header | fragment header | piece 0,  fixed header | fragment header | piece 1, ...
//! ```

use wire::ipv6::{FRAGMENT_HEADER_LEN, HEADER_LEN, Ipv6Header, field};
use wire::{Fragment, Headers, NoRoom, protocol};

use crate::fragment::PlanError;

/// How a packet is cut.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
    /// Payload of each fragment but the last, in bytes.
    piece_len: usize,
    ident: u32,
}

/// Plans the fragments of a packet for a link of this MTU, in bytes. `ident` must not repeat
/// between two hosts while fragments live, and should not be guessed (RFC 7739).
///
/// A packet that fits is a plan of one fragment, with a fragment header all the same.
///
/// # Errors
/// [`PlanError`]. Packets with extension headers in front of the payload are
/// [`PlanError::Malformed`] too: a gateway sends none.
pub fn plan<'a>(
    h: &Headers,
    packet: &'a [u8],
    mtu: usize,
    ident: u32,
) -> Result<Plan<'a>, PlanError> {
    let is_plain = usize::from(h.header_len) == HEADER_LEN && h.fragment == Fragment::Whole;
    let bytes = packet.get(..usize::from(h.total_len)).ok_or(PlanError::Malformed)?;
    let parsed = Ipv6Header::parse(bytes).map_err(|_| PlanError::Malformed)?;
    let (header, payload) = bytes.split_first_chunk().ok_or(PlanError::Malformed)?;
    if !is_plain || parsed.next_header() == protocol::FRAGMENT {
        return Err(PlanError::Malformed);
    }
    // Every fragment but the last carries a multiple of 8 bytes.
    let piece_len = mtu.saturating_sub(HEADER_LEN + FRAGMENT_HEADER_LEN) & !7;
    if piece_len == 0 {
        return Err(PlanError::MtuTooSmall);
    }
    Ok(Plan { header, payload, piece_len, ident })
}

impl Plan<'_> {
    /// Into how many fragments the packet goes.
    pub fn count(&self) -> usize {
        self.payload.len().div_ceil(self.piece_len).max(1)
    }

    /// Writes fragment `n`, counted from 0, to the buffer's beginning, and returns its length.
    ///
    /// # Errors
    /// The buffer is too short, or there is no fragment `n`.
    pub fn write(&self, n: usize, out: &mut [u8]) -> Result<usize, NoRoom> {
        if n >= self.count() {
            return Err(NoRoom);
        }
        let at = n * self.piece_len;
        let end = (at + self.piece_len).min(self.payload.len());
        let piece = self.payload.get(at..end).ok_or(NoRoom)?;
        let len = HEADER_LEN + FRAGMENT_HEADER_LEN + piece.len();
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        let (header, rest) = out.split_first_chunk_mut::<HEADER_LEN>().ok_or(NoRoom)?;
        let (fragment, body) = rest.split_first_chunk_mut::<FRAGMENT_HEADER_LEN>().ok_or(NoRoom)?;
        *header = *self.header;
        let payload_len = (FRAGMENT_HEADER_LEN + piece.len()) as u16; // below the packet's own + 8
        [header[field::PAYLOAD_LEN], header[field::PAYLOAD_LEN + 1]] = payload_len.to_be_bytes();
        header[field::NEXT_HEADER] = protocol::FRAGMENT;
        // The offset in units of 8 bytes stands in the upper 13 bits; `at` is a multiple of 8.
        let more = u16::from(end < self.payload.len());
        let word = (at as u16 | more).to_be_bytes();
        let ident = self.ident.to_be_bytes();
        let next = self.header[field::NEXT_HEADER];
        *fragment = [next, 0, word[0], word[1], ident[0], ident[1], ident[2], ident[3]];
        body.copy_from_slice(piece);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::parse_ip;

    fn packet(payload: &[u8]) -> Vec<u8> {
        let mut p = vec![0; HEADER_LEN];
        p[0] = 0x60;
        p[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        p[6] = protocol::ESP;
        p[7] = 64;
        p[8] = 0x20;
        p[24] = 0x20;
        p.extend(payload);
        p
    }

    #[test]
    fn what_cannot_be_cut() {
        let mut whole = packet(&[7; 64]);
        let h = parse_ip(&whole).unwrap();
        assert_eq!(plan(&h, &whole, 55, 1).unwrap_err(), PlanError::MtuTooSmall);
        assert_eq!(plan(&h, &whole[..90], 100, 1).unwrap_err(), PlanError::Malformed);
        whole[6] = protocol::FRAGMENT;
        let h = parse_ip(&whole).unwrap();
        assert_eq!(plan(&h, &whole, 100, 1).unwrap_err(), PlanError::Malformed);
    }

    proptest! {
        #[test]
        fn pieces_make_the_whole(payload in prop::collection::vec(any::<u8>(), 1..3000), mtu in 56usize..1600, ident: u32) {
            let whole = packet(&payload);
            let h = parse_ip(&whole).unwrap();
            let plan = plan(&h, &whole, mtu, ident).unwrap();
            let mut joined: Vec<u8> = Vec::new();
            let mut out = [0; 2000];
            for n in 0..plan.count() {
                let len = plan.write(n, &mut out).unwrap();
                prop_assert!(len <= mtu);
                prop_assert!(plan.write(n, &mut out[..len - 1]).is_err());
                let part = parse_ip(&out[..len]).unwrap();
                prop_assert_eq!(usize::from(part.total_len), len);
                prop_assert_eq!(part.protocol, protocol::ESP);
                let info = Ipv6Header::parse(&out[..len]).unwrap().extensions().unwrap();
                prop_assert!(info.fragment.is_some());
                let word = u16::from_be_bytes([out[42], out[43]]);
                prop_assert_eq!(usize::from(word & !7), joined.len());
                prop_assert_eq!(word & 1 == 1, n + 1 < plan.count());
                prop_assert_eq!(&out[44..48], &ident.to_be_bytes());
                joined.extend(&out[48..len]);
            }
            prop_assert_eq!(joined, payload);
            prop_assert!(plan.write(plan.count(), &mut out).is_err());
        }
    }
}
