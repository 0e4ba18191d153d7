//! The entry point of fuzzers: everything here that reads bytes from outside.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{L4Checksum, parse_ip, verify_l4_checksum};

use crate::icmp_error::{IcmpCause, MAX_LEN, Reporter, Silence, build};
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

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
