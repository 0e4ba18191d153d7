//! SRv6: headends, segments of this node, and both with IPsec.

use std::net::{IpAddr, Ipv6Addr};

use ::srv6::{Behaviour, Flavours, Headend, Mode, Sid, Srh};
use dataplane::{FIRST_SEGMENTS, Fate, Function, SegmentRoute, Segments, Step};
use forward::{Hop, RouteEntry, RouteKind, Subnet, table};
use outcome::DropReason;
use policy::{Action, Direction, Prefix, Selector};
use wire::protocol;

use crate::explain::ask;
use crate::packets::{Ip, hopped};
use crate::route_based::{self, IF_ID, TUNNEL};
use crate::support::{
    Gateway, LAN, Pair, Side, Spec, WAN, ethernet, ip, policy, route, sa_config, template,
};

/// A table of its own, as of a VRF.
pub const TABLE: u32 = 100;

pub fn v6(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// A segment of a side.
pub fn sid(side: Side, number: &str) -> Ipv6Addr {
    v6(&format!("fc00:{}::{number}", side as u8))
}

fn headend(side: Side, mode: Mode, numbers: &[&str]) -> Function {
    let segments: Vec<Ipv6Addr> = numbers.iter().map(|n| sid(side.other(), n)).collect();
    let IpAddr::V6(source) = side.wan(true) else { unreachable!() };
    Function::Headend(Headend::new(mode, &segments, source).expect("few"))
}

/// Functions of the gateway: destination, its length, table, and what is done.
fn functions(side: Side) -> Vec<(IpAddr, u8, u32, Function)> {
    let host = |v6| side.lan(v6, 10);
    let (IpAddr::V4(host4), IpAddr::V6(host6)) = (host(false), host(true)) else { unreachable!() };
    let IpAddr::V6(peer) = side.other().wan(true) else { unreachable!() };
    let own = |number: &str, behaviour| {
        (IpAddr::V6(sid(side, number)), 128, table::MAIN, Function::Sid(Sid::new(behaviour)))
    };
    let policy = Headend::new(Mode::EncapRed, &[sid(side.other(), "1")], sid(side, "ff"));
    let psp = Flavours { psp: true, ..Flavours::default() };
    let psp = Function::Sid(Sid { flavours: psp, ..Sid::new(Behaviour::End) });
    vec![
        own("1", Behaviour::End),
        own("46", Behaviour::EndDt46(TABLE)),
        own("d6", Behaviour::EndDx6(host6)),
        own("d4", Behaviour::EndDx4(host4)),
        own("e", Behaviour::EndX(peer)),
        own("7", Behaviour::EndT(TABLE)),
        own("d2", Behaviour::EndDx2(LAN)),
        own("b6", Behaviour::EndB6Encaps(policy.expect("one"))),
        (IpAddr::V6(sid(side, "5")), 128, table::MAIN, psp),
        // To the other side's table.
        (ip("10.78.0.0"), 16, table::MAIN, headend(side, Mode::Encap, &["1", "46"])),
        (ip("2001:db8:78::"), 64, table::MAIN, headend(side, Mode::EncapRed, &["46"])),
        (ip("2001:db8:79::"), 64, table::MAIN, headend(side, Mode::Inline, &["1"])),
        (ip("10.79.0.0"), 16, table::MAIN, headend(side, Mode::L2Encap, &["d2"])),
        (ip("10.80.0.0"), 16, table::MAIN, headend(side, Mode::Inline, &["1"])),
        // ESP of a peer that is behind segments.
        (ip("192.0.2.0"), 24, table::MAIN, headend(side, Mode::EncapRed, &["46"])),
    ]
}

/// Publishes such routes; with `peer` the IPv4 peers of the WAN are reached by segments too.
pub fn publish(gateway: &Gateway, wan_mtu: u32, peer: bool) {
    let side = gateway.side;
    let functions = functions(side);
    let count = functions.len() - usize::from(!peer);
    let mut routes = Vec::new();
    for (index, (addr, len, table, _)) in (FIRST_SEGMENTS..).zip(&functions).take(count) {
        let dst = Subnet { addr: *addr, len: *len };
        routes.push(route(*table, dst, RouteKind::Unicast, Some(index), None));
    }
    let by = |table, text: &str, len, ifindex, gateway| RouteEntry {
        hops: vec![Hop { ifindex, gateway: Some(gateway), weight: 1 }],
        ..route(table, Subnet { addr: ip(text), len }, RouteKind::Unicast, None, None)
    };
    let other = side.other();
    routes.push(by(table::MAIN, &format!("fc00:{}::", other as u8), 64, WAN, other.wan(true)));
    for text in ["10.77.0.0", "10.78.0.0"] {
        routes.push(by(TABLE, text, 16, LAN, side.lan(false, 11)));
    }
    routes.push(by(TABLE, "2001:db8:78::", 64, LAN, side.lan(true, 11)));
    routes.push(by(TABLE, "fc00:9::", 64, WAN, other.wan(true)));
    if peer {
        let dst = Subnet { addr: side.wan(false), len: 32 };
        routes.push(route(TABLE, dst, RouteKind::Local, None, None));
    }
    gateway.set_topology(wan_mtu, routes);
    let topology = gateway.tables.topology.swap(std::sync::Arc::default());
    let mut topology = std::sync::Arc::into_inner(topology).expect("no worker has it yet");
    let routes =
        functions.into_iter().map(|(.., function)| Some(SegmentRoute { function, ifindex: WAN }));
    topology.segments = routes.collect::<Segments>().with_domain([WAN]).with_sas(true);
    gateway.tables.topology.store(std::sync::Arc::new(topology));
}

pub fn gateway(side: Side) -> Gateway {
    let gateway = Gateway::new(side);
    publish(&gateway, 1500, false);
    gateway
}

/// Names the interfaces inside the domain, and says whether SAs are.
fn set_domain(gateway: &Gateway, domain: &[u32], trusts_sas: bool) {
    let topology = gateway.tables.topology.swap(std::sync::Arc::default());
    let mut topology = std::sync::Arc::into_inner(topology).expect("no worker has it");
    topology.segments = topology.segments.with_domain(domain.iter().copied()).with_sas(trusts_sas);
    gateway.tables.topology.store(std::sync::Arc::new(topology));
}

/// A route out of an interface.
fn to(table: u32, addr: IpAddr, len: u8, ifindex: u32) -> RouteEntry {
    route(table, Subnet { addr, len }, RouteKind::Unicast, Some(ifindex), None)
}

/// Publishes routes with segments for what random histories send from A, and segments of A; `through` if the outer
/// packets are those of a policy.
pub fn publish_for_steps(gateway: &Gateway, wan_mtu: u32, through: bool, mode: Mode) {
    let (side, other) = (gateway.side, gateway.side.other());
    let (IpAddr::V6(source), IpAddr::V6(first)) = (side.lan(true, 1), other.lan(true, 46)) else {
        unreachable!()
    };
    let first = if through { first } else { sid(other, "46") };
    let source = if through { source } else { sid(side, "ff") };
    let headend = Headend::new(mode, &[first, sid(other, "7")], source).expect("two");
    let own = |number: &str, behaviour| {
        (IpAddr::V6(sid(side, number)), 128, table::MAIN, Function::Sid(Sid::new(behaviour)))
    };
    let functions = [
        own("1", Behaviour::End),
        own("46", Behaviour::EndDt46(TABLE)),
        (ip("203.0.113.0"), 25, table::MAIN, Function::Headend(headend.clone())),
        (ip("2001:db8:99::"), 64, table::MAIN, Function::Headend(headend)),
    ];
    let by = |text: &str| RouteEntry {
        hops: vec![Hop { ifindex: WAN, gateway: Some(other.wan(true)), weight: 1 }],
        ..to(table::MAIN, ip(text), 64, WAN)
    };
    let mut routes = vec![by(&format!("fc00:{}::", other as u8)), by("fc00:9::")];
    for (index, (addr, len, table, function)) in (FIRST_SEGMENTS..).zip(&functions) {
        routes.push(to(*table, *addr, *len, index));
        // What was inside goes on by segments too.
        if let Function::Headend(_) = function {
            routes.push(to(TABLE, *addr, *len, index));
        }
    }
    for v6 in [false, true] {
        let net = side.net(v6);
        routes.push(to(TABLE, net.addr, net.len, LAN));
    }
    gateway.set_topology(wan_mtu, routes);
    let topology = gateway.tables.topology.swap(std::sync::Arc::default());
    let mut topology = std::sync::Arc::into_inner(topology).expect("no worker has it yet");
    let routes =
        functions.into_iter().map(|(.., function)| Some(SegmentRoute { function, ifindex: WAN }));
    topology.segments = routes.collect::<Segments>().with_domain([WAN]).with_sas(true);
    gateway.tables.topology.store(std::sync::Arc::new(topology));
}

/// A packet from the WAN for a segment of A that such histories have: to the next one, or with this inside.
pub fn for_steps(is_last: bool, ttl: u8, inner: &[u8]) -> Vec<u8> {
    let segments = match is_last {
        true => [sid(Side::B, "46"), sid(Side::A, "46")],
        false => [sid(Side::A, "1"), v6("fc00:9::1")],
    };
    let mode = if is_last { Mode::Encap } else { Mode::EncapRed };
    let mut packet = wrapped(Side::A, mode, &segments, inner);
    if is_last {
        // The one before has been passed.
        packet[24..40].copy_from_slice(&segments[1].octets());
        packet[43] = 0;
    }
    packet[7] = ttl;
    packet
}

/// With segments on it, as the other side of a gateway would send it.
pub fn wrapped(to: Side, mode: Mode, segments: &[Ipv6Addr], packet: &[u8]) -> Vec<u8> {
    let IpAddr::V6(source) = to.other().wan(true) else { unreachable!() };
    let headend = Headend::new(mode, segments, source).expect("few");
    let mut bytes = vec![0; headend.overhead()];
    bytes.extend(packet);
    headend.apply(&mut bytes).expect("IP");
    bytes
}

/// Packets that B has sent to its LAN and to its WAN.
type Sent = (Vec<Vec<u8>>, Vec<Vec<u8>>);

/// Fate of a packet from the WAN: the first time, by a plan, and without plans.
fn by_wan(b: &mut Gateway, packet: &[u8]) -> Sent {
    let mut all: Vec<Sent> = Vec::new();
    for forget in [false, false, true] {
        if forget {
            b.worker.forget_flows();
        }
        b.put_wan(packet);
        b.run();
        all.push((b.lan_out(), b.wan_out()));
    }
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:?}");
    all.remove(0)
}

