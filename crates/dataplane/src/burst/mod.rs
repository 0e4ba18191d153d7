//! The passes of a burst.
//!
//! | pass | each packet | prefetches |
//! | --- | --- | --- |
//! | 1 | is classified and hashed ([`crate::burst::classify`]) | headers; the flow's tags |
//! | 2 | is looked for in the flow cache ([`crate::flows`]) | the flow's plan |
//! | 3 | is moved on by its plan ([`crate::features`]), or is a miss | |
//!
//! Packets that are to be encrypted or decrypted are gathered, and go through [`crate::crypt`] by the burst.
//! Decrypted packets are accepted in the order of arrival, and take passes 2 and 3 again. Nothing is
//! opened while packets are moved on: [`Path::run`] makes room before. So no pass calls itself, but where IPComp is inside
//! ESP: each packet of it is unwrapped before the next one goes on, as deep as SAs are nested ([`Path::enter_in_order`]).

pub(crate) mod classify;
mod payloads;
pub(crate) mod prefetch;
mod taps;

use esp::Sa;
use io::{Burst, Packet};
use mem::Cache;
use outcome::DropReason;
use policy::SaEntry;

use crate::burst::classify::Addresses;
use crate::crypt::{Inflation, Opens};
use crate::features::{Executor, Holds, Thread, forward};
use crate::flows::FlowCache;
use crate::model::{AGAIN, Action, FlowHint, Meta, Metas, Newcomers, SOON, Source, Turn};
use crate::out::Out;
use crate::view::View;

/// The mover of bursts: one for each worker, and for each helper.
pub(crate) struct Path<O = Out> {
    pub(crate) view: View,
    pub(crate) addresses: Addresses,
    pub(crate) flows: FlowCache,
    /// Packets of this burst whose flow is not known, and which are resolved yet.
    pub(crate) newcomers: Newcomers,
    /// True if packets of all flows are resolved at any time.
    pub(crate) admits_all: bool,
    pub(crate) exec: Executor<O>,
}

/// Treatment of packets whose flow has no plan that holds.
///
/// Only a thread that has the turn has them.
pub(crate) trait Misses<O = Out> {
    /// The turn of the thread.
    fn turn(&self) -> Turn<'_>;

    /// True if packets with a plan are misses too. A packet before them was left for the worker,
    /// which takes those behind it in order.
    fn takes_all(&self) -> bool;

    /// Moves a packet on. `held` is the SA that it was decrypted by, where that may have been
    /// removed since.
    fn miss(&mut self, path: &mut Path<O>, packet: Packet, meta: &Meta, held: Option<&SaEntry<Sa>>);
}

/// Memory for the work on a burst, allocated once.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) burst: Burst,
    pub(crate) metas: Metas,
}

impl<O: Thread> Path<O> {
    pub(crate) fn new(view: View, flows: FlowCache, mut exec: Executor<O>) -> Path<O> {
        exec.out.dress_mut().load(&view.topology);
        let (addresses, newcomers) = (Addresses::new(), Newcomers::ALL);
        Path { view, addresses, flows, newcomers, admits_all: false, exec }
    }

    /// Moves each packet of a burst on.
    pub(crate) fn run(
        &mut self,
        misses: &mut impl Misses<O>,
        burst: &mut Burst,
        metas: &mut Metas,
        source: Source,
    ) {
        self.newcomers = source.newcomers;
        self.exec.crypt.inflation = Inflation::WHOLE;
        self.look_at(burst, metas, source);
        if self.exec.out.taps().is_some() {
            self.tap_burst(burst, metas, source);
        }
        if self.exec.crypt.opens.room() < burst.len() {
            self.open_gathered(misses);
        }
        let is_spread = self.exec.crypt.is_spread;
        let mut metas = metas.iter();
        for packet in burst.drain(..) {
            if is_spread && let Some(next) = metas.as_slice().get(AGAIN) {
                self.prefetch_again(next);
            }
            if is_spread
                && let Some(next) = metas.as_slice().get(SOON).filter(|next| !next.is_own_esp)
            {
                self.prefetch_counters(next);
            }
            match metas.next() {
                Some(meta) if meta.is_own_esp => self.enter_own_esp(misses, packet, meta),
                Some(meta) => self.enter(misses, packet, meta, None),
                // There are as many.
                None => self.exec.out.drop(packet, DropReason::NoFrames),
            }
        }
    }

