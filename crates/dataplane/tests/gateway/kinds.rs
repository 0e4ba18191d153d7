//! Every kind of SA in both directions: bytes against the model, ends and flow cache by count.
//!
//! The flow cache counts packets in clear: before it is encrypted, after it was
//! decrypted. A flow's packets are looked up a burst at a time, so here the first one goes alone
//! where counts are to be exact.

use core::sync::atomic::Ordering::Relaxed;
use std::collections::VecDeque;

use crypto::{AesKey, Cipher, Integrity, Suite};
use dataplane::Totals;
use esp::Mode;
use forward::{NeighbourEntry, NeighbourState, Neighbours};
use outcome::DropReason;
use policy::{Direction, Prefix, SaConfig, Selector, Template};
use wire::parse_ip;

use crate::model::{Model, spi};
use crate::packets::{Ip, hopped};
use crate::support::{
    GCM, Gateway, LAN, Pair, Side, Spec, make_sa, policy, sa_config, sa_params, template,
};

/// One kind of SA and of what it protects.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub spec: Spec,
    /// The family of what is protected.
    pub inner_v6: bool,
    /// True if the ends are the gateways' own programs, by way of Linux, not hosts behind ports.
    pub by_linux: bool,
}

pub const GCM_256: Suite = Suite::AesGcm { key: AesKey::Aes256, icv: crypto::IcvLen::Icv16 };
pub const CBC: Suite =
    Suite::Separate { cipher: Cipher::AesCbc(AesKey::Aes128), integrity: Integrity::Sha256_128 };
pub const SUITES: [Suite; 4] = [GCM, GCM_256, Suite::ChaCha20Poly1305, CBC];

impl Kind {
    /// Every kind of SA.
    pub fn all() -> impl Iterator<Item = Kind> {
        (0..1 << 9).filter_map(|bits: usize| {
            let is = |bit: usize| bits >> bit & 1 == 1;
            let mode = if is(0) { Mode::Transport } else { Mode::Tunnel };
            let (encap, esn, outer_v6, inner_v6) = (is(1), is(2), is(3), is(4));
            let spec = Spec {
                mode,
                encap,
                esn,
                outer_v6,
                suite: SUITES[bits >> 5 & 3],
                ..Spec::default()
            };
            let kind = Kind { spec, inner_v6, by_linux: is(7) };
            // Transport mode protects what goes from gateway to gateway.
            let is_possible = mode == Mode::Tunnel || kind.by_linux && outer_v6 == inner_v6;
            (is_possible && !is(8)).then_some(kind)
        })
    }

    /// The flow of this source port from one side to the other, as its n-th packet is.
    fn packet(&self, from: Side, port: u16, n: u16) -> Vec<u8> {
        let addr = |side: Side| match (self.spec.mode, self.by_linux) {
            (Mode::Transport, _) => side.wan(self.inner_v6),
            (Mode::Tunnel | Mode::Iptfs, true) => side.lan(self.inner_v6, 1),
            (Mode::Tunnel | Mode::Iptfs, false) => side.lan(self.inner_v6, 10),
        };
        let header = Ip {
            traffic_class: [0, 0xb9, 0x2a][usize::from(n) % 3],
            dont_fragment: n % 2 == 1,
            ..Ip::new(addr(from), addr(from.other()))
        };
        // All paddings, most lengths of a burst apart.
        let payload: Vec<u8> = (0..n * 37 % 1200).map(|i| (i ^ n) as u8).collect();
        header.udp(port, 2000, &payload)
    }

    /// Routers that a packet passes at each gateway.
    fn hops(&self) -> u8 {
        u8::from(!self.by_linux)
    }

    fn put(&self, gateway: &mut Gateway, packet: &[u8]) {
        match self.by_linux {
            true => gateway.put_linux(packet),
            false => gateway.put_lan(packet),
        }
    }

    fn arrived(&self, gateway: &mut Gateway) -> Vec<Vec<u8>> {
        match self.by_linux {
            true => gateway.linux_out(),
            false => gateway.lan_out(),
        }
    }
}

/// Packets of each direction: the flows' first ones, then a burst of the others.
const FLOWS: u16 = 2;
const PACKETS: u16 = 62;

/// Sends packets through both gateways, and holds them against the model on the wire, and against
/// what was sent at the far end; returns what was on the wire.
fn carry(
    pair: &mut Pair,
    kind: &Kind,
    model: &mut Model,
    from: Side,
    packets: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let (near, _) = pair.end(from);
    packets.iter().for_each(|packet| kind.put(near, packet));
    near.run();
    let sealed = pair.carry(from);
    assert_eq!(sealed.len(), packets.len(), "{kind:?}");
    for (packet, sealed) in packets.iter().zip(&sealed) {
        let expected = model.seal(&hopped(packet, kind.hops()), sealed);
        assert_eq!(*sealed, expected, "{kind:?}");
    }
    let (_, far) = pair.end(from);
    let expected: Vec<_> = packets.iter().map(|p| hopped(p, 2 * kind.hops())).collect();
    assert_eq!(kind.arrived(far), expected, "{kind:?}");
    sealed
}

