//! CRYPTO frames of an Initial packet (RFC 9000 §19.6).

use crate::reader::Reader;

/// Frames that an Initial packet may have, by their types (RFC 9000 §12.4).
mod frame {
    pub(super) const PADDING: u64 = 0x00;
    pub(super) const PING: u64 = 0x01;
    pub(super) const ACK: u64 = 0x02;
    pub(super) const ACK_ECN: u64 = 0x03;
    pub(super) const CRYPTO: u64 = 0x06;
}

/// The pieces of handshake bytes in a packet, each with its offset, up to a frame that ends the connection or should not be
/// there.
pub(super) fn crypto_frames(payload: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut reader = Reader::new(payload);
    core::iter::from_fn(move || {
        loop {
            match reader.varint()? {
                frame::PADDING | frame::PING => {}
                kind @ (frame::ACK | frame::ACK_ECN) => skip_ack(&mut reader, kind)?,
                frame::CRYPTO => {
                    let offset = usize::try_from(reader.varint()?).ok()?;
                    let len = usize::try_from(reader.varint()?).ok()?;
                    return Some((offset, reader.take(len)?));
                }
                _ => return None,
            }
        }
    })
}

/// Reads over an acknowledgement (RFC 9000 §19.3).
fn skip_ack(reader: &mut Reader<'_>, kind: u64) -> Option<()> {
    let (_largest, _delay) = (reader.varint()?, reader.varint()?);
    let ranges = reader.varint()?;
    reader.varint()?;
    // Each takes two bytes at least, so the loop ends with the packet.
    for _ in 0..ranges {
        reader.varint()?;
        reader.varint()?;
    }
    if kind == frame::ACK_ECN {
        for _counter in 0..3 {
            reader.varint()?;
        }
    }
    Some(())
}
