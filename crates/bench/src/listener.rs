//! Who hears of a run while it goes on.

use crate::row::Row;

/// Hears of a run while it goes on. Called between measurements, never during one.
pub trait Listener: Sync {
    /// A measurement begins: of what, and the how-manieth of how many it is.
    fn begins(&self, what: &str, number: usize, of: usize);

    /// Rows are done that belong together.
    fn done(&self, rows: &[Row]);
}

/// A listener that ignores all.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Listener for Nobody {
    fn begins(&self, _: &str, _: usize, _: usize) {}

    fn done(&self, _: &[Row]) {}
}
