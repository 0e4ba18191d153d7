//! Memory for tries: pages that a writer changes and readers keep.
//!
//! A block of units lies in one page. Readers hold a page by a reference count; the writer copies
//! a page before it changes one that a reader holds, so what was published stays as it is, and a
//! new version costs a copy of the pages that differ.

use std::sync::Arc;

/// A piece of memory, half a cache line. What it means is the trie's business.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Unit(pub [u16; Unit::LEN]);

impl Unit {
    /// 16-bit numbers in a unit.
    pub const LEN: usize = 16;
    /// A unit of all ones.
    pub const ONES: Self = Self([u16::MAX; Self::LEN]);
}

/// Units in a page, a power of two: 32 KiB.
pub const PAGE_UNITS: usize = 1024;

/// Units that lie together.
pub type Page = [Unit; PAGE_UNITS];

/// The writer's view: pages, and which blocks of them are free.
#[derive(Clone, Debug)]
pub struct Arena {
    pages: Vec<Arc<Page>>,
    /// Units of the last page that were never given away.
    fresh: usize,
    /// Free blocks by their length in units.
    free: Vec<Vec<u32>>,
    free_units: usize,
    /// The most pages there may be.
    most_pages: usize,
}

impl Arena {
    /// An arena of at most so many units.
    pub const fn new(most_units: usize) -> Self {
        Self {
            pages: Vec::new(),
            fresh: 0,
            free: Vec::new(),
            free_units: 0,
            most_pages: most_units / PAGE_UNITS,
        }
    }

    /// The pages as they are now, for readers.
    pub fn pages(&self) -> Box<[Arc<Page>]> {
        self.pages.as_slice().into()
    }

    /// A block of so many units, at most [`PAGE_UNITS`]; what is in it is not defined. `None`
    /// when the arena is full.
    pub fn allocate(&mut self, units: usize) -> Option<u32> {
        if let Some(index) = self.free.get_mut(units).and_then(Vec::pop) {
            self.free_units -= units;
            return Some(index);
        }
        if self.fresh < units {
            if self.pages.len() >= self.most_pages {
                return None;
            }
            let rest = self.fresh;
            if rest > 0 {
                self.release((self.pages.len() * PAGE_UNITS - rest) as u32, rest);
            }
            self.pages.push(Arc::new([Unit::ONES; PAGE_UNITS]));
            self.fresh = PAGE_UNITS;
        }
        let index = self.pages.len() * PAGE_UNITS - self.fresh;
        self.fresh -= units;
        Some(index as u32)
    }

    /// Takes a block back.
    pub fn release(&mut self, index: u32, units: usize) {
        if self.free.len() <= units {
            self.free.resize_with(units + 1, Vec::new);
        }
        if let Some(list) = self.free.get_mut(units) {
            list.push(index);
            self.free_units += units;
        }
    }

    /// A page to read, by its number.
    pub fn page(&self, number: usize) -> Option<&Page> {
        self.pages.get(number).map(|page| &**page)
    }

    /// A block to write.
    pub fn block_mut(&mut self, index: u32, units: usize) -> &mut [Unit] {
        let (page, at) = place(index);
        let page = self.pages.get_mut(page).map(Arc::make_mut);
        page.and_then(|page| page.get_mut(at..at + units)).unwrap_or_default()
    }

    /// True if more than half of the memory lies idle, and it is not small: the table is built anew
    /// then.
    pub const fn is_wasteful(&self) -> bool {
        self.free_units > 8 * PAGE_UNITS && self.free_units * 2 > self.pages.len() * PAGE_UNITS
    }
}

/// Page, and unit in the page.
#[inline(always)]
pub const fn place(index: u32) -> (usize, usize) {
    (index as usize / PAGE_UNITS, index as usize % PAGE_UNITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lie_in_one_page_and_come_again() {
        let mut arena = Arena::new(3 * PAGE_UNITS);
        let first = arena.allocate(1000).unwrap();
        let second = arena.allocate(100).unwrap();
        assert_eq!((first, second), (0, PAGE_UNITS as u32));
        // The rest of the first page is used for blocks that fit.
        assert_eq!(arena.allocate(24), Some(1000));
        arena.release(second, 100);
        assert_eq!(arena.allocate(100), Some(second));
        assert!(arena.allocate(1000).is_some());
        assert_eq!(arena.allocate(1000), None, "full");
        assert!(arena.allocate(924).is_some(), "what is left of the second page");
    }

    #[test]
    fn what_readers_hold_does_not_change() {
        let mut arena = Arena::new(4 * PAGE_UNITS);
        let index = arena.allocate(2).unwrap();
        arena.block_mut(index, 2).fill(Unit([1; 16]));
        let before = arena.pages();
        arena.block_mut(index, 2).fill(Unit([2; 16]));
        assert_eq!(before[0][0].0, [1; 16]);
        assert_eq!(arena.pages()[0][0].0, [2; 16]);
        assert_eq!(arena.page(0).unwrap()[1].0, [2; 16]);
    }

    #[test]
    fn waste_is_noticed() {
        let mut arena = Arena::new(64 * PAGE_UNITS);
        let blocks: Vec<u32> = (0..20).map(|_| arena.allocate(PAGE_UNITS).unwrap()).collect();
        for index in blocks.iter().take(10) {
            arena.release(*index, PAGE_UNITS);
        }
        assert!(!arena.is_wasteful());
        arena.release(blocks[10], PAGE_UNITS);
        assert!(arena.is_wasteful());
    }
}
