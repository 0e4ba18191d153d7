//! Overlays: far ends, interfaces, and both with IPsec.

use std::net::IpAddr;

use ::overlay::{
    Class, DontFragment, EcnMode, Encap, Id, Macs, Outer, Ports, Session, Shape, Ttl, Udp,
};
use dataplane::{FarEnd, Fate, Interface, OverlayLink, Overlays, Step, Topology, Way};
use esp::Mode;
use forward::{Hop, RouteEntry, RouteKind, SourceCheck, Subnet, table};
use outcome::DropReason;
use policy::{Action, Direction, Prefix, Selector};
use wire::{MacAddr, parse_ip, protocol};

use crate::explain::ask;
use crate::packets::{Ip, hopped};
use crate::support::{Gateway, LAN, Pair, Side, Spec, WAN, ip, policy, route, template};

/// GRE without a key, with one, over IPv6, and one that leads into itself.
pub const GRE: u32 = 20;
const GRE_KEY: u32 = 21;
const GRE6: u32 = 22;
const LOOP: u32 = 24;
/// VXLAN with an address, and GENEVE and L2TPv3 likewise.
const VXLAN: u32 = 23;
const GENEVE: u32 = 25;
const L2TP: u32 = 26;

const KEY: u32 = 0xfeed_beef;

/// The station of a side's interfaces with Ethernet inside.
fn station(side: Side) -> MacAddr {
    MacAddr([2, 0, 0, 9, 0, side as u8])
}

fn ports() -> Ports {
    Ports { from: 32768, below: 60999 }
}

fn session() -> Session {
    let cookie = ::overlay::Cookie::new(&[9; 8]).expect("8 bytes");
    Session { id: 77, cookie, has_sublayer: true }
}

/// Prefix that leads to an interface's far end, by the interface's number.
fn net(ifindex: u32) -> String {
    format!("10.{}", 60 + ifindex)
}

/// A far end that only the way through its own overlay leads to.
fn behind_itself(side: Side) -> IpAddr {
    ip(&format!("10.84.{}.9", 128 * (side.other() as u8 - 1)))
}

/// The headers that a side's packets get.
fn encap(side: Side, ifindex: u32) -> Encap {
    let other = side.other();
    let v6 = ifindex == GRE6;
    let outer = Outer {
        src: side.wan(v6),
        dst: if ifindex == LOOP { behind_itself(side) } else { other.wan(v6) },
        class: Class::Inherit,
        ttl: if matches!(ifindex, VXLAN | GENEVE) { Ttl::Fixed(64) } else { Ttl::Inherit },
        dont_fragment: if ifindex == VXLAN { DontFragment::Unset } else { DontFragment::Set },
        encap_limit: v6.then_some(4),
        ecn: EcnMode::Normal,
    };
    let frame = Macs { dst: station(other), src: station(side) };
    let udp = |dst, has_checksum| Udp { src: ports(), dst, has_checksum };
    let gre = |key| Shape::Gre { key, has_checksum: false, frame: None };
    let shape = match ifindex {
        GRE_KEY | GRE6 => gre(Some(KEY)),
        VXLAN => Shape::Vxlan { vni: 42, udp: udp(4789, false), frame },
        GENEVE => Shape::Geneve { vni: 43, udp: udp(6081, true), frame: None },
        L2TP => Shape::L2tp { session: session(), udp: None, frame },
        _ => gre(None),
    };
    Encap::new(outer, &shape).expect("fits")
}

const ALL: [u32; 7] = [GRE, GRE_KEY, GRE6, VXLAN, GENEVE, L2TP, LOOP];

fn far_end(side: Side, ifindex: u32) -> FarEnd {
    // What stations are behind each next hop Linux knows.
    let hop = (ifindex == VXLAN).then(|| ip(&format!("10.83.0.{}", side.other() as u8)));
    FarEnd { ifindex, hop, encap: encap(side, ifindex) }
}

