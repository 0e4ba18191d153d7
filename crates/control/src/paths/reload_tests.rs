//! Reloads: what rules know of paths that stay the same, and where their flows are.

use std::path::Path;
use std::time::Duration;

use config::Config;
use dataplane::ProbeExit;
use mirror::{Change, Link, NextHop, Prefix, Route, Snapshot, XfrmInterface};
use selection::{Quality, Standing};

use super::rules::NO_INTERFACE;
use super::{PathSelection, Paths, led_otherwise};
use crate::clock::Now;
use crate::in_memory::link;

const SECOND: Duration = Duration::from_secs(1);

/// A path to one far end by the tunnel interface of its own name.
fn path(name: &str) -> String {
    let ends = "source = \"10.0.0.1\"\nto = \"10.0.0.2\"\nmode = \"icmp\"\n";
    format!("[[path]]\nname = \"{name}\"\ntunnel = \"{name}\"\n{ends}")
}

fn rule(name: &str, paths: &[&str], more: &str) -> String {
    format!(
        "[[steer]]\nname = \"{name}\"\npaths = {paths:?}\nmax_delay_ms = 100\nreturn_after_s = 30\n{more}"
    )
}

fn parse(parts: &[String]) -> Config {
    let tunnels = ["fibre", "cable", "lte", "new"].into_iter().zip(1..);
    let tunnel = |(name, n)| format!("[[tunnel]]\ninterface = \"{name}\"\nif_id = {n}\n");
    let tunnels: String = tunnels.map(tunnel).collect();
    Config::parse(&(tunnels + &parts.concat()), Path::new("culvert.toml")).expect("right")
}

fn links() -> Snapshot {
    let links = ["fibre", "cable", "lte", "new"].into_iter().zip(1..);
    links.map(|(name, index)| Change::Link(link(index, name, true))).collect()
}

const GOOD: Quality =
    Quality { is_alive: true, delay: Duration::ZERO, jitter: Duration::ZERO, loss_ppm: 0 };
const SLOW: Quality = Quality { delay: SECOND, ..GOOD };

/// Judges the paths at `at`, those that are named as slow and the others as good.
fn judge(selection: &mut PathSelection, config: &Config, at: Duration, slow: &[&str]) {
    let quality = |path: usize, _| {
        let is_slow = slow.contains(&config.paths[path].name.as_str());
        Some(if is_slow { SLOW } else { GOOD })
    };
    selection.update(at, &links(), |_| None, quality, |_, _| None);
}

fn standing(selection: &PathSelection, rule: &str, path: &str) -> Standing {
    let (_, paths) = selection.rules().find(|(of, _)| of.name == rule).expect("a rule");
    paths.into_iter().find(|(name, ..)| *name == path).expect("a path").1
}

#[test]
fn a_rule_whose_paths_stay_keeps_its_hold_down_and_its_flows() {
    let voice = || rule("voice", &["fibre", "cable"], "");
    let before = parse(&[path("fibre"), path("cable"), path("lte"), voice()]);
    let mut selection = PathSelection::default();
    selection.follow(&before.steers, &before.paths, 0);
    judge(&mut selection, &before, SECOND, &["fibre"]);
    judge(&mut selection, &before, 2 * SECOND, &[]);
    let held = Standing::Bad { well_since: Some(2 * SECOND) };
    assert_eq!(standing(&selection, "voice", "fibre"), held);
    // A path comes in front of all, one goes, and so does another rule.
    let bulk = rule("bulk", &["new", "cable"], "");
    let after = parse(&[path("new"), path("cable"), path("fibre"), bulk, voice()]);
    selection.follow(&after.steers, &after.paths, 0);
    assert_eq!(standing(&selection, "voice", "fibre"), held);
    assert_eq!(selection.takers("voice"), ["cable"]);
    judge(&mut selection, &after, 31 * SECOND, &[]);
    assert_eq!(selection.takers("voice"), ["cable"]);
    judge(&mut selection, &after, 32 * SECOND, &[]);
    assert_eq!(selection.takers("voice"), ["fibre"]);
    assert_eq!(selection.takers("bulk"), ["new"]);
}

#[test]
fn a_path_that_is_another_is_judged_anew_and_its_neighbours_are_not() {
    let voice = || rule("voice", &["fibre", "cable", "lte"], "");
    let before = parse(&[path("fibre"), path("cable"), path("lte"), voice()]);
    let mut selection = PathSelection::default();
    selection.follow(&before.steers, &before.paths, 0);
    judge(&mut selection, &before, SECOND, &["fibre", "cable"]);
    let other = path("cable").replace("10.0.0.2", "10.0.0.3");
    let after = parse(&[path("fibre"), other, path("lte"), voice()]);
    selection.follow(&after.steers, &after.paths, 0);
    let bad = Standing::Bad { well_since: None };
    assert_eq!(standing(&selection, "voice", "fibre"), bad);
    assert_eq!(standing(&selection, "voice", "cable"), Standing::Good);
    // By another class the same path is measured otherwise.
    let by_class = |class: &str| {
        let path = path("fibre") + "dscp = [\"EF\", \"BE\"]\n";
        parse(&[path, rule("voice", &["fibre"], &format!("class = \"{class}\"\n"))])
    };
    let (before, after) = (by_class("EF"), by_class("BE"));
    selection.follow(&before.steers, &before.paths, 0);
    judge(&mut selection, &before, SECOND, &["fibre"]);
    selection.follow(&after.steers, &after.paths, 0);
    assert_eq!(standing(&selection, "voice", "fibre"), Standing::Good);
}