#[test]
fn a_route_with_segments_puts_them_on_packets() {
    let mut a = gateway(Side::A);
    let inner = Ip::new(Side::A.lan(false, 10), ip("10.78.0.1")).sized(60, 1);
    for _ in 0..2 {
        a.put_lan(&inner);
        a.run();
        let outer = a.wan_out().remove(0);
        let first = [sid(Side::B, "1"), sid(Side::B, "46")];
        // One hop less, and then the segments.
        let expected = wrapped(Side::B, Mode::Encap, &first, &hopped(&inner, 1));
        assert_eq!(outer, expected);
    }
    // Both the packet and what it became have plans.
    assert_eq!(a.counters.work.flow_hits.value(), 2);
    assert_eq!(a.counters.work.srv6_encapsulated.value(), 2);
    let inner = Ip::new(Side::A.lan(true, 10), ip("2001:db8:78::1")).sized(60, 1);
    a.put_lan(&inner);
    a.run();
    let outer = a.wan_out().remove(0);
    assert_eq!(outer, wrapped(Side::B, Mode::EncapRed, &[sid(Side::B, "46")], &hopped(&inner, 1)));
    // Put in between, of IPv6 alone.
    let inner = Ip::new(Side::A.lan(true, 10), ip("2001:db8:79::1")).sized(60, 1);
    a.put_lan(&inner);
    a.run();
    let outer = a.wan_out().remove(0);
    assert_eq!(outer, wrapped(Side::B, Mode::Inline, &[sid(Side::B, "1")], &hopped(&inner, 1)));
    assert_eq!(a.drops(), []);
}

