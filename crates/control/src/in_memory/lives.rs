//! Random histories of time: lifetimes, what is learnt and forgotten, what is tried again; with policies of IPv6, ports
//! that vanish, and clients that ask and command meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use dataplane::Event;
use mirror::{Address, Change, Family, Prefix, RouteKind, Rule};
use policy::Direction;
use proptest::prelude::*;
use report::{LimitSet, Request};
use rustix::process::Uid;
use serde_json::Value;
use xfrm::codec::{LifetimeConfig, SelectorInfo};

use super::{Plane, link};
use crate::confinement::Confinement;
use crate::control::{Door, Listening};
use crate::install::{
    delete_policy, delete_policy_of, delete_sa, direction, ends, limits, new_policy, new_policy_of,
    new_sa_within,
};
use crate::plan::testing::PORTS;
use crate::{RETRY_INTERVAL, TICK};

/// The priority of all policies here.
const PRIORITY: u32 = 375_423;

/// A configuration: how long path MTUs are believed, in seconds, and the rate of a limit, in Mbit/s.
fn config(path_lifetime_s: u64, rate: Option<u32>) -> String {
    let ports = PORTS[..2].iter().map(|name| format!("[[port]]\ninterface = \"{name}\"\n"));
    let limit =
        rate.map(|rate| format!("[[limit]]\nname = \"site\"\nrate = \"{rate}Mbit\"\nall = true\n"));
    let path_mtu = format!("[path_mtu]\nlifetime_s = {path_lifetime_s}\n");
    ports.chain(limit).chain([path_mtu]).collect()
}

/// How long path MTUs are believed at first, in seconds.
const PATH_LIFETIME_S: u64 = 120;

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// So many seconds pass.
    Pass(u64),
    /// An IKE daemon installs an SA with a soft and a hard lifetime in seconds, or deletes it.
    Sa(u32, Option<(u64, u64)>),
    /// An IKE daemon installs a policy, or deletes it.
    Policy(u32, bool),
    /// The same, for IPv6.
    Policy6(u32, bool),
    /// A packet wants the SAs of a tunnel.
    Acquire(u32),
    /// A router says what the path of a tunnel's SA carries.
    TooBig(u32, u32),
    /// Linux refuses culvert's routes, or takes them.
    RoutesRefused(bool),
    /// The kernel refuses barriers, or takes them.
    BarriersRefused(bool),
    /// Somebody flushes the kernel's policies.
    Flush,
    /// A client asks.
    Ask(usize),
    /// The file is another one, or a wrong one, and a client has it reloaded.
    Reload(u64, Option<u32>, bool),
    /// A client sets the rate of the limit.
    LimitSet(u32),
    /// The interface of a port is there, up or down.
    Link(u32, bool),
    /// The interface of a port goes.
    LinkGone(u32),
    /// A worker has lost a port.
    PortGone(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let lifetimes = prop::option::weighted(0.8, (1..200u64, 1..300u64));
    prop_oneof![
        5 => prop_oneof![0..3u64, 5..15u64, 30..200u64].prop_map(Step::Pass),
        5 => (0..6u32, lifetimes).prop_map(|(n, lives)| Step::Sa(n, lives)),
        3 => (0..9u32, any::<bool>()).prop_map(|(n, is_new)| Step::Policy(n, is_new)),
        3 => (0..9u32, any::<bool>()).prop_map(|(n, is_new)| Step::Policy6(n, is_new)),
        2 => (0..3u32).prop_map(Step::Acquire),
        2 => (0..3u32, 1280..1500u32).prop_map(|(tunnel, mtu)| Step::TooBig(tunnel, mtu)),
        1 => any::<bool>().prop_map(Step::RoutesRefused),
        1 => any::<bool>().prop_map(Step::BarriersRefused),
        1 => Just(Step::Flush),
        2 => (0..REQUESTS).prop_map(Step::Ask),
        2 => (prop_oneof![Just(60u64), Just(120), Just(300)], prop::option::of(1..4u32), any::<bool>())
            .prop_map(|(s, rate, is_wrong)| Step::Reload(s, rate, is_wrong)),
        1 => (1..9u32).prop_map(Step::LimitSet),
        2 => (2..4u32, any::<bool>()).prop_map(|(index, is_up)| Step::Link(index, is_up)),
        1 => (2..4u32).prop_map(Step::LinkGone),
        1 => (2..4u32).prop_map(Step::PortGone),
    ]
}

