//! Packets that wait for tokens of limits that shape.
//!
//! Each such limit has a queue at each worker. The one that may have tokens first stands first in a heap of times; once a
//! round those whose time has come are asked again. What waits is a packet as another worker would be handed: when it goes on
//! it is judged by what holds then.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use limit::{Bounds, Class, LimitPath, Queue, Stop, Store, Waiting};
use outcome::DropReason;

use crate::features::limit::grant::Grant;
use crate::model::Handed;
use crate::tables::rate_rules::RateRules;

/// How long a packet waits at most.
const LONGEST_NS: u64 = 5_000_000_000;

/// When a queue is empty.
const NEVER: u64 = u64::MAX;

/// All queues of one worker.
pub(crate) struct LimitQueues {
    store: Store<Handed>,
    all: Vec<LimitQueue>,
    /// Where a limiter's stands, by its buckets.
    places: HashMap<usize, u32, ahash::RandomState>,
    /// When they are looked at. Times that are not their queue's any more are passed over.
    due: BinaryHeap<Reverse<(u64, u32)>>,
}

/// One limit's queue.
struct LimitQueue {
    path: LimitPath,
    queue: Queue,
    due_ns: u64,
    /// There is no such limit any more.
    is_gone: bool,
}

/// A packet that waits no longer.
pub(crate) enum Dequeued {
    /// The packet goes on with these tokens.
    On(Handed, Grant),
    /// The packet is dropped.
    Drop(Handed, DropReason),
}

impl LimitQueue {
    fn bounds(&self) -> Bounds {
        self.path.queue().map_or(Bounds { packets: 0, bytes: 0 }, |(bounds, _)| *bounds)
    }

    fn dropped(&self, class: Class, len: u32) {
        self.path.queue().into_iter().for_each(|(_, waits)| waits.dropped(class));
        self.path.refuse(len as usize);
    }
}

impl LimitQueues {
    /// Room for so many packets.
    pub(crate) fn new(most: usize) -> LimitQueues {
        let (store, places, due) = (Store::new(most), HashMap::default(), BinaryHeap::new());
        LimitQueues { store, all: Vec::new(), places, due }
    }

    /// True if packets wait there already: those behind them wait too.
    pub(crate) fn has_waiting(&self, path: &LimitPath) -> bool {
        let at = path.leaf().and_then(|leaf| self.places.get(&leaf.id()));
        at.and_then(|at| self.all.get(*at as usize)).is_some_and(|one| !one.queue.is_empty())
    }

    /// Where a limiter's queue stands.
    pub(crate) fn place(&mut self, path: &LimitPath) -> Option<u32> {
        let id = path.leaf()?.id();
        if let Some(at) = self.places.get(&id) {
            return Some(*at);
        }
        let at = self.all.len() as u32;
        let (path, queue) = (path.clone(), Queue::default());
        self.all.push(LimitQueue { path, queue, due_ns: NEVER, is_gone: false });
        self.places.insert(id, at);
        Some(at)
    }

    /// Takes out what makes room for a packet: while there is none, what came first of the last class behind its own.
    pub(crate) fn evict(&mut self, at: u32, class: Class, len: u32) -> Option<Handed> {
        let LimitQueues { store, all, .. } = self;
        let one = all.get_mut(at as usize)?;
        if store.has_room(&one.queue, one.bounds(), len) {
            return None;
        }
        let last = one.queue.last_behind(class)?;
        let waiting = store.pop(&mut one.queue, last)?;
        one.dropped(last, waiting.len);
        Some(waiting.item)
    }

    /// True if a packet finds room. One that does not is counted.
    pub(crate) fn has_room(&self, at: u32, class: Class, len: u32) -> bool {
        let Some(one) = self.all.get(at as usize) else { return false };
        let has_room = self.store.has_room(&one.queue, one.bounds(), len);
        if !has_room {
            one.path.queue().into_iter().for_each(|(_, waits)| waits.refused(class));
            one.path.refuse(len as usize);
        }
        has_room
    }

    /// Has a packet wait, for which there is room; at `until_ns` there may be tokens for it.
    pub(crate) fn put(
        &mut self,
        at: u32,
        waiting: Waiting<Handed>,
        until_ns: u64,
    ) -> Result<(), Handed> {
        let LimitQueues { store, all, due, .. } = self;
        let Some(one) = all.get_mut(at as usize) else { return Err(waiting.item) };
        let (class, now_ns) = (Class::of_dscp(waiting.dscp), waiting.since_ns);
        let first = one.queue.first();
        store.push(&mut one.queue, class, waiting).map_err(|waiting| waiting.item)?;
        one.path.queue().into_iter().for_each(|(_, waits)| waits.come(class));
        let due_ns = match first {
            None => until_ns.min(now_ns + LONGEST_NS),
            // There may be tokens for this one before.
            Some(first) if class < first => now_ns,
            Some(_) => return Ok(()),
        };
        one.due_ns = due_ns;
        due.push(Reverse((due_ns, at)));
        Ok(())
    }

