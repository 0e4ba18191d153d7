//! Random histories, held against a model.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use config::{Config, SidConfig, ViciConfig};
use dataplane::Event;
use forward::table;
use mirror::{
    Address, Change, Family, Link, Neighbour, NeighbourState, NextHop, Prefix, Route, RouteKind,
    Rule,
};
use policy::Direction;
use proptest::prelude::*;
use wire::{EtherType, VlanTags};

use super::hardware::Taken;
use super::{PRIVATE, Plane, link};
use crate::install::{delete_policy, delete_sa, new_policy, new_sa};
use crate::plan::machine::Look as _;
use crate::plan::plan;
use crate::plan::running::Running;
use crate::plan::steps::{self, Change as StepChange};
use crate::plan::testing::{self, PORTS};
use crate::services;
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
    /// An interface goes, with its VLANs, addresses, routes and neighbours.
    LinkGone(u32),
    /// A VLAN of an interface is there, up or down; or it goes.
    Vlan(u32, u16, Option<bool>),
    /// An address of this host comes or goes.
    Address(u8, bool),
    /// Linux has a route to a network, by an interface, or none.
    Route(u8, Option<u32>),
    /// A neighbour is known, or not any more.
    Neighbour(u8, bool),
    /// A configuration is reloaded, while something does not work.
    Reload(String, Option<Fault>),
    /// A worker has lost a port.
    PortGone(u32),
    /// Reading Linux's tables fails once.
    ReadingFails,
    /// Linux refuses culvert's routes, or takes them.
    RoutesRefused(bool),
    /// Programs of ports refuse changes of their tables, or take them.
    ProgramsRefused(bool),
    /// The kernel refuses barriers, or takes them.
    BarriersRefused(bool),
    /// Somebody flushes the kernel's policies.
    Flush,
    /// Somebody deletes a route of culvert's.
    OwnRouteGone(u32),
}

/// A thing that does not work during a reload.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A tunnel interface cannot be made.
    Tunnel(u8),
    /// The interface of a memif port cannot be made.
    Memif(u8),
    /// There is no thread to ask charon.
    Threads,
    /// No worker gets an engine.
    Engines,
    /// A driver refuses a port.
    Port(usize),
    /// The file is wrong.
    File,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        (0..3_u8).prop_map(Fault::Tunnel),
        (0..2_u8).prop_map(Fault::Memif),
        Just(Fault::Threads),
        Just(Fault::Engines),
        (0..PORTS.len()).prop_map(Fault::Port),
        Just(Fault::File),
    ]
}

/// The guarded prefixes of a configuration are about all networks behind peers.
const GUARDED: policy::Prefix =
    policy::Prefix { addr: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), len: 22 };

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12u32, any::<bool>()).prop_map(|(n, is_new)| Step::Policy(n, is_new)),
        2 => (0..6u32, any::<bool>()).prop_map(|(n, is_new)| Step::Sa(n, is_new)),
        3 => (2..6u32, any::<bool>()).prop_map(|(index, is_up)| Step::Link(index, is_up)),
        1 => (2..6u32).prop_map(Step::LinkGone),
        2 => (2..6u32, 0..2u16, prop::option::weighted(0.8, any::<bool>()))
            .prop_map(|(index, n, up)| Step::Vlan(index, n, up)),
        3 => (0..4u8, any::<bool>()).prop_map(|(n, is_new)| Step::Address(n, is_new)),
        3 => (0..4u8, prop::option::of(2..6u32)).prop_map(|(n, by)| Step::Route(n, by)),
        2 => (0..4u8, any::<bool>()).prop_map(|(n, is_new)| Step::Neighbour(n, is_new)),
        4 => (testing::text(), prop::option::weighted(0.5, fault()))
            .prop_map(|(text, fault)| Step::Reload(text, fault)),
        1 => (2..6u32).prop_map(Step::PortGone),
        1 => Just(Step::ReadingFails),
        1 => any::<bool>().prop_map(Step::RoutesRefused),
        1 => any::<bool>().prop_map(Step::ProgramsRefused),
        1 => any::<bool>().prop_map(Step::BarriersRefused),
        1 => Just(Step::Flush),
        1 => (0..4u32).prop_map(Step::OwnRouteGone),
    ]
}

/// State that there has to be.
#[derive(Debug)]
struct Model {
    policies: BTreeSet<u32>,
    sas: BTreeSet<u32>,
    config: Config,
    /// Barriers were refused once: more may be blocked than is wanted, for a while.
    has_refused: bool,
    are_programs_refused: bool,
}

