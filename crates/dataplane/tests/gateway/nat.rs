//! NAT that Linux has decided: what it knows is translated by a plan, everything else is Linux's, as it came.
//!
//! A gateway that forgets its flows before each packet is the reference, as in `flows`.

use std::net::IpAddr;
use std::sync::Arc;

use apps::{Application, Catalogue, End, FlowId, Hints};
use conntrack::{Binding, Bindings, Change, Direction as Way, Entry, Status, TcpState, Tuple};
use dataplane::{Applications, Tables};
use forward::{Hop, NeighbourState, RouteEntry, RouteKind, Subnet, table};
use policy::{Action, Direction, Prefix, Selector};
use proptest::prelude::*;
use wire::{L4Checksum, parse_ip, protocol, verify_l4_checksum};

use crate::model::{Model, esp_at};
use crate::packets::{Ip, cut};
use crate::support::{Gateway, LAN, Side, Spec, ip, policy, route, sa_params};

/// Beyond the LAN's router, and in no policy.
const BEHIND: &str = "172.20.0.5";
const FAR: &str = "203.0.113.9";

/// A gateway, and the connections that it is told of.
struct Subject {
    gateway: Gateway,
    forgets: bool,
    nat: Arc<Bindings>,
    /// Linux has rules of NAT.
    has_rules: bool,
    known: [Option<Arc<Binding>>; CONNECTIONS],
    peer: Model,
    own: Model,
}

/// Connections of the tests. The second half goes into the tunnel, each fourth one of either stays as it is.
const CONNECTIONS: usize = 8;

/// Entry of connection `n`.
fn entry(n: usize) -> Entry {
    let port = 1000 + n as u16;
    let (to_tunnel, is_same) = (n >= CONNECTIONS / 2, n % 4 == 3);
    let number = if n.is_multiple_of(2) { protocol::UDP } else { protocol::TCP };
    let (src, own) = match (to_tunnel, is_same) {
        (_, true) => (Side::A.lan(false, 10), Side::A.lan(false, 10)),
        (false, _) => (Side::A.lan(false, 11), Side::A.wan(false)),
        (true, _) => (ip(BEHIND), Side::A.lan(false, 1)),
    };
    let dst = if to_tunnel { Side::B.lan(false, 10) } else { ip(FAR) };
    let tuple =
        |src, dst, src_port, dst_port| Tuple { src, dst, protocol: number, src_port, dst_port };
    let own_port = if is_same { port } else { port + 40_000 };
    Entry {
        original: tuple(src, dst, port, 53),
        reply: tuple(dst, own, 53, own_port),
        status: Status::CONFIRMED.with(Status::SEEN_REPLY),
        tcp: Some(TcpState::ESTABLISHED),
        id: n as u32,
        zone: 0,
    }
}

/// A packet of a tuple.
fn packet(tuple: &Tuple, ttl: u8, flags: u8, len: usize) -> Vec<u8> {
    let header = Ip { ttl, dont_fragment: true, ..Ip::new(tuple.src, tuple.dst) };
    if tuple.protocol == protocol::UDP {
        return header.udp(tuple.src_port, tuple.dst_port, &vec![7; len]);
    }
    let mut tcp = [tuple.src_port.to_be_bytes(), tuple.dst_port.to_be_bytes()].concat();
    tcp.extend([0; 8]);
    tcp.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    tcp.extend(vec![7; len]);
    let mut packet = Ip { protocol: protocol::TCP, ..header }.with(&tcp);
    let h = parse_ip(&packet).expect("a packet");
    assert!(wire::fill_l4_checksum(&mut packet, &h));
    packet
}

impl Subject {
    fn new(forgets: bool) -> Subject {
        let nat = Arc::new(Bindings::default());
        nat.set_asks([true; 2]);
        let tables = Tables { nat: Some(Arc::clone(&nat)), ..Tables::default() };
        let mut gateway = Gateway::with_tables(Side::A, tables);
        let spec = Spec::default();
        gateway.protect(&spec);
        gateway.set_topology(1500, routes());
        let [own, peer] = [Side::A, Side::B].map(|from| Model::new(sa_params(&spec, from)));
        Subject { gateway, forgets, nat, has_rules: true, known: Default::default(), peer, own }
    }

