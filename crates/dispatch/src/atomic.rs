//! Atomic: a flow's items are with one consumer at a time, in order; flows spread over consumers.
//!
//! A flow identifier is hashed to one of a fixed number of lanes, each a small ring of its own. (Flows
//! that share a lane are kept apart from other consumers together: that is stricter than asked.) A
//! lane with items waits in a bit map until a consumer claims it; then the lane is that consumer's until
//! the [`Lane`] is dropped. A lane with items left goes back to the map, so a flow can change consumers
//! only while nothing of it is under way.
//!
//! ```text
//!            put (bit set)              claim
//!    idle ------------------> waiting ---------> held --+--> idle     nothing came, nothing left
//!                                ^                      |
//!                                +----------------------+             something came, or is left
//! ```
//!
//! A full lane gives its items back while others take theirs: one heavy flow fills its lane, not the queue.

#![allow(
    unsafe_code,
    reason = "holding a lane is what lets a consumer take from it without a locked instruction"
)]

use core::cell::Cell;

use arrayvec::ArrayVec;

use crate::common::{Common, slots};
use crate::ends::Side;
use crate::outcome::{Refused, Stats};
use crate::sync::{Arc, AtomicU64, Ordering, Padded};
use crate::turns::Turns;

/// A queue of `lanes` lanes for at least `depth` items each (both are rounded up to powers of two), and
/// its two ends. Both can be cloned.
///
/// Memory is `lanes * depth` items with 8 bytes each, and half a KiB a lane. There should be many more
/// lanes than consumers, so that flows spread: 256 is a good number for 8 consumers.
///
/// # Panics
///
/// If `lanes` or `depth` is above 2^31.
pub fn queue<T>(lanes: usize, depth: usize) -> (Producer<T>, Consumer<T>) {
    let lanes = slots(lanes);
    let shared = Arc::new(Shared {
        common: Common::new(&[Side::Producers, Side::Consumers]),
        handles: Padded(AtomicU64::new(0)),
        waiting: (0..lanes.div_ceil(64)).map(|_| Padded(AtomicU64::new(0))).collect(),
        lanes: (0..lanes)
            .map(|_| LaneQueue { state: Padded(AtomicU64::new(0)), turns: Turns::new(depth) })
            .collect(),
    });
    (Producer { shared: Arc::clone(&shared) }, Consumer { shared, next: Cell::new(0) })
}

struct Shared<T> {
    common: Common,
    /// Consumers made so far: each begins its rounds elsewhere.
    handles: Padded<AtomicU64>,
    /// A bit for each lane, set from when it has items until a consumer claims it.
    waiting: Box<[Padded<AtomicU64>]>,
    lanes: Box<[LaneQueue<T>]>,
}

struct LaneQueue<T> {
    /// [`MORE`] and [`HELD`].
    state: Padded<AtomicU64>,
    turns: Turns<T>,
}

/// Something came since the lane was last claimed. Without [`HELD`] its bit in the map is set, or the
/// thread that set this one is about to set it.
const MORE: u64 = 1;
/// A consumer holds the lane.
const HELD: u64 = 2;

impl<T> Shared<T> {
    fn stats(&self) -> Stats {
        Stats {
            depth: self.lanes.iter().map(|lane| lane.turns.depth()).sum(),
            capacity: self.lanes.iter().map(|lane| lane.turns.capacity()).sum(),
            full: self.common.full(),
        }
    }

