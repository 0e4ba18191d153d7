//! The policies, compiled for look-up: an immutable snapshot that shares with its predecessor all
//! that did not change.
//!
//! Tuple space search. The policies of one direction and family are grouped by *shape*: the two
//! prefix lengths and the mark's mask. Within a group everything else that is compared for
//! equality (both networks, mark value, XFRM interface) is the key of a hash table, whose value is
//! the short list of policies with that key in their order. A look-up probes one table per shape,
//! best group first, and stops as soon as no later group can hold a better policy. Real databases
//! have a handful of shapes, whatever their size.
//!
//! A change copies one bucket of a few dozen keys and the vectors of pointers above it.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

use crate::flow::Flow;
use crate::model::{Action, Direction, PolicyConfig};
use crate::policy_entry::{PolicyEntry, Rank};

/// All policies at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Spd {
    /// By direction and family.
    tables: [[Table; 2]; 3],
    /// What happens to a packet that no policy matches, by direction.
    pub(crate) defaults: [Action; 3],
}

impl Spd {
    pub(crate) fn new() -> Spd {
        Spd { tables: Default::default(), defaults: [Action::Allow; 3] }
    }

    /// The policy that decides about the packet.
    pub(crate) fn find(&self, direction: Direction, flow: &Flow<'_>) -> Option<&Arc<PolicyEntry>> {
        let family = usize::from(flow.headers.src.is_ipv6());
        self.tables[direction as usize][family].find(flow)
    }

    /// This snapshot with `remove` gone and `insert` there, either or both.
    pub(crate) fn changed(
        &self,
        remove: Option<&Arc<PolicyEntry>>,
        insert: Option<&Arc<PolicyEntry>>,
    ) -> Spd {
        let mut next = self.clone();
        if let Some(entry) = remove {
            next.table_of(&entry.config).remove(entry);
        }
        if let Some(entry) = insert {
            next.table_of(&entry.config).insert(entry);
        }
        next
    }

    fn table_of(&mut self, config: &PolicyConfig) -> &mut Table {
        let family = usize::from(config.selector.src.addr.is_ipv6());
        &mut self.tables[config.direction as usize][family]
    }
}

/// The policies of one direction and family.
#[derive(Clone, Debug, Default)]
struct Table {
    /// In the order of their best policy.
    groups: Vec<Arc<Group>>,
}

impl Table {
    fn find(&self, flow: &Flow<'_>) -> Option<&Arc<PolicyEntry>> {
        let packet = Key::of_packet(flow);
        let mut found: Option<&Arc<PolicyEntry>> = None;
        for group in &self.groups {
            let limit = found.map_or(Rank::LAST, |p| p.rank);
            if limit < group.best {
                break;
            }
            let list = group.list(&group.shape.apply(&packet));
            // The list is in order: its first match is its best.
            if let Some(policy) =
                list.iter().take_while(|p| p.rank < limit).find(|p| p.matches(flow))
            {
                found = Some(policy);
            }
        }
        found
    }

    fn insert(&mut self, entry: &Arc<PolicyEntry>) {
        let shape = Shape::of(&entry.config);
        let at = self.groups.iter().position(|g| g.shape == shape);
        let group = match at {
            Some(at) => Group::with(&self.groups[at], entry),
            None => Group::with(&Group::new(shape), entry),
        };
        match at {
            Some(at) => self.groups[at] = Arc::new(group),
            None => self.groups.push(Arc::new(group)),
        }
        self.groups.sort_by_key(|g| g.best);
    }

    fn remove(&mut self, entry: &Arc<PolicyEntry>) {
        let shape = Shape::of(&entry.config);
        let Some(at) = self.groups.iter().position(|g| g.shape == shape) else { return };
        let group = Group::without(&self.groups[at], entry);
        if group.len == 0 {
            self.groups.remove(at);
        } else {
            self.groups[at] = Arc::new(group);
        }
        self.groups.sort_by_key(|g| g.best);
    }
}

/// What the policies of a group have in common: which bits of a packet make up the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    src_mask: u128,
    dst_mask: u128,
    mark_mask: u32,
}

impl Shape {
    fn of(config: &PolicyConfig) -> Shape {
        let selector = &config.selector;
        Shape {
            src_mask: mask(selector.src.addr, selector.src.len),
            dst_mask: mask(selector.dst.addr, selector.dst.len),
            mark_mask: config.mark.mask,
        }
    }

    fn apply(&self, key: &Key) -> Key {
        Key {
            src: key.src & self.src_mask,
            dst: key.dst & self.dst_mask,
            mark: key.mark & self.mark_mask,
            if_id: key.if_id,
        }
    }
}

/// The fields that are compared for equality under a shape's masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    src: u128,
    dst: u128,
    mark: u32,
    if_id: u32,
}

