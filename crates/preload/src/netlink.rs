//! Netlink message headers, and the few answers that the library makes up itself.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                  nlmsg_len (with this header)                 |
//! +-------------------------------+-------------------------------+
//! |          nlmsg_type           |          nlmsg_flags          |
//! +-------------------------------+-------------------------------+
//! |                           nlmsg_seq                           |
//! +---------------------------------------------------------------+
//! |                           nlmsg_pid                           |
//! +---------------------------------------------------------------+
//! ```
//!
//! All in native byte order; messages in a datagram start at multiples of 4.

/// The header of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Length of the message in bytes, with the header, without padding.
    pub(crate) len: u32,
    /// Type of the message: [`ERROR`], [`DONE`] or one of XFRM's.
    pub(crate) kind: u16,
    /// Flags of the message (`NLM_F_*`).
    pub(crate) flags: u16,
    /// The request's number; answers repeat it.
    pub(crate) seq: u32,
    /// The port id of whom the message is for or from.
    pub(crate) port_id: u32,
}

/// Length of a header in bytes.
pub(crate) const HEADER_LEN: usize = 16;

// Types and flags of linux/netlink.h.
pub(crate) const ERROR: u16 = 2;
pub(crate) const DONE: u16 = 3;
pub(crate) const F_MULTI: u16 = 0x2;
pub(crate) const F_ACK: u16 = 0x4;
pub(crate) const F_DUMP_INTR: u16 = 0x10;
pub(crate) const F_CAPPED: u16 = 0x100;
pub(crate) const F_DUMP: u16 = 0x300;

impl Header {
    /// The header at the front of `bytes`; `None` if they are too few.
    fn parse(bytes: &[u8]) -> Option<Header> {
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Header {
            len: word(0)?,
            kind: half(4)?,
            flags: half(6)?,
            seq: word(8)?,
            port_id: word(12)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.len.to_ne_bytes());
        out.extend(self.kind.to_ne_bytes());
        out.extend(self.flags.to_ne_bytes());
        out.extend(self.seq.to_ne_bytes());
        out.extend(self.port_id.to_ne_bytes());
    }
}

/// The headers in a datagram, as far as the lengths make sense.
pub(crate) fn headers(datagram: &[u8]) -> impl Iterator<Item = Header> + '_ {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let header = Header::parse(rest)?;
        let len = header.len as usize;
        if len < HEADER_LEN || len > rest.len() {
            rest = &[];
            return None;
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(header)
    })
}

/// The answer "`errno`" to a request.
pub(crate) fn error_answer(request: &Header, errno: i32, port_id: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * HEADER_LEN + 4);
    let len = (2 * HEADER_LEN + 4) as u32;
    Header { len, kind: ERROR, flags: F_CAPPED, seq: request.seq, port_id }.emit(&mut out);
    out.extend((-errno).to_ne_bytes());
    request.emit(&mut out);
    out
}

/// The end of a dump that could not be finished.
pub(crate) fn interrupted_dump(request: &Header, port_id: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN + 4);
    let (len, flags) = ((HEADER_LEN + 4) as u32, F_MULTI | F_DUMP_INTR);
    Header { len, kind: DONE, flags, seq: request.seq, port_id }.emit(&mut out);
    out.extend(0i32.to_ne_bytes());
    out
}

