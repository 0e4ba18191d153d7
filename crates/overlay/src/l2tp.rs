//! Data messages of L2TPv3 over IP and UDP (RFC 3931 §4.1), with Ethernet inside (RFC 4719).
//!
//! ```text
//!   over IP   | session (4) | cookie (0, 4 or 8) | sublayer (0 or 4) | Ethernet ...
//!   over UDP  | flags, version 3 (2) | reserved (2) | session (4) | cookie | sublayer | Ethernet ...
//! ```

/// The protocol number of L2TPv3 over IP.
pub const PROTOCOL: u8 = 115;

/// In front of a data message over UDP: type 0, version 3.
pub(crate) const UDP_START: [u8; 4] = [0, 3, 0, 0];

/// A number that both ends know, against what is blindly sent to a session (RFC 3931 §4.1.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cookie {
    bytes: [u8; 8],
    len: u8,
}

impl Cookie {
    /// Cookie of 0, 4 or 8 bytes. `None` for other lengths.
    pub fn new(cookie: &[u8]) -> Option<Cookie> {
        let mut bytes = [0; 8];
        let len = match cookie.len() {
            len @ (0 | 4 | 8) => len,
            _ => return None,
        };
        bytes.get_mut(..len)?.copy_from_slice(cookie);
        Some(Cookie { bytes, len: len as u8 })
    }

    /// The bytes as they are sent.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }
}

/// A session, by what its messages have in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// Number of the session at its receiver, not 0.
    pub id: u32,
    /// The cookie that its receiver wants.
    pub cookie: Cookie,
    /// True if the default sublayer of 4 bytes follows (RFC 3931 §4.6), without sequence numbers.
    pub has_sublayer: bool,
}

impl Session {
    /// Appends what stands in front of a message's frame.
    pub(crate) fn append(&self, is_in_udp: bool, to: &mut Vec<u8>) {
        if is_in_udp {
            to.extend(UDP_START);
        }
        to.extend(self.id.to_be_bytes());
        to.extend(self.cookie.as_slice());
        if self.has_sublayer {
            to.extend([0; 4]);
        }
    }

    /// Length of what follows the session's number, in bytes, where a message has this session's cookie and no
    /// sequence number.
    pub fn rest_len(&self, behind: &[u8]) -> Option<usize> {
        let rest = behind.strip_prefix(self.cookie.as_slice())?;
        if !self.has_sublayer {
            return Some(self.cookie.as_slice().len());
        }
        // The bit S and a number.
        (*rest.first_chunk::<4>()? == [0; 4]).then_some(self.cookie.as_slice().len() + 4)
    }
}

/// The number of the session of a data message over IP or UDP, and its place. `None` for control messages.
pub(crate) fn read(bytes: &[u8], is_in_udp: bool) -> Option<(u32, usize)> {
    let (rest, at) = match is_in_udp {
        true => (bytes.strip_prefix(&UDP_START)?, UDP_START.len()),
        false => (bytes, 0),
    };
    let id = u32::from_be_bytes(*rest.first_chunk()?);
    (id != 0).then_some((id, at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_another_cookie_is_not_the_sessions() {
        let cookie = Cookie::new(&[1, 2, 3, 4, 5, 6, 7, 8]).expect("8 bytes");
        for has_sublayer in [false, true] {
            let session = Session { id: 9, cookie, has_sublayer };
            for is_in_udp in [false, true] {
                let mut bytes = Vec::new();
                session.append(is_in_udp, &mut bytes);
                let (id, at) = read(&bytes, is_in_udp).expect("data");
                assert_eq!(id, 9);
                assert_eq!(session.rest_len(&bytes[at..]).map(|len| at + len), Some(bytes.len()));
                bytes[at] ^= 1;
                assert_eq!(session.rest_len(&bytes[at..]), None);
            }
        }
        assert_eq!(Cookie::new(&[1, 2, 3]), None);
    }

    #[test]
    fn control_and_version_2_are_left_to_others() {
        assert_eq!(read(&[0, 0, 0, 0, 1, 1], false), None, "session 0 is control");
        assert_eq!(read(&[0xc8, 3, 0, 0, 0, 0, 0, 1], true), None, "a control message");
        assert_eq!(read(&[0, 2, 0, 0, 0, 0, 0, 1], true), None, "L2TPv2");
    }
}
