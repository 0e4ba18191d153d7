//! The parts of the daemon, for those who answer questions about them.

use config::Config;

use crate::clock::Now;
use crate::life::Life;
use crate::linux::Linux;
use crate::offload::Offload;
use crate::sa::Sas;
use crate::workers::Crew;

/// The parts that answers read, and the time of the answer.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'d> {
    /// Time of the round.
    pub(crate) now: Now,
    /// The configuration in force.
    pub(crate) config: &'d Config,
    /// Linux's network state.
    pub(crate) linux: &'d Linux,
    /// SAs and policies.
    pub(crate) sa: &'d Sas,
    /// Offload devices, and SAs in them.
    pub(crate) offload: &'d Offload,
    /// Workers, and what they are given.
    pub(crate) crew: &'d Crew,
    /// The process, its rights and its end.
    pub(crate) life: &'d Life,
}

impl Parts<'_> {
    /// True if policies with an `if_id` are carried out: by a tunnel interface, or by the owner's own.
    pub(crate) fn carries_if_id(&self, if_id: u32) -> bool {
        self.sa.source.carries_if_ids() || self.linux.tunnels.ifindex(if_id).is_some()
    }
}
