//! Inbound: from an ESP packet to the cleartext IP packet (RFC 4303 §3.4).
//!
//! The order is the RFC's: replay check, ICV, decryption, then the trailer and the content. The
//! replay window and the counters move last, so a packet that fails anywhere leaves them as they
//! were, and its plaintext is overwritten.

use crypto::JobStatus;
use outcome::DropReason;
use wire::{Family, Fields, Headers, ParseError, Span, Summary, ipv4, ipv6, protocol};

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::params::Mode;
use crate::sa::Sa;
use crate::size::{ESP_HEADER_LEN, Shape, TRAILER_LEN};
use crate::transport;

/// A packet that is ready to be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The ESP part: ESP header to ICV; what the crypto job works on. Of AH the whole packet, and
    /// behind it a copy of its ICV; of what has no job the payload.
    pub esp: Span,
    /// The whole sequence number; with ESN its high half is inferred, and proven by the ICV.
    pub seq: u64,
    /// The high half of the extended sequence number, for the crypto job.
    pub seq_hi: Option<u32>,
    /// The SA's: where many SAs are in use, it would have to be fetched again to look at what was decrypted.
    pub(crate) shape: Shape,
}

/// The content of an opened packet, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// An IP packet: the inner one in tunnel mode, the restored one in transport mode.
    Packet {
        /// Where it lies, as long as its IP header says.
        span: Span,
        /// The result of [`wire::parse_ip`]. An error concerns what is behind the IP header, which
        /// has been checked: extension headers, a fragment's end, ports.
        headers: Result<Headers, ParseError>,
    },
    /// A payload of IP-TFS, which lies here (RFC 9347): nothing of it has been looked at.
    Aggfrag(Span),
    /// A dummy packet, to be discarded without a word (next header 59, RFC 4303 §2.6).
    Dummy,
}

/// A decrypted packet's content, with what the SA needs to accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "nothing has been accepted yet"]
pub struct Content {
    /// Bytes that the SA counts.
    payload_len: u32,
    /// Where the IP packet lies.
    start: u32,
    len: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An IP packet whose summary is known.
    Packet,
    /// An IP packet that must not go on, for what is behind its IP header.
    Broken(DropReason),
    /// A payload of IP-TFS.
    Aggfrag,
    Dummy,
}

impl Content {
    fn dummy(payload_len: usize) -> Content {
        // Shorter than the packet, which is shorter than 65536 bytes.
        Content { payload_len: payload_len as u32, start: 0, len: 0, kind: Kind::Dummy }
    }

    #[inline(always)]
    fn packet(payload_len: usize, span: Span, kind: Kind) -> Content {
        // Frames have a few thousand bytes; the payload is as above.
        let (start, len) = (span.start as u32, span.len as u32);
        Content { payload_len: payload_len as u32, start, len, kind }
    }

    /// True if it is a dummy packet (RFC 4303 §2.6), which ends here.
    #[inline]
    pub fn is_dummy(&self) -> bool {
        self.kind == Kind::Dummy
    }

    /// True if it is a payload of IP-TFS, which lies where a packet would.
    #[inline]
    pub fn is_aggfrag(&self) -> bool {
        self.kind == Kind::Aggfrag
    }

    /// True if it is an IP packet whose summary is known.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.kind == Kind::Packet
    }

    /// Where the IP packet lies, as long as its IP header says; unless it is a dummy.
    #[inline]
    pub fn span(&self) -> Option<Span> {
        let span = Span { start: self.start as usize, len: self.len as usize };
        (!self.is_dummy()).then_some(span)
    }

    /// Why the packet cannot go on although it is to be accepted: what is behind its IP header
    /// (extension headers, a fragment's end, ports) does not parse.
    #[inline]
    pub fn broken(&self) -> Option<DropReason> {
        match self.kind {
            Kind::Broken(reason) => Some(reason),
            Kind::Packet | Kind::Aggfrag | Kind::Dummy => None,
        }
    }
}

