//! Sessions of BFD come up in clear and inside ESP, go down in time, and believe nobody else.

use core::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use bfd::{Diagnostic, ECHO_PORT, MULTI_HOP_PORT, SINGLE_HOP_PORT, Settings, Standing, State};
use dataplane::{BfdAsked, BfdChange, BfdReports, BfdSession, Command, Event};
use forward::{NeighbourEntry, NeighbourState, Neighbours, RouteKind, Subnet, table};
use outcome::DropReason;

use crate::overlays;
use crate::packets::Ip;
use crate::support::{Gateway, Pair, SIZES, Side, Spec, WAN, ip, route};

const MS: u32 = 1000;

/// Discriminators of both sides.
const fn discr(side: Side) -> u32 {
    match side {
        Side::A => 0xa,
        Side::B => 0xb,
    }
}

/// A session of one side: between the networks, or between the gateways.
fn session(side: Side, local: IpAddr, far: IpAddr) -> BfdSession {
    let settings = Settings {
        discr: discr(side),
        min_tx: 5 * MS,
        min_rx: 5 * MS,
        min_echo_rx: 50 * MS,
        // A busy machine stops a test for longer than a gateway.
        detect_mult: 40,
        is_passive: false,
        is_shut: false,
        is_independent: false,
    };
    BfdSession {
        settings,
        local,
        far,
        is_multi_hop: false,
        min_ttl: bfd::TTL,
        source_port: 49_152,
        ifindex: 0,
        hold_ns: 0,
    }
}

fn between_networks(side: Side, v6: bool) -> BfdSession {
    session(side, side.lan(v6, 1), side.other().lan(v6, 1))
}

fn between_gateways(side: Side, v6: bool) -> BfdSession {
    session(side, side.wan(v6), side.other().wan(v6))
}

fn change(gateway: &Gateway, change: BfdChange) {
    gateway.commands.send(Command::Bfd(Box::new(change))).expect("a worker");
}

/// Has a session at a gateway, whose workers take its packets.
fn begin(gateway: &Gateway, session: BfdSession) {
    gateway.set_topology_but(vec![], |topology| topology.takes_bfd = true);
    change(gateway, BfdChange::Set(session));
}

/// Rounds by the real clock, which the sessions have.
fn run(gateway: &mut Gateway) {
    for _ in 0..3 {
        while gateway.worker.round()
            + gateway.others.iter_mut().map(|o| o.worker.round()).sum::<usize>()
            > 0
        {}
    }
}

/// Carries what one side has sent to the other.
fn carry(from: &mut Gateway, to: &mut Gateway) -> Vec<Vec<u8>> {
    let packets = from.wan_out();
    packets.iter().for_each(|packet| to.put_wan(packet));
    run(to);
    packets
}

fn reports(gateway: &mut Gateway, asked: BfdAsked) -> BfdReports {
    let (answer, told) = channel();
    gateway.commands.send(Command::TellBfd { asked, answer }).expect("a worker");
    run(gateway);
    told.recv().expect("an answer")
}

fn standing(gateway: &mut Gateway) -> Standing {
    let side = gateway.side;
    let reports = reports(gateway, BfdAsked::One(discr(side)));
    reports.sessions.first().copied().expect("a session")
}

fn state(gateway: &mut Gateway) -> State {
    standing(gateway).state
}

/// Lets packets go to and fro until it is so.
fn until(
    a: &mut Gateway,
    b: &mut Gateway,
    mut is_so: impl FnMut(&mut Gateway, &mut Gateway) -> bool,
) {
    let begun = Instant::now();
    while !is_so(a, b) {
        run(a);
        run(b);
        carry(a, b);
        carry(b, a);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", (standing(a), standing(b)));
    }
}

fn both_up(a: &mut Gateway, b: &mut Gateway) -> bool {
    state(a) == State::Up && state(b) == State::Up
}

/// States of which the control thread was told, each once.
fn told(gateway: &mut Gateway) -> Vec<State> {
    let states = gateway.events().into_iter().filter_map(|event| match event {
        Event::Bfd(standing) => Some(standing.state),
        _ => None,
    });
    let mut states: Vec<State> = states.collect();
    states.dedup();
    states
}

