//! Packets that wait: for a neighbour's address, or for an SA.
//!
//! All memory is allocated when the queue is made. Packets lie in numbered slots; each slot is in
//! two lists, that of its key and that of all packets by arrival, so that a key's packets come out
//! in order and the oldest packets are found at once when their time is up.

use core::hash::Hash;
use std::collections::HashMap;

/// How much may wait, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldLimits {
    /// Packets per key.
    pub per_key: usize,
    /// Packets in all.
    pub total: usize,
    /// How long a packet waits at most, in ns.
    pub timeout_ns: u64,
}

/// A packet was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Held {
    /// The only packet that waits for its key: the caller should have the key resolved.
    First,
    /// Others wait for the same key already.
    Behind,
}

/// A packet was not taken in; here it is again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused<T> {
    /// Too many packets wait for this key.
    KeyFull(T),
    /// Too many packets wait in all.
    Full(T),
}

impl<T> Refused<T> {
    /// The packet that was not taken.
    pub fn into_packet(self) -> T {
        match self {
            Self::KeyFull(packet) | Self::Full(packet) => packet,
        }
    }
}

/// A bounded queue of packets of type `T` that wait for keys of type `K`.
///
/// Every packet that [`HoldQueue::push`] takes in comes out once, by [`HoldQueue::pop`],
/// [`HoldQueue::pop_expired`] or [`HoldQueue::pop_any`]; the caller counts it and sends or frees
/// it then. One owner: each worker has its own.
#[derive(Clone, Debug)]
pub struct HoldQueue<K, T> {
    limits: HoldLimits,
    slots: Vec<Slot<K, T>>,
    /// First free slot; free slots are linked by `next`.
    free: Link,
    oldest: Link,
    newest: Link,
    keys: HashMap<K, Waiting, ahash::RandomState>,
    len: usize,
}

/// A slot's number, if any.
type Link = Option<usize>;

#[derive(Clone, Debug)]
struct Slot<K, T> {
    held: Option<(K, T)>,
    deadline_ns: u64,
    /// By arrival, or the next free slot.
    next: Link,
    /// The slot before it, by arrival.
    previous: Link,
    /// The next that waits for the same key.
    next_of_key: Link,
}

/// The packets that wait for one key; there is at least one.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    first: usize,
    last: usize,
    len: usize,
}

impl<K: Clone + Eq + Hash, T> HoldQueue<K, T> {
    /// An empty queue with all its memory.
    pub fn new(limits: HoldLimits) -> Self {
        let slots = (0..limits.total)
            .map(|i| Slot {
                held: None,
                deadline_ns: 0,
                next: Some(i + 1).filter(|n| *n < limits.total),
                previous: None,
                next_of_key: None,
            })
            .collect();
        Self {
            limits,
            slots,
            free: Some(0).filter(|_| limits.total > 0),
            oldest: None,
            newest: None,
            keys: HashMap::with_capacity_and_hasher(
                limits.total.saturating_mul(2),
                ahash::RandomState::new(),
            ),
            len: 0,
        }
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no packet waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many packets wait for the key.
    pub fn len_of(&self, key: &K) -> usize {
        self.keys.get(key).map_or(0, |w| w.len)
    }

    /// The keys that packets wait for, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.keys.keys()
    }

    /// Takes a packet in, behind those that wait for the same key. `now_ns` is from a monotonic
    /// clock.
    ///
    /// # Errors
    /// A limit is reached; the packet comes back, and those that wait go on waiting.
    pub fn push(&mut self, key: K, packet: T, now_ns: u64) -> Result<Held, Refused<T>> {
        if self.len_of(&key) >= self.limits.per_key {
            return Err(Refused::KeyFull(packet));
        }
        let newest = self.newest;
        let Some((at, slot)) = self.free.and_then(|at| Some((at, self.slots.get_mut(at)?))) else {
            return Err(Refused::Full(packet));
        };
        self.free = slot.next;
        *slot = Slot {
            held: Some((key.clone(), packet)),
            deadline_ns: now_ns.saturating_add(self.limits.timeout_ns),
            next: None,
            previous: newest,
            next_of_key: None,
        };
        match newest.and_then(|n| self.slots.get_mut(n)) {
            Some(before) => before.next = Some(at),
            None => self.oldest = Some(at),
        }
        self.newest = Some(at);
        self.len += 1;

        let Some(waiting) = self.keys.get_mut(&key) else {
            self.keys.insert(key, Waiting { first: at, last: at, len: 1 });
            return Ok(Held::First);
        };
        if let Some(last) = self.slots.get_mut(waiting.last) {
            last.next_of_key = Some(at);
        }
        waiting.last = at;
        waiting.len += 1;
        Ok(Held::Behind)
    }

