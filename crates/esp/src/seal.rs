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
use wire::{Family, Fields, Span, checksum, ipv4, ipv6, protocol};

use crate::header::{Form, PerPacket, udp_header};
use crate::iv::IvSource;
use crate::params::Mode;
use crate::sa::Sa;
use crate::sequence::Number;
use crate::size::{ESP_HEADER_LEN, MAX_IP_LEN, TRAILER_LEN, UDP_HEADER_LEN};
use crate::transport::{self, Visible};

/// A packet that is ready to be encrypted. The default is that of no packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a packet that is prepared has used up a sequence number"]
pub struct Sealing {
    /// The whole new packet, from its outer IP header to the ICV.
    pub packet: Span,
    /// The ESP part: ESP header to ICV; what the crypto job works on. Of AH the whole packet, and
    /// behind it the place that the job writes the ICV to.
    pub esp: Span,
    /// The high half of the extended sequence number, for the crypto job.
    pub seq_hi: Option<u32>,
}

impl Sa {
    /// Bytes that the SA counts for a cleartext packet to be sealed, as Linux's `xfrm_output_one`
    /// does: the whole packet in tunnel mode, its payload in transport mode, before TFC and
    /// padding. Counted with [`LiveNumbers::count`](crate::LiveNumbers::count), before the
    /// encryption, by the thread that owns the SA.
    ///
    /// `h` was parsed from `packet`.
    ///
    /// # Errors
    /// Transport mode: [`DropReason::OutMode`] and [`DropReason::MalformedIp`] as
    /// [`Sa::seal_prepare`].
    #[inline]
    pub fn payload_len(&self, packet: &[u8], h: impl Into<Fields>) -> Result<usize, DropReason> {
        let h = h.into();
        let packet_len = usize::from(h.total_len());
        match self.shape.mode() {
            Mode::Tunnel | Mode::Iptfs => Ok(packet_len),
            Mode::Transport if (h.family() == Family::V4) != self.shape.is_v4() => {
                Err(DropReason::OutMode)
            }
            Mode::Transport => {
                let visible = transport::split(packet, h)?;
                packet_len.checked_sub(visible.len).ok_or(DropReason::MalformedIp)
            }
        }
    }

    /// Makes an ESP packet of a cleartext IP packet, up to the encryption.
    ///
    /// `packet` is where the IP packet lies in `buf`, with room around it: [`Sa::headroom`] in
    /// front, the rest of [`Sa::overhead`] and any TFC padding behind; AH needs room for its ICV and
    /// a copy of the headers behind. Bytes of `packet` past the
    /// length that the IP header gives (Ethernet padding) are cut. `h` was parsed from it. `mtu`
    /// is that of the path to the peer, in bytes: it bounds TFC padding and nothing else; that the
    /// packet fits is the caller's to see to, with [`Sa::max_inner_len`]. `number` comes from
    /// [`Sa::lease`] of this same SA, and is used up also where this fails.
    ///
    /// Touches no number of the SA, so any thread may do it, for any packet. The SA's owner counts
    /// the packet, with [`Sa::payload_len`].
    ///
    /// 1. Split off the headers that stay visible (transport mode).
    /// 2. Lengths: TFC, padding, room.
    /// 3. Write trailer, IV and ESP header.
    /// 4. Write the headers in front.
    ///
    /// The TTL of the inner packet is not touched. With an error the buffer is as it was.
    ///
    /// # Errors
    /// - [`DropReason::OutMode`]: a fragment, or a packet of another family, in transport mode.
    /// - [`DropReason::MalformedIp`]: the packet is shorter than `h` says.
    /// - [`DropReason::OutNoRoom`]: too little room around the packet.
    /// - [`DropReason::OutTooBig`]: the sealed packet would be longer than any IP packet.
    #[inline(always)]
    pub fn seal_prepare(
        &self,
        buf: &mut [u8],
        packet: Span,
        h: impl Into<Fields>,
        number: Number,
        ivs: &mut IvSource,
        mtu: usize,
    ) -> Result<Sealing, DropReason> {
        let (h, number) = (h.into(), number.value());
        if let Some(sealing) = self.seal_straight(buf, packet, h, number, ivs) {
            return Ok(sealing);
        }
        // In parts: as a whole, the straight path's result would go through memory too.
        let Sealing { packet, esp, seq_hi } = self.seal_any(buf, packet, h, number, ivs, mtu)?;
        let copy = |span: Span| Span { start: span.start, len: span.len };
        Ok(Sealing { packet: copy(packet), esp: copy(esp), seq_hi })
    }

