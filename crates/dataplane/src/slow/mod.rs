//! Misses: packets whose flow has no plan are resolved, the plan is kept, and carried out.
//!
//! | packets | file |
//! | --- | --- |
//! | without a plan | `miss.rs` |
//! | that were resolved | `carry_out.rs`, in steps: `claim.rs`, `limited.rs`, `remember.rs`, `drafts.rs` |
//! | of flows whose application is not known | `looked.rs` |
//! | held for an SA | `hold.rs`, and `again.rs` once it is there |
//! | ICMP errors of this host | `errors.rs`, and `again.rs` when they go |
//! | ICMP errors about what this host has sent | `path_errors.rs`, `segment_errors.rs` |
//! | put together of fragments, or told the first one's ports | `gathered.rs`, `fragments.rs` |
//! | out of payloads of IP-TFS | `payloads.rs` |
//! | between two steps of SRv6 | `stepped.rs` |
//! | back from devices | `from_devices.rs` |
//! | of other workers | `handed.rs`, `seal_on.rs`; those that are judged here or there: `judged.rs` |
//! | that have waited for tokens | `waited.rs` |
//! | that a helper has left | `left.rs` |

mod again;
mod alone;
mod bfd;
mod carry_out;
mod claim;
mod drafts;
mod entered;
mod errors;
mod fragments;
mod from_devices;
mod gathered;
mod handed;
mod hold;
mod judged;
mod left;
mod limited;
mod looked;
mod miss;
mod path_errors;
mod paths;
mod payloads;
mod remember;
mod seal_on;
mod segment_errors;
mod stepped;
mod waited;

use std::sync::Arc;

use crate::burst::Path;
use crate::host_limits::HostLimits;
use crate::out::Out;
pub(crate) use alone::Alone;
pub(crate) use claim::{ask_for_own, claim};
pub(crate) use drafts::apply;
use errors::Errors;
use hold::SaQueue;
pub(crate) use looked::counters_for_helper;
pub(crate) use remember::remember;

/// The slow path of one worker, while that has the turn: [`Alone`] has it from [`Resting`].
pub(crate) struct Slow {
    waiting: SaQueue,
    errors: Errors,
}

/// The slow path of one worker. It moves no packet on: helpers may have the turn.
pub(crate) struct Resting(Slow);

impl Resting {
    pub(crate) fn new(shared: Arc<HostLimits>, workers: usize) -> Resting {
        Resting(Slow { waiting: SaQueue::new(workers), errors: Errors::new(shared) })
    }

    /// True if packets wait for an SA.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.0.waiting.is_empty()
    }

    /// True if errors wait to be sent.
    pub(crate) fn has_errors(&self) -> bool {
        !self.0.errors.is_empty()
    }

    /// Drops what has waited for an SA in vain.
    pub(crate) fn expire(&mut self, path: &mut Path) {
        self.0.waiting.expire(&mut path.exec.out, path.view.now.ns);
    }

    /// Takes over what waits for an SA in another slow path.
    pub(crate) fn adopt(&mut self, from: &mut Resting, out: &mut Out, now_ns: u64) {
        self.0.waiting.adopt(&mut from.0.waiting, out, now_ns);
    }

    /// Drops all that waits for an SA.
    pub(crate) fn drop_waiting(&mut self, out: &mut Out) {
        self.0.waiting.drop_waiting(out);
    }
}
