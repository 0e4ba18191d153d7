//! Another set of workers: what the control thread does with workers while none of them runs.
//!
//! [`Command::Pause`](crate::Command::Pause) makes each return from [`Worker::run`]. Then
//! [`Worker::settle`] brings what is on its way between them to its end, ports and held packets change
//! hands, and each gets its place in the new set. Nothing is lost: ports stay open, and what comes
//! meanwhile waits in their rings.

use std::sync::Arc;

use io::Port;

use crate::features::fragments::Fragments;
use crate::model::PortKind;
use crate::out::neighbour::NeighbourQueue;
use crate::out::peers::Peers;
use crate::slow::Resting;
use crate::team::Team;
use crate::worker::Worker;

/// A port that leaves a worker.
pub struct TakenPort {
    /// Slot of the port.
    pub slot: usize,
    /// Index of the interface.
    pub ifindex: u32,
    /// The port itself.
    pub port: Box<dyn Port>,
    /// Kind of the port.
    pub kind: PortKind,
}

impl Worker {
    /// Brings what the worker has in flight, and what others have handed over to it, to its end, without
    /// receiving anything; returns how many packets were taken over. When it returns 0 for all workers of a
    /// set in turn, nothing is on its way.
    pub fn settle(&mut self) -> usize {
        self.drain_helpers();
        let came = self.take_over(0);
        self.settle_payloads();
        self.settle_copies();
        self.finish_round(true);
        self.end_helpers_steps();
        self.path.exec.out.transmit_all();
        came
    }

    /// Takes a burst from each of its queues to Linux, of the private interface and of tunnel interfaces, and brings it to its end; returns how
    /// many packets came, and were taken over.
    pub fn drain_private(&mut self) -> usize {
        self.path.view.now = self.shared.now();
        let mut came = 0;
        let mut place = 0;
        while let Some(slot) = self.path.exec.out.ports.slot_at(place) {
            if self.path.exec.out.ports.get_mut(slot).is_some_and(|place| place.kind.is_linux()) {
                came += self.receive(slot);
            }
            place += 1;
        }
        came + self.settle()
    }

    /// Ends the taps: a set of workers has them together.
    pub fn end_taps(&mut self) {
        if let Some(taps) = self.path.exec.out.taps.take() {
            taps.end();
        }
    }

    /// Takes its ports; what is queued there was sent by [`Worker::settle`].
    pub fn take_ports(&mut self) -> Vec<TakenPort> {
        let out = &mut self.path.exec.out;
        let taken = out.ports.take();
        taken
            .into_iter()
            .map(|(slot, mut place)| {
                // Nothing, unless the device took nothing: as when a port goes.
                let left = place.queue.len() as u64;
                let reason = outcome::DropReason::TransmitDown;
                out.counters.count(outcome::Outcome::Dropped(reason), left);
                out.pool.put_burst(&mut place.queue);
                let (ifindex, kind) = (place.ifindex, place.kind);
                TakenPort { slot, ifindex, port: place.port, kind }
            })
            .collect()
    }

    /// Takes over the packets that wait at a worker that goes.
    pub fn adopt(&mut self, gone: &mut Worker) {
        let now_ns = self.path.view.now.ns;
        gone.path.exec.drop_waiting(&gone.path.view);
        gone.path.exec.out.drop_late();
        if let Some(devices) = gone.path.exec.rooms.devices.take() {
            self.path.exec.rooms.devices.get_or_insert_default().adopt(*devices);
        }
        let from = gone.path.exec.out.counters.totals().held;
        let (out, gone_out) = (&mut self.path.exec.out, &mut gone.path.exec.out);
        out.counters.adopt_held(&gone_out.counters, from);
        out.adopt_neighbours(&mut gone_out.neighbours, now_ns);
        self.slow.adopt(&mut gone.slow, out, now_ns);
    }

    /// Gives the worker its place in another set of workers; it decides anew about every flow.
    pub fn set_team(&mut self, team: Team) {
        let Team { index, shared, peers } = team;
        let workers = peers.as_ref().map_or(1, Peers::workers);
        // They belong to other workers from now on: those that wait would wait in vain.
        self.path.exec.drop_waiting(&self.path.view);
        let pool = &self.path.exec.out.pool;
        let fragments = Fragments::new(Arc::clone(&shared), workers, pool);
        self.path.exec.rooms.fragments = Some(Box::new(fragments));
        let (out, now_ns) = (&mut self.path.exec.out, self.path.view.now.ns);
        self.path.view.worker = index;
        self.path.view.workers = workers;
        out.peers = peers;
        // The limits of what waits are shared by the workers.
        let mut old = core::mem::replace(&mut out.neighbours, NeighbourQueue::new(workers));
        out.adopt_neighbours(&mut old, now_ns);
        let mut old = core::mem::replace(&mut self.slow, Resting::new(shared, workers));
        self.slow.adopt(&mut old, out, now_ns);
        self.ending = None;
        self.begin_epoch();
    }
}
