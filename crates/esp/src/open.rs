//! Inbound: from an ESP packet to the cleartext IP packet (RFC 4303 §3.4).
//!
//! The order is the RFC's: replay check, ICV, decryption, then the trailer and the content. The
//! replay window and the counters move last, so a packet that fails anywhere leaves them as they
//! were, and its plaintext is overwritten.

use crypto::JobStatus;
use outcome::DropReason;
use wire::{Family, Headers, Span, ipv4, ipv6, protocol};

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::ecn;
use crate::params::Mode;
use crate::sa::Sa;
use crate::size::{ESP_HEADER_LEN, TRAILER_LEN, UDP_HEADER_LEN};
use crate::transport;

/// A packet that is ready to be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The ESP part: ESP header to ICV; what the crypto job works on.
    pub esp: Span,
    /// The whole sequence number; with ESN its high half is inferred, and proven by the ICV.
    pub seq: u64,
    /// The high half of the extended sequence number, for the crypto job.
    pub seq_hi: Option<u32>,
}

/// What was inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// An IP packet: the inner one in tunnel mode, the restored one in transport mode.
    Packet(Span),
    /// A dummy packet, to be discarded without a word (next header 59, RFC 4303 §2.6).
    Dummy,
}

impl Sa {
    /// Checks what can be checked before the ICV: lengths and the replay window. Writes nothing
    /// but the counters of replays.
    ///
    /// `esp` is where the ESP packet lies in `buf`, from its SPI to its ICV.
    ///
    /// # Errors
    /// - [`DropReason::MalformedEsp`]: too short, or not a multiple of the cipher's block or of 4
    ///   bytes (RFC 4303 §2.4).
    /// - [`DropReason::InSequenceZero`], [`DropReason::InReplayOld`],
    ///   [`DropReason::InReplayDuplicate`].
    pub fn open_prepare(&self, buf: &[u8], esp: Span) -> Result<Opening, DropReason> {
        let bytes = esp
            .start
            .checked_add(esp.len)
            .and_then(|end| buf.get(esp.start..end))
            .ok_or(DropReason::MalformedEsp)?;
        let (header, rest) = bytes.split_first_chunk::<8>().ok_or(DropReason::MalformedEsp)?;
        let g = &self.hot.geometry;
        let text_len = rest
            .len()
            .checked_sub(usize::from(g.iv_len) + usize::from(g.icv_len))
            .ok_or(DropReason::MalformedEsp)?;
        if text_len < TRAILER_LEN || text_len & (usize::from(g.align) - 1) != 0 {
            return Err(DropReason::MalformedEsp);
        }
        let low = u64::from_be_bytes(*header) as u32;
        let window = self.replay();
        let seq = window.infer(low).and_then(|seq| window.check(seq).map(|()| seq));
        let seq = seq.inspect_err(|reason| self.count_replay(*reason))?;
        Ok(Opening { esp, seq, seq_hi: self.hot.esn.then_some((seq >> 32) as u32) })
    }

    /// Completes a packet after the crypto job has run.
    ///
    /// `outer` is the whole outer packet in `buf`, `outer_h` was parsed from it, `now_s` is the
    /// wall clock in seconds.
    ///
    /// 1. The job's status.
    /// 2. The replay check again: of two packets with one number in a burst, both pass the first.
    /// 3. Padding and next header.
    /// 4. The content. Tunnel: inner header, ECN, DSCP. Transport: the IP header is moved to the
    ///    payload and restored; behind UDP encapsulation the TCP, UDP or ICMPv6 checksum is
    ///    computed anew, since a NAT has changed the addresses under it (RFC 3948 §3.1.2).
    /// 5. Move the window and count, as Linux's `xfrm_input` does: the decrypted payload with its
    ///    TFC padding; dummies not at all.
    ///
    /// TFC padding behind an inner packet is cut. The inner packet's IP header has been checked
    /// (IPv4 with its checksum), what is above has not.
    ///
    /// # Errors
    /// With any error the window stays, nothing is counted but the failure itself, and the text in
    /// `buf` is zeros.
    /// - [`DropReason::InIntegrity`], [`DropReason::InCrypto`]: by the job's status.
    /// - [`DropReason::InReplayDuplicate`], [`DropReason::InReplayOld`].
    /// - [`DropReason::InPadding`], [`DropReason::InNextHeader`], [`DropReason::InStateMode`],
    ///   [`DropReason::InInnerHeader`], [`DropReason::InEcn`].
    /// - [`DropReason::InEncapMismatch`]: ESP does not follow the outer headers as the SA has it,
    ///   bare or behind UDP.
    pub fn open_finish(
        &self,
        buf: &mut [u8],
        outer: Span,
        outer_h: &Headers,
        opening: &Opening,
        status: JobStatus,
        now_s: u64,
    ) -> Result<Opened, DropReason> {
        let result = self.finish(buf, outer, outer_h, opening, status);
        match result {
            Ok((opened, payload_len)) => {
                // 5.
                self.replay().commit(opening.seq);
                if opened != Opened::Dummy {
                    self.cells.count(payload_len as u64, now_s);
                }
                Ok(opened)
            }
            Err(reason) => {
                self.count_replay(reason);
                if reason == DropReason::InIntegrity {
                    bump(self.cells.integrity_failures());
                }
                if let Some(text) = buf.get_mut(opening.esp.range()) {
                    text.fill(0);
                }
                Err(reason)
            }
        }
    }

