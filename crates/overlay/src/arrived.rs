//! The tunnel that an arriving packet names, and where the packet inside begins.

use wire::ethernet::HEADER_LEN as ETHERNET_LEN;
use wire::{EtherType, Fragment, Headers, L4Checksum, MacAddr, ipv4, ipv6, protocol, udp};

use crate::{GRE_PROTOCOL, geneve, gre, l2tp, vxlan};

/// Name of a packet's tunnel, beside addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Id {
    /// GRE with this key, or without one.
    Gre {
        /// The key, if there is one.
        key: Option<u32>,
        /// True around Ethernet frames.
        is_frame: bool,
    },
    /// VXLAN in this network.
    Vxlan {
        /// UDP port here.
        port: u16,
        /// Its network, of 24 bits.
        vni: u32,
    },
    /// GENEVE in this network.
    Geneve {
        /// UDP port here.
        port: u16,
        /// Its network, of 24 bits.
        vni: u32,
        /// True around Ethernet frames.
        is_frame: bool,
    },
    /// L2TPv3 in this session.
    L2tp {
        /// UDP port here; none over IP.
        port: Option<u16>,
        /// Number of the session here.
        session: u32,
    },
}

/// Payload of a tunnel's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// An IP packet alone.
    Ip,
    /// An Ethernet frame with an IP packet.
    Frame {
        /// Station that it is for.
        dst: MacAddr,
        /// Station that has sent it.
        src: MacAddr,
    },
}

/// A tunnel's packet that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Name of the tunnel.
    pub id: Id,
    /// Where the packet inside begins, in bytes from the outer IP header; of L2TPv3, what follows the session's number.
    pub cut: usize,
    /// Content behind the headers; of L2TPv3, whose cookie is the session's to know, `None`.
    pub inner: Option<Inner>,
    /// True if it has a checksum, which is right. Whether the tunnel takes UDP over IPv6 without one (RFC 6935) is the
    /// caller's to ask.
    pub has_checksum: bool,
}

/// Why a packet is not for a tunnel here, as far as its bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Of a protocol or to a port that no tunnel has.
    Other,
    /// A fragment of an outer packet.
    Fragment,
    /// A header that is not understood: another version, options, sequence numbers.
    Header,
    /// A checksum that is wrong.
    Checksum,
    /// Something else than IP inside: ARP, IS-IS, a VLAN's frame.
    Payload,
}

/// Looks at an outer packet, whose headers are `h`. `kind` says what the datagrams to a port are.
///
/// # Errors
/// It is nothing that is understood here.
pub fn look(
    packet: &[u8],
    h: &Headers,
    kind: impl Fn(u16) -> Option<PortKind>,
) -> Result<Arrived, Unread> {
    let kind = match h.protocol {
        GRE_PROTOCOL | l2tp::PROTOCOL => None,
        protocol::UDP => Some(kind(h.dst_port).ok_or(Unread::Other)?),
        _ => return Err(Unread::Other),
    };
    if h.fragment != Fragment::Whole {
        return Err(Unread::Fragment);
    }
    let upper_at = usize::from(h.header_len);
    let upper = packet.get(upper_at..usize::from(h.total_len)).ok_or(Unread::Header)?;
    let Some(kind) = kind else {
        return match h.protocol {
            GRE_PROTOCOL => of_gre(upper, upper_at),
            _ => of_l2tp(upper, None, upper_at, false),
        };
    };
    let datagram = udp::UdpHeader::parse(upper).map_err(|_| Unread::Header)?;
    let has_checksum = datagram.checksum() != 0;
    if has_checksum && wire::verify_l4_checksum(packet, h) == L4Checksum::Invalid {
        return Err(Unread::Checksum);
    }
    let (payload, at) = (datagram.payload(), upper_at + udp::HEADER_LEN);
    let port = h.dst_port;
    match kind {
        PortKind::Vxlan => {
            let vni = vxlan::read(payload).ok_or(Unread::Header)?;
            let frame = payload.get(vxlan::HEADER_LEN..).ok_or(Unread::Header)?;
            let (inner, len) = of_frame(frame)?;
            let cut = at + vxlan::HEADER_LEN + len;
            Ok(Arrived { id: Id::Vxlan { port, vni }, cut, inner: Some(inner), has_checksum })
        }
        PortKind::Geneve => {
            let (vni, kind) = geneve::read(payload).ok_or(Unread::Header)?;
            let inside = payload.get(geneve::HEADER_LEN..).ok_or(Unread::Header)?;
            let (inner, len) = of_payload(kind, inside)?;
            let id = Id::Geneve { port, vni, is_frame: inner != Inner::Ip };
            let cut = at + geneve::HEADER_LEN + len;
            Ok(Arrived { id, cut, inner: Some(inner), has_checksum })
        }
        PortKind::L2tp => of_l2tp(payload, Some(port), at, has_checksum),
    }
}

