//! Work of a round at its end: every part of the daemon says so here, and nothing is done where it is found out.
//!
//! A round of the control thread hears first (the source of SAs, workers, devices, Linux, clients), and then carries out
//! once what all of that asks for. A published topology voids every plan of every worker, so this publishes one at
//! most, however many parts ask for it; only a reload has one of its own. The order is that of [`Daemon::carry_out`](super::Daemon::carry_out):
//!
//! | | what | why then |
//! | --- | --- | --- |
//! | 1 | `links`: tunnel interfaces, memif ports, sockets of ports | workers have a port's sockets before they route to it |
//! | 2 | `marks`: the marks that Linux takes back | the topology names the tags of marks |
//! | 3 | `neighbours`, `path_mtus`, `topology` | workers can send on what a program will give them |
//! | 4 | programs of new ports are attached | workers know the port. What attached decides is published by the next round, which follows at once |
//! | 5 | steering of SAs | |
//! | 6 | `guard` | barriers stand before traffic depends on culvert alone |
//! | 7 | MTUs of protected destinations | before routes to new ones |
//! | 8 | `paths`, `routes`: steering and routes | what is led here is guarded and routed |
//! | 9 | `private`: what somebody took away | |
//! | 10 | the source confirms to its clients | everything above has followed |

use std::collections::BTreeSet;

use mirror::Prefix;

/// Steps for the end of the round.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Interfaces have come, gone or changed, or other ones are configured.
    pub links: bool,
    /// Linux is to be told the marks of what it gets back.
    pub marks: bool,
    /// Workers need other neighbours.
    pub neighbours: bool,
    /// Workers need other path MTUs.
    pub path_mtus: bool,
    /// Workers need another topology.
    pub topology: bool,
    /// The guard is to be set as a whole: at the start, and with another configuration.
    pub guard: bool,
    /// Routes and steering are to be set as a whole: addresses or interfaces have changed.
    pub paths: bool,
    /// Destinations that Linux has other routes to.
    pub routes: BTreeSet<Prefix>,
    /// Rules and routes of the private interface are to be looked at: some may be gone.
    pub private: bool,
}

impl Wants {
    /// Everything, as at the start.
    pub fn all() -> Wants {
        Wants {
            links: true,
            marks: true,
            neighbours: true,
            path_mtus: false,
            topology: true,
            guard: true,
            paths: true,
            routes: BTreeSet::new(),
            private: false,
        }
    }

    /// True if anything is left to be done: the next round follows at once.
    pub fn is_any(&self) -> bool {
        *self != Wants::default()
    }

    /// Reads a want, which is carried out now.
    pub fn take(want: &mut bool) -> bool {
        std::mem::take(want)
    }
}
