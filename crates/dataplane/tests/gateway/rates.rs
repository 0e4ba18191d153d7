//! Rate limits: what passes, what is dropped, and which packets have buckets in common.

use std::sync::Arc;
use std::sync::mpsc::channel;

use dataplane::{
    Came, Command, Each, Probe, RateRule, RateRules, Step, TrafficDirection, TrafficMatch,
};
use limit::{Algorithm, Fill, Limiter, Settings, Sharing, Treatment, Treatments};
use outcome::DropReason;
use policy::Prefix;

use crate::packets::Ip;
use crate::support::{Gateway, LAN, Pair, SIZES, Side, Spec, ip};

/// Bytes a second, and the burst in bytes.
pub fn settings(rate: u64, burst: u64) -> Settings {
    Settings::single(rate * 8, burst)
}

pub fn limiter(name: &str, settings: Settings, parent: Option<&Arc<Limiter>>) -> Arc<Limiter> {
    Arc::new(Limiter::new(name, settings, parent.cloned(), (4, 0)))
}

pub fn rule(matches: TrafficMatch, each: Each, limiter: &Arc<Limiter>) -> RateRule {
    let limiter = Limiter::clone(limiter).with_each(each != Each::All);
    RateRule { matches, each, limiter: Arc::new(limiter) }
}

/// Rules for histories of steps: some packets of each flow pass, and some do not, or have another DSCP.
pub fn for_steps(which: u8) -> Arc<RateRules> {
    let total = limiter("total", settings(4000, 6000), None);
    let fill = |rate: u64, burst: u64| Fill { rate: rate * 8, burst: burst * 8 };
    let colours = Settings {
        algorithm: Algorithm::TwoRates { committed: fill(60, 1600), peak: fill(150, 3200) },
        is_aware: which == 2,
        overhead: 20,
        treatments: Treatments([Treatment::Mark(10), Treatment::Mark(12), Treatment::Drop]),
        ..settings(1, 1600)
    };
    let both = TrafficMatch { direction: TrafficDirection::Both, ..TrafficMatch::default() };
    let decrypted = TrafficMatch { direction: TrafficDirection::In, ..TrafficMatch::default() };
    let far =
        TrafficMatch { dst: Some(Prefix { addr: ip("203.0.113.0"), len: 24 }), ..both.clone() };
    Arc::new(RateRules::new(match which {
        0 => Vec::new(),
        1 => vec![
            rule(far, Each::Flow, &limiter("far", settings(200, 1600), Some(&total))),
            rule(both, Each::All, &limiter("tenant", colours, Some(&total))),
        ],
        3 => {
            let atomic = |settings| Settings { sharing: Sharing::Atomic, ..settings };
            let total = limiter("total", atomic(settings(4000, 6000)), None);
            vec![
                rule(decrypted, Each::All, &limiter("in", atomic(colours), Some(&total))),
                rule(both, Each::All, &limiter("out", atomic(settings(300, 1600)), Some(&total))),
            ]
        }
        _ => vec![
            rule(decrypted, Each::Tunnel, &limiter("in", colours, None)),
            rule(both, Each::Tunnel, &limiter("out", settings(300, 1600), Some(&total))),
        ],
    }))
}

fn publish(g: &mut Gateway, rules: Vec<RateRule>) {
    g.rates = Arc::new(RateRules::new(rules));
    g.set_topology(1500, Vec::new());
}

fn flow(port: u16, len: usize) -> Vec<u8> {
    let header = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    header.udp(port, 2000, &vec![7; len - 28])
}

/// Packets of a flow, all at once; how many leave.
fn sent(g: &mut Gateway, port: u16, packets: usize) -> usize {
    (0..packets).for_each(|_| g.put_lan(&flow(port, 100)));
    g.run();
    g.wan_out().len()
}

/// Makes a gateway drop a packet for its rate.
pub fn produce() -> Gateway {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let all = limiter("all", settings(1, 99), None);
    publish(&mut g, vec![rule(TrafficMatch::default(), Each::All, &all)]);
    assert_eq!(sent(&mut g, 1000, 1), 0);
    g
}