    /// Linux knows a connection.
    fn learn(&mut self, n: usize) {
        if self.known[n].is_none() {
            let binding = Arc::new(Binding::new(entry(n)));
            let both = [Way::Original, Way::Reply];
            self.nat.apply(both.map(|way| Change::Put(Arc::clone(&binding), way)));
            self.known[n] = Some(binding);
        }
    }

    /// It has seen an answer.
    fn answer(&mut self, n: usize) {
        if let Some(binding) = &self.known[n] {
            binding.carry_both();
        }
    }

    fn forget(&mut self, n: usize) {
        if let Some(binding) = self.known[n].take() {
            binding.end();
            let both = [Way::Original, Way::Reply];
            self.nat.apply(both.map(|way| Change::Remove(Arc::clone(&binding), way)));
        }
    }

    /// A packet of connection `n` comes; its way is that of the connection.
    fn put(&mut self, n: usize, is_reply: bool, (ttl, flags, len): (u8, u8, usize)) {
        if self.forgets {
            self.gateway.worker.forget_flows();
        }
        let entry = entry(n);
        let tuple = if is_reply { entry.reply } else { entry.original };
        let packet = packet(&tuple, ttl, flags, len);
        match (is_reply, n >= CONNECTIONS / 2) {
            (false, _) => self.gateway.put_lan(&packet),
            (true, false) => self.gateway.put_wan(&packet),
            (true, true) => {
                let esp = self.peer.seal_with(&packet, &[5; 16]);
                self.gateway.put_wan(&esp);
            }
        }
        self.gateway.run();
    }

    /// Packets that came out: in clear by each port, those that ESP has inside, and those that Linux got.
    fn out(&mut self) -> Outcome {
        let lan = self.gateway.lan_out();
        let (esp, wan): (Vec<_>, Vec<_>) = self
            .gateway
            .wan_out()
            .into_iter()
            .partition(|packet| parse_ip(packet).is_ok_and(|h| h.protocol == protocol::ESP));
        let inner = |packet: &Vec<u8>| {
            // Behind SPI, number and IV of AES-GCM; what padding follows is no part of it.
            let opened = self.own.opened(packet);
            let mut inner = opened[esp_at(packet) + 16..].to_vec();
            inner.truncate(usize::from(u16::from_be_bytes([inner[2], inner[3]])));
            inner
        };
        let opened: Vec<Vec<u8>> = esp.iter().map(inner).collect();
        let linux = self.gateway.linux_out();
        for packet in lan.iter().chain(&wan).chain(&opened).chain(&linux) {
            let h = parse_ip(packet).expect("a right header");
            assert_ne!(verify_l4_checksum(packet, &h), L4Checksum::Invalid, "{packet:?}");
        }
        Outcome { lan, wan, opened, linux }
    }
}

#[derive(Debug, PartialEq)]
struct Outcome {
    lan: Vec<Vec<u8>>,
    wan: Vec<Vec<u8>>,
    /// Of what left under protection, what was protected.
    opened: Vec<Vec<u8>>,
    linux: Vec<Vec<u8>>,
}

/// Hosts beyond the LAN's router.
fn routes() -> Vec<RouteEntry> {
    let dst = Subnet { addr: ip("172.20.0.0"), len: 24 };
    let gateway = Some(Side::A.lan(false, 10));
    let hops = vec![Hop { ifindex: LAN, gateway, weight: 1 }];
    vec![RouteEntry { hops, ..route(table::MAIN, dst, RouteKind::Unicast, Some(LAN), None) }]
}

fn ends(packet: &[u8]) -> (IpAddr, u16, IpAddr, u16, u8) {
    let h = parse_ip(packet).expect("a packet");
    (h.src, h.src_port, h.dst, h.dst_port, h.ttl)
}

/// Not the first, not the last, and nothing special.
const PLAIN: (u8, u8, usize) = (64, 0x10, 100);

