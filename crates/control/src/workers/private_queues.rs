//! Queues of the private interface, one for each worker.

use std::sync::Arc;

use config::Config;
use io::{Port, PortCounters, PortStats};
use tracing::warn;

use crate::linux::Linux;
use crate::linux::tun_devices::tun_config;

/// The queues that there are. One that was opened stays.
#[derive(Default)]
pub struct PrivateQueues {
    counters: Vec<Arc<PortCounters>>,
}

impl PrivateQueues {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.counters.len()
    }

    /// Counters of each.
    pub fn stats(&self) -> Vec<PortStats> {
        self.counters.iter().map(|counters| counters.read()).collect()
    }

    /// Counts new ones, of which workers have begun to use each.
    pub fn add(&mut self, counters: impl IntoIterator<Item = Arc<PortCounters>>) {
        self.counters.extend(counters);
    }

    /// New ones, so that there is one for each of so many workers.
    pub fn more(&self, workers: usize, config: &Config, linux: &mut Linux) -> Vec<Box<dyn Port>> {
        let tun = tun_config(config);
        let mut queues: Vec<Box<dyn Port>> = Vec::new();
        while self.count() + queues.len() < workers {
            match linux.interfaces.add_private_queue(&tun, linux.private.ifindex()) {
                Ok(queue) => queues.push(queue),
                Err(error) => {
                    warn!("{error}\n  workers without a queue have the first one send for them");
                    break;
                }
            }
        }
        queues
    }
}
