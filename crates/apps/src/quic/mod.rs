//! QUIC: Initial packets of a client decrypted, and the ClientHello in their CRYPTO frames (RFC 9000, 9001, 9369).
//!
//! The keys of Initial packets follow from the connection id that the client has made up, so all who see the packets can read
//! them. A ClientHello with post-quantum shares takes two packets and more; browsers also cut it into frames in random order.

mod frames;
mod initial;
mod keys;
mod seal;
mod version;

pub use initial::{InitialError, Opened, open_initials};
pub use keys::InitialKeys;
pub use seal::seal_initial;
pub use version::Version;

use crate::pieces::Pieces;
use crate::tls::{ClientHello, Hello, client_hello};
use frames::crypto_frames;
use initial::split;

/// The client's side of a QUIC connection, as far as its ClientHello.
#[derive(Debug, Default)]
pub struct ClientSide {
    /// Attempts of the flow's client: another one begins with a Retry, or when the flow is used again.
    attempts: Vec<Attempt>,
}

/// Packets under one set of keys.
#[derive(Debug)]
struct Attempt {
    keys: InitialKeys,
    pieces: Pieces,
}

/// Attempts of one flow at most.
const MOST_ATTEMPTS: usize = 4;

/// Result of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quic {
    /// The ClientHello is whole.
    Hello(ClientHello),
    /// It is QUIC, and more packets have to come.
    Begun,
    /// Nothing in it is an Initial packet of a client in a version that is known.
    No,
}

impl ClientSide {
    /// Takes a datagram of the client.
    pub fn datagram(&mut self, datagram: &[u8]) -> Quic {
        let mut result = Quic::No;
        for packet in split(datagram) {
            let keys = self.attempts.iter().map(|attempt| &attempt.keys);
            // With keys that were made before first: a client goes on with the connection id that the server has chosen.
            let opened = keys.enumerate().find_map(|(at, keys)| Some((at, packet.open(keys)?)));
            let (at, opened) = match opened {
                Some(opened) => opened,
                None => {
                    let Some(keys) = InitialKeys::of(packet.version, packet.destination) else {
                        continue;
                    };
                    let Some(opened) = packet.open(&keys) else { continue };
                    if self.attempts.len() >= MOST_ATTEMPTS {
                        self.attempts.remove(0);
                    }
                    self.attempts.push(Attempt { keys, pieces: Pieces::default() });
                    (self.attempts.len() - 1, opened)
                }
            };
            let Some(attempt) = self.attempts.get_mut(at) else { continue };
            for (offset, bytes) in crypto_frames(&opened.payload) {
                // With too many gaps the rest may still come in order.
                let _ = attempt.pieces.insert(offset, bytes);
            }
            match client_hello(attempt.pieces.prefix()) {
                Hello::Whole(hello) => return Quic::Hello(hello),
                Hello::Begun(_) => result = Quic::Begun,
                Hello::No => {}
            }
        }
        result
    }

    /// Content of the ClientHello as far as it has come, if any has.
    pub fn begun(&self) -> Option<ClientHello> {
        self.attempts.iter().find_map(|attempt| match client_hello(attempt.pieces.prefix()) {
            Hello::Begun(hello) if hello.host.is_some() => Some(hello),
            _ => None,
        })
    }

    /// Memory that it takes, in bytes.
    pub fn footprint(&self) -> usize {
        let pieces = self.attempts.iter().map(|attempt| attempt.pieces.footprint());
        self.attempts.capacity() * size_of::<Attempt>() + pieces.sum::<usize>()
    }
}