#[test]
fn what_is_known_is_translated_by_a_plan() {
    let mut subject = Subject::new(false);
    for n in 0..CONNECTIONS {
        subject.learn(n);
        subject.answer(n);
        let Entry { original, reply, .. } = entry(n);
        let work = |subject: &Subject| {
            let work = &subject.gateway.counters.work;
            (work.flow_hits.value(), work.translated.value())
        };
        let before = work(&subject);
        for _ in 0..3 {
            subject.put(n, false, PLAIN);
            subject.put(n, true, PLAIN);
        }
        let out = subject.out();
        let is_same = n % 4 == 3;
        let (there, back) = match (n >= CONNECTIONS / 2, is_same) {
            (true, _) => (&out.opened, &out.lan),
            (false, false) => (&out.wan, &out.lan),
            // Not translated, and not protected: Linux's, as ever.
            (false, true) => {
                assert_eq!((out.wan.len(), out.lan.len(), out.linux.len()), (0, 0, 6));
                continue;
            }
        };
        assert_eq!((there.len(), back.len(), out.linux.len()), (3, 3, 0), "{n}: {out:?}");
        for packet in there {
            assert_eq!(ends(packet), (reply.dst, reply.dst_port, reply.src, 53, 63), "{n}");
        }
        for packet in back {
            let (src, port) = (original.dst, original.dst_port);
            assert_eq!(ends(packet), (src, port, original.src, original.src_port, 63), "{n}");
        }
        // Two of three each way, and what came encrypted is counted when it is decrypted.
        let after = work(&subject);
        assert!(after.0 - before.0 >= 4, "{n}: {before:?} {after:?}");
        assert_eq!(after.1 - before.1, if is_same { 0 } else { 6 });
        let carried = subject.known[n].as_ref().map(|b| b.packets());
        assert_eq!(carried, Some(6));
    }
}

#[test]
fn answers_are_of_their_flows_application() {
    let mut subject = Subject::new(false);
    let Entry { original, reply, .. } = entry(0);
    let original = Tuple { dst_port: 873, ..original };
    let reply = Tuple { src_port: 873, ..reply };
    let binding = Arc::new(Binding::new(Entry { original, reply, ..entry(0) }));
    let both = [Way::Original, Way::Reply];
    subject.nat.apply(both.map(|way| Change::Put(Arc::clone(&binding), way)));
    binding.carry_both();
    let backup = Application {
        name: "backup".into(),
        ports: vec![873..=873],
        protocol: Some(protocol::UDP),
        prefixes: vec![Prefix { addr: ip(FAR), len: 32 }],
        ..Application::default()
    };
    let catalogue = Arc::new(Catalogue::new(vec![backup]).expect("a catalogue"));
    let id = catalogue.find("backup").expect("it is there");
    let applications = Arc::new(Applications::new(catalogue, Arc::new(Hints::new(64))));
    let told = Some(Arc::clone(&applications));
    subject.gateway.set_topology_but(routes(), |topology| topology.applications = told);
    for _ in 0..3 {
        subject.gateway.put_lan(&packet(&original, 64, 0x10, 100));
        subject.gateway.put_wan(&packet(&reply, 64, 0x10, 100));
        subject.gateway.run();
    }
    let out = subject.out();
    assert_eq!((out.wan.len(), out.lan.len()), (3, 3), "{out:?}");
    assert_eq!((applications.counted(id).0, applications.flows_by_rule(id)), (6, 1));
    // Both by the ends that the client knows, and by those that the answers come with.
    let now_ns = subject.gateway.now.ns;
    for tuple in [original, reply] {
        let end = |addr, port| End { addr, port };
        let flow = FlowId::new(
            protocol::UDP,
            end(tuple.src, tuple.src_port),
            end(tuple.dst, tuple.dst_port),
        );
        assert_eq!(applications.hints().flow(&flow, now_ns), Some(id), "{tuple:?}");
    }
}