impl Model {
    fn is_all_guarded(&self) -> bool {
        self.config.guard.prefixes.iter().any(|prefix| prefix.0 == GUARDED)
    }
}

/// All that a reload can change, and that a refused one must not.
#[derive(Debug, PartialEq)]
struct Had {
    running: Running,
    made: BTreeSet<String>,
    open: BTreeSet<String>,
    vici: ViciConfig,
    limits: Vec<String>,
    marks: BTreeSet<u32>,
    /// Where segments of this host stand.
    sids: Vec<String>,
    applications: bool,
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

/// A VLAN of an interface.
fn vlan(index: u32, n: u16, is_up: bool) -> Link {
    let vlan = mirror::Vlan { tpid: 0x8100, id: 100 + n, egress_qos: BTreeMap::new() };
    Link {
        lower: Some(index),
        vlan: Some(vlan),
        ..link(30 + 2 * index + u32::from(n), &format!("{}.{n}", PORTS[index as usize - 2]), is_up)
    }
}

fn neighbour(n: u8) -> Neighbour {
    Neighbour {
        ifindex: 2 + u32::from(n),
        ip: Ipv4Addr::new(172, 16, n, 99).into(),
        mac: Some([2, 0, 0, 0, 1, n]),
        state: NeighbourState::Reachable,
        router: false,
        far_end: None,
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
                self.linux.put(Change::Link(link(index, PORTS[index as usize - 2], is_up)));
            }
            Step::LinkGone(index) => {
                self.linux.remove(|change| match change {
                    Change::Link(link) => link.index == index || link.lower == Some(index),
                    Change::Address(address) => address.ifindex == index,
                    Change::Neighbour(neighbour) => neighbour.ifindex == index,
                    Change::Route(route) => route.next_hops.iter().any(|hop| hop.ifindex == index),
                    _ => false,
                });
            }
            Step::Vlan(index, n, Some(is_up)) if self.has_link(index) => {
                self.linux.put(Change::Link(vlan(index, n, is_up)));
            }
            Step::Vlan(index, n, _) => {
                let gone = vlan(index, n, true).index;
                self.linux.remove(|c| matches!(c, Change::Link(link) if link.index == gone));
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
            Step::Reload(ref text, fault) => self.reload(model, text, fault),
            Step::PortGone(ifindex) => assert!(self.events.send(Event::PortGone { ifindex })),
            Step::ReadingFails => self.linux.fail_once(),
            Step::RoutesRefused(is_refused) => self.linux.refuse_routes(is_refused),
            Step::ProgramsRefused(is_refused) => {
                self.hardware.refuse_programs(is_refused);
                model.are_programs_refused = is_refused;
            }
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

    /// Reloads a configuration. A fault that is met takes the daemon back to what it had.
    fn reload(&mut self, model: &mut Model, text: &str, fault: Option<Fault>) {
        let wanted = Config::parse(text, &self.config).unwrap();
        let running = self.daemon.running();
        let before = self.had();
        let planned = plan(&running, &wanted, &self.hardware.look(&running, &wanted));
        let steps = planned.as_ref().map(|plan| plan.steps.clone()).unwrap_or_default();
        let is_met = fault.is_some_and(|fault| self.break_something(fault, &steps));
        let is_wrong = matches!(fault, Some(Fault::File));
        let text = if is_wrong { format!("{text}[unknown]\n") } else { text.to_owned() };
        std::fs::write(&self.config, text).unwrap();

        let reloaded = self.daemon.reload(self.now);
        self.hardware.mend();
        let is_refused = is_wrong || planned.is_err();
        assert_eq!(!reloaded.problems.is_empty(), is_refused, "{reloaded:?}");
        assert_eq!(reloaded.failed.is_some(), is_met && !is_refused, "{fault:?}: {reloaded:?}");
        assert_eq!(reloaded.reloaded, !is_met && !is_refused, "{reloaded:?}");
        match planned {
            Ok(plan) if reloaded.reloaded => {
                assert_eq!(reloaded.waits_for_restart, plan.waits_for_restart);
                model.config = plan.config;
                self.hold_config(model);
            }
            _ => assert_eq!(self.had(), before, "{fault:?} has left something"),
        }
    }

    /// Has something not work; true if one of the steps needs it.
    fn break_something(&self, fault: Fault, steps: &[steps::Step]) -> bool {
        // As they were they can be opened again.
        let running = self.daemon.running();
        let new = steps.iter().find_map(|step| match (fault, step) {
            (Fault::Tunnel(n), steps::Step::OpenTunnel(config)) => {
                let is_it = config.interface == format!("ipsec{n}");
                let is_new = !running.tunnels.contains(config);
                (is_it && is_new).then(|| self.hardware.refuse_tunnel(config))
            }
            (Fault::Memif(n), steps::Step::OpenMemif(config)) => {
                let is_it = config.interface == format!("app{n}");
                let is_new = !running.memifs.contains(config);
                (is_it && is_new).then(|| self.hardware.refuse_memif(config))
            }
            (Fault::Port(n), steps::Step::OpenPort(config)) => {
                let is_it = config.interface == PORTS[n];
                let is_new = !running.ports.iter().any(|port| port.config == *config);
                (is_it && is_new).then(|| self.hardware.refuse_port(config))
            }
            _ => None,
        });
        match fault {
            Fault::Tunnel(_) | Fault::Memif(_) => new.is_some(),
            Fault::Port(n) => new.is_some() && self.is_up(PORTS[n]),
            Fault::Threads => {
                self.hardware.set_threads(false);
                let asks = |step: &steps::Step| matches!(step, steps::Step::Vici(c) if c.to.socket.is_some());
                steps.iter().any(asks)
            }
            Fault::Engines => {
                self.hardware.set_engines(false);
                steps.iter().any(|step| match step {
                    steps::Step::Workers(StepChange { from, to }) => {
                        to.workers.len() > from.workers.len() || !to.crypto.is_empty()
                    }
                    _ => false,
                })
            }
            Fault::File => false,
        }
    }

    /// True if an interface is there and up, as far as the daemon was told. One that is down is not opened again.
    fn is_up(&self, name: &str) -> bool {
        let snapshot = self.daemon.linux.observer.snapshot();
        snapshot.link_by_name(name).is_some_and(|link| link.up)
    }

    /// All that a reload can change, in no order.
    fn had(&self) -> Had {
        let mut running = self.daemon.running();
        running.tunnels.sort_by(|a, b| a.interface.cmp(&b.interface));
        running.memifs.sort_by(|a, b| a.interface.cmp(&b.interface));
        running.ports.sort_by(|a, b| a.config.interface.cmp(&b.config.interface));
        // Of a port that is opened again.
        running.ports.iter_mut().for_each(|port| port.ready = None);
        let limits = self.daemon.crew.rate_limits.report(0);
        Had {
            running,
            made: self.hardware.made(),
            open: self.hardware.taken().into_keys().filter(|name| self.is_up(name)).collect(),
            vici: self.daemon.shows.vici.config().clone(),
            limits: limits.into_iter().map(|limit| limit.name).collect(),
            marks: self.daemon.crew.ports.steering().marks.clone(),
            sids: self
                .daemon
                .linux
                .reflection
                .segments_seen()
                .configured_at()
                .map(|at| format!("{at:?}"))
                .collect(),
            applications: self.daemon.crew.recognition.report(0).enabled,
        }
    }

    /// The daemon has what its configuration wants.
    fn hold_config(&self, model: &Model) {
        let (config, had) = (&model.config, self.had());
        assert_eq!(self.daemon.config, *config);
        let names = |names: Vec<&String>| names.into_iter().cloned().collect::<BTreeSet<_>>();
        let tunnels: Vec<_> = config.tunnels.iter().map(|tunnel| &tunnel.interface).collect();
        let memifs: Vec<_> = config.memifs.iter().map(|memif| &memif.interface).collect();
        assert_eq!(had.made, names([tunnels, memifs].concat()), "interfaces of culvert's own");
        assert_eq!(had.running.tunnels.len(), config.tunnels.len());
        assert!(config.tunnels.iter().all(|tunnel| had.running.tunnels.contains(tunnel)));
        assert!(config.memifs.iter().all(|memif| had.running.memifs.contains(memif)));
        let ports: Vec<_> = self.daemon.running().ports.into_iter().map(|p| p.config).collect();
        assert_eq!(ports, config.ports, "ports, in the order of the file");
        assert_eq!(had.vici, config.vici);
        assert_eq!(had.marks, config.marks.iter().map(|rule| rule.mark).collect());
        assert_eq!(
            had.limits,
            config.limits.iter().map(|limit| limit.name.clone()).collect::<Vec<_>>()
        );
        let place = |sid: &SidConfig| Prefix { addr: sid.prefix.0.addr, len: sid.prefix.0.len };
        let sids = config.sids.iter().map(|sid| format!("{:?}", (table::LOCAL, place(sid))));
        assert_eq!(had.sids, sids.collect::<Vec<_>>());
        assert_eq!(had.applications, config.applications.enabled);
        let topology = self.daemon.crew.tables.topology.load();
        assert_eq!(topology.applications.is_some(), config.applications.enabled);
        let snapshot = self.daemon.linux.observer.snapshot();
        let gtpu = services::of(snapshot, &config.gtpu);
        assert_eq!(format!("{:?}", topology.gtpu), format!("{gtpu:?}"));
        let workers = self.daemon.crew.workers.count();
        if let Some(wanted) = config.worker.cpus() {
            assert_eq!(workers, wanted.count());
        }
        assert!(self.daemon.crew.private.count() >= workers);
    }

    /// Each port whose interface is up has a program, which takes what all have to take.
    fn hold_ports(&self, model: &Model) {
        let there = self.linux.there();
        let is_up = |name: &str| {
            there.iter().any(|c| matches!(c, Change::Link(link) if link.name == name && link.up))
        };
        let open = model.config.ports.iter().map(|port| port.interface.clone());
        let open: BTreeSet<String> = open.filter(|name| is_up(name)).collect();
        let programs = self.hardware.taken();
        // Of AF_XDP sockets, a program outlasts its interface being down.
        let carrying: BTreeSet<String> =
            programs.keys().filter(|name| is_up(name)).cloned().collect();
        assert_eq!(carrying, open, "open ports");
        let steering = self.daemon.crew.ports.steering();
        let protected = steering.protected.keys().map(|prefix| format!("{prefix:?}")).collect();
        let local = steering.local.iter().copied().collect();
        let taken = Taken { protected, local, is_attached: true, ..Taken::default() };
        for (name, program) in programs {
            let port = there.iter().find_map(|change| match change {
                Change::Link(link) if link.name == name => Some(link.index),
                _ => None,
            });
            let vlans = there.iter().filter_map(|change| match change {
                Change::Link(link) if link.up && link.lower.is_some() && link.lower == port => {
                    let vlan = link.vlan.as_ref()?;
                    let tags = VlanTags::NONE.with(EtherType(vlan.tpid), vlan.id)?;
                    Some(tags.to_string())
                }
                _ => None,
            });
            let taken = Taken { vlans: vlans.collect(), ..taken.clone() };
            assert_eq!(program, taken, "{name}");
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
                let is_wanted = model.policies.contains(&n) || model.is_all_guarded();
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
        let guarded = model.config.guard.prefixes.len();
        assert_eq!(topology.guarded.len(), guarded, "guarded prefixes");
        self.hold_config(model);
        if !model.are_programs_refused {
            self.hold_ports(model);
        }

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
        for sid in &model.config.sids {
            let policy::Prefix { addr, len } = sid.prefix.0;
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
    let plane = Plane::start("");
    plane.linux.put(Change::Rule(Rule::new(Family::V4, 32766, 254)));
    plane
}

/// Carries out a history.
fn run(steps: &[(Step, bool)]) {
    let mut plane = plane();
    let (policies, sas, config) = (BTreeSet::new(), BTreeSet::new(), plane.daemon.config.clone());
    let mut model =
        Model { policies, sas, config, has_refused: false, are_programs_refused: false };
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
    plane.take(&mut model, &Step::ProgramsRefused(false));
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

#[test]
fn what_stands_for_several_refused_barriers_outlasts_a_reload_and_the_first_of_them() {
    let reload = "[tun]\nmtu = 1500\n[worker]\ncrypto_cpus = []\n".to_owned();
    let steps = [
        Step::BarriersRefused(true),
        Step::Policy(1, true),
        Step::Policy(7, true),
        // The guard is set as a whole.
        Step::Reload(reload, None),
        Step::Policy(7, false),
    ];
    run(&steps.map(|step| (step, false)));
}

#[test]
fn a_tunnel_interface_that_cannot_be_opened_again_stays() {
    let tunnel = |mtu: u32| format!("[[tunnel]]\ninterface = \"ipsec0\"\nif_id = 1\nmtu = {mtu}\n");
    let mut plane = Plane::start(&tunnel(1400));
    plane.settle();
    std::fs::write(&plane.config, tunnel(1300)).unwrap();
    plane.hardware.refuse("ipsec0");
    let reloaded = plane.daemon.reload(plane.now);
    let why = reloaded.failed.unwrap();
    assert!(why.contains("ipsec0") && why.contains("TUNSETIFF"), "{why}");
    // Nobody reads it, but its routes are there.
    assert_eq!(plane.daemon.running().tunnels, []);
    assert!(plane.hardware.made().contains("ipsec0"));
    // The next reload opens it.
    plane.hardware.mend();
    assert!(plane.daemon.reload(plane.now).reloaded);
    assert_eq!(plane.daemon.running().tunnels[0].mtu, 1300);
}
