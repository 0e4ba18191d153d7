//! The connections that the fast path may carry, found by tuple.
//!
//! Both directions of one are in the table from its beginning, also while answers are not carried yet: who knows
//! that a packet is an answer to others knows that it is not for this host.
//!
//! ```text
//!   hash of a tuple ─┬─ low bits: shard ──> sorted by hash: (hash, direction, connection)
//!                    └─ all of it ───────────────^
//! ```
//!
//! A shard is replaced as a whole, so that workers see it before or after a change, and never wait. Changes are put
//! in by many at once: each touches the shards of its tuples only, and with a million connections one of these has
//! some 500.

use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use ahash::RandomState;
use arc_swap::ArcSwap;

use crate::entry::Entry;
use crate::rewrite::Rewrite;
use crate::tuple::{Direction, Tuple};

/// Shards of a table.
const SHARDS: usize = 4096;

/// A connection that the fast path may carry.
#[derive(Debug)]
pub struct Binding {
    /// The connection as Linux told it first. Its tuples and id stay; the status goes on in
    /// [`Upkeep::status`].
    pub entry: Entry,
    is_gone: AtomicBool,
    /// True if answers may be carried as well.
    both: AtomicBool,
    /// Packets that workers have carried of it, by direction.
    packets: [AtomicU64; 2],
    bytes: [AtomicU64; 2],
    /// Notes of the control thread alone.
    pub upkeep: Upkeep,
}

/// Notes of the control thread about a connection.
#[derive(Debug, Default)]
pub struct Upkeep {
    /// `IPS_*`, as Linux said last.
    pub status: AtomicU32,
    /// Packets that there were when Linux was told last.
    pub told_packets: AtomicU64,
    /// When that was, in milliseconds of the caller's clock.
    pub told_ms: AtomicU64,
    /// The dump that it was seen in last.
    pub dump: AtomicU32,
}

impl Binding {
    /// The binding of a connection.
    pub fn new(entry: Entry) -> Binding {
        let upkeep = Upkeep { status: AtomicU32::new(entry.status.0), ..Upkeep::default() };
        Binding {
            entry,
            is_gone: AtomicBool::new(false),
            both: AtomicBool::new(false),
            packets: Default::default(),
            bytes: Default::default(),
            upkeep,
        }
    }

    /// True while the fast path may carry it.
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        !self.is_gone.load(Relaxed)
    }

    /// The fast path may not carry it any more: whatever was decided by it is void.
    pub fn end(&self) {
        self.is_gone.store(true, Relaxed);
    }

    /// True if answers may be carried as well: Linux has seen one.
    pub fn carries_both(&self) -> bool {
        self.both.load(Relaxed)
    }

    /// From now on they may.
    pub fn carry_both(&self) {
        self.both.store(true, Relaxed);
    }

    /// Counts a packet.
    #[inline]
    pub fn count(&self, direction: Direction, len: u64) {
        let at = direction as usize;
        if let (Some(packets), Some(bytes)) = (self.packets.get(at), self.bytes.get(at)) {
            packets.fetch_add(1, Relaxed);
            bytes.fetch_add(len, Relaxed);
        }
    }

    /// Packets and bytes that were carried in a direction.
    pub fn carried(&self, direction: Direction) -> (u64, u64) {
        let of = |all: &[AtomicU64; 2]| all[direction as usize].load(Relaxed);
        (of(&self.packets), of(&self.bytes))
    }

    /// Packets that were carried, of both directions.
    pub fn packets(&self) -> u64 {
        self.packets.iter().map(|packets| packets.load(Relaxed)).sum()
    }

    /// The tuple of a direction.
    pub fn tuple(&self, direction: Direction) -> &Tuple {
        match direction {
            Direction::Original => &self.entry.original,
            Direction::Reply => &self.entry.reply,
        }
    }

    /// Translation of the packets of a direction. `None` if they stay as they are.
    pub fn rewrite(&self, direction: Direction) -> Option<Rewrite> {
        let (own, other) = (self.tuple(direction), self.tuple(direction.other()));
        let to = Rewrite::answered_by(other);
        let has_port = own.is_icmp() || to.dst_port == own.dst_port;
        let is_same =
            to.src == own.src && to.dst == own.dst && to.src_port == own.src_port && has_port;
        (!is_same).then_some(to)
    }

    /// True if Linux translates its packets.
    pub fn is_translated(&self) -> bool {
        self.rewrite(Direction::Original).is_some()
    }
}

/// A connection of a tuple's.
#[derive(Clone, Debug)]
pub struct Found {
    /// The connection of the tuple.
    pub binding: Arc<Binding>,
    /// The direction that the tuple is of.
    pub direction: Direction,
}

