//! How often things are looked at.

use std::time::Duration;

/// Time for packets that are on their way between the kernel and the fast path.
pub const STEP: Duration = Duration::from_millis(1);

/// An SA of the fast path, of which the kernel is told.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Packets that wait for a worker: none waits longer, unless it has stopped.
pub const BACKLOG: Duration = Duration::from_millis(50);