/// Leaves nothing of what was decrypted.
#[cold]
#[inline(never)]
fn wipe(buf: &mut [u8], opening: &Opening) {
    if let Some(text) = buf.get_mut(opening.esp.range()) {
        text.fill(0);
    }
}

impl Sa {
    /// Checks what can be checked before the ICV: lengths and the replay window. Writes nothing
    /// but the counters of replays.
    ///
    /// `esp` is where the ESP packet lies in `buf`, from its SPI to its ICV. For an SA of AH see
    /// [`Sa::open_ah`].
    ///
    /// # Errors
    /// - [`DropReason::MalformedEsp`]: too short, or not a multiple of the cipher's block or of 4
    ///   bytes (RFC 4303 §2.4).
    /// - [`DropReason::InSequenceZero`], [`DropReason::InReplayOld`],
    ///   [`DropReason::InReplayDuplicate`].
    #[inline(always)]
    pub fn open_prepare(&self, buf: &[u8], esp: Span) -> Result<Opening, DropReason> {
        self.open_look(buf, esp).map_err(|reason| self.count_refused(reason))
    }

    /// [`Sa::open_prepare`] without counting what is refused: writes nothing, so any thread may do it
    /// at any time. Beside the one writer of the SA's numbers it may take a packet that others in the
    /// network have overtaken for a duplicate or too old: what is refused is asked about again by
    /// the writer.
    ///
    /// # Errors
    /// Those of [`Sa::open_prepare`].
    #[inline(always)]
    pub fn open_look(&self, buf: &[u8], esp: Span) -> Result<Opening, DropReason> {
        let shape = self.shape;
        let bytes = buf.get(esp.start..).and_then(|rest| rest.get(..esp.len));
        let header = bytes.and_then(|bytes| bytes.first_chunk::<ESP_HEADER_LEN>());
        let text_len = esp.len.checked_sub(shape.prefix_len() + shape.icv_len());
        let (Some(header), Some(text_len)) = (header, text_len) else {
            return Err(DropReason::MalformedEsp);
        };
        if text_len < TRAILER_LEN || text_len & shape.align_mask() != 0 {
            return Err(DropReason::MalformedEsp);
        }
        let low = u64::from_be_bytes(*header) as u32;
        let seq = self.replay().look(low)?;
        let seq_hi = shape.esn().then_some((seq >> 32) as u32);
        Ok(Opening { esp, seq, seq_hi, shape })
    }

    /// Completes a packet after the crypto job has run: [`Opening::content`] and
    /// [`Sa::open_accept`] in one, for a caller that works on one packet at a time.
    ///
    /// # Errors
    /// Those of the two.
    pub fn open_finish(
        &self,
        buf: &mut [u8],
        outer: Span,
        outer_h: impl Into<Fields>,
        opening: &Opening,
        status: JobStatus,
        now_s: u64,
    ) -> Result<Opened, DropReason> {
        let outer = (outer, outer_h.into());
        let content = opening.content(buf, outer, status, &mut Summary::default());
        self.open_accept(buf, opening, content, now_s)?;
        let content = content?;
        let Some(span) = content.span() else { return Ok(Opened::Dummy) };
        if content.is_aggfrag() {
            return Ok(Opened::Aggfrag(span));
        }
        let packet = buf.get(span.range()).unwrap_or_default();
        Ok(Opened::Packet { span, headers: wire::parse_ip(packet) })
    }

