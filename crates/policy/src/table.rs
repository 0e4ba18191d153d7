//! The index that all readers share: hash tags to the first slot of a chain.
//!
//! Open addressing with linear probing over one atomic word for each place: tag and slot. The one
//! writer changes it in place while readers look things up. That is safe because readers do not
//! take what they find for the truth, only for a hint: an index names at least what any reader's
//! view holds, and often more (an SA that a reader has not been told of yet, one whose removal some
//! reader has not seen), and each reader goes by its own slots. Three rules make it work:
//!
//! 1. What is added is in the index before a reader is told of it.
//! 2. What is removed leaves the index when every reader has been told so, and its slot is used
//!    again when every reader has refreshed once more ([`crate::reclaim`]).
//! 3. An entry never moves. A table that is too full is replaced by a larger copy, which readers
//!    take over in the order of changes, and is itself not changed any more.
//!
//! # Why nothing is missed
//!
//! Only one thread writes, so each place and each link has a history, and what a reader loads is
//! some value of it. The places and links that a reader loads are not of one moment; so what is
//! said here is said of any mixture. Let a reader be told of slot `s`, with tag `t`, by change `k`,
//! and not yet of its removal.
//!
//! - *Not too old.* The writer stored what leads to `s` before it sent change `k`, and the reader
//!   received `k` before this look-up: sending and receiving order the two. So each load gives the
//!   value at `k` or a later one, and it is enough that every step leads on to `s` at all times
//!   from `k` until every reader has been told of its removal.
//! - *The head.* In all that time the chain of `t` is not empty, so `t` keeps its place, and no
//!   other place has it. Between where `t` starts and this place no place is empty: none was when
//!   the place was taken, and a place that is left becomes empty only if the one after it is.
//! - *The chain.* A slot that is put in knows its successor first; what leads to it is stored with
//!   `Release` and loaded with `Acquire`, so a reader that comes to it sees its link. A slot that is
//!   taken out keeps its link, to what was its successor then; its predecessor skips it from then
//!   on. So every slot that a reader can come to was in the chain at `k` or later, and its link
//!   leads forward, to a slot of which the same holds and which is not behind `s`.
//! - *Slots used again.* A slot gets a new link, in another chain, only after every reader has
//!   acknowledged a change (`Release` after its last look-up, `Acquire` in the writer) that came
//!   after the slot was taken out. What such a reader loads later is at least as new as that
//!   change: nothing leads to the slot by its old chain any more.
//! - *Tables.* A reader with an old table has not been told of anything that came after it, and what
//!   the old table leads to is not used again before that reader has the new one.
//!
//! A tag that a reader finds although it holds nothing under it costs a look into its slots.

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, OnceLock};

use mem::Cache;

use crate::hash::Tag;

/// Instead of a slot: the end of a chain.
pub(crate) const NONE: u32 = u32::MAX;

/// The readers' side.
#[derive(Debug)]
pub(crate) struct Table {
    /// Tag in the upper half, slot in the lower; a power of two of them.
    places: Box<[AtomicU64]>,
    /// How far a tag is shifted to give its place.
    shift: u32,
}

impl Table {
    fn new(bits: u32) -> Table {
        Table {
            places: (0..1_usize << bits).map(|_| AtomicU64::new(EMPTY)).collect(),
            shift: 32 - bits,
        }
    }

    fn start(&self, tag: Tag) -> usize {
        (tag.get() >> self.shift) as usize
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }

    fn before(&self, at: usize) -> usize {
        at.wrapping_sub(1) & (self.places.len() - 1)
    }

    /// The first slot of a tag's chain, or [`NONE`].
    #[inline]
    pub(crate) fn head(&self, tag: Tag) -> u32 {
        let mut at = self.start(tag);
        // There is always an empty place; the range only makes that plain.
        for _ in 0..self.places.len() {
            let Some(place) = self.places.get(at) else { break };
            let place = place.load(Acquire);
            if (place >> 32) as u32 == tag.get() {
                return place as u32;
            }
            if place == EMPTY {
                break;
            }
            at = self.after(at);
        }
        NONE
    }

    /// Brings the place of a tag near.
    #[inline]
    pub(crate) fn prefetch(&self, cache: Cache, tag: Tag) {
        if let Some(place) = self.places.get(self.start(tag)) {
            mem::prefetch_into(cache, place);
        }
    }
}