/// Two gateways with a session each that is up.
fn up(protected: bool, v6: bool) -> (Gateway, Gateway) {
    let (mut a, mut b) = match protected {
        true => {
            let pair = Pair::new(&Spec::default());
            (pair.a, pair.b)
        }
        false => (Gateway::new(Side::A), Gateway::new(Side::B)),
    };
    for gateway in [&a, &b] {
        let side = gateway.side;
        let of = if protected { between_networks } else { between_gateways };
        begin(gateway, of(side, v6));
    }
    until(&mut a, &mut b, both_up);
    (a, b)
}

#[test]
fn sessions_come_up_in_clear_and_inside_esp() {
    for (protected, v6) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut a, mut b) = up(protected, v6);
        for gateway in [&mut a, &mut b] {
            assert!(matches!(told(gateway).as_slice(), [State::Up] | [State::Init, State::Up]));
            assert!(gateway.linux_out().is_empty() && gateway.drops().is_empty());
        }
        // Packets go by the negotiated intervals, and each is counted.
        let before = standing(&mut a).counts;
        until(&mut a, &mut b, |a, _| standing(a).counts.received > before.received + 10);
        let (a_now, b_now) = (standing(&mut a), standing(&mut b));
        assert_eq!((a_now.transmit_us, a_now.detection_us), (Some(5 * MS), Some(200_000)));
        assert_eq!(a_now.peer.discr, b_now.discr);
        assert_eq!(a.counters.work.bfd_sent.value(), a_now.counts.sent);
        assert_eq!(a.counters.work.bfd_received.value(), a_now.counts.received);
        // One packet of the peer may just be on its way.
        assert!(b_now.counts.sent - a_now.counts.received <= 1, "{a_now:?} {b_now:?}");
    }
}

#[test]
fn what_leaves_is_as_the_rfcs_have_it() {
    for is_multi_hop in [false, true] {
        let mut a = Gateway::new(Side::A);
        begin(&a, BfdSession { is_multi_hop, ..between_gateways(Side::A, false) });
        run(&mut a);
        let packets = a.wan_out();
        let [packet] = packets.as_slice() else { panic!("{packets:?}") };
        let h = wire::parse_ip(packet).expect("a packet");
        let port = if is_multi_hop { MULTI_HOP_PORT } else { SINGLE_HOP_PORT };
        assert_eq!((h.ttl, h.src_port, h.dst_port, h.traffic_class), (255, 49_152, port, 48 << 2));
        let sent = bfd::Packet::parse(&packet[28..]).expect("BFD");
        assert_eq!((sent.state, sent.my_discr, sent.your_discr), (State::Down, 0xa, 0));
        assert_eq!(sent.desired_min_tx, 1_000_000, "slow while it is not up");
    }
}

#[test]
fn a_silent_peer_is_down_after_the_detection_time() {
    let (mut a, mut b) = up(true, false);
    a.events();
    carry(&mut b, &mut a);
    let heard = Instant::now();
    while state(&mut a) == State::Up {
        run(&mut a);
        assert!(heard.elapsed() < Duration::from_secs(5), "nobody noticed");
    }
    let after = heard.elapsed();
    assert!(after >= Duration::from_millis(190), "{after:?}");
    assert_eq!(standing(&mut a).diagnostic, Diagnostic::EXPIRED);
    assert_eq!(told(&mut a).last(), Some(&State::Down));
    // The peer hears of it, and both come up again.
    a.wan_out();
    b.wan_out();
    until(&mut a, &mut b, both_up);
}

/// A control packet of B's session for A's.
fn of_b() -> bfd::Packet {
    bfd::Packet {
        diagnostic: Diagnostic::NONE,
        state: State::Up,
        poll: false,
        is_final: false,
        is_independent: false,
        demand: false,
        detect_mult: 3,
        my_discr: discr(Side::B),
        your_discr: discr(Side::A),
        desired_min_tx: 5 * MS,
        required_min_rx: 5 * MS,
        required_min_echo_rx: 0,
    }
}

/// A packet from gateway B to A in clear.
fn clear(ttl: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    Ip { ttl, ..Ip::new(Side::B.wan(false), Side::A.wan(false)) }.udp(50_000, port, payload)
}