fn link(side: Side, ifindex: u32) -> OverlayLink {
    let (v6, other) = (ifindex == GRE6, side.other());
    let gre = |key| Id::Gre { key, is_frame: false };
    OverlayLink {
        ifindex,
        id: match ifindex {
            GRE_KEY | GRE6 => gre(Some(KEY)),
            VXLAN => Id::Vxlan { port: 4789, vni: 42 },
            GENEVE => Id::Geneve { port: 6081, vni: 43, is_frame: false },
            L2TP => Id::L2tp { port: None, session: 77 },
            _ => gre(None),
        },
        local: (!matches!(ifindex, VXLAN | GENEVE)).then(|| side.wan(v6)),
        remote: match ifindex {
            VXLAN | GENEVE => None,
            LOOP => Some(behind_itself(side)),
            _ => Some(other.wan(v6)),
        },
        mac: matches!(ifindex, VXLAN | L2TP).then(|| station(side)),
        stations: (ifindex == VXLAN)
            .then(|| [(station(other), other.wan(false))].into_iter().collect()),
        has_checksum: matches!(ifindex, GRE | GRE_KEY | GRE6 | LOOP).then_some(false),
        takes_zero_checksum6: false,
        session: (ifindex == L2TP).then(session),
    }
}

fn to(text: &str, len: u8, ifindex: u32, gateway: Option<IpAddr>) -> RouteEntry {
    RouteEntry {
        hops: vec![Hop { ifindex, gateway, weight: 1 }],
        ..route(table::MAIN, Subnet { addr: ip(text), len }, RouteKind::Unicast, None, None)
    }
}

/// Publishes all of them, and routes through each; `more` before the usual routes.
pub fn publish(gateway: &Gateway, mut more: Vec<RouteEntry>, change: impl FnOnce(&mut Topology)) {
    let side = gateway.side;
    for ifindex in ALL {
        // The near half of each side is behind the other.
        let half = 128 * (side.other() as u8 - 1);
        let via = (ifindex == VXLAN).then(|| ip(&format!("10.83.0.{}", side.other() as u8)));
        more.push(to(&format!("{}.{half}.0", net(ifindex)), 17, ifindex, via));
        let half = 128 * (side as u8 - 1);
        let behind = Some(side.lan(false, 11));
        more.push(to(&format!("{}.{half}.0", net(ifindex)), 17, LAN, behind));
    }
    more.push(to("10.83.0.0", 24, VXLAN, None));
    more.push(to("2001:db8:78::", 64, GRE, None));
    gateway.set_topology_but(more, |topology| {
        for ifindex in ALL {
            topology.interfaces.insert(
                ifindex,
                Interface {
                    port: None,
                    mac: station(side),
                    mtu: 1450,
                    up: true,
                    back: None,
                    binding: None,
                    source_check: SourceCheck::Strict,
                    addr4: None,
                    addr6: None,
                },
            );
        }
        topology.overlays = Overlays::new(
            ALL.map(|ifindex| Some(far_end(side, ifindex))),
            ALL.map(|ifindex| Some(link(side, ifindex))),
        );
        change(topology);
    });
}

fn gateway(side: Side) -> Gateway {
    let gateway = Gateway::new(side);
    publish(&gateway, Vec::new(), |_| ());
    gateway
}

/// A host's packet through an interface, of A's LAN to B's.
pub fn through(ifindex: u32) -> Ip {
    Ip::new(ip(&format!("{}.1.1", net(ifindex))), ip(&format!("{}.129.1", net(ifindex))))
}

/// Interfaces whose packets are the same whatever number a gateway hashes flows by.
pub const FOR_STEPS: [u32; 3] = [GRE, GRE_KEY, L2TP];

/// A packet from B's LAN to A's through one of them, as it comes to A.
pub fn for_steps(ifindex: u32, port: u16, ttl: u8) -> Vec<u8> {
    let there = through(ifindex);
    let inner = Ip { ttl, ..Ip::new(there.dst, there.src) }.udp(port, 2000, &[7; 40]);
    wrapped(Side::B, ifindex, &inner, None)
}