#[test]
fn segments_of_this_node_take_their_steps() {
    let mut b = gateway(Side::B);
    let inner = Ip::new(ip("10.9.0.1"), ip("10.77.0.1")).sized(60, 1);
    let inner6 = Ip::new(ip("2001:db8:9::1"), ip("2001:db8:78::5")).sized(60, 1);
    let own = |n: &str| sid(Side::B, n);
    // End, and the last one but one.
    let further = sid(Side::A, "9");
    let packet = wrapped(Side::B, Mode::Encap, &[own("1"), further], &inner);
    let (lan, wan) = by_wan(&mut b, &packet);
    assert_eq!((lan.len(), wan[0][7], &wan[0][24..40]), (0, 63, &further.octets()[..]));
    let packet = wrapped(Side::B, Mode::Encap, &[own("5"), further], &inner);
    assert_eq!(by_wan(&mut b, &packet).1[0].len(), 40 + 60, "its header is gone");
    // By a next hop, and by a table, though nothing else leads there.
    let nowhere = v6("fc00:9::1");
    for by in ["e", "7"] {
        let packet = wrapped(Side::B, Mode::Encap, &[own(by), nowhere], &inner);
        assert_eq!(by_wan(&mut b, &packet).1[0][24..40], nowhere.octets(), "{by}");
    }
    let packet = wrapped(Side::B, Mode::Encap, &[own("1"), nowhere], &inner);
    b.put_wan(&packet);
    b.run();
    assert_eq!(b.drops(), [(DropReason::NoRoute, 1)]);
    b.wan_out();
    // Decapsulated.
    for (last, inner) in [("46", &inner), ("46", &inner6), ("d4", &inner), ("d6", &inner6)] {
        let packet = wrapped(Side::B, Mode::Encap, &[own("1"), own(last)], inner);
        let (lan, wan) = by_wan(&mut b, &packet);
        assert_eq!((lan, wan.len()), (vec![hopped(inner, 1)], 0), "{last}");
        let packet = wrapped(Side::B, Mode::EncapRed, &[own(last)], inner);
        assert_eq!(by_wan(&mut b, &packet).0, [hopped(inner, 1)], "{last}, reduced");
    }
    let (station, other) = (Side::B.host_mac(10), Side::A.host_mac(1));
    let frame = ethernet(station, other, &inner);
    let packet = wrapped(Side::B, Mode::L2Encap, &[own("d2")], &frame);
    b.put_wan(&packet);
    b.run();
    let lan = b.lan.clone();
    assert_eq!(b.take(&lan), [frame]);
    // A binding segment: its policy around what is left.
    let packet = wrapped(Side::B, Mode::Encap, &[own("b6"), further], &inner);
    let (_, wan) = by_wan(&mut b, &packet);
    assert_eq!(
        (wan[0].len(), &wan[0][24..40]),
        (40 + packet.len(), &sid(Side::A, "1").octets()[..])
    );
    assert_eq!(wan[0][40 + 24..][..16], further.octets());
    assert_eq!(b.drops(), [(DropReason::NoRoute, 1)]);
}

