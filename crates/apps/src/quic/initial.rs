//! Initial packets (RFC 9000 §17.2.2), and the protection taken off them (RFC 9001 §5).
//!
//! ```text
//!   1 1 type 2 . . length-of-number 2 | version 4 | id <0..20> | id <0..20>
//!   | token <0..> | length | number 1..4 | payload, tag 16
//!     ^^^^^^^^^^^^^^^^^^^ variable-length integers
//! ```
//!
//! The lower four bits of the first byte and the number are masked.

use super::keys::{InitialKeys, MOST_ID_LEN};
use super::version::Version;
use crate::reader::Reader;

/// An Initial packet, as it is in a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Initial<'d> {
    pub(super) version: Version,
    /// Connection id of the receiver.
    pub(super) destination: &'d [u8],
    /// The packet from its first byte to its last.
    packet: &'d [u8],
    /// Where its number begins.
    number_at: usize,
}

/// A packet without its protection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Number of the packet.
    pub number: u64,
    /// Frames of the packet.
    pub payload: Vec<u8>,
}

/// Why a datagram has no Initial packet that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InitialError {
    /// No packet in it is an Initial packet of a version that is known.
    #[error("no Initial packet of a known version of QUIC")]
    None,
    /// One is, and its keys are others than those of its connection id.
    #[error("the Initial packet is not sealed with the keys of its connection id")]
    Keys,
}

/// Takes the protection off the Initial packets of a datagram, each with the keys of its own connection id.
///
/// # Errors
/// None of them can be read.
pub fn open_initials(datagram: &[u8]) -> Result<Vec<Opened>, InitialError> {
    let (mut opened, mut error) = (Vec::new(), InitialError::None);
    for packet in split(datagram) {
        let keys = InitialKeys::of(packet.version, packet.destination);
        match keys.and_then(|keys| packet.open(&keys)) {
            Some(packet) => opened.push(packet),
            None => error = InitialError::Keys,
        }
    }
    if opened.is_empty() { Err(error) } else { Ok(opened) }
}

/// The Initial packets of a datagram, in which there may be several packets (RFC 9000 §12.2).
pub(super) fn split(datagram: &[u8]) -> impl Iterator<Item = Initial<'_>> {
    let mut rest = datagram;
    let packets = core::iter::from_fn(move || {
        let (initial, after) = long_packet(rest)?;
        rest = after;
        Some(initial)
    });
    packets.flatten()
}

/// Packet at the beginning of these bytes, if it is an Initial packet, and the bytes behind it. `None`: nothing there has a
/// length that is known.
fn long_packet(bytes: &[u8]) -> Option<(Option<Initial<'_>>, &[u8])> {
    /// Long header, and the bit that is always set (RFC 9000 §17.2).
    const LONG: u8 = 0xc0;
    /// Types of version 1 with a length. A Retry, which is 3, has none.
    const RETRY: u8 = 3;
    let mut reader = Reader::new(bytes);
    let first = reader.u8()?;
    let version = Version::new(reader.u32()?)?;
    if first & LONG != LONG {
        return None;
    }
    let destination = reader.vec8()?;
    let source = reader.vec8()?;
    if destination.len().max(source.len()) > MOST_ID_LEN {
        return None;
    }
    // As version 1 has them: those of version 2 are one more.
    let kind = (first >> 4 & 3).wrapping_sub(version.initial()) & 3;
    if kind == RETRY {
        return None;
    }
    if kind == 0 {
        let token_len = usize::try_from(reader.varint()?).ok()?;
        reader.take(token_len)?;
    }
    let len = usize::try_from(reader.varint()?).ok()?;
    let number_at = bytes.len() - reader.rest().len();
    reader.take(len)?;
    let packet = bytes.get(..number_at + len)?;
    let initial = (kind == 0).then_some(Initial { version, destination, packet, number_at });
    Some((initial, reader.rest()))
}

impl Initial<'_> {
    /// Takes the protection off. `None` if the keys are others.
    pub(super) fn open(&self, keys: &InitialKeys) -> Option<Opened> {
        if keys.version() != self.version {
            return None;
        }
        // The sample is where it would be behind the longest number (RFC 9001 §5.4.2).
        let sample = self.packet.get(self.number_at + 4..)?.first_chunk::<16>()?;
        let [of_first, of_number @ ..] = keys.mask(sample)?;
        let first = self.packet.first()? ^ of_first & 0x0f;
        let number_len = usize::from(first & 3) + 1;
        let (header, sealed) = self.packet.split_at_checked(self.number_at + number_len)?;
        let mut header = header.to_vec();
        *header.first_mut()? = first;
        let mut number = 0;
        for (byte, mask) in header.iter_mut().skip(self.number_at).zip(of_number) {
            *byte ^= mask;
            number = number << 8 | u64::from(*byte);
        }
        // Initial packets are few, so their numbers are never cut (RFC 9000 appendix A.3).
        let payload = keys.open(number, &header, sealed)?;
        Some(Opened { number, payload })
    }
}
