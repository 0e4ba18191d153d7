//! Headers of one tunnel to one far end, and how they come in front of packets.

use core::net::IpAddr;

use wire::{EtherType, Family, Fields, MacAddr, checksum, ipv4, ipv6, protocol, udp};

use crate::l2tp::{self, Session};
use crate::outer::Outer;
use crate::{GRE_PROTOCOL, geneve, gre, vxlan};

/// Source ports, of which a flow has one: the first, and the first that is not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ports {
    /// The first one.
    pub from: u16,
    /// The one behind the last; the first again if there is one alone.
    pub below: u16,
}

impl Ports {
    /// The port of a flow (RFC 7348 §5, RFC 8926 §3.3), as Linux spreads them.
    pub const fn of(self, entropy: u32) -> u16 {
        let count = self.below.saturating_sub(self.from) as u64;
        // The high half of a product: each port as often as the next.
        self.from + ((entropy as u64 * count) >> 32) as u16
    }
}

/// The UDP header of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Udp {
    /// Source ports, spread by the flow inside.
    pub src: Ports,
    /// Port of the far end.
    pub dst: u16,
    /// True if it has a checksum. Without, it is zero (RFC 6935).
    pub has_checksum: bool,
}

/// Stations of an inner Ethernet frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Macs {
    /// Station of the receiver.
    pub dst: MacAddr,
    /// The tunnel's interface.
    pub src: MacAddr,
}

/// Headers between the outer IP header and the packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// GRE; with stations, around Ethernet frames (`gretap`).
    Gre {
        /// The key that packets have, if they have one.
        key: Option<u32>,
        /// True if there is a checksum over header and packet.
        has_checksum: bool,
        /// Stations of the inner frame; none around IP.
        frame: Option<Macs>,
    },
    /// VXLAN, always around Ethernet frames.
    Vxlan {
        /// VXLAN network identifier, of 24 bits.
        vni: u32,
        /// Its UDP header.
        udp: Udp,
        /// Stations of the inner frame.
        frame: Macs,
    },
    /// GENEVE without options; with stations, around Ethernet frames.
    Geneve {
        /// Virtual network identifier, of 24 bits.
        vni: u32,
        /// Its UDP header.
        udp: Udp,
        /// Stations of the inner frame; none around IP.
        frame: Option<Macs>,
    },
    /// L2TPv3 around Ethernet frames.
    L2tp {
        /// The session at its receiver.
        session: Session,
        /// Its UDP header; none over IP.
        udp: Option<Udp>,
        /// Stations of the inner frame.
        frame: Macs,
    },
}

/// Why there are no such headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncapError {
    /// The outer addresses are of two families.
    Families,
    /// A network identifier has more than 24 bits.
    Vni,
    /// The headers would be longer than there is room in front of packets.
    TooLong,
}

/// The most bytes that are put in front of a packet: what there is room for in any buffer beside ESP's own.
const MAX_LEN: usize = 128;

/// Headers of one tunnel to one far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encap {
    outer: Outer,
    protocol: u8,
    /// All of it, with zeros where it hangs on the packet.
    front: Box<[u8]>,
    /// Where the upper layer begins.
    upper_at: usize,
    udp: Option<Udp>,
    has_gre_checksum: bool,
    /// Where the EtherType of the packet stands; none where no header has it.
    kind_at: Option<usize>,
    is_frame: bool,
}

impl Encap {
    /// Headers with these settings.
    ///
    /// # Errors
    /// They contradict themselves.
    pub fn new(outer: Outer, shape: &Shape) -> Result<Encap, EncapError> {
        let (protocol, udp) = match shape {
            Shape::Gre { .. } => (GRE_PROTOCOL, None),
            Shape::Vxlan { udp, .. } | Shape::Geneve { udp, .. } => (protocol::UDP, Some(*udp)),
            Shape::L2tp { udp: Some(udp), .. } => (protocol::UDP, Some(*udp)),
            Shape::L2tp { udp: None, .. } => (l2tp::PROTOCOL, None),
        };
        let mut front = outer.template(protocol).ok_or(EncapError::Families)?;
        let upper_at = front.len();
        if udp.is_some() {
            front.extend([0; udp::HEADER_LEN]);
        }
        let (mut kind_at, frame) = (None, shape.frame());
        match shape {
            Shape::Gre { key, has_checksum, .. } => {
                let kind = if frame.is_some() { gre::ETHERNET } else { EtherType(0) };
                kind_at = Some(upper_at + 2);
                gre::Gre { kind, key: *key, has_checksum: *has_checksum }.append(&mut front);
            }
            Shape::Vxlan { vni, .. } | Shape::Geneve { vni, .. } if vni >> 24 != 0 => {
                return Err(EncapError::Vni);
            }
            Shape::Vxlan { vni, .. } => front.extend(vxlan::header(*vni)),
            Shape::Geneve { vni, .. } => {
                let kind = if frame.is_some() { gre::ETHERNET } else { EtherType(0) };
                kind_at = Some(front.len() + 2);
                front.extend(geneve::header(*vni, kind));
            }
            Shape::L2tp { session, udp, .. } => session.append(udp.is_some(), &mut front),
        }
        if let Some(Macs { dst, src }) = frame {
            front.extend(dst.0);
            front.extend(src.0);
            kind_at = Some(front.len());
            front.extend([0; 2]);
        }
        if front.len() > MAX_LEN {
            return Err(EncapError::TooLong);
        }
        let has_gre_checksum = matches!(shape, Shape::Gre { has_checksum: true, .. });
        let (front, is_frame) = (front.into(), frame.is_some());
        Ok(Encap { outer, protocol, front, upper_at, udp, has_gre_checksum, kind_at, is_frame })
    }

