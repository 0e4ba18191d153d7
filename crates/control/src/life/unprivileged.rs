//! `culvert run --unprivileged`: without ports, and without BPF.
//!
//! | what | with ports | without |
//! | --- | --- | --- |
//! | protected packets | AF_XDP or packet sockets | a UDP socket that the IKE daemon hands over ([`EspSockets`](crate::esp_sockets::EspSockets)) |
//! | cleartext | ports, and the private interface | the private interface: Linux forwards |
//! | SAs | all | ESP in UDP alone (`sources/builtin/in_udp.rs`) |
//! | marks of packets, and the way back to a port | BPF programs | none: a packet with a mark that a policy protects is blocked |
//! | capabilities | five | CAP_NET_ADMIN over its own network namespace |

use std::fmt::Display;

use config::{Config, Problem, SourceChoice, TunConfig};
use rustix::process::{Resource, getrlimit};
use steer::SendMarks;
use tracing::warn;

use crate::error::StartError;
use crate::privileges;
use crate::way_back::WayBack;

/// Settings that are not possible here: there are no ports, no BPF and no kernel IPsec.
pub fn problems(config: &Config) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut wrong = |key: String, value: &dyn Display, remedy: &'static str| {
        found.push(Problem::new(key, value, "--unprivileged cannot do that", remedy));
    };
    for port in &config.ports {
        let remedy =
            "leave the [[port]] out, or --unprivileged: ESP comes by the IKE daemon's socket";
        wrong(config.port_key(&port.interface, "interface"), &port.interface, remedy);
    }
    for memif in config.memifs.iter().skip(MOST_MEMIFS) {
        let remedy = "at most three memif ports";
        wrong(config.port_key(&memif.interface, "interface"), &memif.interface, remedy);
    }
    if config.source == SourceChoice::Kernel {
        wrong("source".into(), &"kernel", "\"builtin\", or leave --unprivileged out");
    }
    if config.nat.is_on() {
        wrong("nat.learn".into(), &"conntrack", "\"off\", or leave --unprivileged out");
    }
    found
}

/// Places of ports that sockets leave to memif.
const MOST_MEMIFS: usize = 3;

/// Checks that this process has the rights that it needs, and is root of the right namespace.
///
/// # Errors
/// The rights that are missing.
pub fn check_rights(is_unprivileged: bool) -> Result<(), StartError> {
    if !rustix::process::geteuid().is_root() {
        return Err(match is_unprivileged {
            true => StartError::NotRootOfNamespace,
            false => StartError::NotRoot,
        });
    }
    let missing = privileges::missing(!is_unprivileged).join(", ");
    match (missing.is_empty(), is_unprivileged) {
        (true, _) => Ok(()),
        (false, true) => Err(StartError::NotRootOfNamespace),
        (false, false) => Err(StartError::Capabilities(missing)),
    }
}

/// True if all memory that is ever used may be locked. Under a limit, memory beyond it would fail.
pub fn may_lock_memory() -> bool {
    getrlimit(Resource::Memlock).current.is_none()
}

/// The program that tells of marks, where there is BPF.
pub fn send_marks(is_unprivileged: bool, config: &TunConfig) -> Option<SendMarks> {
    if is_unprivileged {
        return None;
    }
    match SendMarks::load_and_attach(&config.interface) {
        Ok(marks) => Some(marks),
        Err(error) => {
            warn!("{error}; packets that Linux marks, and a policy protects, are blocked");
            None
        }
    }
}

/// The program that gives packets back to ports, where there are some.
pub fn way_back(is_unprivileged: bool, config: &TunConfig, judged: u32) -> WayBack {
    match is_unprivileged {
        true => WayBack::none(),
        false => WayBack::set_up(config, judged),
    }
}
