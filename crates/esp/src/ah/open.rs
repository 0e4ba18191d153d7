//! Inbound: from a packet with AH to the one without (RFC 4302 §3.4).

use outcome::DropReason;
use wire::{Family, Fields, Span, Summary};

use super::{FIXED_LEN, mutable};
use crate::open::{Content, Opening};
use crate::params::Mode;
use crate::sa::Sa;
use crate::size::Shape;

impl Sa {
    /// [`Sa::open_look`] for AH: checks what can be checked before the ICV, and writes nothing.
    ///
    /// `packet` is the whole IP packet in `buf`, and `h` what was parsed from it. AH is what follows the
    /// headers. Before the job, [`Opening::blank`] is called.
    ///
    /// # Errors
    /// - [`DropReason::MalformedAh`]: AH is not as long as the SA's, or the headers in front of it
    ///   contradict themselves.
    /// - [`DropReason::InNoRoom`]: no room behind the packet for the ICV and a copy of the headers.
    /// - [`DropReason::InSequenceZero`], [`DropReason::InReplayOld`],
    ///   [`DropReason::InReplayDuplicate`].
    pub fn open_ah(&self, buf: &[u8], packet: Span, h: Fields) -> Result<Opening, DropReason> {
        let shape = self.shape;
        let packet = Span { len: packet.len.min(h.total_len().into()), ..packet };
        let low = buf.get(packet.range()).and_then(|bytes| number(shape, bytes, h));
        let low = low.ok_or(DropReason::MalformedAh)?;
        if packet.end() + shape.icv_len() + usize::from(h.header_len()) > buf.len() {
            return Err(DropReason::InNoRoom);
        }
        let seq = self.replay().look(low)?;
        let seq_hi = shape.esn().then_some((seq >> 32) as u32);
        let esp = Span { len: packet.len + shape.icv_len(), ..packet };
        Ok(Opening { esp, seq, seq_hi, shape })
    }
}

/// The sequence number of a packet whose AH is as the SA has it.
fn number(shape: Shape, packet: &[u8], h: Fields) -> Option<u32> {
    let (headers, rest) = packet.split_at_checked(h.header_len().into())?;
    mutable::each(headers, |_| {})?;
    let [_, words, _, _, _, _, _, _, number @ ..] = *rest.first_chunk::<FIXED_LEN>()?;
    let (len, least) = (ah_len(words), FIXED_LEN + shape.icv_len());
    let is_v4 = h.family() == Family::V4;
    // Over IPv4 either alignment: the sender's, whatever it is here.
    let is_right = len == least.next_multiple_of(8) || is_v4 && len == least.next_multiple_of(4);
    (is_right && len <= rest.len() && is_v4 == shape.is_v4()).then_some(u32::from_be_bytes(number))
}

/// The length in bytes that AH's Payload Len says.
fn ah_len(words: u8) -> usize {
    (usize::from(words) + 2) * 4
}

impl Opening {
    /// True if the packet has ESP, and needs no step before the job.
    #[inline(always)]
    pub fn is_esp(&self) -> bool {
        self.shape.is_esp()
    }

    /// Makes a packet with AH as its ICV has it: moves the ICV behind the packet, and makes zero what
    /// may have changed on the way. Headers as they were stand behind that.
    ///
    /// Returns `None`, perhaps half done, if the packet is not what [`Sa::open_ah`] saw.
    #[inline]
    pub fn blank(&self, buf: &mut [u8], h: Fields) -> Option<()> {
        let icv_len = self.shape.icv_len();
        let packet_len = self.esp.len.checked_sub(icv_len)?;
        let (packet, behind) = buf.get_mut(self.esp.start..)?.split_at_mut_checked(packet_len)?;
        let (headers, ah) = packet.split_at_mut_checked(h.header_len().into())?;
        let (icv, copy) = behind.split_at_mut_checked(icv_len)?;
        let field = ah.get_mut(FIXED_LEN..)?.get_mut(..icv_len)?;
        icv.copy_from_slice(field);
        field.fill(0);
        let copy = copy.get_mut(..headers.len())?;
        copy.copy_from_slice(headers);
        mutable::blank(copy, headers)
    }

    /// The content behind AH, once the ICV is known to be right.
    pub(crate) fn look_behind_ah(
        &self,
        buf: &mut [u8],
        (outer, outer_h): (Span, Fields),
        inner: &mut Summary,
    ) -> Result<Content, DropReason> {
        let headers_len = usize::from(outer_h.header_len());
        let at = outer.start + headers_len;
        let copy = self.esp.end()..self.esp.end() + headers_len;
        let Some([next_header, words]) = buf.get(at..).and_then(|ah| ah.first_chunk()).copied()
        else {
            return Err(DropReason::MalformedAh);
        };
        let start = at + ah_len(words);
        let end = self.esp.end() - self.shape.icv_len();
        let len = end.checked_sub(start).ok_or(DropReason::MalformedAh)?;
        if copy.end > buf.len() {
            return Err(DropReason::MalformedAh);
        }
        buf.copy_within(copy, outer.start);
        let payload = Span { start, len };
        match self.shape.mode() {
            Mode::Tunnel | Mode::Iptfs => {
                let rest = buf.get_mut(start..).ok_or(DropReason::MalformedAh)?;
                self.tunnel(rest, payload, outer_h.traffic_class(), next_header, inner)
            }
            Mode::Transport => {
                self.transport(buf, (outer, outer_h), headers_len, payload, next_header, inner)
            }
        }
    }
}
