//! Misses: packets whose flow has no plan are resolved, the plan is kept, and carried out.
//!
//! | packets | file |
//! | --- | --- |
//! | that were resolved | `carry_out.rs`, in steps: `claim.rs`, `limited.rs`, `remember.rs`, `drafts.rs` |
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
mod path_errors;
mod payloads;
mod remember;
mod seal_on;
mod segment_errors;
mod stepped;
mod waited;

use std::sync::Arc;

use esp::Sa;
use io::Packet;
use policy::SaEntry;

use crate::burst::{Misses, Path};
use crate::features::limit::Grant;
use crate::host_limits::HostLimits;
use crate::model::Meta;
use crate::out::{AnyOut, Out};
use crate::resolve::resolve_arrival;
pub(crate) use alone::Alone;
pub(crate) use claim::{ask_for_own, claim};
pub(crate) use drafts::apply;
use entered::{Entered, Resolved};
use errors::Errors;
use hold::SaQueue;
pub(crate) use looked::counters_for_helper;
pub(crate) use remember::remember;

/// The slow path of one worker.
pub(crate) struct Slow {
    waiting: SaQueue,
    errors: Errors,
}

impl Misses for Slow {
    #[inline(always)]
    fn takes_all(&self) -> bool {
        false
    }

    #[inline(never)]
    fn miss(&mut self, path: &mut Path, packet: Packet, meta: &Meta, held: Option<&SaEntry<Sa>>) {
        self.resolve_miss(path, (packet, None), meta, held);
    }
}

impl Slow {
    /// Resolves a packet that has no plan, with the tokens that it has got if it has waited for some.
    #[inline(always)]
    fn resolve_miss(
        &mut self,
        path: &mut Path,
        (packet, grant): (Packet, Option<Grant>),
        meta: &Meta,
        held: Option<&SaEntry<Sa>>,
    ) {
        let h = match wire::parse_ip(packet.data()) {
            Ok(h) => h,
            // It parsed when it was classified.
            Err(error) => return path.exec.out.drop(packet, error.into()),
        };
        let decided = resolve_arrival(&path.view, packet.data(), &h, meta, held);
        path.exec
            .out
            .counters
            .work
            .flow_misses
            .add(u64::from(!decided.decision.is_counted_later()));
        self.carry_out(
            path,
            decided,
            Resolved { packet, h: &h, entered: Entered::Arrived(meta, None), grant },
        );
    }
}

impl Slow {
    pub(crate) fn new(shared: Arc<HostLimits>, workers: usize) -> Slow {
        Slow { waiting: SaQueue::new(workers), errors: Errors::new(shared) }
    }

    /// True if packets wait for an SA.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// True if errors wait to be sent.
    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Drops what has waited for an SA in vain.
    pub(crate) fn expire(&mut self, path: &mut Path) {
        self.waiting.expire(&mut path.exec.out, path.view.now.ns);
    }

    /// Takes over what waits for an SA in another slow path.
    pub(crate) fn adopt(&mut self, from: &mut Slow, out: &mut Out, now_ns: u64) {
        self.waiting.adopt(&mut from.waiting, out, now_ns);
    }

    /// Drops all that waits for an SA.
    pub(crate) fn drop_waiting(&mut self, out: &mut Out) {
        self.waiting.drop_waiting(out);
    }
}
