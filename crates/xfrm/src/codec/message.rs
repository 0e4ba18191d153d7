//! Netlink framing: headers, several messages in a datagram, acknowledgements, and the writer.
//!
//! ```text
//! +-------------+-----------+------------+-----------+-----------+---------------+------------+
//! | length  u32 | type  u16 | flags  u16 | seq   u32 | port  u32 | fixed struct  | attributes |
//! +-------------+-----------+------------+-----------+-----------+---------------+------------+
//! ```
//! All in native byte order; the length counts the header; everything is padded to 4 bytes.

use zeroize::Zeroizing;

use super::bytes::{Field, layout};

layout! {
    /// `nlmsghdr`.
    Header, 16 bytes {
        /// Length in bytes with this header.
        len: u32,
        /// Message type, see [`kind`].
        kind: u16,
        /// See [`flag`].
        flags: u16,
        /// The request's number, repeated in its answers.
        seq: u32,
        /// The requester's port id.
        port_id: u32,
    }
}

/// A whole netlink message. It may carry keys, so its memory is cleared when it is dropped.
pub type Message = Zeroizing<Vec<u8>>;

/// Message types.
pub mod kind {
    /// Nothing.
    pub const NOOP: u16 = 1;
    /// Acknowledgement or error.
    pub const ERROR: u16 = 2;
    /// End of a dump.
    pub const DONE: u16 = 3;
    /// The first type that means something to XFRM.
    pub const BASE: u16 = 0x10;
    /// Adds an SA.
    pub const NEWSA: u16 = 0x10;
    /// Deletes an SA.
    pub const DELSA: u16 = 0x11;
    /// Reads SAs.
    pub const GETSA: u16 = 0x12;
    /// Adds a policy.
    pub const NEWPOLICY: u16 = 0x13;
    /// Deletes a policy.
    pub const DELPOLICY: u16 = 0x14;
    /// Reads policies.
    pub const GETPOLICY: u16 = 0x15;
    /// Reserves an SPI.
    pub const ALLOCSPI: u16 = 0x16;
    /// A packet needs an SA.
    pub const ACQUIRE: u16 = 0x17;
    /// An SA's lifetime is over.
    pub const EXPIRE: u16 = 0x18;
    /// Adds or replaces a policy.
    pub const UPDPOLICY: u16 = 0x19;
    /// Updates an SA.
    pub const UPDSA: u16 = 0x1a;
    /// A policy's lifetime is over.
    pub const POLEXPIRE: u16 = 0x1b;
    /// Deletes all SAs.
    pub const FLUSHSA: u16 = 0x1c;
    /// Deletes all policies.
    pub const FLUSHPOLICY: u16 = 0x1d;
    /// Sets replay state and counters.
    pub const NEWAE: u16 = 0x1e;
    /// Reads replay state and counters.
    pub const GETAE: u16 = 0x1f;
    /// Mobile IPv6's report.
    pub const REPORT: u16 = 0x20;
    /// Moves SAs and policies to other addresses.
    pub const MIGRATE: u16 = 0x21;
    /// SAD information.
    pub const NEWSADINFO: u16 = 0x22;
    /// Reads SAD information.
    pub const GETSADINFO: u16 = 0x23;
    /// SPD information.
    pub const NEWSPDINFO: u16 = 0x24;
    /// Reads SPD information.
    pub const GETSPDINFO: u16 = 0x25;
    /// The peer behind NAT moved.
    pub const MAPPING: u16 = 0x26;
    /// Sets the default action.
    pub const SETDEFAULT: u16 = 0x27;
    /// Reads the default action.
    pub const GETDEFAULT: u16 = 0x28;
    /// Moves one SA to other addresses.
    pub const MIGRATE_STATE: u16 = 0x29;
    /// The last type.
    pub const MAX: u16 = MIGRATE_STATE;
}

/// Flags of a message.
pub mod flag {
    /// It is a request.
    pub const REQUEST: u16 = 1;
    /// One of several parts.
    pub const MULTI: u16 = 2;
    /// Acknowledge, please.
    pub const ACK: u16 = 4;
    /// Either bit asks for a dump.
    pub const DUMP: u16 = 0x300;
    /// Replace what exists.
    pub const REPLACE: u16 = 0x100;
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

    /// What has not been looked at yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Messages<'a> {
    /// The header, and the whole message with it.
    type Item = (Header, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let header = Header::decode(self.0).ok()?;
        let len = usize::try_from(header.len).ok().filter(|&l| l >= Header::LEN)?;
        let whole = self.0.get(..len)?;
        self.0 = self.0.get(align(len)..).unwrap_or_default();
        Some((header, whole))
    }
}

/// Writes one message.
#[derive(Debug)]
pub struct MessageWriter(Message);

impl MessageWriter {
    /// Starts with the header.
    pub fn new(kind: u16, flags: u16, seq: u32, port_id: u32) -> Self {
        // Longer than nearly every SA with keys, so that no reallocation leaves a copy behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(CAPACITY));
        Header { len: 0, kind, flags, seq, port_id }.write(&mut bytes);
        MessageWriter(bytes)
    }

    /// Appends the fixed struct.
    pub fn fixed(&mut self, value: &impl Field) -> &mut Self {
        value.write(&mut self.0);
        self.pad()
    }