    /// A key's oldest packet, left where it is.
    pub fn front(&self, key: &K) -> Option<&T> {
        let first = self.keys.get(key)?.first;
        self.slots.get(first)?.held.as_ref().map(|(_, packet)| packet)
    }

    /// A key's newest packet, left where it is.
    pub fn back_mut(&mut self, key: &K) -> Option<&mut T> {
        let last = self.keys.get(key)?.last;
        self.slots.get_mut(last)?.held.as_mut().map(|(_, packet)| packet)
    }

    /// Takes out the packet that has waited longest for the key; for when the key is resolved, or
    /// has failed. Repeat until `None`.
    pub fn pop(&mut self, key: &K) -> Option<T> {
        let first = self.keys.get(key)?.first;
        self.take(first).map(|(_, packet)| packet)
    }

    /// Takes out the oldest packet, with its key, if its time is up. Repeat until `None`.
    pub fn pop_expired(&mut self, now_ns: u64) -> Option<(K, T)> {
        let oldest = self.oldest?;
        if self.slots.get(oldest)?.deadline_ns > now_ns {
            return None;
        }
        self.take(oldest)
    }

    /// Takes out the oldest packet, with its key: to empty the queue at the end.
    pub fn pop_any(&mut self) -> Option<(K, T)> {
        self.take(self.oldest?)
    }