#[test]
fn frames_go_whole_where_a_route_has_it_so() {
    let mut a = gateway(Side::A);
    let inner = Ip::new(Side::A.lan(false, 10), ip("10.79.0.1")).sized(60, 1);
    for _ in 0..2 {
        a.put_lan(&inner);
        a.run();
        let frame = ethernet(Side::A.mac(LAN), Side::A.host_mac(10), &inner);
        let outer = wrapped(Side::B, Mode::L2Encap, &[sid(Side::B, "d2")], &frame);
        assert_eq!(a.wan_out(), [outer]);
    }
    a.put_lan(&Ip::new(Side::A.lan(false, 10), ip("10.79.0.1")).sized(1500, 1));
    a.run();
    assert_eq!(a.drops(), [(DropReason::Srv6NoFrame, 1)]);
}

#[test]
fn who_sends_what_does_not_fit_is_told() {
    let mut a = Gateway::new(Side::A);
    publish(&a, 1400, false);
    let to = |dst| Ip { dont_fragment: true, ..Ip::new(Side::A.lan(false, 10), ip(dst)) };
    // Two segments: 40 + 8 + 32 bytes.
    for (len, is_sent) in [(1320, true), (1321, false)] {
        a.put_lan(&to("10.78.0.1").sized(len, 1));
        a.run();
        assert_eq!(a.wan_out().len(), usize::from(is_sent), "{len}");
        let errors = a.lan_out();
        assert_eq!(errors.len(), usize::from(!is_sent));
        if let Some(error) = errors.first() {
            assert_eq!(error[20..22], [3, 4]);
            assert_eq!(error[26..28], 1320_u16.to_be_bytes());
        }
    }
    // One that may be cut is, before it gets segments.
    a.put_lan(&Ip { dont_fragment: false, ..to("10.78.0.1") }.sized(1400, 1));
    a.run();
    let pieces = a.wan_out();
    assert_eq!(pieces.len(), 2);
    assert!(pieces.iter().all(|piece| piece.len() <= 1400));
    // The hop limit, before it gets segments.
    a.put_lan(&Ip { ttl: 1, ..to("10.78.0.1") }.sized(100, 1));
    a.run();
    assert_eq!(a.lan_out()[0][20], 11);
    assert_eq!(a.dropped(DropReason::TtlExceeded), 1);
}

/// A packet that B refuses for this reason.
fn bad(reason: DropReason) -> Vec<u8> {
    let inner = Ip::new(ip("10.9.0.1"), ip("10.77.0.1")).sized(60, 1);
    let own = |n: &str| sid(Side::B, n);
    let mut packet = wrapped(Side::B, Mode::Encap, &[own("1"), own("46")], &inner);
    match reason {
        DropReason::Srv6SegmentsLeft => packet[43] = 7,
        // The last segment is End.
        DropReason::Srv6UpperLayer => {
            packet = wrapped(Side::B, Mode::Encap, &[own("1")], &inner);
        }
        DropReason::Srv6Hmac => {
            packet[41] += 5;
            packet.splice(80..80, [5, 38].into_iter().chain([0; 38]));
            packet[5] += 40;
        }
        DropReason::Srv6Fragment => {
            packet = wrapped(Side::B, Mode::EncapRed, &[own("46")], &inner);
            packet[6] = protocol::FRAGMENT;
            packet.splice(40..40, [protocol::IPV4, 0, 0, 1, 0, 0, 0, 7]);
            packet[5] += 8;
        }
        _ => unreachable!("another packet"),
    }
    packet
}

