//! One direction of a TCP connection, as far as it tells the application.

use crate::dns::Message;
use crate::http::{Request, request};
use crate::name::Name;
use crate::pieces::{MOST_BYTES, Pieces};
use crate::tls::{ClientHello, Hello, Records, client_hello, records};

/// Bytes of one direction, from the first segment with payload on.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Sequence number of the first byte.
    first: Option<u32>,
    pieces: Pieces,
}

/// Finding from the beginning of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A client's hello.
    Tls(ClientHello),
    /// A request, with its host if it names one.
    Http(Option<Name>),
    /// DNS over TCP.
    Dns(Message),
    /// More bytes have to come.
    Nothing,
    /// It is nothing that is known.
    Other,
}

impl Stream {
    /// Adds a segment.
    pub(crate) fn segment(&mut self, sequence: u32, payload: &[u8]) {
        let first = *self.first.get_or_insert(sequence);
        // Sequence numbers wrap (RFC 9293 §3.4). What does not fit is left out, and the stream tells what it can without it.
        let offset = sequence.wrapping_sub(first).cast_signed();
        if offset < 0 {
            // A segment from before the first that was seen: that one was out of order.
            let by = offset.unsigned_abs() as usize;
            if by < MOST_BYTES && self.pieces.begin_earlier(by).is_ok() {
                self.first = Some(sequence);
                let _ = self.pieces.insert(0, payload);
            }
            return;
        }
        let _ = self.pieces.insert(offset as usize, payload);
    }

    /// Finding from the stream so far.
    pub(crate) fn tells(&self, is_dns: bool) -> Told {
        let bytes = self.pieces.prefix();
        if bytes.is_empty() {
            return Told::Nothing;
        }
        if is_dns {
            return match bytes.split_first_chunk::<2>() {
                Some((len, rest)) => match rest.get(..u16::from_be_bytes(*len).into()) {
                    Some(message) => Message::parse(message).map_or(Told::Other, Told::Dns),
                    None => Told::Nothing,
                },
                None => Told::Nothing,
            };
        }
        if let Records::Handshake(handshake) = records(bytes) {
            return match client_hello(&handshake) {
                Hello::Whole(hello) => Told::Tls(hello),
                Hello::Begun(_) => Told::Nothing,
                Hello::No => Told::Other,
            };
        }
        match request(bytes) {
            Request::Whole(host) => Told::Http(host),
            Request::Begun => Told::Nothing,
            Request::No => Told::Other,
        }
    }

    /// A ClientHello as far as it has come.
    pub(crate) fn hello_so_far(&self) -> Option<ClientHello> {
        match records(self.pieces.prefix()) {
            Records::Handshake(handshake) => match client_hello(&handshake) {
                Hello::Begun(hello) if handshake.len() > 4 => Some(hello),
                _ => None,
            },
            Records::No => None,
        }
    }

    /// Memory that it takes, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        self.pieces.footprint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_out_of_order_across_the_wrap_of_numbers() {
        let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
        for first in [0u32, u32::MAX - 10, 1 << 31] {
            let mut stream = Stream::default();
            for at in [20, 30, 0, 10] {
                let end = (at + 10).min(request.len());
                stream.segment(first.wrapping_add(at as u32), &request[at..end]);
            }
            assert_eq!(stream.tells(false), Told::Http(Name::new(b"a.example")), "{first}");
        }
    }

    #[test]
    fn a_segment_from_far_before_changes_nothing() {
        let mut stream = Stream::default();
        stream.segment(100_000, b"GET / HTTP/1.0\r\n\r\n");
        stream.segment(1, b"x");
        assert_eq!(stream.tells(false), Told::Http(None));
    }
}