#[test]
fn lies_are_refused_by_name_and_change_nothing() {
    let mut a = Gateway::new(Side::A);
    begin(&a, between_gateways(Side::A, false));
    run(&mut a);
    let good = of_b().to_bytes();
    let with = |at: usize, byte: u8| {
        let mut bytes = good;
        bytes[at] = byte;
        bytes.to_vec()
    };
    let no_discr = bfd::Packet { your_discr: 0, ..of_b() }.to_bytes().to_vec();
    let lies: [(&str, u8, Vec<u8>); 11] = [
        ("ttl", 254, good.to_vec()),
        ("session", 255, with(11, 0xc)),
        ("version", 255, with(0, 0)),
        ("version", 255, with(0, 0x40)),
        ("length", 255, good[..23].to_vec()),
        ("length", 255, with(3, 25)),
        ("detect-mult", 255, with(2, 0)),
        ("multipoint", 255, with(1, good[1] | 1)),
        ("my-discriminator", 255, with(7, 0)),
        ("your-discriminator", 255, no_discr),
        ("authentication", 255, {
            let mut bytes = [&with(1, good[1] | 4)[..], &[1, 4, 1, 0]].concat();
            bytes[3] = 28;
            bytes
        }),
    ];
    for (number, (name, ttl, payload)) in lies.iter().enumerate() {
        let count = |a: &mut Gateway| {
            let refusals = reports(a, BfdAsked::From(0)).refusals;
            refusals.named().find(|(of, _)| of == name).expect("a kind").1
        };
        let before = count(&mut a);
        a.put_wan(&clear(*ttl, SINGLE_HOP_PORT, payload));
        run(&mut a);
        assert_eq!(count(&mut a), before + 1, "{name}");
        assert_eq!(a.dropped(DropReason::BfdRefused), number as u64 + 1, "{name}");
    }
    let now = standing(&mut a);
    assert_eq!((now.state, now.counts.received, now.peer.discr), (State::Down, 0, 0));
    assert!(a.linux_out().is_empty() && told(&mut a).is_empty());
}

#[test]
fn what_is_of_no_session_is_linuxs() {
    let mut a = Gateway::new(Side::A);
    begin(&a, BfdSession { ifindex: WAN, ..between_gateways(Side::A, false) });
    run(&mut a);
    let good = of_b().to_bytes();
    // Another peer, several hops, and a checksum that is wrong.
    let of_another = Ip { ttl: 255, ..Ip::new(ip("192.0.2.77"), Side::A.wan(false)) };
    let mut broken = clear(255, SINGLE_HOP_PORT, &good);
    broken[40] ^= 1;
    for packet in
        [of_another.udp(50_000, SINGLE_HOP_PORT, &good), clear(255, MULTI_HOP_PORT, &good), broken]
    {
        a.put_wan(&packet);
        run(&mut a);
        assert_eq!(a.linux_out(), [packet]);
    }
    assert_eq!((a.drops(), standing(&mut a).counts.received), (vec![], 0));
    // Another interface than the session's.
    begin(&a, BfdSession { ifindex: WAN + 100, ..between_gateways(Side::A, false) });
    a.put_wan(&clear(255, SINGLE_HOP_PORT, &good));
    run(&mut a);
    assert_eq!(a.linux_out().len(), 1);
    // No sessions any more.
    change(&a, BfdChange::EndAll);
    a.put_wan(&clear(255, SINGLE_HOP_PORT, &good));
    run(&mut a);
    assert_eq!((a.linux_out().len(), a.drops()), (1, vec![]));
}

#[test]
fn packets_over_several_hops_have_a_lowest_ttl() {
    let mut a = Gateway::new(Side::A);
    let session =
        BfdSession { is_multi_hop: true, min_ttl: 250, ..between_gateways(Side::A, false) };
    begin(&a, session);
    run(&mut a);
    let init = bfd::Packet { state: State::Init, ..of_b() }.to_bytes();
    a.put_wan(&clear(249, MULTI_HOP_PORT, &init));
    run(&mut a);
    assert_eq!((state(&mut a), a.dropped(DropReason::BfdRefused)), (State::Down, 1));
    a.put_wan(&clear(250, MULTI_HOP_PORT, &init));
    run(&mut a);
    assert_eq!(state(&mut a), State::Up);
}

#[test]
fn a_session_that_ends_says_so_and_all_at_once_say_nothing() {
    let (mut a, mut b) = up(false, false);
    change(&a, BfdChange::End(discr(Side::A)));
    run(&mut a);
    carry(&mut a, &mut b);
    let heard = standing(&mut b);
    assert_eq!((heard.state, heard.diagnostic), (State::Down, Diagnostic::NEIGHBOUR_DOWN));
    assert_eq!(heard.peer.state, State::AdminDown);
    assert!(reports(&mut a, BfdAsked::One(discr(Side::A))).sessions.is_empty());
    // Its place is another's, and its discriminator too.
    begin(&a, between_gateways(Side::A, false));
    until(&mut a, &mut b, both_up);
    a.wan_out();
    change(&a, BfdChange::EndAll);
    run(&mut a);
    assert!(a.wan_out().is_empty());
}

