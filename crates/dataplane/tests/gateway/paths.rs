//! Probes of paths go through the tunnel and come back, and measure what they are to measure.

use core::net::{IpAddr, SocketAddr};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use dataplane::{
    ClearReflector, Command, Event, PathEnds, PathReflector, PathReport, PathReports, PathSession,
    PathSetup, PathState, ProbeExit, Probes,
};
use esp::Mode;
use outcome::DropReason;
use paths::stamp::{ErrorEstimate, Key, PORT, TestPacket, Timestamp};
use paths::{Bounds, Kind, Limits, Plan, Prober, Reflections, Reflector};
use policy::{Action, Direction, Prefix};

use crate::back::{WAN_TAG, tagged};
use crate::packets::Ip;
use crate::route_based::everything;
use crate::support::{Gateway, Pair, SIZES, Side, Spec, WAN, ip, policy};

const MS: u64 = 1_000_000;
const LOCAL_PORT: u16 = 49_862;
const IDENT: u16 = 0x5aa5;

fn local(side: Side, v6: bool) -> IpAddr {
    side.lan(v6, 1)
}

fn prober(kind: Kind, interval_ms: u64) -> Prober {
    let bounds = Bounds { loss_ppm: 20_000, delay_ns: None, jitter_ns: None };
    let plan = Plan {
        interval_ns: interval_ms * MS,
        timeout_ns: 200 * MS,
        misses: 3,
        window: 100,
        bounds,
        hold_ns: 100 * MS,
    };
    Prober::new(kind, plan, 7, 0)
}

/// Has gateway A measure the path to B, in both families.
fn measure(gateway: &Gateway, probes: Probes, kind: impl Fn() -> Kind, interval_ms: u64) {
    measure_by(gateway, probes, || prober(kind(), interval_ms));
}

fn measure_by(gateway: &Gateway, probes: Probes, prober: impl Fn() -> Prober) {
    measure_between(gateway, probes, local, prober);
}

/// The same between other addresses of both sides.
fn measure_between(
    gateway: &Gateway,
    probes: Probes,
    end: impl Fn(Side, bool) -> IpAddr,
    prober: impl Fn() -> Prober,
) {
    let sessions = [false, true].map(|v6| PathSession {
        id: v6.into(),
        local: end(Side::A, v6),
        far: end(Side::B, v6),
        probes,
        dscp: 46,
        exit: ProbeExit::Tunnel(0),
        prober: prober(),
    });
    let mut ends = PathEnds::default();
    for PathSession { local, far, .. } in &sessions {
        match probes {
            Probes::Stamp { local: port, far: far_port } => {
                let far = SocketAddr::new(*far, far_port);
                ends.sessions.insert((SocketAddr::new(*local, port), far));
            }
            Probes::Echo(_) => {
                ends.echoes.insert((*local, *far));
            }
        }
    }
    let setup = PathSetup { sessions: sessions.into(), ..PathSetup::default() };
    follow(gateway, setup, ends);
}

fn follow(gateway: &Gateway, setup: PathSetup, ends: PathEnds) {
    gateway.set_topology_but(vec![], |topology| topology.path_ends = Arc::new(ends));
    gateway.commands.send(Command::Measure(Box::new(setup))).expect("a worker");
}

fn reflect(gateway: &Gateway, keys: Vec<Key>) {
    let reflector = Reflector::new(keys, Limits { per_second: 1000, sessions: 16 });
    let reflector = Some(PathReflector { id: 1, port: PORT, reflector });
    let ends = PathEnds { reflector: Some(PORT), ..PathEnds::default() };
    follow(gateway, PathSetup { reflector, ..PathSetup::default() }, ends);
}

/// Rounds by the real clock, which the probes have.
fn run(gateway: &mut Gateway) {
    for _ in 0..3 {
        while gateway.worker.round()
            + gateway.others.iter_mut().map(|o| o.worker.round()).sum::<usize>()
            > 0
        {}
    }
}

/// Carries what one side has sent to the other; returns how much that was.
fn carry(from: &mut Gateway, to: &mut Gateway) -> usize {
    let packets = from.wan_out();
    packets.iter().for_each(|packet| to.put_wan(packet));
    run(to);
    packets.len()
}

