//! Packets into payloads, and payloads on their way.

use core::sync::atomic::Ordering::Relaxed;

use esp::Sa;
use io::{Frame, MAX_HEADROOM, Packet};
use outcome::{DropReason, Outcome};
use policy::{SaEntry, Volume};
use wire::{Fields, Span};

use super::counts::count;
use super::sender::{Building, MOST_READY, Sender, Senders, drop_payload};
use super::state::Aggfrag;
use crate::crypt::{Exit, check_volume};
use crate::features::forward::is_syn;
use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::features::seal::seal_gathered;
use crate::model::{Aggregate, Fate, Meta, TAILROOM};
use crate::out::{AnyOut, Out};
use crate::view::View;

impl Rare for Aggregate {
    type Kept = Aggfrag;

    /// As of an SA that seals packets one by one, but for its payloads, which have their own way.
    fn holds<'k>(&'k self, _aggfrag: &'k Aggfrag, asked: &Subject<'_>) -> Held<'k> {
        let Subject { reader, packet, h } = asked;
        let Some(sa) = reader.sa(self.sa) else { return Held::No };
        let live = sa.esp.live();
        let holds = h.total_len() <= self.longest
            && sa.state() == self.state
            && sa.is_below_alarms(live.bytes().load(Relaxed), live.packets().load(Relaxed))
            && (!self.is_hop || h.ttl() > 1)
            && (!self.clamps_mss || !is_syn(packet, *h));
        holds.into()
    }

    fn apply(
        &self,
        aggfrag: &mut Aggfrag,
        hands: &mut Hands<'_>,
        packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        aggfrag.aggregate(hands, self, packet, meta.summary.fields);
        None
    }

    fn explains(&self, cut: Option<usize>) -> Fate {
        Fate::Protected { cut }
    }
}

