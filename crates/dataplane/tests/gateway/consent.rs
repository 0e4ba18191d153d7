//! Leaving in clear by an uplink: whatever policies, rules, routes and guarded prefixes there are, no packet does that a policy
//! protects or blocks, or that a guarded prefix keeps in a tunnel.

use std::sync::Arc;

use conntrack::{Bindings, Entry, Tuple};
use dataplane::{Tables, TrafficMatch};
use policy::{Action, Direction, PolicyConfig, Prefix, Selector, Template};
use proptest::prelude::*;
use wire::protocol;

use crate::packets::{Ip, hopped};
use crate::route_based::everything;
use crate::steering::{by_uplink, connection, gateway_with, learn, rule, steer_with};
use crate::support::{Gateway, Side, Spec, ip, make_sa, policy, sa_config, template};

/// The path in clear, among those of [`crate::steering`].
const CLEAR: u16 = 2;

/// The first path's interface, likewise, and its port where it has one.
const TUNNEL: u32 = 20;
const TUNNEL_SLOT: usize = 7;

/// An outbound policy's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Pass,
    Block,
    LeaveToLinux,
    Protect,
    /// Compression, where it is of use, and ESP.
    ProtectTwice,
    /// There is no SA for it.
    ProtectWithout,
    /// Under more SAs than one packet can have.
    ProtectTooOften,
}

/// Packets that a policy is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    All,
    /// Those with the address that they arrive with.
    Arrived,
    /// Those with the address that Linux's translation gives them.
    Translated,
}

/// Destination of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// The routes lead into the first tunnel.
    Tunnel,
    /// The routes lead out of the uplink.
    Uplink,
    /// The routes lead to another host of the LAN, which no path does.
    Lan,
}

/// State of the packet's connection in Linux's NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nat {
    /// There is none.
    Off,
    /// The connection is unknown so far.
    Unknown,
    /// The connection is known, and translated or not.
    Known(bool),
}

/// The first path's interface, as the tables have it. The routes lead out of no port by any of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tunnel {
    /// A tunnel whose packets Linux does not give to a port of culvert's.
    Bound,
    /// A tunnel with a port that Linux's own packets come by.
    WithPort,
    /// Linux's, of a kind that culvert protects nothing on.
    Linuxs,
}

#[derive(Clone, Debug)]
struct Case {
    /// Policies, the first one before all others.
    policies: Vec<(Says, About)>,
    blocks_by_default: bool,
    to: To,
    is_guarded: bool,
    nat: Nat,
    /// The uplink translates.
    is_translated: bool,
    path: u16,
    tunnel: Tunnel,
    /// Its TTL ends here, so that Linux has to see it where it knows the connection.
    ends: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let says = prop_oneof![
        4 => Just(Says::Pass),
        1 => Just(Says::Block),
        1 => Just(Says::LeaveToLinux),
        1 => Just(Says::Protect),
        1 => Just(Says::ProtectTwice),
        1 => Just(Says::ProtectWithout),
        1 => Just(Says::ProtectTooOften),
    ];
    let about = prop_oneof![Just(About::All), Just(About::Arrived), Just(About::Translated)];
    let to = prop_oneof![3 => Just(To::Tunnel), 2 => Just(To::Uplink), 1 => Just(To::Lan)];
    let nat = prop_oneof![Just(Nat::Off), Just(Nat::Unknown), any::<bool>().prop_map(Nat::Known)];
    let path = prop_oneof![3 => Just(CLEAR), 1 => 0..CLEAR];
    let policies = prop::collection::vec((says, about), 0..3);
    let tunnel = prop_oneof![Just(Tunnel::Bound), Just(Tunnel::WithPort), Just(Tunnel::Linuxs)];
    let rare = prop::bool::weighted(0.2);
    let flags = (rare, any::<bool>(), any::<bool>(), rare);
    let ways = (to, path, tunnel);
    (policies, ways, nat, flags).prop_map(|(policies, (to, path, tunnel), nat, flags)| {
        let (blocks_by_default, is_guarded, is_translated, ends) = flags;
        Case { policies, blocks_by_default, to, is_guarded, nat, is_translated, path, tunnel, ends }
    })
}

impl Case {
    fn dst(&self) -> std::net::IpAddr {
        match self.to {
            To::Tunnel => Side::B.lan(false, 10),
            To::Uplink => ip("203.0.113.9"),
            To::Lan => Side::A.lan(false, 20),
        }
    }

    fn packet(&self) -> Vec<u8> {
        let ttl = if self.ends { 1 } else { 64 };
        let header = Ip { ttl, ..Ip::new(Side::A.lan(false, 10), self.dst()) };
        header.udp(1000, 53, &[7; 40])
    }

    /// True if the packet may leave in clear by the uplink, as the guide has it.
    fn may_leave(&self) -> bool {
        let leads_out = self.to == To::Uplink;
        let decides = self.policies.iter().find(|(_, about)| *about != About::Translated);
        match decides {
            _ if self.to == To::Lan => false,
            Some((Says::Pass, _)) => leads_out || !self.is_guarded,
            Some(_) => false,
            None => leads_out && !self.is_guarded && !self.blocks_by_default,
        }
    }

