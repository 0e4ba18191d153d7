//! Packets that wait for tokens, or find no room to.

use io::Packet;
use limit::{Class, Waiting};
use outcome::{DropReason, Outcome};
use wire::Fields;

use crate::features::hands::Hands;
use crate::features::limit::Rates;
use crate::model::{Arrived, Handed, Meta, RateLimit, RateSlot};
use crate::out::peers::Peers;
use crate::out::{AnyOut, Out};
use crate::view::View;

/// Has a packet wait that is under the limit of a plan.
#[cold]
#[inline(never)]
pub(super) fn wait_by_plan(
    rates: &mut Rates,
    hands: &mut Hands<'_>,
    (slot, until_ns): (RateSlot, u64),
    packet: Packet,
    meta: &Meta,
) {
    let at = rates.queue_of(slot, most_waiting(hands.out));
    let handed = Handed::Arrived(Arrived::new(&hands.view.reader, packet, meta));
    let times = (until_ns, hands.view.now.ns);
    wait(rates, hands.out, at, handed, meta.summary.fields, times);
}

/// Has a packet wait that is under a limit.
pub(crate) fn wait_for(
    rates: &mut Rates,
    (view, out): (&View, &mut Out),
    (limit, until_ns): (&RateLimit, u64),
    handed: Handed,
    h: Fields,
) {
    let at = rates.queue_for(limit, most_waiting(out));
    wait(rates, out, at, handed, h, (until_ns, view.now.ns));
}

fn wait(
    rates: &mut Rates,
    out: &mut Out,
    at: Option<u32>,
    handed: Handed,
    h: Fields,
    (until_ns, since_ns): (u64, u64),
) {
    let (len, dscp) = (u32::from(h.total_len()), h.traffic_class() >> 2);
    let class = Class::of_dscp(dscp);
    let Some((at, queues)) = at.zip(rates.queues()) else {
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
pub(crate) fn drop_waiting(rates: &mut Rates, out: &mut Out) {
    while let Some(handed) = rates.queues().and_then(|queues| queues.take_any()) {
        out.released(1);
        out.drop(handed.into_packet(), DropReason::LimitWait);
    }
    rates.forget_queues();
    // In another place it is no home.
    rates.end_round();
}

/// How many packets may wait: those of all workers together have an eighth of the frames.
fn most_waiting(out: &Out) -> usize {
    let workers = out.peers.as_ref().map_or(1, Peers::workers);
    out.pool.chunks() / (FRAMES_SHARE * workers)
}

/// Packets that wait have one of so many frames at most.
const FRAMES_SHARE: usize = 8;