impl Aggfrag {
    /// Puts a packet into payloads of an SA. Those that are full leave, unless they have to wait for their time.
    #[inline]
    pub(crate) fn aggregate(
        &mut self,
        hands: &mut Hands<'_>,
        by: &Aggregate,
        mut packet: Packet,
        h: Fields,
    ) {
        if by.is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
            return hands.out.drop(packet, DropReason::MalformedIp);
        }
        if let Some(packet) = self.add(hands.out, by, packet, h) {
            self.aggregate_any(hands, by, packet, h);
        }
    }

    /// The same, whatever has to be done.
    #[inline(never)]
    fn aggregate_any(&mut self, hands: &mut Hands<'_>, by: &Aggregate, packet: Packet, h: Fields) {
        let Some(sa) = hands.view.reader.sa(by.sa) else {
            return hands.out.drop(packet, DropReason::OutStateExpired);
        };
        let mut senders = self.senders.take().unwrap_or_default();
        let place = senders.place(by.sa, sa);
        if let Some(sender) = senders.all.get_mut(place) {
            match self.put(hands, sender, sa, &packet, h) {
                Ok(()) => hands.out.end(packet, Outcome::Consumed),
                Err(reason) => {
                    count(sa, |counters| counters.dropped.add(1));
                    hands.out.drop(packet, reason);
                }
            }
        }
        senders.wake(place);
        self.senders = Some(senders);
    }

    /// Copies a packet into payloads.
    #[inline]
    fn put(
        &mut self,
        hands: &mut Hands<'_>,
        sender: &mut Sender,
        sa: &SaEntry<Sa>,
        packet: &Packet,
        h: Fields,
    ) -> Result<(), DropReason> {
        let view = hands.view;
        let len = usize::from(h.total_len());
        let packet = packet.data().get(..len).ok_or(DropReason::MalformedIp)?;
        let way = match sender.way {
            Some(way) if way.adjacency.is_some() => way,
            _ => sender.way(view, sa, most_payload(hands.out))?,
        };
        let capacity = way.capacity();
        if sender.waiting_bytes + len > sender.rules.max_queue_bytes as usize
            || sender.ready.len() >= MOST_READY
            || self.ready >= hands.out.pool.chunks() / READY_SHARE
        {
            return Err(sender.full());
        }
        if len > capacity && sender.rules.dont_fragment {
            return Err(DropReason::OutTooBig);
        }
        if sender.begins_anew(len, capacity) {
            self.complete(hands, sender, sa);
        }
        let mut rest = packet;
        loop {
            let building = match &mut sender.filling {
                Some(building) => building,
                none => {
                    let frame = begin_payload(hands.out).ok_or(DropReason::NoFrames)?;
                    let carried = if rest.len() == len { 0 } else { rest.len() };
                    let filling = way.filling(carried);
                    none.insert(Building::new(frame, filling, view.now.ns, h.traffic_class()))
                }
            };
            let mut filling = building.filling;
            let put = filling.put(building.bytes_mut(), rest);
            building.filling = filling;
            building.bytes += put as u32;
            sender.waiting_bytes += put;
            let is_spread = rest.len() != len;
            rest = rest.get(put..).unwrap_or_default();
            if rest.is_empty() {
                building.packets += 1;
                building.spread += u32::from(is_spread);
                break;
            }
            if put == 0 && building.filling.is_empty() {
                // No frame is so short.
                return Err(DropReason::OutNoRoom);
            }
            self.complete(hands, sender, sa);
        }
        if sender.filling.as_ref().is_some_and(|building| building.filling.room() == 0) {
            self.complete(hands, sender, sa);
        }
        Ok(())
    }

    /// The payload that is being filled takes no more: it leaves, or waits for its time.
    fn complete(&mut self, hands: &mut Hands<'_>, sender: &mut Sender, sa: &SaEntry<Sa>) {
        let Some(building) = sender.filling.take() else { return };
        match sender.pace {
            Some(_) => {
                sender.ready.push_back(building);
                self.ready += 1;
            }
            None => leave(hands, sender, sa, building),
        }
    }

    /// At the end of a round: sends what is due.
    #[inline(never)]
    pub(crate) fn send_due(&mut self, hands: &mut Hands<'_>, is_last: bool) {
        let view = hands.view;
        let Some(mut senders) = self.senders.take() else { return };
        let Senders { all, awake, .. } = &mut *senders;
        let mut has_gone = false;
        awake.retain(|place| {
            let Some(sender) = all.get_mut(*place) else { return false };
            let Some(sa) = view.reader.sa(sender.sa) else {
                has_gone = true;
                return true;
            };
            if is_last {
                let _ = sender.way(view, sa, most_payload(hands.out));
                while let Some(next) = self.next_of(sender) {
                    leave(hands, sender, sa, next);
                }
            } else {
                if sender.control.is_some() {
                    self.tend_rate(hands, sender, sa);
                }
                if sender.due_ns().is_some_and(|due_ns| due_ns <= view.now.ns) {
                    self.send_due_of(hands, sender, sa);
                }
            }
            sender.is_awake = sender.pace.is_some() || sender.filling.is_some();
            sender.is_awake
        });
        self.senders = Some(senders);
        if has_gone {
            self.sweep_senders(view, hands.out, false);
        }
    }

    /// The payload that is to leave next, complete or not.
    fn next_of(&mut self, sender: &mut Sender) -> Option<Building> {
        let ready = sender.ready.pop_front();
        self.ready -= usize::from(ready.is_some());
        ready.or_else(|| sender.filling.take())
    }

    fn send_due_of(&mut self, hands: &mut Hands<'_>, sender: &mut Sender, sa: &SaEntry<Sa>) {
        let view = hands.view;
        // Where there is no way, packets are told so by the next one.
        let way = sender.way(view, sa, most_payload(hands.out));
        let Some(pace) = &mut sender.pace else {
            if let Some(building) = sender.filling.take() {
                leave(hands, sender, sa, building);
            }
            return;
        };
        for _ in 0..pace.due(view.now.ns) {
            let next = self.next_of(sender).or_else(|| {
                // Nothing but padding.
                let filling = way.as_ref().ok()?.filling(0);
                Some(Building::new(begin_payload(hands.out)?, filling, view.now.ns, 0))
            });
            if let Some(next) = next {
                leave(hands, sender, sa, next);
            }
        }
    }

    /// Gives up what waits for SAs that are not there any more; of all, if `is_end`.
    pub(super) fn sweep_senders(&mut self, view: &View, out: &mut Out, is_end: bool) {
        let Some(mut senders) = self.senders.take() else { return };
        let Senders { all, places, awake } = &mut *senders;
        let before = all.len();
        all.retain_mut(|sender| {
            if !is_end && view.reader.sa(sender.sa).is_some() {
                return true;
            }
            let sa = view.reader.sa(sender.sa);
            self.ready -= sender.ready.len();
            for building in sender.take_all() {
                out.released(1);
                drop_payload(out, sa, building, DropReason::OutStateExpired);
            }
            false
        });
        if all.len() != before {
            places.set(all.iter().map(|sender| sender.sa));
            let each = all.iter().enumerate();
            *awake = each.filter(|(_, sender)| sender.is_awake).map(|(place, _)| place).collect();
        }
        self.senders = (!senders.all.is_empty()).then_some(senders);
    }
}

