//! A copy of a kernel map's keys, so that an update writes only the differences.

use std::collections::BTreeSet;

/// A set in the kernel and its copy.
#[derive(Debug)]
pub(crate) struct Table<K> {
    content: BTreeSet<K>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self { content: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> Table<K> {
    /// Makes the kernel's set equal to `wanted`: adds first, so that nothing that stays protected
    /// is ever missing, then removes. After an error the copy says what the kernel holds, and the
    /// next call goes on from there.
    pub(crate) fn replace<E>(
        &mut self,
        wanted: impl IntoIterator<Item = K>,
        mut insert: impl FnMut(&K) -> Result<(), E>,
        mut remove: impl FnMut(&K) -> Result<(), E>,
    ) -> Result<(), E> {
        let wanted: BTreeSet<K> = wanted.into_iter().collect();
        for key in wanted.difference(&self.content).cloned().collect::<Vec<_>>() {
            insert(&key)?;
            self.content.insert(key);
        }
        for key in self.content.difference(&wanted).cloned().collect::<Vec<_>>() {
            remove(&key)?;
            self.content.remove(&key);
        }
        Ok(())
    }

    /// True if the key is in it.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.content.contains(key)
    }

    /// Adds one; does nothing if it is there.
    pub(crate) fn add<E>(
        &mut self,
        key: K,
        insert: impl FnOnce(&K) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.content.contains(&key) {
            insert(&key)?;
            self.content.insert(key);
        }
        Ok(())
    }

    /// Removes one; does nothing if it is not there.
    pub(crate) fn remove<E>(
        &mut self,
        key: &K,
        remove: impl FnOnce(&K) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.content.contains(key) {
            remove(key)?;
            self.content.remove(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn only_differences_reach_the_kernel_and_additions_come_first() {
        let mut table = Table::default();
        let log = RefCell::new(Vec::new());
        let mut set = |wanted: &[u32], broken: Option<u32>| {
            let note = |sign: char, key: u32| {
                log.borrow_mut().push((sign, key));
                if broken == Some(key) { Err(key) } else { Ok(()) }
            };
            table.replace(wanted.iter().copied(), |key| note('+', *key), |key| note('-', *key))
        };
        assert_eq!(set(&[1, 2, 3], None), Ok(()));
        assert_eq!(set(&[2, 3, 4], None), Ok(()));
        assert_eq!(log.take(), [('+', 1), ('+', 2), ('+', 3), ('+', 4), ('-', 1)]);
        // A failure half-way is made good by the next call.
        assert_eq!(set(&[5, 6, 7], Some(6)), Err(6));
        assert_eq!(log.take(), [('+', 5), ('+', 6)]);
        assert_eq!(set(&[5, 6, 7], None), Ok(()));
        assert_eq!(log.take(), [('+', 6), ('+', 7), ('-', 2), ('-', 3), ('-', 4)]);
    }

    #[test]
    fn single_changes_are_idempotent() {
        let mut table = Table::default();
        let mut calls = 0;
        for _ in 0..2 {
            let _: Result<(), ()> = table.add(1, |_| {
                calls += 1;
                Ok(())
            });
        }
        assert_eq!(calls, 1);
        for _ in 0..2 {
            let _: Result<(), ()> = table.remove(&1, |_| {
                calls += 10;
                Ok(())
            });
        }
        assert_eq!(calls, 11);
    }
}
