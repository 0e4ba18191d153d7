//! Framing: headers, several messages in a datagram, and the writer.
//!
//! ```text
//! +-------------+-----------+------------+-----------+-----------+---------------+------------+
//! | length  u32 | type  u16 | flags  u16 | seq   u32 | port  u32 | fixed struct  | attributes |
//! +-------------+-----------+------------+-----------+-----------+---------------+------------+
//! ```
//! All in native byte order; the length counts the header; everything is padded to 4 bytes.

use std::ops::DerefMut;

use zeroize::Zeroizing;

use crate::attribute::{HEADER_LEN, NESTED, align};
use crate::field::{Field, layout};

layout! {
    /// The header of a message (`nlmsghdr`).
    Header, 16 bytes {
        /// Length in bytes with this header.
        len: u32,
        /// Message type, see [`kind`].
        kind: u16,
        /// Flags of the message, see [`flag`].
        flags: u16,
        /// The request's number, repeated in its answers.
        seq: u32,
        /// The requester's port id.
        port_id: u32,
    }
}

/// A whole netlink message. It may carry keys, so its memory is cleared when it is dropped.
pub type Message = Zeroizing<Vec<u8>>;

/// Message types of every family.
pub mod kind {
    /// A message without content.
    pub const NOOP: u16 = 1;
    /// Acknowledgement or error.
    pub const ERROR: u16 = 2;
    /// End of a dump.
    pub const DONE: u16 = 3;
    /// Messages were lost.
    pub const OVERRUN: u16 = 4;
}

/// Flags of a message.
pub mod flag {
    /// Set in a request.
    pub const REQUEST: u16 = 1;
    /// One of several parts.
    pub const MULTI: u16 = 2;
    /// Asks for an acknowledgement.
    pub const ACK: u16 = 4;
    /// A dump met a change, and may be inconsistent.
    pub const DUMP_INTERRUPTED: u16 = 0x10;
    /// Either bit asks for a dump.
    pub const DUMP: u16 = 0x300;
    /// Replace what exists.
    pub const REPLACE: u16 = 0x100;
    /// Refuse if it exists.
    pub const EXCL: u16 = 0x200;
    /// Create it if it does not exist.
    pub const CREATE: u16 = 0x400;
    /// In an acknowledgement: the request is not repeated.
    pub const CAPPED: u16 = 0x100;
    /// In an acknowledgement: attributes follow.
    pub const ACK_TLVS: u16 = 0x200;
}

/// The messages of a datagram, as far as their lengths are sound.
#[derive(Clone, Debug)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// Looks at a datagram.
    pub const fn new(datagram: &'a [u8]) -> Self {
        Messages(datagram)
    }

    /// Bytes of messages that were not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Messages<'a> {
    /// The header, and the whole message with it.
    type Item = (Header, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let header = Header::decode(self.0).ok()?;
        let len = usize::try_from(header.len).ok().filter(|&l| l >= Header::LEN)?;
        let whole = self.0.get(..len)?;
        self.0 = self.0.get(align(len)..).unwrap_or_default();
        Some((header, whole))
    }
}

/// Writes one message: into memory of its own that is cleared, or behind what a buffer has.
#[derive(Debug)]
pub struct MessageWriter<B = Message> {
    bytes: B,
    /// Where the message begins.
    start: usize,
}

impl MessageWriter {
    /// Starts with the header.
    pub fn new(kind: u16, flags: u16, seq: u32, port_id: u32) -> Self {
        // Longer than nearly every SA with keys, so that no reallocation leaves a copy behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(CAPACITY));
        Header { len: 0, kind, flags, seq, port_id }.write(&mut bytes);
        MessageWriter { bytes, start: 0 }
    }

    /// Starts a request, whose number is given to it when it is sent.
    pub fn request(kind: u16, flags: u16) -> Self {
        Self::new(kind, flags | flag::REQUEST, 0, 0)
    }

    /// Sets flags beside those that it was begun with.
    pub(crate) fn add_flags(&mut self, flags: u16) {
        if let Some(field) = self.bytes.get_mut(6..).and_then(<[u8]>::first_chunk_mut) {
            *field = (u16::from_ne_bytes(*field) | flags).to_ne_bytes();
        }
    }

    /// The message so far, leaving an empty writer: [`MessageWriter::finish`] at the end of a
    /// chain of calls.
    pub fn take(&mut self) -> Message {
        let mut bytes = core::mem::take(&mut self.bytes);
        set_len(&mut bytes, 0);
        bytes
    }

    /// Sets the length and hands the message over.
    pub fn finish(mut self) -> Message {
        self.take()
    }
}

impl<'b> MessageWriter<&'b mut Vec<u8>> {
    /// Starts a request behind the messages that a buffer has; nothing here is secret.
    pub fn append(bytes: &'b mut Vec<u8>, kind: u16, flags: u16) -> Self {
        let start = bytes.len();
        Header { kind, flags: flags | flag::REQUEST, ..Header::default() }.write(bytes);
        MessageWriter { bytes, start }
    }

    /// Sets the length.
    pub fn end(self) {
        set_len(self.bytes, self.start);
    }
}

impl<B: DerefMut<Target = Vec<u8>>> MessageWriter<B> {
    /// Appends the fixed struct.
    pub fn fixed(&mut self, value: &impl Field) -> &mut Self {
        value.write(&mut self.bytes);
        self.pad()
    }

