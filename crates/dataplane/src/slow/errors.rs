//! ICMP errors that wait until the burst is done.

use std::sync::Arc;

use arrayvec::ArrayVec;
use io::Packet;

use crate::host_limits::{ERRORS_AT_ONCE, HostLimits};
use crate::model::Origin;

/// Errors that wait to be sent: as many as one burst may cause.
const WAITING: usize = ERRORS_AT_ONCE as usize;

/// The errors of one worker.
pub(super) struct Errors {
    pub(super) shared: Arc<HostLimits>,
    /// Made, and not yet sent; each with its own origin.
    pub(super) waiting: ArrayVec<(Packet, Origin), WAITING>,
}

impl Errors {
    pub(super) fn new(shared: Arc<HostLimits>) -> Errors {
        Errors { shared, waiting: ArrayVec::new() }
    }
}