fn both_ways(kind: &Kind) {
    let Kind { spec, inner_v6, by_linux } = kind;
    let mut pair = Pair::new(spec);
    for from in [Side::A, Side::B] {
        let mut model = Model::new(sa_params(spec, from));
        if spec.esn {
            // The high half of the number changes in the middle of the burst.
            model.number = (1 << 32) - 20;
            let (near, far) = pair.end(from);
            near.sa(from, spec).esp.live().sent().store(model.number, Relaxed);
            far.sa(from, spec).esp.live().edge().store(model.number, Relaxed);
        }
        let packet = |n| kind.packet(from, 1000 + n % FLOWS, n);
        let first: Vec<_> = (0..FLOWS).map(packet).collect();
        let others: Vec<_> = (FLOWS..PACKETS).map(packet).collect();
        carry(&mut pair, kind, &mut model, from, &first);
        let sealed = carry(&mut pair, kind, &mut model, from, &others);
        // A replay, and a forgery of the next packet.
        let mut forged = model.seal(&packet(0), &sealed[0]);
        forged.last_mut().map(|byte| *byte ^= 1).expect("a byte");
        if spec.encap && spec.outer_v6 {
            let h = parse_ip(&forged).expect("outer packet");
            assert!(wire::fill_l4_checksum(&mut forged, &h));
        }
        let (_, far) = pair.end(from);
        far.put_wan(&sealed[0]);
        far.put_wan(&forged);
        far.run();
        assert!(kind.arrived(far).is_empty(), "{kind:?}");
    }
    let (each, flows) = (u64::from(PACKETS), u64::from(FLOWS));
    for (gateway, side) in [(&pair.a, Side::A), (&pair.b, Side::B)] {
        let expected = Totals {
            received: 2 * each + 2,
            transmitted: if *by_linux { each } else { 2 * each },
            to_linux: if *by_linux { each } else { 0 },
            dropped: 2,
            ..Totals::default()
        };
        assert_eq!(gateway.counters.totals(), expected, "{kind:?}");
        let drops = [(DropReason::InReplayDuplicate, 1), (DropReason::InIntegrity, 1)];
        assert_eq!(gateway.drops(), drops, "{kind:?}");
        let work = &gateway.counters.work;
        assert_eq!((work.encrypted.value(), work.decrypted.value()), (each, each), "{kind:?}");
        let counts = (work.flow_hits.value(), work.flow_misses.value());
        assert_eq!(counts, (2 * (each - flows), 2 * flows), "{kind:?}");
        // What went by a plan is counted where the look-ups count.
        let base = if *inner_v6 { 20 } else { 10 };
        for index in [base + 1, if *by_linux { base + 2 } else { base + 3 }] {
            let policy = gateway.db.policy(index).expect("policy");
            assert_eq!(policy.packets(), each, "{kind:?}, policy {index}");
        }
        for from in [side, side.other()] {
            let sa = gateway.sa(from, spec);
            assert_eq!(sa.esp.live().packets().load(Relaxed), each, "{kind:?}, {from:?}");
        }
    }
}

/// Each kind with this suite.
fn every_kind_with(suite: Suite) {
    let kinds = Kind::all().filter(|kind| kind.spec.suite == suite);
    assert_eq!(kinds.map(|kind| both_ways(&kind)).count(), 40);
}

#[test]
fn every_kind_with_gcm_128() {
    every_kind_with(GCM);
}

#[test]
fn every_kind_with_gcm_256() {
    every_kind_with(GCM_256);
}

#[test]
fn every_kind_with_chacha() {
    every_kind_with(Suite::ChaCha20Poly1305);
}

#[test]
fn every_kind_with_cbc() {
    every_kind_with(CBC);
}

/// The flow cache of a gateway that forgets is of no use, and nothing else changes.
#[test]
fn without_plans_every_packet_takes_the_full_way() {
    let kind = Kind { spec: Spec::default(), inner_v6: false, by_linux: false };
    let mut pair = Pair::new(&kind.spec);
    let mut model = Model::new(sa_params(&kind.spec, Side::A));
    for n in 0..5 {
        pair.a.worker.forget_flows();
        pair.b.worker.forget_flows();
        carry(&mut pair, &kind, &mut model, Side::A, &[kind.packet(Side::A, 1000, n)]);
    }
    for gateway in [&pair.a, &pair.b] {
        let work = &gateway.counters.work;
        assert_eq!((work.flow_hits.value(), work.flow_misses.value()), (0, 5));
    }
}

