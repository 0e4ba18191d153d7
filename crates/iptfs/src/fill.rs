//! Packets into a payload of a given size (RFC 9347, sections 2.2.1 to 2.2.3).

use crate::header::{Congestion, Header};

/// A payload that is being filled, in a buffer that the caller has: header, what is left of a packet that began before,
/// packets, the beginning of one that goes on in the next payload, padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filling {
    /// The payload with its header, in bytes; at most 65535.
    size: u16,
    /// Bytes written, with the header.
    len: u16,
    header_len: u8,
    block_offset: u16,
}

impl Filling {
    /// An empty payload of `size` bytes, its header included, which is at least that header and one byte. `carried` is
    /// what is left, in bytes, of a packet that began in a payload before.
    pub fn new(size: usize, carried: usize) -> Filling {
        Filling::with_header_len(size, carried, Header::LEN)
    }

    /// The same with room for the header that reports congestion.
    pub fn with_congestion(size: usize, carried: usize) -> Filling {
        Filling::with_header_len(size, carried, Header::CONGESTION_LEN)
    }

    fn with_header_len(size: usize, carried: usize, header_len: usize) -> Filling {
        let size = size.clamp(header_len + 1, u16::MAX.into()) as u16;
        Filling {
            size,
            len: header_len as u16, // one of two constants
            header_len: header_len as u8,
            // Packets are shorter than that.
            block_offset: carried.min(u16::MAX.into()) as u16,
        }
    }

    /// The room that is left, in bytes.
    #[inline]
    pub const fn room(&self) -> usize {
        (self.size - self.len) as usize
    }

    /// Bytes written, with the header.
    #[inline]
    pub const fn written(&self) -> usize {
        self.len as usize
    }

    /// True if there is nothing but the header.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == self.header_len as u16
    }

    /// Writes a packet, or what is left of one, as far as there is room; returns how much that was, in bytes. `payload`
    /// is the buffer, from the header on; one that is too short takes nothing.
    #[inline]
    pub fn put(&mut self, payload: &mut [u8], packet: &[u8]) -> usize {
        let len = packet.len().min(self.room());
        let (from, start) = (packet.get(..len), usize::from(self.len));
        let Some((to, from)) = payload.get_mut(start..start + len).zip(from) else { return 0 };
        to.copy_from_slice(from);
        self.len += len as u16; // at most the room, which is less than 65536
        len
    }

    /// Writes the header, and padding if `is_padded`; returns the payload's length in bytes.
    #[inline]
    pub fn finish(self, payload: &mut [u8], is_padded: bool) -> usize {
        self.finish_with(payload, is_padded, None)
    }

    /// The same with a report of congestion, for which the payload was begun with room.
    pub fn finish_with(
        self,
        payload: &mut [u8],
        is_padded: bool,
        congestion: Option<Congestion>,
    ) -> usize {
        let congestion = congestion.filter(|_| usize::from(self.header_len) != Header::LEN);
        // There was room for it before anything was written.
        let _ = Header { block_offset: self.block_offset, congestion }.emit(payload);
        let (len, size) = (usize::from(self.len), usize::from(self.size));
        if !is_padded {
            return len;
        }
        if let Some(rest) = payload.get_mut(len..size) {
            rest.fill(0);
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_carried_over_is_in_the_header() {
        let mut buffer = [0xaa; 16];
        let mut filling = Filling::new(12, 30);
        assert_eq!((filling.room(), filling.is_empty()), (8, true));
        assert_eq!(filling.put(&mut buffer, &[7; 30]), 8);
        assert_eq!((filling.room(), filling.put(&mut buffer, &[7; 22])), (0, 0));
        assert_eq!(filling.finish(&mut buffer, true), 12);
        assert_eq!(buffer, [0, 0, 0, 30, 7, 7, 7, 7, 7, 7, 7, 7, 0xaa, 0xaa, 0xaa, 0xaa]);
    }

    #[test]
    fn padding_is_zeros_to_the_end() {
        let mut buffer = [0xaa; 12];
        let mut filling = Filling::new(10, 0);
        filling.put(&mut buffer, &[0x45]);
        assert_eq!(filling.finish(&mut buffer, false), 5);
        assert_eq!(filling.finish(&mut buffer, true), 10);
        assert_eq!(buffer, [0, 0, 0, 0, 0x45, 0, 0, 0, 0, 0, 0xaa, 0xaa]);
        assert_eq!(Filling::new(10, 0).finish(&mut buffer, true), 10);
        assert_eq!(buffer[..10], [0; 10], "all padding");
    }

    #[test]
    fn a_report_has_its_room() {
        let mut buffer = [0; 40];
        let mut filling = Filling::with_congestion(40, 0);
        assert_eq!(filling.put(&mut buffer, &[0x45; 40]), 16);
        let report = Congestion { loss_event_rate: 9, ..Congestion::default() };
        assert_eq!(filling.finish_with(&mut buffer, false, Some(report)), 40);
        let (header, rest) = Header::parse(&buffer).unwrap();
        assert_eq!((header.congestion, rest), (Some(report), &[0x45; 16][..]));
    }

    #[test]
    fn a_buffer_that_is_too_short_takes_nothing() {
        let mut filling = Filling::new(64, 0);
        assert_eq!(filling.put(&mut [0; 10], &[0x45; 20]), 0);
        assert!(filling.is_empty());
    }
}