#[test]
fn everything_else_is_linuxs_as_it_came() {
    let mut subject = Subject::new(false);
    let came = |subject: &mut Subject, n: usize, what: (u8, u8, usize)| {
        let packet = packet(&entry(n).original, what.0, what.1, what.2);
        subject.put(n, false, what);
        let out = subject.out();
        assert_eq!(out.linux, [packet], "{n} {what:?}: {out:?}");
        assert!(out.wan.is_empty() && out.lan.is_empty() && out.opened.is_empty());
    };
    // Not known yet, also where a policy would protect it.
    (0..CONNECTIONS).for_each(|n| came(&mut subject, n, PLAIN));
    for n in [0, 1, 4, 5] {
        subject.learn(n);
        subject.answer(n);
        subject.put(n, false, PLAIN);
        assert!(subject.out().linux.is_empty());
        // The TTL ends here; too long for where it goes.
        came(&mut subject, n, (1, 0x10, 100));
        came(&mut subject, n, (64, 0x10, 1480));
        if n % 2 == 1 {
            for flags in [0x02, 0x12, 0x11, 0x14] {
                came(&mut subject, n, (64, flags, 0));
            }
        }
        // A fragment, and an error about a packet of it.
        let whole = packet(&entry(n).original, 64, 0x10, 1400);
        let pieces = cut(&whole, 576, 7);
        pieces.iter().for_each(|piece| subject.gateway.put_lan(piece));
        subject.gateway.run();
        let out = subject.out();
        assert!(out.wan.is_empty() && out.opened.is_empty(), "{out:?}");
        // Forgotten.
        subject.forget(n);
        came(&mut subject, n, PLAIN);
    }
}

/// Linux's routes lead to culvert again what policy protects as it is; what is in clear, or has to be translated
/// first, goes past it.
#[test]
fn what_is_linuxs_is_marked_unless_policy_protects_it() {
    const TAG: u16 = 7;
    let mut subject = Subject::new(false);
    subject.gateway.set_topology_but(routes(), |topology| {
        topology.interfaces.get_mut(&LAN).expect("an interface").back = Some(TAG);
    });
    let (marked, unmarked) = ([0x81, 0], [0x88, 0xa8]);
    for (n, tpid) in [(0, marked), (3, marked), (4, marked), (7, unmarked)] {
        for _ in 0..2 {
            subject.put(n, false, PLAIN);
            let out = subject.gateway.linux_out();
            let [frame] = &out[..] else { panic!("{n}: {out:?}") };
            assert_eq!(frame[..4], [tpid, TAG.to_be_bytes()].concat(), "{n}");
        }
    }
    assert!(subject.gateway.drops().is_empty());
}

#[test]
fn one_connection_that_ends_leaves_the_others_their_plans() {
    let mut subject = Subject::new(false);
    for n in [0, 2] {
        subject.learn(n);
        subject.answer(n);
        subject.put(n, false, PLAIN);
    }
    subject.forget(0);
    let misses = subject.gateway.counters.work.flow_misses.value();
    subject.put(2, false, PLAIN);
    assert_eq!(subject.gateway.counters.work.flow_misses.value(), misses);
    subject.out();
    subject.put(0, false, PLAIN);
    assert_eq!(subject.out().linux.len(), 1);
}

