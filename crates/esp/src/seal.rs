//! Outbound: from a cleartext IP packet to an ESP packet (RFC 4303 §3.3).
//!
//! ```text
//!   tunnel     [outer IP] [UDP] [ESP header] [IV] [inner packet | TFC] [padding, trailer] [ICV]
//!   transport  [IP, visible] [UDP] [ESP header] [IV] [payload] [padding, trailer] [ICV]
//!                                                <--------- encrypted --------->
//! ```
//!
//! The payload stays where it is in the buffer; all else is written around it.

use crypto::JobStatus;
use outcome::DropReason;
use wire::{Family, Headers, Span, checksum, protocol};

use crate::ecn;
use crate::header::{PerPacket, udp_header};
use crate::iv::IvSource;
use crate::params::Mode;
use crate::sa::Sa;
use crate::sequence;
use crate::size::{MAX_IP_LEN, TRAILER_LEN};
use crate::transport::{self, Visible};

/// A packet that is ready to be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a packet that is prepared has used up a sequence number"]
pub struct Sealing {
    /// The whole new packet, from its outer IP header to the ICV.
    pub packet: Span,
    /// The ESP part: ESP header to ICV; what the crypto job works on.
    pub esp: Span,
    /// The high half of the extended sequence number, for the crypto job.
    pub seq_hi: Option<u32>,
}

impl Sa {
    /// Makes an ESP packet of a cleartext IP packet, up to the encryption.
    ///
    /// `packet` is where the IP packet lies in `buf`, with room around it: [`Sa::headroom`] in
    /// front, the rest of [`Sa::overhead`] and any TFC padding behind. Bytes of `packet` past the
    /// length that the IP header gives (Ethernet padding) are cut. `h` was parsed from it. `mtu`
    /// is that of the path to the peer, in bytes: it bounds TFC padding and nothing else; that the
    /// packet fits is the caller's to see to, with [`Sa::max_inner_len`]. `now_s` is the wall
    /// clock in seconds.
    ///
    /// 1. Split off the headers that stay visible (transport mode).
    /// 2. Lengths: TFC, padding, room.
    /// 3. Take a sequence number; from here on it is used up, whatever happens.
    /// 4. Write trailer, IV and ESP header.
    /// 5. Write the headers in front.
    /// 6. Count, as Linux's `xfrm_output_one` does: the packet's length in tunnel mode, the
    ///    payload's in transport mode, before TFC and padding, and before the encryption.
    ///
    /// The TTL of the inner packet is not touched. With an error the buffer is as it was.
    ///
    /// # Errors
    /// - [`DropReason::OutMode`]: a fragment, or a packet of another family, in transport mode.
    /// - [`DropReason::MalformedIp`]: the packet is shorter than `h` says.
    /// - [`DropReason::OutNoRoom`]: too little room around the packet.
    /// - [`DropReason::OutTooBig`]: the sealed packet would be longer than any IP packet.
    /// - [`DropReason::OutSequenceExhausted`]: the last number was used.
    pub fn seal_prepare(
        &self,
        buf: &mut [u8],
        packet: Span,
        h: &Headers,
        ivs: &mut IvSource,
        mtu: usize,
        now_s: u64,
    ) -> Result<Sealing, DropReason> {
        let hot = &self.hot;
        let g = &hot.geometry;

        // 1.
        let packet_len = usize::from(h.total_len);
        let end = packet.start.checked_add(packet_len).ok_or(DropReason::MalformedIp)?;
        if packet_len > packet.len || end > buf.len() {
            return Err(DropReason::MalformedIp);
        }
        let split = match hot.mode {
            Mode::Tunnel => None,
            Mode::Transport => {
                let cleartext = buf.get(packet.start..end).ok_or(DropReason::MalformedIp)?;
                if (h.family() == Family::V4) != hot.v4 {
                    return Err(DropReason::OutMode);
                }
                Some(transport::split(cleartext, h)?)
            }
        };
        let visible_len = split.map_or(0, |v| v.len);
        let payload_len = packet_len.checked_sub(visible_len).ok_or(DropReason::MalformedIp)?;

        // 2.
        let tfc_len = match hot.tfc_pad_len as usize {
            0 => 0,
            to => to.min(self.max_inner_len(mtu)).saturating_sub(payload_len),
        };
        let padded_len = payload_len + tfc_len;
        let pad_len = g.pad_len(padded_len);
        let start = packet.start.checked_sub(g.headroom()).ok_or(DropReason::OutNoRoom)?;
        let total_len = g.sealed_len(visible_len, padded_len);
        if total_len > MAX_IP_LEN {
            return Err(DropReason::OutTooBig);
        }
        if buf.len() - start < total_len {
            return Err(DropReason::OutNoRoom);
        }

        // 3.
        let number = sequence::assign(self.cells.sent(), hot.esn)?;

        // 4.
        let text_end = start + total_len - usize::from(g.icv_len);
        let trailer = Trailer {
            tfc_len,
            pad_len: pad_len as u8, // below 16
            next_header: match (split, h.family()) {
                (Some(visible), _) => visible.protocol,
                (None, Family::V4) => protocol::IPV4,
                (None, Family::V6) => protocol::IPV6,
            },
        };
        let behind = buf.get_mut(end..text_end).ok_or(DropReason::OutNoRoom)?;
        trailer.write(behind).ok_or(DropReason::OutNoRoom)?;
        let esp_start = start + visible_len + usize::from(g.outer_ip_len) + usize::from(g.udp_len);
        let esp = Span { start: esp_start, len: start + total_len - esp_start };
        if let Some(visible) = split {
            // Before the ESP header is written, which overlaps where these were.
            buf.copy_within(packet.start..packet.start + visible.len, start);
        }
        let in_front = buf.get_mut(esp_start..esp_start + g.prefix_len());
        self.write_prefix(in_front.ok_or(DropReason::OutNoRoom)?, number, ivs)
            .ok_or(DropReason::OutNoRoom)?;

        // 5.
        let total = total_len as u16; // at most MAX_IP_LEN
        let whole = buf.get_mut(start..start + total_len).ok_or(DropReason::OutNoRoom)?;
        match split {
            None => {
                let per_packet = PerPacket {
                    traffic_class: self.outer_traffic_class(h.traffic_class),
                    dont_fragment: hot.copy_df && h.dont_fragment,
                    sequence: number as u16,
                    total_len: total,
                };
                hot.template.write(whole, per_packet).ok_or(DropReason::OutNoRoom)?;
            }
            Some(visible) => {
                self.write_transport(whole, visible, h.family(), total)
                    .ok_or(DropReason::OutNoRoom)?;
            }
        }

        // 6.
        self.cells.count(payload_len as u64, now_s);
        Ok(Sealing {
            packet: Span { start, len: total_len },
            esp,
            seq_hi: hot.esn.then_some((number >> 32) as u32),
        })
    }