    /// Accepts a packet, in the order of arrival and on the one thread that writes the SA's
    /// numbers. `now_s` is the wall clock in seconds.
    ///
    /// 1. The replay check again: of two packets with one number in a burst, both pass the first.
    /// 2. Move the window and count, as Linux's `xfrm_input` does: the decrypted payload with its
    ///    TFC padding; dummies not at all.
    ///
    /// # Errors
    /// `content`'s own, which is counted, and [`DropReason::InReplayDuplicate`],
    /// [`DropReason::InReplayOld`]. The window stays then, nothing is counted but the failure
    /// itself, and the text in `buf` is zeros.
    #[inline(always)]
    pub fn open_accept(
        &self,
        buf: &mut [u8],
        opening: &Opening,
        content: Result<Content, DropReason>,
        now_s: u64,
    ) -> Result<(), DropReason> {
        let window = self.replay();
        match content.and_then(|content| window.check(opening.seq).map(|()| content)) {
            Ok(content) => {
                window.commit(opening.seq);
                if !content.is_dummy() {
                    self.live.count(u64::from(content.payload_len), now_s);
                }
                Ok(())
            }
            Err(reason) => Err(self.refuse(buf, opening, reason)),
        }
    }

    /// Counts a failure and leaves no plaintext behind.
    #[cold]
    #[inline(never)]
    fn refuse(&self, buf: &mut [u8], opening: &Opening, reason: DropReason) -> DropReason {
        if reason == DropReason::InIntegrity {
            bump(self.live.integrity_failures());
        }
        wipe(buf, opening);
        self.count_refused(reason)
    }

    /// Counts a replay under its kind, as Linux's SA statistics do, and returns the reason.
    ///
    /// For the one writer of the SA's numbers.
    #[cold]
    #[inline(never)]
    pub fn count_refused(&self, reason: DropReason) -> DropReason {
        match reason {
            DropReason::InReplayDuplicate => bump(self.live.replays()),
            DropReason::InReplayOld => bump(self.live.too_old()),
            _ => {}
        }
        reason
    }
}

impl Opening {
    /// Checks what was decrypted. Touches nothing of the SA, so any thread may do it, for any
    /// packet; nothing may leave before [`Sa::open_accept`].
    ///
    /// `outer` is the whole outer packet in `buf`, and what was parsed from it. The inner packet's
    /// summary is written to `inner`, unless the content is a dummy or [broken](Content::broken).
    ///
    /// 1. The job's status.
    /// 2. Padding and next header.
    /// 3. The content. Tunnel: inner header, ECN, DSCP. Transport: the IP header is moved to the
    ///    payload and restored; behind UDP encapsulation the TCP, UDP or ICMPv6 checksum is
    ///    computed anew, since a NAT has changed the addresses under it (RFC 3948 §3.1.2).
    ///
    /// TFC padding behind an inner packet is cut. The inner packet's IP header has been checked
    /// (IPv4 with its checksum), what is above has not.
    ///
    /// # Errors
    /// The text in `buf` is zeros then.
    /// - [`DropReason::InIntegrity`], [`DropReason::InCrypto`]: by the job's status.
    /// - [`DropReason::InPadding`], [`DropReason::InNextHeader`], [`DropReason::InStateMode`],
    ///   [`DropReason::InInnerHeader`], [`DropReason::InEcn`].
    /// - [`DropReason::InEncapMismatch`]: ESP does not follow the outer headers as the SA has it,
    ///   bare or behind UDP.
    #[inline(always)]
    pub fn content(
        &self,
        buf: &mut [u8],
        outer: (Span, Fields),
        status: JobStatus,
        inner: &mut Summary,
    ) -> Result<Content, DropReason> {
        let found = self.look_inside(buf, outer, status, inner);
        if found.is_err() {
            wipe(buf, self);
        }
        found
    }

