//! Packets of tunnels, byte for byte as scapy makes them, and read back.

use std::collections::BTreeSet;

use overlay::{
    Class, Cookie, DontFragment, EcnMode, Encap, EncapError, Id, Inner, Macs, Outer, PortKind,
    Ports, Session, Shape, Ttl, Udp, Unread, look,
};
use proptest::prelude::*;
use wire::{Headers, MacAddr};

/// Made by `make_vectors.py` beside it.
const VECTORS: &str = include_str!("../vectors.txt");

const VNI: u32 = 0x00ab_cdef;

fn outer(family: &str) -> Outer {
    let (src, dst) = match family {
        "v4" => ("192.0.2.1", "192.0.2.2"),
        _ => ("2001:db8::1", "2001:db8::2"),
    };
    Outer {
        src: src.parse().expect("an address"),
        dst: dst.parse().expect("an address"),
        class: Class::Inherit,
        ttl: Ttl::Inherit,
        dont_fragment: DontFragment::Set,
        encap_limit: (family == "v6-limit").then_some(4),
        ecn: EcnMode::Normal,
    }
}

fn macs() -> Macs {
    Macs { dst: MacAddr([2, 0, 0, 0, 0, 2]), src: MacAddr([2, 0, 0, 0, 0, 1]) }
}

fn session() -> Session {
    let cookie = Cookie::new(&[1, 2, 3, 4, 5, 6, 7, 8]).expect("8 bytes");
    Session { id: 9, cookie, has_sublayer: true }
}

fn shape(name: &str) -> Shape {
    let udp =
        |dst, has_checksum| Udp { src: Ports { from: 49152, below: 49152 }, dst, has_checksum };
    let has_checksum = !name.ends_with("-zero");
    let gre = |key, has_checksum, frame| Shape::Gre { key, has_checksum, frame };
    match name.trim_end_matches("-zero") {
        "gre" => gre(None, false, None),
        "gre-key" => gre(Some(0xfeed_beef), false, None),
        "gre-key-checksum" => gre(Some(5), true, None),
        "gretap" => gre(None, false, Some(macs())),
        "vxlan" => Shape::Vxlan { vni: VNI, udp: udp(4789, has_checksum), frame: macs() },
        "geneve" => Shape::Geneve { vni: VNI, udp: udp(6081, has_checksum), frame: Some(macs()) },
        "geneve-ip" => Shape::Geneve { vni: VNI, udp: udp(6081, has_checksum), frame: None },
        "l2tp" => Shape::L2tp { session: session(), udp: None, frame: macs() },
        "l2tp-udp" => Shape::L2tp { session: session(), udp: Some(udp(1701, true)), frame: macs() },
        other => panic!("{other}"),
    }
}

fn kind(port: u16) -> Option<PortKind> {
    match port {
        4789 => Some(PortKind::Vxlan),
        6081 => Some(PortKind::Geneve),
        1701 => Some(PortKind::L2tp),
        _ => None,
    }
}

fn id(shape: &Shape) -> Id {
    match shape {
        Shape::Gre { key, frame, .. } => Id::Gre { key: *key, is_frame: frame.is_some() },
        Shape::Vxlan { vni, udp, .. } => Id::Vxlan { port: udp.dst, vni: *vni },
        Shape::Geneve { vni, udp, frame } => {
            Id::Geneve { port: udp.dst, vni: *vni, is_frame: frame.is_some() }
        }
        Shape::L2tp { session, udp, .. } => {
            Id::L2tp { port: udp.map(|udp| udp.dst), session: session.id }
        }
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|d| u8::from_str_radix(str::from_utf8(d).expect("hex"), 16).expect("hex")).collect()
}

fn headers(packet: &[u8]) -> Headers {
    wire::parse_ip(packet).expect("IP")
}

/// Name, outer family, packet.
fn vectors() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    let vectors: Vec<_> = lines
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0], words[1], bytes(words[3]))
        })
        .collect();
    assert_eq!(vectors.len(), 72);
    vectors
}

#[test]
fn packets_are_those_of_scapy() {
    for (name, family, expected) in vectors() {
        let encap = Encap::new(outer(family), &shape(name)).expect("fits");
        let mut packet = vec![0xee; encap.overhead()];
        let inner = &expected[encap.overhead()..];
        packet.extend(inner);
        // Entropy without a flow label; the port has no range.
        assert!(encap.apply(&mut packet, (&headers(inner)).into(), 0, 0x1234));
        assert_eq!(packet, expected, "{name} over {family}");
    }
}