impl Key {
    fn of_packet(flow: &Flow<'_>) -> Key {
        Key {
            src: bits(flow.headers.src),
            dst: bits(flow.headers.dst),
            mark: flow.mark,
            if_id: flow.if_id,
        }
    }

    fn of_policy(config: &PolicyConfig, shape: &Shape) -> Key {
        let selector = &config.selector;
        let key = shape.apply(&Key {
            src: bits(selector.src.addr),
            dst: bits(selector.dst.addr),
            mark: 0,
            if_id: config.if_id,
        });
        // Not masked: a value with bits outside its mask matches no packet, as in Linux.
        Key { mark: config.mark.value, ..key }
    }
}

type Bucket = HashMap<Key, Box<[Arc<PolicyEntry>]>, RandomState>;

/// The policies of one shape.
#[derive(Debug)]
struct Group {
    shape: Shape,
    best: Rank,
    /// Policies in the group.
    len: usize,
    hasher: RandomState,
    /// Each with its best policy's rank; the count is a power of two.
    buckets: Vec<(Rank, Arc<Bucket>)>,
}

impl Group {
    fn new(shape: Shape) -> Group {
        let hasher = RandomState::new();
        let empty = Arc::new(Bucket::with_hasher(hasher.clone()));
        Group { shape, best: Rank::LAST, len: 0, hasher, buckets: vec![(Rank::LAST, empty)] }
    }

    fn position(&self, key: &Key, buckets: usize) -> usize {
        // The table inside uses the low and the highest bits of the same hash.
        (self.hasher.hash_one(key) >> 32) as usize & (buckets - 1)
    }

    fn list(&self, key: &Key) -> &[Arc<PolicyEntry>] {
        match self.buckets.get(self.position(key, self.buckets.len())) {
            Some((_, bucket)) => bucket.get(key).map_or(&[], |list| list),
            None => &[],
        }
    }

    fn with(old: &Group, entry: &Arc<PolicyEntry>) -> Group {
        let mut next = old.changed(entry, |list| {
            let at = list.partition_point(|p| p.rank < entry.rank);
            list.insert(at, Arc::clone(entry));
        });
        next.len = old.len + 1;
        if next.len > next.buckets.len() * BUCKET_LEN {
            next.split();
        }
        next
    }

    fn without(old: &Group, entry: &Arc<PolicyEntry>) -> Group {
        let mut removed = 0;
        let mut next = old.changed(entry, |list| {
            let before = list.len();
            list.retain(|p| !Arc::ptr_eq(p, entry));
            removed = before - list.len();
        });
        next.len = old.len - removed;
        next
    }

    /// This group with the list of the policy's key edited.
    fn changed(&self, entry: &PolicyEntry, edit: impl FnOnce(&mut Vec<Arc<PolicyEntry>>)) -> Group {
        let key = Key::of_policy(&entry.config, &self.shape);
        let at = self.position(&key, self.buckets.len());
        let mut buckets = self.buckets.clone();
        let mut bucket = Bucket::clone(&buckets[at].1);
        let mut list = bucket.remove(&key).map(Vec::from).unwrap_or_default();
        edit(&mut list);
        if !list.is_empty() {
            bucket.insert(key, list.into_boxed_slice());
        }
        buckets[at] = (best_of(&bucket), Arc::new(bucket));
        let best = buckets.iter().map(|(best, _)| *best).min().unwrap_or(Rank::LAST);
        Group { shape: self.shape, best, len: self.len, hasher: self.hasher.clone(), buckets }
    }

    /// Doubles the buckets.
    fn split(&mut self) {
        let count = self.buckets.len() * 2;
        let mut next = vec![Bucket::with_hasher(self.hasher.clone()); count];
        for (_, bucket) in &self.buckets {
            for (key, list) in bucket.iter() {
                next[self.position(key, count)].insert(*key, list.clone());
            }
        }
        self.buckets = next.into_iter().map(|b| (best_of(&b), Arc::new(b))).collect();
    }
}

fn best_of(bucket: &Bucket) -> Rank {
    bucket.values().filter_map(|list| list.first()).map(|p| p.rank).min().unwrap_or(Rank::LAST)
}

/// An address in the low bits of a number.
fn bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// The bits of [`bits`] that a prefix of this address's family and so many bits compares.
fn mask(addr: IpAddr, len: u8) -> u128 {
    let width: u32 = if addr.is_ipv4() { 32 } else { 128 };
    let host = width - u32::from(len).min(width);
    let all = if addr.is_ipv4() { u128::from(u32::MAX) } else { u128::MAX };
    // A shift by the whole width leaves nothing: prefix length 0.
    all & u128::MAX.checked_shl(host).unwrap_or(0)
}

/// Policies in a bucket before the buckets are doubled: what a change copies.
const BUCKET_LEN: usize = 32;
