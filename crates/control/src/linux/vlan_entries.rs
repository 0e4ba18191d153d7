//! Entries of `[[vlan]]` whose interface is not there, or is none of culvert's.

use config::{Config, VlanConfig};
use mirror::Snapshot;

use crate::vlans::port_below;

/// The entries that have no effect as things are, for people.
pub fn warnings(config: &Config, snapshot: &Snapshot) -> impl Iterator<Item = String> {
    let is_port = |name: &str| config.ports.iter().any(|port| port.interface == name);
    VlanConfig::idle(&config.vlans, move |name| {
        // A port that is not there is told of anyhow.
        if is_port(name) {
            return Some(true);
        }
        let below = port_below(snapshot, snapshot.link_by_name(name)?);
        Some(below.is_some_and(|(port, _)| is_port(&port.name)))
    })
}
