//! Payloads in their order: one receiver for each inbound SA. What is inside moves on as what the SA has decrypted.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use esp::Sa;
use io::{BURST_LEN, Packet};
use iptfs::{Deaggregator, Found, Late, Window};
use outcome::{DropReason, Outcome};
use policy::{SaEntry, SaHandle};

use super::unpack::Unpack;
use super::watch::Watch;
use super::{Places, count};
use crate::apply::Executor;
use crate::burst::{Misses, Path};
use crate::crypt::opens::OpenWork;
use crate::model::{Ingress, Metas, Payload};
use crate::slow::Slow;
use crate::view::View;

/// A payload that was decrypted by this work.
pub(super) fn payload_of(packet: Packet, work: &OpenWork) -> Payload {
    let (number, class) = (work.opening.seq, work.outer_class());
    Payload { packet, sa: work.sa, number, ifindex: work.ifindex(), class }
}

/// The receivers of one worker.
#[derive(Default)]
pub(super) struct Receivers {
    all: Vec<Receiver>,
    places: Places,
    /// Payloads whose turn has come.
    in_order: VecDeque<Payload>,
    /// Packets that came out of one payload, and what they are classified into.
    inner: Vec<Packet>,
    metas: Box<Metas>,
}

/// What takes the payloads of one SA.
struct Receiver {
    sa: SaHandle,
    window: Window<Payload>,
    pieces: Deaggregator,
    /// The packet of which pieces are missing, and when the last of them came.
    partial: Option<Packet>,
    since_ns: u64,
    wait_ns: u64,
    /// Of an SA whose rate heeds losses.
    watch: Option<Box<Watch>>,
}

/// Payloads of one SA that wait for a missing one, at most: each has a frame.
const MOST_EARLY: u16 = 256;

impl Receiver {
    fn new(view: &View, sa: SaHandle, entry: &SaEntry<Sa>) -> Receiver {
        let rules = entry.config.iptfs.as_deref().copied().unwrap_or_default();
        let wait_ns = u64::from(rules.drop_time_us) * 1_000;
        Receiver {
            sa,
            window: Window::new(rules.reorder_window.min(MOST_EARLY), wait_ns),
            pieces: Deaggregator::default(),
            partial: None,
            since_ns: 0,
            wait_ns,
            watch: Watch::new(view, entry),
        }
    }

    fn pieces_due_ns(&self) -> Option<u64> {
        self.partial.as_ref().map(|_| self.since_ns.saturating_add(self.wait_ns))
    }

    fn due_ns(&self) -> Option<u64> {
        self.window.due_ns().into_iter().chain(self.pieces_due_ns()).min()
    }
}

impl Receivers {
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.all.iter().filter_map(Receiver::due_ns).min()
    }

    /// The place of an SA's receiver, which is made with its first payload.
    #[inline]
    fn place(&mut self, view: &View, sa: SaHandle, entry: &SaEntry<Sa>) -> usize {
        match self.places.get(sa) {
            Some(place) => place,
            None => self.add(view, sa, entry),
        }
    }

    #[cold]
    fn add(&mut self, view: &View, sa: SaHandle, entry: &SaEntry<Sa>) -> usize {
        let place = self.all.len();
        self.all.push(Receiver::new(view, sa, entry));
        self.places.add(sa, place);
        place
    }
}

impl Slow {
    /// Takes the payloads apart that have arrived, and moves on what was inside. No other stage is at work.
    #[inline(never)]
    pub(crate) fn move_on_payloads(&mut self, path: &mut Path) {
        let mut receivers = path.exec.aggfrag.receivers.take().unwrap_or_default();
        while let Some(payload) = path.exec.aggfrag.arrived.pop_front() {
            path.exec.put_in_order(&path.view, &mut receivers, payload);
            self.move_on_in_order(path, &mut receivers);
        }
        path.exec.aggfrag.receivers = Some(receivers);
    }

    /// Gives up payloads and pieces that were waited for long enough; all, if `is_last`.
    pub(crate) fn expire_payloads(&mut self, path: &mut Path, is_last: bool) {
        let Some(mut receivers) = path.exec.aggfrag.receivers.take() else { return };
        let now_ns = path.view.now.ns;
        for place in 0..receivers.all.len() {
            let Receivers { all, in_order, .. } = &mut *receivers;
            let Some(Receiver { sa, window, .. }) = all.get_mut(place) else { break };
            let deliver = |_, payload| in_order.push_back(payload);
            let missing =
                if is_last { window.drain(deliver) } else { window.expire(now_ns, deliver) };
            if let Some(sa) = path.view.reader.sa(*sa) {
                count(sa, |counters| counters.missing.add(missing));
            }
            self.move_on_in_order(path, &mut receivers);
            let gone = receivers.all.get_mut(place).filter(|receiver| {
                receiver.pieces_due_ns().is_some_and(|due_ns| is_last || due_ns <= now_ns)
            });
            gone.into_iter().for_each(|receiver| path.exec.give_up_pieces(&path.view, receiver));
        }
        path.exec.aggfrag.receivers = Some(receivers);
    }

    /// Takes apart the payloads whose turn it is.
    fn move_on_in_order(&mut self, path: &mut Path, receivers: &mut Receivers) {
        while let Some(payload) = receivers.in_order.pop_front() {
            let of = (payload.sa, payload.ifindex);
            path.exec.take_apart(&path.view, receivers, payload);
            while !receivers.inner.is_empty() {
                self.move_on_inner(path, receivers, of);
            }
        }
    }

