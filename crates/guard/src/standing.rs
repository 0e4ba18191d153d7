//! The installed barriers by identity, and how many of them are kernel policies.

use std::collections::HashMap;

use crate::barrier::Barrier;

/// The installed barriers.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    by_identity: HashMap<Barrier, Barrier>,
    /// Kernel policies: in, out, forward.
    counts: [u32; 3],
}

impl FromIterator<Barrier> for Standing {
    fn from_iter<I: IntoIterator<Item = Barrier>>(barriers: I) -> Standing {
        let mut standing = Standing::default();
        for barrier in barriers {
            standing.insert(barrier);
        }
        standing
    }
}

impl Standing {
    /// Records an installed barrier; returns the one that it replaces.
    pub fn insert(&mut self, barrier: Barrier) -> Option<Barrier> {
        let old = self.by_identity.insert(barrier.identity(), barrier);
        if old.is_none() {
            self.count(&barrier, 1);
        }
        old
    }

    /// Forgets the one of this identity.
    pub fn remove(&mut self, identity: &Barrier) {
        if let Some(old) = self.by_identity.remove(identity) {
            self.count(&old, u32::MAX);
        }
    }

    /// The one of this identity.
    pub fn get(&self, identity: &Barrier) -> Option<&Barrier> {
        self.by_identity.get(identity)
    }

    /// True if exactly this one is installed.
    pub fn has(&self, barrier: &Barrier) -> bool {
        self.get(&barrier.identity()) == Some(barrier)
    }

    /// All of them.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &Barrier> {
        self.by_identity.values()
    }

    /// How many are kernel policies: in, out, forward.
    pub fn policy_counts(&self) -> [u32; 3] {
        self.counts
    }

    /// How many are kernel policies.
    pub fn policies(&self) -> usize {
        self.counts.iter().sum::<u32>() as usize
    }

    fn count(&mut self, barrier: &Barrier, change: u32) {
        if let Some(count) = self.counts.get_mut(usize::from(barrier.direction()))
            && !barrier.is_netfilter()
        {
            *count = count.wrapping_add(change);
        }
    }
}
