//! Plans of random configurations, carried out on a model.

use std::path::Path;

use config::{Config, MemifConfig, PortConfig, TunnelConfig};
use proptest::prelude::*;
use steer::device::Device;

use super::testing::{self, PORTS};
use super::*;
use crate::limits::Memory;

pub(super) fn config(text: &str) -> Config {
    Config::parse(text, Path::new("culvert.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(super) fn device(name: &str, driver: &str, rx_queues: u32) -> (String, Device) {
    let device = Device {
        name: name.into(),
        ifindex: 7,
        driver: driver.into(),
        mtu: 1500,
        rx_queues,
        tx_queues: rx_queues,
        tx_vlan_offload: false,
        rx_vlan_offload: false,
        tells_vlan_tags: false,
    };
    (name.into(), device)
}

/// Four cores, enough memory, and a port of one queue and one of eight.
pub(super) fn machine() -> Machine {
    let devices = [device("wan", "veth", 1), device("lan", "mlx5_core", 8)];
    Machine {
        cores: vec![0, 1, 2, 5],
        devices: devices.into_iter().collect(),
        names: ["lo", "wan", "lan", "eth0"].map(str::to_owned).into(),
        memory: Memory { available: Some(64 << 30), ..Memory::default() },
        ..Machine::default()
    }
}

/// A daemon that has started with a configuration, and has opened all of its ports.
pub(super) fn running(config: &Config, machine: &Machine) -> Running {
    let mut model = Model::nothing(config);
    model.follow(plan(&Running::nothing(), config, machine).unwrap(), machine);
    model.running
}

/// A daemon that does what plans say, and nothing else.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    running: Running,
    /// The configuration, as far as steps have led to it.
    values: Config,
}

impl Model {
    fn nothing(wanted: &Config) -> Model {
        Model { running: Running::nothing(), values: wanted.before_start() }
    }

    fn follow(&mut self, plan: Plan, machine: &Machine) {
        plan.steps.iter().for_each(|step| self.take(step));
        self.open(&plan.config, machine);
        self.running.config = Some(plan.config);
    }

    /// Ports open when all steps are done.
    fn open(&mut self, config: &Config, machine: &Machine) {
        let ready = ready_frames(config.worker.frames, machine.queues_in_all(config));
        for port in &mut self.running.ports {
            let is_there = machine.devices.contains_key(&port.config.interface);
            let is_xdp = port.config.kind != config::Sockets::Packet;
            port.ready = port.ready.or(ready).filter(|_| is_there && is_xdp);
        }
    }

    /// Does a step, which has to be possible.
    fn take(&mut self, step: &Step) {
        let Model { running, values } = self;
        if matches!(step, Step::OpenTunnel(_) | Step::OpenMemif(_) | Step::OpenPort(_)) {
            assert!(!running.layout.workers.is_empty(), "nobody gets what is opened: {step}");
        }
        match step {
            Step::CloseTunnel(config) => take_out(&mut running.tunnels, config),
            Step::OpenTunnel(config) => {
                let is_in_the_way =
                    |t: &TunnelConfig| t.interface == config.interface || t.if_id == config.if_id;
                assert!(!running.tunnels.iter().any(is_in_the_way), "{step} with {running:?}");
                running.tunnels.push(config.clone());
            }
            Step::CloseMemif(config) => take_out(&mut running.memifs, config),
            Step::OpenMemif(config) => {
                let is_in_the_way =
                    |m: &MemifConfig| m.interface == config.interface || m.socket == config.socket;
                assert!(!running.memifs.iter().any(is_in_the_way), "{step} with {running:?}");
                running.memifs.push(config.clone());
            }
            Step::ClosePort(config) => {
                let at = running.ports.iter().position(|port| port.config == *config);
                running.ports.remove(at.unwrap_or_else(|| panic!("{step} with {running:?}")));
            }
            Step::OpenPort(config) => {
                let names = running.ports.iter().map(|port| &port.config.interface);
                let names: Vec<_> =
                    names.chain(running.memifs.iter().map(|m| &m.interface)).collect();
                assert!(!names.contains(&&config.interface), "{step} with {running:?}");
                let (config, ready) = (config.clone(), None);
                running.ports.push(RunningPort { config, ready, has_failed: false });
            }
            Step::Workers(change) => set(&mut running.layout, change),
            Step::Vici(change) => set(&mut values.vici, change),
            Step::Paths(change) => {
                let mut all =
                    (values.path_options.clone(), values.paths.clone(), values.steers.clone());
                set(&mut all, change);
                (values.path_options, values.paths, values.steers) = all;
            }
            Step::Bfd(change) => set(&mut values.bfd, change),
            Step::Marks(change) => set(&mut values.marks, change),
            Step::Vlans(change) => set(&mut values.vlans, change),
            Step::Gtpu(change) => set(&mut values.gtpu, change),
            Step::Limits(change) => set(&mut values.limits, change),
            Step::Applications(change) => {
                let mut both = (values.applications.clone(), values.application_list.clone());
                set(&mut both, change);
                (values.applications, values.application_list) = both;
            }
            Step::Srv6(change) => {
                let mut both = (values.srv6.clone(), values.sids.clone());
                set(&mut both, change);
                (values.srv6, values.sids) = both;
            }
            Step::Overlay(change) => set(&mut values.overlay, change),
            Step::Guard(change) => set(&mut values.guard, change),
            Step::PathMtu(change) => set(&mut values.path_mtu, change),
        }
    }

    /// Has what a configuration has, whatever the order.
    fn hold(&self, wanted: &Config) {
        let has = &self.values;
        assert_eq!(
            (&has.vici, &has.marks, &has.vlans, &has.gtpu, &has.limits),
            (&wanted.vici, &wanted.marks, &wanted.vlans, &wanted.gtpu, &wanted.limits)
        );
        assert_eq!(
            (&has.srv6, &has.sids, &has.overlay, &has.guard, &has.path_mtu),
            (&wanted.srv6, &wanted.sids, &wanted.overlay, &wanted.guard, &wanted.path_mtu)
        );
        assert_eq!(
            (&has.applications, &has.application_list),
            (&wanted.applications, &wanted.application_list)
        );
        let ports: Vec<_> = self.running.ports.iter().map(|port| port.config.clone()).collect();
        hold_all(&self.running.tunnels, &wanted.tunnels);
        hold_all(&self.running.memifs, &wanted.memifs);
        hold_all(&ports, &wanted.ports);
    }

    /// In no order: ports that were closed and opened again come last.
    fn sorted(&self) -> Model {
        let mut model = self.clone();
        model.running.tunnels.sort_by(|a, b| a.interface.cmp(&b.interface));
        model.running.memifs.sort_by(|a, b| a.interface.cmp(&b.interface));
        model.running.ports.sort_by(|a, b| a.config.interface.cmp(&b.config.interface));
        model.running.ports.iter_mut().for_each(|port| port.ready = None);
        model
    }
}

fn hold_all<T: PartialEq + std::fmt::Debug>(has: &[T], wanted: &[T]) {
    let is_same = has.len() == wanted.len() && wanted.iter().all(|one| has.contains(one));
    assert!(is_same, "{has:?} where {wanted:?} is wanted");
}

fn take_out<T: PartialEq + std::fmt::Debug>(from: &mut Vec<T>, one: &T) {
    let at = from.iter().position(|other| other == one);
    from.remove(at.unwrap_or_else(|| panic!("{one:?} is not in {from:?}")));
}

fn set<T: Clone + PartialEq + std::fmt::Debug>(value: &mut T, change: &Change<T>) {
    assert_eq!(*value, change.from);
    assert_ne!(change.from, change.to, "a step without a change");
    value.clone_from(&change.to);
}

/// A machine with those of the ports that are in a set, with so many queues each.
fn with_ports(there: [bool; PORTS.len()], queues: u32) -> Machine {
    let there = PORTS.iter().zip(there).filter(|(_, is_there)| *is_there);
    let devices = there.map(|(name, _)| device(name, "veth", queues)).collect();
    Machine { devices, ..machine() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn plans_lead_to_what_is_wanted_and_back(
        texts in prop::array::uniform2(testing::text()),
        there in any::<[bool; PORTS.len()]>(),
        queues in 1..40_u32,
        stop in any::<prop::sample::Index>(),
    ) {
        let machine = with_ports(there, queues);
        let [a, b] = texts.each_ref().map(|text| config(text));
        let Ok(start) = plan(&Running::nothing(), &a, &machine) else { return Ok(()) };
        prop_assert!(start.waits_for_restart.is_empty() && start.config == a);
        let mut model = Model::nothing(&a);
        model.follow(start, &machine);
        model.hold(&a);

        // Nothing is left to be done.
        let again = plan(&model.running, &a, &machine).unwrap();
        prop_assert_eq!(again.steps, vec![]);
        prop_assert_eq!(&again.config, &a);

        // A refused plan has no step; the same file is refused at a start, or for what runs until then.
        let before = model.sorted();
        let Ok(reload) = plan(&model.running, &b, &machine) else { return Ok(()) };
        let waits: Vec<&str> = if a.tun == b.tun { vec![] } else { vec!["tun.mtu"] };
        prop_assert_eq!(&reload.waits_for_restart, &waits);
        prop_assert_eq!(&reload.config, &a.following(&b));

        // One that stops halfway is taken back.
        let mut halfway = model.clone();
        let (done, _) = reload.steps.split_at(stop.index(reload.steps.len() + 1));
        done.iter().for_each(|step| halfway.take(step));
        done.iter().rev().for_each(|step| halfway.take(&step.back()));
        prop_assert_eq!(halfway.sorted(), before.clone());

        // And one that does not leads there, and back.
        model.follow(reload, &machine);
        model.hold(&b);
        let back = plan(&model.running, &a, &machine).unwrap();
        model.follow(back, &machine);
        model.hold(&a);
        prop_assert_eq!(model.sorted().running, before.running);
    }
}

const BOTH: &str = "[[port]]\ninterface = \"wan\"\n[[port]]\ninterface = \"lan\"\n";

fn steps_between(before: &str, after: &str, machine: &Machine) -> Vec<String> {
    let running = running(&config(before), machine);
    let plan = plan(&running, &config(after), machine).unwrap();
    plan.steps.iter().map(ToString::to_string).collect()
}

#[test]
fn ports_that_are_not_touched_stay_open() {
    let worker = "[worker]\ncpus = 2\nframes = 65536\n";
    let dsl = format!("{BOTH}[[port]]\ninterface = \"dsl\"\n{worker}");
    let two = format!("{BOTH}{worker}");
    assert_eq!(steps_between(&two, &dsl, &machine()), ["open the port dsl"]);
    assert_eq!(steps_between(&dsl, &two, &machine()), ["close the port dsl"]);
    // In another order they are the same.
    let turned = format!("[[port]]\ninterface = \"lan\"\n[[port]]\ninterface = \"wan\"\n{worker}");
    assert_eq!(steps_between(&two, &turned, &machine()), [""; 0]);
    // Their rings are shorter among so many queues.
    let mut many = machine();
    many.devices.extend([device("dsl", "mlx5_core", 16)]);
    let steps = steps_between(&two, &dsl, &many);
    let expected =
        ["close the port wan", "close the port lan", "open the port wan", "open the port lan"];
    assert_eq!(steps[..4], expected, "{steps:?}");
    assert_eq!(steps[4], "open the port dsl");
}

#[test]
fn what_somebody_has_deleted_is_opened_again() {
    let text = "[[tunnel]]\ninterface = \"ipsec0\"\nif_id = 1\n";
    let mut running = running(&config(text), &machine());
    running.tunnels.clear();
    let plan = plan(&running, &config(text), &machine()).unwrap();
    assert_eq!(plan.steps, [Step::OpenTunnel(config(text).tunnels[0].clone())]);
}

#[test]
fn a_port_that_failed_before_may_fail_again() {
    let mut running = running(&config(BOTH), &machine());
    running.ports[1].has_failed = true;
    let reload = plan(&running, &config(BOTH), &machine()).unwrap();
    let names =
        |ports: &[PortConfig]| ports.iter().map(|p| p.interface.clone()).collect::<Vec<_>>();
    assert_eq!(names(&reload.may_fail), ["lan"]);
    // At a start the others go on.
    let start = plan(&Running::nothing(), &config(BOTH), &machine()).unwrap();
    assert_eq!(names(&start.may_fail), ["wan", "lan"]);
}

#[test]
fn all_problems_are_said_at_once_and_nothing_is_planned() {
    let text = "[[tunnel]]\ninterface = \"wan\"\nif_id = 1\n[worker]\ncpus = [0, 9]\n";
    let machine = Machine { lacks_engine: Some("no AVX".into()), ..machine() };
    let refusal = plan(&Running::nothing(), &config(text), &machine).unwrap_err();
    let keys: Vec<&str> = refusal.problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["crypto.engine", "tunnel[0].interface", "worker.cpus"]);
    assert!(refusal.problems.iter().all(|problem| !problem.remedy.is_empty()));
}

#[test]
fn more_threads_than_there_is_memory_for_are_refused_before_anything_is_done() {
    let running = running(&config(""), &machine());
    let memory = Memory { available: Some(1 << 20), ..Memory::default() };
    let machine = Machine { memory, ..machine() };
    let refusal = plan(&running, &config("[worker]\ncpus = 3\n"), &machine).unwrap_err();
    assert_eq!(refusal.problems[0].key, "worker.flows");
    // Those that there are have theirs.
    assert!(plan(&running, &config("[worker]\ncpus = 1\n"), &machine).is_ok());
}
