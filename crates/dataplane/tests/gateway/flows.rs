//! Flows whose plan is kept: the second packet must fare as the first, and as the tables say now.
//!
//! The slow path, which asks all tables for every packet, is the reference: a gateway that forgets
//! its flows before each packet has to do the very same, byte for byte and count for count. Both
//! are of one [kind](Kind), any, or have several SAs one inside the other ([`Layers`]).

use std::net::IpAddr;

use ::srv6::Mode as Mode6;
use dataplane::Filter;
use esp::Mode;
use forward::NeighbourState;
use outcome::DropReason;
use policy::{Action, Direction, PolicyConfig, SaId, SaState, Selector, VolumeLimits};
use proptest::prelude::*;

use wire::{Fragment, parse_ip, protocol};

use crate::gtpu;
use crate::kinds::Kind;
use crate::layers::{Layers, Stack};
use crate::model::Model;
use crate::overlays;
use crate::packets::Ip;
use crate::pool::pooled;
use crate::rates;
use crate::srv6;
use crate::support::{
    Gateway, LAN, OTHER, Side, Sizes, Spec, WAN, elsewhere, ethernet, ip, make_sa, policy,
    sa_config, sa_params,
};
use crate::taps::{records, tapped};

/// Something that happens to a gateway.
#[derive(Clone, Debug)]
enum Step {
    /// A host's packet to the other network or elsewhere.
    Lan {
        v6: bool,
        host: u16,
        to: u8,
        port: u16,
        len: usize,
        ttl: u8,
        df: bool,
    },
    /// The same, in a frame to all stations.
    LanToAll {
        to: u8,
    },
    /// ESP from the peer with a packet from one of its hosts inside.
    Esp {
        host: u16,
        to: u8,
        port: u16,
        ttl: u8,
    },
    /// ESP with a message of GTP-U inside, to an address of applications.
    Gtpu {
        teid: u32,
        kind: u8,
        port: u16,
    },
    /// Cleartext from outside.
    Wan {
        from_lan: bool,
        to: u8,
    },
    /// A packet from Linux.
    Linux {
        to: u8,
        port: u16,
    },
    /// A policy that blocks is added.
    Block {
        direction: u8,
        port: u16,
        dev: u32,
    },
    Unblock {
        direction: u8,
        port: u16,
    },
    RemovePolicies,
    AddPolicies,
    /// One direction's are left to Linux, until they are added again.
    Leave {
        direction: u8,
    },
    /// SAs are rekeyed.
    Rekey,
    RemoveSas,
    Advance {
        state: u8,
    },
    /// The MTU of a link changes.
    Mtu {
        mtu: u32,
    },
    Down,
    /// A far network is reached over an interface that is no port.
    Elsewhere,
    Neighbours {
        state: u8,
    },
    /// Other rate limits.
    Limits {
        which: u8,
    },
    /// Far networks are reached by segments, which `through` a policy lead or not, and there are segments here.
    Segments {
        mtu: u32,
        through: bool,
        mode: Mode6,
    },
    /// Overlays lead to the peer.
    Overlays,
    /// A packet through one of them, to the peer or from it.
    Through {
        ifindex: u32,
        is_back: bool,
        port: u16,
        len: usize,
        ttl: u8,
    },
    /// A packet at a segment of this node.
    AtSegment {
        is_last: bool,
        v6: bool,
        to: u8,
        outer_ttl: u8,
        ttl: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let port = 1000_u16..1003;
    let to = 0_u8..5;
    prop_oneof![
        10 => (any::<bool>(), 10_u16..12, to.clone(), port.clone(), 60_usize..1600, 1_u8..5, any::<bool>())
            .prop_map(|(v6, host, to, port, len, ttl, df)| Step::Lan { v6, host, to, port, len, ttl, df }),
        1 => to.clone().prop_map(|to| Step::LanToAll { to }),
        8 => (10_u16..12, to.clone(), port.clone(), 1_u8..5)
            .prop_map(|(host, to, port, ttl)| Step::Esp { host, to, port, ttl }),
        2 => (0x0e_u32..0x32, prop::sample::select(&[255, 1, 26, 0][..]), port.clone())
            .prop_map(|(teid, kind, port)| Step::Gtpu { teid, kind, port }),
        2 => (any::<bool>(), to.clone()).prop_map(|(from_lan, to)| Step::Wan { from_lan, to }),
        2 => Just(Step::Overlays),
        6 => (prop::sample::select(&overlays::FOR_STEPS[..]), any::<bool>(), port.clone(), 60_usize..1600, 1_u8..5)
            .prop_map(|(ifindex, is_back, port, len, ttl)| Step::Through { ifindex, is_back, port, len, ttl }),
        3 => (to, port.clone()).prop_map(|(to, port)| Step::Linux { to, port }),
        1 => (0_u8..3, port.clone(), prop::sample::select(&[0, 1, LAN, WAN, OTHER][..]))
            .prop_map(|(direction, port, dev)| Step::Block { direction, port, dev }),
        1 => (0_u8..3, port).prop_map(|(direction, port)| Step::Unblock { direction, port }),
        1 => Just(Step::RemovePolicies),
        2 => Just(Step::AddPolicies),
        2 => (0_u8..3).prop_map(|direction| Step::Leave { direction }),
        2 => Just(Step::Rekey),
        1 => Just(Step::RemoveSas),
        1 => (0_u8..3).prop_map(|state| Step::Advance { state }),
        1 => (1300_u32..1501).prop_map(|mtu| Step::Mtu { mtu }),
        1 => Just(Step::Down),
        1 => Just(Step::Elsewhere),
        1 => (0_u8..4).prop_map(|state| Step::Neighbours { state }),
        2 => (0_u8..4).prop_map(|which| Step::Limits { which }),
        3 => (1300_u32..1501, any::<bool>(), prop::sample::select(&[Mode6::Encap, Mode6::EncapRed, Mode6::Inline][..]))
            .prop_map(|(mtu, through, mode)| Step::Segments { mtu, through, mode }),
        4 => (any::<bool>(), any::<bool>(), 0_u8..3, 1_u8..4, 1_u8..4)
            .prop_map(|(is_last, v6, to, outer_ttl, ttl)| Step::AtSegment { is_last, v6, to, outer_ttl, ttl }),
    ]
}

/// Every kind, and the commonest more often.
fn kind() -> impl Strategy<Value = Kind> {
    let common = Kind { spec: Spec::default(), inner_v6: false, by_linux: false };
    let kinds: Vec<Kind> = Kind::all().collect();
    prop_oneof![1 => Just(common), 2 => prop::sample::select(kinds)]
}

/// Makes everything work again: what waited goes by the first SAs, what comes then by the second.
fn recovery() -> [Step; 8] {
    use Step::{AddPolicies, Limits, Mtu, Neighbours, Rekey, RemoveSas};
    let (mtu, neighbours) = (Mtu { mtu: 1500 }, Neighbours { state: 0 });
    // An SA that replaces another takes over its state.
    [Limits { which: 0 }, mtu, neighbours, AddPolicies, RemoveSas, Rekey, RemoveSas, Rekey]
}

/// A source port that no other step has.
const UNUSED: u16 = 1100;

/// One gateway, and what the steps have made of it.
struct Subject {
    gateway: Gateway,
    /// Before each packet.
    forgets: bool,
    kind: Kind,
    spec: Spec,
    generation: u64,
    /// The peer's sending end, and this one's.
    peer: Model,
    own: Model,
    /// Instead of one SA.
    layers: Option<Layers>,
    /// How many packets come at once in a step with packets.
    each: u16,
}

impl Subject {
    fn new(forgets: bool, kind: Kind) -> Subject {
        let sizes = Sizes { chunks: 2048, stock: 1024, port_limit: 256 };
        let limits = VolumeLimits { soft_packets: 9, ..VolumeLimits::NONE };
        let spec = Spec { limits, ..kind.spec };
        let mut gateway = Gateway::with_sizes(Side::A, sizes);
        gtpu::serve_two(&mut gateway);
        gateway.protect(&spec);
        let [own, peer] = [Side::A, Side::B].map(|from| Model::new(sa_params(&spec, from)));
        Subject { gateway, forgets, kind, spec, generation: 1, peer, own, layers: None, each: 1 }
    }

