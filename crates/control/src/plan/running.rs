//! The daemon as it runs, as a plan looks at it.

use config::{Config, MemifConfig, TunnelConfig};

use crate::layout::Layout;
use crate::ports::rings::RunningPort;

/// The daemon as it runs. [`Running::nothing`] before its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Running {
    /// The configuration that is followed; `None` before a start.
    pub config: Option<Config>,
    /// True if the kernel owns SAs and policies.
    pub is_beside_kernel: bool,
    /// The set of workers.
    pub layout: Layout,
    /// The tunnel interfaces that are open. Somebody may have deleted one that is configured.
    pub tunnels: Vec<TunnelConfig>,
    /// The memif ports that are there, likewise.
    pub memifs: Vec<MemifConfig>,
    /// The ports, open or not.
    pub ports: Vec<RunningPort>,
}

impl Running {
    /// No daemon: a start plans from here.
    pub fn nothing() -> Running {
        Running::default()
    }

    /// Interfaces of ports that a file does not have any more.
    pub fn given_up<'r>(&'r self, wanted: &Config) -> impl Iterator<Item = &'r str> {
        let names = wanted.port_names();
        let ports = self.ports.iter().map(|port| port.config.interface.as_str());
        ports.filter(move |name| !names.contains(*name))
    }
}
