//! Marks of packets that Linux sends to the private interface.
//!
//! A TUN device does not tell a packet's mark. The program of `steer::SendMarks`, which stands where the
//! private interface sends, puts it in front of each packet that has one:
//!
//! ```text
//! 0xf0:1  0:3  mark:4, in network byte order  0:8  IP packet
//! ```
//!
//! The first byte is that of no IP packet, whose version is 4 or 6. [`crate::tun::segment`] never sees
//! it: the reader takes it off before, and writes it in front of each segment again, in the frame's
//! headroom, where [`take`] finds it.

use crate::umem::Packet;

/// Bytes in front of a marked packet.
pub const PREFIX_LEN: usize = 16;

/// No IP version.
const MAGIC: u8 = 0xf0;

/// Splits what was read into the mark, 0 where there is none, and the IP packet.
pub(super) fn split(read: &mut [u8]) -> (u32, &mut [u8]) {
    match read {
        [MAGIC, _, _, _, a, b, c, d, _, _, _, _, _, _, _, _, packet @ ..] => {
            (u32::from_be_bytes([*a, *b, *c, *d]), packet)
        }
        _ => (0, read),
    }
}

/// Writes a mark in front of an IP packet that lies in a frame from `start` on; none if there is no
/// room. Returns where it then begins.
pub(super) fn put(buffer: &mut [u8], start: usize, mark: u32) -> Option<usize> {
    let start = start.checked_sub(PREFIX_LEN)?;
    let prefix = buffer.get_mut(start..)?.first_chunk_mut::<PREFIX_LEN>()?;
    *prefix = [0; PREFIX_LEN];
    let [magic, _, _, _, a, b, c, d, ..] = prefix;
    *magic = MAGIC;
    [*a, *b, *c, *d] = mark.to_be_bytes();
    Some(start)
}

/// Takes the mark off a packet that the private interface received; 0 if it has none.
#[inline(always)]
pub fn take(packet: &mut Packet) -> u32 {
    match packet.data().first() {
        Some(&MAGIC) => take_off(packet),
        _ => 0,
    }
}

#[cold]
fn take_off(packet: &mut Packet) -> u32 {
    let (mark, rest) = split(packet.data_mut());
    let len = rest.len();
    packet.span.start += packet.span.len - len;
    packet.span.len = len;
    mark
}

#[cfg(test)]
mod tests {
    use wire::Span;

    use super::*;
    use crate::umem::{ChunkSize, Umem, UmemConfig};

    #[test]
    fn a_mark_is_taken_off_as_it_was_put() {
        let config = UmemConfig { chunks: 1, chunk_size: ChunkSize::Bytes2048, populate: true };
        let (_umem, mut pool) = Umem::new(config).expect("mmap");
        let mut packet =
            Packet { frame: pool.take().expect("frame"), span: Span { start: 100, len: 40 } };
        packet.data_mut().fill(0x45);
        assert_eq!(take(&mut packet), 0);
        assert_eq!(packet.span, Span { start: 100, len: 40 });
        let start = put(packet.buffer_mut(), 100, 0x1234_5678).expect("room");
        packet.span = Span { start, len: 40 + PREFIX_LEN };
        assert_eq!(take(&mut packet), 0x1234_5678);
        assert_eq!(packet.span, Span { start: 100, len: 40 });
        assert_eq!(put(packet.buffer_mut(), PREFIX_LEN - 1, 1), None);
    }

    #[test]
    fn what_is_too_short_for_a_mark_is_left_as_it_is() {
        let mut bytes = [MAGIC; PREFIX_LEN - 1];
        assert_eq!(split(&mut bytes), (0, &mut [MAGIC; PREFIX_LEN - 1][..]));
        assert_eq!(split(&mut []), (0, &mut [][..]));
    }
}
