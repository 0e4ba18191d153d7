//! A packet: a frame, and where in it the packet lies; and a burst of them.

use arrayvec::ArrayVec;
use mem::Cache;
use wire::Span;

use super::frame::Frame;

/// The most packets in a burst.
pub const BURST_LEN: usize = 64;

/// The packets that are worked on together. On the stack; never allocates.
pub type Burst = ArrayVec<Packet, BURST_LEN>;

/// A packet in its frame, with room before and after it.
///
/// On an Ethernet port the span covers the Ethernet frame (without the FCS), on the TUN the IP
/// packet.
#[derive(Debug)]
pub struct Packet {
    /// The chunk that it lies in.
    pub frame: Frame,
    /// Where it lies.
    pub span: Span,
}

impl Packet {
    /// The packet's bytes; empty if the span does not lie inside the frame.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.frame.bytes().get(self.span.range()).unwrap_or(&[])
    }

    /// The packet's bytes, to write; empty if the span does not lie inside the frame.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let range = self.span.range();
        self.frame.bytes_mut().get_mut(range).unwrap_or(&mut [])
    }

    /// The whole frame, which the span's offsets refer to.
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        self.frame.bytes_mut()
    }

    /// Asks for the cache line that is `offset` bytes into the packet, to be read or written soon;
    /// reads nothing and never fails.
    #[inline]
    pub fn prefetch(&self, cache: Cache, offset: usize) {
        self.frame.prefetch(cache, self.span.start.wrapping_add(offset));
    }

    /// Asks for what lies behind the packet's headers, its first two cache lines, to be encrypted or decrypted when
    /// all of a burst has been looked at.
    #[inline]
    pub fn prefetch_content(&self) {
        let len = self.data().len();
        let mut offset = 2 * mem::LINE_LEN;
        while offset < len {
            self.prefetch(Cache::Second, offset);
            offset += mem::LINE_LEN;
        }
    }

    /// Moves the packet within its frame, if it begins too early, so that there are `front` bytes in front of it and
    /// `behind` after it. False if the frame is too small for that: the packet stays where it is.
    #[inline]
    pub fn make_room(&mut self, front: usize, behind: usize) -> bool {
        self.span.start >= front || self.move_to(front, behind)
    }

    #[cold]
    #[inline(never)]
    fn move_to(&mut self, start: usize, behind: usize) -> bool {
        let len = self.span.len;
        let end = start.checked_add(len).and_then(|end| end.checked_add(behind));
        if !self.is_valid() || end.is_none_or(|end| end > self.frame.bytes().len()) {
            return false;
        }
        let range = self.span.range();
        self.frame.bytes_mut().copy_within(range, start);
        self.span = Span { start, len };
        true
    }

    /// True if the span is not empty and lies inside the frame.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.span.len > 0
            && self
                .span
                .start
                .checked_add(self.span.len)
                .is_some_and(|end| end <= self.frame.bytes().len())
    }
}

// Half a cache line: cheap to move.
const _: () = assert!(size_of::<Packet>() == 32 && size_of::<Option<Packet>>() == 32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::umem::{ChunkSize, Umem, UmemConfig};

    #[test]
    fn a_span_outside_the_frame_reads_as_empty() {
        let config = UmemConfig { chunks: 1, chunk_size: ChunkSize::Bytes2048, populate: true };
        let (_umem, mut pool) = Umem::new(config).expect("mmap");
        let frame = pool.take().expect("frame");
        let mut packet = Packet { frame, span: Span { start: 2000, len: 48 } };
        assert_eq!(packet.data().len(), 48);
        assert!(packet.is_valid());
        for offset in [0, 47, 48, usize::MAX] {
            packet.prefetch(Cache::First, offset);
        }
        let span = packet.span;
        for span in [span, Span { start: 0, len: 2048 }, Span { start: 1, len: usize::MAX - 1 }] {
            packet.span = span;
            packet.prefetch_content();
        }
        packet.span = span;
        packet.data_mut().fill(7);
        assert_eq!(packet.buffer_mut()[1999..2001], [0, 7]);
        packet.span.len = 49;
        assert!(packet.data().is_empty() && packet.data_mut().is_empty() && !packet.is_valid());
        packet.span = Span { start: 10, len: 0 };
        assert!(!packet.is_valid());
    }
    #[test]
    fn a_packet_moves_where_it_has_too_little_in_front() {
        let config = UmemConfig { chunks: 1, chunk_size: ChunkSize::Bytes2048, populate: true };
        let (_umem, mut pool) = Umem::new(config).expect("mmap");
        let frame = pool.take().expect("frame");
        let mut packet = Packet { frame, span: Span { start: 100, len: 1400 } };
        for (place, byte) in packet.data_mut().iter_mut().enumerate() {
            *byte = place as u8;
        }
        // Over itself.
        for (front, behind, start, does) in [
            (100, 2000, 100, true),
            (300, 348, 300, true),
            (301, 348, 300, false),
            (648, 0, 648, true),
        ] {
            assert_eq!(packet.make_room(front, behind), does);
            assert_eq!(packet.span, Span { start, len: 1400 });
            assert!(packet.data().iter().enumerate().all(|(place, byte)| *byte == place as u8));
        }
        assert!(!packet.make_room(usize::MAX, 1));
        packet.span = Span { start: 1, len: usize::MAX };
        assert!(!packet.make_room(2, 0));
    }
}
