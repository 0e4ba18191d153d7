//! Workers and what they are given: ports, sockets, limits, buffers.

mod change;
pub mod engines;
pub mod esp_sockets;
pub mod heartbeat;
pub mod layout;
pub mod news;
pub mod ports;
mod private_queues;
mod publishing;
mod questions;
pub mod rate_limits;
pub mod set;
pub mod steering;

use std::sync::Arc;

use dataplane::{EventReceiver, Polling, Tables};
use io::Umem;

use self::esp_sockets::EspSockets;
use self::ports::Ports;
use self::private_queues::PrivateQueues;
use self::rate_limits::RateLimits;
use crate::applications::Recognition;
use crate::bfd::Bfd;
use crate::paths::Paths;

pub use self::set::{ChangeError, Death, Kit, Workers, WorkersError};

/// Workers, and what they are given.
pub(super) struct Crew {
    pub(super) workers: Workers,
    pub(super) events: EventReceiver,
    pub(super) tables: Arc<Tables>,
    pub(super) ports: Ports,
    pub(super) esp_sockets: EspSockets,
    pub(super) private: PrivateQueues,
    pub(super) umem: Umem,
    pub(super) polling: Polling,
    pub(super) rate_limits: RateLimits,
    pub(super) recognition: Recognition,
    /// Paths that are measured.
    pub(super) paths: Paths,
    /// Sessions of BFD.
    pub(super) bfd: Bfd,
    /// Topologies published since the start. Each voids every plan of every worker.
    pub(super) published: u64,
}

impl Crew {
    /// Nobody works yet, and there are no ports. `kit` is what workers are made of, `events` hears them.
    pub(super) fn new(
        kit: Kit,
        events: EventReceiver,
        ports: Ports,
        esp_sockets: EspSockets,
    ) -> Crew {
        Crew {
            tables: Arc::clone(&kit.tables),
            umem: kit.umem.clone(),
            polling: kit.polling,
            workers: Workers::none(kit),
            events,
            ports,
            esp_sockets,
            private: PrivateQueues::default(),
            rate_limits: RateLimits::default(),
            recognition: Recognition::default(),
            paths: Paths::default(),
            bfd: Bfd::default(),
            published: 0,
        }
    }
}
