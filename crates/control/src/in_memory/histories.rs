//! Random histories, held against a model.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use dataplane::Event;
use mirror::{
    Address, Change, Family, Neighbour, NeighbourState, NextHop, Prefix, Route, RouteKind, Rule,
};
use policy::Direction;
use proptest::prelude::*;

use super::{PRIVATE, Plane, link};
use crate::install::{delete_policy, delete_sa, new_policy, new_sa};
use crate::{RETRY_INTERVAL, TICK};

/// The priority of all policies here.
const PRIORITY: u32 = 375_423;

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// An IKE daemon installs a policy, or deletes it.
    Policy(u32, bool),
    /// The same, of an SA.
    Sa(u32, bool),
    /// An interface is there, up or down.
    Link(u32, bool),
    /// An interface goes, with its addresses, routes and neighbours.
    LinkGone(u32),
    /// An address of this host comes or goes.
    Address(u8, bool),
    /// Linux has a route to a network, by an interface, or none.
    Route(u8, Option<u32>),
    /// A neighbour is known, or not any more.
    Neighbour(u8, bool),
    /// The configuration of this number is reloaded.
    Reload(usize),
    /// A worker has lost a port.
    PortGone(u32),
    /// Reading Linux's tables fails once.
    ReadingFails,
    /// Linux refuses culvert's routes, or takes them.
    RoutesRefused(bool),
    /// The kernel refuses barriers, or takes them.
    BarriersRefused(bool),
    /// Somebody flushes the kernel's policies.
    Flush,
    /// Somebody deletes a route of culvert's.
    OwnRouteGone(u32),
}

/// Configurations; the last is wrong.
const CONFIGS: [&str; 3] =
    ["", "[guard]\nprefixes = [\"10.0.0.0/22\"]\n", "[guard]\nprefixes = \"none\"\n"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12u32, any::<bool>()).prop_map(|(n, is_new)| Step::Policy(n, is_new)),
        2 => (0..6u32, any::<bool>()).prop_map(|(n, is_new)| Step::Sa(n, is_new)),
        3 => (2..6u32, any::<bool>()).prop_map(|(index, is_up)| Step::Link(index, is_up)),
        1 => (2..6u32).prop_map(Step::LinkGone),
        3 => (0..4u8, any::<bool>()).prop_map(|(n, is_new)| Step::Address(n, is_new)),
        3 => (0..4u8, prop::option::of(2..6u32)).prop_map(|(n, by)| Step::Route(n, by)),
        2 => (0..4u8, any::<bool>()).prop_map(|(n, is_new)| Step::Neighbour(n, is_new)),
        2 => (0..CONFIGS.len()).prop_map(Step::Reload),
        1 => (2..6u32).prop_map(Step::PortGone),
        1 => Just(Step::ReadingFails),
        1 => any::<bool>().prop_map(Step::RoutesRefused),
        1 => any::<bool>().prop_map(Step::BarriersRefused),
        1 => Just(Step::Flush),
        1 => (0..4u32).prop_map(Step::OwnRouteGone),
    ]
}

/// State that there has to be.
#[derive(Debug, Default)]
struct Model {
    policies: BTreeSet<u32>,
    sas: BTreeSet<u32>,
    config: usize,
    /// Barriers were refused once: more may be blocked than is wanted, for a while.
    has_refused: bool,
}

/// An address inside of what the policies take for this side.
fn near(n: u8) -> IpAddr {
    Ipv4Addr::new(172, 16, n, 1).into()
}

/// An address behind the peer of a tunnel.
fn far(tunnel: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0001 + (tunnel << 8)).into()
}

fn network(tunnel: u32) -> Prefix {
    Prefix { addr: Ipv4Addr::from_bits(0x0a00_0000 + (tunnel << 8)).into(), len: 24 }
}

/// Linux's own route.
fn route(n: u8, ifindex: u32) -> Route {
    let dst = Prefix { addr: Ipv4Addr::new(198, 51, n, 0).into(), len: 24 };
    Route::new(dst, NextHop::new(ifindex, None))
}

fn address(n: u8) -> Address {
    Address {
        ifindex: 2 + u32::from(n),
        addr: near(n),
        prefix_len: 24,
        scope: 0,
        tentative: false,
        secondary: false,
        deprecated: false,
    }
}

fn neighbour(n: u8) -> Neighbour {
    Neighbour {
        ifindex: 2 + u32::from(n),
        ip: Ipv4Addr::new(172, 16, n, 99).into(),
        mac: Some([2, 0, 0, 0, 1, n]),
        state: NeighbourState::Reachable,
        router: false,
    }
}

