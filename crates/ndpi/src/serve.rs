//! The child: answers questions from its standard input until nobody asks any more.

use std::io::{self, stdin};
use std::os::fd::AsFd;

use rustix::io::{Errno, read, write};
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;

use crate::confine;
use crate::library::{Flow, Library};
use crate::message::{Answer, LONGEST_QUESTION, Packet};

/// Flows that are kept at a time.
pub const MOST_FLOWS: usize = 1024;

/// Why the child ends before its time.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The queue is none, or breaks.
    #[error("standard input is no queue of culvert's, which begins this itself: {0}")]
    Queue(io::Error),
    /// The library cannot be used, as was answered.
    #[error("{0}")]
    Unable(String),
}

/// Loads the library, gives up all that it is not to have, and answers, until the other end of standard input, a SEQPACKET socket,
/// is closed.
///
/// # Errors
/// The library is not there, this process cannot be confined, or the socket is none.
pub fn serve() -> Result<(), ServeError> {
    let queue = stdin();
    let queue = queue.as_fd();
    let tell = |answer: &Answer| match write(queue, &answer.emit()) {
        // Nobody is there to hear it: so the next read says.
        Ok(_) | Err(Errno::PIPE) => Ok(()),
        Err(error) => Err(ServeError::Queue(error.into())),
    };
    match socket_type(queue) {
        Ok(SocketType::SEQPACKET) => {}
        Ok(_) => return Err(ServeError::Queue(io::ErrorKind::InvalidInput.into())),
        Err(error) => return Err(ServeError::Queue(error.into())),
    }
    confine::begin().map_err(ServeError::Queue)?;
    let loaded = Library::load().map_err(|error| error.to_string());
    let ready = loaded.and_then(|library| confine::finish().map(|()| library));
    let mut library = match ready {
        Ok(library) => library,
        Err(why) => {
            tell(&Answer::Unable(why.clone()))?;
            return Err(ServeError::Unable(why));
        }
    };
    tell(&Answer::Ready(library.version()))?;
    let mut flows: Vec<Option<(u32, Flow)>> = Vec::new();
    flows.resize_with(MOST_FLOWS, || None);
    let mut buffer = vec![0; LONGEST_QUESTION];
    loop {
        let len = match read(queue, &mut buffer) {
            Ok(0) | Err(Errno::CONNRESET) => return Ok(()),
            Ok(len) => len,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(ServeError::Queue(error.into())),
        };
        let Some(packet) = buffer.get(..len).and_then(Packet::parse) else { continue };
        let protocol = look(&mut library, &mut flows, &packet);
        tell(&Answer::Flow { question: packet.question, protocol })?;
    }
}

fn look(
    library: &mut Library,
    flows: &mut [Option<(u32, Flow)>],
    packet: &Packet<'_>,
) -> Option<u16> {
    let place = flows.get_mut(packet.flow as usize % MOST_FLOWS)?;
    if place.as_ref().is_none_or(|(number, _)| *number != packet.flow) {
        *place = library.flow().map(|flow| (packet.flow, flow));
    }
    let (_, flow) = place.as_mut()?;
    let mut protocol = library.packet(flow, packet.time_ms, packet.bytes);
    if packet.is_last && protocol.is_none() {
        protocol = library.give_up(flow);
    }
    if packet.is_last || protocol.is_some() {
        *place = None;
    }
    protocol
}
