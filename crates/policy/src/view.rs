//! One state of the databases, as one thread sees it: slots of its own over shared indexes.

use core::net::IpAddr;
use core::num::NonZero;
use std::sync::Arc;

use esp::Protocol;

use crate::feed::{Change, PolicyChange, SaChange};
use crate::flow::Flow;
use crate::groups::{self, Groups, V4, V6};
use crate::hash::{Seeds, Tag};
use crate::model::{Action, Direction, SaConfig};
use crate::policy_entry::PolicyEntry;
use crate::sa_entry::{SaEntry, SaState};
use crate::sa_slot::SaSlot;
use crate::slots::Slots;
use crate::stamp::Versions;
use crate::table::{Links, NONE, Table};

/// A worker's name for an SA in its view: small, to be kept and compared, and harmless.
///
/// It does not keep the SA alive. When the SA is removed or replaced the handle finds nothing,
/// also when its place is used again; so it may be kept across refreshes. Good for the readers of
/// one [`Databases`](crate::Databases).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SaHandle {
    /// The slot's complement: no slot is `u32::MAX`, and so an `Option` takes no more room.
    place: NonZero<u32>,
    generation: u32,
}

const _: () = assert!(size_of::<Option<SaHandle>>() == 8);

impl SaHandle {
    /// None of the slot that none is.
    #[inline]
    const fn at(slot: u32, generation: u32) -> Option<SaHandle> {
        match NonZero::new(!slot) {
            Some(place) => Some(SaHandle { place, generation }),
            None => None,
        }
    }

    #[inline]
    pub(crate) const fn slot(self) -> u32 {
        !self.place.get()
    }

    /// The handle as one word, to be compared and kept in little room.
    #[inline]
    pub const fn word(self) -> NonZero<u64> {
        let place = self.place.get() as u64;
        match NonZero::new(place << 32 | self.generation as u64) {
            Some(word) => word,
            // The upper half is not zero.
            None => NonZero::<u64>::MIN,
        }
    }

    /// The handle that [`SaHandle::word`] was made of.
    #[inline]
    pub const fn from_word(word: NonZero<u64>) -> Option<SaHandle> {
        let (place, generation) = ((word.get() >> 32) as u32, word.get() as u32);
        match NonZero::new(place) {
            Some(place) => Some(SaHandle { place, generation }),
            None => None,
        }
    }

    /// The place that the SA was given.
    pub const fn index(self) -> SaIndex {
        SaIndex(self.slot())
    }
}

/// Where an SA most likely is, in the views of one [`Databases`](crate::Databases): for prefetching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaIndex(pub(crate) u32);

/// By what the SAs that an arriving packet names are found, in the views of one
/// [`Databases`](crate::Databases).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaTag(pub(crate) Tag);

/// The databases at one moment. Whatever the shared indexes name beside what is in the slots here
/// is not in the view.
pub(crate) struct View<S> {
    pub(crate) seeds: Seeds,
    pub(crate) sas: Slots<SaSlot<S>>,
    pub(crate) inbound: Arc<Table>,
    pub(crate) inbound_links: Arc<Links>,
    pub(crate) outbound: Arc<Table>,
    pub(crate) outbound_links: Arc<Links>,
    pub(crate) policies: Slots<Option<Arc<PolicyEntry>>>,
    pub(crate) policy_links: Arc<Links>,
    /// IPv4's groups, indexed by direction.
    groups_v4: [Groups<V4>; 3],
    groups_v6: [Groups<V6>; 3],
    pub(crate) defaults: [Action; 3],
    /// Some selector names an interface.
    pub(crate) names_interfaces: bool,
    /// Some selector names ports.
    pub(crate) names_ports: bool,
    /// Some SA is for the packets of one CPU.
    pub(crate) names_cpus: bool,
    /// Some policy is for ICMP errors.
    pub(crate) names_errors: bool,
    /// How many SAs are of IPComp, or of IP in IP beside it.
    pub(crate) bare_sas: usize,
    pub(crate) versions: Versions,
}

impl<S> Clone for View<S> {
    fn clone(&self) -> View<S> {
        View {
            seeds: self.seeds,
            sas: self.sas.clone(),
            inbound: Arc::clone(&self.inbound),
            inbound_links: Arc::clone(&self.inbound_links),
            outbound: Arc::clone(&self.outbound),
            outbound_links: Arc::clone(&self.outbound_links),
            policies: self.policies.clone(),
            policy_links: Arc::clone(&self.policy_links),
            groups_v4: self.groups_v4.clone(),
            groups_v6: self.groups_v6.clone(),
            defaults: self.defaults,
            names_interfaces: self.names_interfaces,
            names_ports: self.names_ports,
            names_cpus: self.names_cpus,
            names_errors: self.names_errors,
            bare_sas: self.bare_sas,
            versions: self.versions.clone(),
        }
    }
}