/// A frame for a payload, which is a packet that the worker makes and holds.
fn begin_payload(out: &mut Out) -> Option<Frame> {
    let frame = out.pool.take()?;
    out.counters.generated.add(1);
    out.counters.count(Outcome::Held, 1);
    Some(frame)
}

/// The longest payload that a frame has room for, in bytes.
pub(super) fn most_payload(out: &Out) -> usize {
    out.pool.chunk_len().saturating_sub(MAX_HEADROOM + TAILROOM)
}

/// Seals a payload.
fn leave(hands: &mut Hands<'_>, sender: &mut Sender, sa: &SaEntry<Sa>, mut building: Building) {
    let view = hands.view;
    sender.waiting_bytes = sender.waiting_bytes.saturating_sub(building.bytes as usize);
    hands.out.released(1);
    let live = sa.esp.live();
    if !sa.is_below_alarms(live.bytes().load(Relaxed), live.packets().load(Relaxed))
        || !sa.state().is_usable()
    {
        let volume = check_volume(sa);
        hands.out.reports.volume(sa.config.id(), volume);
        if matches!(volume, Volume::HardReached | Volume::Unusable) {
            return drop_payload(hands.out, Some(sa), building, DropReason::OutStateExpired);
        }
    }
    let Some(way) = sender.way else {
        return drop_payload(hands.out, Some(sa), building, DropReason::NoRoute);
    };
    count(sa, |counters| {
        counters.packets.add(building.packets.into());
        counters.spread.add(building.spread.into());
        counters.padding.add(building.filling.is_empty().into());
        counters.leave(view.now.ns.saturating_sub(building.since_ns));
    });
    let (filling, is_padded) = (building.filling, sender.pace.is_some());
    let report = sender.control.as_mut().map(|control| control.header(view.now.ns));
    let len = filling.finish_with(building.bytes_mut(), is_padded, report);
    let start = building.frame.headroom();
    let packet = Packet { frame: building.frame, span: Span { start, len } };
    // No mark of congestion of one packet is that of all, and at a constant rate packets tell nothing.
    let class = if is_padded { sender.class() } else { building.class & !ECN };
    // One that was filled for a longer path is cut.
    let is_short = sa.esp.sealed_len(len, 0) <= way.to.mtu;
    let h = Fields::opaque(len as u16, class, is_short); // less than a frame
    let exit = match way.adjacency.as_ref().filter(|_| is_short) {
        Some(adjacency) => Exit::Ready(adjacency),
        None => Exit::To(&way.to),
    };
    if hands.crypt.seals.is_full() {
        seal_gathered(view, hands.turn, hands.crypt, hands.out);
    }
    let (of, at) = ((sender.sa, sa), (view.now.wall_s, hands.turn));
    let gathered = hands.crypt.seals.gather(packet, h, of, way.to.mtu, exit, at);
    if let Err((packet, reason)) = gathered {
        hands.out.drop(packet, reason);
    }
}

/// The ECN field's bits in the traffic class.
const ECN: u8 = 0b11;

/// Payloads that wait for their time have one of so many frames at most.
const READY_SHARE: usize = 8;
