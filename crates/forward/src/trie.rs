//! The longest prefix in a few memory accesses: a trie that takes 8 or 16 bits at a time.
//!
//! A node covers the addresses that share its leading bits, and is one of three things:
//!
//! ```text
//!   inline     next 16 bits, at most 5 intervals        1 unit (32 bytes)
//!              [ 4 ends | 5 places ]
//!   intervals  next 16 bits, at most 512 intervals      3 to 98 units
//!              [ samples: each 17th, 33rd ... end | ends | places ]
//!   fan        next 8 bits, one place for each value    32 units
//! ```
//!
//! A place is a leaf, which is the answer, or another node. Nested prefixes are flattened into
//! disjoint intervals when the node is made, so nothing found on the way has to be remembered. An
//! interval is found by counting the ends that lie below the address: 16 in a unit, compared at
//! once. In a table of a million IPv4 routes a look-up reads two fans, a sample, ends and a place.
//!
//! The *short* prefixes of the last layer, of [`SHORT_BITS`] bits at most, are no part of the nodes:
//! flattened, a default route would lie in each gap between longer ones, and whenever it comes or
//! goes all nodes would have to be made anew. Their values stand in a table by an address's
//! first byte, which answers where the nodes have nothing.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::address::Address;
use crate::arena::{PAGE_UNITS, Page, Unit, place};

/// No prefix holds the address.
pub const NOTHING: u32 = 0;
/// A prefix holds the address and says that the table has no answer.
pub const HOLE: u32 = Place::LEAF_MASK;
/// The table could not be built so far.
pub const UNKNOWN: u32 = Place::LEAF_MASK - 1;

/// Bits of the prefixes that stand beside the nodes, at most.
pub const SHORT_BITS: u32 = 8;
/// Values by an address's first [`SHORT_BITS`] bits.
pub type Short = [u32; 1 << SHORT_BITS];

/// Most intervals of a node.
pub const MOST_INTERVALS: usize = 512;
/// Most intervals of an inline node.
pub const MOST_INLINE: usize = 5;
/// Where the places of an inline node begin, in its unit.
pub const INLINE_PLACES: usize = MOST_INLINE - 1;
/// Units of a fan.
pub const FAN_UNITS: usize = 256 / PLACES_PER_UNIT;
/// Places in a unit.
pub const PLACES_PER_UNIT: usize = Unit::LEN / 2;
/// The most units that a place can tell apart: 2 GiB.
pub const MOST_UNITS: usize = 1 << Place::INDEX_BITS;

/// Where an interval leads: bit 31 says whether to a node. A leaf's other bits are its value; a
/// node's are what it is (5 bits) and where it begins (26 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub u32);

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Inline,
    Fan,
    /// How many units of places, at the index in [`PLACE_UNITS`].
    Intervals(u8),
}

/// Units of places of an interval node. There are few sizes, so that free blocks fit.
pub const PLACE_UNITS: [u8; 20] =
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64];

impl Place {
    const NODE: u32 = 1 << 31;
    const INDEX_BITS: u32 = 26;
    const LEAF_MASK: u32 = Self::NODE - 1;
    const INLINE: u32 = 30;
    const FAN: u32 = 31;

    pub const fn leaf(value: u32) -> Self {
        Self(value & Self::LEAF_MASK)
    }

    pub const fn node(shape: Shape, index: u32) -> Self {
        let shape = match shape {
            Shape::Inline => Self::INLINE,
            Shape::Fan => Self::FAN,
            Shape::Intervals(size) => size as u32,
        };
        Self(Self::NODE | shape << Self::INDEX_BITS | index)
    }

    #[inline(always)]
    pub const fn is_leaf(self) -> bool {
        self.0 & Self::NODE == 0
    }

    /// The node's kind, and its first unit. Call it for a node only.
    #[inline(always)]
    pub const fn parts(self) -> (Shape, u32) {
        let index = self.0 & ((1 << Self::INDEX_BITS) - 1);
        let shape = match self.0 >> Self::INDEX_BITS & 31 {
            Self::INLINE => Shape::Inline,
            Self::FAN => Shape::Fan,
            size => Shape::Intervals(size as u8),
        };
        (shape, index)
    }
}

/// How the units of an interval node follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Units of samples.
    pub samples: u8,
    /// Units of ends.
    pub ends: u8,
    /// Units of places.
    pub places: u8,
}

impl Layout {
    /// Of the size at this index in [`PLACE_UNITS`].
    #[inline(always)]
    pub const fn of(size: u8) -> Self {
        LAYOUTS[size as usize % LAYOUTS.len()]
    }

    const fn with(places: usize) -> Self {
        let ends = (places * PLACES_PER_UNIT - 1).div_ceil(Unit::LEN);
        let samples = if ends > 1 { ends.div_ceil(Unit::LEN) } else { 0 };
        Self { samples: samples as u8, ends: ends as u8, places: places as u8 }
    }

    /// Units of the whole node.
    pub const fn units(self) -> usize {
        self.samples as usize + self.ends as usize + self.places as usize
    }
}

/// A power of two, so that no index is out of bounds; those past the sizes are not used.
const LAYOUTS: [Layout; 32] = {
    let mut layouts = [Layout::with(1); 32];
    let mut size = 0;
    while size < PLACE_UNITS.len() {
        layouts[size] = Layout::with(PLACE_UNITS[size] as usize);
        size += 1;
    }
    layouts
};

/// The units of a node of this shape.
pub fn units_of(shape: Shape) -> usize {
    match shape {
        Shape::Inline => 1,
        Shape::Fan => FAN_UNITS,
        Shape::Intervals(size) => Layout::of(size).units(),
    }
}

