//! Which keys were used of late, and so are likely to be near still.

use crypto::KeyLine;

/// Places in the table. Keys that so many others have not pushed out since are in the second-level cache or the
/// third; to read them from further away takes longer than to expand them, and the table itself has to stay
/// near.
const PLACES: usize = 4096;

/// The keys used of late by one engine: a hint, which may be wrong both ways.
///
/// A key is known by where it lies. Each has one place in a table, and stays until another of that place
/// comes: with few keys in use all of them are there, with very many hardly any.
pub(crate) struct Recent {
    tags: Box<[u16; PLACES]>,
}

impl Recent {
    pub(crate) fn new() -> Recent {
        Recent { tags: Box::new([0; PLACES]) }
    }

    /// Enters keys that are about to be used; true if they were there.
    #[inline]
    pub(crate) fn enter(&mut self, keys: &[KeyLine]) -> bool {
        let (place, tag) = place_and_tag(keys);
        match self.tags.get_mut(place) {
            Some(place) => core::mem::replace(place, tag) == tag,
            None => false,
        }
    }

    /// Brings near what [`Recent::enter`] touches: with many keys it is another line for each.
    #[inline]
    pub(crate) fn prefetch(&self, keys: &[KeyLine]) {
        if let Some(place) = self.tags.get(place_and_tag(keys).0) {
            mem::prefetch(place);
        }
    }
}

/// Fibonacci hashing: the upper bits of the product depend on all bits of the address.
#[inline]
fn place_and_tag(keys: &[KeyLine]) -> (usize, u16) {
    let hash = (keys.as_ptr().addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((hash >> 48) as usize % PLACES, (hash >> 32) as u16)
}

#[cfg(test)]
mod tests {
    use crypto::KeyBlock;

    use super::*;

    #[test]
    fn few_keys_stay_and_many_do_not() {
        for (count, stay) in [(1, 1..=1), (1000, 700..=1000), (50_000, 0..=10_000)] {
            let blocks: Vec<KeyBlock> = (0..count).map(|_| KeyBlock::new(64)).collect();
            let mut recent = Recent::new();
            let mut round = || blocks.iter().filter(|block| recent.enter(block.lines())).count();
            assert!(round() <= count / 100, "{count}: unknown at first");
            let stayed = round();
            assert!(stay.contains(&stayed), "{stayed} of {count}");
        }
    }
}