/// The packet as a side's far end gets it; `source` is the port of the flow, if there is one.
fn wrapped(from: Side, ifindex: u32, packet: &[u8], source: Option<u16>) -> Vec<u8> {
    let encap = encap(from, ifindex);
    let mut bytes = vec![0; encap.overhead()];
    bytes.extend(packet);
    let h = parse_ip(packet).expect("IP");
    let share = source.map_or(0, |port| u64::from(port - 32768));
    let entropy = (share << 32).div_ceil(60999 - 32768) as u32;
    assert!(encap.apply(&mut bytes, (&h).into(), entropy, 0));
    bytes
}

/// Without what differs between packets of one flow and between flows: identification, checksums, source port, label.
fn plain(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let is_udp = parse_ip(&packet).expect("IP").protocol == protocol::UDP;
    match packet[0] >> 4 {
        4 => {
            packet[4..6].fill(0);
            packet[10..12].fill(0);
            if is_udp {
                packet[20..22].fill(0);
                packet[26..28].fill(0);
            }
        }
        _ => {
            packet[1] &= 0xf0;
            packet[2..4].fill(0);
        }
    }
    packet
}

#[test]
fn routes_to_an_overlay_put_its_headers_on_packets() {
    for ifindex in [GRE, GRE_KEY, GRE6, VXLAN, GENEVE, L2TP] {
        let mut a = gateway(Side::A);
        // ECN and DSCP are the inner packet's, and so is the TTL after its hop.
        let inner = Ip { traffic_class: 0xb9, ..through(ifindex) }.sized(60, 1);
        for _ in 0..3 {
            a.put_lan(&inner);
            a.run();
            let outer = a.wan_out().remove(0);
            let expected = wrapped(Side::A, ifindex, &hopped(&inner, 1), None);
            assert_eq!(plain(&outer), plain(&expected), "{ifindex}");
            let h = parse_ip(&outer).expect("checksums are right");
            assert_ne!(wire::verify_l4_checksum(&outer, &h), wire::L4Checksum::Invalid);
        }
        assert_eq!(a.counters.work.overlay_encapsulated.value(), 3);
        // Both the packet and what it became have plans.
        assert_eq!(a.counters.work.flow_misses.value(), 2, "{ifindex}");
        assert_eq!(a.drops(), []);
    }
    let mut a = gateway(Side::A);
    let inner = Ip::new(Side::A.lan(true, 10), ip("2001:db8:78::1")).sized(60, 1);
    a.put_lan(&inner);
    a.run();
    let outer = a.wan_out().remove(0);
    assert_eq!((outer[9], &outer[22..24]), (47, &[0x86, 0xdd][..]), "IPv6 in GRE over IPv4");
}

#[test]
fn flows_inside_have_source_ports_of_their_own() {
    let mut a = gateway(Side::A);
    let mut sources = std::collections::BTreeSet::new();
    for port in 0..50 {
        for _ in 0..2 {
            a.put_lan(&through(VXLAN).udp(port, 80, b"x"));
            a.run();
            let outer = a.wan_out().remove(0);
            sources.insert(u16::from_be_bytes([outer[20], outer[21]]));
        }
    }
    // Each flow keeps its own, and hardly two have the same.
    assert!((45..=50).contains(&sources.len()), "{}", sources.len());
    assert!(sources.iter().all(|port| (32768..60999).contains(port)), "{sources:?}");
    // Identifications go on, as such packets may be fragmented.
    let mut idents = std::collections::BTreeSet::new();
    for _ in 0..100 {
        a.put_lan(&through(VXLAN).sized(60, 1));
        a.run();
        let outer = a.wan_out().remove(0);
        idents.insert([outer[4], outer[5]]);
    }
    assert_eq!(idents.len(), 100);
}

