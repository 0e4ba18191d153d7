//! Lengths: how much longer ESP makes a packet, and how long a packet may be to fit.

use crypto::Suite;
use outcome::DropReason;

use crate::ah;
use crate::ecn::{self, EcnDecap};
use crate::params::{Mode, Protocol, SaParams};
use crate::ring::{MAX_REPLAY_WINDOW, ring_words};

/// ESP's own header: SPI and sequence number (RFC 4303 §2.1, §2.2).
pub(crate) const ESP_HEADER_LEN: usize = 8;
/// A UDP header (RFC 768).
pub(crate) const UDP_HEADER_LEN: usize = 8;
/// The trailer's fixed part: pad length and next header (RFC 4303 §2.5, §2.6).
pub(crate) const TRAILER_LEN: usize = 2;
/// The longest IP packet without extensions, by its 16-bit length field.
pub(crate) const MAX_IP_LEN: usize = 65535;

/// The lengths that an SA fixes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// A tunnel's outer IP header; 0 in transport mode.
    pub outer_ip_len: u8,
    /// The UDP header of RFC 3948; 0 without.
    pub udp_len: u8,
    /// From the protocol's first byte to the payload's: ESP header and IV, or AH with its ICV.
    pub prefix_len: u8,
    /// ESP's fixed trailer; 0 for AH.
    pub trailer_len: u8,
    /// Bytes behind payload and trailer: ESP's ICV; 0 for AH.
    pub behind_len: u8,
    /// The multiple that payload and trailer together must have.
    pub align: u8,
}

impl Geometry {
    pub fn new(params: &SaParams) -> Geometry {
        let suite: Suite = params.suite;
        let outer_ip_len = match params.mode {
            Mode::Tunnel | Mode::Iptfs => base_header_len(params) as u8,
            Mode::Transport => 0,
        };
        match params.protocol {
            Protocol::Esp => Geometry {
                outer_ip_len,
                udp_len: if params.encap.is_some() { UDP_HEADER_LEN as u8 } else { 0 },
                prefix_len: (ESP_HEADER_LEN + suite.iv_len_bytes()) as u8, // at most 24
                trailer_len: TRAILER_LEN as u8,
                behind_len: suite.icv_len_bytes() as u8,
                align: suite.align_bytes() as u8,
            },
            Protocol::Ah => Geometry {
                outer_ip_len,
                udp_len: 0,
                prefix_len: ah::header_len(params) as u8, // at most 72
                trailer_len: 0,
                behind_len: 0,
                align: 1,
            },
            // A packet that is not compressed has no header, and a compressed one is shorter by more than that.
            Protocol::IpComp | Protocol::IpInV4 | Protocol::IpInV6 => Geometry {
                outer_ip_len,
                udp_len: 0,
                prefix_len: 0,
                trailer_len: 0,
                behind_len: 0,
                align: 1,
            },
        }
    }

    /// Bytes in front of the payload, without headers that stay visible.
    pub fn headroom(&self) -> usize {
        usize::from(self.outer_ip_len) + usize::from(self.udp_len) + usize::from(self.prefix_len)
    }

    /// Padding bytes after a payload.
    pub fn pad_len(&self, payload_len: usize) -> usize {
        // `align` is 1, 4, 8 or 16.
        (payload_len + usize::from(self.trailer_len)).wrapping_neg() & (usize::from(self.align) - 1)
    }

    /// The most padding that alignment asks for.
    pub fn pad_max(&self) -> usize {
        usize::from(self.align) - 1
    }

    /// Payload, padding and trailer: what is encrypted.
    pub fn text_len(&self, payload_len: usize) -> usize {
        payload_len + self.pad_len(payload_len) + usize::from(self.trailer_len)
    }

    /// The whole packet on the wire, from its IP header to its end.
    #[inline]
    pub fn sealed_len(&self, visible_len: usize, payload_len: usize) -> usize {
        self.headroom() + visible_len + self.text_len(payload_len) + usize::from(self.behind_len)
    }

    /// The longest payload whose packet is not longer than `mtu`; `None` if not even an empty
    /// one fits.
    pub fn max_payload_len(&self, visible_len: usize, mtu: usize) -> Option<usize> {
        let around = self.headroom() + visible_len + usize::from(self.behind_len);
        let text = mtu.min(MAX_IP_LEN).checked_sub(around)?;
        (text & !(usize::from(self.align) - 1)).checked_sub(self.trailer_len.into())
    }
}

/// Lengths and flags of an SA, for opening and all but sealing: eight bytes, beside the pointers to
/// live numbers and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The replay window's size in packets, 0 for no check; bit 23 for IP-TFS; above it, from bit 24
    /// on, the binary logarithm of its ring's length in words.
    window: u32,
    /// From the protocol's first byte to the payload's: ESP header and IV, or AH with its ICV.
    prefix_len: u8,
    /// Bytes of the ICV.
    icv_len: u8,
    /// The multiple that payload and trailer together must have, less one.
    align_mask: u8,
    flags: u8,
}