/// Kind of the tunnels at a UDP port of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortKind {
    /// Port of VXLAN tunnels.
    Vxlan,
    /// Port of GENEVE tunnels.
    Geneve,
    /// Port of L2TPv3 sessions.
    L2tp,
}

fn of_gre(upper: &[u8], upper_at: usize) -> Result<Arrived, Unread> {
    let header = gre::Gre::read(upper).ok_or(Unread::Header)?;
    if header.has_checksum && !gre::is_checksum_right(upper) {
        return Err(Unread::Checksum);
    }
    let inside = upper.get(header.len()..).ok_or(Unread::Header)?;
    let (inner, len) = of_payload(header.kind, inside)?;
    let id = Id::Gre { key: header.key, is_frame: inner != Inner::Ip };
    let cut = upper_at + header.len() + len;
    Ok(Arrived { id, cut, inner: Some(inner), has_checksum: header.has_checksum })
}

fn of_l2tp(
    message: &[u8],
    port: Option<u16>,
    at: usize,
    has_checksum: bool,
) -> Result<Arrived, Unread> {
    let (session, len) = l2tp::read(message, port.is_some()).ok_or(Unread::Header)?;
    Ok(Arrived { id: Id::L2tp { port, session }, cut: at + len, inner: None, has_checksum })
}

/// The payload behind headers that say its kind, and the length of what is in front of IP.
fn of_payload(kind: EtherType, inside: &[u8]) -> Result<(Inner, usize), Unread> {
    if kind == gre::ETHERNET {
        return of_frame(inside);
    }
    is_ip(kind, inside).then_some((Inner::Ip, 0)).ok_or(Unread::Payload)
}

/// The stations of a frame with IP in it, and the length of its header.
pub(crate) fn of_frame(frame: &[u8]) -> Result<(Inner, usize), Unread> {
    let (header, inside) = frame.split_first_chunk::<ETHERNET_LEN>().ok_or(Unread::Payload)?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, kind_hi, kind_lo] = *header;
    let kind = EtherType(u16::from_be_bytes([kind_hi, kind_lo]));
    if !is_ip(kind, inside) {
        return Err(Unread::Payload);
    }
    let dst = MacAddr([d0, d1, d2, d3, d4, d5]);
    let src = MacAddr([s0, s1, s2, s3, s4, s5]);
    Ok((Inner::Frame { dst, src }, ETHERNET_LEN))
}

/// True if an IP packet of the EtherType's version begins here.
fn is_ip(kind: EtherType, inside: &[u8]) -> bool {
    let version = inside.first().map(|first| first >> 4);
    match kind {
        EtherType::IPV4 => version == Some(4) && inside.len() >= ipv4::MIN_HEADER_LEN,
        EtherType::IPV6 => version == Some(6) && inside.len() >= ipv6::HEADER_LEN,
        _ => false,
    }
}

impl Arrived {
    /// Of an L2TPv3 message: the same with what stands behind the session's cookie.
    ///
    /// # Errors
    /// The cookie is another one's, or the frame has something else than IP.
    pub fn of_session(self, packet: &[u8], session: &l2tp::Session) -> Result<Arrived, Unread> {
        let behind = packet.get(self.cut..).ok_or(Unread::Header)?;
        let rest = session.rest_len(behind).ok_or(Unread::Header)?;
        let (inner, len) = of_frame(behind.get(rest..).ok_or(Unread::Header)?)?;
        Ok(Arrived { cut: self.cut + rest + len, inner: Some(inner), ..self })
    }
}