#[test]
fn other_settings_hold_and_the_session_stays_up() {
    let (mut a, mut b) = up(false, false);
    let session = between_gateways(Side::A, false);
    let settings = Settings { min_tx: 9 * MS, min_rx: 7 * MS, ..session.settings };
    change(&a, BfdChange::Set(BfdSession { settings, ..session }));
    until(&mut a, &mut b, |a, b| {
        (standing(a).transmit_us, standing(b).transmit_us) == (Some(9 * MS), Some(7 * MS))
    });
    assert!(both_up(&mut a, &mut b));
    assert!(!told(&mut a).contains(&State::Down));
}

#[test]
fn one_worker_has_the_sessions_whatever_worker_receives() {
    for protected in [false, true] {
        let mut a = Gateway::with_workers(Side::A, SIZES, 1024, 3);
        let mut b = Gateway::with_workers(Side::B, SIZES, 1024, 3);
        for gateway in [&mut a, &mut b] {
            if protected {
                gateway.protect(&Spec::default());
            }
        }
        for gateway in [&a, &b] {
            let of = if protected { between_networks } else { between_gateways };
            begin(gateway, of(gateway.side, false));
            if protected {
                let spec = Spec::default();
                assert_eq!(gateway.sa(gateway.side.other(), &spec).home().claim(2), 2);
                assert_eq!(gateway.sa(gateway.side, &spec).home().claim(1), 1);
            }
        }
        until(&mut a, &mut b, both_up);
        assert_eq!((a.drops(), b.drops()), (vec![], vec![]));
        assert!(a.linux_out().is_empty() && b.linux_out().is_empty());
    }
}

/// Address of a side on the link of an overlay.
fn on_link(side: Side) -> IpAddr {
    ip(&format!("2001:db8:78::{}", discr(side)))
}

#[test]
fn sessions_come_up_inside_an_overlay() {
    let mut both = [Side::A, Side::B].map(|side| {
        let gateway = Gateway::new(side);
        let own = Subnet { addr: on_link(side), len: 128 };
        let local = route(table::LOCAL, own, RouteKind::Local, None, None);
        overlays::publish(&gateway, vec![local], |topology| {
            topology.local.insert(on_link(side));
            topology.takes_bfd = true;
        });
        let session = session(side, on_link(side), on_link(side.other()));
        change(&gateway, BfdChange::Set(BfdSession { ifindex: overlays::GRE, ..session }));
        gateway
    });
    let [a, b] = &mut both;
    until(a, b, both_up);
    run(a);
    let begun = Instant::now();
    while a.wan_out().iter().inspect(|packet| assert_eq!(packet[9], 47)).count() == 0 {
        run(a);
        assert!(begun.elapsed() < Duration::from_secs(5), "nothing leaves");
    }
    assert_eq!((a.drops(), b.drops()), (vec![], vec![]));
    assert!(a.linux_out().is_empty() && b.linux_out().is_empty());
}

#[test]
fn sessions_come_up_between_link_local_addresses_of_a_link() {
    let of = |side: Side| ip(&format!("fe80::{}", discr(side)));
    let mut both = [Side::A, Side::B].map(|side| {
        let gateway = Gateway::new(side);
        let own = Subnet { addr: of(side), len: 128 };
        let local = route(table::LOCAL, own, RouteKind::Local, None, None);
        gateway.set_topology_but(vec![local], |topology| {
            topology.local.insert(of(side));
            topology.takes_bfd = true;
        });
        gateway.set_neighbours(NeighbourState::Reachable);
        let mut all = Neighbours::clone(&gateway.tables.neighbours.load());
        all.insert(NeighbourEntry {
            ifindex: WAN,
            addr: of(side.other()),
            mac: Some(side.other().mac(WAN)),
            state: NeighbourState::Reachable,
        });
        gateway.tables.neighbours.store(Arc::new(all));
        let session = session(side, of(side), of(side.other()));
        change(&gateway, BfdChange::Set(BfdSession { ifindex: WAN, ..session }));
        gateway
    });
    let [a, b] = &mut both;
    until(a, b, both_up);
    assert_eq!((a.drops(), b.drops()), (vec![], vec![]));
    assert!(a.linux_out().is_empty() && b.linux_out().is_empty());
}