const WINDOW_BITS: u32 = 24;
/// Set if the content is of IP-TFS.
const IPTFS: u32 = 1 << (WINDOW_BITS - 1);
const _: () = assert!(MAX_REPLAY_WINDOW < IPTFS);
const _: () = assert!(size_of::<Shape>() == 8);

/// Bits of [`Shape`]'s flags.
mod flag {
    pub const ESN: u8 = 1;
    /// Of what has no numbers: IPComp, as against IP in IP.
    pub const IPCOMP: u8 = ESN;
    pub const TRANSPORT: u8 = 2;
    /// The outer family is IPv4; in transport mode the packet's.
    pub const V4: u8 = 4;
    pub const UDP: u8 = 8;
    pub const COPY_ECN: u8 = 16;
    /// Copy the outer DSCP when decapsulating.
    pub const COPY_DSCP_IN: u8 = 32;
    /// ECN at the tunnel's exit as Linux has it.
    pub const ECN_LINUX: u8 = 64;
    /// Something is left to do when a packet is sealed: a UDP checksum over IPv6; or it is not ESP, which
    /// alone goes with UDP.
    pub const FINISHES: u8 = 128;
}

impl Shape {
    pub fn new(params: &SaParams) -> Shape {
        let geometry = Geometry::new(params);
        let sums_udp = params.encap.is_some() && params.dst.is_ipv6();
        let flags = [
            (params.esn, flag::ESN),
            (params.protocol == Protocol::IpComp, flag::IPCOMP),
            (params.mode == Mode::Transport, flag::TRANSPORT),
            (params.dst.is_ipv4(), flag::V4),
            (params.encap.is_some(), flag::UDP),
            (!params.flags.no_ecn, flag::COPY_ECN),
            // The content of IP-TFS is never one packet: none goes the straight way.
            (params.flags.decap_dscp || params.mode == Mode::Iptfs, flag::COPY_DSCP_IN),
            (params.protocol != Protocol::Esp || sums_udp, flag::FINISHES),
        ];
        let ring_log = ring_words(params.replay_window).trailing_zeros();
        let iptfs = if params.mode == Mode::Iptfs { IPTFS } else { 0 };
        Shape {
            window: params.replay_window | iptfs | ring_log << WINDOW_BITS,
            prefix_len: geometry.prefix_len,
            icv_len: params.suite.icv_len_bytes() as u8, // at most 64
            align_mask: geometry.align - 1,
            flags: flags.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag),
        }
    }

    #[inline(always)]
    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The lengths that the SA fixes.
    pub fn geometry(self) -> Geometry {
        Geometry {
            outer_ip_len: match (self.has(flag::TRANSPORT), self.has(flag::V4)) {
                (true, _) => 0,
                (false, true) => wire::ipv4::MIN_HEADER_LEN as u8,
                (false, false) => wire::ipv6::HEADER_LEN as u8,
            },
            udp_len: self.udp_len() as u8,
            prefix_len: self.prefix_len,
            trailer_len: if self.is_esp() { TRAILER_LEN as u8 } else { 0 },
            behind_len: if self.is_esp() { self.icv_len } else { 0 },
            align: self.align_mask + 1,
        }
    }

    /// From the protocol's first byte to the payload's.
    #[inline(always)]
    pub fn prefix_len(self) -> usize {
        self.prefix_len.into()
    }

    /// The ICV's length.
    #[inline(always)]
    pub fn icv_len(self) -> usize {
        self.icv_len.into()
    }

    /// The multiple that payload and trailer together must have, less one.
    #[inline(always)]
    pub fn align_mask(self) -> usize {
        self.align_mask.into()
    }

    /// The UDP header of RFC 3948; 0 without.
    #[inline(always)]
    pub fn udp_len(self) -> usize {
        if self.has(flag::UDP) { UDP_HEADER_LEN } else { 0 }
    }

    /// True if the content is of IP-TFS.
    #[inline(always)]
    pub fn is_iptfs(self) -> bool {
        self.window & IPTFS != 0
    }

    /// Tunnel or transport mode: that of IP-TFS has a tunnel's headers.
    #[inline(always)]
    pub fn mode(self) -> Mode {
        if self.has(flag::TRANSPORT) { Mode::Transport } else { Mode::Tunnel }
    }

    #[inline(always)]
    pub fn esn(self) -> bool {
        self.has(flag::ESN)
    }

    /// True if the outer family is IPv4. In transport mode that is the packet's own family.
    #[inline(always)]
    pub fn is_v4(self) -> bool {
        self.has(flag::V4)
    }

    /// True if a UDP checksum must be computed once a packet is encrypted.
    pub fn sums_udp(self) -> bool {
        self.flags & (flag::UDP | flag::V4) == flag::UDP
    }

    /// True if a sealed packet needs work once the engine has run over it.
    #[inline(always)]
    pub fn finishes(self) -> bool {
        self.has(flag::FINISHES)
    }

    /// True if the protocol is ESP.
    #[inline(always)]
    pub fn is_esp(self) -> bool {
        self.flags & (flag::UDP | flag::FINISHES) != flag::FINISHES
    }

    /// True if the protocol is AH.
    #[inline(always)]
    pub fn is_ah(self) -> bool {
        !self.is_esp() && self.prefix_len != 0
    }

    /// True if the protocol has neither numbers nor an ICV: IPComp, or IP in IP.
    pub fn is_bare(self) -> bool {
        !self.is_esp() && self.prefix_len == 0
    }

    /// True if the protocol is IPComp.
    pub fn is_ipcomp(self) -> bool {
        self.is_bare() && self.has(flag::IPCOMP)
    }

    /// The replay window's size in packets; 0 for no check.
    #[inline(always)]
    pub fn window_size(self) -> u32 {
        self.window & (IPTFS - 1)
    }

    /// The number of words in the replay window's ring, less one.
    #[inline(always)]
    pub fn ring_mask(self) -> usize {
        (1 << (self.window >> WINDOW_BITS)) - 1
    }

    /// The inner traffic class after decapsulation.
    ///
    /// # Errors
    /// [`DropReason::InEcn`], see [`EcnDecap::combine`].
    #[inline(always)]
    pub fn inner_class(self, inner: u8, outer: u8) -> Result<u8, DropReason> {
        let rule = if self.has(flag::ECN_LINUX) { EcnDecap::Linux } else { EcnDecap::Rfc6040 };
        let ecn = match self.has(flag::COPY_ECN) {
            true => rule.combine(inner, outer)?,
            false => inner & ecn::MASK,
        };
        let dscp = if self.has(flag::COPY_DSCP_IN) { outer } else { inner } & !ecn::MASK;
        Ok(dscp | ecn)
    }

    /// True if [`Shape::inner_class`] leaves an inner class as it is, by a quick look: the outer
    /// header has no mark, or the same one as the inner (RFC 6040 §4.2).
    #[inline(always)]
    pub fn keeps_class(self, inner: u8, outer: u8) -> bool {
        let is_unmarked = outer & ecn::MASK == 0 || (inner ^ outer) & ecn::MASK == 0;
        is_unmarked && !self.has(flag::COPY_DSCP_IN)
    }

    pub fn set_ecn_decap(&mut self, rule: EcnDecap) {
        self.flags &= !flag::ECN_LINUX;
        if rule == EcnDecap::Linux {
            self.flags |= flag::ECN_LINUX;
        }
    }
}

