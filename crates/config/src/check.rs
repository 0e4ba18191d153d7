//! Which values cannot be on any machine, and what would be right.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Display;

use dataplane::slots::{MAX_PORTS, MAX_TUNNELS};
use dataplane::{Binding, Vti};
use tracing_subscriber::filter::Targets;

use super::limit::{LimitConfig, Names};
use super::packets::{INTERFACE_RULE, Packets};
use super::paths::Around;
use super::problem::{Problem, nearest};
use super::tunnel::or_any;
use super::worker::MAX_CRYPTO_CPUS;
use super::{Config, Cpus, SourceChoice, VlanConfig, valid_interface, valid_name};

/// Bytes of a buffer that a packet of the longest MTU leaves free: headers in front, Ethernet's with two tags.
const FRAME_ROOM: u32 = 278;

/// The loopback, which is in every network namespace and is neither a port nor culvert's.
const LOOPBACK: &str = "lo";

/// The routing table into which strongSwan's charon puts its own routes (`charon.routing_table`).
const STRONGSWAN_TABLE: u32 = 220;

/// Problems as they are found.
#[derive(Default)]
struct Found(Vec<Problem>);

impl Found {
    /// A value that cannot be, and what would be right.
    fn add(
        &mut self,
        key: impl Into<String>,
        value: &dyn Display,
        remedy: impl Into<Cow<'static, str>>,
    ) {
        self.0.push(Problem::of_value(key, value, remedy));
    }

    /// The same, with what is wrong about it.
    fn say(
        &mut self,
        key: impl Into<String>,
        value: &dyn Display,
        wrong: &'static str,
        remedy: impl Into<Cow<'static, str>>,
    ) {
        self.0.push(Problem::new(key, value, wrong, remedy));
    }
}

impl Config {
    /// Every value that cannot be once the kernel turns out to own SAs and policies.
    pub fn problems_beside_kernel(&self) -> Vec<Problem> {
        Config { source: SourceChoice::Kernel, ..self.clone() }.problems()
    }