    /// The connection of the packet.
    fn connection(&self, is_translated: bool) -> Entry {
        let entry = connection(1000, is_translated);
        let original = Tuple { dst: self.dst(), ..entry.original };
        Entry { original, reply: Tuple { src: self.dst(), ..entry.reply }, ..entry }
    }

    fn gateway(&self) -> Gateway {
        let nat = (self.nat != Nat::Off).then(|| Arc::new(Bindings::default()));
        nat.iter().for_each(|nat| nat.set_asks([true; 2]));
        let mut g = gateway_with(Tables { nat: nat.clone(), ..Tables::default() });
        if let (Some(nat), Nat::Known(is_translated)) = (&nat, self.nat) {
            learn(nat, self.connection(is_translated));
        }
        if self.blocks_by_default {
            g.db.set_default(Direction::Out, Action::Block);
        }
        let topology = g.tables.topology.swap(Arc::default());
        let mut topology = Arc::into_inner(topology).expect("no worker has it yet");
        if self.is_guarded {
            topology.guarded = vec![Prefix { addr: self.dst(), len: 32 }];
        }
        let tunnel = topology.interfaces.get_mut(&TUNNEL).expect("the first path's");
        match self.tunnel {
            Tunnel::Bound => {}
            Tunnel::WithPort => tunnel.port = Some(TUNNEL_SLOT),
            Tunnel::Linuxs => tunnel.binding = None,
        }
        g.tables.topology.store(Arc::new(topology));
        // The same SA as that of the first tunnel, for packets of none.
        let config = sa_config(&Spec::default(), Side::A);
        let sa = make_sa(&config.params);
        g.db.add_sa(config, sa).expect("new");
        for (place, (says, about)) in (0..).zip(&self.policies) {
            g.db.put_policy(put(place, *says, *about));
        }
        let rules = vec![rule("all", TrafficMatch::default(), &[self.path])];
        steer_with(&g, rules, self.is_translated);
        g
    }
}

/// A policy with its place among all.
fn put(place: u32, says: Says, about: About) -> PolicyConfig {
    let esp = template(&Spec::default(), Side::A);
    let ipcomp = Template { protocol: protocol::IPCOMP, reqid: 8, optional: true, ..esp };
    let templates = match says {
        Says::Pass | Says::Block | Says::LeaveToLinux => vec![],
        Says::Protect => vec![esp],
        Says::ProtectTwice => vec![ipcomp, esp],
        Says::ProtectWithout => vec![Template { reqid: 9, ..esp }],
        Says::ProtectTooOften => vec![esp; 7],
    };
    let from = |addr| Selector::between(Prefix { addr, len: 32 }, everything().dst);
    let selector = match about {
        About::All => everything(),
        About::Arrived => from(Side::A.lan(false, 10)),
        About::Translated => from(Side::A.wan(false)),
    };
    let action = match says {
        Says::Block => Action::Block,
        Says::LeaveToLinux => Action::Leave,
        _ => Action::Allow,
    };
    let config = policy(90 + place, Direction::Out, selector, templates);
    PolicyConfig { priority: 10 + place, action, ..config }
}

/// Packets that have left by the uplink in clear, and how often Linux was given this one to send by it.
fn in_clear(g: &mut Gateway, packet: &[u8]) -> (Vec<Vec<u8>>, usize) {
    g.run();
    let mut out = g.wan_out();
    out.retain(|packet| packet[9] != protocol::ESP);
    let marked = by_uplink(g, packet);
    (out, g.linux_out().iter().filter(|frame| **frame == marked).count())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn nothing_leaves_in_clear_by_an_uplink_without_consent(case in case()) {
        let (mut g, mut case) = (case.gateway(), case);
        let packet = case.packet();
        // The second packet follows its flow's plan. Then one policy after another goes.
        loop {
            for round in 0..2 {
                g.put_lan(&packet);
                let (out, marked) = in_clear(&mut g, &packet);
                if !case.may_leave() {
                    prop_assert_eq!((out.len(), marked), (0, 0), "round {}: {:?}", round, case);
                } else if case.ends {
                    prop_assert_eq!(out.len(), 0, "round {}: {:?}", round, case);
                } else if case.path == CLEAR && case.nat == Nat::Unknown && case.is_translated {
                    prop_assert_eq!((out.len(), marked), (0, 1), "round {}: {:?}", round, case);
                } else if case.path == CLEAR && case.nat == Nat::Off && !case.is_translated {
                    // What waited for an SA may go before it.
                    let wanted = hopped(&packet, 1);
                    prop_assert_eq!(out.last(), Some(&wanted), "round {}: {:?}", round, case);
                }
            }
            if case.policies.is_empty() {
                break;
            }
            let place = 90 + case.policies.len() as u32 - 1;
            prop_assert!(g.db.remove_policy(place).is_some());
            case.policies.pop();
        }
    }
}
