//! Explanations say what is done.

use std::collections::HashSet;
use std::sync::mpsc::channel;

use dataplane::{Came, Command, Explanation, Fate, PolicySays, Probe, Step, Way};
use forward::{NeighbourState, Resolution};
use outcome::DropReason;
use policy::{Action, Direction, Selector};
use wire::protocol;

use crate::packets::Ip;
use crate::support::{Gateway, LAN, Side, Spec, WAN, ip, policy, sa_config, template};

pub fn ask(g: &mut Gateway, packet: &[u8], came: Came) -> Explanation {
    let (answer, answered) = channel();
    let probe = Box::new(Probe { packet: packet.to_vec(), came });
    g.commands.send(Command::Explain(probe, answer)).expect("listens");
    g.run();
    answered.recv().expect("an answer")
}

/// Fate of the one packet that came.
#[derive(Debug, PartialEq)]
enum Seen {
    Sealed(usize),
    Forwarded,
    ToLinux,
    Held,
    Answered(DropReason),
    Dropped(DropReason),
}

fn see(g: &mut Gateway) -> Seen {
    let (wan, lan, linux) = (g.wan_out(), g.lan_out(), g.linux_out());
    let is_esp = |packet: &Vec<u8>| packet.get(9) == Some(&protocol::ESP);
    match (&wan[..], &lan[..], &linux[..], &g.drops()[..]) {
        ([], [], [], []) if g.counters.totals().held > 0 => Seen::Held,
        // In one piece, or in two.
        ([], [], [], [(reason, 1 | 2)]) => Seen::Dropped(*reason),
        // The error goes back where the packet came from.
        ([], [_], [], [(reason, 1)]) | ([], [], [_], [(reason, 1)]) => Seen::Answered(*reason),
        ([], [], [_], []) => Seen::ToLinux,
        ([], [_], [], []) | ([_], [], [], []) if !wan.iter().any(is_esp) => Seen::Forwarded,
        (sealed, [], [], []) if sealed.iter().all(is_esp) => Seen::Sealed(sealed.len()),
        other => panic!("{other:?}"),
    }
}

fn told(explanation: &Explanation) -> Seen {
    let waits = |step: &Step| {
        let Step::Neighbour { resolution, .. } = step else { return false };
        matches!(resolution, Resolution::Unknown | Resolution::Pending)
    };
    let is_waiting = explanation.steps.iter().any(waits);
    match explanation.fate {
        Fate::Protected { .. } | Fate::Forwarded if is_waiting => Seen::Held,
        Fate::Protected { cut: Some(_) } => Seen::Sealed(2),
        Fate::Protected { cut: None } => Seen::Sealed(1),
        Fate::Forwarded => Seen::Forwarded,
        Fate::ToLinux { .. } => Seen::ToLinux,
        Fate::WaitsForSa { .. } => Seen::Held,
        Fate::Answered(_, reason) => Seen::Answered(reason),
        Fate::Dropped(reason) => Seen::Dropped(reason),
        ref other => panic!("{other:?}"),
    }
}

type SetUp = fn(&mut Gateway);

/// Ways to set a gateway up.
const SETUPS: [(&str, SetUp); 11] = [
    ("nothing", |_| {}),
    ("protected", |g| g.protect(&Spec::default())),
    ("no SA", |g| g.add_policies(&Spec::default())),
    ("blocked", |g| {
        g.protect(&Spec::default());
        put_out(g, 1, Action::Block);
    }),
    ("bypass", |g| {
        g.protect(&Spec::default());
        put_out(g, 1, Action::Allow);
    }),
    ("left to Linux", |g| {
        g.protect(&Spec::default());
        put_out(g, 1, Action::Leave);
    }),
    ("blocked by default", |g| g.db.set_default(Direction::Out, Action::Block)),
    ("wanted protected", |g| {
        let spec = Spec::default();
        let any = Selector::between(Side::A.net(false), Side::B.net(false));
        let wants = policy(77, Direction::Forward, any, vec![template(&spec, Side::A)]);
        g.db.put_policy(wants);
        g.protect(&spec);
    }),
    ("no neighbour", |g| {
        g.protect(&Spec::default());
        g.set_neighbours(NeighbourState::Incomplete);
    }),
    ("doubtful neighbour", |g| {
        g.protect(&Spec::default());
        g.set_neighbours(NeighbourState::Stale);
    }),
    ("failed neighbour", |g| {
        g.protect(&Spec::default());
        g.set_neighbours(NeighbourState::Failed);
    }),
];

/// A policy without templates, ahead of others.
fn put_out(g: &mut Gateway, priority: u32, action: Action) {
    let selector = Selector::between(Side::A.net(false), Side::B.net(false));
    let mut config = policy(78, Direction::Out, selector, vec![]);
    (config.priority, config.action) = (priority, action);
    g.db.put_policy(config);
}