impl Found {
    /// True if packets of the tuple may go past Linux.
    pub fn may_be_carried(&self) -> bool {
        self.binding.is_live()
            && (self.direction == Direction::Original || self.binding.carries_both())
    }
}

/// A change of the table.
#[derive(Debug)]
pub enum Change {
    /// Packets of a direction may be carried.
    Put(Arc<Binding>, Direction),
    /// They may not any more.
    Remove(Arc<Binding>, Direction),
}

impl Change {
    fn of(&self) -> (&Arc<Binding>, Direction) {
        match self {
            Change::Put(binding, direction) | Change::Remove(binding, direction) => {
                (binding, *direction)
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Place {
    hash: u64,
    found: Found,
}

/// The connections that may be carried, by both of their tuples.
pub struct Bindings {
    shards: Box<[ArcSwap<Vec<Place>>]>,
    state: RandomState,
    len: AtomicUsize,
    /// Of IPv4 and IPv6: whether Linux decides about packets of connections that are not in it.
    asks: [AtomicBool; 2],
}

impl Default for Bindings {
    fn default() -> Bindings {
        let empty = Arc::new(Vec::new());
        let shards = (0..SHARDS).map(|_| ArcSwap::new(Arc::clone(&empty))).collect();
        Bindings {
            shards,
            state: RandomState::new(),
            len: AtomicUsize::new(0),
            asks: Default::default(),
        }
    }
}

impl core::fmt::Debug for Bindings {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Bindings({} tuples)", self.len())
    }
}

impl Bindings {
    /// True if Linux has NAT for the family of an address, and decides about the first packets of
    /// connections.
    #[inline]
    pub fn asks(&self, addr: IpAddr) -> bool {
        self.asks[usize::from(addr.is_ipv6())].load(Relaxed)
    }

    /// Sets whether Linux has NAT, for IPv4 and for IPv6.
    pub fn set_asks(&self, families: [bool; 2]) {
        self.asks.iter().zip(families).for_each(|(asks, is_asked)| asks.store(is_asked, Relaxed));
    }

    /// Tuples that are in it: two for most connections.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// True if there are no connections.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The connection that packets of a tuple belong to.
    pub fn find(&self, tuple: &Tuple) -> Option<Found> {
        let hash = self.state.hash_one(tuple);
        let shard = self.shards.get(hash as usize % SHARDS)?.load();
        let first = shard.partition_point(|place| place.hash < hash);
        let mut same = shard.get(first..)?.iter().take_while(|place| place.hash == hash);
        same.find(|Place { found, .. }| found.binding.tuple(found.direction) == tuple)
            .map(|place| place.found.clone())
    }

    /// Carries changes out, in their order for each tuple. The control thread's.
    pub fn apply(&self, changes: impl IntoIterator<Item = Change>) {
        let mut changes: Vec<(u64, Change)> = changes
            .into_iter()
            .map(|change| {
                let (binding, direction) = change.of();
                (self.state.hash_one(binding.tuple(direction)), change)
            })
            .collect();
        // Stable: those of one tuple stay in their order.
        changes.sort_by_key(|(hash, _)| *hash as usize % SHARDS);
        let mut rest = changes.into_iter().peekable();
        while let Some((hash, _)) = rest.peek() {
            let number = *hash as usize % SHARDS;
            let Some(shard) = self.shards.get(number) else { return };
            let mut places = shard.load().as_ref().clone();
            let before = places.len();
            while let Some((hash, change)) =
                rest.next_if(|(hash, _)| *hash as usize % SHARDS == number)
            {
                change_one(&mut places, hash, change);
            }
            if places.len() >= before {
                self.len.fetch_add(places.len() - before, Relaxed);
            } else {
                self.len.fetch_sub(before - places.len(), Relaxed);
            }
            shard.store(Arc::new(places));
        }
    }

    /// Shows some of the connections, each once: those of part `part` of `parts`.
    pub fn each(&self, part: usize, parts: usize, mut look: impl FnMut(&Arc<Binding>)) {
        for shard in self.shards.iter().skip(part).step_by(parts.max(1)) {
            for place in shard.load().iter() {
                if place.found.direction == Direction::Original {
                    look(&place.found.binding);
                }
            }
        }
    }
}

fn change_one(places: &mut Vec<Place>, hash: u64, change: Change) {
    let (binding, direction) = change.of();
    let tuple = binding.tuple(direction);
    let first = places.partition_point(|place| place.hash < hash);
    let same = places.iter().skip(first).take_while(|place| place.hash == hash);
    let at = same
        .enumerate()
        .find(|(_, Place { found, .. })| found.binding.tuple(found.direction) == tuple)
        .map(|(n, _)| first + n);
    match (change, at) {
        (Change::Put(binding, direction), Some(at)) => {
            if let Some(place) = places.get_mut(at) {
                place.found = Found { binding, direction };
            }
        }
        (Change::Put(binding, direction), None) => {
            places.insert(first, Place { hash, found: Found { binding, direction } });
        }
        // A later connection of the same tuple stays.
        (Change::Remove(binding, _), Some(at)) => {
            if places.get(at).is_some_and(|place| Arc::ptr_eq(&place.found.binding, &binding)) {
                places.remove(at);
            }
        }
        (Change::Remove(..), None) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::entry::Status;

    fn entry(n: u16, nat: bool) -> Entry {
        let tuple = |src: [u8; 4], dst: [u8; 4], src_port, dst_port| Tuple {
            src: src.into(),
            dst: dst.into(),
            protocol: 17,
            src_port,
            dst_port,
        };
        let outer = if nat { [192, 0, 2, 1] } else { [10, 0, 0, 1] };
        Entry {
            original: tuple([10, 0, 0, 1], [198, 51, 100, 1], n, 53),
            reply: tuple([198, 51, 100, 1], outer, 53, n),
            status: Status::CONFIRMED,
            tcp: None,
            id: n.into(),
            zone: 0,
        }
    }

    #[test]
    fn both_directions_are_found_and_say_what_becomes_of_packets() {
        let table = Bindings::default();
        let natted = Arc::new(Binding::new(entry(1000, true)));
        let plain = Arc::new(Binding::new(entry(2000, false)));
        let put = |b: &Arc<Binding>| {
            [Direction::Original, Direction::Reply].map(|d| Change::Put(Arc::clone(b), d))
        };
        table.apply(put(&natted).into_iter().chain(put(&plain)));
        assert_eq!(table.len(), 4);
        let out = table.find(&natted.entry.original).expect("there");
        assert_eq!(out.direction, Direction::Original);
        let to = out.binding.rewrite(out.direction).expect("translated");
        assert_eq!((to.src, to.src_port), ([192, 0, 2, 1].into(), 1000));
        let back = table.find(&natted.entry.reply).expect("there");
        let to = back.binding.rewrite(back.direction).expect("translated");
        assert_eq!((to.dst, to.dst_port), ([10, 0, 0, 1].into(), 1000));
        let found = table.find(&plain.entry.original).expect("there");
        assert_eq!(found.binding.rewrite(found.direction), None);
        assert!(natted.is_translated() && !plain.is_translated());
        back.binding.count(back.direction, 100);
        assert_eq!(natted.carried(Direction::Reply), (1, 100));
        assert_eq!(natted.packets(), 1);
        let mut seen = 0;
        (0..3).for_each(|part| table.each(part, 3, |_| seen += 1));
        assert_eq!(seen, 2);
    }

    #[test]
    fn a_later_connection_is_not_removed_with_the_one_before() {
        let table = Bindings::default();
        let [first, second] =
            [1, 2].map(|id| Arc::new(Binding::new(Entry { id, ..entry(7, true) })));
        table.apply([Change::Put(Arc::clone(&first), Direction::Original)]);
        table.apply([
            Change::Put(Arc::clone(&second), Direction::Original),
            Change::Remove(first, Direction::Original),
        ]);
        let found = table.find(&second.entry.original).expect("the later one");
        assert_eq!(found.binding.entry.id, 2);
        table.apply([Change::Remove(second, Direction::Original)]);
        assert!(table.is_empty());
    }

    proptest! {
        #[test]
        fn equals_a_map(steps in prop::collection::vec((0u16..40, any::<bool>()), 1..200)) {
            let table = Bindings::default();
            let mut model: HashMap<u16, Arc<Binding>> = HashMap::new();
            for (n, put) in steps {
                if put {
                    let binding = Arc::new(Binding::new(entry(n, true)));
                    model.insert(n, Arc::clone(&binding));
                    table.apply([Change::Put(binding, Direction::Original)]);
                } else if let Some(binding) = model.remove(&n) {
                    table.apply([Change::Remove(binding, Direction::Original)]);
                }
                prop_assert_eq!(table.len(), model.len());
            }
            for n in 0..40 {
                let found = table.find(&entry(n, true).original).map(|f| f.binding);
                let same = match (&found, model.get(&n)) {
                    (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                    (None, None) => true,
                    _ => false,
                };
                prop_assert!(same);
            }
        }
    }
}
