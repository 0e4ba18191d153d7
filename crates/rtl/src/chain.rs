//! Hash chains: which entries a bucket leads to, in the order in which the gateway meets them.

use std::collections::BTreeMap;

/// The chains of one hash table. A new entry goes to the front, so that one write links it in.
#[derive(Debug, Default)]
pub(crate) struct Chains(BTreeMap<usize, Vec<u16>>);

/// The record to be rewritten when an entry is removed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// The bucket: it leads to this one from now on.
    Bucket(Option<u16>),
    /// The entry in front: it leads to this one from now on.
    Entry(u16, Option<u16>),
}

impl Chains {
    /// The entry that a bucket leads to.
    pub(crate) fn first(&self, bucket: usize) -> Option<u16> {
        self.0.get(&bucket)?.last().copied()
    }

    /// The buckets that lead to any.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.keys().copied()
    }

    /// How many entries a bucket leads to.
    pub(crate) fn len(&self, bucket: usize) -> usize {
        self.0.get(&bucket).map_or(0, Vec::len)
    }

    /// The entry behind this one.
    pub(crate) fn next(&self, bucket: usize, index: u16) -> Option<u16> {
        let chain = self.0.get(&bucket)?;
        let place = chain.iter().position(|entry| *entry == index)?;
        chain.get(place.checked_sub(1)?).copied()
    }

    /// Puts an entry to the front.
    pub(crate) fn push(&mut self, bucket: usize, index: u16) {
        self.0.entry(bucket).or_default().push(index);
    }

    /// Takes an entry out; `None` if it is not there.
    pub(crate) fn remove(&mut self, bucket: usize, index: u16) -> Option<Before> {
        let chain = self.0.get_mut(&bucket)?;
        let place = chain.iter().position(|entry| *entry == index)?;
        let behind = place.checked_sub(1).map(|behind| chain[behind]);
        let before = match chain.get(place + 1) {
            Some(entry) => Before::Entry(*entry, behind),
            None => Before::Bucket(behind),
        };
        chain.remove(place);
        if chain.is_empty() {
            self.0.remove(&bucket);
        }
        Some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_goes_the_rest_stays_linked() {
        let mut chains = Chains::default();
        for index in [3, 5, 9] {
            chains.push(7, index);
        }
        let walk = |chains: &Chains| {
            core::iter::successors(chains.first(7), |at| chains.next(7, *at)).collect::<Vec<_>>()
        };
        assert_eq!(walk(&chains), [9, 5, 3]);
        assert_eq!(chains.remove(7, 5), Some(Before::Entry(9, Some(3))));
        assert_eq!(walk(&chains), [9, 3]);
        assert_eq!(chains.remove(7, 9), Some(Before::Bucket(Some(3))));
        assert_eq!(chains.remove(7, 9), None);
        assert_eq!(chains.remove(7, 3), Some(Before::Bucket(None)));
        assert_eq!(walk(&chains), []);
    }
}
