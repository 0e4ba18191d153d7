//! Building tries from prefixes, and changing them where a prefix changes.
//!
//! A trie answers for a list of [`Layer`]s: the first that has an answer counts. Where one route
//! changes, only the nodes are made anew whose intervals differ; all others stay where they are.
//! Where it is a short one of the last layer, none is: see [`trie`](crate::trie).
//!
//! So a leaf says [`HOLE`](crate::trie::HOLE) where a longer prefix of the last layer has no answer: its shorter ones
//! are not asked then.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::address::Address;
use crate::arena::{Arena, Unit, place};
use crate::flat::{Layer, first_answer, flatten, merge, root_covers, short_values, without_short};
use crate::trie::{
    INLINE_PLACES, Layout, MOST_INLINE, MOST_UNITS, NOTHING, PLACE_UNITS, PLACES_PER_UNIT, Place,
    SHORT_BITS, Shape, Short, Trie, UNKNOWN, child, read, units_of,
};

/// The writer of a trie.
#[derive(Clone, Debug)]
pub struct Growing {
    arena: Arena,
    root: Place,
    short: Arc<Short>,
}

/// A prefix that has changed.
#[derive(Clone, Copy)]
struct Changed<A> {
    first: A,
    len: u32,
}

impl Growing {
    /// A trie of all prefixes of the layers, the first of which counts most.
    pub fn new<A: Address>(layers: &[Layer<'_, A>]) -> Self {
        Self::with_room(layers, MOST_UNITS)
    }

    fn with_room<A: Address>(layers: &[Layer<'_, A>], most_units: usize) -> Self {
        let short = Arc::new(short_values(layers));
        let mut new = Self { arena: Arena::new(most_units), root: Place::leaf(NOTHING), short };
        let layers = &without_short(layers);
        new.root = new.build(layers, A::MIN, 0, &root_covers(layers));
        new
    }

    /// The trie as it is now, for readers.
    pub fn trie<A: Address>(&self) -> Trie<A> {
        Trie::new(self.arena.pages(), self.root, Arc::clone(&self.short))
    }

    /// Follows a change of the layers that `is_of` says by their numbers: the prefix has come, gone,
    /// or got another value there.
    pub fn change<A: Address>(
        &mut self,
        layers: &[Layer<'_, A>],
        is_of: impl Fn(usize) -> bool,
        first: A,
        len: u8,
    ) {
        if self.arena.is_wasteful() {
            *self = Self::new(layers);
            return;
        }
        let changed = Changed { first, len: len.into() };
        let bare = without_short(layers);
        if changed.len <= SHORT_BITS && bare.iter().zip(0..).any(|(l, n)| is_of(n) && l.is_last()) {
            *Arc::make_mut(&mut self.short) = short_values(layers);
        }
        // A hole before and after has no answer before and after.
        let is_in_nodes = |l: &Layer<'_, A>| {
            changed.len >= l.shortest && (l.is_last() || l.suppress.is_none_or(|most| len > most))
        };
        if bare.iter().zip(0..).any(|(layer, n)| is_of(n) && is_in_nodes(layer)) {
            let covers = root_covers(&bare);
            self.root = self.follow(self.root, &bare, A::MIN, 0, &covers, changed);
        }
    }

    /// A new node, or leaf, for the addresses `base/depth`; `covers` are the values of what holds
    /// all of them.
    fn build<A: Address>(
        &mut self,
        layers: &[Layer<'_, A>],
        base: A,
        depth: u32,
        covers: &[u32],
    ) -> Place {
        if depth >= A::BITS {
            return first_answer(covers);
        }
        if let Some(flat) = flatten(layers, base, depth, 16, covers)
            && let Some(intervals) = merge(&flat)
        {
            let mut places = intervals;
            for key in &flat.deeper {
                let below = base.with(depth, 16, *key);
                let place = self.build(layers, below, depth + 16, &flat.values_at(*key));
                set(&mut places, *key, place);
            }
            return self.write(&places, flat.deeper.is_empty());
        }
        let Some(flat) = flatten(layers, base, depth, 8, covers) else {
            return Place::leaf(UNKNOWN);
        };
        let mut places = Vec::with_capacity(256);
        for key in 0..256 {
            let values = flat.values_at(key);
            places.push(if flat.is_deeper(key) {
                self.build(layers, base.with(depth, 8, key), depth + 8, &values)
            } else {
                first_answer(&values)
            });
        }
        let Some(index) = self.arena.allocate(units_of(Shape::Fan)) else {
            places.into_iter().for_each(|place| self.forget(place));
            return Place::leaf(UNKNOWN);
        };
        write_places(self.arena.block_mut(index, units_of(Shape::Fan)), &places);
        Place::node(Shape::Fan, index)
    }

    /// The node at `at` as it is to be after a change.
    fn follow<A: Address>(
        &mut self,
        at: Place,
        layers: &[Layer<'_, A>],
        base: A,
        depth: u32,
        covers: &[u32],
        changed: Changed<A>,
    ) -> Place {
        if at.is_leaf() || changed.len <= depth {
            self.forget(at);
            return self.build(layers, base, depth, covers);
        }
        match at.parts() {
            (Shape::Fan, index) => {
                for key in keys(changed, depth, 8) {
                    let below = base.with(depth, 8, key);
                    let inner = layers.iter().zip(covers);
                    let inner: Vec<u32> =
                        inner.map(|(l, cover)| l.cover(below, depth, depth + 8, *cover)).collect();
                    let old = self.place_in_fan(index, key);
                    let new = self.follow(old, layers, below, depth + 8, &inner, changed);
                    let (unit, at) =
                        (key as usize / PLACES_PER_UNIT, key as usize % PLACES_PER_UNIT);
                    let block = self.arena.block_mut(index, units_of(Shape::Fan));
                    if let Some(unit) = block.get_mut(unit) {
                        write_place(unit, at, new);
                    }
                }
                at
            }
            (shape, index) => {
                let flat = flatten(layers, base, depth, 16, covers);
                let Some((flat, mut places)) = flat.and_then(|f| merge(&f).map(|p| (f, p))) else {
                    // Too many intervals by now: a fan takes the place.
                    self.forget(at);
                    return self.build(layers, base, depth, covers);
                };
                let affected = keys(changed, depth, 16);
                for key in &flat.deeper {
                    let old = self.place_of(shape, index, *key);
                    let new = if affected.contains(key) {
                        let below = base.with(depth, 16, *key);
                        let inner = flat.values_at(*key);
                        self.follow(old, layers, below, depth + 16, &inner, changed)
                    } else {
                        old
                    };
                    set(&mut places, *key, new);
                }
                if changed.len > depth + 16 && !flat.is_deeper(*affected.start()) {
                    let old = self.place_of(shape, index, *affected.start());
                    self.forget(old);
                }
                self.release(at);
                self.write(&places, flat.deeper.is_empty())
            }
        }
    }

    fn place_in_fan(&self, index: u32, key: u32) -> Place {
        let (page, unit) = place(index);
        self.arena.page(page).map_or(Place::leaf(UNKNOWN), |page| read(page, unit, key as usize))
    }

    fn place_of(&self, shape: Shape, index: u32, key: u32) -> Place {
        let (page, unit) = place(index);
        let page = self.arena.page(page);
        page.map_or(Place::leaf(UNKNOWN), |page| child(page, unit, shape, key as u16))
    }

    /// A node of these intervals, of which there are not too many; one interval is a leaf, if it
    /// may be.
    fn write(&mut self, places: &[(u32, Place)], may_be_leaf: bool) -> Place {
        if let [(_, only)] = places
            && may_be_leaf
        {
            return *only;
        }
        let shape = if places.len() <= MOST_INLINE {
            Shape::Inline
        } else {
            let units = places.len().div_ceil(PLACES_PER_UNIT);
            Shape::Intervals(PLACE_UNITS.partition_point(|u| usize::from(*u) < units) as u8)
        };
        let Some(index) = self.arena.allocate(units_of(shape)) else {
            places.iter().for_each(|(_, place)| self.forget(*place));
            return Place::leaf(UNKNOWN);
        };
        let block = self.arena.block_mut(index, units_of(shape));
        block.fill(Unit::ONES);
        // An interval ends below the beginning of the next.
        let ends = places.iter().skip(1).map(|(start, _)| (*start - 1) as u16);
        match shape {
            Shape::Intervals(size) => {
                let layout = Layout::of(size);
                let (samples, rest) = block.split_at_mut(layout.samples.into());
                let (units, values) = rest.split_at_mut(layout.ends.into());
                let words = units.iter_mut().flat_map(|unit| &mut unit.0);
                words.zip(ends.clone()).for_each(|(word, end)| *word = end);
                let words = samples.iter_mut().flat_map(|unit| &mut unit.0);
                let sampled = ends.skip(Unit::LEN).step_by(Unit::LEN);
                words.zip(sampled).for_each(|(word, end)| *word = end);
                let places: Vec<Place> = places.iter().map(|(_, place)| *place).collect();
                write_places(values, &places);
            }
            _ => {
                if let [unit] = block {
                    let words = unit.0.iter_mut().take(INLINE_PLACES);
                    words.zip(ends).for_each(|(word, end)| *word = end);
                    for (number, (_, place)) in places.iter().enumerate() {
                        write_place(unit, INLINE_PLACES / 2 + number, *place);
                    }
                }
            }
        }
        Place::node(shape, index)
    }

    /// Gives back the node at `at` alone.
    fn release(&mut self, at: Place) {
        if !at.is_leaf() {
            let (shape, index) = at.parts();
            self.arena.release(index, units_of(shape));
        }
    }

    /// Gives back the node at `at` and all below it.
    fn forget(&mut self, at: Place) {
        if at.is_leaf() {
            return;
        }
        let (shape, index) = at.parts();
        let units = units_of(shape);
        // Ones after the last place are no node: no node begins at the last unit of all and is a
        // fan.
        let skipped = match shape {
            Shape::Inline => INLINE_PLACES / 2,
            Shape::Fan => 0,
            Shape::Intervals(size) => {
                let layout = Layout::of(size);
                (layout.units() - usize::from(layout.places)) * PLACES_PER_UNIT
            }
        };
        for number in skipped..units * PLACES_PER_UNIT {
            let place = self.place_in_fan(index, number as u32);
            if place != Place(u32::MAX) {
                self.forget(place);
            }
        }
        self.release(at);
    }
}

/// Sets the place of the piece that begins at `key`.
fn set(places: &mut [(u32, Place)], key: u32, place: Place) {
    if let Ok(at) = places.binary_search_by_key(&key, |(start, _)| *start)
        && let Some(entry) = places.get_mut(at)
    {
        entry.1 = place;
    }
}

/// The values of the `bits` bits after `depth` that a prefix longer than `depth` touches.
fn keys<A: Address>(changed: Changed<A>, depth: u32, bits: u32) -> RangeInclusive<u32> {
    let first = u32::from(changed.first.pair(depth)) >> (16 - bits);
    let inside = (changed.len - depth).min(bits);
    first..=first + ((1 << (bits - inside)) - 1)
}

fn write_places(units: &mut [Unit], places: &[Place]) {
    for (unit, places) in units.iter_mut().zip(places.chunks(PLACES_PER_UNIT)) {
        for (number, place) in places.iter().enumerate() {
            write_place(unit, number, *place);
        }
    }
}

fn write_place(unit: &mut Unit, number: usize, place: Place) {
    if let Some([low, high]) = unit.0.get_mut(2 * number..2 * number + 2) {
        (*low, *high) = (place.0 as u16, (place.0 >> 16) as u16);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::flat::Prefixes;
    use crate::trie::HOLE;

    use super::*;

    /// The definition: in each layer the longest prefix; of the layers the first with an answer.
    fn slow<A: Address>(layers: &[Layer<'_, A>], address: A) -> u32 {
        let in_layer = |layer: &Layer<'_, A>| {
            (0..=A::BITS as u8).rev().find_map(|len| {
                let value = layer.prefixes.get(&(address.first(len), len))?;
                let is_suppressed = layer.suppress.is_some_and(|most| len <= most);
                Some(if is_suppressed { HOLE } else { *value })
            })
        };
        let mut answers = layers.iter().filter_map(in_layer);
        answers.find(|value| *value != HOLE).unwrap_or(NOTHING)
    }

    fn layers<A>(tables: &[(Prefixes<A>, Option<u8>)]) -> Vec<Layer<'_, A>> {
        tables.iter().map(|(prefixes, suppress)| Layer::new(prefixes, *suppress)).collect()
    }

    fn prefixes<A: Address>(list: &[(A, u8, u32)]) -> Prefixes<A> {
        list.iter()
            .map(|(a, len, value)| {
                let len = (*len).min(A::BITS as u8);
                ((a.first(len), len), *value)
            })
            .collect()
    }

    /// Each edge of each prefix, and beside it.
    fn edges<A: Address>(tables: &[(Prefixes<A>, Option<u8>)]) -> Vec<A> {
        let mut all = vec![A::MIN, A::MIN.last(0)];
        for (first, len) in tables.iter().flat_map(|(prefixes, _)| prefixes.keys()) {
            let last = first.last(*len);
            all.extend([*first, last]);
            all.extend(last.next());
        }
        all
    }

    fn agree<A>(growing: &Growing, tables: &[(Prefixes<A>, Option<u8>)], more: &[A])
    where
        A: Address + std::fmt::LowerHex,
    {
        let layers = layers(tables);
        let trie = growing.trie();
        for address in edges(tables).into_iter().chain(more.iter().copied()) {
            assert_eq!(trie.find(address), slow(&layers, address), "{address:#x}");
        }
    }

    #[test]
    fn empty_and_whole() {
        let none = [(Prefixes::<u32>::new(), None)];
        agree(&Growing::new(&layers(&none)), &none, &[7]);
        let all = [(prefixes(&[(0u32, 0, 7)]), None)];
        agree(&Growing::new(&layers(&all)), &all, &[7]);
        let last = [(prefixes(&[(u32::MAX, 32, 9), (u32::MAX - 1, 32, 8)]), None)];
        agree(&Growing::new(&layers(&last)), &last, &[u32::MAX - 2]);
        let last = [(prefixes(&[(u128::MAX, 128, 9), (0, 128, 8)]), None)];
        agree(&Growing::new(&layers(&last)), &last, &[1, u128::MAX - 1]);
    }

    #[test]
    fn every_size_of_node() {
        // From one interval to more than a node takes, at every depth of an address.
        for shift in [0, 8, 12, 16] {
            let mut tables = [(Prefixes::<u32>::new(), None)];
            for n in 0..700u32 {
                let first = 0x0a00_0000 + (n << shift);
                tables[0].0.insert((first, 32 - shift as u8), 1 + n % 7);
                let is_edge = n < 12 || n % 16 < 2 || n > 250 && n < 270 || n > 500 && n < 520;
                if is_edge {
                    agree(&Growing::new(&layers(&tables)), &tables, &[0x0a00_0000 - 1]);
                }
            }
        }
    }

    #[test]
    fn a_node_grows_and_shrinks_with_its_prefixes() {
        let mut tables = [(prefixes(&[(0u32, 0, 3)]), None), (prefixes(&[(0u32, 0, 4)]), None)];
        let mut growing = Growing::new(&layers(&tables));
        let first = |n: u32| 0xc0a8_0000_u32 + (n << 5);
        for n in 0..600 {
            tables[0].0.insert((first(n), 28), 10 + n);
            growing.change(&layers(&tables), |n| n == 0, first(n), 28);
            if n % 50 == 0 || n > 590 {
                agree(&growing, &tables, &[]);
            }
        }
        for n in 0..600 {
            tables[0].0.remove(&(first(n), 28));
            growing.change(&layers(&tables), |n| n == 0, first(n), 28);
            if n % 50 == 0 || n > 590 {
                agree(&growing, &tables, &[]);
            }
        }
        tables[0].0.clear();
        growing.change(&layers(&tables), |n| n == 0, 0, 0);
        agree(&growing, &tables, &[7]);
    }

    #[test]
    fn memory_is_used_again() {
        let list: Vec<_> = (0..40_000u32).map(|n| (n << 12, 24, 1 + n % 50)).collect();
        let mut tables = [(prefixes(&list), None)];
        let mut growing = Growing::new(&layers(&tables));
        let before = growing.trie::<u32>().memory_bytes();
        for round in 0..20_000u32 {
            let first = (round.wrapping_mul(0x9e37_79b1) >> 12) << 12;
            match round % 3 {
                0 => tables[0].0.remove(&(first, 24)),
                _ => tables[0].0.insert((first, 24), 1 + round % 60),
            };
            growing.change(&layers(&tables), |n| n == 0, first, 24);
        }
        agree(&growing, &tables, &[]);
        let after = growing.trie::<u32>().memory_bytes();
        assert!(after < before * 2, "{before} bytes, then {after}");
    }

    #[test]
    fn a_short_prefix_comes_and_goes_without_a_new_node() {
        let list: Vec<_> = (0..3000u32).map(|n| (n << 20, 24, 1 + n % 50)).collect();
        let upper = prefixes(&[(0x0a00_0000_u32, 24, 60), (0x7f00_0000, 8, 61)]);
        // Holes of all lengths, which the short ones do not fill.
        let mut lower = prefixes(&list);
        lower.insert((0x4000_0000, 4), HOLE);
        lower.insert((0x5100_0000, 10), HOLE);
        lower.insert((0x5200_0000, 28), HOLE);
        let mut tables = [(upper, None), (lower, None)];
        let mut growing = Growing::new(&layers(&tables));
        let before = growing.trie::<u32>();
        let short = [(0, 0), (0, 1), (1 << 31, 1), (0x4000_0000, 2), (0x0a00_0000, 8), (0, 8)];
        let flap = [Some(70), Some(71), None, Some(HOLE), Some(72)];
        for (turn, value) in flap.into_iter().enumerate() {
            for (first, len) in short {
                match value {
                    Some(value) => tables[1].0.insert((first, len), value + turn as u32 % 2),
                    None => tables[1].0.remove(&(first, len)),
                };
                let value = tables[1].0.get_mut(&(first, len));
                value.into_iter().for_each(|value| *value = (*value).min(HOLE));
                growing.change(&layers(&tables), |n| n == 1, first, len);
                agree(&growing, &tables, &[7, 0x6000_0000, 0xf000_0000]);
            }
        }
        let after = growing.trie::<u32>();
        assert!(before.shares_all_nodes_with(&after));
        // Of another layer than the last one they lie in the nodes.
        tables[0].0.insert((0, 0), 80);
        growing.change(&layers(&tables), |n| n == 0, 0, 0);
        agree(&growing, &tables, &[7, 0x6000_0000, 0xf000_0000]);
    }

    #[test]
    fn without_room_nobody_is_told_a_lie() {
        let list: Vec<_> = (0..40_000u32).map(|n| (n << 12, 24, 1 + n % 50)).collect();
        let tables = [(prefixes(&list), None)];
        let layers = layers(&tables);
        for pages in 0..4 {
            let trie = Growing::with_room(&layers, pages * 1024).trie();
            let mut unknown = 0;
            for (first, ..) in &list {
                let found = trie.find(*first);
                assert!(found == UNKNOWN || found == slow(&layers, *first));
                unknown += usize::from(found == UNKNOWN);
            }
            assert!(unknown > 0);
        }
    }

    type Listed<A> = Vec<(A, u8, u32)>;

    /// Two tables, then changes of single prefixes: after each the trie is what the tables say.
    fn grows_as_told<A>(
        tables: [Listed<A>; 2],
        changes: Vec<(bool, A, u8, Option<u32>)>,
        addresses: &[A],
        suppress: Option<u8>,
    ) where
        A: Address + std::fmt::LowerHex,
    {
        let [one, two] = tables;
        let mut tables = [(prefixes(&one), None), (prefixes(&two), suppress)];
        let mut growing = Growing::new(&layers(&tables));
        agree(&growing, &tables, addresses);
        let published = growing.trie::<A>();
        let before: Vec<u32> = addresses.iter().map(|a| published.find(*a)).collect();
        for (which, address, len, value) in changes {
            let len = len.min(A::BITS as u8);
            let key = (address.first(len), len);
            let table = &mut tables[usize::from(which)].0;
            match value {
                Some(value) => table.insert(key, value),
                None => table.remove(&key),
            };
            growing.change(&layers(&tables), |n| n == usize::from(which), key.0, len);
        }
        agree(&growing, &tables, addresses);
        let anew = Growing::new(&layers(&tables));
        agree(&anew, &tables, addresses);
        let after: Vec<u32> = addresses.iter().map(|a| published.find(*a)).collect();
        assert_eq!(before, after, "what was published does not change");
    }

    fn value() -> impl Strategy<Value = u32> {
        prop_oneof![9 => 1u32..6, 1 => Just(HOLE)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn equals_the_definition_v4(
            one in prop::collection::vec((any::<u32>(), 0u8..40, value()), 0..40),
            two in prop::collection::vec((any::<u32>(), 0u8..40, value()), 0..150),
            changes in prop::collection::vec((any::<bool>(), any::<u32>(), 0u8..40, prop::option::of(value())), 0..60),
            addresses in prop::collection::vec(any::<u32>(), 20),
            suppress in prop::option::of(0u8..20),
            narrow in 0u8..3,
        ) {
            // Narrow: everything in few bits, so that prefixes nest and touch; dense: so that
            // nodes overflow.
            let squeeze = |a: u32| match narrow {
                0 => a,
                1 => (a & 0x7) << 29 | (a >> 8 & 7) << 14 | a & 0x3,
                _ => 0x0a01_0000 | a & 0xffff,
            };
            let list = |l: Listed<u32>| l.into_iter().map(|(a, l, v)| (squeeze(a), l, v)).collect();
            let changes = changes.into_iter().map(|(w, a, l, v)| (w, squeeze(a), l, v)).collect();
            let addresses: Vec<u32> = addresses.into_iter().map(squeeze).collect();
            grows_as_told([list(one), list(two)], changes, &addresses, suppress);
        }

        #[test]
        fn equals_the_definition_v6(
            one in prop::collection::vec((any::<u128>(), 0u8..130, value()), 0..30),
            two in prop::collection::vec((any::<u128>(), 0u8..130, value()), 0..100),
            changes in prop::collection::vec((any::<bool>(), any::<u128>(), 0u8..130, prop::option::of(value())), 0..60),
            addresses in prop::collection::vec(any::<u128>(), 20),
            suppress in prop::option::of(0u8..20),
            narrow: bool,
        ) {
            let squeeze = |a: u128| match narrow {
                true => 0x2001_0db8 << 96 | (a & 3) << 78 | (a >> 8 & 7) << 45 | a >> 16 & 3,
                false => a,
            };
            let list = |l: Listed<u128>| l.into_iter().map(|(a, l, v)| (squeeze(a), l, v)).collect();
            let changes = changes.into_iter().map(|(w, a, l, v)| (w, squeeze(a), l, v)).collect();
            let addresses: Vec<u128> = addresses.into_iter().map(squeeze).collect();
            grows_as_told([list(one), list(two)], changes, &addresses, suppress);
        }
    }
}
