//! The workers' side: look-ups without lock, allocation or shared memory traffic.

use core::net::IpAddr;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use mem::Cache;

use crate::bundle::{SaBundle, with_ends};
use crate::counters::WorkerIndex;
use crate::feed::Inbox;
use crate::flow::Flow;
use crate::model::{Action, Direction, SaId, Template};
use crate::policy_entry::{PolicyEntry, Treatment, is_ipcomp};
use crate::sa_entry::{Cpu, SaEntry};
use crate::stamp::Stamp;
use crate::table::NONE;
use crate::view::{SaHandle, SaIndex, SaTag, View};

/// One worker's view of the databases.
///
/// Between two calls of [`refresh`](Reader::refresh) the view stands still: all packets of a round
/// are judged by one state of the databases, and the references handed out stay good for the
/// round. A worker refreshes once a round, also when it is idle: one atomic load if nothing has
/// changed. An SA that was deleted is freed, its keys wiped, once every reader was refreshed.
pub struct Reader<S> {
    view: View<S>,
    inbox: Inbox<S>,
    /// Not refreshed yet.
    is_new: bool,
}

/// Verdict of the policy database on a packet that leaves.
#[derive(Debug)]
pub enum Outbound<'r> {
    /// No policy matches, and such packets pass.
    NoPolicy,
    /// No policy matches, and such packets are blocked.
    DefaultBlock,
    /// The policy lets the packet pass unprotected.
    Bypass(&'r Arc<PolicyEntry>),
    /// The policy blocks the packet.
    Block(&'r Arc<PolicyEntry>),
    /// Linux carries the policy out: the packet is to go there, and must not leave in clear here.
    Leave(&'r Arc<PolicyEntry>),
    /// The policy protects in a way that culvert cannot do; the packet must not leave.
    Unsupported(&'r Arc<PolicyEntry>),
    /// The policy protects, but there is no SA for its template: the owner has to be asked for one
    /// (ACQUIRE), and the packet waits or is dropped.
    ///
    /// For a template with `optional` set Linux asks too, but lets the packet pass unprotected; a
    /// caller that does the same sends cleartext on purpose.
    NoState(&'r Arc<PolicyEntry>, &'r Template),
    /// The policy protects with this SA. Whether the owner is to be asked for one of the worker's own:
    /// [`Reader::wants_own`].
    Protect(&'r Arc<PolicyEntry>, SaHandle),
    /// The policy protects with these SAs.
    ProtectAll(&'r Arc<PolicyEntry>, SaBundle),
}

impl<'r> Outbound<'r> {
    /// The policy that says so, if one does.
    pub fn policy(&self) -> Option<&'r PolicyEntry> {
        match self {
            Outbound::NoPolicy | Outbound::DefaultBlock => None,
            Outbound::Bypass(policy)
            | Outbound::Block(policy)
            | Outbound::Leave(policy)
            | Outbound::Unsupported(policy)
            | Outbound::NoState(policy, _)
            | Outbound::Protect(policy, _)
            | Outbound::ProtectAll(policy, _) => Some(policy),
        }
    }
}

impl<S> Reader<S> {
    pub(crate) fn new(view: View<S>, inbox: Inbox<S>) -> Reader<S> {
        Reader { view, inbox, is_new: true }
    }

    /// Takes over what has changed; returns whether anything had. Once a round.
    ///
    /// The view is then the databases as they were between two changes. After many changes at once
    /// one call takes over the first few hundred of them, in their order, so that no burst waits
    /// for long; the next calls go on ([`is_behind`](Reader::is_behind)). The first call of all
    /// takes over everything: a worker must not begin without policies that were there before it.
    pub fn refresh(&mut self) -> bool {
        if !self.is_behind() {
            return false;
        }
        self.take(if self.is_new { u32::MAX } else { BUDGET });
        self.is_new = false;
        true
    }

    /// Takes over everything that had changed when it was called, however much.
    pub fn refresh_all(&mut self) -> bool {
        let is_behind = self.is_behind();
        self.take(u32::MAX);
        self.is_new = false;
        is_behind
    }

    /// True if there are changes that [`refresh`](Reader::refresh) has not taken over. One load.
    pub fn is_behind(&self) -> bool {
        self.inbox.has_more()
    }

    fn take(&mut self, budget: u32) {
        let Reader { view, inbox, .. } = self;
        inbox.take(budget, |change| view.apply(change));
    }

    /// The SA that a handle stands for, if it is still there and still the same.
    #[inline]
    pub fn sa(&self, handle: SaHandle) -> Option<&SaEntry<S>> {
        self.view.sa(handle).map(|sa| &**sa)
    }

    /// The SA by `Arc`, for a holder beyond the next refresh. Its keys stay in memory as long.
    #[inline]
    pub fn shared_sa(&self, handle: SaHandle) -> Option<&Arc<SaEntry<S>>> {
        self.view.sa(handle)
    }

    /// By what the SA of an arriving packet is found.
    #[inline]
    pub fn inbound_tag(&self, dst: IpAddr, spi: u32, protocol: u8) -> SaTag {
        SaTag(self.view.seeds.inbound(dst, spi, protocol))
    }

    /// Brings near what [`inbound_index`](Reader::inbound_index) and
    /// [`inbound_sa`](Reader::inbound_sa) look at first.
    #[inline]
    pub fn prefetch_inbound(&self, cache: Cache, tag: SaTag) {
        self.view.inbound.prefetch(cache, tag.0);
    }

    /// Where the SA of an arriving packet most likely is; reads what
    /// [`prefetch_inbound`](Reader::prefetch_inbound) has brought near.
    #[inline]
    pub fn inbound_index(&self, tag: SaTag) -> Option<SaIndex> {
        let slot = self.view.inbound.head(tag.0);
        (slot != NONE).then_some(SaIndex(slot))
    }

    /// [`inbound_sa`](Reader::inbound_sa) by the packet's [`inbound_index`](Reader::inbound_index),
    /// which must be of this view. `None` also means that a full look-up is needed.
    #[inline]
    pub fn inbound_sa_at(
        &self,
        sa_index: SaIndex,
        (dst, spi, protocol): (IpAddr, u32, u8),
        mark: u32,
    ) -> Option<SaHandle> {
        // The index is where the packet's chain begins, so there is none younger in this view.
        let (handle, sa) = self.view.inbound_sa_in(sa_index.0, (dst, spi, protocol))?;
        sa.accepts_mark(mark).then_some(handle)
    }

    /// The note beside an SA, from [`set_note`](Reader::set_note). 0 at first, and once the SA is
    /// gone.
    #[inline]
    pub fn note(&self, handle: SaHandle) -> u32 {
        self.view.slot(handle).map_or(0, |slot| slot.note.load(Relaxed))
    }

    /// [`Reader::note`] of the SA at a place, whichever that is.
    #[inline]
    pub fn note_at(&self, sa_index: SaIndex) -> u32 {
        self.view.sas.get(sa_index.0).map_or(0, |slot| slot.note.load(Relaxed))
    }

    /// Notes a number beside an SA, for this reader alone and until the SA is removed or replaced. It lies
    /// next to what leads to the SA, so who has just asked for the SA has it near.
    #[inline]
    pub fn set_note(&self, handle: SaHandle, note: u32) {
        if let Some(slot) = self.view.slot(handle) {
            slot.note.store(note, Relaxed);
        }
    }

    /// Brings near what leads from a place to the SA in it.
    #[inline]
    pub fn prefetch_sa_slot(&self, cache: Cache, sa_index: SaIndex) {
        if let Some(slot) = self.view.sas.get(sa_index.0) {
            mem::prefetch_into(cache, slot);
        }
    }

    /// Whatever SA is in a place, to be prefetched; nothing of the SA itself is read.
    #[inline]
    pub fn sa_at(&self, sa_index: SaIndex) -> Option<&SaEntry<S>> {
        self.view.sas.get(sa_index.0)?.entry.as_deref()
    }

    /// The SA of an arriving packet, in whatever state: outer destination, SPI in host byte order,
    /// IP protocol, and the packet's mark.
    ///
    /// Of several whose marks match, the youngest (`xfrm_state_lookup`).
    #[inline]
    pub fn inbound_sa(&self, dst: IpAddr, spi: u32, protocol: u8, mark: u32) -> Option<SaHandle> {
        let mut named = self.view.inbound_sas(dst, spi, protocol);
        named.find(|(_, sa)| sa.accepts_mark(mark)).map(|(handle, _)| handle)
    }

    /// The SA of this very identity, in whatever state.
    pub fn sa_named(&self, id: &SaId) -> Option<SaHandle> {
        let mut named = self.view.inbound_sas(id.dst, id.spi, id.protocol);
        named.find(|(_, sa)| sa.config.id() == *id).map(|(handle, _)| handle)
    }

    /// The outbound SA that answers an inbound one, if there is one: of a pair, or of the pair that came in its place.
    pub fn answering(&self, inbound: &SaEntry<S>) -> Option<SaHandle> {
        self.view.answering(inbound)
    }

    /// The policy that decides about a packet, if any.
    pub fn policy(&self, direction: Direction, flow: &Flow<'_>) -> Option<&Arc<PolicyEntry>> {
        self.view.policy(direction, flow)
    }

    /// The action for packets that no policy matches.
    pub fn default_action(&self, direction: Direction) -> Action {
        self.view.defaults[direction as usize]
    }

    /// A mark of how things stand for a flow, to be held against how they stand later
    /// ([`holds`](Reader::holds)). Taken when the flow is resolved, in the same view.
    ///
    /// It covers the policies that the flow could meet in `direction`, the default actions, and,
    /// where `policy` (the one that was found) protects by a template, the SAs for its first
    /// template: which of them there are, not their states. A caller that keeps an SA for a flow
    /// also has to compare [`SaEntry::state`]: one that was valid when it was chosen and is no
    /// longer may have to give way to a younger one.
    #[inline]
    pub fn stamp(
        &self,
        direction: Direction,
        flow: &Flow<'_>,
        policy: Option<&PolicyEntry>,
    ) -> Stamp {
        let sa = policy.and_then(|policy| {
            let (template, (_, dst)) = with_ends(&policy.config.templates, flow).next()?;
            Some(self.view.seeds.outbound(dst, template.reqid, policy.config.if_id))
        });
        self.view.versions.stamp(&self.view.seeds, direction, flow, sa)
    }

    /// A mark of which SAs there are that could be in an outbound SA's place: those for the same template. For
    /// the templates that [`stamp`](Reader::stamp) does not cover.
    pub fn stamp_of_sa(&self, sa: &SaEntry<S>) -> Stamp {
        let config = &sa.config;
        let tag = self.view.seeds.outbound(config.params.dst, config.reqid, config.if_id);
        self.view.versions.stamp_of_sas(tag)
    }

    /// True if nothing has changed that concerns the flow of a stamp of this reader.
    ///
    /// Never true when something has; a change that concerns only others is told apart in all but
    /// about one of a thousand cases, unless it is a policy for wide networks.
    #[inline]
    pub fn holds(&self, stamp: Stamp) -> bool {
        self.view.versions.holds(stamp)
    }

    /// True if any selector names an interface. If none does, [`Flow::ifindex`] decides nothing and
    /// need not be found out.
    #[inline]
    pub fn names_interfaces(&self) -> bool {
        self.view.names_interfaces
    }

    /// True if any SA is of IPComp, or of IP in IP beside it.
    #[inline]
    pub fn has_ipcomp(&self) -> bool {
        self.view.bare_sas > 0
    }

    /// True if any selector names ports. If none does, later fragments, which have no ports, are
    /// judged as whole packets are.
    #[inline]
    pub fn names_ports(&self) -> bool {
        self.view.names_ports
    }

    /// True if any policy is for ICMP errors about packets that it selects ([`PolicyFlags::icmp`]).
    /// If none is, nobody need read what they quote.
    ///
    /// [`PolicyFlags::icmp`]: crate::PolicyFlags::icmp
    #[inline]
    pub fn names_errors(&self) -> bool {
        self.view.names_errors
    }

    /// Verdict on a packet that leaves. `flow.ifindex` is the egress interface.
    pub fn outbound(&self, flow: &Flow<'_>) -> Outbound<'_> {
        let Some(policy) = self.view.policy(Direction::Out, flow) else {
            return match self.default_action(Direction::Out) {
                Action::Allow => Outbound::NoPolicy,
                Action::Block | Action::Leave => Outbound::DefaultBlock,
            };
        };
        match &policy.treatment {
            Treatment::Block => Outbound::Block(policy),
            Treatment::Bypass => Outbound::Bypass(policy),
            Treatment::Leave => Outbound::Leave(policy),
            Treatment::Protect(template) => {
                let found = with_ends(core::slice::from_ref(template), flow).next();
                match found.and_then(|(_, ends)| self.resolve(policy, template, ends, flow)) {
                    Some(sa) => Outbound::Protect(policy, sa),
                    None => Outbound::NoState(policy, template),
                }
            }
            Treatment::ProtectAll => self.resolve_all(policy, flow),
            Treatment::Unsupported => Outbound::Unsupported(policy),
        }
    }

    /// True if a policy wants SAs of each CPU's own, and one of these SAs is not the worker's own
    /// (`XFRM_POLICY_CPU_ACQUIRE`): the owner is asked for one.
    #[inline]
    pub fn wants_own(
        &self,
        policy: &PolicyEntry,
        sas: &[SaHandle],
        worker: Option<WorkerIndex>,
    ) -> bool {
        let is_own = |sa: &SaHandle| self.sa(*sa).is_none_or(|sa| sa.cpu(worker) == Cpu::Own);
        policy.config.flags.per_cpu && worker.is_some() && !sas.iter().all(is_own)
    }

    /// The SAs that protect a packet under all of a policy's templates.
    fn resolve_all<'r>(&'r self, policy: &'r Arc<PolicyEntry>, flow: &Flow<'_>) -> Outbound<'r> {
        let mut bundle: Option<SaBundle> = None;
        for (template, ends) in with_ends(&policy.config.templates, flow) {
            let sa = match self.resolve(policy, template, ends, flow) {
                Some(sa) => sa,
                // A packet that is not compressed is protected all the same.
                None if template.optional && is_ipcomp(template) => continue,
                None => return Outbound::NoState(policy, template),
            };
            let has_room = match &mut bundle {
                Some(bundle) => bundle.push(sa),
                None => {
                    bundle = Some(SaBundle::new(sa));
                    true
                }
            };
            if !has_room {
                return Outbound::Unsupported(policy);
            }
        }
        bundle.map_or(Outbound::Unsupported(policy), |bundle| Outbound::ProtectAll(policy, bundle))
    }

    /// The SA that protects a packet under a policy's template (Linux's `xfrm_state_find`).
    ///
    /// 1. End points: the template's in tunnel mode, the packet's own in transport mode, which those of a
    ///    tunnel template before it replace. An unspecified source in template or SA stands for any; an
    ///    SA with the very source wins.
    /// 2. Protocol, mode, reqid, SPI (0 for any), the policy's mark and XFRM interface.
    /// 3. The SA's own selector, if any.
    /// 4. The worker's own before those of all; never another CPU's (RFC 9611).
    /// 5. The order of [`View::best_outbound`].
    fn resolve(
        &self,
        policy: &PolicyEntry,
        template: &Template,
        (src, dst): (IpAddr, IpAddr),
        flow: &Flow<'_>,
    ) -> Option<SaHandle> {
        let if_id = policy.config.if_id;
        let tag = self.view.seeds.outbound(dst, template.reqid, if_id);
        let mark = policy.config.mark.value & policy.config.mark.mask;
        let penalty = |sa: &SaEntry<S>| {
            let is_candidate = sa.is_between(src, dst)
                && sa.suits(template, if_id, mark)
                && sa.selector().is_none_or(|selector| flow.is_selected(selector, true));
            let shared = match sa.cpu(flow.worker) {
                Cpu::Own => 0,
                // It is no second choice where no SA is for one CPU.
                Cpu::Every => u8::from(self.view.names_cpus),
                Cpu::Other => return None,
            };
            is_candidate.then_some(2 * shared + u8::from(sa.is_from_any()))
        };
        self.view.best_outbound(tag, penalty).map(|(handle, _)| handle)
    }
}

/// Limit of one refresh, in units of the simplest change. At 100 000 SAs it takes 4 to 16 us; 26 us
/// was the worst of thousands measured, with changed SAs that had to be freed.
const BUDGET: u32 = 256;