#[test]
fn echo_packets_of_a_peer_go_back_once() {
    let mut a = Gateway::new(Side::A);
    let session = between_gateways(Side::A, false);
    begin(&a, session);
    run(&mut a);
    a.wan_out();
    let count = |a: &mut Gateway, name: &str| {
        let refusals = reports(a, BfdAsked::From(0)).refusals;
        refusals.named().find(|(of, _)| *of == name).expect("a kind").1
    };
    a.put_wan(&clear(255, ECHO_PORT, b"anything"));
    run(&mut a);
    let back = a.wan_out();
    let [packet] = back.as_slice() else { panic!("{back:?}") };
    let h = wire::parse_ip(packet).expect("a packet");
    assert_eq!((h.src, h.dst), (Side::A.wan(false), Side::B.wan(false)));
    assert_eq!((h.src_port, h.dst_port, h.ttl), (ECHO_PORT, 50_000, 254));
    assert_eq!(&packet[28..], b"anything");
    assert_eq!(a.counters.work.bfd_echoed.value(), 1);
    // What has gone back already, and what is too long.
    a.put_wan(&clear(254, ECHO_PORT, b"anything"));
    a.put_wan(&clear(255, ECHO_PORT, &[0; 1300]));
    run(&mut a);
    assert_eq!((count(&mut a, "ttl"), count(&mut a, "echo")), (1, 1));
    // Of a session that takes none, and of no session: that one is Linux's.
    let settings = Settings { min_echo_rx: 0, ..session.settings };
    change(&a, BfdChange::Set(BfdSession { settings, ..session }));
    a.put_wan(&clear(255, ECHO_PORT, b"anything"));
    run(&mut a);
    assert_eq!((count(&mut a, "echo"), a.dropped(DropReason::BfdRefused)), (2, 3));
    let echoes = |packet: &Vec<u8>| wire::parse_ip(packet).is_ok_and(|h| h.src_port == ECHO_PORT);
    assert!(!a.wan_out().iter().any(echoes));
    change(&a, BfdChange::EndAll);
    a.put_wan(&clear(255, ECHO_PORT, b"anything"));
    run(&mut a);
    assert_eq!(a.linux_out().len(), 1);
}

#[test]
fn many_sessions_are_told_of_some_at_a_time() {
    let mut a = Gateway::new(Side::A);
    for discr in 1..=150 {
        let far = IpAddr::from([192, 0, 2, 100 + (discr % 100) as u8]);
        let base = session(Side::A, IpAddr::from([10, 9, (discr / 100) as u8, 1]), far);
        let settings = Settings { discr, ..base.settings };
        begin(&a, BfdSession { settings, ..base });
    }
    let (mut from, mut seen) = (Some(0), Vec::new());
    while let Some(slot) = from {
        let BfdReports { sessions, next, .. } = reports(&mut a, BfdAsked::From(slot));
        assert!(sessions.len() <= 64);
        seen.extend(sessions.iter().map(|standing| standing.discr));
        from = next;
    }
    assert_eq!(seen, (1..=150).collect::<Vec<_>>());
}

/// Allocations while a worker hears and sends many packets.
#[test]
fn hearing_and_sending_allocate_nothing() {
    let mut a = Gateway::new(Side::A);
    begin(&a, between_gateways(Side::A, false));
    run(&mut a);
    let mut made = 0;
    for round in 0..100_u32 {
        // A peer that polls, and says another interval each time.
        let packet = bfd::Packet {
            poll: true,
            state: if round < 2 { State::Init } else { State::Up },
            required_min_rx: 5 * MS + round % 7,
            ..of_b()
        };
        a.put_wan(&clear(255, SINGLE_HOP_PORT, &packet.to_bytes()));
        made = crate::allocation::by(|| while a.worker.round() > 0 {});
        a.wan_out();
        a.events();
        // The first packets make plans, and room for them.
        assert!(round < 50 || made == 0, "{made} allocations in round {round}");
    }
    assert_eq!((made, standing(&mut a).counts.received), (0, 100));
}

/// Makes gateway B refuse a packet.
pub fn produce() -> Gateway {
    let mut b = Gateway::new(Side::B);
    begin(&b, between_gateways(Side::B, false));
    run(&mut b);
    let far = Ip::new(Side::A.wan(false), Side::B.wan(false));
    b.put_wan(&far.udp(50_000, SINGLE_HOP_PORT, &of_b().to_bytes()));
    run(&mut b);
    b.wan_out();
    b
}