/// The fixed part of an IP header of the SA's outer family.
pub(crate) fn base_header_len(params: &SaParams) -> usize {
    match params.dst.is_ipv4() {
        true => wire::ipv4::MIN_HEADER_LEN,
        false => wire::ipv6::HEADER_LEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometries() -> impl Iterator<Item = Geometry> {
        Suite::all().flat_map(|suite| {
            [0u8, 20, 40].into_iter().flat_map(move |outer_ip_len| {
                [0u8, 8].into_iter().map(move |udp_len| Geometry {
                    outer_ip_len,
                    udp_len,
                    prefix_len: (ESP_HEADER_LEN + suite.iv_len_bytes()) as u8,
                    trailer_len: TRAILER_LEN as u8,
                    behind_len: suite.icv_len_bytes() as u8,
                    align: suite.align_bytes() as u8,
                })
            })
        })
    }

    #[test]
    fn text_is_aligned_with_the_least_padding() {
        for g in geometries() {
            for payload in 0..200 {
                assert_eq!(g.text_len(payload) % usize::from(g.align), 0);
                assert!(g.pad_len(payload) < usize::from(g.align));
            }
        }
    }

    #[test]
    fn the_longest_payload_fits_and_one_more_does_not() {
        for g in geometries() {
            for visible in [0, 20, 24, 40, 60] {
                for mtu in 0..1600 {
                    match g.max_payload_len(visible, mtu) {
                        Some(max) => {
                            assert!(g.sealed_len(visible, max) <= mtu);
                            assert!(g.sealed_len(visible, max + 1) > mtu);
                        }
                        None => assert!(g.sealed_len(visible, 0) > mtu),
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_exceeds_an_ip_packet() {
        for g in geometries() {
            let max = g.max_payload_len(40, usize::MAX).unwrap();
            assert!(g.sealed_len(40, max) <= MAX_IP_LEN);
        }
    }

    /// Wherever the quick look says that a class stays, it does, by every rule.
    #[test]
    fn a_class_that_is_kept_stays() {
        let mut kept = 0;
        for flags in (0..=u8::MAX).step_by(usize::from(flag::COPY_ECN)) {
            let shape = Shape { window: 0, prefix_len: 16, icv_len: 16, align_mask: 3, flags };
            for inner in 0..=u8::MAX {
                for outer in 0..=u8::MAX {
                    if shape.keeps_class(inner, outer) {
                        assert_eq!(shape.inner_class(inner, outer), Ok(inner));
                        kept += 1;
                    }
                }
            }
        }
        // In 7 of 16 cases of ECN, where DSCP is not copied.
        assert_eq!(kept, 8 * 7 * 64 * 64);
    }
}