    /// Completes a packet after the crypto job has run, and says where it is.
    ///
    /// UDP over IPv6 gets its checksum here, over the ciphertext: IPv6 receivers drop UDP without
    /// one unless told otherwise (RFC 8200 §8.1, RFC 6935 §5), and Linux sends one too
    /// (`esp6_output_encap_csum`). UDP over IPv4 keeps zero (RFC 3948 §2.1).
    ///
    /// Send nothing but what this returns: if the job did not succeed, the packet may be
    /// cleartext, and it is overwritten with zeros.
    ///
    /// # Errors
    /// [`DropReason::OutCrypto`] if the job did not succeed.
    pub fn seal_finish(
        &self,
        buf: &mut [u8],
        sealing: &Sealing,
        status: JobStatus,
    ) -> Result<Span, DropReason> {
        let packet = buf.get_mut(sealing.packet.range()).ok_or(DropReason::OutCrypto)?;
        if status != JobStatus::Done {
            packet.fill(0);
            return Err(DropReason::OutCrypto);
        }
        if self.hot.geometry.udp_len != 0 && !self.hot.v4 {
            let udp_at = (sealing.esp.start - sealing.packet.start)
                .checked_sub(usize::from(self.hot.geometry.udp_len))
                .ok_or(DropReason::OutCrypto)?;
            fill_udp_checksum(packet, udp_at).ok_or(DropReason::OutCrypto)?;
        }
        Ok(sealing.packet)
    }

    /// RFC 4301 §5.1.2: DSCP copied unless the SA says otherwise; ECN copied (RFC 6040 §4.1,
    /// normal mode) unless it says otherwise.
    fn outer_traffic_class(&self, inner: u8) -> u8 {
        let dscp = if self.hot.copy_dscp_out { inner & !ecn::MASK } else { 0 };
        let ecn = if self.hot.copy_ecn { inner & ecn::MASK } else { 0 };
        dscp | ecn
    }

