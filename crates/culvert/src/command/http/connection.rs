//! A client's connection.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::Socket;

use super::response::{self, Fault, JSON, Length, Status};

/// A connection that ends at a time, however fast it goes until then.
pub struct Client {
    socket: Arc<Socket>,
    until: Instant,
}

impl Client {
    /// One that has so much time.
    pub fn new(socket: Arc<Socket>, time: Duration) -> Client {
        Client { socket, until: Instant::now() + time }
    }

    /// Sets the time that the client has from now on.
    pub fn allow(&mut self, time: Duration) {
        self.until = Instant::now() + time;
    }

    /// Answers, and says that this is all.
    pub fn send(
        &mut self,
        status: Status,
        content_type: &str,
        body: &str,
        is_head: bool,
    ) -> io::Result<()> {
        response::head(self, status, content_type, Length::Known(body.len()), "")?;
        if !is_head {
            self.write_all(body.as_bytes())?;
        }
        self.socket.shutdown(Shutdown::Write)
    }

    /// Says what is wrong.
    pub fn refuse(&mut self, fault: &Fault, is_head: bool) -> io::Result<()> {
        self.send(fault.status, JSON, &fault.body(), is_head)
    }

    /// Reads what still comes, until its end.
    pub fn drain(&mut self) -> io::Result<()> {
        let mut piece = [0; 4096];
        while self.read(&mut piece)? > 0 {}
        Ok(())
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Client {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        (&*self.socket).read(to)
    }
}

impl Write for Client {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        (&*self.socket).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