fn reports(gateway: &mut Gateway) -> PathReports {
    let (answer, told) = channel();
    gateway.commands.send(Command::TellPaths { from: 0, answer }).expect("a worker");
    run(gateway);
    told.recv().expect("an answer")
}

fn stamp() -> Kind {
    Kind::Stamp { ssid: 3, key: None }
}

const STAMP: Probes = Probes::Stamp { local: LOCAL_PORT, far: PORT };

/// Lets probes go to and fro until each session has sent so many.
fn measured(pair: &mut Pair, probes: u64) -> Vec<PathReport> {
    let begun = Instant::now();
    loop {
        run(&mut pair.a);
        carry(&mut pair.a, &mut pair.b);
        carry(&mut pair.b, &mut pair.a);
        let sessions = reports(&mut pair.a).sessions;
        // None is under way: what was sent is carried to and fro at once.
        if sessions.iter().all(|report| report.sent >= probes) {
            return sessions;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{sessions:?}");
    }
}

#[test]
fn probes_go_through_the_tunnel_and_come_back() {
    let mut pair = Pair::new(&Spec::default());
    measure(&pair.a, STAMP, stamp, 2);
    reflect(&pair.b, Vec::new());
    let reports = measured(&mut pair, 20);
    assert_eq!(reports.len(), 2);
    for report in &reports {
        assert!(report.answered >= 10, "{report:?}");
        assert_eq!((report.state, report.quality.lost), (PathState::Good, 0));
        assert!((1..50 * MS).contains(&report.quality.delay_ns), "{report:?}");
    }
    let answered: u64 = reports.iter().map(|report| report.answered).sum();
    assert_eq!(pair.a.counters.work.probes_answered.value(), answered);
    assert!(pair.b.counters.work.probes_reflected.value() >= answered);
    // None of it was seen by Linux, or left in clear.
    assert!(pair.a.linux_out().is_empty() && pair.b.linux_out().is_empty());
    assert!(pair.a.drops().is_empty() && pair.b.drops().is_empty());
    let changes: Vec<_> =
        pair.a.events().into_iter().filter(|e| matches!(e, Event::PathState { .. })).collect();
    let good = |id| Event::PathState { id, from: PathState::Untried, to: PathState::Good };
    assert!(changes.contains(&good(0)) && changes.contains(&good(1)) && changes.len() == 2);
    let reflections = reports_of_reflector(&mut pair.b);
    assert_eq!(reflections, pair.b.counters.work.probes_reflected.value());
}

fn reports_of_reflector(gateway: &mut Gateway) -> u64 {
    reports(gateway).reflections.expect("a reflector").reflected
}

#[test]
fn reflections_go_back_in_the_order_of_their_probes() {
    let mut pair = Pair::new(&Spec::default());
    reflect(&pair.b, Vec::new());
    let ports = [1000, 1001, 1002];
    let mut probe = [0; 44];
    // An error estimate with a multiplier.
    probe[13] = 1;
    for port in ports {
        let from = Ip::new(local(Side::A, false), local(Side::B, false));
        pair.a.put_linux(&from.udp(port, PORT, &probe));
    }
    run(&mut pair.a);
    assert_eq!(carry(&mut pair.a, &mut pair.b), 3);
    assert_eq!(carry(&mut pair.b, &mut pair.a), 3);
    let back = pair.a.linux_out();
    let back: Vec<_> = back.iter().filter_map(|packet| wire::parse_ip(packet).ok()).collect();
    assert_eq!(back.iter().map(|h| h.dst_port).collect::<Vec<_>>(), ports);
}

#[test]
fn a_silent_path_is_dead_and_no_probe_leaves_in_clear() {
    let mut pair = Pair::new(&Spec::default());
    measure(&pair.a, STAMP, stamp, 5);
    reflect(&pair.b, Vec::new());
    measured(&mut pair, 10);
    let begun = Instant::now();
    // A machine that is busy may have had it dead before.
    while reports(&mut pair.a).sessions[0].state != PathState::Dead {
        run(&mut pair.a);
        assert!(begun.elapsed() < Duration::from_secs(5), "nobody noticed");
    }
    let mut clear = Gateway::new(Side::A);
    measure(&clear, STAMP, stamp, 5);
    run(&mut clear);
    assert!(clear.wan_out().is_empty() && clear.lan_out().is_empty());
    assert_eq!(clear.dropped(DropReason::OutPolicyBlock), 2);
}

#[test]
fn keys_are_held_against_each_other() {
    let key = |byte| Key::new(&[byte; 32]).expect("a key");
    let keyed = |byte| move || Kind::Stamp { ssid: 3, key: Some(key(byte)) };
    let mut pair = Pair::new(&Spec::default());
    measure(&pair.a, STAMP, keyed(1), 2);
    reflect(&pair.b, vec![key(1)]);
    assert!(measured(&mut pair, 10).iter().all(|report| report.answered > 3));
    measure_anew(&pair.a, keyed(2));
    assert!(measured(&mut pair, 10).iter().all(|report| report.answered == 0));
    assert!(pair.b.dropped(DropReason::ProbeRefused) > 6);
}

/// The same sessions with other settings.
fn measure_anew(gateway: &Gateway, kind: impl Fn() -> Kind) {
    gateway.commands.send(Command::Measure(Box::default())).expect("a worker");
    measure(gateway, STAMP, kind, 2);
}

#[test]
fn sessions_that_stay_go_on() {
    let mut pair = Pair::new(&Spec::default());
    measure(&pair.a, STAMP, stamp, 2);
    reflect(&pair.b, Vec::new());
    let before = measured(&mut pair, 10)[0].answered;
    measure(&pair.a, STAMP, stamp, 2);
    assert!(measured(&mut pair, 20)[0].answered > before);
    measure_anew(&pair.a, stamp);
    assert!(reports(&mut pair.a).sessions[0].answered < before);
}

#[test]
fn an_interface_that_goes_stops_its_own_sessions_alone() {
    let mut pair = Pair::new(&Spec::default());
    measure(&pair.a, STAMP, stamp, 2);
    reflect(&pair.b, Vec::new());
    measured(&mut pair, 10);
    let lead = |pair: &Pair, exit| {
        // A place that there is not changes nothing.
        let changes = vec![(0, ProbeExit::Tunnel(exit)), (99, ProbeExit::Tunnel(exit))];
        pair.a.commands.send(Command::LeadProbes(changes)).expect("a worker");
    };
    lead(&pair, u32::MAX);
    run(&mut pair.a);
    let answered = |pair: &mut Pair| {
        let sessions = reports(&mut pair.a).sessions;
        [sessions[0].answered, sessions[1].answered]
    };
    measured(&mut pair, 20);
    let before = answered(&mut pair);
    measured(&mut pair, 30);
    let gone = answered(&mut pair);
    assert!(gone[0] == before[0] && gone[1] > before[1], "{before:?} {gone:?}");
    lead(&pair, 0);
    measured(&mut pair, 60);
    let back = answered(&mut pair);
    assert!(back[0] > gone[0] && back[1] > gone[1], "{gone:?} {back:?}");
}

/// Linux's answer to an echo request.
fn echo_reply(request: &[u8]) -> Vec<u8> {
    let h = wire::parse_ip(request).expect("a packet");
    let header = Ip { protocol: h.protocol, ..Ip::new(h.dst, h.src) };
    let mut reply = header.with(&request[usize::from(h.header_len)..]);
    let at = usize::from(h.header_len);
    reply[at] = if h.dst.is_ipv6() { 129 } else { 0 };
    let h = wire::parse_ip(&reply).expect("a packet");
    assert!(wire::fill_l4_checksum(&mut reply, &h));
    reply
}

#[test]
fn echoes_measure_and_those_of_other_programs_are_linuxs() {
    let mut pair = Pair::new(&Spec::default());
    measure(&pair.a, Probes::Echo(IDENT), || Kind::Echo, 2);
    let begun = Instant::now();
    let mut foreign = 0;
    while reports(&mut pair.a).sessions.iter().any(|report| report.answered < 4) {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody answers");
        run(&mut pair.a);
        carry(&mut pair.a, &mut pair.b);
        for request in pair.b.linux_out() {
            let mut reply = echo_reply(&request);
            pair.b.put_linux(&reply);
            // Another program's, of the same flow.
            let h = wire::parse_ip(&reply).expect("a packet");
            reply[usize::from(h.header_len) + 4] ^= 1;
            assert!(wire::fill_l4_checksum(&mut reply, &h));
            pair.b.put_linux(&reply);
            foreign += 1;
        }
        run(&mut pair.b);
        carry(&mut pair.b, &mut pair.a);
    }
    assert_eq!(pair.a.linux_out().len(), foreign);
    assert!(pair.a.drops().is_empty());
}

/// Has gateway A measure its uplink by echoes to the other's address there.
fn measure_uplink(a: &Gateway) {
    let (local, far) = (Side::A.wan(false), Side::B.wan(false));
    let exit = ProbeExit::Uplink { ifindex: WAN, mark: 0 };
    let prober = prober(Kind::Echo, 2);
    let session =
        PathSession { id: 1, local, far, probes: Probes::Echo(IDENT), dscp: 46, exit, prober };
    let mut ends = PathEnds::default();
    ends.clear.echoes.insert((local, far));
    follow(a, PathSetup { sessions: vec![session], ..PathSetup::default() }, ends);
    // Others' packets go back to Linux as received there.
    let topology = a.tables.topology.swap(Arc::default());
    let mut topology = Arc::into_inner(topology).expect("no worker has it yet");
    topology.interfaces.get_mut(&WAN).expect("a port").back = Some(WAN_TAG);
    a.tables.topology.store(Arc::new(topology));
}

#[test]
fn an_uplink_is_measured_in_clear() {
    let mut a = Gateway::new(Side::A);
    measure_uplink(&a);
    let begun = Instant::now();
    let mut foreign = 0;
    while reports(&mut a).sessions.iter().any(|report| report.answered < 4) {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody answers");
        run(&mut a);
        for request in a.wan_out() {
            let h = wire::parse_ip(&request).expect("a packet");
            assert_eq!(
                (h.src, h.dst, h.traffic_class),
                (Side::A.wan(false), Side::B.wan(false), 46 << 2)
            );
            let mut reply = echo_reply(&request);
            a.put_wan(&reply);
            reply[usize::from(h.header_len) + 4] ^= 1;
            let h = wire::parse_ip(&reply).expect("a packet");
            assert!(wire::fill_l4_checksum(&mut reply, &h));
            a.put_wan(&reply);
            foreign += 1;
        }
    }
    let linux = a.linux_out();
    assert_eq!(linux.len(), foreign);
    assert!(linux.iter().all(|packet| packet[..4] == tagged(WAN_TAG, &[0; 14])[..4]), "{linux:?}");
    assert!(a.drops().is_empty());
}

#[test]
fn no_probe_leaves_in_clear_that_a_policy_does_not_let_pass() {
    let mut a = Gateway::new(Side::A);
    let mut blocks = policy(90, Direction::Out, everything(), vec![]);
    blocks.action = Action::Block;
    a.db.put_policy(blocks);
    measure_uplink(&a);
    let begun = Instant::now();
    while reports(&mut a).sessions.iter().any(|report| report.sent < 4) {
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing is sent");
        run(&mut a);
    }
    assert!(a.wan_out().is_empty());
    assert!(a.dropped(DropReason::OutPolicyBlock) >= 4);
}

/// Gateways of three workers, none of whose SAs has the first for its home.
fn with_other_homes() -> (Gateway, Gateway) {
    let mut a = Gateway::with_workers(Side::A, SIZES, 1024, 3);
    let mut b = Gateway::with_workers(Side::B, SIZES, 1024, 3);
    let spec = Spec::default();
    a.protect(&spec);
    b.protect(&spec);
    for (gateway, from) in [(&a, Side::B), (&b, Side::A)] {
        assert_eq!(gateway.sa(from, &spec).home().claim(2), 2);
        assert_eq!(gateway.sa(from.other(), &spec).home().claim(1), 1);
    }
    (a, b)
}

#[test]
fn one_worker_measures_whatever_worker_receives() {
    let (mut a, mut b) = with_other_homes();
    measure(&a, STAMP, stamp, 2);
    reflect(&b, Vec::new());
    let begun = Instant::now();
    while reports(&mut a).sessions.iter().any(|report| report.answered < 4) {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody answers");
        run(&mut a);
        carry(&mut a, &mut b);
        carry(&mut b, &mut a);
    }
    assert_eq!((a.drops(), b.drops()), (vec![], vec![]));
    assert!(a.linux_out().is_empty() && b.linux_out().is_empty());
}

const EF: u8 = 46 << 2;

/// Carries what one side has sent to the other, but each tenth packet of class EF, and all of others.
fn carry_badly(from: &mut Gateway, to: &mut Gateway, count: &mut usize) {
    for packet in from.wan_out() {
        let is_ef = wire::traffic_class(&packet).is_some_and(|class| class & !3 == EF);
        *count += usize::from(is_ef);
        if is_ef && !count.is_multiple_of(10) {
            to.put_wan(&packet);
        }
    }
    run(to);
}

/// Loss away and back that gateway A hears of, while a tenth of its packets gets lost.
fn counted(a: &mut Gateway, b: &mut Gateway) -> Vec<PathReport> {
    let kind = || Kind::Stamp { ssid: 3, key: None };
    measure_by(a, STAMP, || prober(kind(), 5).counting_packets());
    reflect(b, Vec::new());
    let (begun, mut count) = (Instant::now(), 0);
    let ends = Ip { traffic_class: EF, ..Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)) };
    loop {
        for _ in 0..10 {
            a.put_lan(&ends.udp(5000, 5001, b"voice"));
            a.put_lan(&Ip { traffic_class: 0, ..ends }.udp(5000, 5001, b"else"));
            b.put_lan(&Ip { src: ends.dst, dst: ends.src, ..ends }.udp(5001, 5000, b"voice"));
        }
        run(a);
        run(b);
        // The first packets go well, so that the accounts begin.
        if begun.elapsed() < Duration::from_millis(500) {
            carry(a, b);
        } else {
            carry_badly(a, b, &mut count);
        }
        carry(b, a);
        a.lan_out();
        b.lan_out();
        if begun.elapsed() > Duration::from_millis(2500) {
            return reports(a).sessions;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_counted(reports: &[PathReport]) {
    for PathReport { quality, refusals, state, .. } in reports {
        let (away, back) = (quality.away.expect("counted"), quality.back.expect("counted"));
        // Packets of class EF alone: of all of them more than half is lost.
        assert!(away.ppm().abs_diff(100_000) < 20_000, "{away:?}");
        assert!(away.sent > 200 && back.sent > 200, "{away:?} {back:?}");
        assert_eq!((back.lost, refusals.surplus_count, refusals.backward_count), (0, 0, 0));
        assert_eq!(*state, PathState::Bad);
    }
}

#[test]
fn packets_beside_probes_are_counted_by_class_at_both_ends() {
    let mut pair = Pair::new(&Spec::default());
    let reports = counted(&mut pair.a, &mut pair.b);
    is_counted(&reports);
}

#[test]
fn homes_of_sas_count_for_the_worker_that_measures() {
    let (mut a, mut b) = with_other_homes();
    let reports = counted(&mut a, &mut b);
    is_counted(&reports);
}

#[test]
fn a_far_end_that_does_not_count_is_measured_by_probes_alone() {
    // In transport mode a router may change the class.
    let mut pair = Pair::new(&Spec { mode: Mode::Transport, ..Spec::default() });
    let count = || prober(stamp(), 2).counting_packets();
    measure_between(&pair.a, STAMP, Side::wan, count);
    reflect(&pair.b, Vec::new());
    let reports = measured(&mut pair, 20);
    assert!(reports[0].answered >= 10, "{reports:?}");
    assert_eq!((reports[0].quality.away, reports[0].quality.back), (None, None));
}

/// Has gateway B answer probes in clear of the hosts of a prefix.
fn reflect_in_clear(b: &Gateway, senders: Prefix) {
    let limits = Limits { per_second: 1000, sessions: 0 };
    let key = Key::new(&[1; 32]).expect("a key");
    let reflector = Reflector::in_clear(vec![key], limits).expect("a key");
    let (senders, marks) = (vec![senders], HashMap::new());
    let clear = Some(ClearReflector { id: 1, senders, marks, reflector });
    let mut ends = PathEnds::default();
    ends.clear.reflectors.insert(SocketAddr::new(Side::B.wan(false), PORT));
    follow(b, PathSetup { clear, ..PathSetup::default() }, ends);
}

/// A probe in clear of a host, with a key and so much padding.
fn probe_in_clear(from: IpAddr, key: u8, padding: usize) -> Vec<u8> {
    let key = Key::new(&[key; 32]).expect("a key");
    let (time, error) = (Timestamp(5 << 32), ErrorEstimate::UNSYNCHRONISED);
    let mut payload = [0; 112];
    let packet = TestPacket { seq: 1, time, error, ssid: 9 };
    packet.emit(Some(&key), &mut payload).expect("room");
    let payload = [&payload[..], &vec![0; padding]].concat();
    Ip::new(from, Side::B.wan(false)).udp(50_000, PORT, &payload)
}

fn in_clear(b: &mut Gateway) -> Reflections {
    let (answer, told) = channel();
    b.commands.send(Command::TellPaths { from: 0, answer }).expect("a worker");
    run(b);
    told.recv().expect("an answer").in_clear.expect("a reflector")
}

#[test]
fn probes_in_clear_are_answered_by_the_port_that_they_came_by() {
    let mut b = Gateway::new(Side::B);
    let (named, other) = (Side::A.wan(false), ip("192.0.2.77"));
    reflect_in_clear(&b, Prefix { addr: named, len: 32 });
    for padding in [0, 100] {
        let probe = probe_in_clear(named, 1, padding);
        b.put_wan(&probe);
        run(&mut b);
        let out = b.wan_out();
        assert_eq!((out.len(), out[0].len(), b.lan_out().len()), (1, probe.len(), 0));
        let h = wire::parse_ip(&out[0]).expect("a packet");
        let ends = (h.src, h.src_port, h.dst, h.dst_port);
        assert_eq!(ends, (Side::B.wan(false), PORT, named, 50_000));
    }
    for refused in [
        probe_in_clear(other, 1, 0),
        probe_in_clear(named, 2, 0),
        probe_in_clear(named, 1, 1472 - 112 + 1),
        b_reflection(&mut b),
    ] {
        b.put_wan(&refused);
        run(&mut b);
        assert!(b.wan_out().is_empty() && b.linux_out().is_empty());
    }
    let seen = in_clear(&mut b);
    let refused = (seen.unnamed, seen.unauthentic, seen.too_long, seen.reflection);
    assert_eq!((seen.reflected, refused), (3, (1, 1, 1, 1)));
    assert_eq!(b.drops(), [(DropReason::ProbeRefused, 4)]);
}

/// A reflection of gateway B's, sent to it in the name of its sender.
fn b_reflection(b: &mut Gateway) -> Vec<u8> {
    let named = Side::A.wan(false);
    b.put_wan(&probe_in_clear(named, 1, 0));
    run(b);
    let reflection = b.wan_out().remove(0);
    Ip::new(named, Side::B.wan(false)).udp(PORT, PORT, &reflection[28..])
}

#[test]
fn each_probe_in_clear_is_answered_or_counted() {
    let mut b = Gateway::new(Side::B);
    let named = Side::A.wan(false);
    reflect_in_clear(&b, Prefix { addr: named, len: 32 });
    for _ in 0..150 {
        b.put_wan(&probe_in_clear(named, 1, 0));
    }
    run(&mut b);
    let answers = b.wan_out().len() as u64;
    let Reflections { reflected, no_room, .. } = in_clear(&mut b);
    assert_eq!((reflected, reflected + no_room), (answers, 150));
    assert_eq!(b.dropped(DropReason::ProbeRefused), no_room);
}

#[test]
fn no_answer_leaves_in_clear_that_a_policy_does_not_let_pass() {
    let mut b = Gateway::new(Side::B);
    let named = Side::A.wan(false);
    reflect_in_clear(&b, Prefix { addr: named, len: 32 });
    let mut blocks = policy(90, Direction::Out, everything(), vec![]);
    blocks.action = Action::Block;
    b.db.put_policy(blocks);
    b.put_wan(&probe_in_clear(named, 1, 0));
    run(&mut b);
    assert!(b.wan_out().is_empty());
    assert_eq!(b.drops(), [(DropReason::OutPolicyBlock, 1)]);
}

/// Makes gateway B refuse a probe.
pub fn produce() -> Gateway {
    let mut pair = Pair::new(&Spec::default());
    reflect(&pair.b, Vec::new());
    let short = Ip::new(Side::A.lan(false, 10), local(Side::B, false)).udp(5000, PORT, &[7; 43]);
    pair.a.put_lan(&short);
    pair.a.run();
    pair.carry(Side::A);
    pair.b
}