/// A table as it was at one moment. It never changes; a copy shares its memory.
#[derive(Clone, Debug)]
pub struct Trie<A> {
    pages: Box<[Arc<Page>]>,
    root: Place,
    short: Arc<Short>,
    address: PhantomData<A>,
}

impl<A: Address> Trie<A> {
    /// A table of these pages that begins at `root`; `short` has the values where it says
    /// [`NOTHING`].
    pub const fn new(pages: Box<[Arc<Page>]>, root: Place, short: Arc<Short>) -> Self {
        Self { pages, root, short, address: PhantomData }
    }

    /// The value of the longest prefix that holds the address, or [`NOTHING`], or [`UNKNOWN`].
    #[inline]
    pub fn find(&self, address: A) -> u32 {
        let (mut at, mut rest) = (self.root, address);
        while !at.is_leaf() {
            let (shape, index) = at.parts();
            let (page, unit) = place(index);
            let Some(page) = self.pages.get(page) else { return UNKNOWN };
            if shape == Shape::Fan {
                at = read(page, unit, rest.byte(0));
                rest = rest.skip_byte();
            } else {
                at = child(page, unit, shape, rest.pair(0));
                rest = rest.skip_pair();
            }
        }
        match at.0 {
            NOTHING => self.short_value(address),
            HOLE => NOTHING,
            value => value,
        }
    }

    #[inline]
    fn short_value(&self, address: A) -> u32 {
        match self.short.get(address.byte(0)) {
            Some(&value) if value != HOLE => value,
            _ => NOTHING,
        }
    }

    /// True if nothing but the short prefixes can differ: all pages are the same memory.
    #[cfg(test)]
    pub fn shares_all_nodes_with(&self, other: &Self) -> bool {
        let mut pages = self.pages.iter().zip(&other.pages);
        self.root == other.root
            && self.pages.len() == other.pages.len()
            && pages.all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Bytes of memory that the table holds, shared ones too.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.pages) + self.pages.len() * size_of::<Page>() + size_of::<Short>()
    }
}

/// Where the interval leads that holds `key`, in the node that begins at `unit` and is no fan.
#[inline(always)]
pub fn child(page: &Page, unit: usize, shape: Shape, key: u16) -> Place {
    let Shape::Intervals(size) = shape else {
        let Unit(words) = unit_at(page, unit);
        let ends = words.iter().take(INLINE_PLACES);
        let number: usize = ends.map(|end| usize::from(*end < key)).sum();
        return word_pair(words, INLINE_PLACES + 2 * number);
    };
    let layout = Layout::of(size);
    let ends = unit + usize::from(layout.samples);
    // The unit of ends after the last sample below the key.
    let mut skipped = 0;
    if layout.samples > 0 {
        skipped = below(unit_at(page, unit), key);
        if layout.samples > 1 && skipped == Unit::LEN {
            skipped += below(unit_at(page, unit + 1), key);
        }
    }
    let number = skipped * Unit::LEN + below(unit_at(page, ends + skipped), key);
    read(page, ends + usize::from(layout.ends), number)
}

/// How many of a unit's numbers, which ascend, are below the key. All are compared, without
/// branches; the bits that say so begin with as many ones.
#[inline(always)]
fn below(Unit(words): &Unit, key: u16) -> usize {
    let mut mask = 0_u32;
    for (at, word) in words.iter().enumerate() {
        mask |= u32::from(*word < key) << at;
    }
    mask.trailing_ones() as usize
}

/// A place of those that begin at `unit`.
#[inline(always)]
pub fn read(page: &Page, unit: usize, number: usize) -> Place {
    let Unit(words) = unit_at(page, unit + number / PLACES_PER_UNIT);
    word_pair(words, number % PLACES_PER_UNIT * 2)
}

/// Blocks do not reach over a page's end; the remainder says so to the compiler.
#[inline(always)]
fn unit_at(page: &Page, unit: usize) -> &Unit {
    &page[unit % PAGE_UNITS]
}

#[inline(always)]
fn word_pair(words: &[u16; Unit::LEN], at: usize) -> Place {
    let (low, high) = (words[at % Unit::LEN], words[(at + 1) % Unit::LEN]);
    Place(u32::from(low) | u32::from(high) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_fit_their_blocks() {
        for size in 0..PLACE_UNITS.len() as u8 {
            let layout = Layout::of(size);
            let most = usize::from(layout.places) * PLACES_PER_UNIT;
            let [ends, samples] = [layout.ends, layout.samples].map(usize::from);
            assert!(ends * Unit::LEN >= most - 1, "an end between each two");
            assert!(ends == 1 || samples * Unit::LEN >= ends - 1);
            assert!(samples <= 2, "a look-up reads no more");
            assert!(layout.units() <= PAGE_UNITS);
        }
        let largest = Layout::of(PLACE_UNITS.len() as u8 - 1);
        assert_eq!(usize::from(largest.places) * PLACES_PER_UNIT, MOST_INTERVALS);
        const { assert!(INLINE_PLACES + 2 * MOST_INLINE <= Unit::LEN) };
    }

    #[test]
    fn places_keep_what_they_are_given() {
        assert!(Place::leaf(HOLE).is_leaf());
        for shape in [Shape::Inline, Shape::Fan, Shape::Intervals(0), Shape::Intervals(19)] {
            for index in [0, 1, MOST_UNITS as u32 - 1] {
                let place = Place::node(shape, index);
                assert!(!place.is_leaf());
                assert_eq!(place.parts(), (shape, index));
            }
        }
    }
}