#[test]
fn packets_of_an_overlay_lose_its_headers() {
    for ifindex in [GRE, GRE_KEY, GRE6, VXLAN, GENEVE, L2TP] {
        let mut b = gateway(Side::B);
        let inner = through(ifindex).sized(60, 1);
        let mut all = Vec::new();
        for forget in [false, false, true] {
            if forget {
                b.worker.forget_flows();
            }
            b.put_wan(&wrapped(Side::A, ifindex, &inner, Some(40000)));
            b.run();
            all.extend(b.lan_out());
        }
        assert_eq!(all, vec![hopped(&inner, 1); 3], "{ifindex}: {:?}", b.drops());
        assert_eq!(b.counters.work.overlay_decapsulated.value(), 3);
        assert_eq!((b.drops(), b.linux_out().len()), (vec![], 0));
    }
}

#[test]
fn what_no_overlay_here_has_is_linuxs_as_it_came() {
    let inner = through(GRE).sized(60, 1);
    let good = wrapped(Side::A, GRE_KEY, &inner, None);
    let other_key = {
        let mut packet = good.clone();
        packet[27] ^= 1;
        packet
    };
    let vxlan = wrapped(Side::A, VXLAN, &inner, Some(40000));
    let changed = |at: usize, bits: u8| {
        let mut packet = vxlan.clone();
        packet[at] ^= bits;
        packet
    };
    let with_sequence = {
        let mut packet = good.clone();
        packet[20] |= 0x10;
        packet.splice(28..28, [0, 0, 0, 1]);
        packet[3] += 4;
        wire::ipv4::fill_checksum(&mut packet);
        packet
    };
    let elsewhere = |dst: &str| {
        let inner = Ip { dst: ip(dst), ..through(GRE) }.sized(60, 1);
        wrapped(Side::A, GRE, &inner, None)
    };
    let from_another = {
        let mut packet = good.clone();
        packet[15] = 77;
        wire::ipv4::fill_checksum(&mut packet);
        packet
    };
    let cases = [
        ("another key", other_key),
        ("another far end", from_another),
        ("sequence numbers", with_sequence),
        ("another VNI", changed(34, 1)),
        ("ARP", changed(49, 6)),
        ("another station's frame", changed(36 + 5, 8)),
        ("from a station that Linux has to learn", changed(36 + 11, 8)),
        ("for this host", elsewhere("192.0.2.2")),
        ("for several", elsewhere("224.0.0.5")),
        ("a subnet's broadcast", elsewhere("255.255.255.255")),
    ];
    for (name, packet) in cases {
        let mut b = gateway(Side::B);
        for _ in 0..2 {
            b.put_wan(&packet);
            b.run();
            assert_eq!(b.linux_out(), [&packet[..]], "{name}: {:?}", b.drops());
        }
        assert_eq!((b.lan_out().len(), b.drops()), (0, vec![]), "{name}");
        assert_eq!(b.counters.work.overlay_left.value(), 2, "{name}");
    }
}

/// RFC 6040 §4.2.
#[test]
fn congestion_outside_is_told_inside() {
    for (outer_ecn, inner_ecn, found) in
        [(3, 2, Some(3)), (1, 2, Some(1)), (3, 1, Some(3)), (0, 2, Some(2)), (3, 0, None)]
    {
        let mut b = gateway(Side::B);
        let inner = Ip { traffic_class: 0x28 | inner_ecn, ..through(GRE) }.sized(60, 1);
        let mut packet = wrapped(Side::A, GRE, &inner, None);
        wire::set_traffic_class(&mut packet, 0xb8 | outer_ecn);
        b.put_wan(&packet);
        b.run();
        let class: Vec<_> =
            b.lan_out().iter().map(|p| parse_ip(p).unwrap().traffic_class).collect();
        assert_eq!(class, found.map(|ecn| 0x28 | ecn).into_iter().collect::<Vec<u8>>());
        let dropped = if found.is_none() { vec![(DropReason::InEcn, 1)] } else { vec![] };
        assert_eq!(b.drops(), dropped);
    }
}