    /// When there has to be a round; none if nothing waits.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    /// The next packet that waits no longer.
    pub(crate) fn next(&mut self, now_ns: u64) -> Option<Dequeued> {
        let LimitQueues { store, all, due, .. } = self;
        loop {
            let Reverse((due_ns, at)) = *due.peek().filter(|Reverse((due, _))| *due <= now_ns)?;
            due.pop();
            let Some(one) = all.get_mut(at as usize).filter(|one| one.due_ns == due_ns) else {
                continue;
            };
            let next = match one.step(store, now_ns) {
                Ok(next) => next,
                Err(later_ns) => {
                    one.due_ns = later_ns;
                    due.push(Reverse((later_ns, at)));
                    continue;
                }
            };
            match one.queue.is_empty() {
                true => one.due_ns = NEVER,
                false => due.push(Reverse((due_ns, at))),
            }
            if next.is_some() {
                return next;
            }
        }
    }

    /// There may be other limiters: queues follow theirs by its name, whatever its settings are now.
    pub(crate) fn follow(&mut self, old: &RateRules, new: &RateRules, worker: usize) {
        let at = |id: usize| self.places.get(&id).copied();
        let named = old.rules().iter().map(|rule| &rule.limiter);
        let named = named.filter_map(|l| Some((l.name(), at(l.id())?)));
        let named: HashMap<&str, u32> = named.collect();
        self.all.iter_mut().for_each(|one| one.is_gone = true);
        for rule in new.rules() {
            let at = named.get(rule.limiter.name()).copied();
            let one = at.and_then(|at| self.all.get_mut(at as usize));
            if let Some(one) = one.filter(|_| rule.limiter.settings().queue.is_some()) {
                one.path = LimitPath::new(&rule.limiter, worker);
                one.is_gone = false;
            }
        }
        self.all.retain(|one| !one.is_gone || !one.queue.is_empty());
        self.places.clear();
        self.due.clear();
        for (at, one) in (0..).zip(&mut self.all) {
            if let Some(leaf) = one.path.leaf().filter(|_| !one.is_gone) {
                self.places.insert(leaf.id(), at);
            }
            one.due_ns = if one.queue.is_empty() { NEVER } else { 0 };
            if !one.queue.is_empty() {
                self.due.push(Reverse((0, at)));
            }
        }
    }

    /// Takes one of all out: the worker goes, or gets another place. Nothing is put in after that.
    pub(crate) fn take_any(&mut self) -> Option<Handed> {
        let LimitQueues { store, all, .. } = self;
        while all.pop_if(|one| one.queue.is_empty()).is_some() {}
        let one = all.last_mut()?;
        let class = one.queue.first()?;
        let waiting = store.pop(&mut one.queue, class)?;
        one.dropped(class, waiting.len);
        Some(waiting.item)
    }
}

impl LimitQueue {
    /// Takes the next packet out.
    ///
    /// # Errors
    /// It is not its time yet; when that may be.
    fn step(&mut self, store: &mut Store<Handed>, now_ns: u64) -> Result<Option<Dequeued>, u64> {
        let LimitQueue { path, queue, is_gone, .. } = self;
        // Of a class that never has its turn too.
        let oldest = |class: &Class| store.front(queue, *class).map(|waiting| waiting.since_ns);
        let since = Class::ALL.iter().filter_map(|class| Some((oldest(class)?, *class))).min();
        let (Some((since_ns, oldest)), Some(class)) = (since, queue.first()) else {
            return Ok(None);
        };
        let waits = path.queue().map(|(_, waits)| waits);
        let end_ns = since_ns + LONGEST_NS;
        if now_ns >= end_ns {
            let Some(waiting) = store.pop(queue, oldest) else { return Ok(None) };
            self.dropped(oldest, waiting.len);
            return Ok(Some(Dequeued::Drop(waiting.item, DropReason::LimitWait)));
        }
        let passed = match store.front(queue, class).filter(|_| !*is_gone) {
            Some(front) => path.pass_or_wait((front.len as usize, front.dscp), now_ns).map(Some),
            None => Ok(None),
        };
        if let Err(Stop::Until(ns)) = passed {
            return Err(ns.max(now_ns + 1).min(end_ns));
        }
        let Some(waiting) = store.pop(queue, class) else { return Ok(None) };
        let ns = now_ns.saturating_sub(waiting.since_ns);
        Ok(Some(match passed {
            Ok(passed) => {
                waits.into_iter().for_each(|waits| waits.gone(class, ns));
                match path.leaf().zip(passed) {
                    Some((leaf, passed)) => {
                        Dequeued::On(waiting.item, Grant::paid(leaf.id(), passed))
                    }
                    None => Dequeued::On(waiting.item, Grant::free()),
                }
            }
            // A limit above counts it as red.
            Err(_) => {
                waits.into_iter().for_each(|waits| waits.dropped(class));
                Dequeued::Drop(waiting.item, DropReason::RateLimit)
            }
        }))
    }
}
