//! The queues from outside, in one program: it is linked once. Under the model checker it has the models alone.

#[cfg(loom)]
mod models;
#[cfg(not(any(loom, miri)))]
mod sequences;
#[cfg(not(loom))]
mod stress;
