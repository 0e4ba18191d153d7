//! One burst on its way between the worker and its helpers.

use arrayvec::ArrayVec;
use io::{BURST_LEN, Frame, FramePool, Packet, Parcel};
use outcome::{DropReason, Outcome};
use wire::Span;

use crate::counters::Done;
use crate::model::{Ingress, Left, Now, Payload, Source};

/// A burst, and what has become of its packets.
///
/// Its lines go from core to core, so what most bursts need lies together, in as few as can be.
#[repr(C, align(64))]
pub(crate) struct Batch {
    pub(crate) source: Source,
    /// When they were received.
    pub(crate) now: Now,
    /// The worker's slot of the private interface.
    pub(crate) private: Option<u16>,
    /// True if some packets are not to be sent, because they ended or were left. Else no pass
    /// looks for them.
    pub(crate) has_unsent: bool,
    /// The worker's tables: plans made by others do not hold.
    pub(crate) epoch: u64,
    /// The worker's rules of path selection: plans made by others have to prove that they hold.
    pub(crate) steered: u64,
    /// Counts up when the worker has said that all threads have caught up.
    pub(crate) catch_up: u64,
    pub(crate) done: Done,
    /// As they were received; then those to be sent, in order, each with its port's slot.
    pub(crate) packets: Parcel,
    /// To be counted, and their frames given back; or to be handed to Linux.
    pub(crate) ended: ArrayVec<(Packet, Outcome), BURST_LEN>,
    /// To be moved on by the worker, in order.
    pub(crate) left: ArrayVec<Left, BURST_LEN>,
    /// To be taken apart by the worker, in order.
    pub(crate) payloads: ArrayVec<Payload, BURST_LEN>,
    /// Sealed, and with segments of a headend: to be looked at again by the worker, in order.
    pub(crate) stepped: ArrayVec<(Packet, Ingress), BURST_LEN>,
}

impl Batch {
    /// An empty one for packets of a pool's region.
    pub(crate) fn new(pool: &FramePool) -> Batch {
        Batch {
            source: Source::default(),
            now: Now { wall_s: 0, ns: 0 },
            private: None,
            has_unsent: false,
            epoch: 0,
            steered: 0,
            catch_up: 0,
            done: Done::default(),
            packets: pool.parcel(),
            ended: ArrayVec::new(),
            left: ArrayVec::new(),
            payloads: ArrayVec::new(),
            stepped: ArrayVec::new(),
        }
    }

    /// Prefetches all that most bursts need of it, to be written.
    #[inline]
    pub(crate) fn prefetch(&self) {
        mem::prefetch_pointer_to_write(&raw const self.source);
        self.packets.prefetch();
    }

    /// Sends a packet by a port, when it is the burst's turn to be sent.
    ///
    /// In parts, which are handed over in registers: a packet would be written to memory first, also
    /// where there is no burst.
    #[inline(never)]
    pub(crate) fn send(&mut self, slot: usize, frame: Frame, span: Span) {
        let packet = Packet { frame, span };
        // A plan's slot fits a parcel's tag. There is room for as many as came, all of one region.
        if let Err(packet) = self.packets.push(packet, slot as u8) {
            self.end(packet, DropReason::NoFrames.into());
        }
    }

    /// Leaves a packet to the worker.
    pub(crate) fn leave(&mut self, left: Left) {
        self.has_unsent = true;
        // As many as came.
        let _ = self.left.try_push(left);
    }

    /// Leaves a payload of IP-TFS to the worker.
    pub(crate) fn keep_payload(&mut self, payload: Payload) {
        self.has_unsent = true;
        // As many as came.
        let _ = self.payloads.try_push(payload);
    }

    /// Leaves a packet that has got segments to the worker.
    pub(crate) fn step(&mut self, packet: Packet, ingress: Ingress) {
        self.has_unsent = true;
        // As many as came.
        let _ = self.stepped.try_push((packet, ingress));
    }

    /// Ends a packet.
    #[cold]
    pub(crate) fn end(&mut self, packet: Packet, outcome: Outcome) {
        self.has_unsent = true;
        // As many as came.
        let _ = self.ended.try_push((packet, outcome));
    }
}