/// As DMVPN has it: GRE between the hosts in ESP of transport mode, and the other overlays too.
#[test]
fn overlays_go_through_ipsec() {
    for mode in [Mode::Transport, Mode::Tunnel] {
        for ifindex in [GRE, GRE_KEY, GRE6, VXLAN, GENEVE, L2TP] {
            let v6 = ifindex == GRE6;
            let spec = Spec { mode, outer_v6: v6, ..Spec::default() };
            let mut pair = Pair { a: Gateway::new(Side::A), b: Gateway::new(Side::B) };
            for gateway in [&mut pair.a, &mut pair.b] {
                gateway.add_sas(&spec);
                protect_hosts(gateway, &spec);
                publish(gateway, Vec::new(), |_| ());
            }
            let inner = through(ifindex).sized(100, 1);
            for _ in 0..3 {
                pair.a.put_lan(&inner);
                pair.a.run();
                let carried = pair.carry(Side::A);
                assert_eq!(parse_ip(&carried[0]).unwrap().protocol, protocol::ESP);
                assert_eq!(pair.b.lan_out(), [hopped(&inner, 2)], "{:?}", pair.b.drops());
            }
            // And back.
            let back = Ip { src: through(ifindex).dst, dst: through(ifindex).src, ..through(GRE) };
            let back = back.sized(100, 1);
            pair.b.put_lan(&back);
            pair.b.run();
            pair.carry(Side::B);
            assert_eq!(pair.a.lan_out(), [hopped(&back, 2)], "{:?}", pair.a.drops());
            // In clear it does not get in.
            pair.b.put_wan(&wrapped(Side::A, ifindex, &inner, Some(40000)));
            pair.b.run();
            assert_eq!(pair.b.drops(), [(DropReason::InCleartext, 1)], "{ifindex}");
        }
    }
}

/// Policies for all between the two hosts.
fn protect_hosts(gateway: &mut Gateway, spec: &Spec) {
    let (here, there) = (gateway.side, gateway.side.other());
    let host = |side: Side| Prefix {
        addr: side.wan(spec.outer_v6),
        len: if spec.outer_v6 { 128 } else { 32 },
    };
    let out = Selector::between(host(here), host(there));
    let back = Selector::between(host(there), host(here));
    gateway.db.put_policy(policy(1, Direction::Out, out, vec![template(spec, here)]));
    gateway.db.put_policy(policy(2, Direction::In, back, vec![template(spec, there)]));
}

#[test]
fn esp_goes_through_an_overlay() {
    let spec = Spec::default();
    let mut pair = Pair::new(&spec);
    for side in [Side::A, Side::B] {
        let (gateway, _) = pair.end(side);
        // The peer is behind GRE over IPv6.
        let peer = side.other().wan(false).to_string();
        publish(gateway, vec![to(&peer, 32, GRE6, None)], |_| ());
    }
    let inner = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    for _ in 0..3 {
        pair.a.put_lan(&inner);
        pair.a.run();
        let carried = pair.carry(Side::A);
        let h = parse_ip(&carried[0]).expect("outer");
        assert_eq!((h.protocol, h.src), (47, Side::A.wan(true)), "{:?}", pair.a.drops());
        assert_eq!(pair.b.lan_out(), [hopped(&inner, 2)], "{:?}", pair.b.drops());
    }
    assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
    // What fits is what fits the overlay: IPv6, the limit, GRE with a key.
    let too_long =
        Ip { dont_fragment: true, ..Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)) };
    pair.a.put_lan(&too_long.sized(1450, 1));
    pair.a.run();
    let error = pair.a.lan_out().remove(0);
    let mtu = usize::from(u16::from_be_bytes([error[26], error[27]]));
    assert_eq!(mtu, pair.a.sa(Side::A, &spec).esp.max_inner_len(1500 - 56));
}

