//! Misses: packets whose flow has no plan are resolved, the plan is kept, and carried out.
//!
//! Packets that wait for an SA are held here (`hold.rs`), ICMP errors are made here (`icmp.rs`), and what
//! fragments have waited for goes on from here (`gathered.rs`).

mod alone;
mod entered;
mod errors;
mod from_devices;
mod gathered;
mod handed;
mod hold;
mod icmp;
mod judged;
mod limited;
mod path_errors;
mod payloads;
mod sa_queue;
mod segment_errors;
mod stepped;
mod waited;

use std::sync::Arc;

use esp::Sa;
use io::Packet;
use outcome::{DropReason, Outcome};
use policy::SaEntry;
use wire::{Fields, Headers, Summary};

use crate::burst::classify::meta_of;
use crate::burst::{Misses, Path};
use crate::crypt::check_volume;
use crate::features::Executor;
use crate::features::fragments::gather;
use crate::features::translate::translate;
use crate::host_limits::HostLimits;
use crate::model::{Action, Draft, Meta, Origin, RateLimit, SealAll, Translation};
use crate::out::fragment::fragment;
use crate::resolve::{Asked, Decision, Entry, Verdict, homes, resolve};
pub(crate) use alone::Alone;
use entered::Entered;
use errors::Errors;
use sa_queue::SaQueue;

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
        let h = match wire::parse_ip(packet.data()) {
            Ok(h) => h,
            // It parsed when it was classified.
            Err(error) => return path.exec.out.drop(packet, error.into()),
        };
        let verdict = path.resolve_arrival(&packet, &h, meta, held);
        path.exec
            .out
            .counters
            .work
            .flow_misses
            .add(u64::from(!verdict.decision.is_counted_later()));
        self.carry_out(path, verdict, packet, &h, Entered::Arrived(meta, None));
    }
}

impl Slow {
    pub(crate) fn new(shared: Arc<HostLimits>, workers: usize) -> Slow {
        Slow { waiting: SaQueue::new(workers), errors: Errors::new(shared) }
    }

    /// Carries out a verdict on a packet.
    fn carry_out(
        &mut self,
        path: &mut Path,
        verdict: Verdict,
        mut packet: Packet,
        h: &Headers,
        entered: Entered<'_>,
    ) {
        let Verdict { mut decision, asked, at_limit, wants_own, limit, is_for_flow, .. } = verdict;
        path.ask_for_own(wants_own, h);
        path.claim_for(&mut decision);
        if let Decision::Go(Draft { action: action @ Action::HandOver { to }, .. }) = decision {
            let to = usize::from(to);
            if let Some(judging) = path.exec.rooms.rates.take_judged() {
                let handed = path.handed(packet, entered);
                return path.exec.out.hand_judged(to, handed, judging);
            }
            return match entered {
                Entered::Arrived(meta, None) => {
                    if is_for_flow {
                        path.remember(action, None, asked, meta);
                    }
                    path.exec.out.hand_over(&path.view, to, packet, meta);
                }
                _ => path.exec.out.hand(to, path.handed(packet, entered)),
            };
        }
        if !path.exec.rooms.rates.has_waited() {
            asked.count(&path.view, h);
        }
        if let Some(sa) = at_limit.and_then(|sa| path.view.reader.sa(sa)) {
            path.exec.out.reports.volume(sa.config.id(), check_volume(sa));
        }
        if let Some(quote) = verdict.too_big {
            path.hear_of_path(quote);
        }
        // What policy does not let in is not listened to.
        if let Some(came) = verdict.segment_error
            && matches!(decision, Decision::Go(_))
        {
            path.hear_of_segments(packet.data(), h, came);
        }
        let limit = limit.as_deref();
        // A packet that does not pass leaves a plan all the same: those behind it would all be resolved else.
        let passed = limit.map(|limit| path.pass(limit, &mut packet, h)).transpose();
        let (passed, stop) = match passed {
            Ok(passed) => (passed, None),
            Err(stop) => (None, Some((stop, limit))),
        };
        let h = passed.as_ref().unwrap_or(h);
        match decision {
            Decision::Go(draft) => {
                let of_headers;
                let meta = match entered {
                    Entered::Arrived(meta, _) if passed.is_some() => {
                        of_headers = meta.with_headers(h);
                        &of_headers
                    }
                    Entered::Arrived(meta, _) => meta,
                    Entered::Again(..) => {
                        of_headers = meta_of(h);
                        &of_headers
                    }
                };
                // Fragments of one flow may be of packets with different ports.
                if draft.is_for_flow && entered.ports().is_none() {
                    path.remember(draft.action, limit, asked, meta);
                }
                match stop {
                    Some(stop) => path.stop(stop, packet, h, entered),
                    None => path.carry_out_draft(&draft, packet, h, meta),
                }
            }
            Decision::SealAll(seal) => {
                if let Entered::Arrived(meta, _) = entered
                    && is_for_flow
                    && entered.ports().is_none()
                    && let Some(slot) = path.exec.rooms.bundles.keep(&seal, &path.view.reader)
                {
                    path.remember(Action::SealAll(slot), limit, asked, meta);
                }
                match stop {
                    Some(stop) => path.stop(stop, packet, h, entered),
                    None => path.seal_all(seal, packet, h),
                }
            }
            Decision::Translate(translation) => {
                if let Entered::Arrived(meta, None) = entered
                    && translation.draft.is_for_flow
                {
                    path.remember_translation(&translation, limit, asked, meta);
                }
                if let Some(stop) = stop {
                    return path.stop(stop, packet, h, entered);
                }
                let Translation { draft, found, rewrite } = &translation;
                let h = h.into();
                let out = &mut path.exec.out;
                if let Some(packet) = translate(out, (found, *rewrite), packet, h) {
                    path.carry_out_beneath(draft, packet, h);
                }
            }
            Decision::Hold(key, origin) => self.hold(path, packet, h, origin, key),
            Decision::Gather(why) => {
                let mut handed = path.handed(packet, entered);
                handed.forget_ports();
                let Path { view, exec: Executor { out, rooms, .. }, .. } = path;
                let (fragments, ends) =
                    (rooms.fragments.as_deref_mut(), (h.src, h.dst, h.protocol));
                gather(fragments, (view, out), handed, ends, why);
            }
            Decision::Error(cause, reason, origin) => {
                self.error(path, &packet, h, origin, cause);
                path.exec.out.drop(packet, reason);
            }
            Decision::Drop(reason) => path.exec.out.drop(packet, reason),
            Decision::Consume => path.exec.out.end(packet, Outcome::Consumed),
        }
    }