    /// Settings of the outer IP header.
    pub const fn outer(&self) -> &Outer {
        &self.outer
    }

    /// Protocol of the outer packet's upper layer.
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Its UDP header, if it has one.
    pub const fn udp(&self) -> Option<Udp> {
        self.udp
    }

    /// Length of the outer IP header with its extensions, in bytes.
    #[inline]
    pub const fn outer_len(&self) -> usize {
        self.upper_at
    }

    /// Bytes that packets become longer by.
    #[inline]
    pub const fn overhead(&self) -> usize {
        self.front.len()
    }

    /// True if there is an Ethernet header around the packet.
    pub const fn is_frame(&self) -> bool {
        self.is_frame
    }

    /// Puts the headers in front of the IP packet that begins [`Encap::overhead`] bytes further on, whose headers say
    /// `inner`. The result begins with the first byte.
    ///
    /// The packet's TTL or hop limit is not decremented here. `entropy` is the same for all packets of the flow
    /// inside, and becomes the source port or the flow label; `ident` is for IPv4 that may be fragmented.
    ///
    /// Returns `false`, with the bytes as before, where the result would be longer than any packet, or there are fewer
    /// bytes than the headers have.
    #[must_use]
    pub fn apply(&self, bytes: &mut [u8], inner: Fields, entropy: u32, ident: u16) -> bool {
        let len = bytes.len();
        if len > usize::from(u16::MAX) {
            return false;
        }
        let Some(front) = bytes.get_mut(..self.front.len()) else { return false };
        front.copy_from_slice(&self.front);
        if let Some(kind_at) = self.kind_at {
            let kind = match inner.family() {
                Family::V4 => EtherType::IPV4,
                Family::V6 => EtherType::IPV6,
            };
            if let Some(place) = front.get_mut(kind_at..).and_then(<[u8]>::first_chunk_mut) {
                *place = kind.0.to_be_bytes();
            }
        }
        self.outer.complete(bytes, inner, entropy, ident);
        if let Some(udp) = self.udp {
            self.complete_udp(udp, bytes, entropy);
        }
        if self.has_gre_checksum {
            gre::fill_checksum(bytes.get_mut(self.upper_at..).unwrap_or_default());
        }
        true
    }

    fn complete_udp(&self, udp: Udp, bytes: &mut [u8], entropy: u32) {
        let Some(datagram) = bytes.get_mut(self.upper_at..) else { return };
        // The whole is no longer than that.
        let len = datagram.len() as u16;
        let mut fields =
            udp::UdpFields { src_port: udp.src.of(entropy), dst_port: udp.dst, len, checksum: 0 };
        if fields.emit(datagram).is_err() || !udp.has_checksum {
            return;
        }
        let pseudo = match (self.outer.src, self.outer.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                checksum::pseudo_header_v4(src, dst, protocol::UDP, len)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                checksum::pseudo_header_v6(src, dst, protocol::UDP, len.into())
            }
            _ => return,
        };
        fields.checksum = match !checksum::add(pseudo, checksum::sum(datagram)) {
            // Zero would say that there is none (RFC 768).
            0 => u16::MAX,
            sum => sum,
        };
        let _ = fields.emit(datagram);
    }

    /// Ports of the outer packets, as policies ask for them: source port, destination port, header
    /// length. The source port is that of a flow with this entropy.
    pub const fn ports(&self, entropy: u32) -> (u16, u16) {
        match self.udp {
            Some(udp) => (udp.src.of(entropy), udp.dst),
            None => (0, 0),
        }
    }
}

impl Shape {
    const fn frame(&self) -> Option<Macs> {
        match self {
            Shape::Gre { frame, .. } | Shape::Geneve { frame, .. } => *frame,
            Shape::Vxlan { frame, .. } | Shape::L2tp { frame, .. } => Some(*frame),
        }
    }
}

const _: () = assert!(ipv4::MIN_HEADER_LEN < ipv6::HEADER_LEN && ipv6::HEADER_LEN + 8 < MAX_LEN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_spread_over_the_range() {
        let ports = Ports { from: 32768, below: 60999 };
        assert_eq!((ports.of(0), ports.of(u32::MAX)), (32768, 60998));
        assert_eq!(ports.of(1 << 31), 32768 + (60999 - 32768) / 2);
        let one = Ports { from: 4789, below: 4789 };
        assert_eq!((one.of(0), one.of(u32::MAX)), (4789, 4789));
    }
}
