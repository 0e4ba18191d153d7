//! A set of workers: who hands packets to whom, and the limits that they share.

use std::sync::Arc;

use dispatch::{Mesh, Sleepers};
use policy::WorkerIndex;

use crate::event::Waker;
use crate::host_limits::HostLimits;
use crate::out::peers::Peers;

/// Packets that may be on their way from one worker to one other: several turns' worth where workers are
/// few, and some MiB in all where they are many.
fn hand_over_len(workers: usize) -> usize {
    (HAND_OVER_IN_ALL / workers.max(1)).clamp(256, 2048)
}

/// Packets that may be on their way to one worker, about.
const HAND_OVER_IN_ALL: usize = 8192;

/// The most workers of one set.
pub const MAX_WORKERS: usize = {
    let (lanes, sleepers) = (WorkerIndex::MAX, Sleepers::MOST);
    if lanes < sleepers { lanes } else { sleepers }
};

/// One worker's place in a set.
///
/// Each worker owns some queues of each interface, and is the home of some SAs. A packet for an SA whose
/// home is another worker, and a frame for an interface of which the worker has no queue, is handed over.
pub struct Team {
    pub(crate) index: WorkerIndex,
    pub(crate) shared: Arc<HostLimits>,
    pub(crate) peers: Option<Peers>,
}

impl Team {
    /// A worker without others.
    pub fn alone() -> Team {
        Team { index: WorkerIndex::FIRST, shared: Arc::new(HostLimits::new()), peers: None }
    }

    /// A set of workers, by the wakers of each; at most [`MAX_WORKERS`], those beyond get no place.
    pub fn of(wakers: &[Waker]) -> Vec<Team> {
        Team::with(&Arc::new(HostLimits::new()), wakers)
    }

    /// Another set of workers on the clock and with the limits of this one.
    pub fn again(&self, wakers: &[Waker]) -> Vec<Team> {
        Team::with(&self.shared, wakers)
    }

    fn with(shared: &Arc<HostLimits>, wakers: &[Waker]) -> Vec<Team> {
        let wakers: Arc<[Waker]> = wakers.iter().take(MAX_WORKERS).cloned().collect();
        let sleepers = Sleepers::new();
        let mesh = Mesh::new(wakers.len(), hand_over_len(wakers.len()), &sleepers);
        let teams = mesh.into_iter().enumerate().filter_map(|(n, peer)| {
            let peers = Peers::new(peer, Arc::clone(&wakers), sleepers.clone());
            Some(Team {
                index: WorkerIndex::new(n)?,
                shared: Arc::clone(shared),
                // With nobody to hand to there is nothing to ask for.
                peers: (wakers.len() > 1).then_some(peers),
            })
        });
        teams.collect()
    }

    /// The time on the clock of the set, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.shared.now().ns
    }

    /// The worker's number, from 0.
    pub fn number(&self) -> usize {
        self.index.get()
    }
}