#[test]
fn flows_that_are_shared_stay_when_a_path_comes_in_front() {
    let web = || rule("web", &["cable", "fibre", "lte"], "spread = \"share\"\n");
    let before = parse(&[path("cable"), path("fibre"), path("lte"), web()]);
    let after = parse(&[path("new"), path("lte"), path("fibre"), path("cable"), web()]);
    let mut selection = PathSelection::default();
    let paths_of_flows = |selection: &PathSelection, config: &Config| {
        let (_, selector) = selection.rules.first().expect("a rule");
        let path = |flow| selector.choice().path(flow).expect("a path");
        let names = (0..1000).map(|flow| config.paths[usize::from(path(flow))].name.clone());
        names.collect::<Vec<_>>()
    };
    selection.follow(&before.steers, &before.paths, 0);
    let were = paths_of_flows(&selection, &before);
    selection.follow(&after.steers, &after.paths, 0);
    assert_eq!(were, paths_of_flows(&selection, &after));
}

#[test]
fn sessions_between_the_same_ends_keep_their_ports() {
    let mut paths = Paths::default();
    let mut ids = |parts: &[String]| {
        let config = parse(parts);
        let of = (&config.path_options, 0);
        paths.follow(Now::read(), of, &config.paths, &[]).expect("random numbers");
        let of = |session: &super::Session| (session.id, session.port_place);
        paths.sessions.iter().map(of).collect::<Vec<_>>()
    };
    let all = ids(&[path("fibre"), path("cable"), path("lte")]);
    assert_eq!(all, [(1, 0), (2, 1), (3, 2)]);
    assert_eq!(ids(&[path("cable"), path("lte")]), [(2, 1), (3, 2)]);
    // What comes has a place that is free.
    let more = ids(&[path("new"), path("cable"), path("fibre"), path("lte")]);
    assert_eq!(more, [(4, 0), (2, 1), (5, 3), (3, 2)]);
}

#[test]
fn a_route_to_a_path_that_was_removed_is_told() {
    let rules = || rule("voice", &["fibre"], "");
    let tunnel = |index, name| {
        let xfrm = Some(XfrmInterface::IfId(index));
        Change::Link(Link { xfrm, ..link(index, name, true) })
    };
    let route = |last, ifindex, protocol| {
        let dst = Prefix { addr: [10, last, 0, 0].into(), len: 16 };
        let hop = NextHop::new(ifindex, None);
        Change::Route(Route { protocol, ..Route::new(dst, hop) })
    };
    let snapshot: Snapshot = [
        tunnel(1, "fibre"),
        tunnel(2, "cable"),
        tunnel(3, "lte"),
        Change::Link(link(4, "lan", true)),
        route(1, 1, 4),
        route(2, 2, 4),
        route(3, 2, 186),
        // Of an address on the link, and to what is no tunnel.
        route(4, 3, 2),
        route(5, 4, 4),
    ]
    .into_iter()
    .collect();
    let mut paths = Paths::default();
    let mut told = |parts: &[String]| {
        let config = parse(parts);
        let of = (&config.path_options, 0);
        paths.follow(Now::read(), of, &config.paths, &config.steers).expect("random numbers");
        let led = paths.unasked(&snapshot);
        led.into_iter().map(|led| (led.interface, led.route, led.more)).collect::<Vec<_>>()
    };
    assert_eq!(told(&[path("fibre"), path("cable"), rules()]), []);
    let cable = ("cable".to_owned(), "10.2.0.0/16".to_owned(), 1);
    assert_eq!(told(&[path("fibre"), rules()]), [cable]);
    assert_eq!(told(&[path("fibre")]), [], "there is no rule to ask");
}

/// Tens of thousands of sessions are not told of again because one interface comes and goes.
#[test]
fn an_interface_that_flaps_changes_its_own_sessions_alone() {
    let all: Vec<_> = (0..50_000).map(|n| ProbeExit::Tunnel(1 + n % 1000)).collect();
    let gone = |index: u32| {
        let exit = |exit: &ProbeExit| match *exit {
            ProbeExit::Tunnel(of) if of == index => ProbeExit::Tunnel(NO_INTERFACE),
            exit => exit,
        };
        all.iter().map(exit).collect::<Vec<_>>()
    };
    let changes = led_otherwise(&all, &gone(7));
    let places: Vec<_> = changes.iter().map(|(at, _)| *at).collect();
    assert_eq!(places, (6..50_000).step_by(1000).collect::<Vec<_>>());
    assert!(changes.iter().all(|(_, exit)| *exit == ProbeExit::Tunnel(NO_INTERFACE)));
    assert_eq!(led_otherwise(&all, &all), []);
}