#[test]
fn the_first_answer_is_linuxs_and_no_esp_of_this_host() {
    let mut subject = Subject::new(false);
    // UDP at the port of NAT traversal, as of a gateway behind this one.
    let tuple = |src, dst| Tuple { src, dst, protocol: 17, src_port: 4500, dst_port: 4500 };
    let inside = Side::A.lan(false, 11);
    let entry = Entry {
        original: tuple(inside, ip(FAR)),
        reply: tuple(ip(FAR), Side::A.wan(false)),
        ..entry(0)
    };
    let binding = Arc::new(Binding::new(entry));
    let both = [Way::Original, Way::Reply];
    subject.nat.apply(both.map(|way| Change::Put(Arc::clone(&binding), way)));
    let answer = packet(&entry.reply, 64, 0, 100);
    subject.gateway.put_wan(&answer);
    subject.gateway.run();
    assert_eq!(subject.out().linux, core::slice::from_ref(&answer));
    binding.carry_both();
    subject.gateway.put_wan(&answer);
    subject.gateway.run();
    let out = subject.out();
    assert_eq!(out.lan.iter().map(|p| ends(p).2).collect::<Vec<_>>(), [inside]);
    assert!(subject.gateway.drops().is_empty(), "{:?}", subject.gateway.drops());
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    Packet { n: usize, is_reply: bool, ttl: u8, flags: u8, len: usize },
    Learn(usize),
    Answer(usize),
    Forget(usize),
    Block(bool),
    Neighbour(u8),
    Mtu(u32),
    Rules(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0..CONNECTIONS;
    let flags = prop::sample::select(&[0x10_u8, 0x10, 0x10, 0x18, 0x02, 0x11, 0x04][..]);
    let len = prop::sample::select(&[10_usize, 100, 100, 1300, 1440, 1472][..]);
    prop_oneof![
        12 => (n.clone(), any::<bool>(), 1_u8..5, flags, len)
            .prop_map(|(n, is_reply, ttl, flags, len)| Step::Packet { n, is_reply, ttl, flags, len }),
        4 => n.clone().prop_map(Step::Learn),
        3 => n.clone().prop_map(Step::Answer),
        2 => n.prop_map(Step::Forget),
        1 => any::<bool>().prop_map(Step::Block),
        1 => (0_u8..3).prop_map(Step::Neighbour),
        1 => (1300_u32..1501).prop_map(Step::Mtu),
        1 => any::<bool>().prop_map(Step::Rules),
    ]
}

impl Subject {
    fn take(&mut self, step: &Step) -> Outcome {
        self.gateway.now.ns += 1_000_000_000;
        match *step {
            Step::Packet { n, is_reply, ttl, flags, len } => {
                self.put(n, is_reply, (ttl, flags, len));
            }
            // Without rules nothing begins to be translated, so flows that are Linux's may have a plan.
            Step::Learn(n) if self.has_rules => self.learn(n),
            Step::Learn(_) => {}
            Step::Answer(n) => self.answer(n),
            Step::Forget(n) => self.forget(n),
            Step::Block(true) => {
                let all = Prefix { addr: ip("0.0.0.0"), len: 0 };
                let selector = Selector::between(all, all);
                let mut config = policy(1, Direction::Out, selector, vec![]);
                config.action = Action::Block;
                self.gateway.db.put_policy(config);
            }
            Step::Block(false) => drop(self.gateway.db.remove_policy(1)),
            Step::Neighbour(state) => {
                use NeighbourState::{Failed, Reachable, Stale};
                self.gateway.set_neighbours([Reachable, Stale, Failed][usize::from(state)]);
            }
            Step::Mtu(mtu) => self.gateway.set_topology(mtu, routes()),
            Step::Rules(are_there) => {
                self.has_rules = are_there;
                self.nat.set_asks([are_there; 2]);
                // As the daemon does.
                self.gateway.set_topology(1500, routes());
            }
        }
        self.gateway.run();
        self.out()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Plans say what the tables would say anew; and what is known to be translated never leaves as it came.
    #[test]
    fn plans_say_what_resolving_says(steps in prop::collection::vec(step(), 1..60)) {
        let (mut by_plan, mut anew) = (Subject::new(false), Subject::new(true));
        for step in &steps {
            let (one, other) = (by_plan.take(step), anew.take(step));
            prop_assert_eq!(&one, &other, "{:?}", step);
            for packet in one.wan.iter().chain(&one.opened).filter(|_| by_plan.has_rules) {
                let h = parse_ip(packet).expect("a packet");
                let is_raw = h.src == ip(BEHIND) || h.src == Side::A.lan(false, 11);
                prop_assert!(!is_raw, "{:?} left as it came", packet);
            }
            let drops = (by_plan.gateway.drops(), anew.gateway.drops());
            prop_assert_eq!(drops.0, drops.1);
        }
        let packets = |subject: &Subject| -> Vec<_> {
            subject.known.iter().map(|known| known.as_ref().map(|b| b.packets())).collect()
        };
        prop_assert_eq!(packets(&by_plan), packets(&anew));
    }
}