    /// The steps of [`Opening::content`].
    #[inline(always)]
    fn look_inside(
        &self,
        buf: &mut [u8],
        (outer, outer_h): (Span, Fields),
        status: JobStatus,
        inner: &mut Summary,
    ) -> Result<Content, DropReason> {
        // 1.
        match status {
            JobStatus::Done => {}
            JobStatus::BadIcv => return Err(DropReason::InIntegrity),
            JobStatus::Failed | JobStatus::Pending => return Err(DropReason::InCrypto),
        }
        if !self.shape.is_esp() {
            return in_parts(self.look_behind(buf, (outer, outer_h), inner));
        }
        let visible_len = self.visible_len(outer, outer_h)?;

        // 2.
        let text_start = self.esp.start + self.shape.prefix_len();
        let text_len = self.esp.len.checked_sub(self.shape.prefix_len() + self.shape.icv_len());
        let rest = buf.get_mut(text_start..).ok_or(DropReason::MalformedEsp)?;
        let text = text_len.and_then(|len| rest.get(..len)).ok_or(DropReason::MalformedEsp)?;
        let (payload_len, next_header) = trailer(text)?;
        if next_header == protocol::NO_NEXT_HEADER {
            return Ok(Content::dummy(payload_len));
        }

        // 3.
        let payload = Span { start: text_start, len: payload_len };
        match self.shape.mode() {
            Mode::Tunnel | Mode::Iptfs => {
                self.tunnel(rest, payload, outer_h.traffic_class(), next_header, inner)
            }
            Mode::Transport => {
                let outer = (outer, outer_h);
                in_parts(self.transport(buf, outer, visible_len, payload, next_header, inner))
            }
        }
    }

    /// The content of AH, IPComp or IP in IP.
    #[inline(never)]
    fn look_behind(
        &self,
        buf: &mut [u8],
        outer: (Span, Fields),
        inner: &mut Summary,
    ) -> Result<Content, DropReason> {
        match self.shape.is_ah() {
            true => self.look_behind_ah(buf, outer, inner),
            false => self.look_behind_bare(buf, outer, inner),
        }
    }

    /// The length of the IP header with its extensions, once it is clear that ESP follows it as
    /// the SA has it.
    #[inline(always)]
    fn visible_len(&self, outer: Span, h: Fields) -> Result<usize, DropReason> {
        let esp = self.esp;
        let udp_len = self.shape.udp_len();
        let protocol = if udp_len == 0 { protocol::ESP } else { protocol::UDP };
        let len = usize::from(h.header_len());
        let fits = h.protocol() == protocol
            && (h.family() == Family::V4) == self.shape.is_v4()
            && esp.start == outer.start + len + udp_len
            && esp.end() <= outer.end();
        if fits { Ok(len) } else { Err(DropReason::InEncapMismatch) }
    }

    /// Checks an inner packet, which lies at `payload` in the whole buffer and at the beginning of
    /// `rest`, and carries ECN and DSCP over.
    #[inline(always)]
    pub(crate) fn tunnel(
        &self,
        rest: &mut [u8],
        payload: Span,
        outer_class: u8,
        next_header: u8,
        inner: &mut Summary,
    ) -> Result<Content, DropReason> {
        if let Some((summary, _)) = wire::summarize(rest, payload.len) {
            let is_named = match summary.fields.family() {
                Family::V4 => next_header == protocol::IPV4,
                Family::V6 => next_header == protocol::IPV6,
            };
            let class = summary.fields.traffic_class();
            if is_named && self.shape.keeps_class(class, outer_class) {
                let span = Span { len: summary.fields.total_len().into(), ..payload };
                *inner = summary;
                return Ok(Content::packet(payload.len, span, Kind::Packet));
            }
        }
        let packet = rest.get_mut(..payload.len).ok_or(DropReason::InInnerHeader)?;
        in_parts(self.tunnel_any(packet, payload, outer_class, next_header, inner))
    }