    /// Resolves a packet that no port received, and carries the verdict out: one that was held, or
    /// an ICMP error.
    pub(crate) fn resolve_again(
        &mut self,
        path: &mut Path,
        packet: Packet,
        h: &Headers,
        origin: Origin,
    ) {
        let verdict = resolve(&path.view, packet.data(), h, Entry::Outbound(origin));
        self.carry_out(path, verdict, packet, h, Entered::Again(origin, None));
    }
}

impl Path {
    /// The verdict on a packet that was classified.
    pub(crate) fn resolve_arrival(
        &self,
        packet: &Packet,
        h: &Headers,
        meta: &Meta,
        held: Option<&SaEntry<Sa>>,
    ) -> Verdict {
        resolve(&self.view, packet.data(), h, Entry::of(&self.view, meta, held))
    }

    /// Asks the owner of a policy for SAs of the worker's own.
    pub(crate) fn ask_for_own(&mut self, policy: Option<u32>, h: &Headers) {
        if let Some(policy) = policy {
            let Path { view, exec, .. } = self;
            let asked = exec.out.reports.own_sas(policy, view.worker, h, view.now.ns);
            exec.out.counters.work.acquires.add(u64::from(asked));
        }
    }

    /// Makes the worker the home of the SAs that a decision seals with, if they have none; another worker may
    /// have been faster, and then the packet is handed over.
    fn claim_for(&self, decision: &mut Decision) {
        match decision {
            Decision::Go(draft) => self.claim(draft),
            Decision::Translate(translation) => {
                self.claim(&mut translation.draft);
                if let Action::HandOver { .. } = translation.draft.action {
                    *decision = Decision::Go(translation.draft);
                }
            }
            Decision::SealAll(seal) => match homes::claim(&self.view, seal.sas.as_slice()) {
                Ok(own) => seal.own = own as u8,
                Err(home) => *decision = Decision::Go(Draft::hand_over(home)),
            },
            _ => {}
        }
    }

    /// The same for a draft.
    pub(crate) fn claim(&self, draft: &mut Draft) {
        let sa = draft.action.sa().and_then(|sa| self.view.reader.sa(sa));
        if let Some(sa) = sa {
            let me = self.view.worker.get();
            let home = sa.home().claim(me);
            if home != me {
                *draft = Draft::hand_over(home);
            }
        }
    }

