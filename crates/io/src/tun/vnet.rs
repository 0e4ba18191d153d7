//! The header in front of each packet of a packet socket or a TUN with `IFF_VNET_HDR`: virtio-net's
//! (virtio 1.2, §5.1.6), in the host's byte order, 10 bytes.
//!
//! ```text
//! flags:1  gso_type:1  hdr_len:2  gso_size:2  csum_start:2  csum_offset:2
//! ```
//!
//! The long form of a TUN names a tunnel in UDP too (`struct virtio_net_hdr_v1_hash_tunnel`, Linux 6.17), 24 bytes.
//! The offsets of the tunnel are little-endian on every host:
//!
//! ```text
//! the header above:10  num_buffers:2  hash:8  outer_th_offset:2  inner_nh_offset:2
//! ```

/// The header's length in bytes.
pub const VNET_HEADER_LEN: usize = 10;

/// Length of the long form in bytes.
pub const VNET_LONG_HEADER_LEN: usize = 24;

/// How a packet that is longer than the MTU is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gso {
    /// Not at all.
    None,
    /// Into TCP segments over IPv4.
    TcpV4,
    /// Into TCP segments over IPv6.
    TcpV6,
    /// Into UDP datagrams of either family (`VIRTIO_NET_HDR_GSO_UDP_L4`).
    Udp,
    /// A kind that this side did not offer to take.
    Unknown(u8),
}

/// A tunnel in UDP around a super-packet, by which each segment gets the headers outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpTunnel {
    /// The outer packet is IPv4; else IPv6.
    pub is_v4: bool,
    /// The outer UDP header has a checksum, which is the pseudo header's sum as far as it is computed.
    pub has_checksum: bool,
    /// Where the outer UDP header begins, in bytes from the outer IP header.
    pub udp_at: u16,
    /// Where the inner IP header begins, in bytes from the outer one.
    pub inside_at: u16,
}

/// The header's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VnetHeader {
    /// The checksum is partial: it holds the pseudo header's sum, and the rest is to be added.
    pub needs_csum: bool,
    /// Segmentation: the kind of super-packet.
    pub gso: Gso,
    /// Length of the headers in front of the payload, in bytes; a hint on packets from the kernel.
    pub hdr_len: u16,
    /// Payload bytes per segment.
    pub gso_size: u16,
    /// Where checksumming begins, in bytes from the IP header.
    pub csum_start: u16,
    /// Where the checksum lies, from `csum_start`.
    pub csum_offset: u16,
    /// The tunnel around the super-packet. Only the long form names one.
    pub tunnel: Option<UdpTunnel>,
}

impl VnetHeader {
    /// A complete packet: nothing left to do.
    pub const PLAIN: Self = Self {
        needs_csum: false,
        gso: Gso::None,
        hdr_len: 0,
        gso_size: 0,
        csum_start: 0,
        csum_offset: 0,
        tunnel: None,
    };

    /// Reads the header.
    pub const fn parse(bytes: &[u8; VNET_HEADER_LEN]) -> Self {
        let &[flags, gso, h0, h1, g0, g1, s0, s1, o0, o1] = bytes;
        Self {
            needs_csum: flags & NEEDS_CSUM != 0,
            // ECN only says that CWR is set, which the TCP header says too.
            gso: match gso & !GSO_ECN {
                GSO_NONE => Gso::None,
                GSO_TCPV4 => Gso::TcpV4,
                GSO_TCPV6 => Gso::TcpV6,
                GSO_UDP_L4 => Gso::Udp,
                other => Gso::Unknown(other),
            },
            hdr_len: u16::from_ne_bytes([h0, h1]),
            gso_size: u16::from_ne_bytes([g0, g1]),
            csum_start: u16::from_ne_bytes([s0, s1]),
            csum_offset: u16::from_ne_bytes([o0, o1]),
            tunnel: None,
        }
    }