impl<S> View<S> {
    pub(crate) fn new(seeds: Seeds, inbound: &Arc<Table>, outbound: &Arc<Table>) -> View<S> {
        View {
            seeds,
            sas: Slots::new(),
            inbound: Arc::clone(inbound),
            inbound_links: Arc::new(Links::new()),
            outbound: Arc::clone(outbound),
            outbound_links: Arc::new(Links::new()),
            policies: Slots::new(),
            policy_links: Arc::new(Links::new()),
            groups_v4: Default::default(),
            groups_v6: Default::default(),
            defaults: [Action::Allow; 3],
            names_interfaces: false,
            names_ports: false,
            names_cpus: false,
            names_errors: false,
            bare_sas: 0,
            versions: Versions::new(),
        }
    }

    /// Takes over a change. Does not allocate.
    pub(crate) fn apply(&mut self, change: Change<S>) {
        match change {
            Change::SaRoom(piece) => self.sas.push(piece),
            Change::PolicyRoom(piece) => self.policies.push(piece),
            Change::Inbound(table) => self.inbound = table,
            Change::Outbound(table) => self.outbound = table,
            Change::Sa(SaChange { remove, insert }) => {
                if let Some((slot, tag)) = remove {
                    self.versions.sa_changed(tag);
                    self.set_sa(slot, SaSlot::default());
                }
                if let Some((slot, tag, new)) = insert {
                    self.versions.sa_changed(tag);
                    self.set_sa(slot, new);
                }
            }
            Change::GroupsV4(direction, groups) => self.groups_v4[direction as usize] = groups,
            Change::GroupsV6(direction, groups) => self.groups_v6[direction as usize] = groups,
            Change::Policy(PolicyChange { remove, insert }) => {
                if let Some((slots, network)) = remove {
                    self.versions.policy_changed(network);
                    self.set_policy(slots.main, None);
                    self.set_policy(slots.later, None);
                }
                if let Some((slots, network, entry)) = insert {
                    self.versions.policy_changed(network);
                    if slots.later != NONE {
                        self.set_policy(slots.later, Some(Arc::clone(&entry)));
                    }
                    self.set_policy(slots.main, Some(entry));
                }
            }
            Change::Default(direction, action) => {
                self.versions.all_changed();
                self.defaults[direction as usize] = action;
            }
            // No plan hangs on these: they come before the first such selector or SA, whose own change
            // voids the plans that it concerns, and go after the last.
            Change::Interfaces(named) => self.names_interfaces = named,
            Change::Ports(named) => self.names_ports = named,
            Change::Cpus(named) => self.names_cpus = named,
            Change::Errors(named) => self.names_errors = named,
            Change::Again(spot) => self.versions.policy_changed(spot),
        }
    }

    fn set_policy(&mut self, slot: u32, entry: Option<Arc<PolicyEntry>>) {
        if let Some(place) = self.policies.get_mut(slot) {
            *place = entry;
        }
    }

    /// Puts an SA, or none, in a slot. The generation of an empty one means nothing.
    fn set_sa(&mut self, slot: u32, new: SaSlot<S>) {
        let Some(place) = self.sas.get_mut(slot) else { return };
        let old = core::mem::replace(place, new);
        let (old, new) = (old.entry.as_deref(), place.entry.as_deref());
        let is_bare = |sa: &SaEntry<S>| sa.config.params.protocol.is_bare();
        self.bare_sas += usize::from(new.is_some_and(is_bare));
        self.bare_sas -= usize::from(old.is_some_and(is_bare));
        if old.is_some_and(is_ip_in_ip) || new.is_some_and(is_ip_in_ip) {
            self.versions.all_changed();
        }
    }

    /// The SA of a handle.
    #[inline]
    pub(crate) fn sa(&self, handle: SaHandle) -> Option<&Arc<SaEntry<S>>> {
        self.slot(handle)?.entry.as_ref()
    }

    /// The slot of a handle, as long as it is used for the same SA.
    #[inline]
    pub(crate) fn slot(&self, handle: SaHandle) -> Option<&SaSlot<S>> {
        self.sas.get(handle.slot()).filter(|slot| slot.generation == handle.generation)
    }