#[test]
fn a_limit_is_exact_in_new_flows_and_known_ones() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let all = limiter("all", settings(1000, 1000), None);
    publish(&mut g, vec![rule(TrafficMatch::default(), Each::All, &all)]);
    assert_eq!(sent(&mut g, 1000, 25), 10);
    // A second is worth ten packets, whichever flows they are of; no more than the burst is kept.
    g.pass_ns(500_000_000);
    assert_eq!((sent(&mut g, 1000, 3), sent(&mut g, 1001, 9)), (3, 2));
    g.pass_ns(3_000_000_000);
    assert_eq!(sent(&mut g, 1000, 25), 10);
    assert_eq!(g.drops(), [(DropReason::RateLimit, 15 + 7 + 15)]);
    assert_eq!(all.counts().packets, [25, 0, 37]);
    assert_eq!(all.counts().bytes, [2500, 0, 3700]);
    // Packets that do not pass have a plan too, once their flow's first burst is through.
    let work = &g.counters.work;
    assert_eq!((work.flow_misses.value(), work.flow_hits.value()), (25 + 9, 3 + 25));
    assert_eq!(
        g.sa(Side::A, &Spec::default())
            .esp
            .live()
            .packets()
            .load(core::sync::atomic::Ordering::Relaxed),
        25
    );
}

#[test]
fn limits_can_be_published_and_taken_away() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    assert_eq!(sent(&mut g, 1000, 20), 20);
    let all = limiter("all", settings(1, 500), None);
    let of_all = || vec![rule(TrafficMatch::default(), Each::All, &all)];
    publish(&mut g, of_all());
    assert_eq!(sent(&mut g, 1000, 20), 5);
    // The buckets stay as long as the settings.
    publish(&mut g, of_all());
    assert_eq!(sent(&mut g, 1000, 20), 0);
    publish(&mut g, Vec::new());
    assert_eq!(sent(&mut g, 1000, 20), 20);
}

#[test]
fn each_flow_has_its_own_and_all_have_the_parent() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let total = limiter("total", settings(1, 1200), None);
    let each = limiter("each", settings(1, 500), Some(&total));
    publish(&mut g, vec![rule(TrafficMatch::default(), Each::Flow, &each)]);
    let passed = [1000, 1001, 1002, 1000].map(|port| sent(&mut g, port, 9));
    assert_eq!(passed, [5, 5, 2, 0]);
    // Counted where it was refused.
    assert_eq!((each.counts().packets, total.counts().packets), ([12, 0, 4 + 4 + 9], [12, 0, 7]));
}

#[test]
fn packets_of_one_flow_are_under_the_limits_of_their_dscps() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let [voice, rest] = ["voice", "rest"].map(|name| limiter(name, settings(1000, 1000), None));
    let matches = |dscp| TrafficMatch { dscp, ..TrafficMatch::default() };
    let send = |g: &mut Gateway, dscp: u8, packets: usize| {
        let mut packet = flow(1000, 100);
        wire::set_traffic_class(&mut packet, dscp << 2);
        (0..packets).for_each(|_| g.put_lan(&packet));
        g.run();
        g.wan_out().len()
    };
    // The flow has a plan of packets that are under no limit, and then of those that are.
    publish(&mut g, vec![rule(matches(Some(46)), Each::All, &voice)]);
    assert_eq!((send(&mut g, 0, 30), send(&mut g, 0, 30), send(&mut g, 46, 30)), (30, 30, 10));
    assert_eq!((send(&mut g, 46, 5), send(&mut g, 8, 30)), (0, 30));
    let both =
        vec![rule(matches(Some(46)), Each::All, &voice), rule(matches(None), Each::All, &rest)];
    publish(&mut g, both);
    g.pass_ns(1_000_000_000);
    assert_eq!((send(&mut g, 0, 15), send(&mut g, 46, 15), send(&mut g, 0, 15)), (10, 10, 0));
    assert_eq!((voice.counts().packets[0], rest.counts().packets[0]), (20, 10));
}

#[test]
fn colours_are_told_to_the_peer_inside_and_outside() {
    let mut pair = Pair::new(&Spec::default());
    let fill = |burst: u64| Fill { rate: 8, burst: burst * 8 };
    let settings = Settings {
        algorithm: Algorithm::Differentiated { committed: fill(300), excess: fill(200) },
        treatments: Treatments([Treatment::Mark(10), Treatment::Mark(12), Treatment::Mark(14)]),
        ..settings(1, 100)
    };
    let gold = limiter("gold", settings, None);
    publish(&mut pair.a, vec![rule(TrafficMatch::default(), Each::Tunnel, &gold)]);
    (0..7).for_each(|_| pair.a.put_lan(&flow(1000, 100)));
    pair.a.run();
    let outer: Vec<u8> = pair.carry(Side::A).iter().map(|packet| packet[1] >> 2).collect();
    let inner: Vec<u8> = pair.b.lan_out().iter().map(|packet| packet[1] >> 2).collect();
    assert_eq!(outer, [10, 10, 10, 12, 12, 14, 14]);
    assert_eq!(inner, outer);
    assert_eq!(gold.counts().packets, [3, 2, 2]);
}