/// The writer's side.
#[derive(Debug)]
pub(crate) struct Index {
    table: Arc<Table>,
    /// Places with an entry.
    live: usize,
    /// Places that are not empty: with an entry, or left by one.
    used: usize,
    /// The entry linked last that is still in its chain. The next is often linked behind it, and a
    /// long chain need not be walked.
    recent: Option<(Tag, u32)>,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index { table: Arc::new(Table::new(MIN_BITS)), live: 0, used: 0, recent: None }
    }

    /// The table as it is now, for readers.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Puts a slot into the chain of a tag, behind all slots of which `goes_before` says so (`None`
    /// for slots that no longer count). Returns whether the table was replaced: then readers need
    /// the new one before they are told of the slot.
    pub(crate) fn link(
        &mut self,
        links: &Links,
        tag: Tag,
        slot: u32,
        goes_before: impl Fn(u32) -> Option<bool>,
    ) -> bool {
        let (mut last, mut at) = match self.recent.replace((tag, slot)) {
            Some((of, recent)) if of == tag && goes_before(recent) == Some(true) => {
                (recent, links.next(recent))
            }
            _ => (NONE, self.table.head(tag)),
        };
        while at != NONE {
            match goes_before(at) {
                Some(true) => last = at,
                Some(false) => break,
                None => {}
            }
            at = links.next(at);
        }
        // The new one knows its successor before anything leads to it.
        if last != NONE {
            links.set(slot, links.next(last));
            links.set(last, slot);
            return false;
        }
        links.set(slot, self.table.head(tag));
        self.set(tag, slot)
    }

    /// Takes a slot out of the chain of a tag. Its own link stays, for readers that stand on it.
    pub(crate) fn unlink(&mut self, links: &Links, tag: Tag, slot: u32) {
        self.recent.take_if(|(_, recent)| *recent == slot);
        let next = links.next(slot);
        let mut at = self.table.head(tag);
        if at == slot {
            if next == NONE {
                self.remove(tag);
            } else {
                self.set(tag, next);
            }
            return;
        }
        while at != NONE {
            let following = links.next(at);
            if following == slot {
                links.set(at, next);
                return;
            }
            at = following;
        }
    }

    /// The place of a tag, if it has one, and the first place that it could be put into.
    fn places_of(&self, tag: Tag) -> (Option<usize>, usize) {
        let mut room = None;
        let mut at = self.table.start(tag);
        loop {
            match self.table.places[at].load(Relaxed) {
                EMPTY => return (None, room.unwrap_or(at)),
                LEFT => room = room.or(Some(at)),
                place if (place >> 32) as u32 == tag.get() => return (Some(at), at),
                _ => {}
            }
            at = self.table.after(at);
        }
    }

    fn set(&mut self, tag: Tag, slot: u32) -> bool {
        let place = u64::from(tag.get()) << 32 | u64::from(slot);
        let (found, mut room) = self.places_of(tag);
        let mut replaced = false;
        if found.is_none() {
            // At most five eighths full: probes seldom leave a cache line.
            if (self.used + 1) * 8 > self.table.places.len() * 5 {
                self.rebuild();
                replaced = true;
                room = self.places_of(tag).1;
            }
            self.live += 1;
            self.used += usize::from(self.table.places[room].load(Relaxed) == EMPTY);
        }
        self.table.places[room].store(place, Release);
        replaced
    }

    fn remove(&mut self, tag: Tag) {
        let (Some(mut at), _) = self.places_of(tag) else { return };
        self.live -= 1;
        let places = &self.table.places;
        places[at].store(LEFT, Release);
        // A place that no probe has to step over any more becomes empty again.
        if places[self.table.after(at)].load(Relaxed) != EMPTY {
            return;
        }
        while places[at].load(Relaxed) == LEFT {
            places[at].store(EMPTY, Release);
            self.used -= 1;
            at = self.table.before(at);
        }
    }

    /// A copy without what was left behind, a third full at most: many SAs' places shall lie on few
    /// pages, and there shall be room until half as many again.
    fn rebuild(&mut self) {
        let wanted = (self.live + 1) * 3;
        let bits = wanted.next_power_of_two().trailing_zeros().max(MIN_BITS);
        let next = Table::new(bits);
        for place in &self.table.places {
            let place = place.load(Relaxed);
            if place == EMPTY || place == LEFT {
                continue;
            }
            let mut at = ((place >> 32) as u32 >> next.shift) as usize;
            while next.places[at].load(Relaxed) != EMPTY {
                at = next.after(at);
            }
            next.places[at].store(place, Relaxed);
        }
        self.used = self.live;
        self.table = Arc::new(next);
    }
}