/// XFRM's message types, as far as they matter here (linux/xfrm.h).
pub(crate) mod xfrm {
    pub(crate) const NEWSA: u16 = 0x10;
    pub(crate) const DELSA: u16 = 0x11;
    pub(crate) const GETSA: u16 = 0x12;
    pub(crate) const NEWPOLICY: u16 = 0x13;
    pub(crate) const DELPOLICY: u16 = 0x14;
    pub(crate) const GETPOLICY: u16 = 0x15;
    pub(crate) const ALLOCSPI: u16 = 0x16;
    pub(crate) const ACQUIRE: u16 = 0x17;
    pub(crate) const EXPIRE: u16 = 0x18;
    pub(crate) const UPDPOLICY: u16 = 0x19;
    pub(crate) const UPDSA: u16 = 0x1a;
    pub(crate) const POLEXPIRE: u16 = 0x1b;
    pub(crate) const FLUSHSA: u16 = 0x1c;
    pub(crate) const FLUSHPOLICY: u16 = 0x1d;
    pub(crate) const NEWAE: u16 = 0x1e;
    pub(crate) const GETAE: u16 = 0x1f;
    pub(crate) const REPORT: u16 = 0x20;
    pub(crate) const MIGRATE: u16 = 0x21;
    pub(crate) const GETSADINFO: u16 = 0x23;
    pub(crate) const GETSPDINFO: u16 = 0x25;
    pub(crate) const MAPPING: u16 = 0x26;
    pub(crate) const GETDEFAULT: u16 = 0x28;
    pub(crate) const MIGRATE_STATE: u16 = 0x29;

    /// The `nl_groups` bit under which the kernel sends an event of this type, or 0.
    pub(crate) fn event_group(kind: u16) -> u32 {
        match kind {
            ACQUIRE => 1 << 0,
            EXPIRE | POLEXPIRE => 1 << 1,
            NEWSA | UPDSA | DELSA | FLUSHSA => 1 << 2,
            NEWPOLICY | UPDPOLICY | DELPOLICY | FLUSHPOLICY => 1 << 3,
            NEWAE => 1 << 4,
            REPORT => 1 << 5,
            MIGRATE | MIGRATE_STATE => 1 << 6,
            MAPPING => 1 << 7,
            _ => 0,
        }
    }
}

#[cfg(test)]
pub(crate) fn message(kind: u16, flags: u16, seq: u32, port_id: u32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let len = (HEADER_LEN + body.len()) as u32;
    Header { len, kind, flags, seq, port_id }.emit(&mut out);
    out.extend(body);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_messages_of_a_datagram_are_found() {
        let mut datagram = message(xfrm::NEWSA, F_MULTI, 7, 9, &[1, 2, 3]);
        datagram.extend(message(DONE, F_MULTI, 7, 9, &[0; 4]));
        let found: Vec<_> = headers(&datagram).map(|h| (h.kind, h.len, h.seq, h.port_id)).collect();
        assert_eq!(found, [(xfrm::NEWSA, 19, 7, 9), (DONE, 20, 7, 9)]);
        // Without the padding at the end it is the same.
        assert_eq!(headers(&message(ERROR, 0, 1, 2, &[5; 3])[..19]).count(), 1);
    }

    #[test]
    fn wrong_lengths_end_the_walk() {
        for len in [0u32, 15, 21, u32::MAX] {
            let mut datagram = message(DONE, 0, 1, 1, &[0; 4]);
            datagram[..4].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(headers(&datagram).count(), 0, "{len}");
        }
        assert_eq!(headers(&[0; 15]).count(), 0);
    }

    #[test]
    fn made_up_answers_are_netlink() {
        let request = headers(&message(xfrm::GETSA, F_DUMP | 1, 77, 0, &[])).next().unwrap();
        let error = error_answer(&request, libc::ECONNREFUSED, 4711);
        let h: Vec<_> = headers(&error).collect();
        assert_eq!((h.len(), h[0].kind, h[0].seq, h[0].port_id), (1, ERROR, 77, 4711));
        assert_eq!(error[16..20], (-libc::ECONNREFUSED).to_ne_bytes());
        assert_eq!(Header::parse(&error[20..]), Some(request));
        let done = interrupted_dump(&request, 4711);
        let h: Vec<_> = headers(&done).collect();
        assert_eq!((h[0].kind, h[0].flags), (DONE, F_MULTI | F_DUMP_INTR));
    }

    proptest! {
        #[test]
        fn noise_ends(bytes in proptest::collection::vec(0..40u8, 0..200)) {
            prop_assert!(headers(&bytes).count() <= bytes.len() / HEADER_LEN);
        }
    }
}
