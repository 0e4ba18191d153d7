//! Outbound: from an IP packet to a shorter one, or to one that goes as it is (RFC 3173 §2.1, §2.2).

use core::sync::atomic::Ordering::Relaxed;

use outcome::DropReason;
use wire::{Family, Fields, Span, ipv4, ipv6, protocol};

use super::{Deflate, HEADER_LEN};
use crate::sa::Sa;
use crate::size::MAX_IP_LEN;
use crate::transport;

impl Sa {
    /// Compresses a packet, for the SAs that protect it next, where that makes it shorter; in tunnel
    /// mode it gets the outer header in any case. Says where it is then.
    ///
    /// `packet` is where it lies in `buf`, with [`Sa::headroom`] in front; `h` was parsed from it.
    /// It does not become longer than by that. The SA's owner counts it, with [`Sa::payload_len`],
    /// and calls this before: the count makes IPv4's identification. What is too short is not
    /// compressed (Linux's threshold).
    ///
    /// # Errors
    /// [`DropReason::OutMode`], [`DropReason::MalformedIp`], [`DropReason::OutNoRoom`] and
    /// [`DropReason::OutTooBig`] as [`Sa::seal_prepare`].
    pub fn compress(
        &self,
        buf: &mut [u8],
        packet: Span,
        h: impl Into<Fields>,
        deflate: &mut Deflate,
    ) -> Result<Span, DropReason> {
        let h = h.into();
        let (split, payload_len) = self.split(buf, packet, h)?;
        let visible_len = split.map_or(0, |visible| visible.len);
        let next_header = split.map_or_else(|| Sa::protocol_of(h), |visible| visible.protocol);
        let headroom = self.headroom();
        let start = packet.start.checked_sub(headroom).ok_or(DropReason::OutNoRoom)?;
        if headroom + visible_len + payload_len > MAX_IP_LEN {
            return Err(DropReason::OutTooBig);
        }
        let payload_at = packet.start + visible_len;
        let payload = buf.get_mut(payload_at..payload_at + payload_len);
        let payload = payload.ok_or(DropReason::MalformedIp)?;
        let shorter = self.shorten(payload, next_header, deflate);
        let (protocol, payload_len) = match shorter {
            Some(len) => (protocol::IPCOMP, len),
            None => (next_header, payload_len),
        };
        let span = Span { start, len: headroom + visible_len + payload_len };
        let whole = buf.get_mut(span.range()).ok_or(DropReason::OutNoRoom)?;
        let total = span.len as u16; // at most MAX_IP_LEN
        let next_header_at = match split {
            Some(visible) => visible.next_header_at,
            None => {
                let number = self.live.packets().load(Relaxed);
                self.write_tunnel(whole, self.per_packet(h, number, total))
                    .ok_or(DropReason::OutNoRoom)?;
                if self.shape.is_v4() { ipv4::field::PROTOCOL } else { ipv6::field::NEXT_HEADER }
            }
        };
        if shorter.is_some() || split.is_none() {
            let family = if self.shape.is_v4() { Family::V4 } else { Family::V6 };
            transport::rewrite(whole, family, next_header_at, protocol, total)
                .ok_or(DropReason::OutNoRoom)?;
        }
        Ok(span)
    }

    /// Puts IPComp's header and the compressed payload in the payload's place, if that is shorter.
    fn shorten(&self, payload: &mut [u8], next_header: u8, deflate: &mut Deflate) -> Option<usize> {
        if payload.len() < THRESHOLD {
            return None;
        }
        let stream = deflate.compress(payload, payload.len() - HEADER_LEN - 1)?;
        let (header, rest) = payload.split_first_chunk_mut::<HEADER_LEN>()?;
        rest.get_mut(..stream.len())?.copy_from_slice(stream);
        let [high, low] = (self.params().spi as u16).to_be_bytes();
        *header = [next_header, 0, high, low];
        Some(HEADER_LEN + stream.len())
    }
}

/// Payloads below this many bytes are hardly made shorter (Linux's threshold for deflate; RFC 3173 §2.2
/// and RFC 2394 §2.2 ask for one).
const THRESHOLD: usize = 90;