    /// [`Sa::seal_prepare`] for most SAs and packets; `None`, and the buffer as it was, for the
    /// others.
    #[inline(always)]
    fn seal_straight(
        &self,
        buf: &mut [u8],
        packet: Span,
        h: Fields,
        number: u64,
        ivs: &mut IvSource,
    ) -> Option<Sealing> {
        const V4: usize = ipv4::MIN_HEADER_LEN;
        const V6: usize = ipv6::HEADER_LEN;
        const UDP: usize = UDP_HEADER_LEN;
        // A counter mode's IV has 8 bytes, CBC's 16.
        match self.template.form {
            Form::V4Counter => self.seal_tunnel::<V4, 0, 8>(buf, packet, h, number, ivs),
            Form::V6Counter => self.seal_tunnel::<V6, 0, 8>(buf, packet, h, number, ivs),
            Form::V4UdpCounter => self.seal_tunnel::<V4, UDP, 8>(buf, packet, h, number, ivs),
            Form::V6UdpCounter => self.seal_tunnel::<V6, UDP, 8>(buf, packet, h, number, ivs),
            Form::V4Cbc => self.seal_tunnel::<V4, 0, 16>(buf, packet, h, number, ivs),
            Form::V6Cbc => self.seal_tunnel::<V6, 0, 16>(buf, packet, h, number, ivs),
            Form::V4UdpCbc => self.seal_tunnel::<V4, UDP, 16>(buf, packet, h, number, ivs),
            Form::V6UdpCbc => self.seal_tunnel::<V6, UDP, 16>(buf, packet, h, number, ivs),
            Form::Other => None,
        }
    }

    /// [`Sa::seal_prepare`] for tunnels whose headers and IV have these lengths.
    ///
    /// All checks come first, against windows of fixed size around the payload, in which every
    /// write has a place that the compiler knows. `None`, and the buffer as it was, where the
    /// windows do not fit or anything else is out of the ordinary: [`Sa::seal_any`] decides then.
    #[inline(always)]
    fn seal_tunnel<const IP_LEN: usize, const UDP_LEN: usize, const IV_LEN: usize>(
        &self,
        buf: &mut [u8],
        packet: Span,
        h: Fields,
        number: u64,
        ivs: &mut IvSource,
    ) -> Option<Sealing> {
        let t = &self.template;
        let outer_len = IP_LEN + UDP_LEN;
        let headroom = outer_len + ESP_HEADER_LEN + IV_LEN;
        let align_mask = if IV_LEN == 16 { 15 } else { 3 };

        // 2.
        let payload_len = usize::from(h.total_len());
        let pad_len = (payload_len + TRAILER_LEN).wrapping_neg() & align_mask;
        let total_len = usize::from(t.around) + payload_len + pad_len + TRAILER_LEN;
        if payload_len > packet.len || total_len > MAX_IP_LEN {
            return None;
        }
        let (front, rest) = buf.split_at_mut_checked(packet.start)?;
        let front = front.last_chunk_mut::<FRONT_LEN>()?;
        let behind = rest.get_mut(payload_len..)?.first_chunk_mut::<BEHIND_LEN>()?;

        // 3. and 4.; nothing fails from here on.
        let next_header = match h.family() {
            Family::V4 => protocol::IPV4,
            Family::V6 => protocol::IPV6,
        };
        write_trailer(behind, pad_len, next_header)?;
        let per_packet = PerPacket {
            traffic_class: t.traffic_class(h),
            dont_fragment: t.dont_fragment(h),
            number,
            total_len: total_len as u16, // at most MAX_IP_LEN
        };
        let front = front.get_mut(FRONT_LEN - headroom..)?;
        let front = match IP_LEN {
            ipv4::MIN_HEADER_LEN => t.write_v4(front, per_packet)?,
            _ => t.write_v6(front, per_packet)?,
        };
        let front = match UDP_LEN {
            0 => front,
            _ => t.write_udp(front, IP_LEN, per_packet)?,
        };
        let iv = t.write_esp(front, number)?;
        match IV_LEN {
            16 => ivs.fill(iv),
            _ => *iv.first_chunk_mut()? = t.counter_iv(number),
        }

        let start = packet.start - headroom;
        Some(Sealing {
            packet: Span { start, len: total_len },
            esp: Span { start: start + outer_len, len: total_len - outer_len },
            seq_hi: t.esn.then_some((number >> 32) as u32),
        })
    }

