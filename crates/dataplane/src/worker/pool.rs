//! A worker's side of its helpers.

use dispatch::Sleepers;
use dispatch::ordered::{self, Releaser, Submitter};
use io::Packet;

use crate::event::Waker;
use crate::model::Ingress;
use crate::out::batch::Batch;
use crate::worker::helper::Helper;
use crate::worker::turns::{Item, SparePasses};

/// Means of the worker to work on bursts as one of its helpers.
pub(crate) struct Own {
    pub(super) queue: ordered::Worker<Item>,
    pub(super) helper: Helper,
    pub(super) passes: SparePasses,
}

/// The worker's side of its helpers.
pub(crate) struct Helpers {
    pub(super) submitter: Submitter<Item>,
    /// The worker as one of the helpers. Away while it works on a burst itself.
    pub(super) own: Option<Box<Own>>,
    pub(super) releaser: Releaser<Item>,
    pub(super) spare: Vec<Box<Batch>>,
    pub(super) wakers: Vec<Waker>,
    pub(super) sleepers: Sleepers,
    /// Packets that have got segments, and go on when no helper is at work. They count as held.
    pub(super) stepped: Vec<(Packet, Ingress)>,
    /// Bursts that are not moved on yet.
    pub(super) in_flight: usize,
    /// Bursts that no helper was woken for yet.
    pub(super) unannounced: usize,
    /// Counts up when plans become void.
    pub(super) epoch: u64,
    /// Counts up when rules of path selection answer otherwise.
    pub(super) steered: u64,
    /// Counts up when all threads are said to have caught up with the databases.
    pub(super) catch_up: u64,
}