    /// Appends an attribute.
    ///
    /// A value that no attribute can hold (64 KiB) is left out; nothing that is written here is that
    /// long.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let Ok(len) = u16::try_from(value.len() + HEADER_LEN) else { return self };
        len.write(&mut self.bytes);
        kind.write(&mut self.bytes);
        self.bytes.extend_from_slice(value);
        self.pad()
    }

    /// Appends an attribute if there is a value for it.
    pub fn optional(&mut self, kind: u16, value: Option<impl AsRef<[u8]>>) -> &mut Self {
        match value {
            Some(value) => self.attribute(kind, value.as_ref()),
            None => self,
        }
    }

    /// Appends an attribute of a fixed layout.
    pub fn field(&mut self, kind: u16, value: &impl Field) -> &mut Self {
        self.attribute(kind, &Zeroizing::new(value.to_bytes()))
    }

    /// Appends an attribute that is text, with a final zero.
    pub fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Appends an attribute (`NLA_F_NESTED`) with what `inner` appends.
    pub fn nested(&mut self, kind: u16, inner: impl FnOnce(&mut Self)) -> &mut Self {
        let at = self.bytes.len();
        self.attribute(kind | NESTED, &[]);
        inner(self);
        match u16::try_from(self.bytes.len() - at) {
            Ok(len) => {
                if let Some(field) = self.bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                    *field = len.to_ne_bytes();
                }
            }
            // As with a single value.
            Err(_) => self.bytes.truncate(at),
        }
        self
    }

    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self.pad()
    }

    fn pad(&mut self) -> &mut Self {
        let len = self.start + align(self.bytes.len() - self.start);
        self.bytes.resize(len, 0);
        self
    }
}

/// Sets the length of a message that goes on to the end of the buffer.
fn set_len(bytes: &mut [u8], start: usize) {
    let len = u32::try_from(bytes.len() - start).unwrap_or(u32::MAX);
    if let Some(field) = bytes.get_mut(start..).and_then(<[u8]>::first_chunk_mut::<4>) {
        *field = len.to_ne_bytes();
    }
}

/// Sets the number of a finished message.
pub(crate) fn set_number(message: &mut [u8], number: u32) {
    if let Some(field) = message.get_mut(8..).and_then(<[u8]>::first_chunk_mut::<4>) {
        *field = number.to_ne_bytes();
    }
}

const CAPACITY: usize = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any types; XFRM's.
    const GET_SA: u16 = 0x12;
    const GET_POLICY: u16 = 0x15;

    fn message(kind: u16, body: &[u8]) -> Message {
        let mut w = MessageWriter::new(kind, flag::REQUEST, 7, 9);
        w.raw(body);
        w.finish()
    }

    #[test]
    fn several_messages_in_a_datagram() {
        let mut datagram = message(GET_SA, &[1, 2, 3]).to_vec();
        datagram.extend_from_slice(&message(GET_POLICY, &[]));
        let seen: Vec<_> = Messages::new(&datagram).map(|(h, w)| (h.kind, w.len())).collect();
        assert_eq!(seen, [(GET_SA, 20), (GET_POLICY, 16)]);
    }

    #[test]
    fn unsound_lengths_end_the_datagram() {
        let good = message(GET_SA, &[0; 8]);
        assert_eq!(Messages::new(&good[..good.len() - 1]).count(), 0);
        let mut lying = good.to_vec();
        lying[..4].copy_from_slice(&15u32.to_ne_bytes());
        assert_eq!(Messages::new(&lying).count(), 0);
        lying[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(Messages::new(&lying).count(), 0);
    }

    #[test]
    fn a_buffer_takes_several_messages() {
        let mut bytes = Vec::new();
        for (kind, body) in [(GET_SA, &[1u8, 2, 3][..]), (GET_POLICY, &[])] {
            let mut w = MessageWriter::append(&mut bytes, kind, flag::ACK);
            w.raw(body).nested(5, |w| {
                w.text(1, "a").optional(2, None::<&[u8]>).optional(3, Some([4u8]));
            });
            w.end();
        }
        let alone = |kind, body: &[u8]| {
            let inner = [[6, 0, 1, 0, b'a', 0, 0, 0], [5, 0, 3, 0, 4, 0, 0, 0]].concat();
            let mut w = MessageWriter::request(kind, flag::ACK);
            w.raw(body).attribute(5 | NESTED, &inner).take()
        };
        assert_eq!(bytes, [&alone(GET_SA, &[1, 2, 3])[..], &alone(GET_POLICY, &[])].concat());
        set_number(&mut bytes, 77);
        assert_eq!(Messages::new(&bytes).map(|(h, _)| h.seq).collect::<Vec<_>>(), [77, 0]);
    }

    #[test]
    fn what_no_attribute_can_hold_is_left_out() {
        let mut w = MessageWriter::request(GET_SA, 0);
        let long = vec![0; 1 << 15];
        w.nested(1, |w| {
            w.attribute(2, &long).attribute(3, &long);
        });
        w.attribute(4, &[0; 1 << 16]).attribute(5, &[]);
        assert_eq!(w.finish().len(), Header::LEN + HEADER_LEN);
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            let total: usize = Messages::new(&noise).map(|(_, w)| w.len()).sum();
            prop_assert!(total <= noise.len());
        }
    }
}
