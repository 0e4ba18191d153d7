//! TLS records (RFC 8446 §5.1): a handshake message may be cut over several, and several may be in one.

use crate::reader::Reader;

/// Result of taking the records off a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Records {
    /// The handshake bytes so far.
    Handshake(Vec<u8>),
    /// It is no TLS, or does not begin with a handshake.
    No,
}

const HANDSHAKE: u8 = 22;

/// The longest record that is allowed, in bytes: older versions may add so much to 2^14.
const MOST_LEN: u16 = (1 << 14) + 2048;

/// The handshake bytes of a stream's beginning, up to a record of another kind.
pub(crate) fn records(stream: &[u8]) -> Records {
    let mut reader = Reader::new(stream);
    let mut handshake = Vec::new();
    let mut is_first = true;
    while let Some(kind) = reader.u8() {
        if kind != HANDSHAKE {
            return if is_first { Records::No } else { Records::Handshake(handshake) };
        }
        is_first = false;
        // The version of a record says little; its first byte is the same in all of them.
        let (Some(major), rest) = (reader.u8(), reader.rest()) else { break };
        if major != 3 || rest.first().is_some_and(|minor| *minor > 4) {
            return Records::No;
        }
        reader.u8();
        let Some(len) = reader.u16() else { break };
        if len == 0 || len > MOST_LEN {
            return Records::No;
        }
        match reader.take(len.into()) {
            Some(fragment) => handshake.extend_from_slice(fragment),
            None => {
                handshake.extend_from_slice(reader.rest());
                break;
            }
        }
    }
    Records::Handshake(handshake)
}
