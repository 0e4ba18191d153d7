//! The header that a TUN with `IFF_VNET_HDR` puts in front of each packet: virtio-net's
//! (virtio 1.2, §5.1.6), in the host's byte order, 10 bytes.
//!
//! ```text
//! flags:1  gso_type:1  hdr_len:2  gso_size:2  csum_start:2  csum_offset:2
//! ```

/// The header's length in bytes.
pub const VNET_HEADER_LEN: usize = 10;

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
        }
    }

    /// Writes the header.
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
            };
            assert_eq!(VnetHeader::parse(&header.emit()), header);
        }
        assert_eq!(VnetHeader::PLAIN.emit(), [0; VNET_HEADER_LEN]);
    }

    #[test]
    fn the_ecn_bit_does_not_hide_the_kind() {
        let mut bytes = [0; VNET_HEADER_LEN];
        bytes[1] = 0x81;
        assert_eq!(VnetHeader::parse(&bytes).gso, Gso::TcpV4);
    }
}
