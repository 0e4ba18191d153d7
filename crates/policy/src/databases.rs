//! The writer's side: one control thread changes SAs and policies, readers see each change whole.

use core::net::IpAddr;
use core::slice;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Release},
};
use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::model::{Action, Direction, PolicyConfig, SaConfig, SaId};
use crate::policy_entry::PolicyEntry;
use crate::reader::Reader;
use crate::sa_entry::SaEntry;
use crate::shards::Shards;
use crate::spd::Spd;

/// SAs that share a key, youngest first; nearly always one, which then costs no extra memory access.
pub(crate) enum SaList<S> {
    One(Arc<SaEntry<S>>),
    More(Arc<[Arc<SaEntry<S>>]>),
}

impl<S> SaList<S> {
    pub(crate) fn as_slice(&self) -> &[Arc<SaEntry<S>>] {
        match self {
            SaList::One(sa) => slice::from_ref(sa),
            SaList::More(list) => list,
        }
    }
}

// Not derived: that would ask for `S: Clone`.
impl<S> Clone for SaList<S> {
    fn clone(&self) -> Self {
        match self {
            SaList::One(sa) => SaList::One(Arc::clone(sa)),
            SaList::More(list) => SaList::More(Arc::clone(list)),
        }
    }
}

/// What an arriving packet names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InboundKey {
    pub(crate) dst: IpAddr,
    pub(crate) spi: u32,
    pub(crate) protocol: u8,
}

/// What a template asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OutboundKey {
    pub(crate) dst: IpAddr,
    pub(crate) reqid: u32,
    pub(crate) if_id: u32,
}

/// What the writer publishes and readers look at.
pub(crate) struct Shared<S> {
    /// Even between changes, odd during one; each change adds two.
    pub(crate) generation: AtomicU64,
    pub(crate) inbound: Arc<Shards<InboundKey, SaList<S>>>,
    pub(crate) outbound: Arc<Shards<OutboundKey, SaList<S>>>,
    pub(crate) spd: ArcSwap<Spd>,
}

/// SAD and SPD (RFC 4301 §4.4), owned by the one thread that changes them.
///
/// Every method is one change for the readers: they see all of it or nothing of it. What is
/// replaced or removed stays in memory until every [`Reader`] has been refreshed, which is when
/// its keys are wiped.
///
/// An SA's cost of change does not depend on the number of policies, nor on the number of SAs
/// while there are about a hundred thousand: 1024 pieces of about 100 entries, one of which is
/// copied.
pub struct Databases<S> {
    shared: Arc<Shared<S>>,
    policies: BTreeMap<u32, Arc<PolicyEntry>>,
    sa_count: usize,
    /// Age of the next policy.
    next_age: u64,
}

/// An SA with this identity is there already (Linux's `EEXIST`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an SA with this destination, SPI, protocol and mark exists")]
pub struct SaExists;

impl<S> Databases<S> {
    /// Empty databases; what no policy matches passes, as in Linux.
    pub fn new() -> Databases<S> {
        Databases {
            shared: Arc::new(Shared {
                generation: AtomicU64::new(0),
                inbound: Arc::new(Shards::new(SHARDS)),
                outbound: Arc::new(Shards::new(SHARDS)),
                spd: ArcSwap::from_pointee(Spd::new()),
            }),
            policies: BTreeMap::new(),
            sa_count: 0,
            next_age: 0,
        }
    }

    /// A reader, for one worker.
    pub fn reader(&self) -> Reader<S> {
        Reader::new(Arc::clone(&self.shared))
    }

    /// Adds an SA.
    ///
    /// # Errors
    /// [`SaExists`] if one with the same identity is there; nothing has changed then.
    pub fn add_sa(&mut self, config: SaConfig, esp: S) -> Result<Arc<SaEntry<S>>, SaExists> {
        if self.sa(&config.id()).is_some() {
            return Err(SaExists);
        }
        Ok(self.replace_sa(config, esp))
    }

    /// Adds an SA in the place of the one with the same identity, if there is one.
    ///
    /// Readers see the old or the new one, never neither. The old entry does not count as removed:
    /// its successor carries on, and a worker may finish the burst for which it holds it. A limit
    /// that was reached stays reached, as in Linux's update of a state.
    pub fn replace_sa(&mut self, config: SaConfig, esp: S) -> Arc<SaEntry<S>> {
        let entry = Arc::new(SaEntry::new(config, esp));
        let old = self.sa(&entry.config.id());
        match &old {
            Some(old) => {
                entry.advance(old.state());
            }
            None => self.sa_count += 1,
        }
        let old = old.as_ref();
        self.change(|shared| {
            shared
                .inbound
                .update(&inbound_key(&entry.config), |list| edited(list, old, Some(&entry)));
            // The new one goes in before the old one goes, where they stand in different places.
            let key = outbound_key(&entry.config);
            shared.outbound.update(&key, |list| edited(list, old, Some(&entry)));
            if let Some(old) = old.filter(|old| outbound_key(&old.config) != key) {
                let key = outbound_key(&old.config);
                shared.outbound.update(&key, |list| edited(list, Some(old), None));
            }
        });
        entry
    }

