//! When sessions are to be looked at: one time for each, which moves to and fro with every packet.
//!
//! A binary heap that knows the places of its entries. A time that changes moves its entry, so that there is never more
//! than one for a session however often its peer has it changed, and nothing is allocated for it.

/// Place of a session that has no time.
const NONE: u32 = u32::MAX;

/// Times in nanoseconds of sessions by their slots.
#[derive(Default)]
pub(super) struct Agenda {
    /// Slots in the order of a heap: none is due before the one at half its place.
    heap: Vec<u32>,
    /// By slot: its place in the heap, and its time.
    slots: Vec<(u32, u64)>,
}

impl Agenda {
    /// Makes room for slots up to this number.
    pub(super) fn grow(&mut self, slots: usize) {
        self.slots.resize(slots.max(self.slots.len()), (NONE, 0));
        self.heap.reserve(self.slots.len().saturating_sub(self.heap.len()));
    }

    /// Time of the slot that is due first.
    pub(super) fn first(&self) -> Option<(u32, u64)> {
        let slot = *self.heap.first()?;
        Some((slot, self.time(slot)))
    }

    /// Sets the time of a slot, or takes it away.
    pub(super) fn set(&mut self, slot: u32, due_ns: Option<u64>) {
        let Some((place, time)) = self.slots.get_mut(slot as usize) else { return };
        let at = *place as usize;
        match due_ns {
            Some(due_ns) => *time = due_ns,
            None if *place == NONE => return,
            None => {
                *place = NONE;
                if let Some(last) = self.heap.pop()
                    && last != slot
                {
                    self.put(at, last);
                    self.settle(at);
                }
                return;
            }
        }
        if *place != NONE {
            return self.settle(at);
        }
        let at = self.heap.len();
        self.heap.push(slot);
        self.put(at, slot);
        self.settle(at);
    }

    fn time(&self, slot: u32) -> u64 {
        self.slots.get(slot as usize).map_or(u64::MAX, |(_, time)| *time)
    }

    fn time_at(&self, at: usize) -> Option<u64> {
        self.heap.get(at).map(|slot| self.time(*slot))
    }

    fn put(&mut self, at: usize, slot: u32) {
        if let Some(to) = self.heap.get_mut(at) {
            *to = slot;
        }
        if let Some((place, _)) = self.slots.get_mut(slot as usize) {
            *place = at as u32;
        }
    }

    /// Moves the entry at a place up or down to where it belongs.
    fn settle(&mut self, mut at: usize) {
        let Some(slot) = self.heap.get(at).copied() else { return };
        let time = self.time(slot);
        while at > 0 {
            let above = (at - 1) / 2;
            match self.heap.get(above).copied() {
                Some(other) if self.time(other) > time => self.put(at, other),
                _ => break,
            }
            at = above;
        }
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(left_time) = self.time_at(left) else { break };
            let (below, least) = match self.time_at(right) {
                Some(right_time) if right_time < left_time => (right, right_time),
                _ => (left, left_time),
            };
            match self.heap.get(below).copied() {
                Some(other) if least < time => self.put(at, other),
                _ => break,
            }
            at = below;
        }
        self.put(at, slot);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_the_earliest(
            changes in prop::collection::vec((0..12_u32, prop::option::of(0..50_u64)), 0..200)
        ) {
            let mut agenda = Agenda::default();
            agenda.grow(12);
            let room = agenda.heap.capacity();
            let mut model = BTreeMap::new();
            for (slot, due_ns) in changes {
                agenda.set(slot, due_ns);
                match due_ns {
                    Some(due_ns) => model.insert(slot, due_ns),
                    None => model.remove(&slot),
                };
                prop_assert_eq!(agenda.first().map(|(_, time)| time), model.values().min().copied());
                prop_assert_eq!(agenda.heap.len(), model.len());
                if let Some((slot, time)) = agenda.first() {
                    prop_assert_eq!(model.get(&slot), Some(&time));
                }
            }
            prop_assert_eq!(agenda.heap.capacity(), room);
            agenda.set(99, Some(0));
            prop_assert_ne!(agenda.first().map(|(slot, _)| slot), Some(99));
        }
    }
}
