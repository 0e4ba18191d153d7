//! A conversation with charon: a connection, two lists, and an end within bounded time.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};
use vici::lists::{self, Child};
use vici::message::{MAX_PACKET_LEN, Malformed, Packet, command, registration};

/// The most children that are told: each is a series of `culvert metrics`.
pub const MOST_CHILDREN: usize = 4096;

/// The configured children, and those of them that are up.
pub type Lists = (BTreeSet<Child>, BTreeSet<Child>);

/// Asks for both lists.
///
/// # Errors
/// Why there is no answer.
pub fn ask(socket: &Path, patience: Duration) -> Result<Lists, String> {
    let mut line = Line::open(socket, Instant::now() + patience).map_err(|e| text(&e, patience))?;
    line.lists().map_err(|error| text(&error, patience))
}

fn text(error: &io::Error, patience: Duration) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer within {} s", patience.as_secs())
        }
        io::ErrorKind::UnexpectedEof => "it ended the connection".into(),
        _ => error.to_string(),
    }
}

fn said(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

/// A connection, and when its time is over.
struct Line {
    socket: Socket,
    until: Instant,
}

impl Line {
    fn open(path: &Path, until: Instant) -> io::Result<Line> {
        let line = Line { socket: Socket::new(Domain::UNIX, Type::STREAM, None)?, until };
        // That of connect(2), too: where nobody accepts, a full queue would hold it forever.
        line.socket.set_write_timeout(Some(line.left()?))?;
        line.socket.connect(&SockAddr::unix(path)?)?;
        Ok(line)
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        // No time at all would be no limit.
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }

    fn lists(&mut self) -> io::Result<Lists> {
        let (mut configured, mut up) = (BTreeSet::new(), BTreeSet::new());
        self.stream("list-conns", "list-conn", |message| {
            configured.extend(lists::configured(message).map_err(io::Error::other)?);
            match configured.len() > MOST_CHILDREN {
                true => Err(said(format!("it has more than {MOST_CHILDREN} children"))),
                false => Ok(()),
            }
        })?;
        self.stream("list-sas", "list-sa", |message| {
            let children = lists::up(message).map_err(io::Error::other)?;
            up.extend(children.into_iter().filter(|child| configured.contains(child)));
            Ok(())
        })?;
        Ok((configured, up))
    }

    /// Asks a command whose answer comes as events.
    fn stream(
        &mut self,
        name: &str,
        event: &str,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut packet = Vec::new();
        self.send(&registration(event))?;
        loop {
            match self.receive(&mut packet)? {
                Packet::Confirmed => break,
                Packet::Event(..) => {}
                _ => return Err(said(format!("it has no {event} events"))),
            }
        }
        self.send(&command(name))?;
        loop {
            match self.receive(&mut packet)? {
                Packet::Event(said, message) if said == event.as_bytes() => take(message)?,
                Packet::Event(..) => {}
                Packet::Response(_) => return Ok(()),
                _ => return Err(said(format!("it does not know {name}"))),
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write_all(bytes)
    }

    fn receive<'p>(&mut self, packet: &'p mut Vec<u8>) -> io::Result<Packet<'p>> {
        let mut len = [0; 4];
        self.fill(&mut len)?;
        let len = u32::from_be_bytes(len) as usize;
        if len > MAX_PACKET_LEN {
            return Err(said("what it says is not vici: a packet that is too long"));
        }
        packet.resize(len, 0);
        self.fill(packet)?;
        Packet::parse(packet).map_err(|error: Malformed| io::Error::other(error))
    }

    /// As `read_exact`, where each byte may be the last that comes.
    fn fill(&mut self, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            self.socket.set_read_timeout(Some(self.left()?))?;
            match self.socket.read(into) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => into = &mut into[len..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// The lists of a charon that says these bytes, and then nothing more.
    fn told(answers: &'static [u8], stays: bool) -> Result<Lists, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("charon.vici");
        let listener = UnixListener::bind(&path).unwrap();
        let charon = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            client.write_all(answers).unwrap();
            let mut asked = Vec::new();
            match stays {
                true => _ = client.read_to_end(&mut asked),
                false => _ = client.read(&mut [0; 64]),
            }
        });
        let told = ask(&path, Duration::from_secs(1));
        charon.join().unwrap();
        told
    }

    #[test]
    fn lists_come_as_events() {
        let answers = b"\0\0\0\x01\x05\
            \0\0\0\x1d\x07\x09list-conn\x01\x02hq\x01\x08children\x01\0\x02\x02\
            \0\0\0\x02\x07\0";
        // The section hq has no end.
        assert!(told(answers, true).is_err_and(|why| why.contains("without an end")));
        let answers = b"\0\0\0\x01\x05\
            \0\0\0\x1f\x07\x09list-conn\x01\x02hq\x01\x08children\x01\x01n\x02\x02\x02\
            \0\0\0\x01\x01\0\0\0\x01\x05\0\0\0\x01\x01";
        let (configured, up) = told(answers, true).unwrap();
        assert_eq!((configured, up), ([("hq".into(), "n".into())].into(), BTreeSet::new()));
    }

    #[test]
    fn who_does_not_answer_is_not_waited_for() {
        assert_eq!(told(b"", true), Err("no answer within 1 s".into()));
        assert_eq!(told(b"\0\0\0\x01", true), Err("no answer within 1 s".into()));
        assert_eq!(told(b"\0\0\0\x01\x06", true), Err("it has no list-conn events".into()));
        assert_eq!(
            told(b"\0\0\0\x01\x05\0\0\0\x01\x02", true),
            Err("it does not know list-conns".into())
        );
        assert!(told(b"\xff\xff\xff\xff", true).is_err_and(|why| why.contains("too long")));
        assert!(told(b"\0\0\0\x01\x05", false).is_err());
        let nowhere = ask(Path::new("/nonexistent/charon.vici"), Duration::from_secs(1));
        assert!(nowhere.is_err_and(|why| why.starts_with("No such file")));
    }

    #[test]
    fn a_queue_that_nobody_accepts_from_holds_nothing_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("charon.vici");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap();
        // The first of them waits to be accepted, and the others to come that far.
        for _ in 0..3 {
            let told = ask(&path, Duration::from_millis(50));
            assert_eq!(told, Err("no answer within 0 s".into()));
        }
    }
}
