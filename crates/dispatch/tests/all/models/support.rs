//! Code that the models share: items that loom watches, and flows that are touched by one thread at a time.

use std::sync::Arc as Count;

use arrayvec::ArrayVec;
use loom::cell::UnsafeCell;
use loom::sync::Arc;

/// An item whose content is watched, and whose copies are counted.
pub struct Item {
    pub number: usize,
    content: UnsafeCell<usize>,
    _count: Count<()>,
}

/// Makes items, and knows how many live.
pub struct Mint(Count<()>);

impl Mint {
    pub fn new() -> Self {
        Self(Count::new(()))
    }

    pub fn item(&self, number: usize) -> Item {
        Item { number, content: UnsafeCell::new(number), _count: Count::clone(&self.0) }
    }

    pub fn items<const N: usize>(&self, numbers: [usize; N]) -> ArrayVec<Item, N> {
        numbers.into_iter().map(|number| self.item(number)).collect()
    }

    /// Items that are neither dropped nor leaked.
    pub fn living(&self) -> usize {
        Count::strong_count(&self.0) - 1
    }
}

impl Item {
    /// Works on it: a write that loom takes for a race unless the hand-over ordered it.
    #[allow(unsafe_code, reason = "loom's cells are read and written by pointers")]
    pub fn add(&mut self, more: usize) {
        // SAFETY: the item is borrowed mutably, so its cell is too.
        self.content.with_mut(|content| unsafe { *content += more });
    }

    /// Its number, if its content says the same after `added` was added.
    #[allow(unsafe_code, reason = "loom's cells are read and written by pointers")]
    pub fn check(self, added: usize) -> usize {
        // SAFETY: the item is ours, so its cell is too.
        let content = self.content.with(|content| unsafe { *content });
        assert_eq!(content, self.number + added);
        self.number
    }
}

/// State that a flow's handlers share without any order of their own.
#[derive(Clone)]
pub struct Flow(Arc<UnsafeCell<Vec<usize>>>);

impl Flow {
    pub fn new() -> Self {
        Self(Arc::new(UnsafeCell::new(Vec::new())))
    }

    pub fn handle(&self, item: Item) {
        self.note(item.check(0));
    }

    #[allow(unsafe_code, reason = "loom's cells are read and written by pointers")]
    pub fn note(&self, number: usize) {
        // SAFETY: loom fails the model if two threads come here unordered: that is the test.
        self.0.with_mut(|seen| unsafe { (*seen).push(number) });
    }

    #[allow(unsafe_code, reason = "loom's cells are read and written by pointers")]
    pub fn seen(&self) -> Vec<usize> {
        // SAFETY: all handlers have ended.
        self.0.with(|seen| unsafe { (*seen).clone() })
    }
}