#[test]
fn what_is_told_is_what_is_done() {
    let mut kinds = Vec::new();
    for (setup, set_up) in SETUPS {
        for (len, dont_fragment) in [(100, false), (1480, false), (1480, true)] {
            for ttl in [64, 1] {
                for from_lan in [true, false] {
                    let hosts = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
                    let packet = Ip { ttl, dont_fragment, ..hosts }.sized(len, 1);
                    let mut g = Gateway::new(Side::A);
                    set_up(&mut g);
                    let came = match from_lan {
                        true => Came::Port { ifindex: LAN },
                        false => Came::Linux { tunnel: 0, mark: 0 },
                    };
                    let before = g.counters.totals();
                    let explanation = ask(&mut g, &packet, came);
                    assert_eq!(g.counters.totals(), before, "{setup}: asking counts nothing");
                    assert_eq!(g.events(), [], "{setup}: asking tells nobody");
                    match from_lan {
                        true => g.put_lan(&packet),
                        false => g.put_linux(&packet),
                    }
                    g.run();
                    let seen = see(&mut g);
                    let case =
                        format!("{setup}, {len} bytes, DF {dont_fragment}, TTL {ttl}, {came:?}");
                    assert_eq!(told(&explanation), seen, "{case}: {explanation:?}");
                    kinds.push(core::mem::discriminant(&seen));
                }
            }
        }
    }
    let kinds: HashSet<_> = kinds.into_iter().collect();
    assert_eq!(kinds.len(), 5, "every kind of fate came about");
}

#[test]
fn each_answer_names_what_it_follows_from() {
    let spec = Spec::default();
    let mut g = Gateway::new(Side::A);
    g.protect(&spec);
    let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    let explanation = ask(&mut g, &packet, Came::Port { ifindex: LAN });
    let peer = Side::B.wan(false);
    let sa = sa_config(&spec, Side::A).id();
    assert_eq!(explanation.fate, Fate::Protected { cut: None });
    let steps = &explanation.steps;
    assert!(matches!(steps[0], Step::Ends { is_local: false }));
    let says = |step: &Step| match step {
        Step::Policy { direction, index, says, .. } => Some((*direction, *index, *says)),
        _ => None,
    };
    assert_eq!(says(&steps[1]), Some((Direction::Forward, None, PolicySays::Allowed)));
    assert_eq!(says(&steps[2]), Some((Direction::Out, Some(11), PolicySays::Protect)));
    assert_eq!(steps[3], Step::Sa(sa));
    let to = Way::Port { ifindex: WAN, via: peer, mtu: 1500 };
    assert_eq!(steps[4], Step::Route { dst: peer, to });
    let Step::Size { len: 100, protected: Some(protected), mtu: 1500 } = steps[5] else {
        panic!("{steps:?}")
    };
    let resolution = Resolution::Resolved { mac: Side::B.mac(WAN), confirm: false };
    assert_eq!(steps[6], Step::Neighbour { ifindex: WAN, addr: peer, resolution });
    g.put_lan(&packet);
    g.run();
    assert_eq!(g.wan_out()[0].len(), protected, "the length that was told");
}

#[test]
fn a_decrypted_packet_is_held_against_the_policy_of_its_sa() {
    let spec = Spec::default();
    let mut g = Gateway::new(Side::A);
    g.protect(&spec);
    let came = Came::Decrypted { sa: sa_config(&spec, Side::B).id(), ifindex: WAN };
    let good = Ip::new(Side::B.lan(false, 10), Side::A.lan(false, 10)).sized(100, 1);
    assert_eq!(ask(&mut g, &good, came).fate, Fate::Forwarded);
    let forged = Ip::new(ip("198.51.100.7"), Side::A.lan(false, 10)).sized(100, 1);
    let explanation = ask(&mut g, &forged, came);
    assert_eq!(explanation.fate, Fate::Dropped(DropReason::InPolicy), "{explanation:?}");
    let unknown = policy::SaId { spi: 7, ..sa_config(&spec, Side::B).id() };
    let came = Came::Decrypted { sa: unknown, ifindex: WAN };
    assert_eq!(ask(&mut g, &good, came).fate, Fate::Dropped(DropReason::InStateExpired));
}

#[test]
fn what_is_no_packet_is_told_as_dropped() {
    let mut g = Gateway::new(Side::A);
    let explanation = ask(&mut g, &[0x45, 0], Came::Port { ifindex: LAN });
    assert_eq!(explanation.fate, Fate::Dropped(DropReason::MalformedIp));
    assert!(explanation.steps.is_empty());
}
