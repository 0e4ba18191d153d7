//! Frames for the packets of a payload.

use esp::Sa;
use io::{Frame, FramePool, MAX_HEADROOM, Packet};
use iptfs::Sink;
use outcome::{DropReason, Outcome};
use wire::Span;

use crate::model::TAILROOM;
use crate::out::{AnyOut, Out};

/// Copies packets out of one payload, each into a frame of its own.
pub(super) struct Unpack<'u> {
    pub(super) out: &'u mut Out,
    /// Frames for packets that no ordinary one holds.
    pub(super) large: Option<&'u mut FramePool>,
    pub(super) inner: &'u mut Vec<Packet>,
    /// The packet of which pieces are missing.
    pub(super) partial: &'u mut Option<Packet>,
    pub(super) sa: &'u Sa,
    /// The outer header's traffic class.
    pub(super) class: u8,
}

impl Unpack<'_> {
    /// A frame for a packet of this length, with room for headers in front and a trailer behind.
    #[inline]
    fn frame(&mut self, len: usize) -> Option<Frame> {
        match len + MAX_HEADROOM + TAILROOM <= self.out.pool.chunk_len() {
            true => self.out.pool.take(),
            false => self.large.as_deref_mut()?.take(),
        }
    }

    /// Gives a packet its traffic class, as far as the outer one has a say in that. `old` is the one that it came with.
    #[inline]
    fn mark(&self, packet: &mut [u8], old: u8) {
        let class = self.sa.class_in_payload(old, self.class);
        if class != old {
            wire::set_traffic_class(packet, class);
        }
    }
}

impl Sink for Unpack<'_> {
    #[inline]
    fn packet(&mut self, bytes: &[u8]) {
        self.out.counters.generated.add(1);
        let Some(mut frame) = self.frame(bytes.len()) else {
            return self.out.counters.count(Outcome::Dropped(DropReason::NoFrames), 1);
        };
        self.out.pool.prefetch_next(AHEAD);
        let span = Span { start: frame.headroom(), len: bytes.len() };
        if let Some(place) = frame.bytes_mut().get_mut(span.range()) {
            place.copy_from_slice(bytes);
            self.mark(place, traffic_class(bytes));
        }
        self.inner.push(Packet { frame, span });
    }

    fn begin(&mut self, len: Option<usize>) -> bool {
        let frame = self.frame(len.unwrap_or(0));
        let begun =
            frame.map(|frame| Packet { span: Span { start: frame.headroom(), len: 0 }, frame });
        *self.partial = begun;
        let has_begun = self.partial.is_some();
        if has_begun {
            self.out.counters.generated.add(1);
            self.out.counters.count(Outcome::Held, 1);
        }
        has_begun
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        let Some(Packet { frame, span }) = self.partial else { return false };
        let end = span.end();
        if frame.bytes().len() < end + bytes.len() + TAILROOM {
            return false;
        }
        let Some(place) = frame.bytes_mut().get_mut(end..end + bytes.len()) else { return false };
        place.copy_from_slice(bytes);
        span.len += bytes.len();
        true
    }

    fn complete(&mut self) {
        if let Some(mut packet) = self.partial.take() {
            self.out.released(1);
            let old = traffic_class(packet.data());
            self.mark(packet.data_mut(), old);
            self.inner.push(packet);
        }
    }

    fn abort(&mut self) {
        if let Some(packet) = self.partial.take() {
            self.out.released(1);
            self.out.drop(packet, DropReason::InIptfsIncomplete);
        }
    }
}

/// Frames are prefetched so many packets before they are written.
const AHEAD: usize = 8;

/// The traffic class of an IP packet.
#[inline]
fn traffic_class(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 6 => first << 4 | second >> 4,
        [_, second, ..] => *second,
        _ => 0,
    }
}
