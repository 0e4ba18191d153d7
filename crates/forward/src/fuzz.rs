//! The entry point of fuzzers: everything here that reads bytes from outside.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{L4Checksum, parse_ip, verify_l4_checksum};

use crate::icmp_error::{IcmpCause, MAX_LEN, Reporter, Silence, build};
use crate::reassembly::join::{Join, JoinError};
use crate::reassembly::{Fate, FragmentKey, Piece, Reassembler, ReassemblyLimits, Treatment};
use crate::{Fib, RuleEntry, fragment};

/// Routes, fragments and answers the packet that the bytes are, if they are one. The first two
/// bytes choose MTU and cause.
///
/// # Panics
/// When one of these panics, or writes a packet that is not valid: that is the finding.
pub fn exercise(bytes: &[u8]) {
    let Some(([size, which], packet)) = bytes.split_first_chunk::<2>() else { return };
    let Ok(h) = parse_ip(packet) else { return };
    Fib::new([], RuleEntry::defaults(), None).lookup(h.dst, h.src, 0, 1);

    let mtu = 28 + usize::from(*size) * 4;
    let mut out = vec![0; mtu.max(packet.len())];
    if let Ok(plan) = fragment::plan(&h, packet, mtu) {
        for n in 0..plan.count() {
            let len = plan.write(n, &mut out).expect("the buffer holds every fragment");
            assert!(len <= mtu && len == plan.len_of(n));
            let fragment = out.get(..len).expect("inside the buffer");
            // A first fragment may be too short for its ports; its IP header is right always.
            wire::ipv4::Ipv4Header::parse(fragment).expect("a valid IPv4 packet");
        }
    }

    let cause = match which % 5 {
        0 => IcmpCause::TooBig { mtu: mtu as u32 },
        1 => IcmpCause::TimeExceeded,
        2 => IcmpCause::NoRoute,
        3 => IcmpCause::HostUnreachable,
        _ => IcmpCause::Prohibited,
    };
    let src = match h.src {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    };
    let reporter = Reporter { src, ident: 1 };
    let mut out = [0; MAX_LEN];
    if let Ok(len) = build(cause, packet, &h, false, reporter, &mut out) {
        let error = out.get(..len).expect("inside the buffer");
        let about = parse_ip(error).expect("a valid packet");
        assert_eq!(verify_l4_checksum(error, &about), L4Checksum::Valid);
        let again = build(cause, error, &about, false, reporter, &mut [0; MAX_LEN]);
        assert_eq!(again, Err(Silence::AboutError), "an error about an error");
    }
}

/// Puts fragments together: each record of the bytes is one, its header made from a few of them.
///
/// ```text
///   record  family, MF, joins: 1 | source, identification: 1 | offset: 1 | length: 1 | time: 1
/// ```
///
/// # Panics
/// When one of these panics, when a fragment is lost or doubled, or when a packet comes out that is not
/// valid or not what its fragments say: that is the finding.
pub fn reassemble(bytes: &[u8]) {
    const LIMITS: ReassemblyLimits = ReassemblyLimits {
        fragments: 24,
        packets: 8,
        per_source: 20,
        per_packet: 10,
        timeout_ns: 500,
    };
    let mut all: Reassembler<Vec<u8>, u8> = Reassembler::new(LIMITS);
    let (mut pushed, mut out, mut now_ns) = (0, 0, 0);
    for record in bytes.chunks_exact(5) {
        let &[what, who, offset, len, pause] = record else { continue };
        now_ns += u64::from(pause);
        all.expire(now_ns);
        let packet = match what & 1 {
            0 => fragment_v4(what, who, offset, len),
            _ => fragment_v6(what, who, offset, len),
        };
        let (Ok(h), Some(fields)) = (parse_ip(&packet), wire::FragmentFields::of(&packet)) else {
            continue;
        };
        let protocol = if h.src.is_ipv4() { h.protocol } else { 0 };
        let key = FragmentKey { src: h.src, dst: h.dst, protocol, ident: fields.ident, scope: 0 };
        let fate = if what & 4 == 0 { Treatment::Join } else { Treatment::Pass(what) };
        pushed += 1;
        out += usize::from(all.push(key, Piece::from(fields), packet, now_ns, |_| fate).is_err());
        out += core::iter::from_fn(|| all.pop_gone()).count();
        while let Some(mut done) = all.next_done() {
            let (fate, count) = (done.fate, done.count);
            let pieces = core::iter::from_fn(|| all.pop_piece(&mut done)).map(|piece| piece.1);
            let pieces: Vec<Vec<u8>> = pieces.collect();
            assert_eq!(pieces.len(), count);
            out += count;
            if let Fate::Join { head_len, len } = fate {
                check_join(&pieces, head_len, len);
            }
        }
        assert_eq!(all.len() + out, pushed, "a fragment was lost or doubled");
        assert!(all.len() < LIMITS.fragments);
    }
    all.clear();
    out += core::iter::from_fn(|| all.pop_gone()).count();
    assert_eq!((out, all.len()), (pushed, 0));
}