    /// The lane of a flow. Multiplying by 2^64 / φ spreads identifiers that follow one another, or
    /// differ in few bits, over the upper bits.
    fn lane_of(&self, flow: u64) -> usize {
        let spread = flow.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(spread) * self.lanes.len() as u128) >> 64) as usize
    }

    /// Sees to it that somebody will look at a lane into which items were put.
    #[inline(always)]
    fn announce(&self, lane: usize) {
        // A read-modify-write, even where the bit may be set already: it cannot miss a consumer that
        // has just looked and found nothing, as a load could. Release: the items are put before a
        // consumer that claims the lane looks. What the lane's last holder released is passed on:
        // a read-modify-write continues its release sequence.
        let before = self.lanes[lane].state.fetch_or(MORE, Ordering::Release);
        if before == 0 {
            self.set_waiting(lane);
        }
    }

    #[inline(always)]
    fn set_waiting(&self, lane: usize) {
        // Release: MORE is set before a consumer that finds the bit clears it; else it would stay.
        self.waiting[lane / 64].fetch_or(1 << (lane % 64), Ordering::Release);
    }

    /// True if a lane was waiting, and is not any more: the caller has it.
    #[inline(always)]
    fn clear_waiting(&self, lane: usize) -> bool {
        let bit = 1 << (lane % 64);
        // Acquire: pairs with set_waiting(). Of several consumers one gets the bit.
        self.waiting[lane / 64].fetch_and(!bit, Ordering::Acquire) & bit != 0
    }

    /// The first waiting lane from `from` on, once round; it may be gone when it is claimed.
    #[inline(always)]
    fn find_waiting(&self, from: usize) -> Option<usize> {
        let words = self.waiting.len();
        let first = from / 64 % words;
        // The first word twice: its upper part now, its lower part after all others.
        for step in 0..=words {
            let word = (first + step) % words;
            // Relaxed: clear_waiting() decides.
            let mut bits = self.waiting[word].load(Ordering::Relaxed);
            if step == 0 {
                bits &= u64::MAX << (from % 64);
            }
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
        }
        None
    }

    /// Claims a waiting lane, from `from` on, once round.
    #[inline]
    fn hold(&self, from: usize) -> Option<Lane<'_, T>> {
        loop {
            let index = self.find_waiting(from)?;
            // Otherwise another consumer was quicker; then look again.
            if self.clear_waiting(index) {
                // Acquire: what was put before the bit was set, and what the lane's last holder did, has
                // happened. MORE goes: what is put from now on sets it anew, and release() sees it.
                let before = self.lanes[index].state.swap(HELD, Ordering::Acquire);
                debug_assert_eq!(before, MORE, "a lane in the map is not held");
                return Some(Lane { shared: self, index });
            }
        }
    }

    /// Lets a held lane go.
    #[inline(always)]
    fn release(&self, index: usize) {
        let lane = &self.lanes[index];
        // Release, in both: what the holder did to the lane, and to its items, happens before the next
        // holder. A swap rather than a store, as a store would cut off the release sequences of
        // producers that announced meanwhile: the next holder might not see their items, and let the
        // lane go with them in it.
        let idle = lane.turns.is_empty()
            && lane.state.compare_exchange(HELD, 0, Ordering::Release, Ordering::Relaxed).is_ok();
        if !idle {
            lane.state.swap(MORE, Ordering::Release);
            self.set_waiting(index);
        }
    }

    /// One end goes. The last to go drops what is left.
    fn leave(&self, side: Side) {
        if self.common.ends.leave(side) {
            for lane in &self.lanes {
                while let Some(item) = lane.turns.take() {
                    drop(item);
                }
            }
        }
    }
}