    /// [`Sa::seal_prepare`] for every SA and packet.
    #[inline(never)]
    fn seal_any(
        &self,
        buf: &mut [u8],
        packet: Span,
        h: Fields,
        number: u64,
        ivs: &mut IvSource,
        mtu: usize,
    ) -> Result<Sealing, DropReason> {
        if self.shape.is_ah() {
            return self.seal_ah(buf, packet, h, number);
        }
        let (t, params) = (&self.template, self.params());
        let g = &self.shape.geometry();

        // 1.
        let (split, payload_len) = self.split(buf, packet, h)?;
        let visible_len = split.map_or(0, |v| v.len);
        let end = packet.start + visible_len + payload_len;

        // 2.
        let tfc_len = match (params.mode, params.tfc_pad_len as usize) {
            // In transport mode nothing says where TFC padding begins (RFC 4303 §2.7).
            (Mode::Transport, _) | (Mode::Tunnel, 0) => 0,
            // Payloads of IP-TFS have padding of their own.
            (Mode::Iptfs, _) => 0,
            (Mode::Tunnel, to) => to.min(self.max_inner_len(mtu)).saturating_sub(payload_len),
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
        let next_header = match split {
            Some(visible) => visible.protocol,
            None if self.shape.is_iptfs() => protocol::AGGFRAG,
            None => Sa::protocol_of(h),
        };
        let behind = buf.get_mut(end..start + total_len).ok_or(DropReason::OutNoRoom)?;
        let (tfc, behind) = behind.split_at_mut_checked(tfc_len).ok_or(DropReason::OutNoRoom)?;
        tfc.fill(0);
        write_trailer(behind, pad_len, next_header).ok_or(DropReason::OutNoRoom)?;
        if let Some(visible) = split {
            // Before the ESP header is written, which overlaps where these were.
            buf.copy_within(packet.start..packet.start + visible.len, start);
        }
        let esp_start = start + visible_len + usize::from(g.outer_ip_len) + usize::from(g.udp_len);
        let in_front = buf.get_mut(esp_start..).ok_or(DropReason::OutNoRoom)?;
        let iv_len = self.shape.prefix_len() - ESP_HEADER_LEN;
        let iv = t.write_esp(in_front, number).and_then(|iv| iv.get_mut(..iv_len));
        match iv.ok_or(DropReason::OutNoRoom)? {
            [] => {}
            iv if params.suite.needs_random_iv() => ivs.fill(iv),
            iv => *iv.first_chunk_mut().ok_or(DropReason::OutNoRoom)? = t.counter_iv(number),
        }

        // 4.
        let total = total_len as u16; // at most MAX_IP_LEN
        let whole = buf.get_mut(start..start + total_len).ok_or(DropReason::OutNoRoom)?;
        let written = match split {
            None => self.write_tunnel(whole, self.per_packet(h, number, total)),
            Some(visible) => self.write_transport(whole, visible, h.family(), total),
        };
        written.ok_or(DropReason::OutNoRoom)?;

        Ok(Sealing {
            packet: Span { start, len: total_len },
            esp: Span { start: esp_start, len: start + total_len - esp_start },
            seq_hi: t.esn.then_some((number >> 32) as u32),
        })
    }

    /// Completes a packet after the crypto job has run, and says where it is.
    ///
    /// AH gets its ICV here, and the headers their mutable fields back.
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
        let end = sealing.packet.start.checked_add(sealing.packet.len);
        let is_inside = end.is_some_and(|end| end <= buf.len());
        if is_inside && status == JobStatus::Done && !self.shape.finishes() {
            return Ok(sealing.packet);
        }
        self.seal_finish_any(buf, sealing, status)
    }

