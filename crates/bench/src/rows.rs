//! The rows of a run, each told as soon as it is there.

use crypto::Suite;

use crate::listener::Listener;
use crate::options::{Direction, Options};
use crate::row::Row;

/// The rows of a run so far; each is told when it is there.
pub(crate) struct Rows<'p> {
    listener: &'p dyn Listener,
    rows: Vec<Row>,
    begun: usize,
    of: usize,
}

impl<'p> Rows<'p> {
    /// For so many measurements.
    pub(crate) fn new(options: &Options<'p>, of: usize) -> Rows<'p> {
        Rows { listener: options.listener, rows: Vec::new(), begun: 0, of }
    }

    /// A measurement begins.
    pub(crate) fn begin(&mut self, what: &str) {
        self.begun += 1;
        self.listener.begins(what, self.begun, self.of);
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.extend([row]);
    }

    /// Rows that belong together.
    pub(crate) fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        let before = self.rows.len();
        self.rows.extend(rows);
        self.listener.done(self.rows.get(before..).unwrap_or_default());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn into_vec(self) -> Vec<Row> {
        self.rows
    }
}

/// Name of a measurement while it goes on.
pub(crate) fn label(suite: Suite, direction: Direction, size: usize) -> String {
    format!("{suite} {}, {size} bytes", direction.name())
}
