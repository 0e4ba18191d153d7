//! Each branch of the program, by trial frames (`BPF_PROG_TEST_RUN`).

use std::net::IpAddr;

use crate::common::in_namespace;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use steer::{
    Attached, Flow, Hook, Mode, Prefix, Sizes, Steer, SteerConfig, SteerError, UdpPorts, Verdict,
};
use wire::{EtherType, VlanTags};

pub const LOCAL4: [u8; 4] = [192, 0, 2, 1];
const PROTECTED4: [u8; 4] = [10, 1, 2, 3];
const OTHER4: [u8; 4] = [198, 51, 100, 9];
const SPI: u32 = 0x1234_5678;

pub fn local6() -> [u8; 16] {
    "2001:db8::1".parse::<std::net::Ipv6Addr>().expect("address").octets()
}

fn protected6() -> [u8; 16] {
    "fd00:1::99".parse::<std::net::Ipv6Addr>().expect("address").octets()
}

fn ethernet(tags: &[u16], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in tags {
        frame.extend(tag.to_be_bytes());
        frame.extend([0, 5]);
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

pub fn v4(dst: [u8; 4], protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 1];
    packet[2..4].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 203, 0, 113, 7]);
    packet.extend(dst);
    packet.extend(payload);
    ethernet(&[], 0x0800, &packet)
}

fn v6_hops(dst: [u8; 16], protocol: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([protocol, hops]);
    packet.extend([0xfd; 16]);
    packet.extend(dst);
    packet.extend(payload);
    ethernet(&[], 0x86dd, &packet)
}

pub fn v6(dst: [u8; 16], protocol: u8, payload: &[u8]) -> Vec<u8> {
    v6_hops(dst, protocol, 64, payload)
}

