//! Watching a queue from outside: for a thread that is no end of it, such as the one that shows figures.

use core::fmt;

use crate::outcome::Stats;
use crate::sync::Arc;
use crate::{atomic, directed, ordered, unordered};

/// A view of a queue's statistics. It keeps the queue's memory, but neither its items nor its ends:
/// a queue whose ends have gone is closed and empty, watched or not.
pub struct Monitor<T>(Kind<T>);

enum Kind<T> {
    Ring(Arc<directed::Shared<T>>),
    Turns(Arc<unordered::Shared<T>>),
    Ordered(Arc<ordered::Shared<T>>),
    Atomic(Arc<atomic::Shared<T>>),
}

impl<T> Monitor<T> {
    /// Depth, capacity and full events.
    pub fn stats(&self) -> Stats {
        match &self.0 {
            Kind::Ring(shared) => shared.stats(),
            Kind::Turns(shared) => shared.stats(),
            Kind::Ordered(shared) => shared.stats(),
            Kind::Atomic(shared) => shared.stats(),
        }
    }
}

impl<T> fmt::Debug for Monitor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Monitor").field(&self.stats()).finish()
    }
}

impl<T> From<&directed::Producer<T>> for Monitor<T> {
    fn from(end: &directed::Producer<T>) -> Self {
        Self(Kind::Ring(Arc::clone(&end.shared)))
    }
}

impl<T> From<&unordered::Producer<T>> for Monitor<T> {
    fn from(end: &unordered::Producer<T>) -> Self {
        Self(Kind::Turns(Arc::clone(&end.shared)))
    }
}

impl<T> From<&ordered::Submitter<T>> for Monitor<T> {
    fn from(end: &ordered::Submitter<T>) -> Self {
        Self(Kind::Ordered(Arc::clone(&end.shared)))
    }
}

impl<T> From<&atomic::Producer<T>> for Monitor<T> {
    fn from(end: &atomic::Producer<T>) -> Self {
        Self(Kind::Atomic(Arc::clone(&end.shared)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc as Count;

    use super::*;

    #[test]
    fn items_do_not_outlive_the_ends_for_a_monitor() {
        let item = Count::new(());
        let (mut producer, consumer) = directed::queue(4);
        let ring = Monitor::from(&producer);
        producer.put(Count::clone(&item)).unwrap();
        assert_eq!(ring.stats().depth, 1);
        drop((producer, consumer));
        let (producer, consumer) = unordered::queue(4);
        let turns = Monitor::from(&producer);
        producer.put(Count::clone(&item)).unwrap();
        assert_eq!(turns.stats().depth, 1);
        drop((producer, consumer));
        let (mut submitter, worker, releaser) = ordered::queue(4);
        let ordered = Monitor::from(&submitter);
        submitter.put(Count::clone(&item)).unwrap();
        assert_eq!(ordered.stats().depth, 1);
        drop((submitter, worker, releaser));
        let (producer, consumer) = atomic::queue(2, 4);
        let atomic = Monitor::from(&producer);
        producer.put(5, Count::clone(&item)).unwrap();
        assert_eq!(atomic.stats().depth, 1);
        drop((consumer, producer));
        assert_eq!(Count::strong_count(&item), 1);
        for monitor in [ring, turns, ordered, atomic] {
            assert_eq!(monitor.stats().depth, 0);
        }
    }
}