    /// Every value that cannot be.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut found = Found::default();
        if !valid_name(&self.name) {
            let remedy =
                "a name has 1 to 64 letters, digits, '-' and '_': it becomes a directory's";
            found.add("name", &self.name, remedy);
        }
        if !(1024..=16_777_216).contains(&self.nat.flows) {
            found.add("nat.flows", &self.nat.flows, "between 1024 and 16777216");
        }
        let level = &self.log.level;
        let wrong =
            not_a_level(level).or(level.parse::<Targets>().is_err().then_some(level.as_str()));
        if let Some(word) = wrong {
            let remedy =
                "error, warn, info, debug, trace or off, or a filter such as control=debug,info";
            found.add("log.level", &word, remedy);
        }
        let mut seen = HashSet::new();
        self.of_ports(&mut found, &mut seen);
        self.of_devices(&mut found, &seen);
        self.of_private(&mut found, &seen);
        self.of_lists(&mut found);
        seen.insert(&self.tun.interface);
        self.of_tunnels(&mut found, &mut seen);
        self.of_worker(&mut found);
        let around = Around {
            own_marks: self.tun.mark | self.tun.judged_mark,
            learns_nat: self.nat.is_on(),
            is_beside_kernel: self.source == SourceChoice::Kernel,
        };
        let of_paths = super::paths::problems(&self.path_options, &self.paths, &around);
        for (key, value, remedy) in of_paths {
            found.add(key, &value, remedy);
        }
        let names = Names { is_name: valid_name, is_interface: valid_interface };
        found.0.extend(super::steer::problems(&self.steers, &self.paths, names));
        if !(1..=86_400).contains(&self.path_mtu.lifetime_s) {
            found.add("path_mtu.lifetime_s", &self.path_mtu.lifetime_s, "1 to 86400 seconds");
        }
        found.0
    }

    /// Ports, by their places in the file; `seen` gets their interfaces.
    fn of_ports<'c>(&'c self, found: &mut Found, seen: &mut HashSet<&'c str>) {
        let most = MAX_PORTS;
        for (i, name) in self.port_order.iter().enumerate() {
            let (key, name) = (format!("port[{i}].interface"), name.as_str());
            if i == most {
                found.say(
                    &key,
                    &name,
                    "there are more ports than culvert takes",
                    format!(
                        "at most {most} ports: leave out interfaces of the protected side, whose packets go through \
                         Linux then, slower"
                    ),
                );
            }
            match () {
                () if !valid_interface(name) => found.add(key, &name, INTERFACE_RULE),
                () if name == LOOPBACK => found.say(
                    key,
                    &name,
                    "the loopback brings no packets of others",
                    "an interface that ESP or the protected networks come by: see ip link",
                ),
                () if !seen.insert(name) => {
                    let wrong = "the interface is named twice, and can be one port";
                    found.say(key, &name, wrong, "an interface that is not another port");
                }
                () => {}
            }
        }
        for port in &self.ports {
            if let Some(queues @ (0 | 65..)) = port.queues {
                let key = self.port_key(&port.interface, "queues");
                found.add(key, &queues, "1 to 64 queues, or leave it out for all of them");
            }
        }
        for memif in &self.memifs {
            let key = |key: &str| self.port_key(&memif.interface, key);
            if memif.mtu > self.worker.frame_bytes.saturating_sub(FRAME_ROOM) {
                let remedy = "at most 1770 with worker.frame_bytes = 2048, 3818 with 4096";
                found.add(key("mtu"), &memif.mtu, remedy);
            }
            let at_it = self.memifs.iter().filter(|other| other.socket == memif.socket);
            if at_it.count() > 1 {
                found.add(
                    key("socket"),
                    &memif.socket.display(),
                    "a socket of its own for each port",
                );
            }
        }
    }

    fn of_devices(&self, found: &mut Found, ports: &HashSet<&str>) {
        for (name, device) in &self.devices {
            let key = |key: &str| format!("device.{name}.{key}");
            if !valid_name(name) {
                let remedy = "a device's name has 1 to 64 letters, digits, '-' and '_'";
                found.add(format!("device.{name}"), name, remedy);
            }
            if let Some((wrong, value, remedy)) = device.problem() {
                found.add(key(wrong), &value, remedy);
            }
            if !ports.contains(device.port.as_str()) {
                let remedy = "the interface of one of the ports ([[port]])";
                found.add(key("port"), &device.port, remedy);
            }
            if !(100..=3_600_000).contains(&device.interval_ms) {
                let remedy = "100 to 3600000 milliseconds";
                found.add(key("interval_ms"), &device.interval_ms, remedy);
            }
            if self.devices.values().filter(|other| other.port == device.port).count() > 1 {
                let remedy = "a port of its own: SAs name devices by their ports";
                found.add(key("port"), &device.port, remedy);
            }
        }
    }

    /// Judges `[tun]`: the private interface, its MTU and its tables.
    fn of_private(&self, found: &mut Found, ports: &HashSet<&str>) {
        let tun = &self.tun;
        let name = tun.interface.as_str();
        if !valid_interface(name) || name == LOOPBACK || ports.contains(name) {
            found.add(
                "tun.interface",
                &name,
                "1 to 15 characters, without '/' and spaces, and neither lo nor one of the ports",
            );
        }
        if tun.judged_mark == 0 || tun.judged_mark & tun.mark != 0 {
            let remedy = "1 to 0xffffffff, without bits of tun.mark";
            found.add("tun.judged_mark", &format!("{:#x}", tun.judged_mark), remedy);
        }
        if !(1280..=9000).contains(&tun.mtu) {
            found.add("tun.mtu", &tun.mtu, "between 1280 and 9000");
        }
        let tables = [("tun.table", tun.table), ("tun.marked_table", tun.marked_table)];
        for (key, table) in tables {
            if table == STRONGSWAN_TABLE {
                found.say(
                    key,
                    &table,
                    "that is strongSwan's own table (charon.routing_table)",
                    "a table of culvert's own: 218, 219, or another that nobody has",
                );
            } else if table == 0 || (253..=255).contains(&table) {
                let remedy =
                    "a table of culvert's own: not 0, and not 253 to 255, which are Linux's";
                found.add(key, &table, remedy);
            }
        }
        if tun.marked_table == tun.table {
            let remedy = "a table of culvert's own, and not tun.table";
            found.add("tun.marked_table", &tun.marked_table, remedy);
        }
        if !(2..219).contains(&tun.rule_preference) {
            found.add(
                "tun.rule_preference",
                &tun.rule_preference,
                "2 to 218: it and the one after it must come before strongSwan's rule 220",
            );
        }
    }

    /// Lists whose entries have rules of their own.
    fn of_lists(&self, found: &mut Found) {
        for (i, rule) in self.marks.iter().enumerate() {
            if rule.mark == 0 {
                let remedy = "1 to 4294967295; packets that no entry matches have none";
                found.add(format!("mark[{i}].mark"), &rule.mark, remedy);
            }
            if let Some((key, value, remedy)) = Packets::from(rule).problem(valid_interface) {
                found.add(format!("mark[{i}].{key}"), &value, remedy);
            }
        }
        if let Some((key, value, remedy)) = self.security.problem() {
            found.add(key, &value, remedy);
        }
        if let Some((key, value, remedy)) = self.vici.problem() {
            found.add(key, &value, remedy);
        }
        for (at, key, value, remedy) in VlanConfig::problems(&self.vlans, valid_interface) {
            found.add(format!("vlan[{at}].{key}"), &value, remedy);
        }
        for (at, key, value, remedy) in super::gtpu::problems(&self.gtpu, &self.memifs) {
            found.add(format!("gtpu[{at}].{key}"), &value, remedy);
        }
        for (at, key, value, remedy) in
            super::applications::problems(&self.applications, &self.application_list, valid_name)
        {
            found.add(format!("application[{at}].{key}"), &value, remedy);
        }
        for (at, key, value, remedy) in super::iptfs::problems(&self.iptfs) {
            found.add(format!("iptfs[{at}].{key}"), &value, remedy);
        }
        found.0.extend(self.limit_problems(&self.limits));
        let limits = self.limits.iter().map(|limit| limit.application.as_ref());
        self.of_application_names("limit", limits, found);
        let steers = self.steers.iter().map(|steer| steer.application.as_ref());
        self.of_application_names("steer", steers, found);
        for (at, key, value, remedy) in super::srv6::problems(&self.sids, valid_interface) {
            found.add(format!("sid[{at}].{key}"), &value, remedy);
        }
        if let Some((at, name)) = self.overlay.wrong_name(valid_interface) {
            found.add(format!("overlay.interfaces[{at}]"), name, INTERFACE_RULE);
        }
        if let Some((at, name)) = self.srv6.wrong_name(valid_interface) {
            found.add(format!("srv6.domain[{at}]"), name, INTERFACE_RULE);
        }
    }

    /// Judges the applications that the entries of a section name.
    fn of_application_names<'c>(
        &self,
        section: &str,
        names: impl Iterator<Item = Option<&'c String>>,
        found: &mut Found,
    ) {
        let catalogue = super::catalogue(&self.applications, &self.application_list).ok();
        let is_known = |name: &str| catalogue.as_ref().is_none_or(|all| all.find(name).is_some());
        for (i, name) in names.enumerate() {
            let Some(name) = name else { continue };
            let key = format!("{section}[{i}].application");
            if !self.applications.enabled {
                let wrong = "applications are not told apart";
                found.say(key, name, wrong, "add enabled = true in [applications]");
            } else if !is_known(name) {
                let wrong = "there is no such application";
                let is_of_ndpi = ndpi::applications().any(|known| known == name);
                let names = catalogue.iter().flat_map(|all| all.all().map(|(_, name)| name));
                let remedy = match nearest(name, names) {
                    _ if is_of_ndpi => "nDPI tells it: ndpi = true in [applications]".to_owned(),
                    Some(near) => format!("did you mean {near}?"),
                    None => "the name of an [[application]], or of one that is built in: \
                             docs/guides/applications.md"
                        .to_owned(),
                };
                found.say(key, name, wrong, remedy);
            }
        }
    }

    fn of_worker(&self, found: &mut Found) {
        let worker = &self.worker;
        if !(1024..=1 << 20).contains(&worker.flows) {
            found.add("worker.flows", &worker.flows, "1024 to 1048576");
        }
        if let (Some(cpu), Some(_)) = (worker.cpu, &worker.cpus) {
            found.add("worker.cpu", &cpu, "leave it out where worker.cpus is");
        }
        let cpus = worker.cpus();
        if let Some(cpus) = &cpus
            && !(1..=Cpus::MOST).contains(&cpus.count())
        {
            const { assert!(Cpus::MOST == 64) };
            let remedy = "1 to 64 workers: a number, or a list of so many cores";
            found.add("worker.cpus", &cpus.count(), remedy);
        }
        let crypto = &worker.crypto_cpus;
        if crypto.len() > MAX_CRYPTO_CPUS {
            found.add("worker.crypto_cpus", &crypto.len(), "at most 32 cores");
        }
        let taken: &[usize] = match &cpus {
            Some(Cpus::Cores(cores)) => cores,
            _ => &[],
        };
        let is_taken = |(n, cpu): &(usize, &usize)| {
            taken.contains(cpu) || crypto.iter().take(*n).any(|other| other == *cpu)
        };
        if let Some((_, cpu)) = crypto.iter().enumerate().find(is_taken) {
            let remedy = "cores that differ from one another and from those of worker.cpus";
            found.add("worker.crypto_cpus", cpu, remedy);
        }
        if ![2048, 4096].contains(&worker.frame_bytes) {
            found.add("worker.frame_bytes", &worker.frame_bytes, "2048 or 4096");
        }
        if !(1024..=1_048_576).contains(&worker.frames) || !worker.frames.is_power_of_two() {
            let remedy = "a power of two from 1024 to 1048576";
            found.add("worker.frames", &worker.frames, remedy);
        }
    }

    /// Every value of these limits that cannot be.
    pub fn limit_problems(&self, entries: &[LimitConfig]) -> impl Iterator<Item = Problem> {
        let names = Names { is_name: valid_name, is_interface: valid_interface };
        let found = super::limit::problems(entries, self.tun.mtu, names);
        found.into_iter().map(|(at, key, value, remedy)| {
            Problem::of_value(format!("limit[{at}].{key}"), &value, remedy)
        })
    }

    /// Tunnel interfaces; `seen` are other interfaces.
    fn of_tunnels<'c>(&'c self, found: &mut Found, seen: &mut HashSet<&'c str>) {
        if self.tunnels.len() > MAX_TUNNELS {
            const { assert!(MAX_TUNNELS == 64) };
            found.add("tunnel", &self.tunnels.len(), "at most 64 of them");
        }
        let mut bindings = HashSet::new();
        for (i, tunnel) in self.tunnels.iter().enumerate() {
            let key = |key: &str| format!("tunnel[{i}].{key}");
            let name = tunnel.interface.as_str();
            if !valid_interface(name) || name == LOOPBACK || !seen.insert(name) {
                let remedy = "1 to 15 characters, without '/' and spaces, and not lo, a port, the \
                              private interface or another tunnel interface";
                found.add(key("interface"), &name, remedy);
            }
            if let Some((wrong, value, remedy)) = tunnel.problem() {
                found.add(key(wrong), &value, remedy);
                continue;
            }
            let binding = match tunnel.binding() {
                // What arrives tells its ends alone.
                Binding::Vti(vti) => Binding::Vti(Vti { ikey: 0, okey: 0, ..vti }),
                binding @ Binding::IfId(_) => binding,
            };
            if !bindings.insert(binding) {
                match tunnel.if_id {
                    0 => {
                        let remote = or_any(tunnel.remote);
                        found.add(key("remote"), &remote, "other ends for each interface");
                    }
                    id => found.add(key("if_id"), &id, "another one for each interface"),
                }
            }
        }
    }
}

