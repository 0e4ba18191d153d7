//! Sleep without lost wake-ups: who sleeps, and who must be woken.
//!
//! Consumers poll. One with nothing to do may go to sleep in the kernel, and a producer that puts something for
//! it must then wake it by an eventfd or the like, which costs a system call: so only if it sleeps. This
//! module keeps who does. It knows nothing of queues: one [`Sleepers`] serves all queues of
//! a set of workers.
//!
//! The consumer:
//!
//! ```text
//! sleepers.prepare(me);
//! if all my queues are empty {     // is_empty(), is_ready(): asked after prepare()
//!     poll(eventfd);
//! }
//! sleepers.awake(me);
//! ```
//!
//! The producer, once for as many puts as it likes:
//!
//! ```text
//! queue.put_many(&mut burst);
//! if sleepers.needs_wake(owner) { write(eventfd of owner) }                    // directed
//! if let Some(worker) = sleepers.wake_one() { write(eventfd of worker) }       // any of them
//! ```
//!
//! Either the consumer sees the item, or the producer sees that the consumer sleeps. After
//! `wake_one` one consumer looks; if it finds more than it can do it calls `wake_one` again.

use crate::sync::{Arc, AtomicU64, Ordering, Padded, fence};

/// Which of up to 64 workers sleep. Any thread may hold a clone.
#[derive(Clone)]
pub struct Sleepers {
    /// A bit for each worker, set from [`Self::prepare`] until it is awake or somebody wakes it.
    bits: Arc<Padded<AtomicU64>>,
}

impl Sleepers {
    /// Workers at most: they are numbered from 0 to 63.
    pub const MOST: usize = 64;

    /// All are awake.
    pub fn new() -> Self {
        Self { bits: Arc::new(Padded(AtomicU64::new(0))) }
    }

    /// Says that a worker is about to sleep. It must look at its queues once more, and sleep only if all
    /// are empty.
    ///
    /// # Panics
    ///
    /// If there can be no worker of that number.
    pub fn prepare(&self, worker: usize) {
        // Relaxed: the fence orders it.
        self.bits.fetch_or(bit(worker), Ordering::Relaxed);
        // Sequentially consistent: pairs with that of wakeable(). Of the two fences one is first. If
        // this one is, the producer sees the bit; if the other is, we see the item.
        fence(Ordering::SeqCst);
    }

    /// Says that a worker does not sleep, or not any more.
    ///
    /// # Panics
    ///
    /// If there can be no worker of that number.
    pub fn awake(&self, worker: usize) {
        // Relaxed: a wake-up too many does no harm.
        if self.bits.load(Ordering::Relaxed) & bit(worker) != 0 {
            self.bits.fetch_and(!bit(worker), Ordering::Relaxed);
        }
    }

    /// After a put: whether this worker sleeps and the caller must wake it. Of several callers
    /// one is told so.
    ///
    /// # Panics
    ///
    /// If there can be no worker of that number.
    #[inline]
    pub fn needs_wake(&self, worker: usize) -> bool {
        self.wakeable() & bit(worker) != 0 && self.clear(worker)
    }

    /// After a put that any worker may take: a worker that sleeps and that the caller must wake.
    #[inline]
    pub fn wake_one(&self) -> Option<usize> {
        let mut bits = self.wakeable();
        while bits != 0 {
            let worker = bits.trailing_zeros() as usize;
            if self.clear(worker) {
                return Some(worker);
            }
            bits &= bits - 1;
        }
        None
    }

    /// Consumers that sleep, as a bit mask. A producer that has just put an item must see it.
    #[inline(always)]
    fn wakeable(&self) -> u64 {
        // Sequentially consistent: see prepare(). The put was a plain store, which a load may
        // overtake.
        fence(Ordering::SeqCst);
        self.bits.load(Ordering::Relaxed)
    }

    #[cold]
    fn clear(&self, worker: usize) -> bool {
        // Relaxed: who wakes whom is decided by the word alone.
        self.bits.fetch_and(!bit(worker), Ordering::Relaxed) & bit(worker) != 0
    }
}

impl Default for Sleepers {
    fn default() -> Self {
        Self::new()
    }
}

fn bit(worker: usize) -> u64 {
    assert!(worker < Sleepers::MOST, "worker {worker} of {}", Sleepers::MOST);
    1 << worker
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_sleeper_is_woken_once() {
        let sleepers = Sleepers::new();
        assert!(!sleepers.needs_wake(3));
        assert_eq!(sleepers.wake_one(), None);
        for worker in [3, 63] {
            sleepers.prepare(worker);
        }
        assert!(!sleepers.needs_wake(4));
        assert!(sleepers.needs_wake(3));
        assert!(!sleepers.needs_wake(3), "it was told already");
        assert_eq!(sleepers.clone().wake_one(), Some(63));
        assert_eq!(sleepers.wake_one(), None);
    }

    #[test]
    fn who_is_awake_needs_no_call() {
        let sleepers = Sleepers::default();
        sleepers.prepare(0);
        sleepers.prepare(1);
        sleepers.awake(0);
        sleepers.awake(0);
        assert!(!sleepers.needs_wake(0));
        assert_eq!(sleepers.wake_one(), Some(1));
    }

    #[test]
    #[should_panic = "worker 64 of 64"]
    fn there_is_no_65th_worker() {
        Sleepers::new().prepare(64);
    }
}
