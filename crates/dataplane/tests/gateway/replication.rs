//! Packets in copies: sent over two tunnels, and taken once at the far end, in order.

use std::sync::Arc;

use dataplane::{
    Beside, Came, CopyRemoval, CopyWay, ParityPlan, PathEnds, PathExit, Replication, SteerRule,
    Steering, Step, Streams, TrafficMatch,
};
use forward::{RouteKind, Subnet, table};
use outcome::DropReason;
use paths::{Labels, Removal, Remover};
use policy::{Direction, Prefix, SaConfig, Selector};
use preof::{Numbered, Outside};
use selection::{Candidate, Choice};

use crate::explain::ask;
use crate::packets::{Ip, cut, hopped, number, reassemble};
use crate::route_based::{MTU, everything, set_tunnels};
use crate::support::{
    Gateway, LAN, SIZES, Side, Spec, ip, make_sa, policy, route, sa_config, template,
};

/// The tunnel interfaces, each with an SA.
const TUNNELS: [u32; 2] = [FIRST_TUNNEL, 21];
/// The first of them.
pub const FIRST_TUNNEL: u32 = 20;
/// SPI of the first tunnel's SA.
pub const FIRST_SPI: u32 = 0x700;
/// Distance of the SPI of a further SA of the same tunnel.
pub const REKEYED: u32 = 0x1000;
/// IP, UDP, label and control word.
const OVERHEAD: usize = 36;
/// Identity of the sender.
const SENDER: u64 = 5;
const MS: u64 = 1_000_000;

/// The sites: A sends in copies, B removes the second ones.
pub struct Sites {
    pub a: Gateway,
    pub b: Gateway,
    labels: Arc<Labels>,
    removal: Removal,
    setup: Setup,
}

/// Settings of the sites.
#[derive(Clone, Copy, Default)]
pub struct Setup {
    /// How long packets wait for those before them, in milliseconds.
    pub wait_ms: u64,
    /// Workers of each site beside the first.
    pub more_workers: usize,
    /// The copies' own headers, and the SAs', are of IPv6.
    pub outer_v6: bool,
    /// A sends its packets once, with parity.
    pub parity: Option<ParityPlan>,
}

fn gateway(side: Side, setup: Setup, removal: Option<CopyRemoval>) -> Gateway {
    let mut g = Gateway::with_workers(side, SIZES, 1024, 1 + setup.more_workers);
    publish(&mut g, removal);
    let spec = Spec { outer_v6: setup.outer_v6, ..Spec::default() };
    for at in 0..TUNNELS.len() as u32 {
        add_policies(&mut g, at, &spec);
        add_sa(&mut g, at, &spec, FIRST_SPI + at);
    }
    g
}

/// Publishes routes and interfaces, and if second copies are removed.
fn publish(g: &mut Gateway, removal: Option<CopyRemoval>) {
    publish_by(g, removal, TUNNELS[0]);
}

fn publish_by(g: &mut Gateway, removal: Option<CopyRemoval>, by: u32) {
    let to_first = [false, true].map(|v6| {
        let Prefix { addr, len } = g.side.other().net(v6);
        route(table::MAIN, Subnet { addr, len }, RouteKind::Unicast, Some(by), None)
    });
    g.set_topology_but(to_first.into(), |topology| {
        set_tunnels(topology, TUNNELS);
        topology.path_ends = Arc::new(PathEnds { removal, ..PathEnds::default() });
    });
}

/// Policies of a tunnel for all packets from A to B.
fn add_policies(g: &mut Gateway, at: u32, spec: &Spec) {
    let (if_id, reqid) = (TUNNELS[at as usize], at + 1);
    let directions: &[Direction] = match g.side {
        Side::A => &[Direction::Out],
        Side::B => &[Direction::In, Direction::Forward],
    };
    let all6 = Prefix { addr: ip("::"), len: 0 };
    for (selector, base) in [(everything(), 10), (Selector::between(all6, all6), 50)] {
        for direction in directions {
            let template = policy::Template { reqid, ..template(spec, Side::A) };
            let index = base * reqid + *direction as u32;
            let config = policy(index, *direction, selector, vec![template]);
            g.db.put_policy(policy::PolicyConfig { if_id, ..config });
        }
    }
}

