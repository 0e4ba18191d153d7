//! A worker's ports: receive and transmit queues of interfaces, and the private interface.

use crate::model::slots::QUEUES;
use crate::model::{Backlog, PortKind};
use arrayvec::ArrayVec;
use io::{Burst, FramePool, Port, PortStats};
use outcome::DropReason;

/// Attempts to get a burst into a transmit ring before the rest is dropped.
const TRANSMIT_ATTEMPTS: usize = 8;

/// One port of the worker.
pub(crate) struct PortSlot {
    pub(crate) ifindex: u32,
    pub(crate) port: Box<dyn Port>,
    /// Packets that are sent at the end of the round.
    pub(crate) queue: Burst,
    pub(crate) kind: PortKind,
    /// How long it has had more packets than were taken.
    pub(crate) backlog: Backlog,
}

/// Result of a port's transmit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) is_linux: bool,
    /// Taken by the device.
    pub(crate) sent: u64,
    /// Taken from the queue, but refused by the device.
    pub(crate) refused: u64,
    /// Left in the queue, and freed.
    pub(crate) left: u64,
    /// The interface, if it is gone.
    pub(crate) gone: Option<u32>,
}

impl Sent {
    /// The reason of what was refused: a device that is slower than the worker.
    pub(crate) const fn full(&self) -> DropReason {
        if self.is_linux { DropReason::LinuxFull } else { DropReason::TransmitFull }
    }

    /// The reason of what was left.
    pub(crate) const fn reason(&self) -> DropReason {
        if self.gone.is_some() { DropReason::TransmitDown } else { self.full() }
    }
}

/// The ports of one worker, by slot.
///
/// Slots are many and ports few: a slot is a pointer, and a round walks the list of those that are taken.
pub(crate) struct Ports {
    slots: Vec<Option<Box<PortSlot>>>,
    /// Slots of ports, ascending. One whose port has gone stays until the next port comes: ports go while a round walks
    /// the list, which must not miss another one for it.
    taken: Vec<u16>,
    private: Option<usize>,
}

impl Ports {
    pub(crate) fn new() -> Ports {
        Ports { slots: Vec::new(), taken: Vec::new(), private: None }
    }

    /// The slot of the port at a place in their order; none behind the last.
    #[inline]
    pub(crate) fn slot_at(&self, place: usize) -> Option<usize> {
        self.taken.get(place).map(|slot| usize::from(*slot))
    }

    /// The slot of the private interface.
    pub(crate) fn private(&self) -> Option<usize> {
        self.private
    }

    /// All ports, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PortSlot> {
        self.slots.iter().flatten().map(|place| &**place)
    }

    /// The port in a slot.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut PortSlot> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// Puts a port into a slot.
    pub(crate) fn add(&mut self, slot: usize, ifindex: u32, port: Box<dyn Port>, kind: PortKind) {
        while self.slots.len() <= slot && self.slots.len() < QUEUES {
            self.slots.push(None);
        }
        let Some(place) = self.slots.get_mut(slot) else {
            return tracing::error!(slot, ifindex, "a worker has {QUEUES} slots for ports");
        };
        let (queue, backlog) = (Burst::new(), Backlog::default());
        *place = Some(Box::new(PortSlot { ifindex, port, queue, kind, backlog }));
        self.taken.clear();
        let taken =
            (0..).zip(&self.slots).filter_map(|(slot, place)| place.is_some().then_some(slot));
        self.taken.extend(taken);
        // Of several queues the first is written to.
        if kind == PortKind::Private && self.private.is_none_or(|private| slot < private) {
            self.private = Some(slot);
        }
    }

    /// Removes every port of an interface; returns how many packets were queued there.
    pub(crate) fn remove(&mut self, ifindex: u32, pool: &mut FramePool) -> u64 {
        let mut queued = 0;
        for place in &mut self.slots {
            if let Some(mut gone) = place.take_if(|port| port.ifindex == ifindex) {
                queued += gone.queue.len() as u64;
                pool.put_burst(&mut gone.queue);
            }
        }
        if self.private.is_some_and(|slot| self.slots.get(slot).is_none_or(Option::is_none)) {
            self.private = None;
        }
        queued
    }

    /// Takes every port, with its slot.
    pub(crate) fn take(&mut self) -> Vec<(usize, PortSlot)> {
        self.private = None;
        let slots = self.slots.iter_mut().enumerate();
        slots.filter_map(|(slot, place)| Some((slot, *place.take()?))).collect()
    }

    /// Closes every port.
    pub(crate) fn close(&mut self) {
        self.slots.iter_mut().for_each(|place| drop(place.take()));
        self.private = None;
    }

    /// A port's queue, if there is room in it.
    #[inline(always)]
    pub(crate) fn queue_with_room(&mut self, slot: usize) -> Option<&mut Burst> {
        match self.slots.get_mut(slot) {
            Some(Some(place)) if !place.queue.is_full() => Some(&mut place.queue),
            _ => None,
        }
    }

    /// Sends what is queued for a port.
    ///
    /// A ring that stays full after it was drained into the device means that the device is
    /// slower than the worker: the rest is freed, as a queue's tail is.
    pub(crate) fn transmit(&mut self, slot: usize, pool: &mut FramePool) -> Sent {
        let Some(place) = self.get_mut(slot) else { return Sent::default() };
        let (ifindex, is_linux) = (place.ifindex, place.kind.is_linux());
        if place.queue.is_empty() {
            // Frames of finished transmissions come back also when nothing new is sent.
            let gone = place.port.reclaim(pool).is_err_and(|e| e.is_gone()).then_some(ifindex);
            return Sent { is_linux, gone, ..Sent::default() };
        }
        let refused_before = place.port.stats().tx_refused;
        let queued = place.queue.len() as u64;
        let mut is_gone = false;
        for _ in 0..TRANSMIT_ATTEMPTS {
            is_gone = place.port.tx(&mut place.queue, pool).is_err_and(|e| e.is_gone());
            if place.queue.is_empty() || is_gone {
                break;
            }
        }
        let refused = place.port.stats().tx_refused.saturating_sub(refused_before);
        // Whatever a call returned: what is not in the queue any more has been taken.
        let left = place.queue.len() as u64;
        let sent = queued.saturating_sub(left);
        pool.put_burst(&mut place.queue);
        let refused = refused.min(sent);
        Sent { is_linux, sent: sent - refused, refused, left, gone: is_gone.then_some(ifindex) }
    }

    /// Interfaces whose ports say that they are gone.
    pub(crate) fn gone(&mut self) -> ArrayVec<u32, QUEUES> {
        let mut gone = ArrayVec::new();
        for place in self.slots.iter_mut().flatten() {
            let is_gone = place.port.check().is_err_and(|error| error.is_gone());
            if is_gone && !gone.contains(&place.ifindex) {
                gone.push(place.ifindex);
            }
        }
        gone
    }

    /// The counters of each port.
    pub(crate) fn stats(&self) -> Vec<(u32, PortStats)> {
        self.iter().map(|place| (place.ifindex, place.port.stats())).collect()
    }
}