    /// [`Opening::tunnel`] for every packet.
    #[inline(never)]
    fn tunnel_any(
        &self,
        packet: &mut [u8],
        payload: Span,
        outer_class: u8,
        next_header: u8,
        inner: &mut Summary,
    ) -> Result<Content, DropReason> {
        if self.shape.is_iptfs() {
            // Linux takes what is none for one of a sub-type that it does not know.
            return match next_header {
                protocol::AGGFRAG => Ok(Content::packet(payload.len, payload, Kind::Aggfrag)),
                _ => Err(DropReason::InInnerHeader),
            };
        }
        let version = match next_header {
            protocol::IPV4 => 4,
            protocol::IPV6 => 6,
            _ => return Err(DropReason::InStateMode),
        };
        match packet.first() {
            None => return Err(DropReason::InInnerHeader),
            Some(first) if first >> 4 != version => return Err(DropReason::InNextHeader),
            Some(_) => {}
        }
        let headers = wire::parse_ip(packet);
        let (len, old_class) = match &headers {
            Ok(h) => (usize::from(h.total_len), h.traffic_class),
            Err(_) => header_alone(packet)?,
        };
        let class = self.shape.inner_class(old_class, outer_class)?;
        if class != old_class {
            wire::set_traffic_class(packet, class);
        }
        let kind = kind_of(&headers, inner);
        inner.fields = inner.fields.with_traffic_class(class);
        Ok(Content::packet(payload.len, Span { len, ..payload }, kind))
    }

    /// Restores a packet of transport mode.
    #[inline(never)]
    pub(crate) fn transport(
        &self,
        buf: &mut [u8],
        outer: (Span, Fields),
        visible_len: usize,
        payload: Span,
        next_header: u8,
        inner: &mut Summary,
    ) -> Result<Content, DropReason> {
        let span = restore(buf, outer, visible_len, payload, next_header)?;
        let packet = buf.get_mut(span.range()).ok_or(DropReason::InInnerHeader)?;
        let headers = wire::parse_ip(packet);
        if self.shape.udp_len() != 0 {
            repair_checksum(packet, &headers, next_header)?;
        }
        Ok(Content::packet(payload.len, span, kind_of(&headers, inner)))
    }
}

/// The result of a call that is not inlined, part by part. As a whole it would be built in memory by such a
/// call, and by those ways too that need none: by narrow stores that the wide load behind them waits for.
#[inline(always)]
fn in_parts(found: Result<Content, DropReason>) -> Result<Content, DropReason> {
    let Content { payload_len, start, len, kind } = found?;
    Ok(Content { payload_len, start, len, kind })
}

/// The kind of a packet whose IP header is right. Writes its summary, if it has one.
fn kind_of(headers: &Result<Headers, ParseError>, inner: &mut Summary) -> Kind {
    match headers {
        Ok(h) => {
            *inner = h.into();
            Kind::Packet
        }
        Err(ParseError::UpperTruncated(_)) => Kind::Broken(DropReason::MalformedUpper),
        Err(_) => Kind::Broken(DropReason::InInnerHeader),
    }
}

/// Total length and traffic class of a packet whose IP header must be right, whatever follows it.
#[cold]
#[inline(never)]
fn header_alone(packet: &[u8]) -> Result<(usize, u8), DropReason> {
    let malformed = |_| DropReason::InInnerHeader;
    if packet.first().is_some_and(|first| first >> 4 == 4) {
        let header = ipv4::Ipv4Header::parse(packet).map_err(malformed)?;
        Ok((usize::from(header.total_len()), header.traffic_class()))
    } else {
        let header = ipv6::Ipv6Header::parse(packet).map_err(malformed)?;
        Ok((ipv6::HEADER_LEN + usize::from(header.payload_len()), header.traffic_class()))
    }
}

/// Reads the trailer at the end of the text (RFC 4303 §2.4 to §2.6): payload length, next header.
#[inline(always)]
fn trailer(text: &[u8]) -> Result<(usize, u8), DropReason> {
    let (rest, fixed) = text.split_last_chunk::<TRAILER_LEN>().ok_or(DropReason::InPadding)?;
    let [pad_len, next_header] = *fixed;
    let payload_len = rest.len().checked_sub(pad_len.into()).ok_or(DropReason::InPadding)?;
    // Padding for alignment is at most 15 bytes: compared at once, with the bytes in front of it.
    let at_once = rest.last_chunk::<16>().zip(padding_mask(pad_len));
    let is_right = match at_once {
        Some((last, (mask, padding))) => u128::from_le_bytes(*last) & mask == padding,
        None => is_padding(rest.get(payload_len..).unwrap_or_default()),
    };
    if is_right { Ok((payload_len, next_header)) } else { Err(DropReason::InPadding) }
}