/// Makes gateway B drop a packet for a reason.
pub fn produce(reason: DropReason) -> Gateway {
    let mut b = gateway(Side::B);
    match reason {
        DropReason::Srv6NoFrame => {
            b.put_lan(&Ip::new(Side::B.lan(false, 10), ip("10.79.0.1")).sized(1500, 1));
        }
        DropReason::Srv6Edge => {
            let inner = Ip::new(Side::B.lan(false, 10), ip("10.77.0.1")).sized(60, 1);
            let packet = wrapped(Side::B, Mode::EncapRed, &[sid(Side::B, "46")], &inner);
            b.put_lan(&packet);
        }
        DropReason::Srv6Malformed => {
            // Segments are put into IPv6 alone.
            b.put_lan(&Ip::new(Side::B.lan(false, 10), ip("10.80.0.1")).sized(100, 1));
        }
        _ => b.put_wan(&bad(reason)),
    }
    b.run();
    if reason != DropReason::Srv6NoFrame {
        // The error is no ESP.
        b.wan_out();
    }
    b
}

#[test]
fn errors_go_back_to_who_put_the_segments_on() {
    let of = |reason| {
        let mut b = gateway(Side::B);
        b.put_wan(&bad(reason));
        b.run();
        assert_eq!(b.dropped(reason), 1, "{:?}", b.drops());
        b.wan_out()
    };
    let error = of(DropReason::Srv6SegmentsLeft).remove(0);
    // Parameter problem, erroneous field: where Segments Left is.
    assert_eq!((&error[40..42], &error[44..48]), (&[4, 0][..], &[0, 0, 0, 43][..]));
    let IpAddr::V6(source) = Side::A.wan(true) else { unreachable!() };
    assert_eq!(error[24..40], source.octets());
    let error = of(DropReason::Srv6UpperLayer).remove(0);
    assert_eq!((&error[40..42], &error[44..48]), (&[4, 4][..], &[0, 0, 0, 64][..]));
    assert!(of(DropReason::Srv6Hmac).is_empty());
    let mut b = gateway(Side::B);
    let inner = Ip::new(ip("10.9.0.1"), ip("10.77.0.1")).sized(60, 1);
    let mut packet = wrapped(Side::B, Mode::Encap, &[sid(Side::B, "1"), sid(Side::A, "9")], &inner);
    packet[7] = 1;
    b.put_wan(&packet);
    b.run();
    assert_eq!((b.dropped(DropReason::TtlExceeded), b.wan_out()[0][40]), (1, 3));
}

#[test]
fn segments_that_lead_in_a_circle_end() {
    let mut b = gateway(Side::B);
    let inner = Ip::new(ip("10.9.0.1"), ip("10.77.0.1")).sized(60, 1);
    let own = [sid(Side::B, "1"); 7];
    let mut packet = wrapped(Side::B, Mode::Encap, &own, &inner);
    packet[7] = 4;
    b.put_wan(&packet);
    b.run();
    assert_eq!(b.drops(), [(DropReason::TtlExceeded, 1)]);
}

#[test]
fn policy_is_asked_before_segments_and_about_what_was_inside() {
    let mut a = Gateway::new(Side::A);
    a.protect(&Spec::default());
    publish(&a, 1500, false);
    let net = |text: &str| Prefix { addr: ip(text), len: 16 };
    let all = Prefix { addr: ip("0.0.0.0"), len: 0 };
    let inner = Ip::new(Side::A.lan(false, 10), ip("10.78.0.1")).sized(60, 1);
    // A policy for the packet comes before its route.
    let out = Selector::between(all, net("10.78.0.0"));
    let block = policy(50, Direction::Out, out, Vec::new());
    a.db.put_policy(policy::PolicyConfig { action: Action::Block, ..block });
    a.put_lan(&inner);
    a.run();
    assert_eq!((a.wan_out().len(), a.drops()), (0, vec![(DropReason::OutPolicyBlock, 1)]));
    // What was inside in clear is what policy wants under ESP.
    let mut b = gateway(Side::B);
    let back = Selector::between(all, net("10.77.0.0"));
    let spec = Spec::default();
    b.db.put_policy(policy(60, Direction::Forward, back, vec![template(&spec, Side::A)]));
    let inner = Ip::new(ip("10.9.0.1"), ip("10.77.0.1")).sized(60, 1);
    b.put_wan(&wrapped(Side::B, Mode::EncapRed, &[sid(Side::B, "46")], &inner));
    b.run();
    assert_eq!((b.lan_out().len(), b.drops()), (0, vec![(DropReason::InCleartext, 1)]));
    // Its source is this host's own.
    let forged = Ip::new(Side::B.lan(false, 1), ip("10.77.0.1")).sized(60, 1);
    b.put_wan(&wrapped(Side::B, Mode::EncapRed, &[sid(Side::B, "46")], &forged));
    b.run();
    assert_eq!(b.dropped(DropReason::MartianSource), 1);
}