/// An SA from A to B of a tunnel.
fn add_sa(g: &mut Gateway, at: u32, spec: &Spec, spi: u32) {
    let config = sa_config(spec, Side::A);
    let mut params = config.params.clone();
    params.spi = spi;
    let sa = make_sa(&params);
    let if_id = TUNNELS[at as usize];
    g.db.add_sa(SaConfig { if_id, reqid: at + 1, params, ..config }, sa).expect("new");
}

impl Sites {
    pub fn new(wait_ms: u64) -> Sites {
        Sites::with(Setup { wait_ms, ..Setup::default() })
    }

    pub fn with(setup: Setup) -> Sites {
        let labels = Arc::new(Labels::default());
        let removal = Remover::new(Arc::clone(&labels), 77).assign(SENDER, 0).expect("labels");
        let removes = CopyRemoval { labels: Arc::clone(&labels), wait_ns: setup.wait_ms * MS };
        let a = gateway(Side::A, setup, None);
        let b = gateway(Side::B, setup, Some(removes));
        let sites = Sites { a, b, labels, removal, setup };
        sites.replicate(0, Some(&Arc::new(Streams::new(removal))));
        sites
    }

    /// The same, where A sends its packets once, with parity.
    pub fn with_parity(wait_ms: u64, plan: ParityPlan) -> Sites {
        Sites::with(Setup { wait_ms, parity: Some(plan), ..Setup::default() })
    }

    /// Has A send calls by a path first; in copies, or with parity, if the far end consents to these streams.
    pub fn replicate(&self, first: usize, streams: Option<&Arc<Streams>>) {
        let names = ["one", "two"];
        let exits = TUNNELS.iter().zip(names).map(|(ifindex, name)| {
            Some(PathExit { name: name.into(), ifindex: *ifindex, clear: None })
        });
        let Setup { outer_v6, parity, .. } = self.setup;
        let way = |at: usize| CopyWay {
            name: names[at].into(),
            ifindex: TUNNELS[at],
            src: Side::A.lan(outer_v6, 1),
            dst: Side::B.lan(outer_v6, 1),
        };
        let rule = SteerRule {
            name: "voice".into(),
            matches: TrafficMatch { dscp: Some(46), ..TrafficMatch::default() },
            choice: Choice::new([Candidate { path: first as u16, lot: 0, weight: 1 }]),
            copies: streams.map(|_| 0),
        };
        let beside = parity.map_or_else(|| Beside::Copy(way(1 - first)), Beside::Parity);
        let replication = |streams| Replication { streams, way: way(first), beside };
        let replications = streams.cloned().map(replication).into_iter().collect();
        let steering = Steering::new(vec![rule], exits.collect());
        self.a.tables.steer(steering.with_replications(replications));
    }

    /// Streams as a far end that consents anew has them.
    pub fn streams(&self) -> Arc<Streams> {
        Arc::new(Streams::new(self.removal))
    }

    /// Has B consent to copies, or not.
    pub fn consent(&mut self, is_given: bool) {
        let Setup { wait_ms, .. } = self.setup;
        let removes = CopyRemoval { labels: Arc::clone(&self.labels), wait_ns: wait_ms * MS };
        publish(&mut self.b, is_given.then_some(removes));
    }

    /// Gives both ends a further SA of a tunnel, by which A sends from now on.
    pub fn rekey(&mut self, at: u32) {
        let spec = Spec { outer_v6: self.setup.outer_v6, ..Spec::default() };
        for g in [&mut self.b, &mut self.a] {
            add_sa(g, at, &spec, FIRST_SPI + at + REKEYED);
        }
        remove_sa(&mut self.a, FIRST_SPI + at);
    }

    /// Label of the first stream from A.
    pub fn label(&self) -> u32 {
        self.removal.label
    }