    /// Steps 1 to 4; the payload's length with the result.
    fn finish(
        &self,
        buf: &mut [u8],
        outer: Span,
        outer_h: &Headers,
        opening: &Opening,
        status: JobStatus,
    ) -> Result<(Opened, usize), DropReason> {
        // 1.
        match status {
            JobStatus::Done => {}
            JobStatus::BadIcv => return Err(DropReason::InIntegrity),
            JobStatus::Failed | JobStatus::Pending => return Err(DropReason::InCrypto),
        }
        let visible_len = self.visible_len(outer, outer_h, opening.esp)?;

        // 2.
        self.replay().check(opening.seq)?;

        // 3.
        let g = &self.hot.geometry;
        let text_start = opening.esp.start + g.prefix_len();
        let text_end = opening.esp.end() - usize::from(g.icv_len);
        let text = buf.get(text_start..text_end).ok_or(DropReason::MalformedEsp)?;
        let (payload_len, next_header) = trailer(text)?;
        if next_header == protocol::NO_NEXT_HEADER {
            return Ok((Opened::Dummy, payload_len));
        }

        // 4.
        let payload = Span { start: text_start, len: payload_len };
        let span = match self.hot.mode {
            Mode::Tunnel => self.tunnel(buf, payload, outer_h, next_header)?,
            Mode::Transport => {
                let packet = restore(buf, outer, visible_len, payload, outer_h, next_header)?;
                if g.udp_len != 0 {
                    repair_checksum(buf.get_mut(packet.range()), next_header)?;
                }
                packet
            }
        };
        Ok((Opened::Packet(span), payload_len))
    }

    /// The length of the IP header with its extensions, once it is clear that ESP follows it as
    /// the SA has it.
    fn visible_len(&self, outer: Span, h: &Headers, esp: Span) -> Result<usize, DropReason> {
        let (protocol, udp_len) = match self.hot.geometry.udp_len {
            0 => (protocol::ESP, 0),
            _ => (protocol::UDP, UDP_HEADER_LEN),
        };
        let len = usize::from(h.header_len);
        let fits = h.protocol == protocol
            && (h.family() == Family::V4) == self.hot.v4
            && esp.start == outer.start + len + udp_len
            && esp.end() <= outer.end();
        if fits { Ok(len) } else { Err(DropReason::InEncapMismatch) }
    }

    /// Checks an inner packet and carries ECN and DSCP over; returns where it lies.
    fn tunnel(
        &self,
        buf: &mut [u8],
        payload: Span,
        outer_h: &Headers,
        next_header: u8,
    ) -> Result<Span, DropReason> {
        let version = match next_header {
            protocol::IPV4 => 4,
            protocol::IPV6 => 6,
            _ => return Err(DropReason::InStateMode),
        };
        let inner = buf.get_mut(payload.range()).ok_or(DropReason::InInnerHeader)?;
        match inner.first() {
            None => return Err(DropReason::InInnerHeader),
            Some(first) if first >> 4 != version => return Err(DropReason::InNextHeader),
            Some(_) => {}
        }
        let malformed = |_| DropReason::InInnerHeader;
        let (total_len, old_class) = if version == 4 {
            let header = ipv4::Ipv4Header::parse(inner).map_err(malformed)?;
            (usize::from(header.total_len()), header.traffic_class())
        } else {
            let header = ipv6::Ipv6Header::parse(inner).map_err(malformed)?;
            (ipv6::HEADER_LEN + usize::from(header.payload_len()), header.traffic_class())
        };
        let outer_class = outer_h.traffic_class;
        let ecn = match self.hot.copy_ecn {
            true => self.hot.ecn_decap.combine(old_class, outer_class)?,
            false => old_class & ecn::MASK,
        };
        let dscp = if self.hot.copy_dscp_in { outer_class } else { old_class } & !ecn::MASK;
        if dscp | ecn != old_class {
            wire::set_traffic_class(inner, dscp | ecn);
        }
        Ok(Span { start: payload.start, len: total_len })
    }