/// For each slot the next of its chain; shared by all readers, like the table.
///
/// The pieces double in size, so that a fixed number of them is enough, and a reader finds its way
/// also from slots that it has not been told of.
#[derive(Debug)]
pub(crate) struct Links([OnceLock<Box<[AtomicU32]>>; LINK_PIECES]);

impl Links {
    pub(crate) fn new() -> Links {
        Links([const { OnceLock::new() }; LINK_PIECES])
    }

    /// Makes room for a slot.
    pub(crate) fn reserve(&self, slot: u32) {
        let (piece, _) = Links::place(slot);
        if let Some(piece_at) = self.0.get(piece) {
            let len = FIRST_LINKS << piece;
            piece_at.get_or_init(|| (0..len).map(|_| AtomicU32::new(NONE)).collect());
        }
    }

    /// The piece that a slot is in, and where in it.
    const fn place(slot: u32) -> (usize, usize) {
        let at = slot as usize + FIRST_LINKS;
        let piece = (at.ilog2() - FIRST_LINKS.ilog2()) as usize;
        (piece, at - (FIRST_LINKS << piece))
    }

    fn link(&self, slot: u32) -> Option<&AtomicU32> {
        let (piece, at) = Links::place(slot);
        self.0.get(piece)?.get()?.get(at)
    }

    #[inline]
    pub(crate) fn next(&self, slot: u32) -> u32 {
        self.link(slot).map_or(NONE, |link| link.load(Acquire))
    }

    fn set(&self, slot: u32, next: u32) {
        if let Some(link) = self.link(slot) {
            link.store(next, Release);
        }
    }
}

/// Links in the first piece.
const FIRST_LINKS: usize = 256;
/// Enough for every slot that 32 bits can number.
const LINK_PIECES: usize = 25;