    /// Copies that A sends of a packet of a host: one by each tunnel, in their order.
    pub fn copies(&mut self, packet: &[u8]) -> [Vec<u8>; 2] {
        self.a.put_lan(packet);
        self.a.run();
        let mut out = self.a.wan_out();
        out.sort_by_key(|packet| spi(packet) % REKEYED);
        let spis: Vec<_> = out.iter().map(|packet| spi(packet) % REKEYED).collect();
        assert_eq!(spis, [FIRST_SPI, FIRST_SPI + 1]);
        out.try_into().expect("two")
    }

    /// Has B receive a packet, and returns the numbers of those that it forwards.
    pub fn arrive(&mut self, packet: &[u8]) -> Vec<u16> {
        self.b.put_wan(packet);
        self.delivered()
    }

    pub fn delivered(&mut self) -> Vec<u16> {
        self.b.run();
        self.b.lan_out().iter().map(|packet| number(packet)).collect()
    }

    pub fn pass_ms(&mut self, ms: u64) -> Vec<u16> {
        self.b.now.ns += ms * MS;
        self.delivered()
    }

    /// A datagram in the second tunnel, sealed by A.
    pub fn sealed_by_second(&mut self, inside: &[u8]) -> Vec<u8> {
        publish_by(&mut self.a, None, TUNNELS[1]);
        self.a.put_linux(inside);
        self.a.run();
        let sealed = self.a.wan_out().remove(0);
        assert_eq!(spi(&sealed), FIRST_SPI + 1);
        sealed
    }

    /// Has B receive a datagram out of a tunnel, sealed by A.
    pub fn arrive_inside(&mut self, inside: &[u8]) -> Vec<u16> {
        self.a.put_linux(inside);
        self.a.run();
        self.a.wan_out().iter().for_each(|sealed| self.b.put_wan(sealed));
        self.delivered()
    }
}

/// Removes the SA that has this SPI.
pub fn remove_sa(g: &mut Gateway, spi: u32) {
    let sa = g.db.sas().find(|sa| sa.config.params.spi == spi);
    let id = sa.expect("an SA").config.id();
    assert!(g.db.remove_sa(&id).is_some());
}

pub fn spi(packet: &[u8]) -> u32 {
    let at = usize::from(wire::parse_ip(packet).expect("a packet").header_len);
    u32::from_be_bytes(packet[at..at + 4].try_into().expect("four bytes"))
}

/// A packet of a call.
pub fn voice(n: u16) -> Vec<u8> {
    sized(100, n)
}

pub fn sized(len: usize, n: u16) -> Vec<u8> {
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    with_class(ip.sized(len, n), 46 << 2)
}

pub fn with_class(mut packet: Vec<u8>, class: u8) -> Vec<u8> {
    wire::set_traffic_class(&mut packet, class);
    packet
}

#[test]
fn a_packet_goes_twice_and_arrives_once_as_it_was() {
    for first in [0, 1] {
        let mut sites = Sites::new(0);
        for n in 0..20 {
            let packet = voice(n);
            let copies = sites.copies(&packet);
            sites.b.put_wan(&copies[first]);
            sites.b.run();
            // Each gateway is a hop.
            assert_eq!(sites.b.lan_out(), [hopped(&packet, 2)]);
            assert_eq!(sites.arrive(&copies[1 - first]), []);
        }
        assert_eq!(sites.b.drops(), [(DropReason::CopyDuplicate, 20)]);
        assert_eq!(sites.a.drops(), []);
        let (a, b) = (&sites.a.counters.work, &sites.b.counters.work);
        assert_eq!((a.copies_made.value(), a.copies_made_bytes.value()), (20, 2000));
        assert_eq!((b.copies_taken.value(), b.copies_gaps.value()), (40, 0));
        // The flow was resolved once, and its copies on each tunnel once.
        assert_eq!((a.flow_misses.value(), a.flow_hits.value()), (3, 57));
    }
}