    /// True if [`Sa::seal_finish`] is needed also where the job succeeded. Where it is not, the
    /// result of [`Sa::seal_prepare`] may be sent as it is.
    #[inline]
    pub fn has_to_finish(&self) -> bool {
        self.shape.finishes()
    }

    /// [`Sa::seal_finish`] for every SA, status and place.
    #[cold]
    #[inline(never)]
    fn seal_finish_any(
        &self,
        buf: &mut [u8],
        sealing: &Sealing,
        status: JobStatus,
    ) -> Result<Span, DropReason> {
        let Span { start, len } = sealing.packet;
        let packet = buf.get_mut(start..).and_then(|b| b.get_mut(..len));
        let packet = packet.ok_or(DropReason::OutCrypto)?;
        if status != JobStatus::Done {
            packet.fill(0);
            return Err(DropReason::OutCrypto);
        }
        if self.shape.is_ah() {
            return self.finish_ah(buf, sealing).ok_or(DropReason::OutCrypto);
        }
        if self.shape.sums_udp() {
            let udp_at = (sealing.esp.start - start)
                .checked_sub(UDP_HEADER_LEN)
                .ok_or(DropReason::OutCrypto)?;
            fill_udp_checksum(packet, udp_at).ok_or(DropReason::OutCrypto)?;
        }
        Ok(sealing.packet)
    }

    /// Splits a packet into the headers that stay visible, in transport mode, and what is protected, whose
    /// length is beside them.
    pub(crate) fn split(
        &self,
        buf: &[u8],
        packet: Span,
        h: Fields,
    ) -> Result<(Option<Visible>, usize), DropReason> {
        let packet_len = usize::from(h.total_len());
        let end = packet.start.checked_add(packet_len).ok_or(DropReason::MalformedIp)?;
        if packet_len > packet.len || end > buf.len() {
            return Err(DropReason::MalformedIp);
        }
        if self.shape.mode().is_tunnel() {
            return Ok((None, packet_len));
        }
        if (h.family() == Family::V4) != self.shape.is_v4() {
            return Err(DropReason::OutMode);
        }
        let cleartext = buf.get(packet.start..end).ok_or(DropReason::MalformedIp)?;
        let visible = transport::split(cleartext, h)?;
        let payload_len = packet_len.checked_sub(visible.len).ok_or(DropReason::MalformedIp)?;
        Ok((Some(visible), payload_len))
    }

    /// A packet's own fields in the outer headers of a tunnel.
    pub(crate) fn per_packet(&self, h: Fields, number: u64, total_len: u16) -> PerPacket {
        let t = &self.template;
        PerPacket {
            traffic_class: t.traffic_class(h),
            dont_fragment: t.dont_fragment(h),
            number,
            total_len,
        }
    }

    /// The protocol number of a whole IP packet inside another one.
    pub(crate) fn protocol_of(h: Fields) -> u8 {
        match h.family() {
            Family::V4 => protocol::IPV4,
            Family::V6 => protocol::IPV6,
        }
    }