/// Holds a joined packet against its pieces: each is where it belongs.
fn check_join(pieces: &[Vec<u8>], head_len: usize, len: usize) {
    let mut out = vec![0; head_len + len];
    let Ok(mut join) = Join::new(head_len, len, &mut out) else {
        assert!(head_len + len > usize::from(u16::MAX));
        return;
    };
    for piece in pieces {
        join.add(piece).expect("a fragment that was taken in");
    }
    match join.finish() {
        Ok(total_len) => assert_eq!(total_len, head_len + len),
        Err(error) => return assert_eq!(error, JoinError::Ecn),
    }
    for piece in pieces {
        let fields = wire::FragmentFields::of(piece).expect("a fragment");
        let (at, len) = (usize::from(fields.payload_at), usize::from(fields.len));
        let to = head_len + usize::from(fields.offset);
        assert_eq!(out.get(to..to + len), piece.get(at..at + len));
    }
    match out.first().map(|first| first >> 4) {
        Some(4) => drop(wire::ipv4::Ipv4Header::parse(&out).expect("a valid header")),
        _ => drop(wire::ipv6::Ipv6Header::parse(&out).expect("a valid header")),
    }
    assert!(wire::FragmentFields::of(&out).is_none(), "still a fragment");
}

fn fragment_v4(what: u8, who: u8, offset: u8, len: u8) -> Vec<u8> {
    let payload_len = usize::from(len) * 4;
    let header = wire::ipv4::Ipv4Fields {
        traffic_class: what >> 4 & 3,
        total_len: (20 + payload_len) as u16,
        ident: (who & 3).into(),
        dont_fragment: false,
        ttl: 64,
        protocol: 50,
        src: [10, 0, 0, who >> 6].into(),
        dst: [10, 0, 1, 1].into(),
    };
    let mut packet = header.to_bytes().to_vec();
    // Near the beginning, or anywhere up to the end.
    let scale = if who & 0x20 == 0 { 1 } else { 257 };
    let word = (u16::from(offset % 32) * scale) | (u16::from(what & 2) << 12);
    packet.splice(6..8, word.to_be_bytes());
    wire::ipv4::fill_checksum(&mut packet);
    packet.extend((0..payload_len).map(|n| n as u8 ^ who));
    packet
}

fn fragment_v6(what: u8, who: u8, offset: u8, len: u8) -> Vec<u8> {
    let payload_len = usize::from(len) * 4;
    let options = usize::from(what & 8);
    let header = wire::ipv6::Ipv6Fields {
        traffic_class: what >> 4 & 3,
        flow_label: 0,
        payload_len: (options + 8 + payload_len) as u16,
        next_header: if options > 0 { 60 } else { 44 },
        hop_limit: 64,
        src: u128::from(who >> 6).into(),
        dst: 1.into(),
    };
    let mut packet = header.to_bytes().to_vec();
    if options > 0 {
        packet.extend([44, 0, 1, 4, 0, 0, 0, 0]);
    }
    let word = u16::from(offset % 32) << 3 | u16::from(what & 2) >> 1;
    let [high, low] = word.to_be_bytes();
    packet.extend([50, 0, high, low, 0, 0, 0, who & 3]);
    packet.extend((0..payload_len).map(|n| n as u8 ^ who));
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn records_of_few_packets(records in prop::collection::vec((0u8..16, 0u8..2, 0u8..6, prop::sample::select(vec![0u8, 2, 4, 5, 6]), 0u8..60), 0..60)) {
            let bytes: Vec<u8> = records.iter().flat_map(|r| [r.0, r.1, r.2, r.3, r.4]).collect();
            reassemble(&bytes);
        }

        #[test]
        fn noise_with_a_right_header(bytes in prop::collection::vec(any::<u8>(), 62..300), words in 5u8..=15) {
            let mut bytes = bytes;
            let len = bytes.len() as u16 - 2;
            if let Some(header) = bytes.get_mut(2..) {
                header[0] = 0x40 | words;
                header[2..4].copy_from_slice(&len.to_be_bytes());
                header[6] &= 0x60; // whole, or a first fragment
                header[7] = 0;
                wire::ipv4::fill_checksum(header);
            }
            exercise(&bytes);
            if let Some(header) = bytes.get_mut(2..) {
                header[0] = 0x60;
                header[4..6].copy_from_slice(&(len - 40).to_be_bytes());
            }
            exercise(&bytes);
        }
    }
}