/// Gateways between which all that has segments is protected; outer addresses of `spec` are those of IPv6.
pub fn through_ipsec(spec: &Spec) -> Pair {
    let mut pair = Pair { a: Gateway::new(Side::A), b: Gateway::new(Side::B) };
    for gateway in [&mut pair.a, &mut pair.b] {
        gateway.add_sas(spec);
        let (here, there) = (gateway.side, gateway.side.other());
        let all = Prefix { addr: ip("::"), len: 0 };
        let of = |side: Side| Prefix { addr: IpAddr::V6(sid(side, "0")), len: 64 };
        let out = Selector::between(all, of(there));
        let back = Selector::between(all, of(here));
        let theirs = vec![template(spec, there)];
        gateway.db.put_policy(policy(1, Direction::Out, out, vec![template(spec, here)]));
        gateway.db.put_policy(policy(2, Direction::Forward, back, theirs));
        publish(gateway, 1500, false);
    }
    pair
}

#[test]
fn segments_go_through_ipsec() {
    let spec = Spec { outer_v6: true, ..Spec::default() };
    let mut pair = through_ipsec(&spec);
    let inner = Ip::new(Side::A.lan(false, 10), ip("10.78.0.1")).sized(100, 1);
    for _ in 0..3 {
        pair.a.put_lan(&inner);
        pair.a.run();
        let carried = pair.carry(Side::A);
        assert_eq!(carried[0][6], protocol::ESP);
        assert_eq!(pair.b.lan_out(), [hopped(&inner, 2)], "{:?}", pair.b.drops());
    }
    // In clear they do not get in.
    let clear = wrapped(Side::B, Mode::EncapRed, &[sid(Side::B, "46")], &inner);
    pair.b.put_wan(&clear);
    pair.b.run();
    assert_eq!(pair.b.drops(), [(DropReason::InCleartext, 1)]);
    // What fits is what fits the SA, less the segments.
    let too_long = Ip { dont_fragment: true, ..Ip::new(Side::A.lan(false, 10), ip("10.78.0.1")) };
    pair.a.put_lan(&too_long.sized(1420, 1));
    pair.a.run();
    let error = pair.a.lan_out().remove(0);
    let mtu = usize::from(u16::from_be_bytes([error[26], error[27]]));
    let sa = pair.a.sa(Side::A, &spec);
    assert_eq!(mtu, sa.esp.max_inner_len(1500) - 80);
    pair.a.put_lan(&too_long.sized(mtu, 1));
    pair.a.run();
    assert_eq!(pair.carry(Side::A)[0][6], protocol::ESP);
    assert_eq!(pair.b.lan_out()[0].len(), mtu);
}

/// RFC 8754 §5.1: by the interface that a packet comes in by, and by none unless it is named.
#[test]
fn segments_are_for_packets_from_inside_the_domain() {
    let inner = Ip::new(ip("10.9.0.1"), ip("10.77.0.1")).sized(60, 1);
    let packet = wrapped(Side::B, Mode::EncapRed, &[sid(Side::B, "46")], &inner);
    for domain in [&[][..], &[WAN], &[LAN], &[WAN, LAN]] {
        for from in [WAN, LAN] {
            let mut b = Gateway::new(Side::B);
            publish(&b, 1500, false);
            set_domain(&b, domain, false);
            let is_inside = domain.contains(&from);
            // By a decision, and by its plan.
            for _ in 0..2 {
                if from == WAN {
                    b.put_wan(&packet)
                } else {
                    b.put_lan(&packet)
                }
                b.run();
                assert_eq!(b.lan_out().len(), usize::from(is_inside), "{domain:?}, {from}");
            }
            assert_eq!(b.dropped(DropReason::Srv6Edge), if is_inside { 0 } else { 2 });
        }
    }
}

