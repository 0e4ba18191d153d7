//! The outer headers of a tunnel, computed once and completed for each packet.
//!
//! ```text
//!   IPv4 (20) or IPv6 (40) | UDP (8), with RFC 3948 encapsulation | ESP, AH ...
//! ```
//!
//! Fields that differ between packets: traffic class, length and, for IPv4, identification, DF and the
//! checksum; for UDP its length. All else is in the template.
//!
//! The IPv6 flow label is zero. A hash of the inner flow would tell observers which packets
//! belong together, and would let routers spread one SA over several paths, out of order by more
//! than a replay window allows. (Linux copies the label of an inner IPv6 header.)

use core::net::IpAddr;

use wire::{Fields, checksum, ipv4, ipv6, protocol};

use crate::ecn;
use crate::params::{Mode, Protocol, SaFlags, SaParams, UdpEncap};
use crate::size::{ESP_HEADER_LEN, Geometry, UDP_HEADER_LEN};
use crate::tunnel_headers::{OuterDf, OuterDscp, TunnelHeaders};

/// The outer TTL or hop limit: what Linux's routes give unless told otherwise (RFC 1700's default).
const HOP_LIMIT: u8 = 64;

/// The fields of a tunnel's outer headers that differ from packet to packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerPacket {
    /// The outer DS field and ECN byte.
    pub traffic_class: u8,
    /// IPv4's DF; without meaning for IPv6.
    pub dont_fragment: bool,
    /// The whole sequence number, whose low-order bits make the identification too.
    pub number: u64,
    /// The whole outer packet, from its IP header to the ICV.
    pub total_len: u16,
}

/// How a packet is sealed: tunnels by their outer headers and their cipher, and all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A tunnel over IPv4 with a counter mode.
    V4Counter,
    /// A tunnel over IPv4 with UDP encapsulation and a counter mode.
    V4UdpCounter,
    /// A tunnel over IPv6 with a counter mode.
    V6Counter,
    /// A tunnel over IPv6 with UDP encapsulation and a counter mode.
    V6UdpCounter,
    /// A tunnel over IPv4 with CBC.
    V4Cbc,
    /// A tunnel over IPv4 with UDP encapsulation and CBC.
    V4UdpCbc,
    /// A tunnel over IPv6 with CBC.
    V6Cbc,
    /// A tunnel over IPv6 with UDP encapsulation and CBC.
    V6UdpCbc,
    /// Transport mode, TFC padding, no encryption, DES's blocks, AH.
    Other,
}

impl Form {
    fn of(params: &SaParams, geometry: &Geometry) -> Form {
        let is_esp = params.protocol == Protocol::Esp;
        if !is_esp || params.mode != Mode::Tunnel || params.tfc_pad_len != 0 {
            return Form::Other;
        }
        let is_random = params.suite.needs_random_iv();
        let iv_len = params.suite.iv_len_bytes();
        let is_cbc = match (iv_len, geometry.align, is_random) {
            (8, 4, false) => false,
            (16, 16, true) => true,
            _ => return Form::Other,
        };
        match (params.dst, params.encap.is_some(), is_cbc) {
            (IpAddr::V4(_), false, false) => Form::V4Counter,
            (IpAddr::V4(_), true, false) => Form::V4UdpCounter,
            (IpAddr::V6(_), false, false) => Form::V6Counter,
            (IpAddr::V6(_), true, false) => Form::V6UdpCounter,
            (IpAddr::V4(_), false, true) => Form::V4Cbc,
            (IpAddr::V4(_), true, true) => Form::V4UdpCbc,
            (IpAddr::V6(_), false, true) => Form::V6Cbc,
            (IpAddr::V6(_), true, true) => Form::V6UdpCbc,
        }
    }
}

/// The outer headers of one SA, and all else that sealing a packet reads of it but the live numbers: one
/// cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct OuterTemplate {
    /// The IP header from byte [`FIRST`] on, then the UDP header.
    bytes: [u8; MAX_LEN],
    /// Salt of a counter mode's IVs: each IV is the sequence number combined with it.
    pub iv_salt: u64,
    /// IPv4: the sum over the header's constant words. IPv6: next header and hop limit.
    net_word: u16,
    /// Added to the sequence number to make the identification, so that several SAs between two
    /// hosts do not walk through the same identifications side by side.
    ident_base: u16,
    spi: u32,
    /// Bytes in front of the payload, as [`Geometry::headroom`] has them, and the ICV.
    pub around: u8,
    /// The bits of the outer traffic class that are copied from the inner one (RFC 4301 §5.1.2:
    /// DSCP; RFC 6040 §4.1, normal mode: ECN).
    class_mask: u8,
    /// The bits of the outer traffic class that are the same in every packet. Disjoint from the
    /// mask.
    class_set: u8,
    pub form: Form,
    /// True if the inner DF is copied to the outer header.
    copy_df: bool,
    /// True if DF is set in every packet.
    set_df: bool,
    pub esn: bool,
    /// True if outbound numbers have a ceiling: an owner that may go on with the SA holds them
    /// back.
    pub has_ceiling: bool,
}