    /// Counts a replay under its kind, as Linux's SA statistics do.
    fn count_replay(&self, reason: DropReason) {
        match reason {
            DropReason::InReplayDuplicate => bump(self.cells.replays()),
            DropReason::InReplayOld => bump(self.cells.too_old()),
            _ => {}
        }
    }
}

/// Reads the trailer at the end of the text (RFC 4303 §2.4 to §2.6): payload length, next header.
fn trailer(text: &[u8]) -> Result<(usize, u8), DropReason> {
    let (rest, fixed) = text.split_last_chunk::<TRAILER_LEN>().ok_or(DropReason::InPadding)?;
    let [pad_len, next_header] = *fixed;
    let payload_len = rest.len().checked_sub(pad_len.into()).ok_or(DropReason::InPadding)?;
    let padding = rest.get(payload_len..).ok_or(DropReason::InPadding)?;
    // Without a branch per byte; there are at most 255.
    let wrong =
        padding.iter().zip(1..=u8::MAX).fold(0, |wrong, (byte, value)| wrong | (byte ^ value));
    if wrong == 0 { Ok((payload_len, next_header)) } else { Err(DropReason::InPadding) }
}

/// Transport mode: moves the outer IP header to the payload, and makes it the payload's.
fn restore(
    buf: &mut [u8],
    outer: Span,
    visible_len: usize,
    payload: Span,
    outer_h: &Headers,
    next_header: u8,
) -> Result<Span, DropReason> {
    let next_header_at = match outer_h.family() {
        Family::V4 => ipv4::field::PROTOCOL,
        Family::V6 => buf
            .get(outer.start..outer.start + visible_len)
            .and_then(|chain| transport::last_next_header(chain, visible_len))
            .ok_or(DropReason::InEncapMismatch)?,
    };
    // ESP header and IV stood between the two, so there is room.
    let start = payload.start.checked_sub(visible_len).ok_or(DropReason::InEncapMismatch)?;
    buf.copy_within(outer.start..outer.start + visible_len, start);
    let packet = Span { start, len: visible_len + payload.len };
    let bytes = buf.get_mut(packet.range()).ok_or(DropReason::InEncapMismatch)?;
    // Shorter than the outer packet, whose length is 16 bits.
    let total_len = packet.len as u16;
    transport::rewrite(bytes, outer_h.family(), next_header_at, next_header, total_len)
        .ok_or(DropReason::InEncapMismatch)?;
    Ok(packet)
}

/// Computes the checksum that covers the addresses anew (RFC 3948 §3.1.2); a UDP packet that has
/// none keeps none.
fn repair_checksum(packet: Option<&mut [u8]>, next_header: u8) -> Result<(), DropReason> {
    let packet = packet.ok_or(DropReason::InInnerHeader)?;
    if !matches!(next_header, protocol::TCP | protocol::UDP | protocol::ICMPV6) {
        return Ok(());
    }
    let h = wire::parse_ip(packet).map_err(|_| DropReason::InInnerHeader)?;
    let upper = packet.get(usize::from(h.header_len)..).unwrap_or_default();
    let none = next_header == protocol::UDP
        && h.family() == Family::V4
        && matches!(upper, [_, _, _, _, _, _, 0, 0, ..]);
    if none || wire::fill_l4_checksum(packet, &h) { Ok(()) } else { Err(DropReason::InInnerHeader) }
}

/// One writer: a load and a store, not a locked read-modify-write.
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

const _: () = assert!(ESP_HEADER_LEN == 8, "SPI and sequence number are read as one u64");