#[test]
fn who_sends_what_does_not_fit_is_told() {
    // The interface's MTU, and that of the path.
    for (ifindex, longest) in [(GRE, 1450), (VXLAN, 1450), (GRE6, 1500 - 56)] {
        let mut a = gateway(Side::A);
        let ip = Ip { dont_fragment: true, ..through(ifindex) };
        for (len, is_sent) in [(longest, true), (longest + 1, false)] {
            a.put_lan(&ip.sized(len, 1));
            a.run();
            assert_eq!(a.wan_out().len(), usize::from(is_sent), "{ifindex}, {len}");
            for error in a.lan_out() {
                assert_eq!(error[20..22], [3, 4]);
                assert_eq!(usize::from(u16::from_be_bytes([error[26], error[27]])), longest);
            }
        }
        // One that may be cut is, before it gets the headers.
        a.put_lan(&Ip { dont_fragment: false, ..ip }.sized(1500, 1));
        a.run();
        let pieces = a.wan_out();
        assert_eq!(pieces.len(), 2);
        assert!(pieces.iter().all(|piece| piece.len() <= 1500));
        a.put_lan(&Ip { ttl: 1, ..ip }.sized(100, 1));
        a.run();
        assert_eq!(a.lan_out().last().expect("an error")[20], 11);
    }
    // Through an SA less fits.
    let spec = Spec { mode: Mode::Transport, ..Spec::default() };
    let mut a = Gateway::new(Side::A);
    a.add_sas(&spec);
    protect_hosts(&mut a, &spec);
    publish(&a, Vec::new(), |_| ());
    let ip = Ip { dont_fragment: true, ..through(GRE_KEY) };
    a.put_lan(&ip.sized(1450, 1));
    a.run();
    let error = a.lan_out().remove(0);
    let mtu = usize::from(u16::from_be_bytes([error[26], error[27]]));
    assert_eq!(mtu, a.sa(Side::A, &spec).esp.max_inner_len(1500) - 28);
    a.put_lan(&ip.sized(mtu, 1));
    a.run();
    assert_eq!(a.wan_out().len(), 1);
}

/// Makes gateway A drop a packet, as overlays lead into one another.
pub fn produce() -> Gateway {
    let mut a = gateway(Side::A);
    a.put_lan(&through(LOOP).sized(100, 1));
    a.run();
    a
}

#[test]
fn overlays_that_lead_into_one_another_end() {
    let a = produce();
    assert_eq!(a.drops(), [(DropReason::OverlayLoop, 1)]);
    // One in the other is none.
    let mut a = Gateway::new(Side::A);
    let peer = Side::B.wan(false).to_string();
    publish(&a, vec![to(&peer, 32, GRE6, None)], |_| ());
    let inner = through(VXLAN).sized(100, 1);
    for _ in 0..2 {
        a.put_lan(&inner);
        a.run();
        let outer = a.wan_out().remove(0);
        assert_eq!(outer.len(), 100 + 50 + 56);
    }
    assert_eq!(a.drops(), []);
    // The SA's peer is behind the overlay whose far end the SA protects.
    let spec = Spec::default();
    let mut a = Gateway::new(Side::A);
    a.add_sas(&spec);
    let host6 = |side: Side| Prefix { addr: side.wan(true), len: 128 };
    let selector = Selector::between(host6(Side::A), host6(Side::B));
    a.db.put_policy(policy(1, Direction::Out, selector, vec![template(&spec, Side::A)]));
    publish(&a, vec![to(&peer, 32, GRE6, None)], |_| ());
    a.put_lan(&through(GRE6).sized(100, 1));
    a.run();
    assert_eq!((a.wan_out().len(), a.drops()), (0, vec![(DropReason::OverlayLoop, 1)]));
}