/// The first bytes of an IP header differ between packets, and are written as one word.
const FIRST: usize = 8;
const MAX_LEN: usize = ipv6::HEADER_LEN - FIRST + UDP_HEADER_LEN;

const _: () = assert!(size_of::<OuterTemplate>() == mem::LINE_LEN, "one cache line");

impl OuterTemplate {
    pub fn new(params: &SaParams, iv_salt: u64) -> OuterTemplate {
        let protocol = match params.encap {
            Some(_) => protocol::UDP,
            None => params.protocol.number(),
        };
        let mut bytes = [0; FIRST + MAX_LEN];
        let ip_len = match (params.src, params.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                bytes[0] = 0x45;
                bytes[ipv4::field::TTL] = HOP_LIMIT;
                bytes[ipv4::field::PROTOCOL] = protocol;
                bytes[ipv4::field::SRC..][..4].copy_from_slice(&src.octets());
                bytes[ipv4::field::DST..][..4].copy_from_slice(&dst.octets());
                ipv4::MIN_HEADER_LEN
            }
            (src, dst) => {
                bytes[ipv6::field::SRC..][..16].copy_from_slice(&v6_octets(src));
                bytes[ipv6::field::DST..][..16].copy_from_slice(&v6_octets(dst));
                ipv6::HEADER_LEN
            }
        };
        if let Some(encap) = params.encap {
            bytes[ip_len..][..UDP_HEADER_LEN].copy_from_slice(&udp_header(encap, 0));
        }
        let geometry = Geometry::new(params);
        let dscp_mask = if params.flags.dont_encap_dscp { 0 } else { !ecn::MASK };
        let ecn_mask = if params.flags.no_ecn { 0 } else { ecn::MASK };
        let net_word = match params.dst {
            IpAddr::V4(_) => checksum::sum(&bytes[..ip_len]),
            IpAddr::V6(_) => u16::from_be_bytes([protocol, HOP_LIMIT]),
        };
        OuterTemplate {
            bytes: core::array::from_fn(|at| bytes[FIRST + at]),
            iv_salt,
            net_word,
            ident_base: (params.spi ^ params.spi >> 16) as u16,
            spi: params.spi,
            // At most 72 and 32; of AH 112.
            around: geometry.headroom() as u8 + geometry.behind_len,
            class_mask: dscp_mask | ecn_mask,
            class_set: 0,
            form: Form::of(params, &geometry),
            copy_df: !params.flags.no_pmtu_disc,
            set_df: false,
            esn: params.esn,
            has_ceiling: false,
        }
    }

    /// Follows `headers` where the SA's own flags leave it open.
    pub fn set_headers(&mut self, flags: SaFlags, headers: TunnelHeaders) {
        if !flags.no_pmtu_disc {
            (self.copy_df, self.set_df) = match headers.df {
                OuterDf::Copy => (true, false),
                OuterDf::Set => (false, true),
                OuterDf::Clear => (false, false),
            };
        }
        if !flags.dont_encap_dscp {
            let ecn_mask = self.class_mask & ecn::MASK;
            (self.class_mask, self.class_set) = match headers.dscp {
                OuterDscp::Copy => (ecn_mask | !ecn::MASK, 0),
                OuterDscp::Value(dscp) => (ecn_mask, dscp << ecn::MASK.count_ones()),
            };
        }
    }

    /// The outer traffic class of a packet.
    #[inline(always)]
    pub fn traffic_class(&self, h: Fields) -> u8 {
        h.traffic_class() & self.class_mask | self.class_set
    }

    /// The outer DF of a packet.
    #[inline(always)]
    pub fn dont_fragment(&self, h: Fields) -> bool {
        self.copy_df & h.dont_fragment() | self.set_df
    }

    /// Writes IPv4's header, to the beginning of `out`; returns what follows.
    ///
    /// DF set: identification zero, as nobody may fragment (RFC 6864 §4.1). DF clear: the
    /// identification follows the sequence number, so that it repeats only after 65536 packets.
    ///
    /// Returns `None`, as the other writers do, with nothing written, if `out` is too short.
    #[inline(always)]
    pub fn write_v4<'a>(&self, out: &'a mut [u8], packet: PerPacket) -> Option<&'a mut [u8]> {
        let (ip, rest) = out.split_first_chunk_mut::<{ ipv4::MIN_HEADER_LEN }>()?;
        let df = u16::from(packet.dont_fragment);
        let fragment = df << ipv4::DONT_FRAGMENT.trailing_zeros();
        // All ones without DF, all zeros with it.
        let ident = (packet.number as u16).wrapping_add(self.ident_base) & df.wrapping_sub(1);
        let [class, total_len, ident, fragment] =
            [packet.traffic_class.into(), packet.total_len, ident, fragment].map(u64::from);
        let words = 0x45 << 56 | class << 48 | total_len << 32 | ident << 16 | fragment;
        let sum = u64::from(self.net_word) + class + total_len + ident + fragment;
        *ip.last_chunk_mut()? = *self.bytes.first_chunk::<{ ipv4::MIN_HEADER_LEN - FIRST }>()?;
        *ip.first_chunk_mut()? = words.to_be_bytes();
        [ip[10], ip[11]] = (!checksum::fold(sum as u32)).to_be_bytes();
        Some(rest)
    }

    /// Writes IPv6's header.
    #[inline(always)]
    pub fn write_v6<'a>(&self, out: &'a mut [u8], packet: PerPacket) -> Option<&'a mut [u8]> {
        let (ip, rest) = out.split_first_chunk_mut::<{ ipv6::HEADER_LEN }>()?;
        let [class, payload_len, net_word] = [
            packet.traffic_class.into(),
            packet.total_len - ipv6::HEADER_LEN as u16,
            self.net_word,
        ]
        .map(u64::from);
        let words = 6 << 60 | class << 52 | payload_len << 16 | net_word;
        *ip.first_chunk_mut()? = words.to_be_bytes();
        *ip.last_chunk_mut()? = *self.bytes.first_chunk::<{ ipv6::HEADER_LEN - FIRST }>()?;
        Some(rest)
    }

    /// Writes the UDP header that stands `at` so many bytes in the packet.
    #[inline(always)]
    pub fn write_udp<'a>(
        &self,
        out: &'a mut [u8],
        at: usize,
        packet: PerPacket,
    ) -> Option<&'a mut [u8]> {
        let (udp, rest) = out.split_first_chunk_mut::<UDP_HEADER_LEN>()?;
        *udp = *self.bytes.get(at - FIRST..)?.first_chunk()?;
        [udp[4], udp[5]] = (packet.total_len - at as u16).to_be_bytes();
        Some(rest)
    }

    /// The IV of a counter mode. It must not repeat under one key (RFC 4106 §3.1), and within an SA
    /// the number does not. Other SAs may have the same key, set by hand: their salts tell them apart.
    #[inline(always)]
    pub fn counter_iv(&self, number: u64) -> [u8; 8] {
        (number ^ self.iv_salt).to_be_bytes()
    }

    /// Writes the ESP header; returns what follows, the IV first.
    #[inline(always)]
    pub fn write_esp<'a>(&self, out: &'a mut [u8], number: u64) -> Option<&'a mut [u8]> {
        let (header, rest) = out.split_first_chunk_mut::<ESP_HEADER_LEN>()?;
        *header = (u64::from(self.spi) << 32 | number & u64::from(u32::MAX)).to_be_bytes();
        Some(rest)
    }
}

