//! Headers in front of a copy: IP, UDP, a label and a control word (RFC 9566 §4.2, RFC 9025 §3, RFC 8964 §4.2).

use core::net::IpAddr;

use wire::ipv4::{self, Ipv4Fields};
use wire::ipv6::{self, Ipv6Fields};
use wire::protocol;
use wire::udp::{self, UdpFields, UdpHeader};

/// UDP port of MPLS in UDP (RFC 7510 §3).
pub const PORT: u16 = 6635;

/// Numbers of a stream: 28 bits (RFC 8964 §4.2.1).
pub const NUMBERS: u32 = 1 << 28;

/// The first label that is no special one (RFC 3032 §2.1).
pub const FIRST_LABEL: u32 = 16;

/// Labels: 20 bits.
pub const LABELS: u32 = 1 << 20;

/// Length of UDP header, label and control word, in bytes.
pub const LEN: usize = udp::HEADER_LEN + 8;

/// TTL of the IP header and of the label.
const TTL: u8 = 64;

/// Bit of the label entry that is the last one.
const BOTTOM: u32 = 1 << 8;

/// Label and number of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Label of the stream, as its far end has assigned it.
    pub label: u32,
    /// Number of the packet, below [`NUMBERS`].
    pub number: u32,
}

/// Ends and class of a copy's own headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Address of this host.
    pub src: IpAddr,
    /// Address of the far end, of the same family.
    pub dst: IpAddr,
    /// Traffic class: DSCP and ECN of the packet inside.
    pub class: u8,
    /// UDP source port, one for each stream (RFC 9025 §4).
    pub src_port: u16,
}

/// Beginning of every payload of a stream.
pub(crate) struct Label {
    /// Label of the stream.
    pub(crate) label: u32,
    /// Control word, or what stands in its place.
    pub(crate) word: u32,
}

/// Reason that a datagram is no copy, and no parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its headers.
    Short,
    /// Not one label alone, or one of the special ones.
    Label,
    /// The control word begins with other bits than 0000, and is no header of a known associated channel (RFC 4385 §5).
    ControlWord,
    /// Parity of no packets, or longer than any.
    Parity,
}

/// Length of all headers in front of a packet to `dst`, in bytes.
pub const fn overhead(dst: IpAddr) -> usize {
    let ip = if dst.is_ipv6() { ipv6::HEADER_LEN } else { ipv4::MIN_HEADER_LEN };
    ip + LEN
}

impl Label {
    /// Reads what an IP payload begins with. Returns what follows, too.
    pub(crate) fn parse(payload: &[u8]) -> Result<(Label, &[u8]), Malformed> {
        let datagram = UdpHeader::parse(payload).map_err(|_| Malformed::Short)?;
        let ([l0, l1, l2, l3, c0, c1, c2, c3], rest) =
            datagram.payload().split_first_chunk().ok_or(Malformed::Short)?;
        let entry = u32::from_be_bytes([*l0, *l1, *l2, *l3]);
        let word = u32::from_be_bytes([*c0, *c1, *c2, *c3]);
        let label = entry >> 12;
        if entry & BOTTOM == 0 || label < FIRST_LABEL {
            return Err(Malformed::Label);
        }
        Ok((Label { label, word }, rest))
    }
}

impl Numbered {
    /// Writes all headers in front of a packet, for which `whole` has [`overhead`] bytes. The UDP checksum is 0 (RFC 7510 §3.1):
    /// copies go through tunnels that protect them whole. False if there is no room, the copy is too long for IP, or the
    /// ends are of two families.
    pub fn emit(&self, outside: Outside, whole: &mut [u8]) -> bool {
        let Numbered { label, number } = *self;
        Label { label, word: number % NUMBERS }.emit(outside, whole)
    }
}

