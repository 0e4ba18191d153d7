//! Which values cannot be, and what would be right.

use std::collections::HashSet;
use std::fmt;

use dataplane::{Binding, Vti};
use tracing_subscriber::EnvFilter;

use super::limit::{LimitConfig, Names};
use super::tunnel::or_any;
use super::worker::MAX_CRYPTO_CPUS;
use super::{AddressPrefix, Config, Cpus, Problem, VlanConfig, valid_interface, valid_name};

/// Bytes of a buffer that a packet of the longest MTU leaves free: headers in front, Ethernet's with two tags.
const FRAME_ROOM: u32 = 278;

impl Config {
    /// The first value that cannot be.
    pub(super) fn problem(&self) -> Option<Problem> {
        let problem = |key: String, value: &dyn fmt::Display, allowed| {
            Some(Problem { key, value: value.to_string(), allowed })
        };
        if !valid_name(&self.name) {
            return problem(
                "name".into(),
                &self.name,
                "a name has 1 to 64 letters, digits, '-' and '_': it becomes a directory's",
            );
        }
        if !(1024..=16_777_216).contains(&self.nat.flows) {
            return problem("nat.flows".into(), &self.nat.flows, "between 1024 and 16777216");
        }
        let level = &self.log.level;
        let wrong = not_a_level(level)
            .or(EnvFilter::builder().parse(level).is_err().then_some(level.as_str()));
        if let Some(word) = wrong {
            let allowed = "error, warn, info, debug, trace or off, or a filter such as culvert::daemon=debug,info";
            return problem("log.level".into(), &word, allowed);
        }
        let mut seen = HashSet::new();
        for (i, port) in self.ports.iter().enumerate() {
            if !valid_interface(&port.interface) {
                return problem(
                    format!("port[{i}].interface"),
                    &port.interface,
                    "an interface's name has 1 to 15 characters, without '/' and spaces",
                );
            }
            if !seen.insert(port.interface.as_str()) {
                return problem(
                    format!("port[{i}].interface"),
                    &port.interface,
                    "the interface is named twice; each can be one port",
                );
            }
            if let Some(0 | 65..) = port.queues {
                return problem(
                    format!("port[{i}].queues"),
                    &port.queues.unwrap_or_default(),
                    "1 to 64 queues, or leave it out for all of them",
                );
            }
        }
        for memif in &self.memifs {
            let name = memif.interface.as_str();
            if !valid_interface(name) || !seen.insert(name) {
                let allowed = "1 to 15 characters, without '/' and spaces, and not another port";
                return problem("port.interface".into(), &name, allowed);
            }
            if memif.mtu > self.worker.frame_bytes - FRAME_ROOM {
                let key = format!("port.mtu of {name}");
                let allowed = "at most 1770 with worker.frame_bytes = 2048, 3818 with 4096";
                return problem(key, &memif.mtu, allowed);
            }
            if self.memifs.iter().filter(|other| other.socket == memif.socket).count() > 1 {
                let allowed = "a socket of its own for each port";
                return problem(format!("port.socket of {name}"), &memif.socket.display(), allowed);
            }
        }
        for (name, device) in &self.devices {
            if !valid_name(name) {
                let allowed = "a device's name has 1 to 64 letters, digits, '-' and '_'";
                return problem(format!("device.{name}"), name, allowed);
            }
            if let Some((key, value, allowed)) = device.problem() {
                return problem(format!("device.{name}.{key}"), &value, allowed);
            }
            if !seen.contains(device.port.as_str()) {
                let allowed = "the interface of one of the ports ([[port]])";
                return problem(format!("device.{name}.port"), &device.port, allowed);
            }
            if !(100..=3_600_000).contains(&device.interval_ms) {
                let key = format!("device.{name}.interval_ms");
                return problem(key, &device.interval_ms, "100 to 3600000 milliseconds");
            }
            if self.devices.values().filter(|other| other.port == device.port).count() > 1 {
                let allowed = "a port of its own: SAs name devices by their ports";
                return problem(format!("device.{name}.port"), &device.port, allowed);
            }
        }
        if !valid_interface(&self.tun.interface) || seen.contains(self.tun.interface.as_str()) {
            return problem(
                "tun.interface".into(),
                &self.tun.interface,
                "1 to 15 characters, without '/' and spaces, and not one of the ports",
            );
        }
        if self.tun.judged_mark == 0 || self.tun.judged_mark & self.tun.mark != 0 {
            return problem(
                "tun.judged_mark".into(),
                &format!("{:#x}", self.tun.judged_mark),
                "1 to 0xffffffff, without bits of tun.mark",
            );
        }
        for (i, rule) in self.marks.iter().enumerate() {
            let names = |prefix: &Option<AddressPrefix>| prefix.map(|p| p.0.addr.is_ipv4());
            if rule.mark == 0 {
                let allowed = "1 to 4294967295; packets that no entry matches have none";
                return problem(format!("mark[{i}].mark"), &rule.mark, allowed);
            }
            if let Some(name) = rule.interface.as_ref().filter(|name| !valid_interface(name)) {
                let allowed = "an interface's name has 1 to 15 characters, without '/' and spaces";
                return problem(format!("mark[{i}].interface"), name, allowed);
            }
            if let (Some(src), Some(dst)) = (names(&rule.src), names(&rule.dst))
                && src != dst
            {
                let allowed = "of the family of src, or the entry matches nothing";
                let dst = rule.dst.map_or(String::new(), |p| p.0.addr.to_string());
                return problem(format!("mark[{i}].dst"), &dst, allowed);
            }
        }
        if let Some((key, value, allowed)) = self.security.problem() {
            return problem(key.into(), &value, allowed);
        }
        if let Some((at, key, value, allowed)) = VlanConfig::problem(&self.vlans, valid_interface) {
            return problem(format!("vlan[{at}].{key}"), &value, allowed);
        }
        if let Some((at, key, value, allowed)) = super::gtpu::problem(&self.gtpu, &self.memifs) {
            return problem(format!("gtpu[{at}].{key}"), &value, allowed);
        }
        if let Some((at, key, value, allowed)) = super::iptfs::problem(&self.iptfs) {
            return problem(format!("iptfs[{at}].{key}"), &value, allowed);
        }
        if let Some(problem) = self.limit_problem(&self.limits) {
            return Some(problem);
        }
        if let Some((at, key, value, allowed)) = super::srv6::problem(&self.sids, valid_interface) {
            return problem(format!("sid[{at}].{key}"), &value, allowed);
        }
        if let Some((at, name)) = self.srv6.wrong_name(valid_interface) {
            let allowed = "an interface's name has 1 to 15 characters, without '/' and spaces";
            return problem(format!("srv6.domain[{at}]"), name, allowed);
        }
        seen.insert(&self.tun.interface);
        if let Some(problem) = self.tunnel_problem(&mut seen) {
            return Some(problem);
        }
        if !(1280..=9000).contains(&self.tun.mtu) {
            return problem("tun.mtu".into(), &self.tun.mtu, "between 1280 and 9000");
        }
        let is_linux_s = |table: u32| table == 0 || (253..=255).contains(&table);
        if is_linux_s(self.tun.table) {
            return problem(
                "tun.table".into(),
                &self.tun.table,
                "a table of culvert's own: not 0, and not 253 to 255, which are Linux's",
            );
        }
        if is_linux_s(self.tun.marked_table) || self.tun.marked_table == self.tun.table {
            return problem(
                "tun.marked_table".into(),
                &self.tun.marked_table,
                "a table of culvert's own: not 0, not 253 to 255, and not tun.table",
            );
        }
        if !(2..219).contains(&self.tun.rule_preference) {
            return problem(
                "tun.rule_preference".into(),
                &self.tun.rule_preference,
                "2 to 218: it and the one after it must come before strongSwan's rule 220",
            );
        }
        if !(1024..=1 << 20).contains(&self.worker.flows) {
            return problem("worker.flows".into(), &self.worker.flows, "1024 to 1048576");
        }
        if self.worker.cpu.is_some() && self.worker.cpus.is_some() {
            return problem(
                "worker.cpu".into(),
                &self.worker.cpu.unwrap_or_default(),
                "leave it out where worker.cpus is",
            );
        }
        let cpus = self.worker.cpus();
        if let Some(cpus) = &cpus
            && !(1..=Cpus::MOST).contains(&cpus.count())
        {
            const { assert!(Cpus::MOST == 64) };
            return problem(
                "worker.cpus".into(),
                &cpus.count(),
                "1 to 64 workers: a number, or a list of so many cores",
            );
        }
        let crypto = &self.worker.crypto_cpus;
        if crypto.len() > MAX_CRYPTO_CPUS {
            return problem("worker.crypto_cpus".into(), &crypto.len(), "at most 32 cores");
        }
        let taken: &[usize] = match &cpus {
            Some(Cpus::Cores(cores)) => cores,
            _ => &[],
        };
        let is_taken = |(n, cpu): (usize, &usize)| {
            taken.contains(cpu) || crypto.iter().take(n).any(|other| other == cpu)
        };
        if let Some(n) = crypto.iter().enumerate().position(is_taken) {
            let allowed = "cores that differ from one another and from those of worker.cpus";
            return problem("worker.crypto_cpus".into(), &crypto.get(n).unwrap_or(&0), allowed);
        }
        if !(1..=86_400).contains(&self.path_mtu.lifetime_s) {
            return problem(
                "path_mtu.lifetime_s".into(),
                &self.path_mtu.lifetime_s,
                "1 to 86400 seconds",
            );
        }
        if ![2048, 4096].contains(&self.worker.frame_bytes) {
            return problem("worker.frame_bytes".into(), &self.worker.frame_bytes, "2048 or 4096");
        }
        if !(1024..=1_048_576).contains(&self.worker.frames)
            || !self.worker.frames.is_power_of_two()
        {
            return problem(
                "worker.frames".into(),
                &self.worker.frames,
                "a power of two from 1024 to 1048576",
            );
        }
        None
    }

