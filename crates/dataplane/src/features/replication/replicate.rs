//! A packet leaves twice, with one number; or once, and is of a group whose parity follows.

use io::{MIN_HEADROOM, Packet};
use outcome::{DropReason, Outcome};
use preof::{Numbered, Outside, overhead};
use wire::Span;

use super::Recoveries;
use super::groups::GroupWay;
use crate::features::forward::is_syn;
use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::model::{Fate, Ingress, Meta, Replicate, TAILROOM};
use crate::out::overlays::entropy;
use crate::out::{AnyOut, Out};
use crate::tables::replication::{Beside, CopyWay};

impl Rare for Replicate {
    type Kept = Recoveries;

    /// The databases are as they were when both ways were asked about, and the packet fits both.
    fn holds<'k>(&'k self, kept: &'k Recoveries, asked: &Subject<'_>) -> Held<'k> {
        let Subject { packet, h, .. } = asked;
        let is_for_slow = self.generation != kept.generation
            || h.total_len() > self.longest
            || self.is_hop && h.ttl() <= 1
            || self.clamps_mss && is_syn(packet, *h);
        (!is_for_slow).into()
    }

    fn apply(
        &self,
        kept: &mut Recoveries,
        hands: &mut Hands<'_>,
        mut packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        let (view, out, h) = (hands.view, &mut *hands.out, meta.summary.fields);
        let Some(replication) = view.steering.replication(self.set) else {
            out.drop(packet, DropReason::NoPath);
            return None;
        };
        if self.is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
            out.drop(packet, DropReason::MalformedIp);
            return None;
        }
        let (numbered, src_port) = replication.streams.next(entropy(&meta.summary.flow));
        let first = &replication.way;
        let class = h.traffic_class();
        let outside = |way: &CopyWay| Outside { src: way.src, dst: way.dst, class, src_port };
        let second = match &replication.beside {
            Beside::Copy(second) => second,
            Beside::Parity(plan) => {
                // Parity is not told of congestion: ECN is of the packets alone.
                let class = class & !wire::ECN_MASK;
                let outside = Outside { class, ..outside(first) };
                let far = replication.streams.removal().by;
                let way = GroupWay { far, ifindex: first.ifindex, outside };
                let at = (numbered, packet.data().get(..h.total_len().into()).unwrap_or_default());
                let complete = kept.groups.add(out, at, way, (*plan, view.now.ns));
                let class = h.traffic_class();
                send(out, packet, numbered, (first, Outside { class, ..outside }));
                if let Some(complete) = complete {
                    kept.groups.close(out, complete);
                }
                return None;
            }
        };
        let twin = twin(out, &packet, overhead(second.dst));
        send(out, packet, numbered, (first, outside(first)));
        if let Some(twin) = twin {
            let work = &out.counters.work;
            work.copies_made.add(1);
            work.copies_made_bytes.add(h.total_len().into());
            send(out, twin, numbered, (second, outside(second)));
        }
        None
    }

    fn explains(&self, cut: Option<usize>) -> Fate {
        Fate::Protected { cut }
    }
}

/// Puts the headers on a copy, which goes on as one that Linux has sent on the way's tunnel interface.
fn send(out: &mut Out, mut packet: Packet, by: Numbered, (way, outside): (&CopyWay, Outside)) {
    let overhead = overhead(way.dst);
    packet.make_room(overhead + MIN_HEADROOM, TAILROOM);
    let Some(start) = packet.span.start.checked_sub(overhead) else {
        return out.drop(packet, DropReason::OutNoRoom);
    };
    packet.span = Span { start, len: packet.span.len + overhead };
    match by.emit(outside, packet.data_mut()) {
        true => out.between.push(packet, Ingress::of_linux(way.ifindex, 0)),
        false => out.drop(packet, DropReason::OutNoRoom),
    }
}

/// The packet once more, with room for headers in front. `None` if there is no buffer for it, which is counted: the first
/// one goes alone.
fn twin(out: &mut Out, packet: &Packet, overhead: usize) -> Option<Packet> {
    out.counters.generated.add(1);
    let made = out.pool.take().and_then(|frame| {
        let span = Span { start: frame.headroom() + overhead, len: packet.span.len };
        let mut twin = Packet { frame, span };
        let is_room = span.end() + TAILROOM <= twin.frame.bytes().len();
        match twin.frame.bytes_mut().get_mut(span.range()).filter(|_| is_room) {
            Some(place) => {
                place.copy_from_slice(packet.data());
                Some(twin)
            }
            None => {
                out.pool.put_packet(twin);
                None
            }
        }
    });
    if made.is_none() {
        out.counters.count(Outcome::Dropped(DropReason::NoFrames), 1);
    }
    made
}