    /// One with several workers.
    fn of_workers(workers: usize, kind: Kind) -> Subject {
        let subject = Subject::new(false, kind);
        let sizes = Sizes { chunks: 4096, stock: 2048, port_limit: 256 };
        let mut gateway = Gateway::with_workers(Side::A, sizes, 64, workers);
        gtpu::serve_two(&mut gateway);
        gateway.protect(&subject.spec);
        Subject { gateway, ..subject }
    }

    /// One whose interfaces are VLANs of its ports: nothing but tags changes by that.
    fn on_vlans(self, workers: usize) -> Subject {
        let sizes = Sizes { chunks: 4096, stock: 1024, port_limit: 256 };
        let mut gateway = Gateway::on_vlans(Side::A, sizes, workers);
        gtpu::serve_two(&mut gateway);
        gateway.protect(&self.spec);
        Subject { gateway, ..self }
    }

    /// Has several SAs instead of one.
    fn with_layers(mut self, stack: Stack) -> Subject {
        for id in self.ids() {
            self.gateway.db.remove_sa(&id);
        }
        let mut layers = Layers::new(stack, self.spec.limits);
        layers.add_policies(&mut self.gateway);
        layers.rekey(&mut self.gateway, 1);
        Subject { layers: Some(layers), ..self }
    }