#[test]
fn what_is_decrypted_has_limits_of_its_own() {
    let mut pair = Pair::new(&Spec::default());
    let back = limiter("in", settings(1, 400), None);
    let matches = TrafficMatch {
        direction: TrafficDirection::In,
        peer: Some(Prefix { addr: Side::A.wan(false), len: 32 }),
        ..TrafficMatch::default()
    };
    publish(&mut pair.b, vec![rule(matches, Each::All, &back)]);
    (0..9).for_each(|_| pair.a.put_lan(&flow(1000, 100)));
    pair.a.run();
    assert_eq!(pair.carry(Side::A).len(), 9);
    assert_eq!(pair.b.lan_out().len(), 4);
    // The replay window and the SA have seen all of them.
    let sa = pair.b.sa(Side::A, &Spec::default());
    assert_eq!(sa.esp.live().packets().load(core::sync::atomic::Ordering::Relaxed), 9);
    let header = Ip::new(Side::B.lan(false, 10), Side::A.lan(false, 10));
    (0..9).for_each(|_| pair.b.put_lan(&header.udp(1000, 2000, &[7; 72])));
    pair.b.run();
    assert_eq!(pair.b.wan_out().len(), 9, "the other way there is none");
}

#[test]
fn workers_share_a_limit() {
    let mut g = Gateway::with_workers(Side::A, SIZES, 1024, 4);
    g.protect(&Spec::default());
    // So large that each leases ahead.
    let all = limiter("all", settings(100_000_000, 400_000), None);
    assert!(all.quantum() > 0);
    let matches = TrafficMatch { direction: TrafficDirection::In, ..TrafficMatch::default() };
    let out = limiter("out", settings(100_000_000, 20_000), Some(&all));
    publish(
        &mut g,
        vec![rule(matches, Each::All, &all), rule(TrafficMatch::default(), Each::All, &out)],
    );
    let mut passed = 0;
    for port in 0..16 {
        (0..20).for_each(|_| g.put_lan(&flow(1000 + port, 100)));
        g.run();
        passed += g.wan_out().len();
    }
    // Nothing of the burst is left, and no more of it was given than there is.
    assert!((195..=200).contains(&passed), "{passed}");
    assert_eq!(all.counts().packets, [passed as u64, 0, 0]);
    assert_eq!(g.dropped(DropReason::RateLimit), 320 - passed as u64);
}

#[test]
fn key_exchange_and_icmp_errors_are_under_no_limit() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let all = limiter("all", settings(1, 1), None);
    let both = TrafficMatch { direction: TrafficDirection::Both, ..TrafficMatch::default() };
    publish(&mut g, vec![rule(both, Each::All, &all)]);
    let ike = Ip::new(Side::A.wan(false), Side::B.wan(false)).udp(500, 500, &[0; 28]);
    g.put_linux(&ike);
    g.run();
    assert_eq!(g.wan_out().len(), 1);
    // Its TTL ends here: the sender is told.
    g.put_lan(
        &Ip { ttl: 1, ..Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)) }.sized(100, 1),
    );
    g.run();
    assert_eq!((g.lan_out().len(), g.drops()), (1, vec![(DropReason::TtlExceeded, 1)]));
}

#[test]
fn why_names_the_limiter_and_takes_nothing() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let all = limiter("tenant-a", settings(1, 100), None);
    publish(&mut g, vec![rule(TrafficMatch::default(), Each::All, &all)]);
    let (answer, answered) = channel();
    let came = Came::Port { ifindex: LAN };
    let probe = Box::new(Probe { packet: flow(1000, 100), came });
    g.commands.send(Command::Explain(probe, answer)).expect("listens");
    g.run();
    let steps = answered.recv().expect("an answer").steps;
    assert!(steps.contains(&Step::RateLimit("tenant-a".into())), "{steps:?}");
    assert_eq!(sent(&mut g, 1000, 1), 1);
}
