//! Frames from Ethernet ports, and packets from Linux, up to their flow.

use io::Packet;
use outcome::DropReason;
use wire::ethernet::{EtherType, EthernetHeader, HEADER_LEN, MacAddr};
use wire::{Family, Span, VlanTags};

use crate::model::{Ingress, Meta};
use crate::out::AnyOut;
use crate::tables::vlan::untag;
use crate::view::View;

/// A frame from an Ethernet port, up to its flow. `mac` is the port's own address, where it is
/// known. The packet's span is then the IP packet.
///
/// A VLAN's frames are of its interface from here on, and have no tags any more. A tag of VLAN 0 only
/// carries a priority (IEEE 802.1Q §6.9).
#[inline(always)]
pub(super) fn meta_from_port(
    (view, out): (&View, &impl AnyOut),
    packet: &mut Packet,
    meta: &mut Meta,
    (ifindex, mac): (u32, Option<MacAddr>),
) -> Result<(), DropReason> {
    match meta_of_most(packet, meta, ifindex, mac) {
        true => Ok(()),
        false => meta_of_any((view, out), packet, meta, (ifindex, mac)),
    }
}

/// The same for every frame.
#[inline(never)]
fn meta_of_any(
    (view, out): (&View, &impl AnyOut),
    packet: &mut Packet,
    meta: &mut Meta,
    (mut ifindex, mut mac): (u32, Option<MacAddr>),
) -> Result<(), DropReason> {
    let header = EthernetHeader::parse(packet.data())?;
    if header.payload_offset > HEADER_LEN {
        (ifindex, mac) = untagged((view, out), packet, &header, (ifindex, mac))?;
        if meta_of_most(packet, meta, ifindex, mac) {
            return Ok(());
        }
    }
    let is_to_many = header.dst.is_multicast();
    if !is_to_many && mac.is_some_and(|mac| mac != header.dst) {
        return Err(DropReason::OtherHost);
    }
    let family = match header.ether_type {
        EtherType::IPV4 => Family::V4,
        EtherType::IPV6 => Family::V6,
        _ => return Err(DropReason::UnexpectedProtocol),
    };
    let Span { start, len } = packet.span;
    packet.span = Span { start: start + HEADER_LEN, len: len - HEADER_LEN };
    let h = wire::parse_ip(packet.data())?;
    packet.span.len = usize::from(h.total_len);
    if h.family() != family {
        return Err(DropReason::MalformedIp);
    }
    // A veth peer leaves TCP and UDP checksums to a device that is not there.
    if wire::complete_partial(packet.data_mut(), &h) {
        out.counters().work.checksums_completed.add(1);
    }
    meta.summary = (&h).into();
    meta.enter(Ingress::of_port(ifindex), !is_to_many);
    Ok(())
}

/// Removes VLAN tags. The Ethernet header is moved, so that give_back finds it in front of the
/// IP packet. Returns the ingress interface, and the address that the frame may be to.
fn untagged(
    (view, out): (&View, &impl AnyOut),
    packet: &mut Packet,
    header: &EthernetHeader,
    (port, mac): (u32, Option<MacAddr>),
) -> Result<(u32, Option<MacAddr>), DropReason> {
    let tags = VlanTags::of(header);
    let vlans = &view.topology.vlans;
    if tags.is_empty() && !header.ether_type.is_vlan() {
        untag(packet, header);
        if let Some(remark) = vlans.remark_of_port(port) {
            remark.write(packet.data_mut(), header);
        }
        return Ok((port, mac));
    }
    // A third tag is of a VLAN in a VLAN in a VLAN: none of those is known.
    let vlan = vlans.of_frame(port, tags);
    let vlan = vlan.filter(|_| !header.ether_type.is_vlan());
    let vlan = vlan.ok_or(DropReason::UnknownVlan)?;
    vlan.counters.received(out.dress().lane, packet.span.len);
    untag(packet, header);
    if let Some(remark) = &vlan.remark {
        remark.write(packet.data_mut(), header);
    }
    let mac = if vlan.is_mac(header.dst) { Some(header.dst) } else { mac };
    Ok((vlan.ifindex, mac))
}

/// The summary of an IP packet.
#[inline(always)]
pub(crate) fn meta_of_packet(packet: &Packet, meta: &mut Meta) -> Result<(), DropReason> {
    let bytes = packet.data();
    meta.summary = match wire::summarize(bytes, bytes.len()) {
        Some((summary, _)) => summary,
        None => (&wire::parse_ip(bytes)?).into(),
    };
    Ok(())
}

/// A packet from Linux: made by a program of this machine, or forwarded by Linux from an
/// interface that is not a port. `tunnel` is the tunnel interface that Linux routed it to, 0 for the
/// private interface.
#[inline(always)]
pub(super) fn meta_from_linux(
    view: &View,
    packet: &mut Packet,
    meta: &mut Meta,
    tunnel: u32,
) -> Result<(), DropReason> {
    let mark = io::tun::mark::take(packet);
    meta_of_packet(packet, meta)?;
    packet.span.len = meta.summary.fields.total_len().into();
    // Whether those are key exchange is seen in the packet alone.
    let (src_port, dst_port) = meta.summary.flow.ports();
    let is_natt = view.topology.is_natt_port(src_port) || view.topology.is_natt_port(dst_port);
    meta.enter(Ingress::of_linux(tunnel, mark), !is_natt);
    Ok(())
}

/// Most frames, in a few comparisons: whole, untagged, to this port, with a checksum. False, and nothing has
/// been done, if it is another one.
#[inline(always)]
fn meta_of_most(packet: &mut Packet, meta: &mut Meta, ifindex: u32, mac: Option<MacAddr>) -> bool {
    if let Some(header) = packet.data().first_chunk::<HEADER_LEN>()
        && mac.is_some_and(|mac| is_to(header, mac))
        && let Some(family) = ip_family(header)
    {
        let Span { start, len } = packet.span;
        let span = Span { start: start + HEADER_LEN, len: len - HEADER_LEN };
        let bytes = packet.frame.bytes().get(span.start..).unwrap_or_default();
        if let Some((summary, may_be_partial)) = wire::summarize(bytes, span.len)
            && summary.fields.family() == family
            && !may_be_partial
        {
            // What Ethernet padded is not part of the packet.
            packet.span = Span { len: summary.fields.total_len().into(), ..span };
            meta.summary = summary;
            meta.enter(Ingress::of_port(ifindex), true);
            return true;
        }
    }
    false
}

/// True if a frame is to this one station.
#[inline(always)]
fn is_to(header: &[u8; HEADER_LEN], mac: MacAddr) -> bool {
    let [a, b, c, d, e, f, ..] = *header;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) == {
        let [a, b, c, d, e, f] = mac.0;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

/// The family of what an untagged frame carries, if it is IP.
#[inline(always)]
fn ip_family(header: &[u8; HEADER_LEN]) -> Option<Family> {
    let [.., high, low] = *header;
    match EtherType(u16::from_be_bytes([high, low])) {
        EtherType::IPV4 => Some(Family::V4),
        EtherType::IPV6 => Some(Family::V6),
        _ => None,
    }
}