/// A packet in ESP comes from a peer, and not from where its ESP does.
#[test]
fn what_an_sa_decrypts_is_inside_the_domain_where_that_is_said() {
    let spec = Spec { outer_v6: true, ..Spec::default() };
    let inner = Ip::new(Side::A.lan(false, 10), ip("10.78.0.1")).sized(100, 1);
    for (domain, trusts_sas, is_inside) in
        [(&[][..], false, false), (&[WAN], false, false), (&[], true, true)]
    {
        let mut pair = through_ipsec(&spec);
        set_domain(&pair.b, domain, trusts_sas);
        pair.a.put_lan(&inner);
        pair.a.run();
        pair.carry(Side::A);
        assert_eq!(pair.b.lan_out().len(), usize::from(is_inside), "{domain:?}, {trusts_sas}");
        assert_eq!(pair.b.dropped(DropReason::Srv6Edge), u64::from(!is_inside));
    }
    // A tunnel interface has a name of its own.
    for domain in [&[WAN][..], &[TUNNEL]] {
        let [(mut a, tunnel), (mut b, _)] = [Side::A, Side::B].map(|side| {
            let (mut gateway, tunnel) = route_based::gateway(side);
            for (index, direction) in [(1, Direction::Out), (2, Direction::Forward)] {
                let from = if direction == Direction::Out { side } else { side.other() };
                let all = Prefix { addr: ip("::"), len: 0 };
                let templates = vec![template(&Spec::default(), from)];
                let config = policy(index, direction, Selector::between(all, all), templates);
                gateway.db.put_policy(policy::PolicyConfig { if_id: IF_ID, ..config });
            }
            for from in [Side::A, Side::B] {
                let config = sa_config(&Spec::default(), from);
                route_based::add_sa(&mut gateway, policy::SaConfig { if_id: IF_ID, ..config });
            }
            (gateway, tunnel)
        });
        let index = FIRST_SEGMENTS;
        let dst = Subnet { addr: sid(Side::B, "46").into(), len: 128 };
        let far = route(table::MAIN, dst, RouteKind::Unicast, Some(TUNNEL), None);
        let own = route(table::MAIN, dst, RouteKind::Unicast, Some(index), None);
        route_based::set_topology(&a, vec![far], |_| ());
        let lan = to(TABLE, ip("10.77.0.0"), 16, LAN);
        let function = Function::Sid(Sid::new(Behaviour::EndDt46(TABLE)));
        let segments = [Some(SegmentRoute { function, ifindex: LAN })].into_iter();
        let segments = segments.collect::<Segments>().with_domain(domain.iter().copied());
        route_based::set_topology(&b, vec![own, lan], |topology| topology.segments = segments);
        let outer = wrapped(Side::B, Mode::EncapRed, &[sid(Side::B, "46")], &inner);
        a.put(&tunnel, &outer);
        a.run();
        assert_eq!(route_based::carry(&mut a, &mut b), 1, "{:?}", a.drops());
        let expected = if domain == [WAN] { vec![(DropReason::Srv6Edge, 1)] } else { vec![] };
        let drops: Vec<_> =
            b.drops().into_iter().filter(|(r, _)| *r == DropReason::Srv6Edge).collect();
        assert_eq!(drops, expected, "{domain:?}: {:?}", b.drops());
        assert_eq!(b.counters.work.srv6_decapsulated.value(), u64::from(domain != [WAN]));
    }
}

#[test]
fn segments_and_ipsec_have_room_wherever_a_packet_begins() {
    let spec = Spec { outer_v6: true, ..Spec::default() };
    let mut pair = through_ipsec(&spec);
    let lan = pair.a.lan.clone();
    let inner = Ip::new(Side::A.lan(false, 10), ip("10.78.0.1"));
    for start in [0, 64, 128, 256] {
        let packet = inner.sized(1300, 1);
        pair.a.put_at(&lan, &ethernet(Side::A.mac(LAN), Side::A.host_mac(10), &packet), start);
        pair.a.run();
        pair.carry(Side::A);
        assert_eq!(pair.b.lan_out(), [hopped(&packet, 2)], "{start}: {:?}", pair.a.drops());
    }
    // Pieces begin where their frames have it.
    for _ in 0..8 {
        pair.a.put_lan(&inner.sized(1480, 1));
        pair.a.run();
        pair.carry(Side::A);
        assert_eq!(pair.b.lan_out().len(), 2, "{:?}", pair.a.drops());
    }
    assert_eq!(pair.a.drops(), []);
}

#[test]
fn ipsec_goes_through_segments() {
    let spec = Spec::default();
    let mut pair = Pair::new(&spec);
    publish(&pair.a, 1500, true);
    publish(&pair.b, 1500, true);
    let inner = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    for _ in 0..3 {
        pair.a.put_lan(&inner);
        pair.a.run();
        let carried = pair.carry(Side::A);
        assert_eq!((carried[0][6], carried[0][40 + 9]), (protocol::IPV4, protocol::ESP));
        assert_eq!(pair.b.lan_out(), [hopped(&inner, 2)], "{:?}", pair.b.drops());
    }
    assert_eq!(pair.a.drops(), []);
}