    /// The first two passes.
    pub(crate) fn look_at(&mut self, burst: &mut Burst, metas: &mut Metas, source: Source) {
        self.classify(burst, metas, source);
        self.find(metas);
        if self.exec.crypt.is_spread {
            self.prefetch_burst(burst, metas);
        }
    }

    /// Hashes packets that were classified, and looks for them in the flow cache.
    pub(crate) fn look_for(&self, metas: &mut [Meta]) {
        for meta in metas.iter_mut() {
            meta.is_own_esp = self.addresses.is_own_esp(meta);
            (meta.tag, meta.sa) = (None, None);
            self.flows.seek(meta);
        }
        self.find(metas);
    }

    /// The second pass.
    #[inline]
    pub(crate) fn find(&self, metas: &mut [Meta]) {
        let cache = self.bulk_cache();
        for meta in metas {
            // Of those that end here too: it does no harm.
            if meta.is_sought {
                meta.place = self.flows.place(cache, meta.hash);
            }
        }
    }

    /// The third pass of any packet.
    #[inline(never)]
    pub(crate) fn enter_any(
        &mut self,
        misses: &mut impl Misses<O>,
        packet: Packet,
        meta: &Meta,
        held: Option<&SaEntry<Sa>>,
    ) {
        match meta.is_own_esp {
            true => self.enter_own_esp(misses, packet, meta),
            false => self.enter(misses, packet, meta, held),
        }
    }

    /// The third pass of bare ESP for this host, as its destination alone tells.
    #[inline(always)]
    fn enter_own_esp(&mut self, misses: &mut impl Misses<O>, packet: Packet, meta: &Meta) {
        if let Some(outcome) = meta.end {
            return self.exec.out.end(packet, outcome);
        }
        if misses.takes_all() {
            return misses.miss(self, packet, meta, None);
        }
        match self.addresses.is_known_source(&self.view, &meta.summary.flow) {
            true => self.exec.open(&self.view, packet, meta),
            false => self.exec.out.drop(packet, DropReason::MartianSource),
        }
    }

    /// The third pass of every other packet: by its flow's plan, or it is a miss.
    #[inline(always)]
    fn enter(
        &mut self,
        misses: &mut impl Misses<O>,
        packet: Packet,
        meta: &Meta,
        held: Option<&SaEntry<Sa>>,
    ) {
        if let Some(outcome) = meta.end {
            return self.exec.out.end(packet, outcome);
        }
        if misses.takes_all() {
            return misses.miss(self, packet, meta, held);
        }
        let Path { view, flows, exec, .. } = self;
        let Some(place) = meta.place.filter(|_| meta.has_flow) else {
            return self.meet(misses, packet, meta, held);
        };
        let Some(plan) = flows.at(place, &meta.key(), view) else {
            return misses.miss(self, packet, meta, held);
        };
        let h = meta.summary.fields;
        // In one match: others find out once more what the action is when they carry it out.
        if let Action::Forward(by) = &plan.action {
            if !forward::holds(by, &packet, h) {
                return misses.miss(self, packet, meta, held);
            }
            exec.out.counters().work.flow_hits.add(1);
            plan.count(view.worker, h, view.now.wall_s);
            return exec.forward(view, (by, None), packet, h);
        }
        let sa = match exec.rooms.judge(&plan.action, &view.reader, &packet, h) {
            Holds::Yes => None,
            Holds::By(sa) => Some(sa),
            Holds::No => return misses.miss(self, packet, meta, held),
        };
        exec.out.counters().work.flow_hits.add(u64::from(!plan.action.is_counted_later()));
        plan.count(view.worker, h, view.now.wall_s);
        exec.apply(view, misses.turn(), &plan.action, (sa, None), packet, meta);
    }