    /// Reads the long form. A tunnel over both families at once is a kind that is not known.
    pub fn parse_long(bytes: &[u8; VNET_LONG_HEADER_LEN]) -> Self {
        let [flags, gso, rest @ ..] = *bytes;
        let [h0, h1, g0, g1, s0, s1, o0, o1, .., u0, u1, i0, i1] = rest;
        let short = |gso| Self::parse(&[flags, gso, h0, h1, g0, g1, s0, s1, o0, o1]);
        let is_v4 = match gso & GSO_UDP_TUNNEL {
            GSO_UDP_TUNNEL_IPV4 => true,
            GSO_UDP_TUNNEL_IPV6 => false,
            _ => return short(gso),
        };
        let tunnel = UdpTunnel {
            is_v4,
            has_checksum: flags & UDP_TUNNEL_CSUM != 0,
            udp_at: u16::from_le_bytes([u0, u1]),
            inside_at: u16::from_le_bytes([i0, i1]),
        };
        Self { tunnel: Some(tunnel), ..short(gso & !GSO_UDP_TUNNEL) }
    }

    /// This header of a packet that lies `prefix` bytes behind the place that the kernel counts from.
    pub fn without_prefix(self, prefix: u16) -> Self {
        let tunnel = self.tunnel.map(|tunnel| UdpTunnel {
            udp_at: tunnel.udp_at.saturating_sub(prefix),
            inside_at: tunnel.inside_at.saturating_sub(prefix),
            ..tunnel
        });
        Self {
            hdr_len: self.hdr_len.saturating_sub(prefix),
            csum_start: self.csum_start.saturating_sub(prefix),
            tunnel,
            ..self
        }
    }

    /// This header of a packet with `prefix` bytes in front, from which the kernel counts.
    pub fn with_prefix(self, prefix: u16) -> Self {
        let tunnel = self.tunnel.map(|tunnel| UdpTunnel {
            udp_at: tunnel.udp_at + prefix,
            inside_at: tunnel.inside_at + prefix,
            ..tunnel
        });
        Self {
            hdr_len: self.hdr_len + prefix,
            csum_start: self.csum_start + prefix,
            tunnel,
            ..self
        }
    }

    /// Writes the long form.
    pub fn emit_long(&self) -> [u8; VNET_LONG_HEADER_LEN] {
        let mut bytes = [0; VNET_LONG_HEADER_LEN];
        let (short, long) = bytes.split_at_mut(VNET_HEADER_LEN);
        short.copy_from_slice(&self.emit());
        if let (Some(tunnel), [flags, gso, ..], [.., u0, u1, i0, i1]) = (self.tunnel, short, long) {
            *gso |= if tunnel.is_v4 { GSO_UDP_TUNNEL_IPV4 } else { GSO_UDP_TUNNEL_IPV6 };
            *flags |= if tunnel.has_checksum { UDP_TUNNEL_CSUM } else { 0 };
            [*u0, *u1] = tunnel.udp_at.to_le_bytes();
            [*i0, *i1] = tunnel.inside_at.to_le_bytes();
        }
        bytes
    }