#[test]
fn what_no_rule_names_goes_once() {
    let mut sites = Sites::new(0);
    sites.a.put_lan(&with_class(voice(1), 0));
    sites.a.run();
    let out = sites.a.wan_out();
    assert_eq!(out.iter().map(|p| spi(p)).collect::<Vec<_>>(), [FIRST_SPI]);
    assert_eq!(sites.arrive(&out[0]), [1]);
    assert_eq!(sites.b.counters.work.copies_taken.value(), 0);
}

#[test]
fn losses_of_one_path_are_made_good_in_order() {
    let mut sites = Sites::new(50);
    let copies: Vec<_> = (0..6).map(|n| sites.copies(&voice(n))).collect();
    assert_eq!(sites.arrive(&copies[0][0]), [0]);
    // The first path loses 1 and 3; the second is 10 ms behind.
    assert_eq!(sites.arrive(&copies[2][0]), []);
    assert_eq!(sites.pass_ms(10), []);
    assert_eq!(sites.arrive(&copies[0][1]), []);
    assert_eq!(sites.arrive(&copies[4][0]), []);
    assert_eq!(sites.arrive(&copies[1][1]), [1, 2]);
    assert_eq!(sites.arrive(&copies[2][1]), []);
    assert_eq!(sites.arrive(&copies[3][1]), [3, 4]);
    let work = &sites.b.counters.work;
    assert_eq!((work.copies_waited.value(), work.copies_gaps.value()), (2, 0));
    assert_eq!(sites.b.drops(), [(DropReason::CopyDuplicate, 2)]);
}

#[test]
fn what_both_paths_lose_is_waited_for_no_longer_than_its_time() {
    let mut sites = Sites::new(50);
    let copies: Vec<_> = (0..5).map(|n| sites.copies(&voice(n))).collect();
    assert_eq!(sites.arrive(&copies[0][0]), [0]);
    assert_eq!(sites.arrive(&copies[2][0]), []);
    assert_eq!(sites.pass_ms(20), []);
    assert_eq!(sites.arrive(&copies[4][1]), []);
    assert_eq!(sites.pass_ms(29), []);
    assert_eq!(sites.pass_ms(1), [2]);
    // Late, but nobody had it.
    assert_eq!(sites.arrive(&copies[1][1]), [1]);
    assert_eq!(sites.pass_ms(20), [4]);
    assert_eq!(sites.b.counters.work.copies_gaps.value(), 2);
    assert_eq!(sites.arrive(&copies[4][0]), []);
    assert_eq!(sites.b.drops(), [(DropReason::CopyDuplicate, 1)]);
}

#[test]
fn what_is_not_waited_for_is_a_gap() {
    let mut sites = Sites::new(0);
    let copies: Vec<_> = (0..4).map(|n| sites.copies(&voice(n))).collect();
    assert_eq!(sites.arrive(&copies[0][0]), [0]);
    assert_eq!(sites.arrive(&copies[3][0]), [3]);
    assert_eq!(sites.b.counters.work.copies_gaps.value(), 2);
}

#[test]
fn streams_wait_for_themselves_alone() {
    let mut sites = Sites::new(50);
    let flow = |host: u16, n: u16| {
        let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, host));
        with_class(ip.sized(100, n), 46 << 2)
    };
    let begun: Vec<_> = (0..64).map(|n| sites.copies(&flow(10 + n % 2, n))).collect();
    sites.arrive(&begun[0][0]);
    sites.arrive(&begun[1][0]);
    // One flow has a gap. The other does not wait, unless it has drawn the same stream.
    let waits = sites.arrive(&begun[4][0]);
    let other = sites.arrive(&begun[3][0]);
    assert!(waits.is_empty() || other == [3], "{waits:?} {other:?}");
    sites.pass_ms(50);
}