    /// Moves on what came out of a payload of an SA, which came in by an interface, a burst at a time.
    fn move_on_inner(
        &mut self,
        path: &mut Path,
        receivers: &mut Receivers,
        (sa, ifindex): (SaHandle, u32),
    ) {
        let Receivers { inner, metas, .. } = receivers;
        let count = inner.len().min(BURST_LEN);
        if path.exec.crypt.opens.room() < count {
            path.open_gathered(self);
        }
        let has_rules = !path.view.topology.mark_rules.is_empty();
        let ingress = Ingress::of_sa(ifindex, sa);
        for (packet, meta) in inner.iter().zip(metas.places(count)) {
            match path.meta_of_packet(packet, meta) {
                Ok(()) => {
                    meta.enter(ingress, true);
                    if has_rules {
                        meta.ingress.mark = path.view.topology.mark(ifindex, &meta.summary);
                    }
                }
                Err(_) => meta.end = Some(DropReason::InInnerHeader.into()),
            }
        }
        path.look_for(metas);
        if path.exec.out.taps.is_some() {
            inner.iter().zip(metas.iter()).for_each(|(packet, meta)| path.tap_inner(packet, meta));
        }
        path.enter_in_order(self, inner.drain(..count), metas);
    }
}

impl Path {
    /// Moves on what was decrypted where payloads are among it.
    #[cold]
    #[inline(never)]
    pub(crate) fn enter_but_payloads(
        &mut self,
        misses: &mut impl Misses,
        packets: &mut ArrayVec<Packet, BURST_LEN>,
        works: &[OpenWork],
        metas: &Metas,
    ) {
        self.exec.aggfrag.has_new = false;
        for ((packet, work), meta) in packets.drain(..).zip(works).zip(metas.iter()) {
            if meta.end != Some(Outcome::Consumed) || !work.content.is_ok_and(|c| c.is_aggfrag()) {
                self.enter_any(misses, packet, meta, None);
                self.unwrap_last(misses);
            } else if meta.outers().is_some() {
                // No policy asks for IP-TFS inside of another SA.
                self.exec.out.drop(packet, DropReason::InNesting);
            } else {
                self.exec.keep_payload(packet, work);
            }
        }
    }
}

impl Executor {
    /// Gives a payload to its SA's window.
    fn put_in_order(&mut self, view: &View, receivers: &mut Receivers, payload: Payload) {
        let Some(sa) = view.reader.sa(payload.sa) else {
            return self.end_payload(payload.packet, DropReason::InStateExpired.into());
        };
        let place = receivers.place(view, payload.sa, sa);
        let Receivers { all, in_order, .. } = receivers;
        let Some(Receiver { window, watch, .. }) = all.get_mut(place) else { return };
        if let Some(watch) = watch {
            let of = (payload.number, payload.class, payload.packet.data());
            self.watch(view, watch, sa, of);
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
                self.end_payload(payload.packet, DropReason::InIptfsLate.into());
            }
        }
    }

    /// Makes packets of a payload.
    fn take_apart(&mut self, view: &View, receivers: &mut Receivers, payload: Payload) {
        let Payload { packet, sa: handle, number, class, .. } = payload;
        let Some(sa) = view.reader.sa(handle) else {
            return self.end_payload(packet, DropReason::InStateExpired.into());
        };
        let place = receivers.place(view, handle, sa);
        let Receivers { all, inner, .. } = receivers;
        let Some(Receiver { pieces, partial, since_ns, .. }) = all.get_mut(place) else { return };
        let mut unpack = Unpack {
            out: &mut self.out,
            large: self.fragments.as_deref_mut().and_then(|fragments| fragments.large()),
            inner,
            partial,
            sa: &sa.esp,
            class,
        };
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
        self.end_payload(packet, outcome);
    }

    fn end_payload(&mut self, packet: Packet, outcome: Outcome) {
        self.out.released(1);
        self.out.end(packet, outcome);
    }

    /// Gives up the packet of which pieces are missing.
    fn give_up_pieces(&mut self, view: &View, receiver: &mut Receiver) {
        receiver.pieces = Deaggregator::default();
        if let Some(partial) = receiver.partial.take() {
            self.end_payload(partial, DropReason::InIptfsIncomplete.into());
            if let Some(sa) = view.reader.sa(receiver.sa) {
                count(sa, |counters| counters.dropped.add(1));
            }
        }
    }

    /// Gives up what is of SAs that are not there any more; of all, if `is_end`.
    pub(super) fn sweep_receivers(&mut self, view: &View, is_end: bool) {
        let Some(mut receivers) = self.aggfrag.receivers.take() else { return };
        let before = receivers.all.len();
        receivers.all.retain_mut(|receiver| {
            if !is_end && view.reader.sa(receiver.sa).is_some() {
                return true;
            }
            self.give_up_pieces(view, receiver);
            let mut gone = ArrayVec::<Packet, { MOST_EARLY as usize }>::new();
            // As many as wait.
            receiver.window.drain(|_, payload: Payload| drop(gone.try_push(payload.packet)));
            for packet in gone {
                self.end_payload(packet, DropReason::InStateExpired.into());
            }
            false
        });
        if receivers.all.len() != before {
            let Receivers { all, places, .. } = &mut *receivers;
            places.set(all.iter().map(|receiver| receiver.sa));
        }
        self.aggfrag.receivers = (!receivers.all.is_empty()).then_some(receivers);
    }
}