/// An SA that is there.
#[derive(Clone, Copy, Debug)]
struct Lives {
    added_ms: u64,
    hard_s: u64,
}

/// Everything that there has to be, in ms of the daemon's clock.
#[derive(Debug, Default)]
struct Model {
    sas: BTreeMap<u32, Lives>,
    policies: BTreeSet<u32>,
    policies6: BTreeSet<u32>,
    /// Tunnels whose SAs were asked for, and when first.
    asked: BTreeMap<u32, u64>,
    /// MTUs of the peers' paths, and until when each is believed.
    paths: BTreeMap<u32, (u32, u64)>,
    /// How long these are believed, in seconds.
    path_lifetime_s: u64,
    /// The rate of the limit, in Mbit/s.
    rate: Option<u32>,
    /// Reloads that were refused.
    refused: u64,
    /// When routes were taken again that were refused; nothing while they are refused.
    taken_ms: Option<u64>,
    /// Barriers were refused once: more may be blocked than is wanted, for a while.
    has_refused: bool,
    flushed_ms: Option<u64>,
    /// When a worker lost a port last, which is opened again with what is tried again.
    lost_ms: Option<u64>,
}

impl Model {
    /// Follows time: what is too old goes.
    fn pass(&mut self, now_ms: u64) {
        let before = self.sas.len();
        self.sas.retain(|_, sa| now_ms < sa.added_ms + sa.hard_s * 1000);
        if self.sas.len() != before {
            self.sas_changed();
        }
        self.paths.retain(|_, (_, until_ms)| now_ms < *until_ms);
        // A round later it is found out.
        self.flushed_ms = self.flushed_ms.filter(|at| now_ms < at + 2 * TICK.as_millis() as u64);
    }

    /// Tunnels that have SAs, or no policy, wait for none.
    fn sas_changed(&mut self) {
        let Model { sas, policies, asked, .. } = self;
        asked.retain(|tunnel, _| {
            policies.contains(&(3 * tunnel)) && !sas.contains_key(&(2 * tunnel))
        });
    }

    /// True if a tunnel has an SA to send by.
    fn has_outbound(&self, tunnel: u32) -> bool {
        self.sas.contains_key(&(2 * tunnel))
    }
}

/// Networks behind this host and behind the peer of a tunnel, by a policy's number.
fn selector6(number: u32) -> SelectorInfo {
    let (near, far) = (IpAddr::V6(near6(0)), IpAddr::V6(far6(number / 3, 0)));
    let outbound = direction(number) == 1;
    let (src, dst) = if outbound { (near, far) } else { (far, near) };
    let (src_prefix_len, dst_prefix_len) = if outbound { (48, 64) } else { (64, 48) };
    SelectorInfo {
        src: src.into(),
        dst: dst.into(),
        src_prefix_len,
        dst_prefix_len,
        family: 10,
        ..SelectorInfo::default()
    }
}

fn near6(host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, host)
}

fn far6(tunnel: u32, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, tunnel as u16, 0, 0, 0, 0, host)
}

fn network(tunnel: u32) -> Prefix {
    Prefix { addr: Ipv4Addr::from_bits(0x0a00_0000 + (tunnel << 8)).into(), len: 24 }
}

fn network6(tunnel: u32) -> Prefix {
    Prefix { addr: far6(tunnel, 0).into(), len: 64 }
}

fn address(addr: IpAddr, prefix_len: u8) -> Change {
    Change::Address(Address {
        ifindex: 3,
        addr,
        prefix_len,
        scope: 0,
        tentative: false,
        secondary: false,
        deprecated: false,
    })
}

