//! The errors built here against those that a Linux router sent about the same packets.

use forward::icmp_error::{MAX_LEN, build};
use forward::{Fib, IcmpCause, Reporter, RouteResult, RuleEntry};
use wire::{Family, Headers, parse_ip};

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn cause(name: &str, h: &Headers) -> IcmpCause {
    match &name[3..] {
        "time-exceeded" => IcmpCause::TimeExceeded,
        "too-big" => IcmpCause::TooBig { mtu: 1400 },
        "host-unreachable" | "address-unreachable" => IcmpCause::HostUnreachable,
        "no-route" => {
            let none = Fib::new([], RuleEntry::defaults(), None).lookup(h.dst, h.src, 0, 1);
            none.icmp_cause(h.family()).unwrap()
        }
        "unreachable-route" => RouteResult::Unreachable.icmp_cause(Family::V6).unwrap(),
        "prohibited" => RouteResult::Prohibit.icmp_cause(Family::V6).unwrap(),
        other => panic!("unknown case {other}"),
    }
}

#[test]
fn bytes_equal_those_of_linux() {
    let mut cases = 0;
    for line in include_str!("../data/linux-errors.txt").lines() {
        let [name, packet, want] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        if name == "#" {
            continue;
        }
        let (mut packet, mut want) = (hex(packet), hex(want));
        let h = parse_ip(&packet).unwrap();
        if name.ends_with("host-unreachable") || name.ends_with("address-unreachable") {
            // A packet that waited for its neighbour had its TTL decremented before.
            assert!(wire::decrement_ttl(&mut packet, &h));
        }
        let linux = parse_ip(&want).unwrap();
        let ident = match h.family() {
            Family::V4 => u16::from_be_bytes([want[4], want[5]]),
            Family::V6 => 0,
        };
        let reporter = Reporter { src: linux.src, ident };
        let mut out = [0; MAX_LEN];
        let len = build(cause(name, &h), &packet, &h, false, reporter, &mut out).unwrap();
        if h.family() == Family::V6 {
            // Linux labels the flow of its errors; the label is in no checksum.
            want[1] &= 0xf0;
            want[2..4].fill(0);
        }
        assert_eq!(out[..len], want, "{name}");
        cases += 1;
    }
    assert_eq!(cases, 9);
}