    /// A packet of a flow that is not known: a miss, unless there have been too many of them.
    #[inline(never)]
    fn meet(
        &mut self,
        misses: &mut impl Misses<O>,
        packet: Packet,
        meta: &Meta,
        held: Option<&SaEntry<Sa>>,
    ) {
        match self.newcomers.take() {
            true => misses.miss(self, packet, meta, held),
            false => self.exec.out.drop(packet, DropReason::NewFlowLimit),
        }
    }

    /// Decrypts what was gathered, and moves on what was inside.
    #[inline(never)]
    pub(crate) fn open_gathered(&mut self, misses: &mut impl Misses<O>) {
        // What was inside may have to be opened again; each time it is shorter.
        while let Some(work) = self.exec.crypt.take_opens() {
            self.submit_opens(work);
            while let Some(mut done) = self.exec.crypt.poll_opens() {
                self.accept_all(misses, &mut done);
                self.exec.crypt.put_back_opens(done);
            }
        }
    }

    /// Decrypts work. Writes nothing but the packets and the work itself.
    pub(crate) fn submit_opens(&mut self, mut work: Box<Opens>) {
        self.exec.crypt.note_spread(work.runs(), work.len());
        if self.exec.crypt.is_spread {
            // The flows' plans have come; their policies' counters come while the cipher computes.
            let places = work.work.iter().take(work.len()).filter_map(|work| work.hint.place());
            places.for_each(|place| {
                self.prefetch_by_plan(Cache::First, place);
            });
        }
        if self.exec.crypt.resync.is_watching {
            self.resynchronise(&mut work);
        }
        if let Some(taps) = self.exec.out.taps() {
            taps.opening(&self.view, &work);
        }
        self.exec.crypt.submit_opens(work, &self.view.reader);
    }

    /// Looks for the numbers of SAs that have lost their peer's, before work is decrypted.
    #[cold]
    fn resynchronise(&mut self, work: &mut Opens) {
        let Path { view, exec, .. } = self;
        let tried = exec.crypt.resynchronise(work, &view.reader, view.now.ns);
        exec.out.counters().work.resync_tries.add(tried.packets);
        exec.out.counters().work.resyncs.add(tried.found);
    }

    /// Accepts what has been decrypted, in the order of arrival, moves it on in passes 2 and 3, and
    /// empties the burst.
    pub(crate) fn accept_all(&mut self, misses: &mut impl Misses<O>, opens: &mut Opens) {
        let is_spread = self.exec.crypt.is_spread;
        let has_rules = !self.view.topology.mark_rules.is_empty();
        let has_taps = self.exec.out.taps().is_some();
        let Opens { packets, work, metas, .. } = opens;
        // Those of earlier bursts may follow.
        let works = work.get(..packets.len()).unwrap_or_default();
        let mut rest = works.iter();
        if is_spread {
            rest.by_ref().take(AGAIN).for_each(|next| self.prefetch_accept(next));
        }
        let each = packets.iter_mut().zip(works).zip(metas.iter_mut());
        for ((packet, work), meta) in each {
            if is_spread && let Some(next) = rest.next() {
                self.prefetch_accept(next);
            }
            if meta.end.is_none() {
                if has_rules {
                    let ifindex = meta.ingress.ifindex;
                    meta.ingress.mark = self.view.topology.mark(ifindex, &meta.summary);
                }
                self.seek(meta, work.hint);
                // Where the hint was right: its plan is near now.
                if is_spread && !meta.is_sought {
                    self.prefetch_counters(meta);
                }
            }
            if let Err(outcome) = self.exec.accept(&self.view, packet, work, misses.turn()) {
                meta.end = Some(outcome);
            }
        }
        self.find(metas);
        if is_spread {
            self.note_hints(metas, works);
        }
        if has_taps {
            self.tap_opened(packets, works, metas);
        }
        if self.exec.rooms.aggfrag.has_new() {
            return self.enter_but_payloads(misses, packets, works, metas);
        }
        if self.view.reader.has_ipcomp() {
            return self.enter_in_order(misses, packets.drain(..), metas);
        }
        let mut metas = metas.iter();
        for packet in packets.drain(..) {
            if let Some(place) = metas.as_slice().get(AGAIN).and_then(|next| next.place) {
                self.flows.prefetch_at(Cache::First, place);
            }
            match metas.next() {
                Some(meta) => self.enter(misses, packet, meta, None),
                // There are as many.
                None => self.exec.out.drop(packet, DropReason::InCrypto),
            }
        }
    }