/// A packet of UDP to a network behind a tunnel's peer.
fn packet(tunnel: u32) -> [u8; 28] {
    let mut packet = [0; 28];
    (packet[0], packet[3], packet[8], packet[9]) = (0x45, 28, 64, 17);
    packet[12..16].copy_from_slice(&[172, 16, 0, 1]);
    packet[16..20].copy_from_slice(&[10, 0, tunnel as u8, 9]);
    packet[25] = 8;
    let checksum = wire::checksum::checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// Everybody may ask.
struct Open;

impl Door for Open {
    fn admits(&self, _: Uid) -> bool {
        true
    }

    fn answers(&self, _: &Request) -> Result<(), &'static str> {
        Ok(())
    }

    fn refusal(&self) -> String {
        String::new()
    }
}

/// Requests that clients make.
const REQUESTS: usize = 10;

fn request(number: usize) -> Request {
    match number {
        0 => Request::Status,
        1 => Request::Sa { show_keys: true, spi: None },
        2 => Request::Policy,
        3 => Request::Port,
        4 => Request::Route,
        5 => Request::Stats,
        6 => Request::Drops,
        7 => Request::Events { after: 0, run: 0 },
        8 => Request::Limits,
        _ => Request::Device,
    }
}

/// A control plane that clients ask at a socket.
struct Asked {
    plane: Plane,
    _listening: Listening,
    socket: std::path::PathBuf,
}

impl Asked {
    fn start() -> Asked {
        let plane = Plane::start(&config(PATH_LIFETIME_S, None));
        plane.linux.put(Change::Rule(Rule::new(Family::V4, 32766, 254)));
        plane.linux.put(Change::Rule(Rule::new(Family::V6, 32766, 254)));
        plane.linux.put(address(Ipv4Addr::new(172, 16, 0, 1).into(), 24));
        plane.linux.put(address(near6(1).into(), 64));
        let socket = plane.config.with_file_name("open.sock");
        let control = &plane.daemon.shows.clients.control;
        let listening =
            control.listen_too("open", &socket, 0o600, Box::new(Open), Confinement::Off).unwrap();
        Asked { plane, _listening: listening, socket }
    }

    fn now_ms(&self) -> u64 {
        self.plane.now.boot_ms
    }