#[test]
fn the_owner_of_a_stream_takes_it_whatever_worker_receives() {
    for workers in [2, 3] {
        let mut sites =
            Sites::with(Setup { wait_ms: 50, more_workers: workers - 1, ..Setup::default() });
        let mut copies = Vec::new();
        for n in 0..30 {
            let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
            copies
                .push(sites.copies(&with_class(ip.udp(5000 + n, 6000, &n.to_be_bytes()), 46 << 2)));
        }
        for copy in copies.iter().flatten() {
            sites.b.put_wan(copy);
        }
        sites.b.run();
        assert_eq!(sites.b.lan_out().len(), 30);
        assert_eq!(sites.b.drops(), [(DropReason::CopyDuplicate, 30)]);
        let of = |count: fn(&dataplane::Counters) -> u64| {
            sites.b.all_counters().map(|c| count(c)).collect::<Vec<_>>()
        };
        let taken = of(|c| c.work.copies_taken.value());
        assert_eq!(taken.iter().sum::<u64>(), 60);
        assert!(taken.iter().all(|count| *count > 0), "{taken:?}");
    }
}

#[test]
fn another_set_of_workers_takes_over_and_nothing_is_lost() {
    let mut sites = Sites::new(1000);
    let copies: Vec<_> = (0..6).map(|n| sites.copies(&voice(n))).collect();
    sites.arrive(&copies[0][0]);
    assert_eq!(sites.arrive(&copies[2][0]), []);
    sites.b.set_workers(2);
    assert_eq!(sites.delivered(), [2], "what has waited goes on");
    assert_eq!(sites.arrive(&copies[3][0]), [3]);
    assert_eq!(sites.arrive(&copies[3][1]), []);
    // A stream that begins long afterwards has its beginning waited for.
    assert_eq!(sites.pass_ms(2000), []);
    let labels = sites.label()..sites.label() + paths::STREAMS;
    let begun = labels.map(|label| forged(Numbered { label, number: 1 }, &voice(9)));
    let waiting = begun.filter(|copy| sites.arrive_inside(copy).is_empty()).count();
    assert_eq!(waiting, paths::STREAMS as usize, "of the calls' own stream it was taken before");
    assert_eq!(sites.pass_ms(1000).len(), paths::STREAMS as usize - 1);
}

#[test]
fn packets_that_fit_no_copy_are_cut_or_refused() {
    let longest = MTU as usize - OVERHEAD;
    let mut sites = Sites::new(0);
    let fits = sites.copies(&sized(longest, 1));
    assert!(fits.iter().all(|copy| copy.len() <= 1500), "{}", fits[0].len());
    assert_eq!(sites.arrive(&fits[0]), [1]);
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    let whole = with_class(Ip { dont_fragment: true, ..ip }.sized(longest + 1, 2), 46 << 2);
    sites.a.put_lan(&whole);
    sites.a.run();
    assert_eq!(sites.a.wan_out().len(), 0);
    let error = sites.a.lan_out().remove(0);
    let told = u16::from_be_bytes([error[26], error[27]]);
    assert_eq!((error[20], error[21], usize::from(told)), (3, 4, longest));
    let long = with_class(Ip { dont_fragment: false, ..ip }.sized(longest + 1, 3), 46 << 2);
    sites.a.put_lan(&long);
    sites.a.run();
    let pieces = sites.a.wan_out();
    assert_eq!(pieces.len(), 4, "two pieces, twice");
    pieces.iter().for_each(|piece| sites.b.put_wan(piece));
    sites.b.run();
    let out = sites.b.lan_out();
    assert_eq!((out.len(), reassemble(&out).len()), (2, longest + 1));
    assert_eq!(sites.b.dropped(DropReason::CopyDuplicate), 2);
    // Fragments of a host are copied as they are.
    cut(&sized(700, 4), 400, 9).iter().for_each(|fragment| sites.a.put_lan(fragment));
    sites.a.run();
    assert_eq!(sites.a.wan_out().len(), 4);
}

#[test]
fn a_second_way_that_does_not_take_the_packet_is_left_out() {
    let mut sites = Sites::new(0);
    sites.copies(&voice(1));
    // Its policies are for others from now on.
    let narrow = Prefix { addr: Side::A.lan(false, 1), len: 32 };
    let anywhere = everything().dst;
    let template = policy::Template { reqid: 2, ..template(&Spec::default(), Side::A) };
    let index = 20 + Direction::Out as u32;
    assert!(sites.a.db.remove_policy(index).is_some());
    let config = policy(index, Direction::Out, Selector::between(narrow, anywhere), vec![template]);
    sites.a.db.put_policy(policy::PolicyConfig { if_id: TUNNELS[1], ..config });
    sites.a.put_lan(&voice(2));
    sites.a.run();
    let out = sites.a.wan_out();
    assert_eq!(out.iter().map(|p| spi(p)).collect::<Vec<_>>(), [FIRST_SPI]);
    assert_eq!(sites.arrive(&out[0]), [2]);
    assert_eq!(sites.b.counters.work.copies_taken.value(), 0);
}