    /// Appends an attribute.
    ///
    /// A value that no attribute can hold (64 KiB) is left out; nothing in this crate is that
    /// long.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let Ok(len) = u16::try_from(value.len() + ATTRIBUTE_HEADER_LEN) else { return self };
        len.write(&mut self.0);
        kind.write(&mut self.0);
        self.0.extend_from_slice(value);
        self.pad()
    }

    /// Appends an attribute of a fixed layout.
    pub fn field(&mut self, kind: u16, value: &impl Field) -> &mut Self {
        self.attribute(kind, &Zeroizing::new(value.to_bytes()))
    }

    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self.pad()
    }

    /// The message so far, leaving an empty writer: [`MessageWriter::finish`] at the end of a
    /// chain of calls.
    pub fn take(&mut self) -> Message {
        MessageWriter(core::mem::take(&mut self.0)).finish()
    }

    /// Sets the length and hands the message over.
    pub fn finish(mut self) -> Message {
        let len = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        if let Some(field) = self.0.first_chunk_mut::<4>() {
            *field = len.to_ne_bytes();
        }
        self.0
    }

    fn pad(&mut self) -> &mut Self {
        let len = align(self.0.len());
        self.0.resize(len, 0);
        self
    }
}

/// An acknowledgement, or an error: `nlmsgerr`.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgement<'a> {
    /// Port id of who gets it.
    pub port_id: u32,
    /// The request's header.
    pub request: &'a Header,
    /// The whole request.
    pub whole: &'a [u8],
    /// Positive errno, 0 for success.
    pub errno: i32,
    /// `NETLINK_CAP_ACK`: do not repeat the request.
    pub cap_ack: bool,
    /// Text for `NLMSGERR_ATTR_MSG`, given only to who set `NETLINK_EXT_ACK`.
    pub text: Option<&'a str>,
    /// Offset of the offending attribute in the request, for `NLMSGERR_ATTR_OFFS`.
    pub offset: Option<u32>,
}

impl Acknowledgement<'_> {
    /// Builds the message.
    pub fn message(&self) -> Message {
        let echo = self.errno != 0 && !self.cap_ack;
        let mut flags = if echo { 0 } else { flag::CAPPED };
        if self.text.is_some() || self.offset.is_some() {
            flags |= flag::ACK_TLVS;
        }
        let mut w = MessageWriter::new(kind::ERROR, flags, self.request.seq, self.port_id);
        w.fixed(&-self.errno);
        if echo {
            w.raw(self.whole);
        } else {
            w.fixed(self.request);
        }
        if let Some(text) = self.text {
            let mut z = text.as_bytes().to_vec();
            z.push(0);
            w.attribute(NLMSGERR_ATTR_MSG, &z);
        }
        if let Some(offset) = self.offset {
            w.field(NLMSGERR_ATTR_OFFS, &offset);
        }
        w.finish()
    }
}

/// Rounds up to netlink's alignment.
pub(super) const fn align(len: usize) -> usize {
    len.saturating_add(3) & !3
}

/// Length in bytes of an attribute's header.
pub(super) const ATTRIBUTE_HEADER_LEN: usize = 4;

const CAPACITY: usize = 1024;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSGERR_ATTR_OFFS: u16 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(kind: u16, body: &[u8]) -> Message {
        let mut w = MessageWriter::new(kind, flag::REQUEST, 7, 9);
        w.raw(body);
        w.finish()
    }

    #[test]
    fn several_messages_in_a_datagram() {
        let mut datagram = message(kind::GETSA, &[1, 2, 3]).to_vec();
        datagram.extend_from_slice(&message(kind::GETPOLICY, &[]));
        let seen: Vec<_> = Messages::new(&datagram).map(|(h, w)| (h.kind, w.len())).collect();
        assert_eq!(seen, [(kind::GETSA, 20), (kind::GETPOLICY, 16)]);
    }

    #[test]
    fn unsound_lengths_end_the_datagram() {
        let good = message(kind::GETSA, &[0; 8]);
        assert_eq!(Messages::new(&good[..good.len() - 1]).count(), 0);
        let mut lying = good.to_vec();
        lying[..4].copy_from_slice(&15u32.to_ne_bytes());
        assert_eq!(Messages::new(&lying).count(), 0);
        lying[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(Messages::new(&lying).count(), 0);
    }

    #[test]
    fn an_error_repeats_the_request_and_success_does_not() {
        let whole = message(kind::DELSA, &[5; 24]);
        let (request, _) = Messages::new(&whole).next().unwrap();
        let mut ack = Acknowledgement {
            port_id: 9,
            request: &request,
            whole: &whole,
            errno: libc::ESRCH,
            cap_ack: false,
            text: None,
            offset: None,
        };
        let m = ack.message();
        assert_eq!(m[16..20], (-libc::ESRCH).to_ne_bytes());
        assert_eq!(m[20..], whole[..]);
        ack.cap_ack = true;
        ack.text = Some("no");
        let m = ack.message();
        let h = Header::decode(&m).unwrap();
        assert_eq!(h.flags, flag::CAPPED | flag::ACK_TLVS);
        assert_eq!(m[20..36], whole[..16]);
        assert_eq!(m[36..], [7, 0, 1, 0, b'n', b'o', 0, 0]);
        (ack.errno, ack.cap_ack, ack.text) = (0, false, None);
        let h = Header::decode(&ack.message()).unwrap();
        assert_eq!((h.flags, h.len), (flag::CAPPED, 36));
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            let total: usize = Messages::new(&noise).map(|(_, w)| w.len()).sum();
            prop_assert!(total <= noise.len());
        }
    }
}
