//! One burst on its way between the worker and its helpers.

use std::sync::Arc;

use arrayvec::ArrayVec;
use esp::Sa;
use io::{BURST_LEN, Frame, FramePool, Packet, Parcel};
use outcome::{DropReason, Outcome};
use policy::SaEntry;
use wire::Span;

use crate::aggfrag::Payload;
use crate::counters::Work;
use crate::flows::Ingress;
use crate::packets::ports::MAX_PORTS;
use crate::packets::{Meta, Source};
use crate::view::Now;

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
    /// Whether some are not to be sent, because they ended or were left: else nobody looks there.
    pub(crate) has_unsent: bool,
    /// The worker's tables: plans made by others do not hold.
    pub(crate) epoch: u64,
    /// Counts up when the worker has said that all threads have caught up.
    pub(crate) catch_up: u64,
    pub(crate) done: Done,
    /// As they were received; then those to be sent, in order, each with its port's slot.
    pub(crate) packets: Parcel,
    /// To be counted, and their frames given back.
    pub(crate) ended: ArrayVec<(Packet, Outcome), BURST_LEN>,
    /// To be moved on by the worker, in order.
    pub(crate) left: ArrayVec<Left, BURST_LEN>,
    /// To be taken apart by the worker, in order.
    pub(crate) payloads: ArrayVec<Payload, BURST_LEN>,
    /// Sealed, and with segments of a headend: to be looked at again by the worker, in order.
    pub(crate) stepped: ArrayVec<(Packet, Ingress), BURST_LEN>,
}

// A slot fits a parcel's tag.
const _: () = assert!(MAX_PORTS <= 1 << u8::BITS);

/// A packet for the worker.
pub(crate) struct Left {
    pub(crate) packet: Packet,
    pub(crate) meta: Meta,
    /// The SA that it was decrypted by, which may be removed meanwhile.
    pub(crate) held: Option<Arc<SaEntry<Sa>>>,
}

/// What a helper counted, to be added to the worker's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    decrypted: u64,
    encrypted: u64,
    flow_hits: u64,
    flow_misses: u64,
    forwarded_clear: u64,
    translated: u64,
    checksums_completed: u64,
    resync_tries: u64,
    resyncs: u64,
    srv6_encapsulated: u64,
}

impl Done {
    /// What the counters say.
    pub(crate) fn of(work: &Work) -> Done {
        Done {
            decrypted: work.decrypted.value(),
            encrypted: work.encrypted.value(),
            flow_hits: work.flow_hits.value(),
            flow_misses: work.flow_misses.value(),
            forwarded_clear: work.forwarded_clear.value(),
            translated: work.translated.value(),
            checksums_completed: work.checksums_completed.value(),
            resync_tries: work.resync_tries.value(),
            resyncs: work.resyncs.value(),
            srv6_encapsulated: work.srv6_encapsulated.value(),
        }
    }

    /// What was counted since they said `before`.
    pub(crate) fn since(self, before: Done) -> Done {
        Done {
            decrypted: self.decrypted - before.decrypted,
            encrypted: self.encrypted - before.encrypted,
            flow_hits: self.flow_hits - before.flow_hits,
            flow_misses: self.flow_misses - before.flow_misses,
            forwarded_clear: self.forwarded_clear - before.forwarded_clear,
            translated: self.translated - before.translated,
            checksums_completed: self.checksums_completed - before.checksums_completed,
            resync_tries: self.resync_tries - before.resync_tries,
            resyncs: self.resyncs - before.resyncs,
            srv6_encapsulated: self.srv6_encapsulated - before.srv6_encapsulated,
        }
    }

    /// Adds it to the counters.
    pub(crate) fn add_to(self, work: &Work) {
        work.decrypted.add(self.decrypted);
        work.encrypted.add(self.encrypted);
        work.flow_hits.add(self.flow_hits);
        work.flow_misses.add(self.flow_misses);
        work.forwarded_clear.add(self.forwarded_clear);
        work.translated.add(self.translated);
        work.checksums_completed.add(self.checksums_completed);
        work.resync_tries.add(self.resync_tries);
        work.resyncs.add(self.resyncs);
        work.srv6_encapsulated.add(self.srv6_encapsulated);
    }
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
        // There is room for as many as came, all of one region.
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