#[test]
fn a_second_way_that_loses_its_sa_is_left_out() {
    let mut sites = Sites::new(0);
    sites.copies(&voice(1));
    remove_sa(&mut sites.a, FIRST_SPI + 1);
    sites.a.put_lan(&voice(2));
    sites.a.run();
    let out = sites.a.wan_out();
    assert_eq!(out.iter().map(|p| spi(p)).collect::<Vec<_>>(), [FIRST_SPI]);
    assert_eq!(sites.a.counters.work.copies_made.value(), 1, "for the first packet alone");
    assert_eq!(sites.arrive(&out[0]), [2]);
}

#[test]
fn a_ttl_that_ends_is_told_and_not_copied() {
    let mut sites = Sites::new(0);
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    let ends = with_class(Ip { ttl: 1, ..ip }.sized(100, 1), 46 << 2);
    // The flow has no plan at first, and then one.
    for _ in 0..2 {
        sites.a.put_lan(&ends);
        sites.a.run();
        assert_eq!(sites.a.wan_out().len(), 0);
        let errors = sites.a.lan_out();
        assert_eq!(errors.iter().map(|p| (p[20], p[21])).collect::<Vec<_>>(), [(11, 0)]);
        sites.copies(&voice(2));
    }
    assert_eq!(sites.a.drops(), [(DropReason::TtlExceeded, 2)]);
}

#[test]
fn datagrams_to_another_port_are_linuxs() {
    let mut sites = Sites::new(0);
    let label = sites.removal.label;
    let mut other_port = forged(Numbered { label, number: 1 }, &voice(1));
    other_port[22..24].copy_from_slice(&(preof::PORT + 1).to_be_bytes());
    assert_eq!(sites.arrive_inside(&other_port), []);
    assert_eq!(sites.b.linux_out().len(), 1);
    assert_eq!((sites.b.drops(), sites.b.counters.work.copies_taken.value()), (vec![], 0));
}

/// Labels of so many senders that a stream each is all that B has room for, and some more.
pub fn many_labels(sites: &mut Sites, senders: u64) -> Vec<u32> {
    let labels = Arc::new(Labels::default());
    let mut remover = Remover::new(Arc::clone(&labels), 77);
    let first = (1..=senders).map(|sender| remover.assign(sender, 0).expect("labels").label);
    let all = first.flat_map(|label| label..label + paths::STREAMS).collect();
    publish(&mut sites.b, Some(CopyRemoval { labels, wait_ns: 50 * MS }));
    all
}

#[test]
fn streams_have_a_limit_and_idle_ones_make_room() {
    let mut sites = Sites::new(50);
    let labels = many_labels(&mut sites, 65);
    let (most, more) = labels.split_at(1024);
    let copy = |label| forged(Numbered { label, number: 0 }, &voice(1));
    let next = |label| forged(Numbered { label, number: 1 }, &voice(2));
    for label in most {
        assert_eq!(sites.arrive_inside(&copy(*label)), [1]);
    }
    assert_eq!(sites.arrive_inside(&copy(more[0])), []);
    assert_eq!(sites.b.drops(), [(DropReason::CopyUnknown, 1)]);
    // One stream goes on, and stays.
    sites.pass_ms(50_000);
    assert_eq!(sites.arrive_inside(&next(most[0])), [2]);
    sites.pass_ms(11_000);
    assert_eq!(sites.arrive_inside(&copy(more[0])), [1]);
    assert_eq!(sites.arrive_inside(&copy(most[0])), []);
    assert_eq!(sites.b.dropped(DropReason::CopyDuplicate), 1);
}