    /// Writes ESP header and IV.
    fn write_prefix(&self, out: &mut [u8], number: u64, ivs: &mut IvSource) -> Option<()> {
        let (header, iv) = out.split_first_chunk_mut::<8>()?;
        *header = (u64::from(self.hot.spi) << 32 | number & u64::from(u32::MAX)).to_be_bytes();
        if self.hot.random_iv {
            ivs.fill(iv);
        } else if let Some(iv) = iv.first_chunk_mut::<8>() {
            // A counter mode's IV must not repeat under one key, and the number does not
            // (RFC 4106 §3.1, RFC 7634 §2).
            *iv = number.to_be_bytes();
        }
        Some(())
    }

    /// Adapts the packet's own headers, and writes UDP behind them.
    fn write_transport(
        &self,
        packet: &mut [u8],
        visible: Visible,
        family: Family,
        total_len: u16,
    ) -> Option<()> {
        let next = match self.params().encap {
            None => protocol::ESP,
            Some(encap) => {
                let udp_len = total_len.checked_sub(visible.len as u16)?;
                let header = packet.get_mut(visible.len..)?.first_chunk_mut()?;
                *header = udp_header(encap, udp_len);
                protocol::UDP
            }
        };
        transport::rewrite(packet, family, visible.next_header_at, next, total_len)
    }
}

/// What follows the payload inside the encryption.
struct Trailer {
    tfc_len: usize,
    pad_len: u8,
    next_header: u8,
}

impl Trailer {
    /// Writes TFC padding (zeros), ESP padding (1, 2, 3, ...; RFC 4303 §2.4), pad length and next
    /// header; `None` if `out` does not have just their length.
    fn write(&self, out: &mut [u8]) -> Option<()> {
        let (tfc, rest) = out.split_at_mut_checked(self.tfc_len)?;
        let (padding, fixed) = rest.split_at_mut_checked(usize::from(self.pad_len))?;
        let fixed: &mut [u8; TRAILER_LEN] = fixed.try_into().ok()?;
        tfc.fill(0);
        for (byte, value) in padding.iter_mut().zip(1..) {
            *byte = value;
        }
        *fixed = [self.pad_len, self.next_header];
        Some(())
    }
}

/// Fills in the checksum of the UDP header at `udp_at` in an IPv6 packet.
///
/// Source and destination are those of the fixed header: with an unfinished routing header, which
/// Linux does not look at here either, the checksum would be wrong.
fn fill_udp_checksum(packet: &mut [u8], udp_at: usize) -> Option<()> {
    let header = wire::ipv6::Ipv6Header::parse(packet).ok()?;
    let (src, dst) = (header.src(), header.dst());
    let udp = packet.get_mut(udp_at..)?;
    let pseudo = checksum::pseudo_header_v6(src, dst, protocol::UDP, udp.len() as u32);
    let value = match !checksum::add(pseudo, checksum::sum(udp)) {
        // Zero would mean "none".
        0 => 0xffff,
        value => value,
    };
    udp.get_mut(6..8)?.copy_from_slice(&value.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use wire::{L4Checksum, parse_ip, verify_l4_checksum};

    use super::*;

    /// Whatever the data, also when the sum comes out as zero, the checksum is there and right.
    #[test]
    fn udp_over_v6_never_goes_without_checksum() {
        let mut saw_ffff = false;
        for word in 0..=u16::MAX {
            let mut packet = [0; 50];
            packet[0] = 0x60;
            packet[5] = 10;
            packet[6] = protocol::UDP;
            packet[45] = 10;
            packet[48..].copy_from_slice(&word.to_be_bytes());
            fill_udp_checksum(&mut packet, 40).unwrap();
            let h = parse_ip(&packet).unwrap();
            assert_eq!(verify_l4_checksum(&packet, &h), L4Checksum::Valid, "word {word:#x}");
            saw_ffff |= packet[46..48] == [0xff, 0xff];
        }
        assert!(saw_ffff, "no data whose sum is zero");
    }

    #[test]
    fn trailer_fills_its_place_exactly() {
        let trailer = Trailer { tfc_len: 3, pad_len: 4, next_header: 41 };
        let mut out = [0xa5; 9];
        assert!(trailer.write(&mut out).is_some());
        assert_eq!(out, [0, 0, 0, 1, 2, 3, 4, 4, 41]);
        assert!(trailer.write(&mut [0; 8]).is_none());
        assert!(trailer.write(&mut [0; 10]).is_none());
    }
}