pub fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0x30, 0x39];
    datagram.extend(port.to_be_bytes());
    datagram.extend(((8 + payload.len()) as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    datagram
}

fn esp(spi: u32) -> Vec<u8> {
    let mut packet = spi.to_be_bytes().to_vec();
    packet.extend([0, 0, 0, 1]);
    packet.extend([0xee; 40]);
    packet
}

fn ah(spi: u32) -> Vec<u8> {
    [&[6, 4, 0, 0][..], &esp(spi)].concat()
}

/// Which of the programs that have the rule.
#[derive(Clone, Copy, PartialEq)]
pub enum Which {
    Plain,
    Frags,
    Packet,
}
use Which::{Frags, Packet, Plain};

pub const ALL: [Which; 3] = [Plain, Frags, Packet];

/// A program on the loopback interface with known tables, and no socket.
pub fn steer(take_unknown: bool, which: Which) -> Steer {
    let hook = if which == Packet { Hook::Packet } else { Hook::Xdp };
    let (mode, frags) = (Mode::Generic, which == Frags);
    let config = SteerConfig { hook, mode, frags, sizes: Sizes::default() };
    let (mut steer, attached) = Steer::load_and_attach("lo", &config).expect("loads");
    assert_eq!(attached, if which == Packet { Attached::Tcx } else { Attached::Generic });
    steer.set_local([IpAddr::from(LOCAL4), IpAddr::from(local6())]).expect("set");
    let prefix = |addr: IpAddr, len| Prefix::new(addr, len).expect("valid");
    steer
        .set_protected([prefix(PROTECTED4.into(), 16), prefix(protected6().into(), 64)])
        .expect("set");
    steer.set_sas([(IpAddr::from(LOCAL4), SPI), (IpAddr::from(local6()), SPI)]).expect("set");
    steer.set_take_unknown_esp(take_unknown).expect("set");
    steer.set_vlans([vlan(&[0x8100]), vlan(&[0x88a8, 0x8100])]).expect("set");
    steer
}

/// VLANs of number 5, with tags of these kinds.
fn vlan(tags: &[u16]) -> VlanTags {
    let with = |outer: VlanTags, tpid: &u16| outer.with(EtherType(*tpid), 5).expect("a VLAN");
    tags.iter().fold(VlanTags::NONE, with)
}

/// The one verdict that a frame moves. Without a socket every frame passes XDP; tc ends what it takes.
fn verdict(steer: &mut Steer, frame: &[u8]) -> Verdict {
    try_verdict(steer, frame).expect("a trial")
}

/// The same; an error where a packet port's two programs answer differently, as one is asked after the other.
fn try_verdict(steer: &mut Steer, frame: &[u8]) -> Result<Verdict, SteerError> {
    let before = steer.stats().expect("counters");
    let action = steer.try_frame(frame)?;
    let after = steer.stats().expect("counters");
    let moved = |verdict: &Verdict| after.count(*verdict) - before.count(*verdict);
    let given: Vec<_> =
        Verdict::ALL.into_iter().filter(|v| *v != Verdict::NoSocket && moved(v) > 0).collect();
    let [one] = given[..] else { panic!("verdicts {given:?}") };
    assert_eq!(moved(&one), 1);
    let is_tc = moved(&Verdict::NoSocket) == 0 && (one.is_taken() || action != 2);
    assert!(is_tc || moved(&Verdict::NoSocket) == u64::from(one.is_taken()));
    // TC_ACT_SHOT, TC_ACT_UNSPEC; XDP_PASS.
    let expected = if is_tc && !one.is_taken() { u32::MAX } else { 2 };
    assert_eq!(action, expected, "{one}");
    Ok(one)
}

#[track_caller]
pub fn assert_verdicts(steer: &mut Steer, cases: &[(&str, Vec<u8>, Verdict)]) {
    for (what, frame, expected) in cases {
        assert_eq!(verdict(steer, frame), *expected, "{what}");
    }
}

#[test]
fn what_is_not_for_ipsec_passes() {
    in_namespace(|| {
        let multicast6 = "ff02::1".parse::<std::net::Ipv6Addr>().expect("address").octets();
        let mut group = v4(PROTECTED4, 17, 0, &udp(9, b"x"));
        group[0] = 0xff;
        let tag = 0x8100;
        let cases = [
            ("ARP", ethernet(&[], 0x0806, &[0; 28]), Verdict::PassNotIp),
            ("tagged ARP", ethernet(&[tag], 0x0806, &[0; 28]), Verdict::PassNotIp),
            ("LLDP", ethernet(&[], 0x88cc, &[0; 50]), Verdict::PassNotIp),
            ("three tags", ethernet(&[tag; 3], 0x0800, &[0x45; 40]), Verdict::PassNotIp),
            ("tag cut off", ethernet(&[], tag, &[0, 5]), Verdict::PassMalformed),
            ("short IPv4", ethernet(&[], 0x0800, &[0x45; 19]), Verdict::PassMalformed),
            ("short IPv6", ethernet(&[], 0x86dd, &[0x60; 39]), Verdict::PassMalformed),
            ("IPv4 with version 6", ethernet(&[], 0x0800, &[0x65; 40]), Verdict::PassMalformed),
            ("IPv4 with a length of 4", ethernet(&[], 0x0800, &[0x41; 40]), Verdict::PassMalformed),
            ("group MAC", group, Verdict::PassMulticast),
            ("multicast", v4([224, 0, 0, 5], 89, 0, &[0; 40]), Verdict::PassMulticast),
            ("to no address", v4([0; 4], 17, 0, &udp(67, b"x")), Verdict::PassMulticast),
            ("broadcast", v4([255; 4], 17, 0, &udp(67, b"x")), Verdict::PassMulticast),
            ("IPv6 multicast", v6(multicast6, 17, &udp(9, b"x")), Verdict::PassMulticast),
            ("to us", v4(LOCAL4, 6, 0, &[0; 20]), Verdict::PassLocal),
            ("IPv6 to us", v6(local6(), 6, &[0; 20]), Verdict::PassLocal),
            ("transit", v4(OTHER4, 6, 0, &[0; 20]), Verdict::PassTransit),
            ("class E is no multicast", v4([240, 0, 0, 1], 6, 0, &[0; 20]), Verdict::PassTransit),
            ("ESP for others", v4(OTHER4, 50, 0, &esp(SPI)), Verdict::PassTransit),
            ("IKE for others", v4(OTHER4, 17, 0, &udp(500, &[0; 28])), Verdict::PassTransit),
        ];
        for which in ALL {
            // In a trial the kernel refuses these itself where a socket buffer is made of them.
            let is_tried = |what: &str| which != Packet || !what.starts_with("short");
            let cases: Vec<_> = cases.iter().filter(|case| is_tried(case.0)).cloned().collect();
            assert_verdicts(&mut steer(true, which), &cases);
        }
    });
}

#[test]
fn esp_and_ah_to_this_host_are_taken() {
    in_namespace(|| {
        let known = || {
            let options = {
                let mut packet = vec![0x46, 0, 0, 68, 0, 1, 0, 0, 64, 50, 0, 0, 203, 0, 113, 7];
                packet.extend(LOCAL4);
                packet.extend([1, 1, 1, 0]);
                packet.extend(esp(SPI));
                packet
            };
            let tagged = |tags: &[u16]| ethernet(tags, 0x0800, &v4(LOCAL4, 50, 0, &esp(SPI))[14..]);
            let mut behind = vec![60, 0, 0, 0, 0, 0, 0, 0, 50, 1];
            behind.extend([0; 14]);
            behind.extend(esp(SPI));
            [
                ("ESP", v4(LOCAL4, 50, 0, &esp(SPI)), Verdict::TakeEsp),
                ("ESP with DF", v4(LOCAL4, 50, 0x4000, &esp(SPI)), Verdict::TakeEsp),
                ("ESP after IPv4 options", ethernet(&[], 0x0800, &options), Verdict::TakeEsp),
                ("ESP behind a tag", tagged(&[0x8100]), Verdict::TakeEsp),
                ("ESP behind two tags", tagged(&[0x88a8, 0x8100]), Verdict::TakeEsp),
                ("IPv6 ESP", v6(local6(), 50, &esp(SPI)), Verdict::TakeEsp),
                ("IPv6 ESP after two headers", v6(local6(), 0, &behind), Verdict::TakeEsp),
                ("ESP in UDP", v4(LOCAL4, 17, 0, &udp(4500, &esp(SPI))), Verdict::TakeEsp),
                ("IPv6 ESP in UDP", v6(local6(), 17, &udp(4500, &esp(SPI))), Verdict::TakeEsp),
                ("AH", v4(LOCAL4, 51, 0, &ah(SPI)), Verdict::TakeEsp),
                ("IPv6 AH", v6(local6(), 51, &ah(SPI)), Verdict::TakeEsp),
            ]
        };
        let fragments = |expected| {
            let v6_fragment = [50, 0, 0, 1, 0, 0, 0, 9, 1, 2, 3, 4];
            [
                ("first fragment", v4(LOCAL4, 50, 0x2000, &esp(SPI)), expected),
                ("later fragment", v4(LOCAL4, 50, 3, &esp(1)), expected),
                ("IPv6 fragment", v6(local6(), 44, &v6_fragment), expected),
                ("fragment of AH", v4(LOCAL4, 51, 0x2000, &ah(SPI)), expected),
            ]
        };
        let unknown = |expected| {
            [
                ("unknown SPI", v4(LOCAL4, 50, 0, &esp(7)), expected),
                ("unknown SPI in UDP", v4(LOCAL4, 17, 0, &udp(4500, &esp(7))), expected),
                ("IPv6 unknown SPI", v6(local6(), 50, &esp(7)), expected),
                ("cut off in the SPI", v4(LOCAL4, 50, 0, &[1, 2]), expected),
                // What would be the SPI of ESP.
                ("unknown SPI of AH", v4(LOCAL4, 51, 0, &esp(SPI)), expected),
                ("cut off in the SPI of AH", v4(LOCAL4, 51, 0, &[6, 4, 0, 0, 1]), expected),
            ]
        };
        for which in ALL {
            let mut taking = steer(true, which);
            assert_verdicts(&mut taking, &known());
            assert_verdicts(&mut taking, &unknown(Verdict::TakeUnknownEsp));
            assert_verdicts(&mut taking, &fragments(Verdict::TakeEspFragment));
            taking.set_take_unknown_esp(false).expect("set");
            assert_verdicts(&mut taking, &known());
            assert_verdicts(&mut taking, &unknown(Verdict::PassUnknownEsp));
            assert_verdicts(&mut taking, &fragments(Verdict::PassUnknownEsp));
        }
    });
}

#[test]
fn ike_and_keepalives_pass() {
    in_namespace(|| {
        for which in [Plain, Packet] {
            let ike = [0; 28];
            let marked = udp(4500, &[0, 0, 0, 0, 9, 9, 9, 9]);
            let cases = [
                ("IKE", v4(LOCAL4, 17, 0, &udp(500, &ike)), Verdict::PassIke),
                ("IPv6 IKE", v6(local6(), 17, &udp(500, &ike)), Verdict::PassIke),
                ("IKE with marker", v4(LOCAL4, 17, 0, &marked), Verdict::PassIke),
                ("first fragment of IKE", v4(LOCAL4, 17, 0x2000, &marked), Verdict::PassIke),
                ("later fragment", v4(LOCAL4, 17, 0x2003, &esp(SPI)), Verdict::PassUdpFragment),
                ("keepalive", v4(LOCAL4, 17, 0, &udp(4500, &[0xff])), Verdict::PassKeepalive),
                ("other single byte", v4(LOCAL4, 17, 0, &udp(4500, &[0xfe])), Verdict::PassIke),
                (
                    "padded keepalive",
                    {
                        let mut frame = v4(LOCAL4, 17, 0, &udp(4500, &[0xff]));
                        frame.resize(60, 0);
                        frame
                    },
                    Verdict::PassKeepalive,
                ),
                ("empty datagram", v4(LOCAL4, 17, 0, &udp(4500, &[])), Verdict::PassIke),
                ("three bytes", v4(LOCAL4, 17, 0, &udp(4500, &[1, 2, 3])), Verdict::PassIke),
                // As much as an SPI, which makes it ESP however short it is.
                ("four bytes", v4(LOCAL4, 17, 0, &udp(4500, &SPI.to_be_bytes())), Verdict::TakeEsp),
                ("cut UDP header", v4(LOCAL4, 17, 0, &[1, 2, 3]), Verdict::PassLocal),
                ("other UDP", v4(LOCAL4, 17, 0, &udp(53, &esp(SPI))), Verdict::PassLocal),
            ];
            let mut steer = steer(true, which);
            assert_verdicts(&mut steer, &cases);
            // Other ports, and a port that changes its kind.
            let ports = UdpPorts { ike: vec![4500, 1500], natt: vec![500], overlays: Vec::new() };
            steer.set_udp_ports(&ports).expect("set");
            let esp_at = |port| v4(LOCAL4, 17, 0, &udp(port, &esp(SPI)));
            let cases = [
                ("now NAT-T", esp_at(500), Verdict::TakeEsp),
                ("now IKE", esp_at(4500), Verdict::PassIke),
                ("new IKE", esp_at(1500), Verdict::PassIke),
            ];
            assert_verdicts(&mut steer, &cases);
        }
    });
}

/// A frame of a VLAN is judged as one without tags, if culvert carries the VLAN on.
#[test]
fn of_vlans_those_in_the_table_are_judged() {
    in_namespace(|| {
        for which in [Plain, Packet] {
            let transit = v4(PROTECTED4, 17, 0, &udp(9, b"x"))[14..].to_vec();
            let with = |tags: &[(u16, u16)], ethertype: u16, packet: &[u8]| {
                let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
                for (tpid, tci) in tags {
                    frame.extend([tpid.to_be_bytes(), tci.to_be_bytes()].concat());
                }
                frame.extend(ethertype.to_be_bytes());
                frame.extend(packet);
                frame
            };
            let tagged = |tags: &[(u16, u16)]| with(tags, 0x0800, &transit);
            let (q, ad) = (0x8100, 0x88a8);
            let (taken, passed) = (Verdict::TakeTransit, Verdict::PassVlan);
            let mut steer = steer(true, which);
            let cases = [
                ("known", tagged(&[(q, 5)]), taken),
                ("with a priority", tagged(&[(q, 0xe005)]), taken),
                ("a priority alone", tagged(&[(q, 0xe000)]), taken),
                ("a priority in front", tagged(&[(q, 0xe000), (q, 5)]), taken),
                ("a priority behind", tagged(&[(q, 5), (q, 0x2000)]), taken),
                ("two tags", tagged(&[(ad, 5), (q, 5)]), taken),
                ("another number", tagged(&[(q, 6)]), passed),
                ("all ones", tagged(&[(q, 0xffff)]), passed),
                ("another kind", tagged(&[(ad, 5)]), passed),
                ("a stack of other kinds", tagged(&[(q, 5), (q, 5)]), passed),
                ("the wrong way round", tagged(&[(q, 5), (ad, 5)]), passed),
                ("three tags", tagged(&[(ad, 5), (q, 5), (q, 5)]), Verdict::PassNotIp),
                ("ARP", with(&[(q, 6)], 0x0806, &[0; 28]), Verdict::PassNotIp),
                (
                    "IPv6",
                    with(&[(q, 5)], 0x86dd, &v6(protected6(), 17, &udp(9, b"x"))[14..]),
                    taken,
                ),
            ];
            assert_verdicts(&mut steer, &cases);
            steer.set_vlans([vlan(&[0x8100, 0x8100])]).expect("set");
            let cases = [
                ("gone", tagged(&[(q, 5)]), passed),
                ("new", tagged(&[(q, 5), (q, 5)]), taken),
                ("untagged", tagged(&[]), taken),
            ];
            assert_verdicts(&mut steer, &cases);
            steer.set_vlans([VlanTags::NONE]).expect("none");
            assert_verdicts(&mut steer, &[("none", tagged(&[(q, 5), (q, 5)]), passed)]);
        }
    });
}

/// Only where there may be ESP in UDP, and then all of them: IKE's own go back.
#[test]
fn fragments_of_udp_are_taken_together() {
    in_namespace(|| {
        for which in [Plain, Packet] {
            let ike = udp(4500, &[0, 0, 0, 0, 9, 9, 9, 9]);
            let mut v6_later = vec![17, 0, 0, 9, 0, 0, 0, 9];
            v6_later.extend([7; 16]);
            let all = |first, later| {
                [
                    ("first of ESP", v4(LOCAL4, 17, 0x2000, &udp(4500, &esp(SPI))), first),
                    ("later", v4(LOCAL4, 17, 0x2003, &esp(SPI)), later),
                    ("last", v4(LOCAL4, 17, 3, &esp(SPI)), later),
                    ("IPv6 later", v6(local6(), 44, &v6_later), later),
                ]
            };
            let mut steer = steer(true, which);
            assert_verdicts(&mut steer, &all(Verdict::TakeEsp, Verdict::PassUdpFragment));
            steer.set_take_udp_fragments(true).expect("set");
            let taken = Verdict::TakeUdpFragment;
            assert_verdicts(&mut steer, &all(taken, taken));
            let others = [
                ("first of IKE", v4(LOCAL4, 17, 0x2000, &ike), taken),
                ("first of other UDP", v4(LOCAL4, 17, 0x2000, &udp(53, &[7; 16])), taken),
                ("whole", v4(LOCAL4, 17, 0, &udp(53, &[7; 16])), Verdict::PassLocal),
                ("not for this host", v4(OTHER4, 17, 0x2003, &esp(SPI)), Verdict::PassTransit),
            ];
            assert_verdicts(&mut steer, &others);
            // Where the kernel has ESP it puts them together.
            steer.set_take_unknown_esp(false).expect("set");
            assert_verdicts(&mut steer, &all(Verdict::TakeEsp, Verdict::PassUdpFragment));
        }
    });
}

#[test]
fn too_big_about_esp_is_taken() {
    in_namespace(|| {
        for which in [Plain, Packet] {
            let quoted4 = |protocol: u8, payload: &[u8]| {
                let mut icmp = vec![3, 4, 0, 0, 0, 0, 5, 0x14];
                icmp.extend(&v4(OTHER4, protocol, 0x4000, payload)[14..]);
                icmp
            };
            let quoted6 = |protocol: u8, payload: &[u8]| {
                let mut icmp = vec![2, 0, 0, 0, 0, 0, 5, 0x14];
                icmp.extend(&v6(protected6(), protocol, payload)[14..]);
                icmp
            };
            let changed = |mut icmp: Vec<u8>, at: usize, to: u8| {
                icmp[at] = to;
                icmp
            };
            // Quoted datagrams have their source port first.
            let natt = [&4500u16.to_be_bytes()[..], &[9; 14]].concat();
            let other = [&53u16.to_be_bytes()[..], &[9; 14]].concat();
            let (taken, passed) = (Verdict::TakeTooBig, Verdict::PassLocal);
            let cases = [
                ("ESP", v4(LOCAL4, 1, 0, &quoted4(50, &esp(SPI))), taken),
                ("ESP in UDP", v4(LOCAL4, 1, 0, &quoted4(17, &natt)), taken),
                ("other UDP", v4(LOCAL4, 1, 0, &quoted4(17, &other)), passed),
                ("TCP", v4(LOCAL4, 1, 0, &quoted4(6, &natt)), passed),
                ("other code", v4(LOCAL4, 1, 0, &changed(quoted4(50, &esp(SPI)), 1, 3)), passed),
                ("other type", v4(LOCAL4, 1, 0, &changed(quoted4(50, &esp(SPI)), 0, 11)), passed),
                ("cut off", v4(LOCAL4, 1, 0, &quoted4(50, &[])[..20]), passed),
                ("a fragment", v4(LOCAL4, 1, 0x2000, &quoted4(50, &esp(SPI))), passed),
                (
                    "not for this host",
                    v4(OTHER4, 1, 0, &quoted4(50, &esp(SPI))),
                    Verdict::PassTransit,
                ),
                ("IPv6 ESP", v6(local6(), 58, &quoted6(50, &esp(SPI))), taken),
                ("IPv6 ESP in UDP", v6(local6(), 58, &quoted6(17, &natt)), taken),
                ("IPv6 other UDP", v6(local6(), 58, &quoted6(17, &other)), passed),
                (
                    "IPv6 other type",
                    v6(local6(), 58, &changed(quoted6(50, &esp(SPI)), 0, 1)),
                    passed,
                ),
                ("IPv6 echo", v6(local6(), 58, &[128; 60]), passed),
            ];
            let mut steer = steer(true, which);
            assert_verdicts(&mut steer, &cases);
        }
    });
}

/// Where packets get segments: errors of every kind about what may be one of them.
#[test]
fn errors_about_segments_are_taken() {
    in_namespace(|| {
        for which in ALL {
            let quoted = |kind: u8, protocol: u8| {
                let mut icmp = vec![kind, 0, 0, 0, 0, 0, 5, 0x14];
                icmp.extend(&v6(protected6(), protocol, &[0; 48])[14..]);
                v6(local6(), 58, &icmp)
            };
            let mut steer = steer(true, which);
            for (is_on, taken) in [(false, Verdict::PassLocal), (true, Verdict::TakeTooBig)] {
                steer.set_take_segment_errors(is_on).expect("set");
                let cases = [
                    ("unreachable", quoted(1, 43), taken),
                    ("too big", quoted(2, 43), taken),
                    ("time exceeded", quoted(3, 43), taken),
                    ("parameter problem", quoted(4, 43), taken),
                    ("of IPv4 in IPv6", quoted(2, 4), taken),
                    ("of IPv6 in IPv6", quoted(1, 41), taken),
                    ("of frames", quoted(2, 143), taken),
                    ("of ESP", quoted(2, 50), Verdict::TakeTooBig),
                    ("unreachable of ESP", quoted(1, 50), Verdict::PassLocal),
                    ("another type", quoted(5, 43), Verdict::PassLocal),
                    ("no type", quoted(0, 43), Verdict::PassLocal),
                    ("of TCP", quoted(2, 6), Verdict::PassLocal),
                ];
                assert_verdicts(&mut steer, &cases);
            }
        }
    });
}

#[test]
fn protected_destinations_are_taken() {
    in_namespace(|| {
        for which in [Plain, Packet] {
            let mut steer = steer(true, which);
            let beyond = [10, 2, 0, 0];
            let many_headers = [[60, 0, 0, 0, 0, 0, 0, 0]; 8].concat();
            let cases = [
                ("transit", v4(PROTECTED4, 6, 0, &[0; 20]), Verdict::TakeTransit),
                ("transit fragment", v4(PROTECTED4, 17, 0x2005, &[0; 20]), Verdict::TakeTransit),
                ("transit ESP", v4(PROTECTED4, 50, 0, &esp(SPI)), Verdict::TakeTransit),
                ("transit IKE", v4(PROTECTED4, 17, 0, &udp(500, &[0; 28])), Verdict::TakeTransit),
                ("just beyond", v4(beyond, 6, 0, &[0; 20]), Verdict::PassTransit),
                ("IPv6 transit", v6(protected6(), 58, &[128, 0, 0, 0]), Verdict::TakeTransit),
                ("too many headers", v6(protected6(), 60, &many_headers), Verdict::TakeTransit),
                ("header cut off", v6(protected6(), 0, &[6]), Verdict::TakeTransit),
                ("header beyond the frame", v6(protected6(), 60, &[50, 255]), Verdict::TakeTransit),
                ("fragment cut off", v6(protected6(), 44, &[6, 0, 0]), Verdict::TakeTransit),
            ];
            assert_verdicts(&mut steer, &cases);
            // An address of this host in a protected prefix: cleartext is for the policies to judge,
            // IKE and ESP are as ever.
            steer.set_local([IpAddr::from(PROTECTED4), IpAddr::from(protected6())]).expect("set");
            steer.add_sa(PROTECTED4.into(), SPI).expect("set");
            let cases = [
                ("cleartext", v4(PROTECTED4, 6, 0, &[0; 20]), Verdict::TakeLocal),
                ("IPv6 cleartext", v6(protected6(), 17, &udp(53, b"x")), Verdict::TakeLocal),
                ("IKE", v4(PROTECTED4, 17, 0, &udp(500, &[0; 28])), Verdict::PassIke),
                ("ESP", v4(PROTECTED4, 50, 0, &esp(SPI)), Verdict::TakeEsp),
                ("formerly local", v4(LOCAL4, 6, 0, &[0; 20]), Verdict::PassTransit),
            ];
            assert_verdicts(&mut steer, &cases);
            steer.remove_sa(PROTECTED4.into(), SPI).expect("set");
            steer
                .set_protected([Prefix::new(IpAddr::from([0; 4]), 0).expect("valid")])
                .expect("set");
            let cases = [
                ("ESP of no SA", v4(PROTECTED4, 50, 0, &esp(SPI)), Verdict::TakeUnknownEsp),
                ("everything is protected", v4(OTHER4, 6, 0, &[0; 20]), Verdict::TakeTransit),
                ("not IPv6", v6(protected6(), 6, &[0; 20]), Verdict::PassLocal),
            ];
            assert_verdicts(&mut steer, &cases);
        }
    });
}

#[test]
fn neighbour_discovery_passes_but_is_no_way_around() {
    in_namespace(|| {
        for which in [Plain, Packet] {
            let link_local = "fe80::1".parse::<std::net::Ipv6Addr>().expect("address").octets();
            let message = |kind| [kind, 0, 0, 0, 0, 0, 0, 0];
            let mut steer = steer(false, which);
            steer.set_local([IpAddr::from(protected6())]).expect("set");
            steer
                .set_protected([Prefix::new(IpAddr::from([0; 16]), 0).expect("valid")])
                .expect("set");
            for kind in 133..=137 {
                for dst in [protected6(), link_local] {
                    let frame = v6_hops(dst, 58, 255, &message(kind));
                    assert_eq!(verdict(&mut steer, &frame), Verdict::PassNeighbour, "type {kind}");
                }
            }
            let other = "fd00:1::55".parse::<std::net::Ipv6Addr>().expect("address").octets();
            let mut fragment = vec![58, 0, 0, 1, 0, 0, 0, 9];
            fragment.extend(message(135));
            let cases = [
                ("echo", v6_hops(protected6(), 58, 255, &message(128)), Verdict::TakeLocal),
                ("type 132", v6_hops(protected6(), 58, 255, &message(132)), Verdict::TakeLocal),
                ("type 138", v6_hops(protected6(), 58, 255, &message(138)), Verdict::TakeLocal),
                ("routed", v6_hops(protected6(), 58, 254, &message(135)), Verdict::TakeLocal),
                ("fragment", v6_hops(protected6(), 44, 255, &fragment), Verdict::TakeLocal),
                ("to another host", v6_hops(other, 58, 255, &message(135)), Verdict::TakeTransit),
            ];
            assert_verdicts(&mut steer, &cases);
        }
    });
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

const MINUTE_NS: u64 = 60_000_000_000;

#[test]
fn with_a_watchdog_only_a_living_daemon_takes() {
    in_namespace(|| {
        let frames = |alive: bool| {
            let or_pass = |verdict| if alive { verdict } else { Verdict::PassNoDaemon };
            let mut too_big = vec![3, 4, 0, 0, 0, 0, 5, 0x14];
            too_big.extend(&v4(OTHER4, 50, 0x4000, &esp(SPI))[14..]);
            [
                ("ESP", v4(LOCAL4, 50, 0, &esp(SPI)), or_pass(Verdict::TakeEsp)),
                ("in UDP", v4(LOCAL4, 17, 0, &udp(4500, &esp(SPI))), or_pass(Verdict::TakeEsp)),
                ("IPv6 AH", v6(local6(), 51, &ah(SPI)), or_pass(Verdict::TakeEsp)),
                ("unknown", v4(LOCAL4, 50, 0, &esp(7)), or_pass(Verdict::TakeUnknownEsp)),
                ("part", v4(LOCAL4, 50, 0x2000, &esp(SPI)), or_pass(Verdict::TakeEspFragment)),
                ("part of UDP", v4(LOCAL4, 17, 3, &esp(1)), or_pass(Verdict::TakeUdpFragment)),
                ("too big", v4(LOCAL4, 1, 0, &too_big), or_pass(Verdict::TakeTooBig)),
                ("transit", v4(PROTECTED4, 6, 0, &[0; 20]), or_pass(Verdict::TakeTransit)),
                ("IPv6 transit", v6(protected6(), 6, &[0; 20]), or_pass(Verdict::TakeTransit)),
                ("ARP", ethernet(&[], 0x0806, &[0; 28]), Verdict::PassNotIp),
                ("IKE", v4(LOCAL4, 17, 0, &udp(500, &[0; 28])), Verdict::PassIke),
                ("other", v4(OTHER4, 6, 0, &[0; 20]), Verdict::PassTransit),
            ]
        };
        for which in ALL {
            let mut steer = steer(true, which);
            steer.set_take_udp_fragments(true).expect("set");
            assert_verdicts(&mut steer, &frames(true));
            steer.set_watchdog(true).expect("set");
            // Nobody has said yet that he is alive.
            assert_verdicts(&mut steer, &frames(false));
            steer.beat(now_ns() + MINUTE_NS).expect("set");
            assert_verdicts(&mut steer, &frames(true));
            let over = v4(PROTECTED4, 6, 0, &[0; 20]);
            // At once, and later by itself.
            for lasts in [0, 50_000_000] {
                steer.beat(now_ns() + lasts).expect("set");
                // Noticed in the next jiffy.
                std::thread::sleep(std::time::Duration::from_nanos(lasts + 20_000_000));
                // The machine may have stood still: what comes first is still taken.
                assert_eq!(verdict(&mut steer, &over), Verdict::TakeTransit);
                let begun = std::time::Instant::now();
                while !try_verdict(&mut steer, &over).is_ok_and(|v| v == Verdict::PassNoDaemon) {
                    assert!(begun.elapsed().as_secs() < 10, "still alive");
                }
                assert!(begun.elapsed().as_millis() >= 180, "no moment for the daemon");
                assert_verdicts(&mut steer, &frames(false));
            }
            // One that had its turn in that moment is alive.
            steer.beat(now_ns()).expect("set");
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert_eq!(verdict(&mut steer, &over), Verdict::TakeTransit);
            steer.beat(now_ns() + MINUTE_NS).expect("set");
            std::thread::sleep(std::time::Duration::from_millis(250));
            assert_verdicts(&mut steer, &frames(true));
            steer.beat(0).expect("set");
            steer.set_watchdog(false).expect("set");
            assert_verdicts(&mut steer, &frames(true));
        }
    });
}

#[test]
fn one_packet_of_a_sampled_sa_passes() {
    in_namespace(|| {
        let (v4_dst, v6_dst) = (IpAddr::from(LOCAL4), IpAddr::from(local6()));
        let kinds = [
            (v4_dst, v4(LOCAL4, 50, 0, &esp(SPI))),
            (v4_dst, v4(LOCAL4, 17, 0, &udp(4500, &esp(SPI)))),
            (v4_dst, v4(LOCAL4, 51, 0, &ah(SPI))),
            (v6_dst, v6(local6(), 50, &esp(SPI))),
            (v6_dst, v6(local6(), 17, &udp(4500, &esp(SPI)))),
        ];
        for which in ALL {
            let mut steer = steer(true, which);
            for (dst, frame) in &kinds {
                let other = match dst {
                    IpAddr::V4(_) => v6(local6(), 50, &esp(SPI)),
                    IpAddr::V6(_) => v4(LOCAL4, 50, 0, &esp(SPI)),
                };
                assert_eq!(verdict(&mut steer, frame), Verdict::TakeEsp);
                // Asked for twice before one has come, it is still one.
                assert!(steer.sample_sa(*dst, SPI).expect("set"));
                assert!(steer.sample_sa(*dst, SPI).expect("set"));
                assert_eq!(verdict(&mut steer, &other), Verdict::TakeEsp, "another SA");
                // A fragment has no part in it.
                let part = v4(LOCAL4, 50, 0x2000, &esp(SPI));
                assert_eq!(verdict(&mut steer, &part), Verdict::TakeEspFragment);
                assert_eq!(verdict(&mut steer, frame), Verdict::PassSample);
                for _ in 0..3 {
                    assert_eq!(verdict(&mut steer, frame), Verdict::TakeEsp, "taken again");
                }
            }
            // What is in no table is not put there.
            assert!(!steer.sample_sa(v4_dst, 7).expect("set"));
            let unknown = v4(LOCAL4, 50, 0, &esp(7));
            assert_eq!(verdict(&mut steer, &unknown), Verdict::TakeUnknownEsp);
            // Neither is what was removed; and one that comes again is taken from its first packet.
            assert!(steer.sample_sa(v4_dst, SPI).expect("set"));
            steer.remove_sa(v4_dst, SPI).expect("set");
            assert!(!steer.sample_sa(v4_dst, SPI).expect("set"));
            assert_eq!(verdict(&mut steer, &kinds[0].1), Verdict::TakeUnknownEsp);
            steer.add_sa(v4_dst, SPI).expect("set");
            assert_eq!(verdict(&mut steer, &kinds[0].1), Verdict::TakeEsp);
        }
    });
}

#[test]
fn arbitrary_frames_get_exactly_one_verdict() {
    in_namespace(|| {
        for which in [Plain, Packet] {
            let steer = std::cell::RefCell::new(steer(true, which));
            let seed = prop::sample::select(vec![
                v4(LOCAL4, 17, 0, &udp(4500, &esp(SPI))),
                v4(PROTECTED4, 50, 0, &esp(SPI)),
                v6(local6(), 0, &[[44, 0, 0, 0, 0, 0, 0, 0], [50, 0, 0, 1, 0, 0, 0, 9]].concat()),
                v6_hops(protected6(), 58, 255, &[135; 30]),
            ]);
            // See what_is_not_for_ipsec_passes().
            let shortest = if which == Packet { 54 } else { 15 };
            let damage = prop::collection::vec((0_usize..110, any::<u8>()), 0..6);
            let mut runner = TestRunner::new(Config { cases: 2000, ..Config::default() });
            let result =
                runner.run(&(seed, damage, shortest..120_usize), |(mut frame, damage, len)| {
                    frame.resize(len, 0);
                    for (at, value) in damage {
                        if let Some(byte) = frame.get_mut(at) {
                            *byte = value;
                        }
                    }
                    verdict(&mut steer.borrow_mut(), &frame);
                    Ok(())
                });
            result.expect("one verdict each");
        }
    });
}

#[test]
fn known_flows_come_first() {
    for hook in [Hook::Xdp, Hook::Packet] {
        in_namespace(move || {
            let sizes = Sizes { flows: 64, ..Sizes::default() };
            let config = SteerConfig { hook, mode: Mode::Generic, sizes, ..SteerConfig::default() };
            let (mut steer, _) = Steer::load_and_attach("lo", &config).expect("loads");
            steer.set_local([IpAddr::from(LOCAL4), IpAddr::from(local6())]).expect("set");
            steer.set_take_unknown_esp(true).expect("set");
            let (src4, src6) = (IpAddr::from([203, 0, 113, 7]), IpAddr::from([0xfd; 16]));
            let flow = |dst: IpAddr, protocol, src_port, dst_port| {
                let src = if dst.is_ipv4() { src4 } else { src6 };
                Flow { src, dst, protocol, src_port, dst_port }
            };
            let flows = [
                flow(LOCAL4.into(), 17, 0x3039, 4500),
                flow(OTHER4.into(), 6, 1000, 80),
                flow(LOCAL4.into(), 1, 0x1234, 0),
                flow(local6().into(), 17, 0x3039, 9),
                flow(local6().into(), 58, 0x1234, 129 << 8),
            ];
            let tcp = |flags: u8| {
                let mut segment =
                    [&1000u16.to_be_bytes()[..], &80u16.to_be_bytes(), &[0; 16]].concat();
                segment[13] = flags;
                segment
            };
            let echo = |kind: u8| vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1];
            let mut options = v4(LOCAL4, 17, 0, &[&[0; 4][..], &udp(4500, &esp(SPI))].concat());
            options[14] = 0x46;
            let taken = [
                ("ESP in UDP of others", v4(LOCAL4, 17, 0, &udp(4500, &esp(SPI)))),
                ("TCP", v4(OTHER4, 6, 0, &tcp(0x10))),
                ("an answer to a ping", v4(LOCAL4, 1, 0, &echo(0))),
                ("UDP over IPv6", v6(local6(), 17, &udp(9, b"x"))),
                ("an answer to a ping over IPv6", v6(local6(), 58, &echo(129))),
            ];
            let without = [Verdict::TakeUnknownEsp, Verdict::PassTransit, Verdict::PassLocal];
            let without = without.into_iter().chain([Verdict::PassLocal; 2]);
            for ((what, frame), verdict) in taken.iter().zip(without) {
                assert_verdicts(&mut steer, &[(what, frame.clone(), verdict)]);
            }
            flows.iter().for_each(|flow| steer.set_flow(flow, true).expect("room"));
            for (what, frame) in &taken {
                assert_verdicts(&mut steer, &[(what, frame.clone(), Verdict::TakeFlow)]);
            }
            assert_verdicts(
                &mut steer,
                &[
                    ("SYN", v4(OTHER4, 6, 0, &tcp(0x02)), Verdict::PassTransit),
                    ("FIN", v4(OTHER4, 6, 0, &tcp(0x11)), Verdict::PassTransit),
                    ("RST", v4(OTHER4, 6, 0, &tcp(0x04)), Verdict::PassTransit),
                    ("a fragment", v4(OTHER4, 6, 0x2000, &tcp(0x10)), Verdict::PassTransit),
                    ("cut short", v4(OTHER4, 6, 0, &tcp(0x10)[..13]), Verdict::PassTransit),
                    ("an error", v4(LOCAL4, 1, 0, &echo(3)), Verdict::PassLocal),
                    ("a request", v4(LOCAL4, 1, 0, &echo(8)), Verdict::PassLocal),
                    ("options", options, Verdict::TakeUnknownEsp),
                    ("other ports", v6(local6(), 17, &udp(10, b"x")), Verdict::PassLocal),
                ],
            );
            flows.iter().for_each(|flow| steer.set_flow(flow, false).expect("there"));
            flows.iter().for_each(|flow| steer.set_flow(flow, false).expect("absent is fine"));
            assert_verdicts(&mut steer, &[("TCP", taken[1].1.clone(), Verdict::PassTransit)]);
            let many = (0..1000).map(|port| flow(LOCAL4.into(), 17, port, 9));
            let full = many.into_iter().find_map(|flow| steer.set_flow(&flow, true).err());
            assert!(matches!(full, Some(SteerError::Full { table: "flows", .. })), "{full:?}");
        });
    }
}

#[test]
fn a_full_table_is_an_error_that_names_it() {
    in_namespace(|| {
        let sizes = Sizes { sas: 4, prefixes: 2, ..Sizes::default() };
        let config = SteerConfig { mode: Mode::Generic, sizes, ..SteerConfig::default() };
        let (mut steer, _) = Steer::load_and_attach("lo", &config).expect("loads");
        let result = steer.set_sas((0..100).map(|spi| (IpAddr::from(LOCAL4), spi)));
        assert!(matches!(result, Err(SteerError::Full { table: "sad", .. })), "{result:?}");
        let prefixes =
            (0..9).map(|net| Prefix::new(IpAddr::from([10, net, 0, 0]), 16).expect("valid"));
        let result = steer.set_protected(prefixes);
        assert!(matches!(result, Err(SteerError::Full { table: "protected", .. })), "{result:?}");
        // It is still of use afterwards.
        steer.set_sas([(IpAddr::from(LOCAL4), 1)]).expect("room again");
    });
}

#[test]
fn a_trial_loads_and_leaves_nothing_attached() {
    in_namespace(|| {
        for frags in [false, true] {
            Steer::try_load(&SteerConfig { frags, ..SteerConfig::default() }).expect("loads");
        }
        let sizes = Sizes { sas: 0, ..Sizes::default() };
        let error = Steer::try_load(&SteerConfig { sizes, ..SteerConfig::default() });
        assert!(matches!(error, Err(SteerError::Load { .. })), "a map without room: {error:?}");
        let generic = SteerConfig { mode: Mode::Generic, ..SteerConfig::default() };
        Steer::load_and_attach("lo", &generic).expect("nobody else is there");
    });
}