/// A copy by A's own programs, for a peer that is hostile: a label and a number as it likes.
pub fn forged(numbered: Numbered, inside: &[u8]) -> Vec<u8> {
    let (src, dst) = (Side::A.lan(false, 1), Side::B.lan(false, 1));
    let src_port = 49_152 + (numbered.label % paths::STREAMS) as u16;
    let outside = Outside { src, dst, class: 0, src_port };
    let mut whole = vec![0; preof::overhead(dst)];
    whole.extend(inside);
    assert!(numbered.emit(outside, &mut whole));
    whole
}

#[test]
fn forged_copies_end_with_their_names_and_are_never_forwarded_as_they_are() {
    let mut sites = Sites::new(0);
    let inside = voice(1);
    let label = sites.removal.label;
    let good = |number| Numbered { label, number };
    assert_eq!(sites.arrive_inside(&forged(good(1000), &inside)), [1]);
    for (copy, reason) in [
        (forged(good(1000), &inside), DropReason::CopyDuplicate),
        (forged(good((1 << 27) + 1001), &inside), DropReason::CopyLate),
        (
            forged(Numbered { label: label + paths::STREAMS, number: 1 }, &inside),
            DropReason::CopyUnknown,
        ),
        (forged(Numbered { label: 0xf_ffff, number: 1 }, &inside), DropReason::CopyUnknown),
        (forged(Numbered { label: 3, number: 1 }, &inside), DropReason::CopyMalformed),
        (forged(good(1001), &inside[..19]), DropReason::CopyMalformed),
        (forged(good(1001), &[0; 40]), DropReason::CopyMalformed),
        (forged(good(1001), &[]), DropReason::CopyMalformed),
        (forged(good(1001), &inside[..99]), DropReason::CopyMalformed),
    ] {
        let before = sites.b.dropped(reason);
        assert_eq!(sites.arrive_inside(&copy), [], "{reason:?}");
        assert_eq!(sites.b.dropped(reason), before + 1, "{reason:?} of {:?}", sites.b.drops());
    }
    // A jump is followed, and numbers go round.
    assert_eq!(sites.arrive_inside(&forged(good(1000 + (1 << 26)), &inside)), [1]);
    for number in [(1 << 27) + 1, (3 << 26) + 1, 0] {
        assert_eq!(sites.arrive_inside(&forged(good(number), &inside)), [1], "{number}");
        assert_eq!(sites.arrive_inside(&forged(good(number), &inside)), []);
    }
    assert!(sites.b.linux_out().is_empty());
}

#[test]
fn copies_of_copies_are_unwrapped_to_the_packet() {
    let mut sites = Sites::new(0);
    let numbered = |number| Numbered { label: sites.removal.label, number };
    let twice = forged(numbered(1), &forged(numbered(2), &voice(7)));
    assert_eq!(sites.arrive_inside(&twice), [7]);
}

#[test]
fn what_is_inside_has_to_be_what_its_tunnel_may_bring() {
    let mut sites = Sites::new(0);
    let label = sites.removal.label;
    // From a network that is not A's: the policies of the tunnel are about all, and B's own routes refuse it as its own.
    let martian = Ip::new(Side::B.lan(false, 1), Side::B.lan(false, 10)).sized(80, 1);
    assert_eq!(sites.arrive_inside(&forged(Numbered { label, number: 1 }, &martian)), []);
    assert_eq!(sites.b.drops(), [(DropReason::MartianSource, 1)]);
    let narrow =
        Selector::between(Prefix { addr: Side::A.lan(false, 1), len: 32 }, everything().dst);
    for direction in [Direction::In, Direction::Forward] {
        let index = 10 + direction as u32;
        assert!(sites.b.db.remove_policy(index).is_some());
        let template = policy::Template { reqid: 1, ..template(&Spec::default(), Side::A) };
        let config = policy(index, direction, narrow, vec![template]);
        sites.b.db.put_policy(policy::PolicyConfig { if_id: TUNNELS[0], ..config });
    }
    assert_eq!(sites.arrive_inside(&forged(Numbered { label, number: 2 }, &voice(2))), []);
    assert_eq!(sites.b.drops().len(), 2, "{:?}", sites.b.drops());
}

