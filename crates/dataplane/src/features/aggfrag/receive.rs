//! Payloads in their order. What is inside moves on as what the SA has decrypted.

use arrayvec::ArrayVec;
use io::{FramePool, Packet};
use iptfs::{Deaggregator, Found, Late};
use outcome::{DropReason, Outcome};

use super::counts::count;
use super::receivers::{MOST_EARLY, Receiver, Receivers};
use super::state::Aggfrag;
use super::unpack::Unpack;
use crate::features::hands::Hands;
use crate::model::Payload;
use crate::out::{AnyOut, Out};
use crate::view::View;

impl Aggfrag {
    /// Gives a payload to its SA's window.
    pub(crate) fn put_in_order(
        &mut self,
        hands: &mut Hands<'_>,
        receivers: &mut Receivers,
        payload: Payload,
    ) {
        let view = hands.view;
        let Some(sa) = view.reader.sa(payload.sa) else {
            return end_payload(hands.out, payload.packet, DropReason::InStateExpired.into());
        };
        let place = receivers.place(view, payload.sa, sa);
        let Receivers { all, in_order, .. } = receivers;
        let Some(Receiver { window, watch, .. }) = all.get_mut(place) else { return };
        if let Some(watch) = watch {
            let of = (payload.number, payload.class, payload.packet.data());
            self.watch(hands, watch, sa, of);
        }
        let waited = window.len();
        let deliver = |_, payload| in_order.push_back(payload);
        match window.push(payload.number, payload, view.now.ns, deliver) {
            Ok(missing) => count(sa, |counters| {
                counters.missing.add(missing);
                counters.early.add((window.len() > waited).into());
            }),
            Err(Late(payload)) => {
                count(sa, |counters| counters.late.add(1));
                end_payload(hands.out, payload.packet, DropReason::InIptfsLate.into());
            }
        }
    }

    /// Gives up what is of SAs that are not there any more; of all, if `is_end`.
    pub(super) fn sweep_receivers(&mut self, view: &View, out: &mut Out, is_end: bool) {
        let Some(mut receivers) = self.receivers.take() else { return };
        let before = receivers.all.len();
        receivers.all.retain_mut(|receiver| {
            if !is_end && view.reader.sa(receiver.sa).is_some() {
                return true;
            }
            give_up_pieces(view, out, receiver);
            let mut gone = ArrayVec::<Packet, { MOST_EARLY as usize }>::new();
            // As many as wait.
            receiver.window.drain(|_, payload: Payload| drop(gone.try_push(payload.packet)));
            for packet in gone {
                end_payload(out, packet, DropReason::InStateExpired.into());
            }
            false
        });
        if receivers.all.len() != before {
            let Receivers { all, places, .. } = &mut *receivers;
            places.set(all.iter().map(|receiver| receiver.sa));
        }
        self.receivers = (!receivers.all.is_empty()).then_some(receivers);
    }
    /// Gives up what is of SAs that are not there any more; all, if `is_end`: SAs have other homes from now on, or the
    /// worker goes.
    pub(crate) fn sweep(&mut self, view: &View, out: &mut Out, is_end: bool) {
        self.sweep_senders(view, out, is_end);
        self.sweep_receivers(view, out, is_end);
    }
}

impl Receivers {
    /// Has the payloads of the receiver at a place go on that have waited for a missing one long enough, or all. False
    /// if there is no such place.
    pub(crate) fn expire_at(&mut self, view: &View, place: usize, is_last: bool) -> bool {
        let Receivers { all, in_order, .. } = self;
        let Some(Receiver { sa, window, .. }) = all.get_mut(place) else { return false };
        let deliver = |_, payload| in_order.push_back(payload);
        let missing =
            if is_last { window.drain(deliver) } else { window.expire(view.now.ns, deliver) };
        if let Some(sa) = view.reader.sa(*sa) {
            count(sa, |counters| counters.missing.add(missing));
        }
        true
    }

    /// Gives up the packet of which pieces were waited for long enough, or anyway, by the receiver at a place.
    pub(crate) fn give_up_at(
        &mut self,
        (view, out): (&View, &mut Out),
        place: usize,
        is_last: bool,
    ) {
        let gone = self.all.get_mut(place).filter(|receiver| {
            receiver.pieces_due_ns().is_some_and(|due_ns| is_last || due_ns <= view.now.ns)
        });
        gone.into_iter().for_each(|receiver| give_up_pieces(view, out, receiver));
    }
}

/// Makes packets of a payload.
pub(crate) fn take_apart(
    receivers: &mut Receivers,
    (view, out): (&View, &mut Out),
    large: Option<&mut FramePool>,
    payload: Payload,
) {
    let Payload { packet, sa: handle, number, class, .. } = payload;
    let Some(sa) = view.reader.sa(handle) else {
        return end_payload(out, packet, DropReason::InStateExpired.into());
    };
    let place = receivers.place(view, handle, sa);
    let Receivers { all, inner, .. } = receivers;
    let Some(Receiver { pieces, partial, since_ns, .. }) = all.get_mut(place) else { return };
    let mut unpack = Unpack { out: &mut *out, large, inner, partial, sa: &sa.esp, class };
    let found = pieces.payload(number, packet.data(), &mut unpack);
    *since_ns = view.now.ns;
    let Found { whole, joined, given_up, is_padding, fault, .. } = found;
    count(sa, |counters| {
        counters.payloads.add(1);
        counters.packets.add((whole + joined).into());
        counters.spread.add(joined.into());
        counters.padding.add(is_padding.into());
        counters.dropped.add(given_up.into());
        counters.faulty.add(fault.is_some().into());
    });
    let outcome = match fault {
        None => Outcome::Consumed,
        Some(_) => DropReason::InIptfs.into(),
    };
    end_payload(out, packet, outcome);
}

fn end_payload(out: &mut Out, packet: Packet, outcome: Outcome) {
    out.released(1);
    out.end(packet, outcome);
}

/// Gives up the packet of which pieces are missing.
fn give_up_pieces(view: &View, out: &mut Out, receiver: &mut Receiver) {
    receiver.pieces = Deaggregator::default();
    if let Some(partial) = receiver.partial.take() {
        end_payload(out, partial, DropReason::InIptfsIncomplete.into());
        if let Some(sa) = view.reader.sa(receiver.sa) {
            count(sa, |counters| counters.dropped.add(1));
        }
    }
}
