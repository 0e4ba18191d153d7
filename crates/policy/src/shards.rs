//! A hash map in many small immutable pieces, published to readers piece by piece.

use core::hash::Hash;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use arc_swap::ArcSwap;

type Map<K, V> = HashMap<K, V, RandomState>;

/// One piece: replaced as a whole by the writer.
struct Shard<K, V> {
    /// Grows after each replacement, so that a reader need not touch `map` to see that it is still
    /// the one it holds.
    version: AtomicU64,
    map: ArcSwap<Map<K, V>>,
}

/// The published side, shared by the one writer and all readers.
///
/// The hash is keyed by a random number: keys are chosen by peers (SPIs), who must not be able to
/// choose collisions.
pub(crate) struct Shards<K, V> {
    hasher: RandomState,
    shards: Box<[Shard<K, V>]>,
}

impl<K: Hash + Eq + Clone, V: Clone> Shards<K, V> {
    /// An empty map of so many pieces.
    pub(crate) fn new(count: usize) -> Shards<K, V> {
        let hasher = RandomState::new();
        let empty = Arc::new(HashMap::with_hasher(hasher.clone()));
        let shards = (0..count)
            .map(|_| Shard { version: AtomicU64::new(0), map: ArcSwap::new(Arc::clone(&empty)) })
            .collect();
        Shards { hasher, shards }
    }

    /// Which piece a key belongs to.
    fn position(&self, key: &K) -> usize {
        // The map inside the piece uses the low bits of the same hash: take others.
        (self.hasher.hash_one(key) >> 40) as usize % self.shards.len()
    }

    /// Writer: replaces the value of a key by what `change` makes of it, in one step for readers.
    pub(crate) fn update(&self, key: &K, change: impl FnOnce(Option<&V>) -> Option<V>) {
        let shard = &self.shards[self.position(key)];
        let current = shard.map.load_full();
        let mut map = Map::clone(&current);
        match change(current.get(key)) {
            Some(value) => {
                map.insert(key.clone(), value);
            }
            None => {
                map.remove(key);
            }
        }
        shard.map.store(Arc::new(map));
        shard.version.store(shard.version.load(Relaxed) + 1, Release);
    }

    /// Writer: the value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.shards[self.position(key)].map.load().get(key).cloned()
    }

    /// Writer: all values, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = V> {
        self.shards.iter().flat_map(|s| s.map.load().values().cloned().collect::<Vec<_>>())
    }
}

/// A piece as a reader last saw it, and its version then.
type Piece<K, V> = (u64, Arc<Map<K, V>>);

/// A reader's side: the pieces it last saw. Look-ups touch nothing shared.
pub(crate) struct View<K, V> {
    shared: Arc<Shards<K, V>>,
    pieces: Box<[Piece<K, V>]>,
}

impl<K: Hash + Eq + Clone, V: Clone> View<K, V> {
    /// A view of the map as it is now.
    pub(crate) fn new(shared: Arc<Shards<K, V>>) -> View<K, V> {
        // The version is read before the map: a newer map under an older version costs one
        // superfluous reload, the other way round would miss a change.
        let pieces =
            shared.shards.iter().map(|s| (s.version.load(Acquire), s.map.load_full())).collect();
        View { shared, pieces }
    }

    /// Takes over every piece that has changed. Does not allocate.
    pub(crate) fn refresh(&mut self) {
        for ((seen, map), shard) in self.pieces.iter_mut().zip(&self.shared.shards) {
            let version = shard.version.load(Acquire);
            if version != *seen {
                *map = shard.map.load_full();
                *seen = version;
            }
        }
    }

    /// The value of a key, as of the last refresh.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.pieces.get(self.shared.position(key))?.1.get(key)
    }
}
