//! A kernel in memory, for tests of those who talk to one.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex, PoisonError};

/// The far end of a socket for requests. It answers within the call that sends, as the kernel does.
pub trait InMemory: Send {
    /// Takes a datagram of requests, and returns the datagrams of its answer.
    ///
    /// # Errors
    /// Returned to the sender, as the system's.
    fn requested(&mut self, datagram: &[u8]) -> io::Result<Vec<Vec<u8>>>;
}

/// Datagrams that wait for a socket; `None` where some were lost. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<Mutex<VecDeque<Option<Vec<u8>>>>>);

impl Inbox {
    /// A datagram from the kernel.
    pub fn put(&self, datagram: Vec<u8>) {
        self.lock().push_back(Some(datagram));
    }

    /// The socket had no room: datagrams were lost.
    pub fn lose(&self) {
        self.lock().push_back(None);
    }

    /// The socket had no room: what waits, and more, was lost.
    pub fn lose_all(&self) {
        let mut waiting = self.lock();
        waiting.clear();
        waiting.push_back(None);
    }

    /// The next one, if there is any.
    pub(crate) fn take(&self) -> Option<Option<Vec<u8>>> {
        self.lock().pop_front()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Option<Vec<u8>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The near end.
pub(crate) struct Line {
    pub(crate) inbox: Inbox,
    far: Mutex<Box<dyn InMemory>>,
    /// Never readable: who has a line to a kernel in memory does not wait for it.
    fd: OwnedFd,
}

impl Line {
    pub(crate) fn new(inbox: Inbox, far: Box<dyn InMemory>) -> io::Result<Line> {
        Ok(Line { inbox, far: Mutex::new(far), fd: UnixDatagram::unbound()?.into() })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn send(&self, datagram: &[u8]) -> io::Result<()> {
        let answer = self.far.lock().unwrap_or_else(PoisonError::into_inner).requested(datagram)?;
        answer.into_iter().for_each(|datagram| self.inbox.put(datagram));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Answer;
    use crate::message::{Header, MessageWriter, Messages, kind};
    use crate::{Connection, Fault, Heard, Listener};

    /// Acknowledges whatever is not of this type, which it refuses with `ENOENT`.
    struct Refuses(u16);

    impl InMemory for Refuses {
        fn requested(&mut self, datagram: &[u8]) -> io::Result<Vec<Vec<u8>>> {
            let answer = |(header, _): (Header, &[u8])| {
                let errno = if header.kind == self.0 { -libc::ENOENT } else { 0 };
                MessageWriter::new(kind::ERROR, 0, header.seq, 0).fixed(&errno).take().to_vec()
            };
            Ok(Messages::new(datagram).map(answer).collect())
        }
    }

    #[test]
    fn requests_are_answered_and_news_are_heard() {
        let mut connection = Connection::in_memory(Box::new(Refuses(17))).unwrap();
        connection.command(MessageWriter::request(16, 0)).unwrap();
        let refused = connection.command(MessageWriter::request(17, 0));
        assert!(matches!(refused, Err(Fault::Refused { errno: libc::ENOENT, .. })), "{refused:?}");

        let inbox = Inbox::default();
        let mut listener = Listener::in_memory(inbox.clone(), Box::new(Refuses(17))).unwrap();
        inbox.put(MessageWriter::new(40, 0, 0, 0).take().to_vec());
        inbox.lose();
        listener.send(&MessageWriter::request(17, 0).finish()).unwrap();
        let mut heard = Vec::new();
        let note = |news: Heard<'_>| match news {
            Heard::Lost => heard.push(None),
            Heard::Message(header, body) => {
                heard.push(Some((header.kind, Answer::read(&header, body).is_err())));
            }
        };
        listener.hear(10, note).unwrap();
        assert_eq!(heard, [Some((40, false)), None, Some((kind::ERROR, true))]);
        assert!(!listener.drain().unwrap());
    }
}
