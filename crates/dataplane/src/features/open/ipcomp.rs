//! IPComp that arrives inside of another SA's packet, and IP in IP of an IPComp tunnel.

use esp::{Deflate, Sa};
use io::{Frame, FramePool, Packet};
use outcome::DropReason;
use policy::SaHandle;
use wire::{Fragment, Span, protocol};

use crate::crypt::Crypt;
use crate::features::fragments::Fragments;
use crate::features::open::candidate::{Candidate, Refused, usable};
use crate::model::{Meta, TAILROOM};
use crate::view::View;

/// Decompresses a packet: what was compressed stands behind its IPComp header then.
///
/// 1. Fragments have to be put together first (RFC 3173 §2.3).
/// 2. (destination, CPI) finds the SA, which must be usable, and this its home.
/// 3. Decompression, into no more than an IP packet, and no more than is left for this burst ([`crate::crypt::Inflation`]).
/// 4. Into the packet's frame, or into a large one where that is too small.
pub(crate) fn decompress(
    view: &View,
    crypt: &mut Crypt,
    (fragments, pool): (Option<&mut Fragments>, &mut FramePool),
    packet: &mut Packet,
    meta: &Meta,
) -> Result<Candidate, Refused> {
    let (flow, fields) = (&meta.summary.flow, meta.summary.fields);
    if fields.fragment() != Fragment::Whole {
        return Err(Refused::Fragment);
    }
    let headers_len = usize::from(fields.header_len());
    let header = packet.data().get(headers_len..).and_then(|rest| rest.first_chunk());
    let Some([_, _, high, low]) = header else {
        return Err(DropReason::MalformedIpComp.into());
    };
    let cpi = u16::from_be_bytes([*high, *low]);
    let found = view.reader.inbound_sa(flow.dst(), cpi.into(), protocol::IPCOMP, 0);
    let (handle, sa) = usable(view, found)?;
    let payload_at = headers_len + Sa::IPCOMP_HEADER_LEN;
    let (deflate, inflation): (&mut Deflate, _) = crypt.deflate();
    let (bytes, most) = (packet.data(), inflation.most());
    let payload = match sa.esp.decompress(bytes, fields, deflate, most) {
        Err(DropReason::InDeflateTooLong) if !inflation.is_whole() => {
            inflation.count(most);
            return Err(DropReason::InDeflateLimit.into());
        }
        payload => payload?,
    };
    inflation.count(payload.len());
    let at = packet.span.start + payload_at;
    if packet.frame.bytes().len() < at + payload.len() + TAILROOM {
        // A helper has no large ones: the worker that it serves does this again.
        let Some(fragments) = fragments else { return Err(Refused::Left) };
        let old = move_to_large(packet, payload_at, fragments)?;
        pool.put(old);
    }
    let start = packet.span.start + payload_at;
    let payload_span = Span { start, len: payload.len() };
    match packet.frame.bytes_mut().get_mut(payload_span.range()) {
        Some(place) => place.copy_from_slice(payload),
        None => return Err(DropReason::InDeflateTooLong.into()),
    }
    packet.span.len = payload_at + payload_span.len;
    Ok(Candidate { sa: handle, opening: sa.esp.open_bare(payload_span), from: None })
}

/// Moves the headers of a packet to a large frame; returns the old one.
fn move_to_large(
    packet: &mut Packet,
    headers_len: usize,
    fragments: &mut Fragments,
) -> Result<Frame, DropReason> {
    let mut frame =
        fragments.large().and_then(FramePool::take).ok_or(DropReason::InDeflateTooLong)?;
    let start = frame.headroom();
    let headers = packet.data().get(..headers_len);
    let place = frame.bytes_mut().get_mut(start..start + headers_len);
    if let (Some(headers), Some(place)) = (headers, place) {
        place.copy_from_slice(headers);
    }
    packet.span.start = start;
    Ok(core::mem::replace(&mut packet.frame, frame))
}

/// IP in IP: a packet of an IPComp tunnel that is not compressed.
pub(crate) fn ip_in_ip(view: &View, packet: &Packet, meta: &Meta) -> Result<Candidate, Refused> {
    let (flow, fields) = (&meta.summary.flow, meta.summary.fields);
    if fields.fragment() != Fragment::Whole {
        return Err(Refused::Fragment);
    }
    let (sa, entry) = usable(view, view.ip_in_ip(flow.src(), flow.dst()))?;
    let headers_len = usize::from(fields.header_len());
    let len = usize::from(fields.total_len()).min(packet.span.len).checked_sub(headers_len);
    let len = len.ok_or(DropReason::MalformedIp)?;
    let payload = Span { start: packet.span.start + headers_len, len };
    Ok(Candidate { sa, opening: entry.esp.open_bare(payload), from: None })
}

impl View {
    /// The SA of IP in IP between two hosts, by the outer header's addresses.
    pub(crate) fn ip_in_ip(
        &self,
        src: core::net::IpAddr,
        dst: core::net::IpAddr,
    ) -> Option<SaHandle> {
        let number = if dst.is_ipv4() { protocol::IPV4 } else { protocol::IPV6 };
        let handle = self.reader.inbound_sa(dst, policy::spi_of_source(src), number, 0)?;
        // Several IPv6 addresses may have one digest.
        self.reader.sa(handle).is_some_and(|sa| sa.config.params.src == src).then_some(handle)
    }
}
