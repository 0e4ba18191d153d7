//! State that the device and its queues work on together.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use offload::DeviceCounters;

use crate::sa::Table;
use crate::sys::{Adapter, Pair};

/// Packets that a queue has at most.
pub const DEPTH: usize = 128;

/// The longest packet with its outer header, in bytes.
pub const MOST_PACKET_LEN: usize = 16_000;

/// Room of a packet's memory: the packet, and the high half of a number.
const MEMORY_LEN: u16 = 16_128;

/// A queue pair as control and its queue have it.
pub struct PairState {
    /// Made with the first queue.
    pub pair: Option<Pair>,
    /// Resets: what was inside before one does not come back.
    pub resets: u64,
}

/// State that the device and its queues share.
pub struct Shared {
    pub adapter: Arc<Adapter>,
    pub table: Table,
    pub counters: Counters,
    /// By queue pair. A queue takes its own for the time of a call and never waits for it: control has them all
    /// while it resets the device.
    pairs: Box<[Mutex<PairState>]>,
    /// Pairs that no queue has.
    free: Mutex<Vec<usize>>,
}

impl Shared {
    pub fn new(adapter: Arc<Adapter>, pairs: u16, places: usize) -> Shared {
        let state = |_| Mutex::new(PairState { pair: None, resets: 0 });
        Shared {
            adapter,
            table: Table::new(places),
            counters: Counters::default(),
            pairs: (0..pairs).map(state).collect(),
            free: Mutex::new((0..usize::from(pairs)).rev().collect()),
        }
    }

    /// How many queue pairs there are.
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// How many are taken.
    pub fn pairs_taken(&self) -> usize {
        self.pairs.len() - unpoisoned(&self.free).len()
    }

    /// A queue pair that no queue has.
    pub fn take_pair(&self) -> Option<usize> {
        unpoisoned(&self.free).pop()
    }

    /// Gives it back, with nothing inside, or for ever.
    pub fn give_pair(&self, number: usize) {
        unpoisoned(&self.free).push(number);
    }

    /// Locks a pair, for a thread that may wait.
    pub fn lock(&self, number: usize) -> Option<MutexGuard<'_, PairState>> {
        self.pairs.get(number).map(unpoisoned)
    }

    /// A pair, unless control has it.
    pub fn try_lock(&self, number: usize) -> Option<MutexGuard<'_, PairState>> {
        match self.pairs.get(number)?.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Memory for a pair's packets.
    pub fn new_pair(&self, number: usize) -> Option<Pair> {
        Pair::new(&self.adapter, u16::try_from(number).ok()?, DEPTH as u32, MEMORY_LEN)
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// [`DeviceCounters`], by all queues.
#[derive(Default)]
pub struct Counters {
    pub sealed: AtomicU64,
    pub opened: AtomicU64,
    pub wrong_icv: AtomicU64,
    pub refused: AtomicU64,
    pub resets: AtomicU64,
}

impl Counters {
    pub fn told(&self) -> DeviceCounters {
        DeviceCounters {
            sealed: self.sealed.load(Relaxed),
            opened: self.opened.load(Relaxed),
            wrong_icv: self.wrong_icv.load(Relaxed),
            refused: self.refused.load(Relaxed),
            resets: self.resets.load(Relaxed),
        }
    }

    /// Back to nothing, once the device has been proven.
    pub fn clear(&self) {
        for counter in [&self.sealed, &self.opened, &self.wrong_icv, &self.refused, &self.resets] {
            counter.store(0, Relaxed);
        }
    }
}