/// An end that puts. Any number of threads, each with its clone.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Producer<T> {
    /// Puts an item at the end of its flow.
    ///
    /// # Errors
    ///
    /// The item comes back when there is no room in its lane, or no consumer any more.
    #[inline]
    pub fn put(&self, flow: u64, item: T) -> Result<(), Refused<T>> {
        if self.is_closed() {
            return Err(Refused::Closed(item));
        }
        let lane = self.shared.lane_of(flow);
        match self.shared.lanes[lane].turns.put(item) {
            Ok(()) => {
                self.shared.announce(lane);
                Ok(())
            }
            Err(item) => {
                self.shared.common.count_full();
                Err(Refused::Full(item))
            }
        }
    }

    /// Puts each item at the end of its flow, and says how many found room. The others stay, in their
    /// order: of a flow always the last ones, so that putting them later keeps the flow's order. All
    /// stay if there is no consumer any more.
    pub fn put_many<const N: usize>(&self, items: &mut ArrayVec<(u64, T), N>) -> usize {
        if items.is_empty() || self.is_closed() {
            return 0;
        }
        let shared = &*self.shared;
        let mut refused: ArrayVec<(u64, T), N> = ArrayVec::new();
        let mut count = 0;
        // One announcement serves a run of items to one lane.
        let mut current = None;
        for (flow, item) in items.drain(..) {
            let lane = shared.lane_of(flow);
            if current.is_some_and(|current| current != lane)
                && let Some(before) = current.take()
            {
                shared.announce(before);
            }
            // Room may have come since an item of this lane was refused; it must not overtake.
            if refused.iter().any(|(other, _)| shared.lane_of(*other) == lane) {
                refused.push((flow, item));
                continue;
            }
            match shared.lanes[lane].turns.put(item) {
                Ok(()) => {
                    current = Some(lane);
                    count += 1;
                }
                Err(item) => refused.push((flow, item)),
            }
        }
        if let Some(last) = current {
            shared.announce(last);
        }
        if !refused.is_empty() {
            shared.common.count_full();
            items.extend(refused);
        }
        count
    }

    /// True if all consumers were dropped. What they left is had by [`Self::take_back`].
    #[inline(always)]
    pub fn is_closed(&self) -> bool {
        self.shared.common.ends.gone(Side::Consumers)
    }

    /// When all consumers have gone, one of the items that they left, each flow's in order; else nothing.
    pub fn take_back(&self) -> Option<T> {
        if !self.is_closed() {
            return None;
        }
        self.shared.lanes.iter().find_map(|lane| lane.turns.take())
    }

    /// Depth, capacity and full events. Adds up all lanes: not for every burst.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl<T> Clone for Producer<T> {
    fn clone(&self) -> Self {
        self.shared.common.ends.join(Side::Producers);
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.leave(Side::Producers);
    }
}

/// An end that takes. Any number of threads, each with its clone.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    /// Where the next search begins. Each claim moves it on, so every lane's turn comes.
    next: Cell<usize>,
}

impl<T> Consumer<T> {
    /// Claims a lane that has items, in rounds over all lanes. Several may be held at once.
    #[inline]
    pub fn hold(&self) -> Option<Lane<'_, T>> {
        let lane = self.shared.hold(self.next.get())?;
        self.next.set((lane.index + 1) & (self.shared.lanes.len() - 1));
        Some(lane)
    }

    /// True if no lane waits now. May be called after
    /// [`Sleepers::prepare`](crate::Sleepers::prepare).
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Acquire, so that a consumer of a lane sees all that was done before it was set waiting.
        self.shared.waiting.iter().all(|word| word.load(Ordering::Acquire) == 0)
    }

    /// True if all producers were dropped and nothing is left. What another consumer holds counts
    /// as left until it is taken.
    pub fn is_closed(&self) -> bool {
        // In this order: what the producers put before they went is seen.
        self.shared.common.ends.gone(Side::Producers)
            && self.shared.lanes.iter().all(|lane| lane.turns.is_empty())
    }

    /// Depth, capacity and full events. Adds up all lanes: not for every burst.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl<T> Clone for Consumer<T> {
    fn clone(&self) -> Self {
        self.shared.common.ends.join(Side::Consumers);
        // Relaxed: any number does. An odd step through a power of two: all places differ.
        let number = self.shared.handles.fetch_add(1, Ordering::Relaxed) as usize + 1;
        let lanes = self.shared.lanes.len();
        let next = Cell::new(number.wrapping_mul((lanes / 8 + 1) | 1) & (lanes - 1));
        Self { shared: Arc::clone(&self.shared), next }
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.leave(Side::Consumers);
    }
}

/// A lane in hand. Its flows are with no other consumer until it is dropped: drop it when the items
/// taken from it are done, not before.
///
/// Forgotten rather than dropped, the lane is never served again.
#[must_use = "dropped at once, the lane goes back"]
pub struct Lane<'a, T> {
    shared: &'a Shared<T>,
    index: usize,
}

impl<T> Lane<'_, T> {
    /// The lane's number: the same for all items of a flow.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Takes the first item, if one is left.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        // SAFETY: of all consumers this one holds the lane, and this handle is mutably borrowed;
        // what the one before did has happened before (hold()). Producers take back only when there is
        // no consumer left from which a lane could be held.
        unsafe { self.shared.lanes[self.index].turns.take_alone() }
    }

    /// Takes items from the front for as long as `out` has room, and says how many.
    #[inline]
    pub fn take_many<const N: usize>(&mut self, out: &mut ArrayVec<T, N>) -> usize {
        // SAFETY: as in take().
        unsafe { self.shared.lanes[self.index].turns.take_many_alone(out) }
    }
}