/// A place that never had an entry, or is as if.
const EMPTY: u64 = 0;
/// A place whose entry has gone, in the middle of others: a probe goes on.
const LEFT: u64 = u64::MAX;
/// Places of the smallest table: one cache line.
const MIN_BITS: u32 = 3;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A few tags that start in few places, at both ends of every table, so that probes meet and
    /// go round.
    fn tag(n: u32) -> Tag {
        let start = [1_u64, 0x100, 0x7fff_ff00, 0xffff_ff00][n as usize % 4];
        Tag::new((start + u64::from(n / 4)) << 32)
    }

    const TAGS: u32 = 64;

    /// Entries of each chain, in order, and who comes before whom.
    #[derive(Default)]
    struct Model {
        chains: HashMap<u32, Vec<u32>>,
        ranks: BTreeMap<u32, u8>,
        next_slot: u32,
    }

    impl Model {
        fn chain(&self, tag: u32) -> &[u32] {
            self.chains.get(&tag).map_or(&[], |chain| chain)
        }

        /// Behind all that have the same rank or a smaller one.
        fn add(&mut self, tag: u32, rank: u8) -> u32 {
            let slot = self.next_slot;
            self.next_slot += 1;
            let chain = self.chains.entry(tag).or_default();
            let at = chain.iter().position(|other| self.ranks[other] > rank);
            chain.insert(at.unwrap_or(chain.len()), slot);
            self.ranks.insert(slot, rank);
            slot
        }

        /// Takes one slot out of a chain.
        fn remove(&mut self, tag: u32, which: usize) -> Option<u32> {
            let chain = self.chains.get_mut(&tag)?;
            if chain.is_empty() {
                return None;
            }
            Some(chain.remove(which % chain.len()))
        }
    }

    fn walk(table: &Table, links: &Links, tag: Tag) -> Vec<u32> {
        let mut found = Vec::new();
        let mut at = table.head(tag);
        while at != NONE {
            found.push(at);
            at = links.next(at);
        }
        found
    }

    #[derive(Clone, Debug)]
    enum Step {
        Link { tag: u32, rank: u8 },
        Unlink { tag: u32, which: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..TAGS, 0..4u8).prop_map(|(tag, rank)| Step::Link { tag, rank }),
            2 => (0..TAGS, 0..9usize).prop_map(|(tag, which)| Step::Unlink { tag, which }),
        ]
    }

    proptest! {
        /// The table and the chains against a map of lists; and what a reader that stands on a
        /// removed slot, or has an old table, comes to.
        #[test]
        fn agrees_with_a_map_of_lists(steps in vec(step(), 1..400)) {
            let (mut index, links, mut model) = (Index::new(), Links::new(), Model::default());
            for step in steps {
                match step {
                    Step::Link { tag: at, rank } => {
                        let old = Arc::clone(index.table());
                        let before: Vec<_> = (0..TAGS).map(|t| walk(&old, &links, tag(t))).collect();
                        let slot = model.add(at, rank);
                        links.reserve(slot);
                        let ranks = &model.ranks;
                        let goes_before = |other: u32| ranks.get(&other).map(|r| *r <= rank);
                        let replaced = index.link(&links, tag(at), slot, goes_before);
                        prop_assert_eq!(replaced, !Arc::ptr_eq(&old, index.table()));
                        // A reader that goes on with the old table finds what was there before.
                        for (t, before) in (0..TAGS).zip(before) {
                            let now = walk(&old, &links, tag(t));
                            prop_assert!(before.iter().all(|slot| now.contains(slot)));
                        }
                    }
                    Step::Unlink { tag: at, which } => {
                        let chain = model.chain(at).to_vec();
                        let Some(slot) = model.remove(at, which) else { continue };
                        index.unlink(&links, tag(at), slot);
                        // A reader that stands on it goes on to the rest of the chain.
                        let place = chain.iter().position(|&other| other == slot);
                        let rest = place.and_then(|place| chain.get(place + 1)).copied();
                        prop_assert_eq!(links.next(slot), rest.unwrap_or(NONE));
                    }
                }
                for t in 0..TAGS {
                    prop_assert_eq!(&walk(index.table(), &links, tag(t)), model.chain(t));
                }
                let places = &index.table.places;
                let used = places.iter().filter(|place| place.load(Relaxed) != EMPTY).count();
                let live = (0..TAGS).filter(|&t| !model.chain(t).is_empty()).count();
                prop_assert_eq!((index.used, index.live), (used, live));
                prop_assert!(used * 8 <= places.len() * 5, "a probe for a miss has to end soon");
            }
        }
    }

    /// Entries that come and go for ever do not fill a table with what they leave behind.
    #[test]
    fn a_table_does_not_grow_by_use() {
        let (mut index, links) = (Index::new(), Links::new());
        links.reserve(0);
        for round in 0..10_000_u64 {
            let tag = Tag::new(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            index.link(&links, tag, 0, |_| None);
            index.unlink(&links, tag, 0);
        }
        assert_eq!((index.live, index.used, index.table.places.len()), (0, 0, 1 << MIN_BITS));
    }

    /// A chain of thousands that grows at its end is not walked each time.
    #[test]
    fn a_long_chain_is_extended_in_place() {
        let (mut index, links) = (Index::new(), Links::new());
        let asked = core::cell::Cell::new(0_u32);
        let slots = 5000;
        for slot in 0..slots {
            links.reserve(slot);
            index.link(&links, tag(0), slot, |other| {
                asked.set(asked.get() + 1);
                Some(other < slot)
            });
        }
        assert!(walk(index.table(), &links, tag(0)).into_iter().eq(0..slots));
        assert!(asked.get() < 2 * slots, "{}", asked.get());
        // The entry linked last may be gone, or gone and used elsewhere.
        index.unlink(&links, tag(0), slots - 1);
        index.link(&links, tag(1), slots - 1, |_| None);
        links.reserve(slots);
        index.link(&links, tag(0), slots, |other| Some(other < slots));
        let expected = (0..slots - 1).chain([slots]);
        assert!(walk(index.table(), &links, tag(0)).into_iter().eq(expected));
        assert_eq!(walk(index.table(), &links, tag(1)), [slots - 1]);
    }
}