#[test]
fn policy_is_asked_about_what_was_inside() {
    // As in Linux: by which SAs the outer packet came does not count.
    let spec = Spec { mode: Mode::Transport, ..Spec::default() };
    let mut pair = Pair { a: Gateway::new(Side::A), b: Gateway::new(Side::B) };
    for gateway in [&mut pair.a, &mut pair.b] {
        gateway.add_sas(&spec);
        protect_hosts(gateway, &spec);
        publish(gateway, Vec::new(), |_| ());
    }
    let all = Prefix { addr: ip("0.0.0.0"), len: 0 };
    let inside = Selector::between(all, Prefix { addr: ip("10.80.0.0"), len: 16 });
    let tunnel = vec![template(&Spec::default(), Side::A)];
    pair.b.db.put_policy(policy(9, Direction::Forward, inside, tunnel));
    let inner = through(GRE).sized(100, 1);
    pair.a.put_lan(&inner);
    pair.a.run();
    pair.carry(Side::A);
    assert_eq!((pair.b.lan_out().len(), pair.b.drops()), (0, vec![(DropReason::InCleartext, 1)]));
    // A policy for the packet comes before its route.
    let block = policy(9, Direction::Out, inside, Vec::new());
    pair.a.db.put_policy(policy::PolicyConfig { action: Action::Block, ..block });
    pair.a.put_lan(&inner);
    pair.a.run();
    assert_eq!(
        (pair.a.wan_out().len(), pair.a.drops()),
        (0, vec![(DropReason::OutPolicyBlock, 1)])
    );
    // A source that is this host's own, and one that is behind another interface.
    for (src, reason) in
        [("192.0.2.2", DropReason::MartianSource), ("10.2.0.7", DropReason::ReversePath)]
    {
        let mut b = gateway(Side::B);
        let forged = Ip { src: ip(src), ..through(GRE) }.sized(100, 1);
        b.put_wan(&wrapped(Side::A, GRE, &forged, None));
        b.run();
        assert_eq!((b.lan_out().len(), b.drops()), (0, vec![(reason, 1)]));
    }
}

#[test]
fn why_says_which_overlay() {
    let mut a = gateway(Side::A);
    let packet = through(GRE_KEY).sized(100, 1);
    let came = dataplane::Came::Port { ifindex: LAN };
    let found = ask(&mut a, &packet, came);
    assert_eq!(found.fate, Fate::Forwarded);
    let ends = Step::Overlay { ifindex: GRE_KEY, src: Side::A.wan(false), dst: Side::B.wan(false) };
    assert!(found.steps.contains(&ends), "{:?}", found.steps);
    let way = Way::Overlay { mtu: 1450 };
    assert!(found.steps.iter().any(|s| matches!(s, Step::Route { to, .. } if *to == way)));
    let outer = wrapped(Side::B, GRE, &packet, None);
    let came = dataplane::Came::Port { ifindex: WAN };
    assert_eq!(ask(&mut a, &outer, came).fate, Fate::Decapsulated);
    // What comes out of it goes on, and is asked about as one that comes in by the interface.
    let inside = |ifindex| dataplane::Came::Inside { ifindex, mark: 0 };
    let back = Ip::new(through(GRE).dst, through(GRE).src).sized(100, 1);
    assert_eq!(ask(&mut a, &back, inside(GRE)).fate, Fate::Forwarded);
    let elsewhere = ask(&mut a, &back, inside(GRE_KEY)).fate;
    assert_eq!(elsewhere, Fate::Dropped(DropReason::ReversePath));
}

/// Linux asks for the neighbour then, through culvert.
#[test]
fn where_no_far_end_is_known_linux_has_the_packet_without_a_mark() {
    let mut a = Gateway::new(Side::A);
    publish(&a, Vec::new(), |topology| {
        topology.overlays = Overlays::new([], ALL.map(|i| Some(link(Side::A, i))));
        topology.interfaces.get_mut(&LAN).expect("there").back = Some(1);
    });
    let packet = through(VXLAN).sized(60, 1);
    for _ in 0..2 {
        a.put_lan(&packet);
        a.run();
        let given = a.linux_out().remove(0);
        // The TPID of what gets no mark.
        assert_eq!(given[..4], [0x88, 0xa8, 0, 1]);
    }
    // Others keep it.
    a.put_lan(&Ip::new(Side::A.lan(false, 10), ip("203.0.113.9")).sized(60, 1));
    a.run();
    assert_eq!(a.linux_out()[0][..4], [0x81, 0, 0, 1]);
}
