//! SRv6: packets between two steps, and what a headend makes.

use std::sync::Arc;

use esp::Sa;
use io::Packet;
use policy::SaEntry;
use srv6::Refusal;
use wire::Family;

use crate::model::{Ingress, Metas};

/// Packets that one headend makes of those of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// The headend's number among the routes with segments.
    pub(crate) number: usize,
    /// Of what is inside.
    pub(crate) inner: Family,
}

/// A packet that its step has refused.
pub(crate) struct RefusedStep {
    pub(crate) packet: Packet,
    pub(crate) ingress: Ingress,
    pub(crate) refusal: Refusal,
}

/// Packets that a burst has left between two steps.
#[derive(Default)]
pub(crate) struct Between {
    /// Packets that go on, as ones that came in by their functions' indices.
    pub(crate) on: Vec<Packet>,
    /// How those came in, one for each.
    pub(crate) came: Vec<Ingress>,
    /// The SAs that they were decrypted by, one for each, of those that have waited: they may be removed meanwhile.
    pub(crate) held: Vec<Option<Arc<SaEntry<Sa>>>>,
    /// Packets that were refused.
    pub(crate) refused: Vec<RefusedStep>,
    has_wrapped: bool,
}

/// Memory for the work on packets between two steps.
#[derive(Default)]
pub(crate) struct SteppedScratch {
    pub(crate) between: Between,
    pub(crate) metas: Metas,
}

impl Between {
    /// True if there are no packets.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.on.is_empty() && self.refused.is_empty()
    }

    /// True if some packets have got segments here.
    #[inline(always)]
    pub(crate) fn has_wrapped(&self) -> bool {
        self.has_wrapped
    }

    /// Takes them, and leaves the memory of `into`, which is empty.
    pub(crate) fn swap(&mut self, into: &mut Between) {
        core::mem::swap(self, into);
        self.has_wrapped = false;
    }

    #[inline]
    pub(crate) fn push(&mut self, packet: Packet, ingress: Ingress) {
        self.push_held(packet, ingress, None);
    }

    /// A packet that may have waited, with the SA that it was decrypted by.
    #[inline]
    pub(crate) fn push_held(
        &mut self,
        packet: Packet,
        ingress: Ingress,
        held: Option<Arc<SaEntry<Sa>>>,
    ) {
        self.on.push(packet);
        self.came.push(ingress);
        self.held.push(held);
    }

    /// A packet that has got segments.
    pub(crate) fn push_wrapped(&mut self, packet: Packet, ingress: Ingress) {
        self.has_wrapped = true;
        self.push(packet, ingress);
    }
}