    /// Until all that waits for an SA has been dropped.
    fn let_none_wait(&mut self) {
        self.pass(6);
        self.gateway.run();
    }

    fn pass(&mut self, seconds: u64) {
        self.gateway.now.ns += seconds * 1_000_000_000;
        self.gateway.now.wall_s += seconds;
    }

    /// An outcome without what depends on the order between flows: numbers and IVs.
    fn without_order(&self, outcome: Outcome) -> Outcome {
        let blank = |packet: &mut Vec<u8>| {
            // Of fragments that have been cut to their headers the lengths do not fit any more.
            let whole = parse_ip(packet).is_ok_and(|h| h.fragment == Fragment::Whole);
            if whole && self.layers.is_some() && self.is_protected(packet) {
                Layers::without_numbers(packet);
            } else if whole && self.is_protected(packet) {
                if !self.spec.suite.needs_random_iv() {
                    *packet = self.own.opened(packet);
                }
                let at = crate::model::esp_at(packet) + 4;
                packet[at..][..4 + self.spec.suite.iv_len_bytes()].fill(0);
            } else if !whole {
                packet.truncate(4);
            }
            if packet.len() >= 20 && packet[0] >> 4 == 4 {
                packet[4..6].fill(0);
                packet[10..12].fill(0);
            }
        };
        let Outcome { mut lan, mut wan, mut linux, mut events, .. } = outcome;
        wan.iter_mut().for_each(blank);
        // The gateway's ICMP errors have identifications of their own, in the order in which they are made.
        // Those about packets of the host's own go to Linux.
        let to_hosts = lan.iter_mut().chain(&mut linux);
        for error in to_hosts.filter(|p| p.len() > 20 && p[0] >> 4 == 4 && p[9] == 1) {
            error[4..6].fill(0);
            error[10..12].fill(0);
        }
        for packets in [&mut lan, &mut wan, &mut linux] {
            packets.sort_unstable();
        }
        // Each worker asks for what its own packets wait for.
        events.retain(|event| !event.starts_with("Acquire") && !event.starts_with("Resolve"));
        events.sort_unstable();
        Outcome { lan, wan, linux, events, ..outcome }
    }

    /// One that gets whole bursts: enough for a pool to take them.
    fn of_bursts(forgets: bool, kind: Kind) -> Subject {
        Subject { each: 12, ..Subject::new(forgets, kind) }
    }

    fn ids(&self) -> Vec<SaId> {
        match &self.layers {
            Some(layers) => layers.ids(),
            None => [Side::A, Side::B].map(|from| sa_config(&self.spec, from).id()).to_vec(),
        }
    }

    /// Packets that went by a cached plan, and packets that took the slow path.
    fn cached(&self) -> (u64, u64) {
        let work = &self.gateway.counters.work;
        (work.flow_hits.value(), work.flow_misses.value())
    }

    /// An address of a program here or of the peer's, or of a host behind it.
    fn end(&self, side: Side, host: u16) -> IpAddr {
        match self.spec.mode {
            Mode::Tunnel | Mode::Iptfs => side.lan(self.kind.inner_v6, host),
            Mode::Transport => side.wan(self.kind.inner_v6),
        }
    }