    /// Keeps a decision for the packets of the flow that follow.
    pub(crate) fn remember(
        &mut self,
        action: Action,
        limit: Option<&RateLimit>,
        asked: Asked,
        meta: &Meta,
    ) {
        let flow = &meta.summary.flow;
        // For all flows to that address, whatever rule applies: no plan is needed.
        if matches!(action, Action::OpenBare) && self.view.topology.fib.is_local_to_all(flow.dst())
        {
            return self.addresses.learn_own(flow);
        }
        if !meta.has_flow {
            return;
        }
        let key = meta.key();
        let hash = self.flows.hasher().hash(&key);
        if let Some(limit) = limit {
            let Some(place) = self.flows.room(hash) else { return };
            if let Some(action) = self.under(place, action, Some(limit))
                && let Some((plan, stamps)) = asked.into_plan(action)
            {
                self.flows.put(place, hash, key, plan, stamps);
            }
        } else if let Some((plan, stamps)) = asked.into_plan(action) {
            if let Some(made) = self.view.topology.segments.made(meta) {
                self.exec.rooms.headends.keep(made, &plan, &stamps);
            }
            self.flows.insert(hash, key, plan, stamps);
        }
    }

    /// Keeps how the packets of a flow that follow are translated.
    fn remember_translation(
        &mut self,
        translation: &Translation,
        limit: Option<&RateLimit>,
        asked: Asked,
        meta: &Meta,
    ) {
        if !meta.has_flow {
            return;
        }
        let key = meta.key();
        let hash = self.flows.hasher().hash(&key);
        let Some(place) = self.flows.room(hash) else { return };
        let translations = &mut self.exec.rooms.translations;
        let slot = translations.keep(place, self.flows.places(), translation);
        if let Some(slot) = slot
            && let Some(action) = self.under(place, Action::Translate(slot), limit)
            && let Some((plan, stamps)) = asked.into_plan(action)
        {
            self.flows.put(place, hash, key, plan, stamps);
        }
    }

    /// Has several SAs protect a packet; cuts it first, if it is too long for that.
    fn seal_all(&mut self, mut seal: SealAll, mut packet: Packet, h: &Headers) {
        let Path { view, exec, .. } = self;
        let Some(mtu) = seal.cut else {
            return exec.seal_all(view, &seal, packet, h.into());
        };
        if let Some(taps) = &mut exec.out.taps {
            taps.cut(&packet);
        }
        // One hop for all pieces.
        if core::mem::take(&mut seal.is_hop) && !wire::decrement_ttl(packet.data_mut(), h) {
            return exec.out.drop(packet, DropReason::MalformedIp);
        }
        let ident = exec.crypt.ivs.random() as u32;
        fragment(exec, packet, h, (mtu, ident), |exec, piece, h| {
            exec.seal_all(view, &seal, piece, h.into());
        });
    }

    /// Carries out a draft on a packet that was translated; `h` is what actions look at of its headers.
    fn carry_out_beneath(&mut self, draft: &Draft, packet: Packet, h: Fields) {
        let Path { view, exec, .. } = self;
        let sa = match &draft.action {
            Action::Seal(seal) => view.reader.sa(seal.sa),
            _ => None,
        };
        let meta = Meta { summary: Summary { fields: h, ..Summary::default() }, ..Meta::default() };
        exec.apply(view, &draft.action, (sa, draft.to.as_ref()), packet, &meta);
    }

    /// Carries out a draft: cuts the packet first, if it is too long for it.
    pub(crate) fn carry_out_draft(
        &mut self,
        draft: &Draft,
        mut packet: Packet,
        h: &Headers,
        meta: &Meta,
    ) {
        let Path { view, exec, .. } = self;
        if let Some(mss) = draft.mss
            && let Some(segment) = packet.data_mut().get_mut(h.header_len.into()..)
            && wire::tcp::clamp_mss(segment, mss)
        {
            exec.out.counters.work.mss_clamped.add(1);
        }
        let to = draft.to.as_ref();
        let sa = match &draft.action {
            Action::Seal(seal) => view.reader.sa(seal.sa),
            _ => None,
        };
        let Some(mtu) = draft.cut else {
            return exec.apply(view, &draft.action, (sa, to), packet, meta);
        };
        if let Some(taps) = &mut exec.out.taps {
            taps.cut(&packet);
        }
        // One hop for all pieces.
        let mut action = draft.action;
        if action.take_hop() && !wire::decrement_ttl(packet.data_mut(), h) {
            return exec.out.drop(packet, DropReason::MalformedIp);
        }
        let ident = exec.crypt.ivs.random() as u32;
        fragment(exec, packet, h, (mtu, ident), |exec, piece, h| {
            exec.apply(view, &action, (sa, to), piece, &meta_of(h));
        });
    }
}
