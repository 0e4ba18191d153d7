//! Outbound: from an IP packet to one with AH (RFC 4302 §3.3).
//!
//! ```text
//!   tunnel     [outer IP] [AH] [inner packet]
//!   transport  [IP, visible] [AH] [payload]
//! ```

use outcome::DropReason;
use wire::{Fields, Span, protocol};

use super::{FIXED_LEN, begins_at, mutable};
use crate::sa::Sa;
use crate::seal::Sealing;
use crate::size::MAX_IP_LEN;
use crate::transport;

impl Sa {
    /// [`Sa::seal_prepare`] for AH.
    ///
    /// 1. Split off the headers that stay in front (transport mode).
    /// 2. Lengths, room.
    /// 3. Write the headers in front, and AH.
    /// 4. Copy the headers behind the packet, and make zero what may change.
    #[inline(never)]
    pub(crate) fn seal_ah(
        &self,
        buf: &mut [u8],
        packet: Span,
        h: Fields,
        number: u64,
    ) -> Result<Sealing, DropReason> {
        let g = self.shape.geometry();

        // 1.
        let (split, payload_len) = self.split(buf, packet, h)?;
        let visible_len = split.map_or(0, |visible| visible.len);
        if split.is_some() {
            let visible = buf.get(packet.start..packet.start + visible_len);
            visible
                .and_then(|headers| mutable::each(headers, |_| {}))
                .ok_or(DropReason::OutMode)?;
        }

        // 2.
        let start = packet.start.checked_sub(g.headroom()).ok_or(DropReason::OutNoRoom)?;
        let total_len = g.sealed_len(visible_len, payload_len);
        if total_len > MAX_IP_LEN {
            return Err(DropReason::OutTooBig);
        }
        let headers_len = visible_len + usize::from(g.outer_ip_len);
        let job_len = total_len + self.shape.icv_len();
        let whole = buf.get_mut(start..).and_then(|rest| rest.get_mut(..job_len + headers_len));
        let whole = whole.ok_or(DropReason::OutNoRoom)?;

        // 3. and 4.; nothing fails from here on.
        whole.copy_within(g.headroom()..g.headroom() + visible_len, 0);
        let (sealed, behind) = whole.split_at_mut(total_len);
        let total = total_len as u16; // at most MAX_IP_LEN
        let next_header = match split {
            None => {
                self.write_tunnel(sealed, self.per_packet(h, number, total));
                Sa::protocol_of(h)
            }
            Some(visible) => {
                let at = visible.next_header_at;
                transport::rewrite(sealed, h.family(), at, protocol::AH, total);
                visible.protocol
            }
        };
        let (headers, rest) = sealed.split_at_mut(headers_len);
        let ah = rest.get_mut(..self.shape.prefix_len()).ok_or(DropReason::OutNoRoom)?;
        self.write_ah(ah, next_header, number).ok_or(DropReason::OutNoRoom)?;
        let copy = behind.get_mut(self.shape.icv_len()..).ok_or(DropReason::OutNoRoom)?;
        copy.copy_from_slice(headers);
        mutable::blank(copy, headers).ok_or(DropReason::OutMode)?;

        Ok(Sealing {
            packet: Span { start, len: total_len },
            esp: Span { start, len: job_len },
            seq_hi: self.shape.esn().then_some((number >> 32) as u32),
        })
    }

    /// Writes AH, its ICV and padding zero.
    fn write_ah(&self, ah: &mut [u8], next_header: u8, number: u64) -> Option<()> {
        // At most 18 words.
        let words = (ah.len() / 4) as u8 - 2;
        let (fixed, icv) = ah.split_first_chunk_mut::<FIXED_LEN>()?;
        let (first, rest) = fixed.split_first_chunk_mut::<4>()?;
        *first = [next_header, words, 0, 0];
        self.template.write_esp(rest, number)?;
        icv.fill(0);
        Some(())
    }

    /// Puts the ICV into its place, and the headers back into theirs.
    pub(crate) fn finish_ah(&self, buf: &mut [u8], sealing: &Sealing) -> Option<Span> {
        let Span { start, len } = sealing.packet;
        let (packet, behind) = buf.get_mut(start..)?.split_at_mut_checked(len)?;
        let (icv, copy) = behind.split_at_checked(self.shape.icv_len())?;
        let headers_len = begins_at(packet)?;
        let (headers, rest) = packet.split_at_mut_checked(headers_len)?;
        rest.get_mut(FIXED_LEN..)?.get_mut(..icv.len())?.copy_from_slice(icv);
        headers.copy_from_slice(copy.get(..headers.len())?);
        Some(sealing.packet)
    }
}
