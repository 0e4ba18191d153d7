//! The flow and the fields of a packet, straight from its bytes.
//!
//! The checks of [`parse_ip`](crate::parse_ip) on the most frequent kinds of packets, in a few wide
//! loads: IPv4 without options and IPv6 without extension headers, no fragment, TCP, UDP or ESP
//! above; and IP in IPv6, behind one routing header at most. Nothing is taken apart that only decides
//! about a flow whose plan is not known yet.

use crate::fields::{Fields, flag};
use crate::flow::FlowKey;
use crate::fragment::Fragment;
use crate::{Headers, ipv4, ipv6, protocol};

/// The two parts of a packet's headers: the flow's, which its packets have in common, and the
/// packet's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The fields that all packets of the flow share.
    pub flow: FlowKey,
    /// The fields of this packet.
    pub fields: Fields,
}

impl From<&Headers> for Summary {
    #[inline]
    fn from(h: &Headers) -> Summary {
        Summary { flow: FlowKey::of(h), fields: h.into() }
    }
}

/// The summary of the packet that `buffer` begins with and that has `len` bytes of it at most;
/// what follows in the buffer may be anything. Beside it, whether the TCP or UDP checksum could be
/// the pseudo header's sum alone: never `false` for one that is, `true` for one in 65535 others;
/// [`complete_partial`](crate::complete_partial) decides.
///
/// `None` for packets of any other kind, where the buffer ends within the longest headers of these
/// kinds, and wherever anything is wrong: [`parse_ip`](crate::parse_ip) says what then. Where there
/// is a summary, it is that of the headers that [`parse_ip`](crate::parse_ip) returns.
#[inline(always)]
pub fn summarize(buffer: &[u8], len: usize) -> Option<(Summary, bool)> {
    match buffer.first()? {
        0x45 => summarize_v4(buffer.first_chunk()?, len),
        0x60..=0x6f => summarize_v6(buffer.first_chunk()?, len),
        _ => None,
    }
}

#[inline(always)]
fn summarize_v4(bytes: &[u8; V4_LEN], len: usize) -> Option<(Summary, bool)> {
    let (first, second) = (long(bytes, 0), long(bytes, ipv4::field::TTL));
    let addresses = long(bytes, ipv4::field::SRC);
    let protocol = (second >> 8) as u8;
    let total_len = (first >> 16) as u16;
    let upper = Upper::of::<V4_LEN, { ipv4::MIN_HEADER_LEN }>(bytes, protocol)?;
    let total_len = total_len.swap_bytes();

    let is_fragment = first & FRAGMENT != 0;
    // The destination's half is what the two words do not have.
    let sum = add(add(first, second), addresses >> 32);
    let least = ipv4::MIN_HEADER_LEN + upper.header_len;
    if is_fragment
        || !sum.is_multiple_of(0xffff)
        || usize::from(total_len) < least
        || usize::from(total_len) > len
    {
        return None;
    }
    let dont_fragment = (first >> (FRAGMENT_AT + 6)) as u8 & 1;
    let summary = Summary {
        flow: FlowKey::plain([addresses, 0, 0, 0], upper.ports, protocol, 0, Fragment::Whole),
        fields: Fields::new(
            total_len,
            ipv4::MIN_HEADER_LEN as u16,
            second as u16,
            (first >> 8) as u8,
            dont_fragment * flag::DONT_FRAGMENT,
        ),
    };
    let upper_len = total_len - ipv4::MIN_HEADER_LEN as u16;
    Some((summary, upper.may_be_partial(addresses, protocol, upper_len)))
}

#[inline(always)]
fn summarize_v6(bytes: &[u8; V6_LEN], len: usize) -> Option<(Summary, bool)> {
    let first = long(bytes, 0);
    let payload_len = ((first >> 32) as u16).swap_bytes();
    let [protocol, ttl] = ((first >> 48) as u16).to_le_bytes();
    let Some(upper) = Upper::of::<V6_LEN, { ipv6::HEADER_LEN }>(bytes, protocol) else {
        return Some((summarize_tunnel(bytes, len)?, false));
    };
    let total_len = payload_len.checked_add(ipv6::HEADER_LEN as u16)?;
    if usize::from(payload_len) < upper.header_len || usize::from(total_len) > len {
        return None;
    }
    let addresses = [8, 16, 24, 32].map(|at| long(bytes, at));
    let [a, b, c, d] = addresses;
    let summary = Summary {
        flow: FlowKey::plain(addresses, upper.ports, protocol, 1, Fragment::Whole),
        fields: Fields::new(
            total_len,
            ipv6::HEADER_LEN as u16,
            u16::from_le_bytes([ttl, protocol]),
            ((first as u16).swap_bytes() >> 4) as u8,
            flag::V6 | flag::DONT_FRAGMENT,
        ),
    };
    let addresses = add(add(a, b), add(c, d));
    Some((summary, upper.may_be_partial(addresses, protocol, payload_len)))
}