impl Label {
    /// Writes all headers. See [`Numbered::emit`].
    pub(crate) fn emit(&self, outside: Outside, whole: &mut [u8]) -> bool {
        let Outside { src, dst, class, src_port } = outside;
        let at = overhead(dst) - LEN;
        let (Ok(total_len), Some(len)) =
            (u16::try_from(whole.len()), whole.len().checked_sub(at).filter(|len| *len >= LEN))
        else {
            return false;
        };
        // Not longer than the whole.
        let len = len as u16;
        let is_written = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4Fields {
                traffic_class: class,
                total_len,
                ident: 0,
                dont_fragment: true,
                ttl: TTL,
                protocol: protocol::UDP,
                src,
                dst,
            }
            .emit(whole)
            .is_ok(),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Fields {
                traffic_class: class,
                flow_label: 0,
                payload_len: len,
                next_header: protocol::UDP,
                hop_limit: TTL,
                src,
                dst,
            }
            .emit(whole)
            .is_ok(),
            _ => false,
        };
        let Some(above) = whole.get_mut(at..) else { return false };
        let udp = UdpFields { src_port, dst_port: PORT, len, checksum: 0 };
        if !is_written || udp.emit(above).is_err() {
            return false;
        }
        let entry = self.label << 12 | BOTTOM | u32::from(TTL);
        let words = above.get_mut(udp::HEADER_LEN..LEN).map(|words| words.as_chunks_mut::<4>().0);
        let Some([label, control]) = words else { return false };
        (*label, *control) = (entry.to_be_bytes(), self.word.to_be_bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parity::Content;
    use proptest::prelude::*;

    fn parse(payload: &[u8]) -> Result<Numbered, Malformed> {
        match Content::parse(payload)? {
            Content::Packet(numbered) => Ok(numbered),
            Content::Parity(parity) => panic!("{parity:?}"),
        }
    }

    fn outside(is_v6: bool) -> Outside {
        let addr = |last: u16| match is_v6 {
            true => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]),
            false => IpAddr::from([192, 0, 2, last as u8]),
        };
        Outside { src: addr(1), dst: addr(2), class: 46 << 2 | 1, src_port: 49_155 }
    }

    fn copy(numbered: Numbered, is_v6: bool, inside: &[u8]) -> Vec<u8> {
        let outside = outside(is_v6);
        let mut whole = vec![0; overhead(outside.dst)];
        whole.extend(inside);
        assert!(numbered.emit(outside, &mut whole));
        whole
    }

    /// By hand: RFC 9025 figure 2, RFC 8964 figures 3 and 4.
    #[test]
    fn the_bytes_are_those_of_the_standards() {
        let whole = copy(Numbered { label: 0x1_2345, number: 0x0abc_def1 }, false, &[7; 3]);
        assert_eq!(whole.len(), 20 + 8 + 4 + 4 + 3);
        assert_eq!(whole[..2], [0x45, 46 << 2 | 1]);
        assert_eq!(whole[8..10], [64, 17]);
        assert_eq!(whole[20..28], [0xc0, 0x03, 0x19, 0xeb, 0, 19, 0, 0]);
        assert_eq!(whole[28..36], [0x12, 0x34, 0x51, 64, 0x0a, 0xbc, 0xde, 0xf1]);
        assert_eq!(whole[36..], [7; 3]);
    }

    #[test]
    fn what_is_no_copy_is_refused() {
        let good = copy(Numbered { label: 16, number: 1 }, true, &[]);
        let payload = &good[40..];
        assert_eq!(parse(payload), Ok(Numbered { label: 16, number: 1 }));
        for len in 0..payload.len() {
            assert_eq!(parse(&payload[..len]), Err(Malformed::Short), "{len}");
        }
        for (at, byte, reason) in [
            (10, 0x00, Malformed::Label),
            (9, 0x00, Malformed::Label),
            (12, 0x10, Malformed::ControlWord),
            (12, 0xf0, Malformed::ControlWord),
            (5, 15, Malformed::Short),
        ] {
            let mut other = payload.to_vec();
            other[at] = byte;
            assert_eq!(parse(&other), Err(reason), "{at}");
        }
    }

    #[test]
    fn what_does_not_fit_is_not_written() {
        let numbered = Numbered { label: 16, number: 1 };
        let outside = outside(false);
        assert!(!numbered.emit(outside, &mut [0; 35]));
        assert!(!numbered.emit(outside, &mut vec![0; 65_536]));
        assert!(!numbered.emit(Outside { dst: IpAddr::from([0; 16]), ..outside }, &mut [0; 100]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(label in FIRST_LABEL..LABELS, number in 0..NUMBERS, is_v6: bool) {
            let numbered = Numbered { label, number };
            let whole = copy(numbered, is_v6, &[5; 20]);
            let h = wire::parse_ip(&whole).expect("headers");
            let ends = outside(is_v6);
            prop_assert_eq!((h.src, h.dst, h.src_port, h.dst_port), (ends.src, ends.dst, 49_155, PORT));
            prop_assert_eq!(parse(&whole[usize::from(h.header_len)..]), Ok(numbered));
        }
    }
}