impl Plane {
    fn has_link(&self, index: u32) -> bool {
        let is_it = |change: &Change| matches!(change, Change::Link(link) if link.index == index);
        self.linux.there().iter().any(is_it)
    }

    /// Does what a step says, and holds the answers against the model.
    fn take(&mut self, model: &mut Model, step: &Step) {
        match *step {
            Step::Policy(n, is_new) => {
                let request = if is_new { new_policy(n) } else { delete_policy(n) };
                let errno = self.request(&request);
                let is_changed = match is_new {
                    true => model.policies.insert(n),
                    false => model.policies.remove(&n),
                };
                assert_eq!(errno == 0, is_changed, "errno {errno}");
                self.hold_guard(model);
            }
            Step::Sa(n, is_new) => {
                let request = if is_new { new_sa(n) } else { delete_sa(n) };
                let errno = self.request(&request);
                let is_changed = match is_new {
                    true => model.sas.insert(n),
                    false => model.sas.remove(&n),
                };
                assert_eq!(errno == 0, is_changed, "errno {errno}");
            }
            Step::Link(index, is_up) => {
                self.linux.put(Change::Link(link(index, &format!("eth{index}"), is_up)));
            }
            Step::LinkGone(index) => {
                self.linux.remove(|change| match change {
                    Change::Link(link) => link.index == index,
                    Change::Address(address) => address.ifindex == index,
                    Change::Neighbour(neighbour) => neighbour.ifindex == index,
                    Change::Route(route) => route.next_hops.iter().any(|hop| hop.ifindex == index),
                    _ => false,
                });
            }
            Step::Address(n, true) if self.has_link(2 + u32::from(n)) => {
                self.linux.put(Change::Address(address(n)));
            }
            Step::Address(n, _) => {
                self.linux.remove(|c| matches!(c, Change::Address(a) if a.addr == near(n)));
            }
            Step::Route(n, Some(by)) if self.has_link(by) => {
                self.linux.put(Change::Route(route(n, by)));
            }
            Step::Route(n, _) => {
                let dst = route(n, 0).dst;
                self.linux.remove(|c| matches!(c, Change::Route(r) if r.dst == dst));
            }
            Step::Neighbour(n, true) if self.has_link(2 + u32::from(n)) => {
                self.linux.put(Change::Neighbour(neighbour(n)));
            }
            Step::Neighbour(n, _) => {
                let ip = neighbour(n).ip;
                self.linux.remove(|c| matches!(c, Change::Neighbour(there) if there.ip == ip));
            }
            Step::Reload(config) => {
                std::fs::write(&self.config, CONFIGS[config]).unwrap();
                let reloaded = self.daemon.reload(self.now);
                let is_right = config < 2;
                assert_eq!(reloaded.reloaded, is_right, "{reloaded:?}");
                if is_right {
                    model.config = config;
                }
            }
            Step::PortGone(ifindex) => assert!(self.events.send(Event::PortGone { ifindex })),
            Step::ReadingFails => self.linux.fail_once(),
            Step::RoutesRefused(is_refused) => self.linux.refuse_routes(is_refused),
            Step::BarriersRefused(is_refused) => {
                self.kernel.refuse(PRIORITY, is_refused);
                model.has_refused |= is_refused;
            }
            Step::Flush => {
                self.kernel.flush();
                // Its time has come.
                self.now = self.now.after(TICK);
                self.round();
            }
            Step::OwnRouteGone(tunnel) => {
                let (table, dst) = (self.daemon.config.tun.table, network(tunnel));
                self.linux
                    .remove(|c| matches!(c, Change::Route(r) if (r.table, r.dst) == (table, dst)));
            }
        }
    }

    /// Nothing passes in clear that a policy protects, whatever is refused.
    fn hold_guard(&self, model: &Model) {
        for tunnel in 0..4 {
            let ends = [
                (Direction::Out, near(0), far(tunnel)),
                (Direction::In, far(tunnel), near(0)),
                (Direction::Forward, far(tunnel), near(0)),
            ];
            for (n, (direction, src, dst)) in (3 * tunnel..).zip(ends) {
                let is_wanted = model.policies.contains(&n) || model.config == 1;
                let passes = self.kernel.passes(direction, src, dst);
                assert!(!(is_wanted && passes), "{direction:?} to {dst} is open: {model:?}");
                if !is_wanted && !model.has_refused {
                    assert!(passes, "{direction:?} to {dst} is blocked: {model:?}");
                }
            }
        }
    }