#[test]
fn packets_of_scapy_are_read() {
    let mut kinds = BTreeSet::new();
    for (name, family, packet) in vectors() {
        let (encap, shape) = (Encap::new(outer(family), &shape(name)).expect("fits"), shape(name));
        let found = look(&packet, &headers(&packet), kind);
        let mut found = found.unwrap_or_else(|e| panic!("{name} over {family}: {e:?}"));
        assert_eq!(found.id, id(&shape), "{name} over {family}");
        assert!(!(name.ends_with("-zero") && found.has_checksum), "{name} over {family}");
        if found.inner.is_none() {
            found = found.of_session(&packet, &session()).expect("the session's");
        }
        assert_eq!(found.cut, encap.overhead(), "{name} over {family}");
        let Macs { dst, src } = macs();
        let expected = if encap.is_frame() { Inner::Frame { dst, src } } else { Inner::Ip };
        assert_eq!(found.inner, Some(expected), "{name} over {family}");
        kinds.insert(name);
    }
    assert_eq!(kinds.len(), 12);
}

#[test]
fn what_was_changed_on_the_way_is_not_read() {
    for (name, family, packet) in vectors() {
        let has_checksum = look(&packet, &headers(&packet), kind).is_ok_and(|a| a.has_checksum);
        if !has_checksum {
            continue;
        }
        let mut changed = packet.clone();
        *changed.last_mut().expect("long") ^= 0x10;
        let found = look(&changed, &headers(&changed), kind);
        assert_eq!(found, Err(Unread::Checksum), "{name} over {family}");
    }
}

#[test]
fn other_payloads_and_fragments_are_left_to_others() {
    let (_, _, packet) = vectors().into_iter().find(|v| v.0 == "vxlan-zero").expect("there");
    let h = headers(&packet);
    let mut arp = packet.clone();
    arp[48..50].copy_from_slice(&[8, 6]);
    assert_eq!(look(&arp, &h, kind), Err(Unread::Payload));
    let mut tagged = packet.clone();
    tagged[48..50].copy_from_slice(&[0x81, 0]);
    assert_eq!(look(&tagged, &h, kind), Err(Unread::Payload));
    let mut other = packet.clone();
    other[50] = 0x65;
    assert_eq!(look(&other, &h, kind), Err(Unread::Payload), "the version is another");
    let fragment = Headers { fragment: wire::Fragment::First, ..h };
    assert_eq!(look(&packet, &fragment, kind), Err(Unread::Fragment));
    assert_eq!(look(&packet, &h, |_| None), Err(Unread::Other));
    let tcp = Headers { protocol: wire::protocol::TCP, ..h };
    assert_eq!(look(&packet, &tcp, kind), Err(Unread::Other));
}

#[test]
fn settings_that_contradict_themselves_are_refused() {
    let mixed = Outer { dst: "2001:db8::2".parse().expect("an address"), ..outer("v4") };
    assert_eq!(Encap::new(mixed, &shape("gre")), Err(EncapError::Families));
    let Shape::Vxlan { udp, frame, .. } = shape("vxlan") else { unreachable!() };
    let wide = Shape::Vxlan { vni: 1 << 24, udp, frame };
    assert_eq!(Encap::new(outer("v4"), &wide), Err(EncapError::Vni));
}

#[test]
fn settings_say_what_is_taken_from_inside() {
    let inner = &vectors()[0].2[24..];
    let h = headers(inner);
    let with = |class, ttl, dont_fragment, ecn| {
        let outer = Outer { class, ttl, dont_fragment, ecn, ..outer("v4") };
        let encap = Encap::new(outer, &shape("gre")).expect("fits");
        let mut packet = vec![0; encap.overhead()];
        packet.extend(inner);
        assert!(encap.apply(&mut packet, (&h).into(), 0, 0x1234));
        let ident = u16::from_be_bytes([packet[4], packet[5]]);
        let outer = headers(&packet);
        (outer.traffic_class, outer.ttl, outer.dont_fragment, ident)
    };
    let of = |class, ttl, dont_fragment| with(class, ttl, dont_fragment, EcnMode::Normal);
    // ECN is the inner one's in any case (RFC 6040).
    assert_eq!(
        of(Class::Fixed(0x2b), Ttl::Fixed(200), DontFragment::Unset),
        (0x2a, 200, false, 0x1234)
    );
    assert_eq!(of(Class::Inherit, Ttl::Inherit, DontFragment::Inherit), (0xba, 63, true, 0));
    // Or none, where the far end does not look at it.
    let without = |class| with(class, Ttl::Fixed(64), DontFragment::Set, EcnMode::Compatibility).0;
    assert_eq!((without(Class::Inherit), without(Class::Fixed(0x2b))), (0xb8, 0x28));
}

proptest! {
    #[test]
    fn noise_is_no_tunnels(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        overlay::fuzz::exercise(&noise);
    }

    /// Packets of tunnels, with a few bytes changed.
    #[test]
    fn changed_packets_are_read_or_not(
        which in 0..72_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (_, _, mut packet) = vectors().swap_remove(which);
        for (at, byte) in changes {
            let at = at.index(packet.len());
            packet[at] ^= byte;
        }
        let h = Headers { total_len: cut.index(packet.len() + 1) as u16, ..headers(&vectors()[which].2) };
        if let Ok(found) = look(&packet, &h, kind) {
            prop_assert!(found.cut <= usize::from(h.total_len));
        }
        overlay::fuzz::exercise(&packet);
    }
}
