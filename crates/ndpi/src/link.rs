//! The daemon's end of the queue: asks, and hears what is answered. No call waits.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::message::{Answer, LONGEST_ANSWER, MessageError, Packet};
use crate::questions::{Lost, Questions};

/// The queue to a child.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    questions: Questions,
    is_ready: bool,
    begun_ns: Option<u64>,
    buffer: Vec<u8>,
}

/// News of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It has the library, of this version, and takes questions.
    Ready(String),
    /// One question about a flow is answered: with the number of a protocol, if it is known.
    Flow {
        /// Number of the flow.
        flow: u32,
        /// Number of the protocol.
        protocol: Option<u16>,
    },
}

/// Why a child is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// It has said that it cannot work.
    #[error("{0}")]
    Unable(String),
    /// It has ended.
    #[error("nDPI has crashed, or was ended")]
    Ended,
    /// It gives no answer.
    #[error("nDPI gave no answer for two seconds")]
    Hung,
    /// Its messages are no answers.
    #[error("nDPI's process said {0}")]
    Nonsense(#[from] MessageError),
    /// It answers what was not asked.
    #[error("nDPI's process gave {0}")]
    Lost(#[from] Lost),
}

/// How long a child may take to load the library, in nanoseconds.
const STARTING_NS: u64 = 20_000_000_000;

impl Link {
    /// The queue at a socket of type SEQPACKET whose other end a child has.
    pub fn new(socket: OwnedFd) -> Link {
        let (questions, buffer) = (Questions::default(), Vec::new());
        Link { socket, questions, is_ready: false, begun_ns: None, buffer }
    }

    /// Asks about a packet of a flow. False if it was not asked, as too many questions wait or there is no child.
    pub fn ask(
        &mut self,
        now_ns: u64,
        flow: u32,
        is_last: bool,
        time_ms: u64,
        bytes: &[u8],
    ) -> bool {
        if !self.is_ready {
            return false;
        }
        let Some(question) = self.questions.ask(flow, now_ns) else { return false };
        let mut buffer = core::mem::take(&mut self.buffer);
        Packet { question, flow, is_last, time_ms, bytes }.emit(&mut buffer);
        let sent = send(&self.socket, &buffer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        self.buffer = buffer;
        if sent.is_err() {
            // The queue is full, or the child is gone: then the next look tells.
            self.questions.take_back();
        }
        sent.is_ok()
    }

    /// The next news, if there are any.
    ///
    /// # Errors
    /// The child is of no use any more.
    pub fn next(&mut self, now_ns: u64) -> Result<Option<Heard>, Broken> {
        let mut bytes = [0; LONGEST_ANSWER + 1];
        let len = match recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(Errno::CONNRESET) => return Err(Broken::Ended),
            Ok((len, _)) => len,
            Err(Errno::AGAIN | Errno::INTR) if self.is_late(now_ns) => return Err(Broken::Hung),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(_) => return Err(Broken::Ended),
        };
        match Answer::parse(bytes.get(..len).unwrap_or_default())? {
            Answer::Ready(version) => {
                self.is_ready = true;
                Ok(Some(Heard::Ready(version)))
            }
            Answer::Unable(why) => Err(Broken::Unable(why)),
            Answer::Flow { question, protocol } => {
                let flow = self.questions.answered(question)?;
                Ok(Some(Heard::Flow { flow, protocol }))
            }
        }
    }

    fn is_late(&mut self, now_ns: u64) -> bool {
        let begun_ns = *self.begun_ns.get_or_insert(now_ns);
        let is_starting_late = now_ns.saturating_sub(begun_ns) > STARTING_NS;
        !self.is_ready && is_starting_late || self.questions.are_ignored(now_ns)
    }

    /// True if answers are to come.
    pub fn is_waiting(&self) -> bool {
        self.questions.are_waiting()
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    const S: u64 = 1_000_000_000;

    fn pair() -> (Link, OwnedFd) {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("a pair");
        (Link::new(here), there)
    }

    fn say(child: &OwnedFd, bytes: &[u8]) {
        send(child, bytes, SendFlags::empty()).expect("room");
    }

    #[test]
    fn questions_and_answers() {
        let (mut link, child) = pair();
        assert!(!link.ask(0, 1, false, 0, b"early"), "it is not ready");
        say(&child, &Answer::Ready("4.2.0".into()).emit());
        assert_eq!(link.next(0), Ok(Some(Heard::Ready("4.2.0".into()))));
        assert!(link.ask(1, 77, true, 5, b"packet") && link.is_waiting());
        let mut bytes = [0; 64];
        let (len, _) = recv(&child, &mut bytes[..], RecvFlags::empty()).expect("a question");
        let asked = Packet::parse(&bytes[..len]).expect("a question");
        let wanted = Packet { question: 0, flow: 77, is_last: true, time_ms: 5, bytes: b"packet" };
        assert_eq!(asked, wanted);
        assert_eq!(link.next(S), Ok(None));
        say(&child, &Answer::Flow { question: 0, protocol: Some(92) }.emit());
        assert_eq!(link.next(S), Ok(Some(Heard::Flow { flow: 77, protocol: Some(92) })));
        assert!(!link.is_waiting());
        drop(child);
        assert_eq!(link.next(S), Err(Broken::Ended));
        assert!(!link.ask(S, 78, false, 0, b"late"));
    }

    #[test]
    fn a_child_that_hangs() {
        let (mut link, child) = pair();
        assert_eq!(link.next(S), Ok(None));
        assert_eq!(link.next(S + STARTING_NS), Ok(None));
        assert_eq!(link.next(2 * S + STARTING_NS), Err(Broken::Hung), "it never was ready");
        let (mut link, other) = pair();
        say(&other, &Answer::Ready("4.2.0".into()).emit());
        assert!(link.next(0).is_ok());
        let packet = [0; 1500];
        let asked = (0..10_000).filter(|n| link.ask(*n, 1, false, 0, &packet)).count();
        assert!((1..=64).contains(&asked), "{asked}");
        assert_eq!(link.next(2 * S), Ok(None));
        assert_eq!(link.next(3 * S), Err(Broken::Hung));
        drop((child, other));
    }

    #[test]
    fn a_child_that_lies() {
        for (bytes, broken) in [
            (&b"A\x05\0\0\0\x01\0"[..], "nDPI's process gave an answer to question 5"),
            (&b"A\0\0\0\0\xff\xff"[..], "nDPI's process said protocol 65535"),
            (&[b'R'; 600][..], "nDPI's process said a message of 402 bytes"),
            (&b"Ulibndpi.so.4.2: cannot open"[..], "libndpi.so.4.2: cannot open"),
        ] {
            let (mut link, child) = pair();
            say(&child, bytes);
            let said = link.next(0).expect_err("it lies").to_string();
            assert!(said.starts_with(broken), "{said}");
        }
    }
}