/// A word that is neither a level nor about a part of the program: it would silence everything.
fn not_a_level(level: &str) -> Option<&str> {
    let is_known = |word: &&str| {
        let is_level = ["error", "warn", "info", "debug", "trace", "off"]
            .iter()
            .any(|level| level.eq_ignore_ascii_case(word));
        is_level || word.contains(['=', '[', ':']) || word.is_empty()
    };
    level.split(',').map(str::trim).find(|word| !is_known(word))
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn key_of_problem(tunnels: &[&str]) -> Option<String> {
        let lines =
            |(n, lines): (usize, &&str)| format!("[[tunnel]]\ninterface = \"t{n}\"\n{lines}\n");
        let text: String = tunnels.iter().enumerate().map(lines).collect();
        let config: Config = toml::from_str(&text).expect("known keys");
        config.problems().into_iter().next().map(|problem| problem.key)
    }

    #[test]
    fn an_interface_has_an_if_id_or_marks_of_its_own() {
        for good in [
            &["if_id = 42"][..],
            &["ikey = 42\nokey = 42"],
            &["ikey = 42\nokey = 43\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\""],
            &["if_id = 42", "ikey = 42\nokey = 42", "ikey = 42\nokey = 42\nlocal = \"192.0.2.1\""],
        ] {
            assert_eq!(key_of_problem(good), None, "{good:?}");
        }
        for (bad, key) in [
            (&[""][..], "tunnel[0].if_id"),
            (&["if_id = 1\nikey = 2\nokey = 2"], "tunnel[0].if_id"),
            (&["if_id = 1\nremote = \"192.0.2.2\""], "tunnel[0].if_id"),
            (&["ikey = 2"], "tunnel[0].okey"),
            (&["okey = 2"], "tunnel[0].ikey"),
            (&["ikey = 2\nokey = 2\nlocal = \"192.0.2.1\"\nremote = \"::2\""], "tunnel[0].remote"),
            (&["ikey = 2\nokey = 2\nremote = \"0.0.0.0\""], "tunnel[0].remote"),
            (&["if_id = 1\nmtu = 1000"], "tunnel[0].mtu"),
            (&["if_id = 1", "if_id = 1"], "tunnel[1].if_id"),
            (&["ikey = 2\nokey = 2", "ikey = 3\nokey = 3"], "tunnel[1].remote"),
        ] {
            assert_eq!(key_of_problem(bad).as_deref(), Some(key), "{bad:?}");
        }
    }
}