    /// Moves on what was decrypted where it may be of IPComp: that is unwrapped before the next one goes on,
    /// as what is not compressed would overtake it otherwise. So deep as SAs are nested this calls itself.
    #[inline(never)]
    pub(crate) fn enter_in_order(
        &mut self,
        misses: &mut impl Misses<O>,
        packets: impl Iterator<Item = Packet>,
        metas: &[Meta],
    ) {
        // There are as many.
        for (packet, meta) in packets.zip(metas) {
            match meta.is_own_esp {
                true => self.enter_own_esp(misses, packet, meta),
                false => self.enter(misses, packet, meta, None),
            }
            self.unwrap_last(misses);
        }
    }

    /// Opens what was gathered if the last of it is of IPComp.
    #[inline]
    pub(crate) fn unwrap_last(&mut self, misses: &mut impl Misses<O>) {
        if self.exec.crypt.opens.is_to_unwrap() {
            self.open_gathered(misses);
        }
    }

    /// Finds the place of a decrypted packet's flow, or its hash.
    #[inline(always)]
    fn seek(&self, meta: &mut Meta, hint: FlowHint) {
        match hint.place().filter(|place| self.flows.is_of(*place, &meta.key())) {
            Some(place) => (meta.is_sought, meta.place) = (false, Some(place)),
            None => self.flows.seek(meta),
        }
    }

    /// Runs what has been gathered through the engine and out of the ports' queues.
    pub(crate) fn finish(&mut self, misses: &mut impl Misses<O>) {
        self.open_gathered(misses);
        self.exec.seal_gathered(&self.view, misses.turn());
    }

    /// Takes over what has changed in the databases; true if anything has.
    pub(crate) fn refresh(&mut self) -> bool {
        let has_changed = self.view.reader.refresh();
        self.has_refreshed(has_changed)
    }

    /// The same, however much has changed.
    #[cold]
    pub(crate) fn refresh_all(&mut self) -> bool {
        let has_changed = self.view.reader.refresh_all();
        self.has_refreshed(has_changed)
    }

    #[inline(always)]
    fn has_refreshed(&mut self, has_changed: bool) -> bool {
        if has_changed {
            self.ask_plans();
            self.exec.rooms.sas.begin_view();
            self.view.generation = self.view.generation.wrapping_add(1);
            self.exec.rooms.recoveries.generation = self.view.generation;
        }
        has_changed
    }

    /// Has plans prove that they still hold.
    pub(crate) fn ask_plans(&mut self) {
        self.flows.begin_generation();
        self.exec.rooms.headends.begin_generation();
        self.exec.rooms.far_ends.begin_generation();
    }

    /// Voids all that was found out by routes, neighbours and interfaces.
    pub(crate) fn begin_epoch(&mut self) {
        self.flows.begin_epoch();
        self.exec.rooms.headends.begin_epoch();
        self.exec.rooms.far_ends.begin_epoch();
        self.addresses.forget();
        self.exec.rooms.aggfrag.forget_ways();
        self.exec.out.dress_mut().load(&self.view.topology);
    }
}