    /// The SAs that an arriving packet names, youngest first, whatever their marks.
    #[inline]
    pub(crate) fn inbound_sas(
        &self,
        dst: IpAddr,
        spi: u32,
        protocol: u8,
    ) -> impl Iterator<Item = (SaHandle, &Arc<SaEntry<S>>)> {
        let at = self.inbound.head(self.seeds.inbound(dst, spi, protocol));
        self.chain(at, &self.inbound_links).filter(move |(_, sa)| sa.is_for(dst, spi, protocol))
    }

    /// The SA in a slot, if an arriving packet names it, whatever its mark.
    #[inline]
    pub(crate) fn inbound_sa_in(
        &self,
        slot: u32,
        (dst, spi, protocol): (IpAddr, u32, u8),
    ) -> Option<(SaHandle, &SaEntry<S>)> {
        let SaSlot { entry: Some(sa), generation, .. } = self.sas.get(slot)? else { return None };
        let handle = SaHandle::at(slot, *generation)?;
        sa.is_for(dst, spi, protocol).then_some((handle, &**sa))
    }

    /// The SAs in the chain of an outbound key, youngest first; others may be among them.
    #[inline]
    pub(crate) fn outbound_sas(
        &self,
        tag: Tag,
    ) -> impl Iterator<Item = (SaHandle, &Arc<SaEntry<S>>)> {
        self.chain(self.outbound.head(tag), &self.outbound_links)
    }

    /// The outbound SA that answers an inbound one: between the same ends, with the same mode, reqid and XFRM interface.
    /// Of several the first in the order of [`View::best_outbound`].
    pub(crate) fn answering(&self, inbound: &SaEntry<S>) -> Option<SaHandle> {
        let SaConfig { params, reqid, if_id, .. } = &inbound.config;
        let tag = self.seeds.outbound(params.src, *reqid, *if_id);
        let answers = |sa: &SaEntry<S>| {
            let its = &sa.config.params;
            let is_answer = (its.src, its.dst) == (params.dst, params.src)
                && (its.mode, its.protocol) == (params.mode, params.protocol)
                && (sa.config.reqid, sa.config.if_id) == (*reqid, *if_id);
            is_answer.then_some(0)
        };
        self.best_outbound(tag, answers).map(|(handle, _)| handle)
    }

    /// The SA of an outbound key that comes first: of those that `penalty` admits the one with the least; then valid
    /// before dying, and never an expired one; then the youngest.
    #[inline]
    pub(crate) fn best_outbound(
        &self,
        tag: Tag,
        penalty: impl Fn(&SaEntry<S>) -> Option<u8>,
    ) -> Option<(SaHandle, &Arc<SaEntry<S>>)> {
        let mut best = None;
        let mut least = u8::MAX;
        for (handle, sa) in self.outbound_sas(tag) {
            let dying = match sa.state() {
                SaState::Valid => 0,
                SaState::Dying => 1,
                SaState::Expired => continue,
            };
            let Some(penalty) = penalty(sa) else { continue };
            let penalty = 2 * penalty + dying;
            // The chain is youngest first: among equals the first stays.
            if penalty < least {
                best = Some((handle, sa));
                least = penalty;
                if penalty == 0 {
                    break;
                }
            }
        }
        best
    }

    /// The entries of a chain that are in this view.
    #[inline]
    fn chain<'v>(
        &'v self,
        head: u32,
        links: &'v Links,
    ) -> impl Iterator<Item = (SaHandle, &'v Arc<SaEntry<S>>)> {
        let mut last = NONE;
        core::iter::from_fn(move || {
            loop {
                // The link of the last one: mostly nobody asks for more than the first.
                let slot = if last == NONE { head } else { links.next(last) };
                if slot == NONE {
                    return None;
                }
                last = slot;
                if let Some(SaSlot { entry: Some(sa), generation, .. }) = self.sas.get(slot) {
                    return SaHandle::at(slot, *generation).map(|handle| (handle, sa));
                }
            }
        })
    }

    /// The policy that decides about a packet.
    #[inline]
    pub(crate) fn policy(
        &self,
        direction: Direction,
        flow: &Flow<'_>,
    ) -> Option<&Arc<PolicyEntry>> {
        let at = direction as usize;
        let (policies, links, seeds) = (&self.policies, &self.policy_links, &self.seeds);
        if flow.headers.src.is_ipv4() {
            groups::find(&self.groups_v4[at], seeds, policies, links, flow)
        } else {
            groups::find(&self.groups_v6[at], seeds, policies, links, flow)
        }
    }
}

/// True if an SA is of IP in IP. No policy says if a packet for this host is opened or left to
/// Linux: that depends on such an SA, and so may every flow.
fn is_ip_in_ip<S>(sa: &SaEntry<S>) -> bool {
    matches!(sa.config.params.protocol, Protocol::IpInV4 | Protocol::IpInV6)
}