    /// Writes the header, without a tunnel.
    pub const fn emit(&self) -> [u8; VNET_HEADER_LEN] {
        let flags = if self.needs_csum { NEEDS_CSUM } else { 0 };
        let gso = match self.gso {
            Gso::None => GSO_NONE,
            Gso::TcpV4 => GSO_TCPV4,
            Gso::TcpV6 => GSO_TCPV6,
            Gso::Udp => GSO_UDP_L4,
            Gso::Unknown(other) => other,
        };
        let [h0, h1] = self.hdr_len.to_ne_bytes();
        let [g0, g1] = self.gso_size.to_ne_bytes();
        let [s0, s1] = self.csum_start.to_ne_bytes();
        let [o0, o1] = self.csum_offset.to_ne_bytes();
        [flags, gso, h0, h1, g0, g1, s0, s1, o0, o1]
    }
}

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;
const UDP_TUNNEL_CSUM: u8 = 8;
const GSO_UDP_TUNNEL_IPV4: u8 = 0x20;
const GSO_UDP_TUNNEL_IPV6: u8 = 0x40;
const GSO_UDP_TUNNEL: u8 = GSO_UDP_TUNNEL_IPV4 | GSO_UDP_TUNNEL_IPV6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive() {
        for gso in [Gso::None, Gso::TcpV4, Gso::TcpV6, Gso::Udp, Gso::Unknown(3)] {
            let header = VnetHeader {
                needs_csum: true,
                gso,
                hdr_len: 0x1234,
                gso_size: 1448,
                csum_start: 20,
                csum_offset: 16,
                tunnel: None,
            };
            assert_eq!(VnetHeader::parse(&header.emit()), header);
            assert_eq!(VnetHeader::parse_long(&header.emit_long()), header);
            for (is_v4, has_checksum) in [(true, false), (false, true)] {
                let tunnel = UdpTunnel { is_v4, has_checksum, udp_at: 20, inside_at: 0x1234 };
                let header = VnetHeader { tunnel: Some(tunnel), ..header };
                assert_eq!(VnetHeader::parse_long(&header.emit_long()), header);
            }
        }
        assert_eq!(VnetHeader::PLAIN.emit(), [0; VNET_HEADER_LEN]);
    }

    #[test]
    fn the_ecn_bit_does_not_hide_the_kind() {
        let mut bytes = [0; VNET_HEADER_LEN];
        bytes[1] = 0x81;
        assert_eq!(VnetHeader::parse(&bytes).gso, Gso::TcpV4);
    }

    /// As Linux 6.18 wrote it of a datagram in VXLAN, from the type on; `num_buffers` and the hash are zero.
    #[test]
    fn a_tunnel_has_these_bytes() {
        let tunnel = UdpTunnel { is_v4: true, has_checksum: true, udp_at: 20, inside_at: 50 };
        let header = VnetHeader {
            needs_csum: true,
            gso: Gso::Udp,
            hdr_len: 78,
            gso_size: 1000,
            csum_start: 70,
            csum_offset: 6,
            tunnel: Some(tunnel),
        };
        let mut bytes = [0; VNET_LONG_HEADER_LEN];
        (bytes[0], bytes[1], bytes[20], bytes[22]) = (0x09, 0x25, 20, 50);
        bytes[2..4].copy_from_slice(&78_u16.to_ne_bytes());
        bytes[4..6].copy_from_slice(&1000_u16.to_ne_bytes());
        bytes[6..8].copy_from_slice(&70_u16.to_ne_bytes());
        bytes[8..10].copy_from_slice(&6_u16.to_ne_bytes());
        assert_eq!(header.emit_long(), bytes);
        assert_eq!(VnetHeader::parse_long(&bytes), header);
        // Over IPv6, in TCP segments of IPv4 with ECN, without a checksum.
        (bytes[0], bytes[1]) = (0x01, 0xc1);
        let tunnel = Some(UdpTunnel { is_v4: false, has_checksum: false, ..tunnel });
        assert_eq!(
            VnetHeader::parse_long(&bytes),
            VnetHeader { gso: Gso::TcpV4, tunnel, ..header }
        );
        bytes[1] = 0x65;
        assert_eq!(VnetHeader::parse_long(&bytes).gso, Gso::Unknown(0x65), "both families");
    }

    #[test]
    fn offsets_count_from_the_packet() {
        let tunnel = UdpTunnel { is_v4: true, has_checksum: false, udp_at: 36, inside_at: 15 };
        let header =
            VnetHeader { hdr_len: 90, csum_start: 86, tunnel: Some(tunnel), ..VnetHeader::PLAIN };
        let behind = header.without_prefix(16);
        assert_eq!((behind.hdr_len, behind.csum_start), (74, 70));
        assert_eq!(header.without_prefix(14).with_prefix(14), header);
        assert_eq!(behind.tunnel, Some(UdpTunnel { udp_at: 20, inside_at: 0, ..tunnel }));
    }
}
