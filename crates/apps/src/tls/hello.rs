//! The ClientHello (RFC 8446 §4.1.2), the same over TCP and in QUIC.
//!
//! ```text
//!   type 1 | length 3 | version 2 | random 32 | session id <0..32> | cipher suites <2..> | compression <1..>
//!   | extensions <2..>: each  type 2 | length 2 | bytes
//! ```
//!
//! DTLS is not handled: its messages have other headers.

use crate::name::Name;
use crate::reader::Reader;

/// Parts of a ClientHello that tell the application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// Host that is asked for: the server name (RFC 6066 §3). `None` if there is none, or it is no host name.
    pub host: Option<Name>,
    /// Protocols that the client offers on top (RFC 7301), the first ones, in its order.
    pub alpn: Vec<Box<[u8]>>,
    /// True if there is an encrypted ClientHello, or what looks like one (GREASE): which it is only the server can tell
    /// (RFC 9849 §6.2).
    pub has_ech: bool,
}

/// Result of reading a ClientHello from the beginning of a stream of handshake messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// It is whole.
    Whole(ClientHello),
    /// More bytes have to come. This is what those at hand say, which may not be all.
    Begun(ClientHello),
    /// The bytes are something else, or contradict themselves.
    No,
}

const CLIENT_HELLO: u8 = 1;

/// Type of a ClientHello that is the outer one (RFC 9849 §5).
const ECH_OUTER: u8 = 0;

/// Extensions, by their numbers.
mod extension {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const ALPN: u16 = 16;
    pub(super) const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
}

/// Protocols that are kept of those offered.
const MOST_ALPN: usize = 8;

/// Reads a ClientHello. Bytes after it are allowed.
pub fn client_hello(handshake: &[u8]) -> Hello {
    let mut found = ClientHello::default();
    let mut reader = Reader::new(handshake);
    let Some(kind) = reader.u8() else { return Hello::Begun(found) };
    if kind != CLIENT_HELLO {
        return Hello::No;
    }
    let Some(len) = reader.u24() else { return Hello::Begun(found) };
    let whole = reader.rest().get(..len);
    let body = whole.unwrap_or(reader.rest());
    match (read(body, &mut found), whole) {
        (Some(Read::All), Some(_)) => Hello::Whole(found),
        // It ended before its own length was used up.
        (Some(Read::All) | None, None) => Hello::Begun(found),
        (Some(Read::Wrong), _) | (None, Some(_)) => Hello::No,
    }
}

/// Result of reading a body that has a length.
enum Read {
    All,
    Wrong,
}

/// Reads a body, as far as there are bytes: `None` if they end too early.
fn read(body: &[u8], found: &mut ClientHello) -> Option<Read> {
    let mut reader = Reader::new(body);
    let version = reader.u16()?;
    // Legacy versions: 3.0 to 3.3.
    if version >> 8 != 3 {
        return Some(Read::Wrong);
    }
    reader.take(32)?;
    reader.vec8()?;
    reader.vec16()?;
    reader.vec8()?;
    if reader.is_empty() {
        // Extensions are optional before TLS 1.3.
        return Some(Read::All);
    }
    let len = usize::from(reader.u16()?);
    let (mut extensions, is_cut) = match reader.rest().get(..len) {
        Some(extensions) => (Reader::new(extensions), false),
        None => (Reader::new(reader.rest()), true),
    };
    while !extensions.is_empty() {
        let extension = extensions.u16().and_then(|kind| Some((kind, extensions.vec16()?)));
        match extension {
            Some((kind, bytes)) => {
                if !note(kind, bytes, found) {
                    return Some(Read::Wrong);
                }
            }
            None if is_cut => return None,
            None => return Some(Read::Wrong),
        }
    }
    (!is_cut).then_some(Read::All)
}

/// Notes what an extension says; false if it contradicts itself.
fn note(kind: u16, bytes: &[u8], found: &mut ClientHello) -> bool {
    match kind {
        extension::SERVER_NAME => match server_name(bytes) {
            Some(name) => found.host = found.host.take().or(name),
            None => return false,
        },
        extension::ALPN => {
            let mut list = Reader::new(bytes);
            let Some(names) = list.vec16() else { return false };
            let mut names = Reader::new(names);
            while let Some(name) = names.vec8() {
                if found.alpn.len() < MOST_ALPN {
                    found.alpn.push(name.into());
                }
            }
            return names.is_empty();
        }
        extension::ENCRYPTED_CLIENT_HELLO => {
            found.has_ech |= bytes.first() == Some(&ECH_OUTER);
        }
        _ => {}
    }
    true
}

/// The host of a list of server names; `None` if it contradicts itself, and `Some(None)` if it has no host name.
fn server_name(bytes: &[u8]) -> Option<Option<Name>> {
    /// The only type of names that there is.
    const HOST_NAME: u8 = 0;
    let mut names = Reader::new(Reader::new(bytes).vec16()?);
    let mut host = None;
    while !names.is_empty() {
        let kind = names.u8()?;
        let name = names.vec16()?;
        if kind == HOST_NAME && host.is_none() {
            host = Name::new(name);
        }
    }
    Some(host)
}
