//! ICMP errors that say that this host's own ESP was too big (RFC 4301 §8.2.1).
//!
//! Anybody can send one. It is believed if it quotes a packet that was really sent: the addresses, the SPI
//! and, for ESP in UDP, the ports of a live SA, and a sequence number that the SA has given out lately. Only
//! who sees the path's packets can say all of that, and who does not has to guess 32 bits; how often that may go
//! wrong is limited ([`crate::host_limits::guesses`]). What it says must make sense too: the packet was longer
//! than what would have fitted. All else is left to Linux as it is.

use core::net::IpAddr;
use core::sync::atomic::Ordering::Relaxed;
use dispatch::Home;
use forward::path_mtu::plateau_below;
use policy::SaHandle;
use wire::ipv4::Ipv4Header;
use wire::ipv6::{self, Ipv6Header};
use wire::{Fragment, Headers, L4Checksum, icmpv4, icmpv6, protocol};

use super::decision::{Quote, TooBig};
use super::question::Context;

/// True if a packet is an error that reports another one as too big.
pub(super) fn says_too_big(h: &Headers) -> bool {
    // Ports of ICMP are its type and code.
    match h.protocol {
        protocol::ICMP => {
            h.src_port == icmpv4::kind::DESTINATION_UNREACHABLE.into()
                && h.dst_port == icmpv4::unreachable::FRAGMENTATION_NEEDED.into()
        }
        protocol::ICMPV6 => h.src_port == icmpv6::kind::PACKET_TOO_BIG.into(),
        _ => false,
    }
}

/// Quotation of a packet in an error.
struct Quoted<'p> {
    src: IpAddr,
    dst: IpAddr,
    /// By its own header, in bytes.
    total_len: u32,
    protocol: u8,
    /// Bytes behind its IP header, as far as it is quoted.
    upper: &'p [u8],
}

/// Source and destination port of ESP in UDP.
type UdpPorts = (u16, u16);

impl<'p> Quoted<'p> {
    /// The ports and what follows them, if it may be ESP. UDP of other ports counts too: an SA may have any.
    fn esp(&self) -> Option<(Option<UdpPorts>, &'p [u8])> {
        match self.protocol {
            protocol::ESP => Some((None, self.upper)),
            protocol::UDP => {
                let (udp, esp) = self.upper.split_first_chunk::<{ wire::udp::HEADER_LEN }>()?;
                let ports =
                    (u16::from_be_bytes([udp[0], udp[1]]), u16::from_be_bytes([udp[2], udp[3]]));
                Some((Some(ports), esp))
            }
            _ => None,
        }
    }
}

/// Quotation in a packet to this host, if it is an error about ESP that was too big.
pub(super) fn quoted_too_big(context: &Context<'_>) -> Option<Quote> {
    let h = context.h;
    if !says_too_big(h) || h.fragment != Fragment::Whole {
        return None;
    }
    let message = context.packet.get(h.header_len.into()..h.total_len.into())?;
    let (told, quoted) = match h.dst {
        IpAddr::V4(_) => read_v4(message)?,
        IpAddr::V6(_) => read_v6(message)?,
    };
    // The packet was this host's: the error comes to where it came from.
    if quoted.src != h.dst || wire::verify_l4_checksum(context.packet, h) != L4Checksum::Valid {
        return None;
    }
    let (ports, esp) = quoted.esp()?;
    let Some(sa) = quoted_sa(context, &quoted, ports, esp) else {
        return Some(Quote::Guess { dst: quoted.dst });
    };
    let mtu = if told == 0 { plateau_below(quoted.total_len) } else { told };
    let too_big = TooBig { sa, dst: quoted.dst, mtu };
    (mtu < quoted.total_len).then_some(Quote::Sent(too_big))
}

/// The live SA that a quoted packet was really sent by.
fn quoted_sa(
    context: &Context<'_>,
    quoted: &Quoted<'_>,
    ports: Option<UdpPorts>,
    esp: &[u8],
) -> Option<SaHandle> {
    let reader = &context.view.reader;
    let [s0, s1, s2, s3, n0, n1, n2, n3] = *esp.first_chunk::<8>()?;
    let (spi, number) =
        (u32::from_be_bytes([s0, s1, s2, s3]), u32::from_be_bytes([n0, n1, n2, n3]));
    let handle = reader.inbound_sa(quoted.dst, spi, protocol::ESP, 0)?;
    let sa = reader.sa(handle)?;
    let params = &sa.config.params;
    let is_same_encap = ports == params.encap.map(|encap| (encap.src_port, encap.dst_port));
    let sent = sa.esp.live().sent().load(Relaxed);
    // The low half of a number is what is on the wire.
    let age = (sent as u32).wrapping_sub(number);
    let was_sent = number != 0 && u64::from(age) < sent.min(LATELY);
    // The numbers of an SA in a device only the device knows.
    let was_sent = was_sent || sa.home().at() == Home::DEVICE;
    (sa.state().is_usable() && params.src == quoted.src && is_same_encap && was_sent)
        .then_some(handle)
}

/// Packets of an SA that an error may be about: some time at any rate.
const LATELY: u64 = 1 << 22;

/// MTU and quotation of a "fragmentation needed" (RFC 1191 §4).
fn read_v4(message: &[u8]) -> Option<(u32, Quoted<'_>)> {
    let icmp = icmpv4::Icmpv4Header::parse(message).ok()?;
    let quoted = Ipv4Header::parse_quoted(icmp.body()).ok()?;
    // A first fragment says what it quotes, too; a later one does not.
    if quoted.fragment_offset() > 0 {
        return None;
    }
    let (src, dst) = (quoted.src().into(), quoted.dst().into());
    let (total_len, protocol) = (quoted.total_len().into(), quoted.protocol());
    let upper = quoted.payload();
    Some((icmp.mtu().into(), Quoted { src, dst, total_len, protocol, upper }))
}

/// MTU and quotation of a "packet too big" (RFC 8201 §4).
fn read_v6(message: &[u8]) -> Option<(u32, Quoted<'_>)> {
    let icmp = icmpv6::Icmpv6Header::parse(message).ok()?;
    let quoted = Ipv6Header::parse_quoted(icmp.body()).ok()?;
    let (src, dst) = (quoted.src().into(), quoted.dst().into());
    let total_len = u32::from(quoted.payload_len()) + ipv6::HEADER_LEN as u32;
    // The RFC has the MTU of a link, which is never 0.
    let told = icmp.mtu().max(1);
    Some((
        told,
        Quoted { src, dst, total_len, protocol: quoted.next_header(), upper: quoted.payload() },
    ))
}
