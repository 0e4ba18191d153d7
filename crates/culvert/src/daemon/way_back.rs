//! Cleartext that policy leaves to Linux goes back to the port that it came in by.
//!
//! A program on the private interface does that ([`steer::GiveBack`]), so firewall rules, reverse path
//! filters and captures see such packets where they came. Their destinations are protected prefixes,
//! so Linux would route them to the private interface: they are marked, and one of culvert's rules
//! leads those with the mark past its table. A firewall that takes the mark away loses no packet: it
//! then leaves by the private interface, and the worker forwards it.
//!
//! | packet | comes in by |
//! | --- | --- |
//! | cleartext that was taken from a port and is Linux's | that port |
//! | cleartext under a policy that wants protection and does not insist (`level use`) | the private interface: the guard's barrier would stop it at the port |
//! | decrypted, and ICMP errors of culvert to this host | the private interface |
//!
//! A port in generic mode gets nothing back, for its program would take it again. Then, and where the
//! kernel lacks what the program needs, such packets come in by the private interface.

use std::collections::BTreeMap;

use steer::GiveBack;
use tracing::warn;

use crate::config::TunConfig;

/// A port that works, as far as its packets' way back is concerned.
#[derive(Clone, Copy, Debug)]
pub struct WorkingPort<'a> {
    /// Its interface.
    pub interface: &'a str,
    /// The interface's index.
    pub ifindex: u32,
    /// What tells it from other ports, from 1.
    pub tag: u16,
    /// Its program stands in the driver: what the stack receives does not meet it again.
    pub is_native: bool,
}

/// The program.
pub struct WayBack {
    program: Option<GiveBack>,
    /// The ports that get their packets back: tags by interface.
    tags: BTreeMap<u32, u16>,
    /// Why the program is not there.
    trouble: Option<String>,
    /// What the operator should know of ports, by interface.
    warnings: BTreeMap<String, String>,
}

impl WayBack {
    /// Sets up what the kernel allows; what it does not is a warning.
    pub fn set_up(config: &TunConfig) -> WayBack {
        let name = config.interface.as_str();
        let (program, trouble) = match GiveBack::load_and_attach(name, config.mark) {
            Ok(program) => (Some(program), None),
            Err(error) => (None, Some(by_private(name, &error))),
        };
        if let Some(trouble) = &trouble {
            warn!("{trouble}");
        }
        WayBack { program, tags: BTreeMap::new(), trouble, warnings: BTreeMap::new() }
    }

    /// Follows the ports that work. To be told before workers are: what has a tag that the program
    /// does not know is dropped.
    pub fn follow<'a>(&mut self, ports: impl Iterator<Item = WorkingPort<'a>>) {
        self.tags.clear();
        let mut warnings = BTreeMap::new();
        let Some(program) = &mut self.program else { return };
        for port in ports {
            // An interface that went has left its index to none.
            let ifindex = if port.is_native { port.ifindex } else { 0 };
            match program.set(port.tag, ifindex) {
                Ok(()) if port.is_native => {
                    self.tags.insert(port.ifindex, port.tag);
                }
                Ok(()) => {
                    let why = "its XDP program is in generic mode, and would take them again";
                    warnings.insert(port.interface.to_owned(), by_port(port.interface, &why));
                }
                Err(error) => {
                    warnings.insert(port.interface.to_owned(), by_port(port.interface, &error));
                }
            }
        }
        for (interface, warning) in &warnings {
            if self.warnings.get(interface) != Some(warning) {
                warn!("{warning}");
            }
        }
        self.warnings = warnings;
    }

    /// The tag by which an interface gets its packets back.
    pub fn tag(&self, ifindex: u32) -> Option<u16> {
        self.tags.get(&ifindex).copied()
    }

    /// What the operator should know.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        self.trouble.iter().chain(self.warnings.values())
    }
}

fn by_private(private: &str, why: &dyn std::fmt::Display) -> String {
    format!("cleartext that policy leaves to Linux comes in by {private}, not by its port: {why}")
}

fn by_port(port: &str, why: &dyn std::fmt::Display) -> String {
    format!(
        "port {port}: cleartext that policy leaves to Linux comes in by the private interface: {why}"
    )
}