#[test]
fn a_host_that_removes_no_copies_gives_them_to_linux() {
    let mut sites = Sites::new(0);
    sites.b = gateway(Side::B, Setup::default(), None);
    let [copy, _] = sites.copies(&voice(1));
    assert_eq!(sites.arrive(&copy), []);
    assert_eq!((sites.b.linux_out().len(), sites.b.lan_out().len()), (1, 0));
}

#[test]
fn a_label_that_has_another_sender_begins_anew() {
    let mut sites = Sites::new(50);
    let inside = |n| voice(n);
    let label = sites.removal.label;
    let copy = |number, n| forged(Numbered { label, number }, &inside(n));
    assert_eq!(sites.arrive_inside(&copy(5000, 1)), [1]);
    assert_eq!(sites.arrive_inside(&copy(5002, 2)), []);
    assert_eq!(sites.labels.sender(label), Some(SENDER));
    // As if the first sender were gone for long, and its place another's.
    let labels = Arc::new(Labels::default());
    let other = (6..).find(|sender| {
        let assigned = Remover::new(Arc::default(), 77).assign(*sender, 0);
        assigned.is_some_and(|removal| removal.label == label)
    });
    Remover::new(Arc::clone(&labels), 77).assign(other.expect("one"), 0).expect("labels");
    publish(&mut sites.b, Some(CopyRemoval { labels, wait_ns: 50 * MS }));
    assert_eq!(sites.arrive_inside(&copy(3, 3)), [2], "what waited of the other one");
    assert_eq!(sites.pass_ms(50), [3]);
    assert_eq!(sites.arrive_inside(&copy(3, 3)), []);
}

#[test]
fn the_outer_mark_of_congestion_is_told_inside() {
    let mut sites = Sites::new(0);
    let [copy, _] = sites.copies(&with_class(voice(1), 46 << 2 | 2));
    sites.b.put_wan(&with_class(copy, 46 << 2 | 3));
    sites.b.run();
    assert_eq!(sites.b.lan_out()[0][1], 46 << 2 | 3);
    // Its class is no more than that.
    let inside = with_class(voice(2), 46 << 2 | 2);
    let copy = forged(Numbered { label: sites.removal.label, number: 9 }, &inside);
    sites.a.put_linux(&with_class(copy, 10 << 2 | 3));
    sites.a.run();
    sites.a.wan_out().iter().for_each(|sealed| sites.b.put_wan(sealed));
    sites.b.run();
    assert_eq!(sites.b.lan_out()[0][1], 46 << 2 | 3);
}

#[test]
fn why_names_the_second_path() {
    let mut sites = Sites::new(0);
    let told = ask(&mut sites.a, &voice(1), Came::Port { ifindex: LAN }).steps;
    assert!(told.contains(&Step::Copied { path: "two".into() }), "{told:?}");
    let told = ask(&mut sites.a, &with_class(voice(1), 0), Came::Port { ifindex: LAN }).steps;
    assert!(!told.iter().any(|step| matches!(step, Step::Copied { .. })), "{told:?}");
}

/// Makes gateway B drop a copy for a reason.
pub fn produce(reason: DropReason) -> Gateway {
    let mut sites = Sites::new(0);
    let label = sites.removal.label;
    let copy = match reason {
        DropReason::CopyUnknown => forged(Numbered { label: 0xf_ffff, number: 1 }, &voice(1)),
        DropReason::CopyMalformed => forged(Numbered { label, number: 1 }, &[]),
        _ => {
            sites.arrive_inside(&forged(Numbered { label, number: 5 }, &voice(1)));
            let is_late = reason == DropReason::CopyLate;
            let number = if is_late { (1 << 27) + 6 } else { 5 };
            forged(Numbered { label, number }, &voice(1))
        }
    };
    sites.arrive_inside(&copy);
    sites.b
}
