//! Packets that wait for tokens, or find no room to.

use io::Packet;
use limit::{Class, Waiting};
use outcome::{DropReason, Outcome};
use wire::Fields;

use crate::apply::Executor;
use crate::model::{Arrived, Handed, Meta, RateLimit, RateSlot};
use crate::packets::handoff::Peers;
use crate::view::View;

impl Executor {
    /// Has a packet wait that is under the limit of a plan.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_by_plan(
        &mut self,
        view: &View,
        (slot, until_ns): (RateSlot, u64),
        packet: Packet,
        meta: &Meta,
    ) {
        let most = self.most_waiting();
        let at = self.details.rates.queue_of(slot, most);
        let handed = Handed::Arrived(Arrived::new(&view.reader, packet, meta));
        self.wait(at, handed, meta.summary.fields, (until_ns, view.now.ns));
    }

    /// Has a packet wait that is under a limit.
    pub(crate) fn wait_for(
        &mut self,
        view: &View,
        (limit, until_ns): (&RateLimit, u64),
        handed: Handed,
        h: Fields,
    ) {
        let most = self.most_waiting();
        let at = self.details.rates.queue_for(limit, most);
        self.wait(at, handed, h, (until_ns, view.now.ns));
    }

    fn wait(
        &mut self,
        at: Option<u32>,
        handed: Handed,
        h: Fields,
        (until_ns, since_ns): (u64, u64),
    ) {
        let Executor { out, details, .. } = self;
        let (len, dscp) = (u32::from(h.total_len()), h.traffic_class() >> 2);
        let class = Class::of_dscp(dscp);
        let Some((at, queues)) = at.zip(details.rates.queues()) else {
            return out.drop(handed.into_packet(), DropReason::RateLimit);
        };
        while let Some(evicted) = queues.evict(at, class, len) {
            out.released(1);
            out.drop(evicted.into_packet(), DropReason::LimitQueueFull);
        }
        if !queues.has_room(at, class, len) {
            return out.drop(handed.into_packet(), DropReason::LimitQueueFull);
        }
        if let Some(taps) = &mut out.taps {
            taps.handed(&handed);
        }
        match queues.put(at, Waiting { item: handed, len, dscp, since_ns }, until_ns) {
            Ok(()) => out.counters.count(Outcome::Held, 1),
            Err(handed) => out.drop(handed.into_packet(), DropReason::LimitQueueFull),
        }
    }

    /// Drops all that wait: the worker goes, or gets another place.
    pub(crate) fn drop_waiting_for_tokens(&mut self) {
        let Executor { out, details, .. } = self;
        while let Some(handed) = details.rates.queues().and_then(|queues| queues.take_any()) {
            out.released(1);
            out.drop(handed.into_packet(), DropReason::LimitWait);
        }
        details.rates.forget_queues();
        // In another place it is no home.
        details.rates.end_round();
    }

    /// How many packets may wait: those of all workers together have an eighth of the frames.
    fn most_waiting(&self) -> usize {
        let workers = self.out.peers.as_ref().map_or(1, Peers::workers);
        self.out.pool.chunks() / (FRAMES_SHARE * workers)
    }
}

/// Packets that wait have one of so many frames at most.
const FRAMES_SHARE: usize = 8;