    /// Writes a tunnel's outer headers.
    pub(crate) fn write_tunnel(&self, packet: &mut [u8], per_packet: PerPacket) -> Option<()> {
        let t = &self.template;
        let (at, rest) = match self.params().dst.is_ipv4() {
            true => (ipv4::MIN_HEADER_LEN, t.write_v4(packet, per_packet)?),
            false => (ipv6::HEADER_LEN, t.write_v6(packet, per_packet)?),
        };
        if self.params().encap.is_some() {
            t.write_udp(rest, at, per_packet)?;
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

/// Writes ESP padding (1, 2, 3, ...; RFC 4303 §2.4), pad length and next header to the beginning of
/// `behind`, which reaches from the payload's end to that of the ICV.
///
/// The padding is one wide store, which may write to where the ICV will be: the trailer and an ICV,
/// which has 8 bytes at least, are as long as the padding stored with them. `None` if `pad_len` is
/// above 15 or `behind` too short.
#[inline(always)]
fn write_trailer(behind: &mut [u8], pad_len: usize, next_header: u8) -> Option<()> {
    // As numbers, so that each is one store.
    if pad_len <= 6 {
        *behind.first_chunk_mut()? = (PADDING as u64).to_le_bytes();
    } else if pad_len <= 15 {
        *behind.first_chunk_mut()? = PADDING.to_le_bytes();
    } else {
        return None;
    }
    let fixed = u16::from_le_bytes([pad_len as u8, next_header]);
    *behind.get_mut(pad_len..)?.first_chunk_mut()? = fixed.to_le_bytes();
    Some(())
}

/// The window in front of a payload: the longest headers and IV.
const FRONT_LEN: usize = ipv6::HEADER_LEN + UDP_HEADER_LEN + ESP_HEADER_LEN + 16;

/// The window behind a payload: padding, trailer and the longest ICV, 49 bytes at most.
const BEHIND_LEN: usize = 64;

const _: () = assert!(TRAILER_LEN == 2, "pad length and next header");

/// The padding bytes 1 to 16, the first in the lowest place.
const PADDING: u128 = u128::from_le_bytes([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);

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
    use crypto::{Session, Suite};
    use proptest::prelude::*;
    use wire::{Headers, L4Checksum, parse_ip, verify_l4_checksum};

    use super::*;
    use crate::live_numbers::LiveNumbers;
    use crate::params::{Protocol, SaFlags, SaParams, UdpEncap};

    fn tunnels() -> impl Strategy<Value = SaParams> {
        let suite = prop::sample::select(Suite::all().collect::<Vec<_>>());
        let flag = any::<bool>;
        (suite, flag(), flag(), flag(), any::<u32>(), (flag(), flag(), flag())).prop_map(
            |(suite, is_v4, is_udp, esn, spi, (no_ecn, no_pmtu_disc, dont_encap_dscp))| {
                let (src, dst) = match is_v4 {
                    true => ("192.0.2.1", "198.51.100.2"),
                    false => ("2001:db8::1", "2001:db8:ffff::2"),
                };
                SaParams {
                    spi: spi | 0x100,
                    src: src.parse().unwrap(),
                    dst: dst.parse().unwrap(),
                    protocol: Protocol::Esp,
                    mode: Mode::Tunnel,
                    suite,
                    encap: is_udp.then_some(UdpEncap { src_port: 4500, dst_port: 61234 }),
                    esn,
                    replay_window: 0,
                    tfc_pad_len: 0,
                    flags: SaFlags { no_ecn, no_pmtu_disc, dont_encap_dscp, ..SaFlags::default() },
                }
            },
        )
    }

    /// An inner packet: its headers, and bytes that stand for it.
    fn inner() -> impl Strategy<Value = (Vec<u8>, Headers)> {
        let len = prop_oneof![8 => 40u16..200, 1 => 40u16..9000, 1 => 65_300u16..];
        (any::<bool>(), len, any::<u8>(), any::<bool>()).prop_map(|(is_v4, len, class, df)| {
            let (mut packet, payload_len) = match is_v4 {
                true => {
                    let fields = ipv4::Ipv4Fields {
                        traffic_class: class,
                        total_len: len,
                        ident: 0,
                        dont_fragment: df,
                        ttl: 9,
                        protocol: 253,
                        src: [10, 0, 0, 1].into(),
                        dst: [10, 0, 0, 2].into(),
                    };
                    (fields.to_bytes().to_vec(), len - 20)
                }
                false => {
                    let fields = ipv6::Ipv6Fields {
                        traffic_class: class,
                        flow_label: 1,
                        payload_len: len - 40,
                        next_header: 253,
                        hop_limit: 9,
                        src: 1u128.into(),
                        dst: 2u128.into(),
                    };
                    (fields.to_bytes().to_vec(), len - 40)
                }
            };
            packet.resize(packet.len() + usize::from(payload_len), 0xab);
            let h = parse_ip(&packet).unwrap();
            (packet, h)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        /// The straight path and the general one make the same of every packet: bytes, spans,
        /// errors. With an error the buffer is as it was.
        #[test]
        fn the_straight_path_does_what_the_general_one_does(
            params in tunnels(),
            (packet, mut h) in inner(),
            front in prop_oneof![4 => 72usize..100, 1 => 0usize..100],
            behind in prop_oneof![4 => 64usize..100, 2 => 0usize..100],
            (first, salt) in any::<(u64, u64)>(),
            (wrong_len, shift) in (prop::option::weighted(0.1, any::<u16>()), 0usize..2),
        ) {
            let session = || Session::new(params.suite, Box::new(()));
            let sa = || Sa::new(params.clone(), session(), LiveNumbers::on_heap(0)).unwrap();
            let (straight, general) = (sa().with_iv_salt(salt), sa().with_iv_salt(salt));
            let number = if params.esn { first } else { first & u64::from(u32::MAX) };
            if let Some(len) = wrong_len {
                h.total_len = len;
            }
            let mut buf = vec![0x5a; front];
            buf.extend_from_slice(&packet);
            buf.resize(buf.len() + behind, 0x5a);
            let before = buf.clone();
            let mut other = buf.clone();
            // A span past the packet's end, now and then.
            let span = Span { start: front, len: packet.len() + shift * behind };
            let ivs = || IvSource::from_seed([7; 32]);
            let one = straight.seal_prepare(&mut buf, span, &h, Number(number), &mut ivs(), 1500);
            let two = general.seal_any(&mut other, span, (&h).into(), number, &mut ivs(), 1500);
            prop_assert_eq!(one, two);
            match one {
                Ok(sealing) => {
                    // Behind the trailer there is nothing yet but room for the ICV.
                    for bytes in [&mut buf, &mut other] {
                        let icv_len = params.suite.icv_len_bytes();
                        bytes[sealing.esp.end() - icv_len..sealing.esp.end()].fill(0);
                    }
                    prop_assert_eq!(buf, other);
                }
                Err(_) => prop_assert!(buf == before && other == before),
            }
        }
    }

    /// The differential test would say nothing if no packet went the straight way.
    #[test]
    fn ordinary_packets_go_the_straight_way() {
        let mut ivs = IvSource::from_seed([7; 32]);
        let mut packet = [0xab; 100];
        packet[..40].copy_from_slice(
            &ipv6::Ipv6Fields {
                traffic_class: 0,
                flow_label: 0,
                payload_len: 60,
                next_header: 253,
                hop_limit: 9,
                src: 1u128.into(),
                dst: 2u128.into(),
            }
            .to_bytes(),
        );
        let h = parse_ip(&packet).unwrap();
        let addresses = [("192.0.2.1", "198.51.100.2"), ("2001:db8::1", "2001:db8:ffff::2")];
        for suite in Suite::all() {
            for (src, dst) in addresses {
                for encap in [None, Some(UdpEncap { src_port: 4500, dst_port: 4500 })] {
                    let params = SaParams {
                        spi: 0x100,
                        src: src.parse().unwrap(),
                        dst: dst.parse().unwrap(),
                        protocol: Protocol::Esp,
                        mode: Mode::Tunnel,
                        suite,
                        encap,
                        esn: true,
                        replay_window: 0,
                        tfc_pad_len: 0,
                        flags: SaFlags::default(),
                    };
                    let session = Session::new(suite, Box::new(()));
                    let sa = Sa::new(params, session, LiveNumbers::on_heap(0)).unwrap();
                    let mut buf = [0; 72 + 100 + 64];
                    buf[72..172].copy_from_slice(&packet);
                    let span = Span { start: 72, len: 100 };
                    let sealing = sa.seal_straight(&mut buf, span, (&h).into(), 1, &mut ivs);
                    let has_form =
                        !matches!((suite.iv_len_bytes(), suite.align_bytes()), (0, _) | (_, 8));
                    assert_eq!(sealing.is_some(), has_form, "{suite} {dst}");
                }
            }
        }
    }

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
        for pad_len in 0..16usize {
            for icv_len in [8, 12, 16, 32] {
                let mut behind = vec![0xa5; pad_len + TRAILER_LEN + icv_len];
                assert!(write_trailer(&mut behind, pad_len, 41).is_some(), "{pad_len}, {icv_len}");
                let (padding, fixed) = behind[..pad_len + TRAILER_LEN].split_at(pad_len);
                assert!(padding.iter().copied().eq(1..=pad_len as u8));
                assert_eq!(fixed, [pad_len as u8, 41]);
            }
        }
        assert!(write_trailer(&mut [0; 64], 16, 41).is_none());
        assert!(write_trailer(&mut [0; 7], 0, 41).is_none());
    }
}