    /// The answer to a client's request.
    fn ask(&mut self, request: &Request) -> Value {
        let mut client = UnixStream::connect(&self.socket).unwrap();
        let line = serde_json::to_string(request).unwrap() + "\n";
        client.write_all(line.as_bytes()).unwrap();
        client.set_nonblocking(true).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            self.plane.round();
            match client.read(&mut buffer) {
                Ok(0) => return serde_json::from_slice(&answer).unwrap(),
                Ok(len) => answer.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(error) => panic!("{error}"),
            }
            assert!(Instant::now() < deadline, "no answer to {request:?}");
        }
    }

    /// The index of a tunnel's outbound policy, if there is one.
    fn index_of(&self, tunnel: u32) -> Option<u32> {
        let databases = self.plane.daemon.sa.source.databases();
        let mut policies = databases.policies().map(|policy| &policy.config);
        let is_it = |config: &&policy::PolicyConfig| {
            config.direction == Direction::Out
                && config.selector.dst.addr == network(tunnel).addr
                && config.selector.dst.len == 24
        };
        policies.find(is_it).map(|config| config.index)
    }

    /// Does what a step says, and holds the answers against the model.
    fn take(&mut self, model: &mut Model, step: &Step) {
        match *step {
            Step::Pass(seconds) => {
                self.plane.now = self.plane.now.after(Duration::from_secs(seconds));
            }
            Step::Sa(n, lives) => {
                let request = match lives {
                    Some((soft_add_s, hard_add_s)) => {
                        new_sa_within(n, LifetimeConfig { soft_add_s, hard_add_s, ..limits(n) })
                    }
                    None => delete_sa(n),
                };
                let errno = self.plane.request(&request);
                model.pass(self.now_ms());
                let is_changed = match lives {
                    Some(_) => !model.sas.contains_key(&n),
                    None => model.sas.remove(&n).is_some(),
                };
                assert_eq!(errno == 0, is_changed, "errno {errno}: {model:?}");
                if let (Some((_, hard_s)), true) = (lives, is_changed) {
                    model.sas.insert(n, Lives { added_ms: self.now_ms(), hard_s });
                }
                if is_changed {
                    model.sas_changed();
                }
            }
            Step::Policy(n, is_new) => {
                let request = if is_new { new_policy(n) } else { delete_policy(n) };
                let errno = self.plane.request(&request);
                let is_changed = match is_new {
                    true => model.policies.insert(n),
                    false => model.policies.remove(&n),
                };
                if is_changed && n.is_multiple_of(3) {
                    model.asked.remove(&(n / 3));
                }
                assert_eq!(errno == 0, is_changed, "errno {errno}");
            }
            Step::Policy6(n, is_new) => {
                let request = match is_new {
                    true => new_policy_of(n, selector6(n)),
                    false => delete_policy_of(n, selector6(n)),
                };
                let errno = self.plane.request(&request);
                let is_changed = match is_new {
                    true => model.policies6.insert(n),
                    false => model.policies6.remove(&n),
                };
                assert_eq!(errno == 0, is_changed, "errno {errno}");
            }
            Step::Acquire(tunnel) => {
                let Some(policy) = self.index_of(tunnel) else { return };
                let flow = wire::parse_ip(&packet(tunnel)).unwrap();
                assert!(self.plane.events.send(Event::Acquire { policy, cpu: None, flow }));
                self.plane.round();
                model.pass(self.now_ms());
                let now_ms = self.now_ms();
                model.asked.entry(tunnel).or_insert(now_ms);
            }
            Step::TooBig(tunnel, mtu) => {
                let databases = self.plane.daemon.sa.source.databases();
                let (_, dst, spi) = ends(2 * tunnel);
                let entry = databases.sas().find(|sa| sa.config.params.spi == spi);
                let Some(sa) = entry.map(|entry| entry.config.id()) else { return };
                assert!(self.plane.events.send(Event::TooBig { sa, dst, mtu }));
                self.plane.round();
                model.pass(self.now_ms());
                let until_ms = self.now_ms() + model.path_lifetime_s * 1000;
                if !model.has_outbound(tunnel) {
                    return;
                }
                let known = model.paths.entry(tunnel).or_insert((mtu, until_ms));
                if mtu <= known.0 {
                    *known = (mtu, until_ms);
                }
            }
            Step::RoutesRefused(is_refused) => {
                self.plane.linux.refuse_routes(is_refused);
                model.taken_ms = match is_refused {
                    true => None,
                    false => model.taken_ms.or(Some(self.now_ms())),
                };
            }
            Step::BarriersRefused(is_refused) => {
                self.plane.kernel.refuse(PRIORITY, is_refused);
                model.has_refused |= is_refused;
            }
            Step::Flush => {
                self.plane.kernel.flush();
                model.flushed_ms = Some(self.now_ms());
            }
            Step::Ask(number) => self.hold_answer(model, &request(number)),
            Step::Reload(path_lifetime_s, rate, is_wrong) => {
                let text = config(path_lifetime_s, rate) + if is_wrong { "[gard]\n" } else { "" };
                std::fs::write(&self.plane.config, text).unwrap();
                let answer = self.ask(&Request::Reload);
                model.pass(self.now_ms());
                assert_eq!(answer["reloaded"], !is_wrong, "{answer}");
                if is_wrong {
                    assert!(answer["problems"][0]["key"].as_str() == Some("gard"), "{answer}");
                    model.refused += 1;
                    return;
                }
                if model.path_lifetime_s != path_lifetime_s {
                    // What was learnt is forgotten with what it was learnt by.
                    model.paths.clear();
                }
                (model.path_lifetime_s, model.rate) = (path_lifetime_s, rate);
            }
            Step::LimitSet(rate) => {
                let set = LimitSet {
                    name: "site".into(),
                    rate: Some(format!("{rate}Mbit")),
                    ..LimitSet::default()
                };
                let answer = self.ask(&Request::LimitSet(set));
                model.pass(self.now_ms());
                assert_eq!(answer.is_null(), model.rate.is_some(), "{answer}");
                model.rate = model.rate.map(|_| rate);
            }
            Step::Link(index, is_up) => {
                let name = PORTS[index as usize - 2];
                self.plane.linux.put(Change::Link(link(index, name, is_up)));
            }
            Step::LinkGone(index) => {
                self.plane.linux.remove(|change| match change {
                    Change::Link(link) => link.index == index,
                    Change::Address(address) => address.ifindex == index,
                    _ => false,
                });
            }
            Step::PortGone(ifindex) => {
                assert!(self.plane.events.send(Event::PortGone { ifindex }));
                model.lost_ms = Some(self.now_ms());
            }
        }
    }

    /// A client is told what there is.
    fn hold_answer(&mut self, model: &mut Model, request: &Request) {
        let answer = self.ask(request);
        model.pass(self.now_ms());
        let policies = model.policies.len() + model.policies6.len();
        match request {
            Request::Status => {
                assert_eq!(answer["sas"], model.sas.len());
                assert_eq!(answer["policies"], policies);
                assert_eq!(answer["configuration"]["refused"], model.refused, "{answer}");
            }
            Request::Sa { .. } => {
                let rows = answer.as_array().unwrap();
                assert_eq!(rows.len(), model.sas.len());
                for row in rows {
                    assert!(row["keys"]["cipher"].as_str().is_some_and(|key| key.len() == 32));
                    let left_s = row["until_expiry"]["s"].as_u64().unwrap();
                    let age_s = row["age_s"].as_u64().unwrap();
                    let is_it = |sa: &Lives| sa.hard_s.saturating_sub(age_s) == left_s;
                    assert!(model.sas.values().any(is_it), "{row}: {model:?}");
                }
            }
            Request::Policy => assert_eq!(answer.as_array().unwrap().len(), policies),
            _ => assert!(answer.is_array() || answer.is_object(), "{answer}"),
        }
    }

    /// Everything is as it has to be.
    fn hold(&mut self, model: &mut Model) {
        self.plane.settle();
        // What the daemon itself has changed is told, too.
        self.plane.settle();
        model.pass(self.now_ms());
        self.hold_sas(model);
        if model.flushed_ms.is_none() {
            self.hold_guard(model);
        }
        self.hold_asked(model);
        let long_ago = self.now_ms().saturating_sub((RETRY_INTERVAL + TICK).as_millis() as u64);
        if model.lost_ms.is_none_or(|at| at <= long_ago) {
            self.hold_ports();
        }
        let limits = self.plane.daemon.crew.rate_limits.report(0);
        let rates: Vec<&str> = limits.iter().map(|limit| limit.buckets[0].rate.as_str()).collect();
        let wanted = model.rate.map(|rate| format!("{rate}Mbit"));
        assert_eq!(rates, wanted.as_deref().into_iter().collect::<Vec<_>>(), "{model:?}");
        let tables = &self.plane.daemon.crew.tables;
        let known = tables.path_mtus.load();
        for tunnel in 0..3 {
            let (_, dst, _) = ends(2 * tunnel);
            let wanted = model.paths.get(&tunnel).map_or(9000, |(mtu, _)| *mtu as usize);
            assert_eq!(known.of(dst, 9000), wanted, "the path to {dst}");
        }
        let long_ago = self.now_ms().saturating_sub(RETRY_INTERVAL.as_millis() as u64);
        if model.taken_ms.is_some_and(|at| at <= long_ago) {
            self.hold_routes(model);
        }
    }

    /// Ports whose interfaces are up carry packets.
    fn hold_ports(&self) {
        let there = self.plane.linux.there();
        let is_up = |name: &str| {
            there.iter().any(|c| matches!(c, Change::Link(link) if link.name == name && link.up))
        };
        let programs = self.plane.hardware.taken();
        let carrying: BTreeSet<&str> =
            programs.keys().map(String::as_str).filter(|name| is_up(name)).collect();
        let wanted = PORTS[..2].iter().copied().filter(|name| is_up(name)).collect();
        assert_eq!(carrying, wanted, "open ports");
        assert!(programs.values().all(|program| program.is_attached));
    }

    /// SAs live as long as their owner wants.
    fn hold_sas(&self, model: &Model) {
        let databases = self.plane.daemon.sa.source.databases();
        assert_eq!(databases.sa_count(), model.sas.len(), "{model:?}");
        for n in model.sas.keys() {
            let (_, _, spi) = ends(*n);
            assert!(databases.sas().any(|sa| sa.config.params.spi == spi), "SA {n}: {model:?}");
        }
    }

    /// Nothing passes in clear that a policy protects.
    fn hold_guard(&self, model: &Model) {
        for n in 0..9 {
            let (near, far) = (Ipv4Addr::new(172, 16, 0, 1), network(n / 3).addr);
            let ends = [
                (&model.policies, IpAddr::V4(near), far),
                (&model.policies6, near6(1).into(), far6(n / 3, 9).into()),
            ];
            for (policies, near, far) in ends {
                let (way, src, dst) = match direction(n) {
                    1 => (Direction::Out, near, far),
                    0 => (Direction::In, far, near),
                    _ => (Direction::Forward, far, near),
                };
                let passes = self.plane.kernel.passes(way, src, dst);
                let is_wanted = policies.contains(&n);
                assert!(!(is_wanted && passes), "{way:?} to {dst} is open: {model:?}");
                if !is_wanted && !model.has_refused {
                    assert!(passes, "{way:?} to {dst} is blocked: {model:?}");
                }
            }
        }
    }

    /// Who waits for SAs is known, and for how long.
    fn hold_asked(&self, model: &Model) {
        let now = self.plane.now;
        let asked: BTreeMap<u32, Duration> = self.plane.daemon.shows.asked.iter(now).collect();
        for tunnel in 0..3 {
            let Some(index) = self.index_of(tunnel) else { continue };
            let ago_ms = asked.get(&index).map(|ago| ago.as_millis() as u64);
            let wanted = model.asked.get(&tunnel).map(|since_ms| self.now_ms() - since_ms);
            assert_eq!(ago_ms, wanted, "tunnel {tunnel}: {model:?}");
        }
    }

    /// Linux leads its own packets here for those policies that protect what leaves.
    fn hold_routes(&self, model: &Model) {
        let table = self.plane.daemon.config.tun.table;
        let own: BTreeSet<Prefix> = self
            .plane
            .linux
            .there()
            .iter()
            .filter_map(|change| match change {
                Change::Route(r) if r.table == table && r.kind != RouteKind::Throw => Some(r.dst),
                _ => None,
            })
            .collect();
        let outbound = |policies: &BTreeSet<u32>| {
            policies.iter().filter(|n| n.is_multiple_of(3)).map(|n| n / 3).collect::<Vec<_>>()
        };
        let v4 = outbound(&model.policies).into_iter().map(network);
        let v6 = outbound(&model.policies6).into_iter().map(network6);
        assert_eq!(own, v4.chain(v6).collect(), "routes");
    }
}

/// Carries out a history.
fn run(steps: &[Step]) {
    let mut asked = Asked::start();
    let mut model =
        Model { taken_ms: Some(0), path_lifetime_s: PATH_LIFETIME_S, ..Model::default() };
    asked.hold(&mut model);
    for step in steps {
        asked.take(&mut model, step);
        asked.hold(&mut model);
    }
    // Whatever was refused is mended by time alone.
    asked.take(&mut model, &Step::RoutesRefused(false));
    asked.take(&mut model, &Step::BarriersRefused(false));
    for _ in 0..3 {
        asked.take(&mut model, &Step::Pass(RETRY_INTERVAL.as_secs()));
        asked.hold(&mut model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn as_time_passes_what_has_to_go_goes_and_what_was_refused_is_mended(
        steps in prop::collection::vec(step(), 1..40)
    ) {
        run(&steps);
    }
}
