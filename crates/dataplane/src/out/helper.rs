//! The exit of a helper: it has no ports, so what becomes of a packet is noted in the burst at hand, for the worker to carry out.

use std::sync::Arc;

use esp::IvSource;
use io::{FramePool, Packet};
use outcome::{DropReason, Outcome};

use crate::capture::Taps;
use crate::counters::Counters;
use crate::model::{FIRST_VLAN_SLOT, Handed, Ingress, Left, Meta, NextHop, Payload, Towards};
use crate::out::any::AnyOut;
use crate::out::batch::Batch;
use crate::out::dress::Dress;
use crate::out::dressed::send_dressed;
use crate::out::reports::Reports;
use crate::view::View;

/// The burst at hand, and what a helper has for itself of an exit.
pub(crate) struct HelperOut {
    counters: Arc<Counters>,
    pool: FramePool,
    pub(crate) reports: Reports,
    dress: Dress,
    /// The burst at hand; an empty one between two bursts.
    pub(crate) batch: Box<Batch>,
}

impl HelperOut {
    /// With frames and reports of its own; `lane` is where it counts VLANs' frames.
    pub(crate) fn new(pool: FramePool, reports: Reports, lane: usize) -> HelperOut {
        HelperOut {
            counters: Arc::new(Counters::default()),
            batch: Box::new(Batch::new(&pool)),
            pool,
            reports,
            dress: Dress::new(lane),
        }
    }

    /// Leaves a payload of IP-TFS to the worker.
    pub(crate) fn keep_payload(&mut self, payload: Payload) {
        self.batch.keep_payload(payload);
    }
}

impl AsMut<HelperOut> for HelperOut {
    fn as_mut(&mut self) -> &mut HelperOut {
        self
    }
}

impl AnyOut for HelperOut {
    #[inline(always)]
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn pool(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    fn reports(&mut self) -> &mut Reports {
        &mut self.reports
    }

    #[inline(always)]
    fn taps(&mut self) -> Option<&mut Taps> {
        None
    }

    fn dress(&self) -> &Dress {
        &self.dress
    }

    fn dress_mut(&mut self) -> &mut Dress {
        &mut self.dress
    }

    #[cold]
    fn end(&mut self, packet: Packet, outcome: Outcome) {
        self.batch.end(packet, outcome);
    }

    #[inline]
    fn send(&mut self, slot: usize, packet: Packet) {
        match slot < FIRST_VLAN_SLOT {
            true => self.batch.send(slot, packet.frame, packet.span),
            false => send_dressed(self, slot, packet),
        }
    }

    /// Drops it: a helper holds nothing. No packet comes here, as drafts whose next hop is not known are no flow's, and so
    /// are left to the worker.
    #[cold]
    fn send_to(&mut self, _view: &View, packet: Packet, _towards: Towards) {
        self.drop(packet, DropReason::HoldQueueFull);
    }

    /// Drops it, as one that is not sealed: its next hop is not known either.
    #[cold]
    fn send_sealed_to(&mut self, view: &View, packet: Packet, to: &NextHop, _ivs: &mut IvSource) {
        self.send_to(view, packet, to.towards());
    }

    fn give_to_linux(&mut self, packet: Packet) {
        match self.batch.private {
            Some(slot) => self.send(slot.into(), packet),
            // The worker finds out who has an interface to Linux.
            None => self.end(packet, Outcome::ToLinux),
        }
    }

    /// Drops it: a helper has no peers. What several homes seal is left to the worker.
    #[cold]
    fn hand(&mut self, _to: usize, handed: Handed) {
        self.drop(handed.into_packet(), DropReason::HandOverFull);
    }

    /// The worker hands over.
    #[cold]
    #[inline(never)]
    fn hand_over(&mut self, view: &View, _to: usize, packet: Packet, meta: &Meta) {
        self.leave(view, packet, meta);
    }

    #[cold]
    fn put_off(&mut self, view: &View, packet: Packet, meta: &Meta) {
        match view.reader.is_behind() {
            true => self.leave(view, packet, meta),
            false => self.drop(packet, DropReason::InNoState),
        }
    }

    #[cold]
    #[inline(never)]
    fn leave(&mut self, view: &View, packet: Packet, meta: &Meta) {
        let via = meta.ingress.via();
        let held = via.and_then(|via| view.reader.shared_sa(via)).map(Arc::clone);
        self.batch.leave(Left { packet, meta: meta.clone(), held });
    }

    fn keep_wrapped(&mut self, packet: Packet, ingress: Ingress) {
        self.batch.step(packet, ingress);
    }
}