/// IP in IPv6, with a routing header between or without: what tunnels and segments are (RFC 2473, RFC 8754).
#[inline(never)]
fn summarize_tunnel(bytes: &[u8; V6_LEN], len: usize) -> Option<Summary> {
    let start = long(bytes, 0).to_le_bytes();
    let [.., next_header, _] = start;
    let (protocol, header_len) = match next_header {
        protocol::ROUTING => {
            // Next Header, and the length in units of eight bytes.
            let [next_header, more, ..] = short(bytes, ipv6::HEADER_LEN).to_le_bytes();
            (next_header, ipv6::HEADER_LEN + (usize::from(more) + 1) * 8)
        }
        protocol => (protocol, ipv6::HEADER_LEN),
    };
    let fields = Fields::of_v6(start, header_len as u16, protocol)?;
    let total_len = usize::from(fields.total_len());
    if !matches!(protocol, protocol::IPV4 | protocol::IPV6)
        || total_len < header_len
        || total_len > len
    {
        return None;
    }
    let addresses = [8, 16, 24, 32].map(|at| long(bytes, at));
    Some(Summary { flow: FlowKey::plain(addresses, 0, protocol, 1, Fragment::Whole), fields })
}

/// Fields read of the layer above IP.
struct Upper {
    /// The least that must be there, in bytes.
    header_len: usize,
    /// As they lie in the packet; 0 if it has none.
    ports: u32,
    /// The checksum field as it lies in the packet, if it has one.
    checksum: Option<u16>,
    /// UDP's own length, as it lies in the packet.
    udp_len: u16,
}

impl Upper {
    /// `None` for other protocols than the three.
    #[inline(always)]
    fn of<const N: usize, const AT: usize>(bytes: &[u8; N], protocol: u8) -> Option<Upper> {
        let ports = short(bytes, AT) | short(bytes, AT + 2) << 16;
        match protocol {
            protocol::TCP => {
                let checksum = Some(short(bytes, AT + 16) as u16);
                Some(Upper { header_len: TCP_LEN, ports, checksum, udp_len: 0 })
            }
            protocol::UDP => {
                let checksum = Some(short(bytes, AT + 6) as u16);
                let udp_len = short(bytes, AT + 4) as u16;
                Some(Upper { header_len: 8, ports, checksum, udp_len })
            }
            protocol::ESP => Some(Upper { header_len: 8, ports: 0, checksum: None, udp_len: 0 }),
            _ => None,
        }
    }

    /// See [`summarize`]. Numbers of any size may be added, in the byte order of the
    /// packet: 2^16 is 1 modulo 0xffff (RFC 1071 §2).
    #[inline(always)]
    fn may_be_partial(&self, addresses: u64, protocol: u8, upper_len: u16) -> bool {
        let Some(checksum) = self.checksum else { return false };
        let len = match protocol {
            protocol::UDP => self.udp_len,
            _ => upper_len.swap_bytes(),
        };
        let others = u64::from(protocol) << 8;
        let others = others + u64::from(len) + u64::from(!checksum);
        add(addresses, others).is_multiple_of(0xffff)
    }
}

/// IPv4's header, and TCP's, which is the longest.
const V4_LEN: usize = ipv4::MIN_HEADER_LEN + TCP_LEN;
/// Length of IPv6's and TCP's fixed headers, in bytes.
const V6_LEN: usize = ipv6::HEADER_LEN + TCP_LEN;
/// TCP's without options.
const TCP_LEN: usize = 20;

/// Where flags and fragment offset are in the first eight bytes, in bits.
const FRAGMENT_AT: u32 = 8 * ipv4::field::FRAGMENT as u32;
/// More Fragments and the offset, there.
const FRAGMENT: u64 =
    ((ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK).swap_bytes() as u64) << FRAGMENT_AT;

/// Adds with end-around carry: modulo 2^64 - 1, and so modulo 0xffff too.
#[inline(always)]
const fn add(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u64
}

