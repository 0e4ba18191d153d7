//! A counter of one worker.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with one writer: the worker that owns it. Anyone may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the owner calls this, so a load and a store are enough.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Value of the counter.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn sub(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(n), Relaxed);
    }
}

/// Declares counters of one kind once: field, name.
macro_rules! named_counters {
    ($(#[$of:meta])* $kind:ident: $( $(#[$doc:meta])* $field:ident, $name:literal; )+) => {
        $(#[$of])*
        #[derive(Debug, Default)]
        pub struct $kind { $( $(#[$doc])* pub $field: $crate::model::Counter, )+ }

        impl $kind {
            /// Every counter with its name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                [ $( ($name, self.$field.value()), )+ ].into_iter()
            }
        }
    };
}

pub(crate) use named_counters;
