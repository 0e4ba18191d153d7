//! Requests to the kernel, one at a time.

use std::io;
use std::ops::ControlFlow;

use zeroize::Zeroizing;

use crate::answer::Answer;
use crate::fault::Fault;
use crate::field::Field as _;
use crate::listener::Listener;
#[cfg(any(test, feature = "memory"))]
use crate::memory::{InMemory, Inbox, Line};
use crate::message::{Header, Message, MessageWriter, Messages, flag, kind, set_number};
use crate::socket::{KernelSocket, Protocol};

/// A socket for requests to one family, and the numbers that tell their answers apart.
///
/// Each method waits for the answer, which the kernel writes within the call that sends the request.
pub struct Connection {
    socket: KernelSocket,
    sequence: u32,
}

/// How consistent the parts of a dump are with one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    /// All are of one moment.
    Whole,
    /// Changes came in between, or parts were lost: something may be missing or there twice.
    Interrupted,
}

impl Connection {
    /// Opens a socket in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The kernel does not have the family, or does not let this process ask.
    pub fn open(protocol: Protocol) -> io::Result<Connection> {
        Ok(Connection { socket: KernelSocket::open(protocol)?, sequence: 0 })
    }

    /// A connection to a kernel in memory.
    ///
    /// # Errors
    /// The process has no descriptor left.
    #[cfg(any(test, feature = "memory"))]
    pub fn in_memory(kernel: Box<dyn InMemory>) -> io::Result<Connection> {
        let line = Line::new(Inbox::default(), kernel)?;
        Ok(Connection { socket: KernelSocket::in_memory(line), sequence: 0 })
    }

    /// From now on an answer that is not there yet is an error (`WouldBlock`), and not waited for.
    ///
    /// # Errors
    /// The system's.
    pub fn set_non_blocking(&self) -> io::Result<()> {
        self.socket.set_non_blocking()
    }

    /// Sends a request and waits for its acknowledgement.
    ///
    /// # Errors
    /// The kernel refused, or did not answer.
    pub fn command(&mut self, mut request: MessageWriter) -> Result<(), Fault> {
        request.add_flags(flag::ACK);
        self.exchange(request, |_, _| ControlFlow::Continue(())).map(drop)
    }

    /// Sends commands, many at a time, and returns what became of each, in order.
    pub fn commands(
        &mut self,
        requests: impl IntoIterator<Item = MessageWriter>,
    ) -> Vec<Result<(), Fault>> {
        let mut requests = requests.into_iter().peekable();
        let mut results = Vec::new();
        while requests.peek().is_some() {
            let first = self.sequence.wrapping_add(1);
            let mut datagram = Message::default();
            let mut count = 0;
            for mut request in requests.by_ref().take(COMMANDS_AT_A_TIME) {
                request.add_flags(flag::ACK);
                datagram.extend_from_slice(&self.number(request));
                count += 1;
            }
            let mut answers: Vec<_> = (0..count).map(|_| None).collect();
            let failed = self.answers(&datagram, first, &mut answers).err();
            results.extend(answers.into_iter().map(|answer| match (answer, &failed) {
                (Some(answer), _) => answer,
                (None, Some(Fault::Socket(error))) => Err(Fault::Socket(error.kind().into())),
                (None, _) => Err(Fault::Lost),
            }));
        }
        results
    }

    /// Sends requests whose numbers begin with `first`, and waits for all of their acknowledgements.
    fn answers(
        &mut self,
        datagram: &[u8],
        first: u32,
        answers: &mut [Option<Result<(), Fault>>],
    ) -> Result<(), Fault> {
        self.socket.send(datagram)?;
        while answers.iter().any(Option::is_none) {
            self.socket.receive(|datagram| {
                for (header, message) in Messages::new(datagram) {
                    let slot = answers.get_mut(header.seq.wrapping_sub(first) as usize);
                    if let Some(slot) = slot.filter(|slot| slot.is_none())
                        && header.kind == kind::ERROR
                    {
                        *slot = Some(Answer::read(&header, body(message)).map(drop));
                    }
                }
            })?;
        }
        Ok(())
    }

    /// Sends a question and waits for its answer: what follows the header, or `None` if there is
    /// only an acknowledgement.
    ///
    /// # Errors
    /// The kernel refused, or did not answer.
    pub fn ask(&mut self, request: MessageWriter) -> Result<Option<Message>, Fault> {
        let mut answer = None;
        self.exchange(request, |_, body| {
            answer = Some(Zeroizing::new(body.to_vec()));
            ControlFlow::Break(())
        })?;
        Ok(answer)
    }

    /// Asks for all of something, and hands each part to `each`: its header, and what follows it.
    ///
    /// # Errors
    /// The kernel refused, or did not answer. Some parts may have been handed over before.
    pub fn dump(
        &mut self,
        mut request: MessageWriter,
        mut each: impl FnMut(&Header, &[u8]),
    ) -> Result<Dump, Fault> {
        request.add_flags(flag::DUMP);
        self.exchange(request, |header, body| {
            each(header, body);
            ControlFlow::Continue(())
        })
    }

    /// Asks for all of something until `is_last` says that a part was enough; returns whether it
    /// did. The connection ends with it, as the kernel would go on to answer.
    ///
    /// # Errors
    /// As with [`dump`](Connection::dump).
    pub fn dump_until(
        mut self,
        mut request: MessageWriter,
        mut is_last: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool, Fault> {
        request.add_flags(flag::DUMP);
        let mut is_found = false;
        self.exchange(request, |_, body| {
            is_found = is_last(body);
            if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(is_found)
    }

    /// Goes on as a listener: the commands have subscribed it to something.
    ///
    /// # Errors
    /// The system's.
    pub fn into_listener(self) -> io::Result<Listener> {
        Listener::of(self.socket)
    }

    /// Sends a request and hands the parts of its answer to `each`, until that breaks off or the
    /// answer ends.
    fn exchange(
        &mut self,
        request: MessageWriter,
        mut each: impl FnMut(&Header, &[u8]) -> ControlFlow<()>,
    ) -> Result<Dump, Fault> {
        let request = self.number(request);
        self.socket.send(&request)?;
        let sequence = self.sequence;
        let mut dump = Dump::Whole;
        loop {
            let is_over = self.socket.receive(|datagram| {
                for (header, message) in Messages::new(datagram) {
                    if header.seq != sequence {
                        continue;
                    }
                    if header.flags & flag::DUMP_INTERRUPTED != 0 && header.kind != kind::ERROR {
                        dump = Dump::Interrupted;
                    }
                    let body = body(message);
                    match Answer::read(&header, body)? {
                        Answer::End => return Ok(true),
                        Answer::Overrun => dump = Dump::Interrupted,
                        Answer::Part if each(&header, body).is_break() => return Ok(true),
                        Answer::Part => {}
                    }
                }
                Ok::<_, Fault>(false)
            })??;
            if is_over {
                return Ok(dump);
            }
        }
    }

    /// The message with the next number.
    fn number(&mut self, request: MessageWriter) -> Message {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = request.finish();
        set_number(&mut message, self.sequence);
        message
    }
}

fn body(message: &[u8]) -> &[u8] {
    message.get(Header::LEN..).unwrap_or_default()
}

/// Commands that are sent at a time: all of their answers fit into a socket's buffer, whatever they
/// are.
const COMMANDS_AT_A_TIME: usize = 32;