    /// Removes an SA; [`SaEntry::is_removed`] tells whoever still holds it.
    pub fn remove_sa(&mut self, id: &SaId) -> Option<Arc<SaEntry<S>>> {
        let old = self.sa(id)?;
        self.change(|shared| {
            let key = inbound_key(&old.config);
            shared.inbound.update(&key, |list| edited(list, Some(&old), None));
            let key = outbound_key(&old.config);
            shared.outbound.update(&key, |list| edited(list, Some(&old), None));
        });
        old.set_removed();
        self.sa_count -= 1;
        Some(old)
    }

    /// The SA with this identity; the mark must be the SA's own, not one that matches.
    pub fn sa(&self, id: &SaId) -> Option<Arc<SaEntry<S>>> {
        let key = InboundKey { dst: id.dst, spi: id.spi, protocol: id.protocol };
        let list = self.shared.inbound.get(&key)?;
        list.as_slice().iter().find(|sa| sa.config.mark == id.mark).map(Arc::clone)
    }

    /// All SAs, in no order.
    pub fn sas(&self) -> impl Iterator<Item = Arc<SaEntry<S>>> {
        self.shared.inbound.values().flat_map(|list| list.as_slice().to_vec())
    }

    /// How many SAs there are.
    pub fn sa_count(&self) -> usize {
        self.sa_count
    }

    /// Adds a policy, or replaces the one with the same index; counters begin at zero.
    ///
    /// Among policies of one direction and priority the older comes first. A replacement with the
    /// priority of its predecessor takes that one's place (`xfrm_policy_insert_list`), otherwise
    /// it is the youngest.
    pub fn put_policy(&mut self, config: PolicyConfig) -> Arc<PolicyEntry> {
        let old = self.policies.get(&config.index).cloned();
        let age = match &old {
            Some(old) if old.config.priority == config.priority => old.rank.age,
            _ => {
                self.next_age += 1;
                self.next_age
            }
        };
        let entry = Arc::new(PolicyEntry::new(config, age));
        self.policies.insert(entry.config.index, Arc::clone(&entry));
        self.change(|shared| {
            let next = shared.spd.load().changed(old.as_ref(), Some(&entry));
            shared.spd.store(Arc::new(next));
        });
        entry
    }

    /// Removes the policy with this index.
    pub fn remove_policy(&mut self, index: u32) -> Option<Arc<PolicyEntry>> {
        let old = self.policies.remove(&index)?;
        self.change(|shared| {
            let next = shared.spd.load().changed(Some(&old), None);
            shared.spd.store(Arc::new(next));
        });
        Some(old)
    }

    /// The policy with this index.
    pub fn policy(&self, index: u32) -> Option<&Arc<PolicyEntry>> {
        self.policies.get(&index)
    }

    /// All policies, by index.
    pub fn policies(&self) -> impl ExactSizeIterator<Item = &Arc<PolicyEntry>> {
        self.policies.values()
    }

    /// Sets what happens to packets that no policy matches (`ip xfrm policy setdefault`).
    pub fn set_default(&mut self, direction: Direction, action: Action) {
        self.change(|shared| {
            let mut next = Spd::clone(&shared.spd.load());
            next.defaults[direction as usize] = action;
            shared.spd.store(Arc::new(next));
        });
    }

    /// What happens to packets that no policy matches.
    pub fn default_action(&self, direction: Direction) -> Action {
        self.shared.spd.load().defaults[direction as usize]
    }

    /// Brackets one change, so that a reader can tell that it has seen all of it.
    fn change(&self, apply: impl FnOnce(&Shared<S>)) {
        // What `apply` stores is published by read-modify-writes, which stay behind this one: a
        // reader that sees any of it sees the odd number too.
        self.shared.generation.fetch_add(1, AcqRel);
        apply(&self.shared);
        self.shared.generation.fetch_add(1, Release);
    }
}

impl<S> Default for Databases<S> {
    fn default() -> Self {
        Databases::new()
    }
}

fn inbound_key(config: &SaConfig) -> InboundKey {
    let id = config.id();
    InboundKey { dst: id.dst, spi: id.spi, protocol: id.protocol }
}

fn outbound_key(config: &SaConfig) -> OutboundKey {
    OutboundKey { dst: config.params.dst, reqid: config.reqid, if_id: config.if_id }
}

/// A list without `remove` and with `insert` at its place; `None` when nothing is left.
fn edited<S>(
    list: Option<&SaList<S>>,
    remove: Option<&Arc<SaEntry<S>>>,
    insert: Option<&Arc<SaEntry<S>>>,
) -> Option<SaList<S>> {
    let mut next: Vec<_> = list
        .into_iter()
        .flat_map(SaList::as_slice)
        .filter(|sa| !remove.is_some_and(|gone| Arc::ptr_eq(gone, sa)))
        .cloned()
        .collect();
    if let Some(new) = insert {
        let age = |sa: &SaEntry<S>| (sa.config.added_s, sa.config.generation);
        let at = next.partition_point(|sa| age(sa) > age(new));
        next.insert(at, Arc::clone(new));
    }
    match next.as_slice() {
        [] => None,
        [one] => Some(SaList::One(Arc::clone(one))),
        _ => Some(SaList::More(next.into())),
    }
}

/// Pieces of each SA index.
const SHARDS: usize = 1024;