    fn is_protected(&self, packet: &[u8]) -> bool {
        if self.layers.is_some() {
            return Layers::is_protected(packet);
        }
        let h = parse_ip(packet).expect("packet");
        // Later fragments have no ports.
        let is_natt = h.src_port == 4500 || h.fragment == Fragment::Later;
        let is_udp = h.protocol == protocol::UDP && is_natt;
        h.protocol == protocol::ESP || self.spec.encap && is_udp
    }

    fn far(to: u8, v6: bool) -> IpAddr {
        match (to, v6) {
            (0, _) => Side::B.lan(v6, 10),
            (1, _) => Side::B.lan(v6, 11),
            (2, false) => ip("203.0.113.9"),
            (2, true) => ip("2001:db8:99::9"),
            (3, false) => ip("198.18.0.1"),
            (3, true) => ip("ff02::5"),
            _ => Side::A.wan(v6),
        }
    }

    fn own(to: u8, v6: bool) -> IpAddr {
        match to {
            0 | 1 => Side::A.lan(v6, 10 + u16::from(to)),
            2 => Side::A.lan(v6, 1),
            3 => Self::far(2, v6),
            _ => Side::B.lan(v6, 12),
        }
    }

    /// Result of one step: packets out of each port, and every count.
    fn take(&mut self, step: &Step) -> Outcome {
        let (mode, v6) = (self.spec.mode, self.kind.inner_v6);
        let ids = self.ids();
        let (near, peer) = (self.end(Side::A, 1), self.end(Side::B, 10));
        self.pass(1);
        let g = &mut self.gateway;
        if self.forgets {
            g.worker.forget_flows();
        }
        match step {
            Step::Lan { v6, host, to, port, len, ttl, df } => {
                // Not all alike: known flows and new ones, packets that fit and that do not.
                for n in 0..self.each {
                    let header = Ip {
                        ttl: *ttl + u8::from(n % 5 == 4),
                        dont_fragment: *df,
                        ..Ip::new(Side::A.lan(*v6, *host), Self::far(*to, *v6))
                    };
                    let len = if n % 4 == 3 { 100 } else { *len };
                    g.put_lan(&header.udp(*port + n % 3, 2000, &vec![7; len - 48]));
                }
            }
            Step::LanToAll { to } => {
                let header = Ip::new(Side::A.lan(false, 10), Self::far(*to, false));
                let all = wire::MacAddr([0xff; 6]);
                let frame = ethernet(all, Side::A.host_mac(10), &header.udp(1000, 2000, &[7; 50]));
                let lan = g.lan.clone();
                g.put(&lan, &frame);
            }
            Step::Esp { host, to, port, ttl } => {
                let (src, dst) = match mode {
                    Mode::Tunnel | Mode::Iptfs => (Side::B.lan(v6, *host), Self::own(*to, v6)),
                    Mode::Transport => (peer, near),
                };
                for n in 0..self.each {
                    // Now and then the same number again.
                    let is_again = n % 5 == 4;
                    let header = Ip { ttl: *ttl + u8::from(n % 4 == 3), ..Ip::new(src, dst) };
                    let packet = header.udp(*port + n % 3, 2000, &[7; 40]);
                    if let Some(layers) = &mut self.layers {
                        let sealed =
                            layers.seal(Some(&packet).filter(|_| !is_again).map(|p| &p[..]));
                        sealed.iter().for_each(|packet| g.put_wan(packet));
                        continue;
                    }
                    self.peer.number -= u64::from(is_again);
                    g.put_wan(&self.peer.seal_with(&packet, &[5; 16]));
                }
            }
            Step::Gtpu { teid, kind, port } => {
                let (src, dst) = match mode {
                    Mode::Tunnel | Mode::Iptfs => (Side::B.lan(v6, 10), Side::A.lan(v6, 1)),
                    Mode::Transport => (peer, near),
                };
                for n in 0..self.each {
                    let mut message = gtpu::gtpu(*kind, teid + u32::from(n % 3), 30);
                    // Now and then one of another version.
                    message[0] ^= u8::from(n % 7 == 5) << 6;
                    let packet = Ip::new(src, dst).udp(*port, wire::gtpu::PORT, &message);
                    match &mut self.layers {
                        Some(layers) => {
                            layers.seal(Some(&packet)).iter().for_each(|packet| g.put_wan(packet));
                        }
                        None => g.put_wan(&self.peer.seal_with(&packet, &[5; 16])),
                    }
                }
            }
            Step::Wan { from_lan, to } => {
                let src = if *from_lan { peer } else { Self::far(2, v6) };
                for n in 0..self.each {
                    g.put_wan(&Ip::new(src, Self::own(*to, v6)).udp(1000 + n % 3, 2000, &[7; 40]));
                }
            }
            Step::Linux { to, port } => {
                let far = match mode {
                    Mode::Transport if *to < 2 => peer,
                    _ => Self::far(*to, v6),
                };
                let header = Ip::new(near, far);
                for n in 0..self.each {
                    g.put_linux(&header.udp(*port + n % 3, 2000, &[7; 40]));
                }
            }
            Step::Block { direction, port, dev } => {
                let mut config = block(*direction, *port, v6);
                config.selector.ifindex = *dev;
                g.db.put_policy(config);
            }
            Step::Unblock { direction, port } => {
                g.db.remove_policy(block(*direction, *port, v6).index);
            }
            Step::RemovePolicies => {
                for index in [11, 12, 13, 21, 22, 23] {
                    g.db.remove_policy(index);
                }
            }
            Step::AddPolicies => match &self.layers {
                Some(layers) => layers.add_policies(g),
                None => g.add_policies(&self.spec),
            },
            Step::Leave { direction } => {
                for base in [10, 20] {
                    let policy = g.db.policy(base + 1 + u32::from(*direction));
                    if let Some(config) = policy.map(|policy| policy.config.clone()) {
                        g.db.put_policy(PolicyConfig { action: Action::Leave, ..config });
                    }
                }
            }
            Step::Rekey => {
                self.generation += 1;
                (self.peer.number, self.own.number) = (0, 0);
                if let Some(layers) = &mut self.layers {
                    layers.rekey(g, self.generation);
                }
                for from in [Side::A, Side::B].into_iter().filter(|_| self.layers.is_none()) {
                    let mut config = sa_config(&self.spec, from);
                    config.generation = self.generation;
                    let sa = make_sa(&config.params);
                    g.db.replace_sa(config, sa);
                }
            }
            Step::RemoveSas => {
                for id in ids {
                    g.db.remove_sa(&id);
                }
            }
            Step::Advance { state } => {
                let state = [SaState::Dying, SaState::Dying, SaState::Expired][usize::from(*state)];
                for id in ids {
                    if let Some(sa) = g.db.sa(&id) {
                        sa.advance(state);
                    }
                }
            }
            Step::Mtu { mtu } => g.set_topology(*mtu, Vec::new()),
            Step::Down => g.set_topology_with(1500, Vec::new(), Vec::new(), false),
            Step::Elsewhere => g.set_topology(1500, vec![elsewhere()]),
            Step::Neighbours { state } => {
                use NeighbourState::{Failed, Incomplete, Reachable, Stale};
                g.set_neighbours([Reachable, Stale, Incomplete, Failed][usize::from(*state)]);
            }
            Step::Limits { which } => {
                g.rates = rates::for_steps(*which);
                g.set_topology(1500, Vec::new());
            }
            Step::Segments { mtu, through, mode } => {
                srv6::publish_for_steps(g, *mtu, *through, *mode);
            }
            Step::Overlays => overlays::publish(g, Vec::new(), |_| ()),
            Step::Through { ifindex, is_back: false, port, len, ttl } => {
                for n in 0..self.each {
                    let header =
                        Ip { ttl: *ttl + u8::from(n % 5 == 4), ..overlays::through(*ifindex) };
                    let len = if n % 4 == 3 { 100 } else { *len };
                    g.put_lan(&header.udp(*port + n % 3, 2000, &vec![7; len - 48]));
                }
            }
            Step::Through { ifindex, port, ttl, .. } => {
                for n in 0..self.each {
                    let packet =
                        overlays::for_steps(*ifindex, *port + n % 3, *ttl + u8::from(n % 4 == 3));
                    let is_sealed = mode == Mode::Transport && self.layers.is_none() && !v6;
                    match is_sealed {
                        true => g.put_wan(&self.peer.seal_with(&packet, &[5; 16])),
                        false => g.put_wan(&packet),
                    }
                }
            }
            Step::AtSegment { is_last, v6, to, outer_ttl, ttl } => {
                let (src, dst) = match v6 {
                    false => (ip("10.9.0.1"), Self::own(*to, false)),
                    true => (ip("2001:db8:9::1"), Self::own(*to, true)),
                };
                let dst = if *to == 2 { Self::far(2, *v6) } else { dst };
                for n in 0..self.each {
                    let header = Ip { ttl: *ttl + u8::from(n % 4 == 3), ..Ip::new(src, dst) };
                    let inner = header.udp(1000 + n % 3, 2000, &[7; 40]);
                    g.put_wan(&srv6::for_steps(*is_last, *outer_ttl, &inner));
                }
            }
        }
        g.run();
        let counts = g.db.policies().map(|p| (p.config.index, p.packets(), p.bytes())).collect();
        let mut wan = g.wan_out();
        if self.spec.suite.needs_random_iv() {
            for packet in wan.iter_mut().filter(|packet| self.is_protected(packet)) {
                *packet = self.own.opened(packet);
            }
        }
        // Random as well.
        for packet in wan.iter_mut().filter(|packet| packet[0] >> 4 == 6 && packet[6] == 44) {
            packet[44..48].fill(0);
        }
        let g = &mut self.gateway;
        Outcome {
            lan: g.lan_out(),
            wan,
            linux: g.linux_out(),
            drops: g.drops(),
            counts,
            events: g.events().iter().map(|event| format!("{event:?}")).collect(),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Outcome {
    lan: Vec<Vec<u8>>,
    wan: Vec<Vec<u8>>,
    linux: Vec<Vec<u8>>,
    drops: Vec<(DropReason, u64)>,
    counts: Vec<(u32, u64, u64)>,
    events: Vec<String>,
}

/// Blocks one source port, before all other policies.
fn block(direction: u8, port: u16, v6: bool) -> PolicyConfig {
    let direction = [Direction::In, Direction::Out, Direction::Forward][usize::from(direction)];
    let any = policy::Prefix { addr: ip(if v6 { "::" } else { "0.0.0.0" }), len: 0 };
    let selector = Selector {
        protocol: 17,
        src_port: policy::PortMask { value: port, mask: 0xffff },
        ..Selector::between(any, any)
    };
    PolicyConfig {
        priority: 1,
        action: Action::Block,
        ..policy(100 + u32::from(port) * 3 + direction as u32, direction, selector, vec![])
    }
}

/// Holds a gateway that keeps plans against one that does not, and counts at the end packets that went by a plan
/// and that did not. The one that does not is tapped: nothing of what comes out may change by that.
fn hold_against(
    mut kept: Subject,
    mut plain: Subject,
    steps: &[Step],
    cached: (u64, u64),
) -> Result<(), TestCaseError> {
    let tap = tapped(&plain.gateway, Filter::default());
    for (n, step) in steps.iter().enumerate() {
        prop_assert_eq!(kept.take(step), plain.take(step), "step {}: {:?}", n, step);
        records(&tap);
        let ((hits, misses), all) = (kept.cached(), plain.cached());
        // What gets segments in two pieces is twice a packet of its headend's flow.
        prop_assert_eq!(hits + misses, all.0 + all.1, "step {}: {:?}", n, step);
        let is_cut = steps.iter().take(n).any(|step| matches!(step, Step::Segments { .. }));
        prop_assert!(all.0 == 0 || is_cut, "step {}: {:?}", n, step);
    }
    // Whatever came before, plans are made and followed.
    for step in &recovery() {
        prop_assert_eq!(kept.take(step), plain.take(step), "{:?}", step);
    }
    let before = kept.cached();
    for _ in 0..4 {
        let out = Step::Linux { to: 0, port: UNUSED };
        let back = Step::Esp { host: 10, to: 2, port: UNUSED, ttl: 9 };
        for step in [out, back] {
            let outcome = kept.take(&step);
            prop_assert_eq!(outcome.wan.len() + outcome.linux.len(), 1, "{:?}", step);
            prop_assert_eq!(outcome, plain.take(&step), "{:?}", step);
        }
    }
    let after = kept.cached();
    prop_assert_eq!((after.0 - before.0, after.1 - before.1), cached);
    Ok(())
}

/// Holds a gateway with several workers, which are tapped, against one with a single worker.
fn hold_workers_against(
    mut several: Subject,
    mut plain: Subject,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let tap = tapped(&several.gateway, Filter::default());
    for (n, step) in steps.iter().chain(&recovery()).enumerate() {
        records(&tap);
        // Which worker a packet is with decides when it is its turn, and so which packet is one too many.
        if matches!(step, Step::Limits { .. }) {
            continue;
        }
        // What waits for an SA has its turn after what waits before it, and of several workers each has a queue
        // of its own: whether a policy that blocks one flow meets its packets at once depends on that.
        if matches!(step, Step::Block { .. }) {
            several.let_none_wait();
            plain.let_none_wait();
        }
        let expected = plain.take(step);
        let expected = plain.without_order(expected);
        let outcome = several.take(step);
        prop_assert_eq!(several.without_order(outcome), expected, "step {}: {:?}", n, step);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_kept_plan_does_what_the_tables_say(
        kind in kind(),
        steps in prop::collection::vec(step(), 1..60),
        is_on_vlans in any::<bool>(),
    ) {
        let [mut kept, plain] = [false, true].map(|forgets| Subject::new(forgets, kind));
        if is_on_vlans {
            kept = kept.on_vlans(1);
        }
        hold_against(kept, plain, &steps, (6, 2))?;
    }

    /// So does one that leads to several SAs. What those have decrypted is resolved each time.
    #[test]
    fn a_kept_plan_of_several_sas_does_what_the_tables_say(
        stack in Stack::any(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let [kept, plain] =
            [false, true].map(|forgets| Subject::new(forgets, stack.kind()).with_layers(stack));
        let cached = if stack.is_one_when_short() { (6, 2) } else { (3, 5) };
        hold_against(kept, plain, &steps, cached)?;
    }

    /// So do several workers, whichever has a packet or an SA.
    #[test]
    fn several_workers_do_what_the_tables_say(
        kind in kind(),
        steps in prop::collection::vec(step(), 1..60),
        workers in 2_usize..5,
        is_on_vlans in any::<bool>(),
    ) {
        let several = match is_on_vlans {
            true => Subject::new(false, kind).on_vlans(workers),
            false => Subject::of_workers(workers, kind),
        };
        hold_workers_against(several, Subject::new(true, kind), &steps)?;
    }

    /// The same of several SAs.
    #[test]
    fn several_workers_with_several_sas_do_what_the_tables_say(
        stack in Stack::any(),
        steps in prop::collection::vec(step(), 1..60),
        workers in 2_usize..5,
    ) {
        let several = Subject::of_workers(workers, stack.kind()).with_layers(stack);
        let plain = Subject::new(true, stack.kind()).with_layers(stack);
        hold_workers_against(several, plain, &steps)?;
    }

    /// So does a pool, whichever thread has which burst.
    #[test]
    fn a_pool_does_what_the_tables_say(
        kind in kind(),
        stack in prop::option::of(Stack::any()),
        steps in prop::collection::vec(step(), 1..60),
        threads in 0_usize..3,
        is_on_vlans in any::<bool>(),
    ) {
        let subject = |forgets| match stack {
            Some(stack) => Subject::of_bursts(forgets, stack.kind()).with_layers(stack),
            None => Subject::of_bursts(forgets, kind),
        };
        let (mut pool, mut plain) = (subject(false), subject(true));
        if is_on_vlans && stack.is_none() {
            pool = pool.on_vlans(1);
        }
        let threads = pooled(&mut pool.gateway, threads);
        for (n, step) in steps.iter().enumerate() {
            prop_assert_eq!(pool.take(step), plain.take(step), "step {}: {:?}", n, step);
            let ((hits, misses), all) = (pool.cached(), plain.cached());
            prop_assert_eq!(hits + misses, all.0 + all.1, "step {}: {:?}", n, step);
        }
        drop(pool);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}