    /// Everything is as it has to be, when nothing is wanted any more.
    fn hold(&self, model: &Model, are_routes_taken: bool) {
        self.hold_guard(model);
        let there = self.linux.there();
        let topology = self.daemon.crew.tables.topology.load();
        let links: BTreeMap<u32, bool> = there
            .iter()
            .filter_map(|change| match change {
                Change::Link(link) => Some((link.index, link.up)),
                _ => None,
            })
            .collect();
        let published = topology.interfaces.iter().map(|(index, i)| (*index, i.up)).collect();
        assert_eq!(links, published, "interfaces");

        let addresses: HashSet<IpAddr> = there
            .iter()
            .filter_map(|change| match change {
                Change::Address(address) => Some(address.addr),
                _ => None,
            })
            .collect();
        assert_eq!(topology.local.iter().copied().collect::<HashSet<_>>(), addresses);
        for n in 0..4 {
            let dst = route(n, 0).dst;
            let by = there.iter().find_map(|change| match change {
                Change::Route(route) if route.dst == dst => Some(route.next_hops[0].ifindex),
                _ => None,
            });
            assert_eq!(topology.way_out(near(0), dst.addr), by, "the route to {dst:?}");
        }
        let known = there.iter().filter(|change| matches!(change, Change::Neighbour(_))).count();
        assert_eq!(self.daemon.crew.tables.neighbours.load().len(), known, "neighbours");
        assert_eq!(topology.guarded.len(), usize::from(model.config == 1), "guarded prefixes");

        let steering = self.daemon.crew.ports.steering();
        assert_eq!(steering.local, addresses, "steering's addresses");
        let mut protected = HashMap::new();
        for n in &model.policies {
            let (addr, len) = match n % 3 {
                0 => (network(n / 3).addr, 24),
                _ => (Ipv4Addr::new(172, 16, 0, 0).into(), 12),
            };
            *protected.entry(steer::Prefix::new(addr, len).unwrap()).or_default() += 1;
        }
        assert_eq!(steering.protected, protected, "what ports take");
        assert_eq!(self.daemon.sa.source.databases().sa_count(), model.sas.len(), "SAs");
        if are_routes_taken {
            self.hold_routes(model, &there, !addresses.is_empty());
        }
    }

    /// Linux leads its own packets here for those policies that protect what leaves.
    fn hold_routes(&self, model: &Model, there: &[Change], has_address: bool) {
        let own: BTreeSet<Prefix> = there
            .iter()
            .filter_map(|change| match change {
                Change::Route(r)
                    if r.table == self.daemon.config.tun.table && r.kind != RouteKind::Throw =>
                {
                    Some(r.dst)
                }
                _ => None,
            })
            .collect();
        let outbound = model.policies.iter().filter(|n| **n % 3 == 0);
        let wanted: BTreeSet<Prefix> = outbound.map(|n| network(n / 3)).collect();
        match has_address {
            true => assert_eq!(own, wanted, "routes to {PRIVATE}"),
            false => assert!(own.is_subset(&wanted), "{own:?} where {wanted:?} is wanted"),
        }
    }
}

/// A host with Linux's rule for its main table.
fn plane() -> Plane {
    let plane = Plane::start(CONFIGS[0]);
    plane.linux.put(Change::Rule(Rule::new(Family::V4, 32766, 254)));
    plane
}

/// Carries out a history.
fn run(steps: &[(Step, bool)]) {
    let (mut plane, mut model) = (plane(), Model::default());
    let mut are_routes_taken = true;
    plane.settle();
    plane.hold(&model, true);
    for (step, is_settled) in steps {
        plane.take(&mut model, step);
        if let Step::RoutesRefused(is_refused) = step {
            are_routes_taken = !is_refused;
        }
        // Several things may have happened when a round begins.
        if *is_settled {
            // What was refused is tried again.
            plane.now = plane.now.after(RETRY_INTERVAL);
            plane.settle();
            // What the daemon itself has changed is told, too.
            plane.settle();
            plane.hold(&model, are_routes_taken);
        }
    }
    plane.linux.refuse_routes(false);
    plane.now = plane.now.after(RETRY_INTERVAL);
    plane.settle();
    plane.settle();
    plane.hold(&model, true);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_what_is_published_guarded_and_steered_follows(
        steps in prop::collection::vec((step(), prop::bool::weighted(0.7)), 1..30)
    ) {
        run(&steps);
    }
}