impl<T> Drop for Lane<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.shared.release(self.index);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A flow in each of two lanes.
    fn two_flows<T>(producer: &Producer<T>) -> (u64, u64) {
        let lane = |flow| producer.shared.lane_of(flow);
        (0, (1..).find(|flow| lane(*flow) != lane(0)).unwrap())
    }

    #[test]
    fn a_held_lane_is_nobody_elses() {
        let (producer, first) = queue(4, 8);
        let second = first.clone();
        let (a, b) = two_flows(&producer);
        producer.put(a, 1).unwrap();
        producer.put(a, 2).unwrap();
        let mut held = first.hold().unwrap();
        assert_eq!(held.take(), Some(1));
        assert!(second.hold().is_none());
        producer.put(a, 3).unwrap();
        assert!(second.hold().is_none(), "what comes meanwhile waits for the holder");
        producer.put(b, 11).unwrap();
        let mut other = second.hold().unwrap();
        assert_ne!(other.index(), held.index());
        assert_eq!(other.take(), Some(11));
        drop(held);
        let mut held = second.hold().unwrap();
        assert_eq!((held.take(), held.take(), held.take()), (Some(2), Some(3), None));
        drop(held);
        drop(other);
        assert!(first.is_empty() && first.hold().is_none());
    }

    #[test]
    fn each_lane_gets_its_turn() {
        let (producer, consumer) = queue(128, 4);
        for flow in 0..1000 {
            let _full = producer.put(flow, flow);
        }
        // One lane never runs dry; all the others are served all the same.
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..128 {
            let mut lane = consumer.hold().unwrap();
            seen.insert(lane.index());
            lane.take();
        }
        assert_eq!(seen.len(), 128);
    }

    #[test]
    fn a_full_lane_gives_back_the_end_of_its_flows() {
        let (producer, consumer) = queue(4, 2);
        let (a, b) = two_flows(&producer);
        let mut items = ArrayVec::from([(a, 1), (a, 2), (a, 3), (b, 11), (a, 4)]);
        assert_eq!(producer.put_many(&mut items), 3);
        assert_eq!(items.as_slice(), [(a, 3), (a, 4)]);
        assert_eq!(producer.put(a, 9), Err(Refused::Full(9)));
        producer.put(b, 12).unwrap();
        assert_eq!(consumer.stats(), Stats { depth: 4, capacity: 8, full: 2 });
    }

    #[test]
    fn consecutive_identifiers_spread() {
        let (producer, _consumer) = queue::<u8>(256, 2);
        for step in [1, 2, 64, 4096, 1 << 32] {
            let lanes: std::collections::BTreeSet<usize> =
                (0..256).map(|number| producer.shared.lane_of(number * step)).collect();
            assert!(lanes.len() > 100, "steps of {step}: {} lanes of 256", lanes.len());
        }
    }

    #[test]
    fn what_consumers_left_comes_back() {
        let (producer, consumer) = queue(4, 4);
        let (a, b) = two_flows(&producer);
        for (flow, item) in [(a, 1), (b, 11), (a, 2), (a, 3)] {
            producer.put(flow, item).unwrap();
        }
        let mut held = consumer.hold().unwrap();
        let taken = held.take().unwrap();
        drop(held);
        assert_eq!(producer.take_back(), None);
        drop(consumer);
        assert_eq!(producer.put(a, 4), Err(Refused::Closed(4)));
        let mut left: Vec<i32> = std::iter::from_fn(|| producer.take_back()).collect();
        left.push(taken);
        left.sort_unstable();
        assert_eq!(left, [1, 2, 3, 11]);
    }

    #[test]
    fn a_consumer_knows_the_end() {
        let (producer, consumer) = queue(2, 2);
        producer.put(7, 1).unwrap();
        drop(producer);
        assert!(!consumer.is_closed());
        assert_eq!(consumer.hold().unwrap().take(), Some(1));
        assert!(consumer.is_closed());
    }
}
