//! The writer's own view, kept in step with those of the readers.

use crate::feed::{Change, Feeds, Inbox};
use crate::view::View;

/// Where changes go: to the readers, and into the writer's own view.
pub(crate) struct Publisher<S> {
    view: View<S>,
    feeds: Feeds<S>,
}

impl<S> Publisher<S> {
    pub(crate) fn new(view: View<S>) -> Publisher<S> {
        Publisher { view, feeds: Feeds::new() }
    }

    /// The databases with all changes so far.
    pub(crate) fn view(&self) -> &View<S> {
        &self.view
    }

    /// The present view, and a queue of later changes, for a new reader.
    pub(crate) fn subscribe(&self) -> (View<S>, Inbox<S>) {
        (self.view.clone(), self.feeds.subscribe())
    }

    /// One change, whole, for everybody; `make` makes it for each.
    pub(crate) fn publish(&mut self, mut make: impl FnMut() -> Change<S>) {
        self.view.apply(make());
        self.feeds.publish(make);
    }

    /// The number of the next change.
    pub(crate) fn next(&self) -> u64 {
        self.feeds.count() + 1
    }

    /// The number of the last change that every reader has taken over.
    pub(crate) fn taken(&mut self) -> u64 {
        self.feeds.taken()
    }
}