#[test]
fn why_says_which_step_a_packet_takes() {
    let mut b = gateway(Side::B);
    let inner = Ip::new(ip("10.9.0.1"), ip("10.77.0.1")).sized(60, 1);
    let packet = wrapped(Side::B, Mode::EncapRed, &[sid(Side::B, "46")], &inner);
    let told = ask(&mut b, &packet, dataplane::Came::Port { ifindex: WAN });
    assert_eq!(told.fate, Fate::Stepped);
    assert!(told.steps.contains(&Step::Sid { name: "End.DT46" }));
    let inner = Ip::new(Side::B.lan(false, 10), ip("10.78.0.1")).sized(60, 1);
    let told = ask(&mut b, &inner, dataplane::Came::Port { ifindex: LAN });
    let first = sid(Side::A, "1");
    assert!(told.steps.contains(&Step::Headend { mode: "encap", first }), "{told:?}");
    // The last segment's list.
    assert!(Srh::parse(&packet[40..]).is_none());
}

/// Packets to a route with segments, from two hosts in turn, in one burst.
fn burst(a: &mut Gateway, count: u16) -> Vec<Vec<u8>> {
    for n in 0..count {
        let host = Side::A.lan(false, 10 + n % 2);
        a.put_lan(&Ip::new(host, ip("10.78.0.1")).sized(60 + usize::from(n), n));
    }
    a.run();
    a.wan_out()
}

#[test]
fn what_a_headend_makes_keeps_its_order() {
    let mut a = gateway(Side::A);
    // New flows and known ones; the headend's plan comes in the middle of the third.
    for count in [1, 40, 70, 70] {
        let lens: Vec<usize> = burst(&mut a, count).iter().map(Vec::len).collect();
        let expected: Vec<usize> = (0..count).map(|n| 140 + usize::from(n)).collect();
        assert_eq!(lens, expected);
    }
    assert_eq!(a.drops(), []);
}

#[test]
fn what_a_headend_makes_goes_as_its_tables_and_policies_say() {
    let mut a = gateway(Side::A);
    assert_eq!(burst(&mut a, 4).len() + burst(&mut a, 4).len(), 8);
    let before = a.counters.work.flow_misses.value();
    assert_eq!(burst(&mut a, 4).len(), 4);
    assert_eq!(a.counters.work.flow_misses.value(), before, "all by plans");
    // A policy about the outer packet alone.
    let all = Prefix { addr: ip("::"), len: 0 };
    let theirs = Prefix { addr: IpAddr::V6(sid(Side::B, "0")), len: 64 };
    let config = policy(70, Direction::Out, Selector::between(all, theirs), Vec::new());
    a.db.put_policy(policy::PolicyConfig { action: Action::Block, ..config.clone() });
    assert_eq!((burst(&mut a, 4).len(), a.dropped(DropReason::OutPolicyBlock)), (0, 4));
    a.db.put_policy(config);
    assert_eq!(burst(&mut a, 4).len() + burst(&mut a, 4).len(), 8);
    let counted = a.db.policy(70).map(|policy| (policy.packets(), policy.bytes()));
    assert_eq!(counted, Some((8, 2 * (140 + 141 + 142 + 143))), "each outer packet, whole");
    a.db.remove_policy(70);
    assert_eq!(burst(&mut a, 4).len(), 4);
    // Its next hop has another address, and then there is none.
    let moved = wire::MacAddr([2, 9, 9, 9, 9, 9]);
    a.tables.neighbours.rcu(|old| {
        let mut new = forward::Neighbours::clone(old);
        new.insert(forward::NeighbourEntry {
            ifindex: WAN,
            addr: Side::B.wan(true),
            mac: Some(moved),
            state: forward::NeighbourState::Reachable,
        });
        new
    });
    a.put_lan(&Ip::new(Side::A.lan(false, 10), ip("10.78.0.1")).sized(60, 1));
    a.run();
    let wan = a.wan.clone();
    assert_eq!(a.take(&wan)[0][..6], moved.0);
    a.set_neighbours(forward::NeighbourState::Failed);
    assert_eq!((burst(&mut a, 2).len(), a.dropped(DropReason::NeighbourFailed)), (0, 2));
    a.set_neighbours(forward::NeighbourState::Reachable);
    assert_eq!(burst(&mut a, 4).len() + burst(&mut a, 4).len(), 8);
    // Its route is gone, or a shorter path.
    publish(&a, 139, false);
    let fits = burst(&mut a, 2);
    assert!(fits.iter().all(|packet| packet.len() <= 139), "{fits:?}");
    a.set_topology_with(1500, Vec::new(), Vec::new(), false);
    assert_eq!(burst(&mut a, 2).len(), 0);
}
