//! Lengths: how much longer ESP makes a packet, and how long a packet may be to fit.

use crypto::Suite;

use crate::params::{Mode, SaParams};

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
    /// The IV in each packet.
    pub iv_len: u8,
    /// The ICV.
    pub icv_len: u8,
    /// The multiple that payload and trailer together must have.
    pub align: u8,
}

impl Geometry {
    pub fn new(params: &SaParams) -> Geometry {
        let suite: Suite = params.suite;
        Geometry {
            outer_ip_len: match params.mode {
                Mode::Tunnel => base_header_len(params) as u8,
                Mode::Transport => 0,
            },
            udp_len: if params.encap.is_some() { UDP_HEADER_LEN as u8 } else { 0 },
            iv_len: suite.iv_len_bytes() as u8,
            icv_len: suite.icv_len_bytes() as u8,
            align: suite.align_bytes() as u8,
        }
    }

    /// From the ESP header's first byte to the first byte of text.
    pub fn prefix_len(&self) -> usize {
        ESP_HEADER_LEN + usize::from(self.iv_len)
    }

    /// What is put in front of the payload, apart from headers that stay visible.
    pub fn headroom(&self) -> usize {
        usize::from(self.outer_ip_len) + usize::from(self.udp_len) + self.prefix_len()
    }

    /// Padding bytes after a payload.
    pub fn pad_len(&self, payload_len: usize) -> usize {
        // `align` is 4 or 16.
        (payload_len + TRAILER_LEN).wrapping_neg() & (usize::from(self.align) - 1)
    }

    /// The most padding that alignment asks for.
    pub fn pad_max(&self) -> usize {
        usize::from(self.align) - 1
    }

    /// Payload, padding and trailer: what is encrypted.
    pub fn text_len(&self, payload_len: usize) -> usize {
        payload_len + self.pad_len(payload_len) + TRAILER_LEN
    }

    /// The whole packet on the wire, from its IP header to the ICV.
    pub fn sealed_len(&self, visible_len: usize, payload_len: usize) -> usize {
        self.headroom() + visible_len + self.text_len(payload_len) + usize::from(self.icv_len)
    }

    /// The longest payload whose packet is not longer than `mtu`; `None` if not even an empty
    /// one fits.
    pub fn max_payload_len(&self, visible_len: usize, mtu: usize) -> Option<usize> {
        let around = self.headroom() + visible_len + usize::from(self.icv_len);
        let text = mtu.min(MAX_IP_LEN).checked_sub(around)?;
        (text & !(usize::from(self.align) - 1)).checked_sub(TRAILER_LEN)
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
                    iv_len: suite.iv_len_bytes() as u8,
                    icv_len: suite.icv_len_bytes() as u8,
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
}