    /// Takes out a slot's packet, which is the first of its key: the oldest of all is.
    fn take(&mut self, at: usize) -> Option<(K, T)> {
        let free = self.free;
        let slot = self.slots.get_mut(at)?;
        let (key, packet) = slot.held.take()?;
        let (next, previous, next_of_key) = (slot.next, slot.previous, slot.next_of_key);
        slot.next = free;
        self.free = Some(at);
        self.len -= 1;

        match previous.and_then(|p| self.slots.get_mut(p)) {
            Some(before) => before.next = next,
            None => self.oldest = next,
        }
        match next.and_then(|n| self.slots.get_mut(n)) {
            Some(after) => after.previous = previous,
            None => self.newest = previous,
        }
        match next_of_key {
            None => {
                self.keys.remove(&key);
            }
            Some(first) => {
                if let Some(waiting) = self.keys.get_mut(&key) {
                    waiting.first = first;
                    waiting.len -= 1;
                }
            }
        }
        Some((key, packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: HoldLimits = HoldLimits { per_key: 3, total: 5, timeout_ns: 100 };

    #[test]
    fn packets_come_out_in_order() {
        let mut q = HoldQueue::new(LIMITS);
        assert_eq!(q.push('a', 1, 0), Ok(Held::First));
        assert_eq!(q.push('b', 2, 0), Ok(Held::First));
        assert_eq!(q.push('a', 3, 0), Ok(Held::Behind));
        assert_eq!((q.len(), q.len_of(&'a'), q.len_of(&'c')), (3, 2, 0));
        assert_eq!((q.front(&'a').copied(), q.back_mut(&'a').copied()), (Some(1), Some(3)));
        assert_eq!((q.front(&'c').copied(), q.back_mut(&'c')), (None, None));
        assert_eq!([q.pop(&'a'), q.pop(&'a'), q.pop(&'a')], [Some(1), Some(3), None]);
        assert_eq!(q.push('a', 4, 0), Ok(Held::First));
        assert_eq!([q.pop_any(), q.pop_any(), q.pop_any()], [Some(('b', 2)), Some(('a', 4)), None]);
        assert!(q.is_empty());
    }

    #[test]
    fn limits_give_the_packet_back() {
        let mut q = HoldQueue::new(LIMITS);
        for i in 0..3 {
            assert!(q.push('a', i, 0).is_ok());
        }
        assert_eq!(q.push('a', 3, 0), Err(Refused::KeyFull(3)));
        assert!(q.push('b', 4, 0).is_ok() && q.push('c', 5, 0).is_ok());
        assert_eq!(q.push('d', 6, 0), Err(Refused::Full(6)));
        assert_eq!(Refused::Full(6).into_packet(), 6);
        assert_eq!(q.pop(&'a'), Some(0));
        assert_eq!(q.push('d', 7, 0), Ok(Held::First));
        let mut none = HoldQueue::new(HoldLimits { per_key: 9, total: 0, timeout_ns: 1 });
        assert_eq!(none.push('a', 1, 0), Err(Refused::Full(1)));
        let mut none = HoldQueue::new(HoldLimits { per_key: 0, total: 9, timeout_ns: 1 });
        assert_eq!(none.push('a', 1, 0), Err(Refused::KeyFull(1)));
    }

    #[test]
    fn time_is_up_to_the_nanosecond() {
        let mut q = HoldQueue::new(LIMITS);
        let _ = q.push('a', 1, 10);
        let _ = q.push('b', 2, 20);
        let _ = q.push('a', 3, 30);
        assert_eq!(q.pop_expired(109), None);
        assert_eq!(q.pop_expired(110), Some(('a', 1)));
        assert_eq!(q.pop_expired(110), None);
        assert_eq!(q.pop(&'a'), Some(3));
        assert_eq!(q.pop_expired(u64::MAX), Some(('b', 2)));
        assert_eq!(q.keys().count(), 0);
    }

    /// A model of the queue: a plain list.
    #[derive(Default)]
    struct Model(Vec<(u8, u32, u64)>);

    impl Model {
        fn push(&mut self, key: u8, packet: u32, now: u64) -> Result<Held, Refused<u32>> {
            let same = self.0.iter().filter(|e| e.0 == key).count();
            if same >= LIMITS.per_key {
                return Err(Refused::KeyFull(packet));
            }
            if self.0.len() >= LIMITS.total {
                return Err(Refused::Full(packet));
            }
            self.0.push((key, packet, now + LIMITS.timeout_ns));
            Ok(if same == 0 { Held::First } else { Held::Behind })
        }

        fn remove(&mut self, at: Option<usize>) -> Option<(u8, u32)> {
            at.map(|at| self.0.remove(at)).map(|(k, p, _)| (k, p))
        }
    }

    proptest! {
        #[test]
        fn behaves_like_a_plain_list(steps in prop::collection::vec((0u8..10, 0u8..4, 0u64..40), 1..200)) {
            let mut q = HoldQueue::new(LIMITS);
            let mut model = Model::default();
            let mut now = 0;
            for (i, (what, key, wait)) in steps.into_iter().enumerate() {
                now += wait;
                match what {
                    0..6 => prop_assert_eq!(q.push(key, i as u32, now), model.push(key, i as u32, now)),
                    6..8 => {
                        let at = model.0.iter().position(|e| e.0 == key);
                        prop_assert_eq!(q.pop(&key), model.remove(at).map(|(_, p)| p));
                    }
                    8 => {
                        let at = model.0.first().filter(|e| e.2 <= now).map(|_| 0);
                        prop_assert_eq!(q.pop_expired(now), model.remove(at));
                    }
                    _ => {
                        let at = model.0.first().map(|_| 0);
                        prop_assert_eq!(q.pop_any(), model.remove(at));
                    }
                }
                prop_assert_eq!(q.len(), model.0.len());
                for key in 0..4 {
                    prop_assert_eq!(q.len_of(&key), model.0.iter().filter(|e| e.0 == key).count());
                }
            }
        }
    }
}