/// A UDP header around ESP, `udp_len` with the header itself.
///
/// The checksum is zero: for IPv4 it stays so (RFC 3948 §2.1), for IPv6 it is filled in once the
/// packet is encrypted.
pub(crate) fn udp_header(encap: UdpEncap, udp_len: u16) -> [u8; UDP_HEADER_LEN] {
    let [s, t] = encap.src_port.to_be_bytes();
    let [d, e] = encap.dst_port.to_be_bytes();
    let [l, m] = udp_len.to_be_bytes();
    [s, t, d, e, l, m, 0, 0]
}

fn v6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use crypto::Suite;
    use proptest::prelude::*;
    use wire::parse_ip;

    use super::*;
    use crate::params::{Mode, SaFlags};

    const NATT: Option<UdpEncap> = Some(UdpEncap { src_port: 4500, dst_port: 4500 });

    /// All headers in front of ESP.
    fn write(params: &SaParams, out: &mut [u8], packet: PerPacket) -> Option<()> {
        let template = OuterTemplate::new(params, 0);
        let (at, rest) = match params.dst {
            IpAddr::V4(_) => (20, template.write_v4(out, packet)?),
            IpAddr::V6(_) => (40, template.write_v6(out, packet)?),
        };
        if params.encap.is_some() {
            template.write_udp(rest, at, packet)?;
        }
        Some(())
    }

    fn params(v6: bool, encap: Option<UdpEncap>) -> SaParams {
        let (src, dst) = match v6 {
            false => ("192.0.2.1", "198.51.100.2"),
            true => ("2001:db8::1", "2001:db8:ffff::2"),
        };
        SaParams {
            spi: 0x1234_5678,
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            protocol: Protocol::Esp,
            mode: Mode::Tunnel,
            suite: Suite::ChaCha20Poly1305,
            encap,
            esn: false,
            replay_window: 32,
            tfc_pad_len: 0,
            flags: SaFlags::default(),
        }
    }

    proptest! {
        /// The parser, which checks the checksum, reads back what went in.
        #[test]
        fn parses_back(
            v6: bool,
            udp: bool,
            traffic_class: u8,
            dont_fragment: bool,
            number: u64,
            total_len in 100u16..,
        ) {
            let encap = udp.then_some(UdpEncap { src_port: 4500, dst_port: 61234 });
            let params = params(v6, encap);
            let mut out = vec![0xa5; usize::from(total_len)];
            let packet = PerPacket { traffic_class, dont_fragment, number, total_len };
            write(&params, &mut out, packet).unwrap();
            let h = parse_ip(&out).unwrap();
            prop_assert_eq!((h.src, h.dst), (params.src, params.dst));
            prop_assert_eq!(h.traffic_class, traffic_class);
            prop_assert_eq!(h.dont_fragment, dont_fragment || v6);
            prop_assert_eq!(h.total_len, total_len);
            prop_assert_eq!(h.ttl, 64);
            prop_assert_eq!(h.protocol, if udp { 17 } else { 50 });
            let at = usize::from(h.header_len);
            if udp {
                prop_assert_eq!((h.src_port, h.dst_port), (4500, 61234));
                let len = usize::from(u16::from_be_bytes([out[at + 4], out[at + 5]]));
                prop_assert_eq!(len, usize::from(total_len) - at);
                prop_assert_eq!(&out[at + 6..at + 8], &[0, 0]);
            }
            let end = at + if udp { 8 } else { 0 };
            prop_assert!(out[end..].iter().all(|b| *b == 0xa5), "nothing past the headers");
        }
    }

    #[test]
    fn identification_differs_between_packets_and_sas() {
        let ident = |spi, number| {
            let mut out = [0; 100];
            let params = SaParams { spi, ..params(false, None) };
            let packet =
                PerPacket { traffic_class: 0, dont_fragment: false, number, total_len: 100 };
            write(&params, &mut out, packet).unwrap();
            u16::from_be_bytes([out[4], out[5]])
        };
        let all: std::collections::HashSet<u16> = (0..=0xffff).map(|n| ident(9, n)).collect();
        assert_eq!(all.len(), 65536);
        assert_ne!(ident(0x1234_0001, 7), ident(0x4321_0001, 7));
    }

    #[test]
    fn every_cipher_has_its_form() {
        for suite in Suite::all() {
            let form_of = |params: &SaParams| Form::of(params, &Geometry::new(params));
            let tunnel = SaParams { suite, ..params(false, None) };
            let form = match (suite.needs_random_iv(), suite.iv_len_bytes()) {
                (true, 16) => Form::V4Cbc,
                (false, 8) => Form::V4Counter,
                // DES, and no encryption.
                _ => Form::Other,
            };
            assert_eq!(form_of(&tunnel), form, "{suite}");
            let padded = SaParams { tfc_pad_len: 1, ..tunnel.clone() };
            assert_eq!(form_of(&padded), Form::Other);
            let transport = SaParams { mode: Mode::Transport, ..tunnel };
            assert_eq!(form_of(&transport), Form::Other);
        }
    }

    #[test]
    fn too_short_a_buffer_is_left_alone() {
        let packet = PerPacket { traffic_class: 0, dont_fragment: true, number: 1, total_len: 100 };
        let (v4, v6) = (
            OuterTemplate::new(&params(false, NATT), 0),
            OuterTemplate::new(&params(true, NATT), 0),
        );
        let mut out = [0xa5; 40];
        assert!(v4.write_v4(&mut out[..19], packet).is_none());
        assert!(v6.write_v6(&mut out[..39], packet).is_none());
        assert!(v4.write_udp(&mut out[..7], 20, packet).is_none());
        assert!(v4.write_esp(&mut out[..7], 1).is_none());
        assert!(out.iter().all(|b| *b == 0xa5));
        assert!(v4.write_v4(&mut out[..20], packet).is_some_and(|rest| rest.is_empty()));
        assert!(v6.write_v6(&mut out[..40], packet).is_some_and(|rest| rest.is_empty()));
        assert!(v4.write_udp(&mut out[..8], 20, packet).is_some_and(|rest| rest.is_empty()));
        assert!(v4.write_esp(&mut out[..8], 1).is_some_and(|rest| rest.is_empty()));
    }
}
