//! Why a daemon ends.

use crate::workers::{Death, WorkersError};

/// Why the loop ended.
pub enum End {
    /// A signal told it to end.
    Told,
    /// A worker panicked: nothing would move its packets any more.
    WorkerDied(Death),
    /// There are no workers any more.
    WorkersLost(WorkersError),
    /// Somebody deleted the private interface: Linux's own packets would not come any more.
    InterfaceGone,
}