    /// The first value of these limits that cannot be.
    pub fn limit_problem(&self, entries: &[LimitConfig]) -> Option<Problem> {
        let names = Names { is_name: valid_name, is_interface: valid_interface };
        let (at, key, value, allowed) = super::limit::problem(entries, self.tun.mtu, names)?;
        Some(Problem { key: format!("limit[{at}].{key}"), value, allowed })
    }

    /// The first value of tunnel interfaces that cannot be; `seen` are other interfaces.
    fn tunnel_problem<'c>(&'c self, seen: &mut HashSet<&'c str>) -> Option<Problem> {
        if self.tunnels.len() > crate::daemon::MAX_TUNNELS {
            const { assert!(crate::daemon::MAX_TUNNELS == 64) };
            let value = self.tunnels.len().to_string();
            return Some(Problem { key: "tunnel".into(), value, allowed: "at most 64 of them" });
        }
        let mut bindings = HashSet::new();
        for (i, tunnel) in self.tunnels.iter().enumerate() {
            let problem = |key: &str, value: String, allowed| {
                Some(Problem { key: format!("tunnel[{i}].{key}"), value, allowed })
            };
            let name = tunnel.interface.as_str();
            if !valid_interface(name) || !seen.insert(name) {
                let allowed = "1 to 15 characters, without '/' and spaces, and not a port, the \
                               private interface or another tunnel interface";
                return problem("interface", name.into(), allowed);
            }
            if let Some((key, value, allowed)) = tunnel.problem() {
                return problem(key, value, allowed);
            }
            let binding = match tunnel.binding() {
                // What arrives tells its ends alone.
                Binding::Vti(vti) => Binding::Vti(Vti { ikey: 0, okey: 0, ..vti }),
                binding @ Binding::IfId(_) => binding,
            };
            if !bindings.insert(binding) {
                let (ends, ids) =
                    ("other ends for each interface", "another one for each interface");
                return match tunnel.if_id {
                    0 => problem("remote", or_any(tunnel.remote), ends),
                    id => problem("if_id", id.to_string(), ids),
                };
            }
        }
        None
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
    use crate::config::Config;

    fn key_of_problem(tunnels: &[&str]) -> Option<String> {
        let lines =
            |(n, lines): (usize, &&str)| format!("[[tunnel]]\ninterface = \"t{n}\"\n{lines}\n");
        let text: String = tunnels.iter().enumerate().map(lines).collect();
        let config: Config = toml::from_str(&text).expect("known keys");
        config.problem().map(|problem| problem.key)
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