/// ESP counts for the flow cache once it is decrypted, never as it comes; nor does IKE.
#[test]
fn what_is_to_be_opened_does_not_count_twice() {
    let spec = Spec { encap: true, ..Spec::default() };
    let mut pair = Pair::new(&spec);
    let ip = Ip::new(Side::A.wan(false), Side::B.wan(false));
    // A non-ESP marker, a keepalive, and ESP of no SA.
    for payload in [&[0; 40][..], &[0xff], &[9; 40]] {
        pair.b.put_wan(&ip.udp(4500, 4500, payload));
    }
    pair.b.put_wan(&Ip { protocol: wire::protocol::ESP, ..ip }.with(&[9; 40]));
    pair.b.run();
    let totals = pair.b.counters.totals();
    assert_eq!((totals.to_linux, totals.consumed, totals.dropped), (1, 1, 2));
    let work = &pair.b.counters.work;
    assert_eq!((work.flow_hits.value(), work.flow_misses.value()), (0, 0));
    pair.b.linux_out();
}

/// Traffic of many SAs at once, to and from hosts behind B, each with an SA of its own.
struct Spread {
    pair: Pair,
    kinds: Vec<Kind>,
    ends: [End; 2],
}

/// One side's stream of packets.
struct End {
    side: Side,
    models: Vec<Model>,
    /// Of each SA: not yet on the wire, and not yet arrived.
    to_seal: Vec<VecDeque<Vec<u8>>>,
    to_arrive: Vec<VecDeque<Vec<u8>>>,
    wire: Vec<Vec<u8>>,
    sent: u16,
}

const SAS: u16 = 64;
/// Flows of each SA and direction.
const FLOWS_EACH: u16 = 4;
/// The first host behind B.
const HOSTS: u16 = 100;

fn spread_sa(kind: &Kind, n: u16, from: Side) -> SaConfig {
    let mut config = sa_config(&kind.spec, from);
    config.params.spi = 0x8000 + u32::from(n) * 2 + from as u32 % 2;
    config.reqid = u32::from(n) + 1;
    config
}

impl Spread {
    /// The n-th SA is of the n-th kind, over and over.
    fn new(kinds: &[Kind]) -> Spread {
        let kinds: Vec<Kind> = kinds.iter().copied().cycle().take(SAS.into()).collect();
        let mut pair = Pair { a: Gateway::new(Side::A), b: Gateway::new(Side::B) };
        for (n, kind) in (0..SAS).zip(&kinds) {
            let Kind { spec, inner_v6: v6, .. } = kind;
            let host = Side::B.lan(*v6, HOSTS + n);
            pair.b.tables.neighbours.rcu(|old| {
                let mut new = Neighbours::clone(old);
                new.insert(NeighbourEntry {
                    ifindex: LAN,
                    addr: host,
                    mac: Some(Side::B.host_mac(HOSTS + n)),
                    state: NeighbourState::Reachable,
                });
                new
            });
            for side in [Side::A, Side::B] {
                let (gateway, _) = pair.end(side);
                for from in [Side::A, Side::B] {
                    let config = spread_sa(kind, n, from);
                    let sa = make_sa(&config.params);
                    gateway.db.add_sa(config, sa).expect("new");
                    let host = Prefix { addr: host, len: if *v6 { 128 } else { 32 } };
                    let selector = match from {
                        Side::A => Selector::between(Side::A.net(*v6), host),
                        Side::B => Selector::between(host, Side::A.net(*v6)),
                    };
                    let direction = if from == side { Direction::Out } else { Direction::Forward };
                    let reqid = u32::from(n) + 1;
                    let templates = vec![Template { reqid, ..template(spec, from) }];
                    let index = 1000 + u32::from(n) * 2 + from as u32 % 2;
                    gateway.db.put_policy(policy(index, direction, selector, templates));
                }
            }
        }
        let ends = [Side::A, Side::B].map(|side| End {
            side,
            models: (0..)
                .zip(&kinds)
                .map(|(n, k)| Model::new(spread_sa(k, n, side).params))
                .collect(),
            to_seal: vec![VecDeque::new(); SAS.into()],
            to_arrive: vec![VecDeque::new(); SAS.into()],
            wire: Vec::new(),
            sent: 0,
        });
        Spread { pair, kinds, ends }
    }