/// Eight bytes, the first in the lowest place. Zero past the end, where no caller reads: then the
/// place is a constant, and so is the check.
#[inline(always)]
fn long<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Two bytes, the same way.
#[inline(always)]
fn short<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or(0, |bytes| u16::from_le_bytes(*bytes).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{complete_partial, fill_l4_checksum, parse_ip};

    /// A packet as they come, its checksums right, the upper layer's perhaps only half done.
    fn packets() -> impl Strategy<Value = Vec<u8>> {
        let upper = prop::collection::vec(any::<u8>(), 0..60);
        let number = prop::sample::select(vec![6, 6, 17, 17, 50, 1, 58, 44, 41, 4, 43, 43]);
        (any::<bool>(), number, any::<[u8; 40]>(), upper, 0u8..4, any::<bool>()).prop_map(
            |(is_v4, number, mut header, mut upper, kind, half)| {
                if let (43, [next, more, ..]) = (number, &mut upper[..]) {
                    (*next, *more) = ([41, 4, 17, *next][usize::from(kind)], *more % 5);
                }
                let mut packet = match is_v4 {
                    true => {
                        header[0] = 0x45;
                        [header[2], header[3]] = (20 + upper.len() as u16).to_be_bytes();
                        header[6] &= if kind == 0 { 0xff } else { 0xc0 };
                        header[7] &= if kind == 0 { 0xff } else { 0 };
                        header[9] = number;
                        crate::ipv4::fill_checksum(&mut header[..20]);
                        header[..20].to_vec()
                    }
                    false => {
                        header[0] = 0x60 | header[0] >> 4;
                        [header[4], header[5]] = (upper.len() as u16).to_be_bytes();
                        header[6] = number;
                        header.to_vec()
                    }
                };
                let at = packet.len();
                packet.extend(&upper);
                if number == 17 && upper.len() > 6 && kind != 3 {
                    [packet[at + 4], packet[at + 5]] = (upper.len() as u16).to_be_bytes();
                }
                if let Ok(h) = parse_ip(&packet) {
                    match half {
                        true => leave_half(&mut packet, &h),
                        false => _ = fill_l4_checksum(&mut packet, &h),
                    }
                }
                packet
            },
        )
    }

    /// Stores the pseudo header's sum alone, as a sender does whose device completes it.
    fn leave_half(packet: &mut [u8], h: &Headers) {
        let upper = usize::from(h.header_len);
        let at = upper + if h.protocol == 6 { 16 } else { 6 };
        let len = match h.protocol {
            17 if packet.len() >= upper + 8 => {
                u16::from_be_bytes([packet[upper + 4], packet[upper + 5]])
            }
            6 => h.total_len - h.header_len,
            _ => return,
        };
        let pseudo = match (h.src, h.dst) {
            (core::net::IpAddr::V4(src), core::net::IpAddr::V4(dst)) => {
                crate::checksum::pseudo_header_v4(src, dst, h.protocol, len)
            }
            (core::net::IpAddr::V6(src), core::net::IpAddr::V6(dst)) => {
                crate::checksum::pseudo_header_v6(src, dst, h.protocol, len.into())
            }
            _ => return,
        };
        if let Some(field) = packet.get_mut(at..at + 2) {
            field.copy_from_slice(&pseudo.to_be_bytes());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        /// A summary, where there is one, says what the parser says, also of packets that are not quite
        /// right; and those that are have one.
        #[test]
        fn agrees_with_the_parser(
            packet in packets(),
            wrong in prop::option::of((any::<prop::sample::Index>(), 1u8..)),
            cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
            behind in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut packet = packet;
            if let Some((at, bits)) = wrong {
                let at = at.index(packet.len());
                packet[at] ^= bits;
            }
            if let Some(cut) = cut {
                packet.truncate(cut.index(packet.len()));
            }
            let mut buffer = packet.clone();
            buffer.extend(&behind);
            let parsed = parse_ip(&packet);
            match summarize(&buffer, packet.len()) {
                Some((summary, may_be_partial)) => {
                    let h = parsed.unwrap();
                    prop_assert_eq!(summary, Summary::from(&h));
                    if complete_partial(&mut packet, &h) {
                        prop_assert!(may_be_partial);
                    }
                }
                None => if let Ok(h) = parsed {
                    let base = if h.src.is_ipv4() { 20 } else { 40 };
                    let upper_len = usize::from(h.total_len) - base;
                    let is_plain = h.fragment == Fragment::Whole
                        && usize::from(h.header_len) == base
                        && matches!(h.protocol, 6 | 17 | 50)
                        && upper_len >= if h.protocol == 6 { 20 } else { 8 }
                        && buffer.len() >= base + 20;
                    let is_tunnel = h.src.is_ipv6()
                        && matches!(h.protocol, 4 | 41)
                        && matches!(packet[6], 4 | 41 | 43)
                        && (packet[6] != 43 || matches!(packet[40], 4 | 41))
                        && buffer.len() >= base + 20;
                    prop_assert!(!is_tunnel, "no summary of {:?}", h);
                    prop_assert!(!is_plain, "no summary of {:?}", h);
                }
            }
        }
    }

    /// Of a thousand packets whose checksum is right, few look half done.
    #[test]
    fn whole_checksums_do_not_look_partial() {
        let mut partial = 0;
        for n in 0..1000u16 {
            for v6 in [false, true] {
                let mut packet = vec![0x60, 0, 0, 0, 0, 24, 17, 64];
                packet.extend([7; 32]);
                if !v6 {
                    packet = vec![0x45, 0, 0, 44, 0, 0, 0, 0, 64, 17, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
                    crate::ipv4::fill_checksum(&mut packet);
                }
                packet.extend([4, 5, 6, 7, 0, 24, 0, 0]);
                packet.extend(n.to_be_bytes());
                packet.extend([0xc3; 14]);
                let h = parse_ip(&packet).unwrap();
                assert!(fill_l4_checksum(&mut packet, &h));
                packet.extend([0; 20]);
                let (_, may_be_partial) = summarize(&packet, packet.len()).unwrap();
                partial += usize::from(may_be_partial);
            }
        }
        assert!(partial < 3, "{partial}");
    }
}