/// Which of sixteen bytes are padding when so many at their end are, and what those have to be.
#[inline(always)]
fn padding_mask(pad_len: u8) -> Option<(u128, u128)> {
    const fn sliding(ones: bool) -> [u8; 32] {
        let mut bytes = [0; 32];
        let mut i = 1;
        while i <= 16 {
            bytes[15 + i] = if ones { 0xff } else { i as u8 };
            i += 1;
        }
        bytes
    }
    const MASK: [u8; 32] = sliding(true);
    const PADDING: [u8; 32] = sliding(false);
    let at = usize::from(pad_len);
    let part = |bytes: &'static [u8; 32]| bytes.get(at..)?.first_chunk::<16>();
    Some((u128::from_le_bytes(*part(&MASK)?), u128::from_le_bytes(*part(&PADDING)?)))
}

/// True if the padding is 1, 2, 3, ... (RFC 4303 §2.4). No branch per byte; there are at most 255.
#[cold]
#[inline(never)]
fn is_padding(padding: &[u8]) -> bool {
    padding.iter().zip(1..=u8::MAX).fold(0, |wrong, (byte, value)| wrong | (byte ^ value)) == 0
}

/// Transport mode: moves the outer IP header to the payload, and makes it the payload's.
fn restore(
    buf: &mut [u8],
    (outer, outer_h): (Span, Fields),
    visible_len: usize,
    payload: Span,
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
fn repair_checksum(
    packet: &mut [u8],
    headers: &Result<Headers, ParseError>,
    next_header: u8,
) -> Result<(), DropReason> {
    if !matches!(next_header, protocol::TCP | protocol::UDP | protocol::ICMPV6) {
        return Ok(());
    }
    let h = headers.as_ref().map_err(|_| DropReason::InInnerHeader)?;
    let upper = packet.get(usize::from(h.header_len)..).unwrap_or_default();
    let none = next_header == protocol::UDP
        && h.family() == Family::V4
        && matches!(upper, [_, _, _, _, _, _, 0, 0, ..]);
    if none || wire::fill_l4_checksum(packet, h) { Ok(()) } else { Err(DropReason::InInnerHeader) }
}

/// One writer: a load and a store, not a locked read-modify-write.
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

const _: () = assert!(ESP_HEADER_LEN == 8, "SPI and sequence number are read as one u64");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 4303 §2.4 to §2.6, byte by byte.
    fn slow_trailer(text: &[u8]) -> Result<(usize, u8), DropReason> {
        let [rest @ .., pad_len, next_header] = text else { return Err(DropReason::InPadding) };
        let pad_len = usize::from(*pad_len);
        if pad_len > rest.len() {
            return Err(DropReason::InPadding);
        }
        let (payload, padding) = rest.split_at(rest.len() - pad_len);
        for (i, byte) in padding.iter().enumerate() {
            if usize::from(*byte) != i + 1 {
                return Err(DropReason::InPadding);
            }
        }
        Ok((payload.len(), *next_header))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn trailers_are_read_as_defined(
            payload in prop::collection::vec(any::<u8>(), 0..40),
            pad_len in prop_oneof![3 => 0u8..=17, 1 => any::<u8>()],
            next_header: u8,
            wrong in prop::option::of((any::<prop::sample::Index>(), 1u8..)),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut text = payload;
            text.extend(1..=pad_len);
            text.extend([pad_len, next_header]);
            if let Some((at, bits)) = wrong {
                let at = at.index(text.len());
                text[at] ^= bits;
            }
            // From the front, so that the trailer stays.
            let text = &text[cut.map_or(0, |cut| cut.index(text.len() + 1))..];
            prop_assert_eq!(trailer(text), slow_trailer(text));
        }
    }
}