    /// Puts a packet of a flow, one of all SAs' flows, to the gateway that is to seal it.
    fn put(&mut self, from: usize, flow: u16) {
        let (sa, port) = (flow % SAS, 1000 + flow / SAS);
        let v6 = self.kinds[usize::from(sa)].inner_v6;
        let end = &mut self.ends[from];
        let (a, b) = (Side::A.lan(v6, 10), Side::B.lan(v6, HOSTS + sa));
        let (src, dst) = if end.side == Side::A { (a, b) } else { (b, a) };
        let payload = vec![end.sent as u8; 40 + usize::from(end.sent % 400)];
        end.sent += 1;
        let packet = Ip::new(src, dst).udp(port, 2000, &payload);
        end.to_seal[usize::from(sa)].push_back(hopped(&packet, 1));
        let (near, _) = self.pair.end(end.side);
        near.put_lan(&packet);
    }

    /// Puts what was made on the wire, and lets arrive what was on it, in the same bursts; each
    /// SA's packets in their order.
    fn step(&mut self) {
        for end in &mut self.ends {
            let (_, far) = self.pair.end(end.side);
            end.wire.drain(..).for_each(|packet| far.put_wan(&packet));
        }
        self.pair.a.run();
        self.pair.b.run();
        for end in &mut self.ends {
            let (near, far) = self.pair.end(end.side);
            for sealed in near.wan_out() {
                let n = (spi(&sealed) - 0x8000) as usize / 2;
                let inner = end.to_seal[n].pop_front().expect("a packet of this SA");
                assert_eq!(sealed, end.models[n].seal(&inner, &sealed), "{:?}", self.kinds[n]);
                end.to_arrive[n].push_back(hopped(&inner, 1));
                end.wire.push(sealed);
            }
            for packet in far.lan_out() {
                let h = parse_ip(&packet).expect("packet");
                let host = if end.side == Side::A { h.dst } else { h.src };
                let v6 = host.is_ipv6();
                let n = (0..SAS).find(|n| Side::B.lan(v6, HOSTS + n) == host).expect("a host");
                let expected = end.to_arrive[usize::from(n)].pop_front();
                assert_eq!(Some(packet), expected, "{:?}", self.kinds[usize::from(n)]);
            }
        }
    }

    fn cache_counts(&self) -> [(u64, u64); 2] {
        [&self.pair.a, &self.pair.b].map(|gateway| {
            let work = &gateway.counters.work;
            (work.flow_hits.value(), work.flow_misses.value())
        })
    }
}

/// The flows of all SAs in one direction.
const FLOWS_IN_ALL: u16 = SAS * FLOWS_EACH;

fn spread(kinds: &[Kind]) {
    const ROUNDS: u16 = 12;
    const EACH: u16 = 200;
    let mut spread = Spread::new(kinds);
    // Repeatable, in no order that a table has.
    let mut state = 1_u64;
    let mut random = |below: u16| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u16 % below
    };
    let mut order: Vec<u16> = (0..FLOWS_IN_ALL).collect();
    for from in 0..2 {
        for last in (1..FLOWS_IN_ALL).rev() {
            order.swap(last.into(), random(last + 1).into());
        }
        order.iter().for_each(|flow| spread.put(from, *flow));
        spread.step();
        spread.step();
    }
    let flows = 2 * u64::from(FLOWS_IN_ALL);
    assert_eq!(spread.cache_counts(), [(0, flows); 2]);
    for _ in 0..ROUNDS {
        for _ in 0..EACH {
            spread.put(0, random(FLOWS_IN_ALL));
            spread.put(1, random(FLOWS_IN_ALL));
        }
        spread.step();
    }
    spread.step();
    let hits = 2 * u64::from(ROUNDS * EACH);
    assert_eq!(spread.cache_counts(), [(hits, flows); 2]);
    let packets = u64::from(FLOWS_IN_ALL + ROUNDS * EACH);
    for gateway in [&spread.pair.a, &spread.pair.b] {
        let expected =
            Totals { received: 2 * packets, transmitted: 2 * packets, ..Totals::default() };
        assert_eq!(gateway.counters.totals(), expected);
        let work = &gateway.counters.work;
        assert_eq!((work.encrypted.value(), work.decrypted.value()), (packets, packets));
    }
    for end in &spread.ends {
        assert!(end.to_seal.iter().chain(&end.to_arrive).all(VecDeque::is_empty));
    }
}

#[test]
fn traffic_of_many_sas_of_one_kind() {
    spread(&[Kind { spec: Spec::default(), inner_v6: false, by_linux: false }]);
}

#[test]
fn traffic_of_many_sas_of_every_kind() {
    let kinds: Vec<Kind> =
        Kind::all().filter(|k| k.spec.mode == Mode::Tunnel && !k.by_linux).collect();
    assert_eq!(kinds.len(), usize::from(SAS));
    spread(&kinds);
}
