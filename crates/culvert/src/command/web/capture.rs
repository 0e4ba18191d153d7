//! Packets for download, bounded in time, packets and bytes.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use std::time::Duration;

use report::client::Client as Daemon;
use report::{CaptureRequest, NotAllowed, Refused, Request};

use crate::cli::CaptureQuery;
use crate::command::http::{Client, Fault, Length, Status, Stream, write_head};

/// Bytes after which the daemon is asked to end. What workers have recorded by then still comes.
const MAX_LEN: usize = 64 << 20;

/// How long the daemon may be silent beyond the capture's time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of one read.
const PIECE_LEN: usize = 1 << 16;

/// One capture at a time.
#[derive(Default)]
pub struct Captures {
    is_running: Arc<AtomicBool>,
}

impl Captures {
    /// Begins one.
    ///
    /// # Errors
    /// When another one runs, or the daemon refuses.
    pub fn begin(&self, daemon: &Daemon, query: &CaptureQuery) -> Result<Begun, Fault> {
        let running = Running::of(&self.is_running)
            .ok_or_else(|| Fault::new(Status::TOO_MANY, "another capture runs; one at a time"))?;
        let request = CaptureRequest {
            filter: query.filter.filter(),
            snap_len: query.snaplen,
            count: Some(query.count),
            seconds: Some(query.duration),
        };
        let longest = Duration::from_secs(query.duration);
        let mut stream = daemon.put(&Request::Capture(request))?;
        let broken = |error: io::Error| {
            Fault::new(Status::NO_DAEMON, format!("the daemon did not answer: {error}"))
        };
        stream.set_read_timeout(Some(longest + PATIENCE)).map_err(broken)?;
        let mut first = [0];
        stream.read_exact(&mut first).map_err(broken)?;
        // The first block begins with a line feed; a refusal is JSON.
        if first != *b"\n" {
            let mut rest = Vec::new();
            stream.take(PIECE_LEN as u64).read_to_end(&mut rest).map_err(broken)?;
            let text = [&first[..], &rest].concat();
            if let Ok(NotAllowed { not_allowed }) = serde_json::from_slice(&text) {
                return Err(Fault::new(Status::FORBIDDEN, not_allowed));
            }
            return Err(match serde_json::from_slice(&text) {
                Ok(Refused { error }) => Fault::new(Status::REFUSED, error),
                Err(_) => broken(io::ErrorKind::InvalidData.into()),
            });
        }
        Ok(Begun { stream, first, longest, _running: running })
    }
}

/// A capture that runs.
pub struct Begun {
    stream: UnixStream,
    first: [u8; 1],
    longest: Duration,
    _running: Running,
}

impl Stream for Begun {
    fn longest(&self) -> Duration {
        self.longest + PATIENCE
    }

    /// Passes it on. A client that goes ends it.
    fn send(mut self: Box<Self>, client: &mut Client, is_head: bool) -> io::Result<()> {
        write_head(client, Status::OK, CONTENT_TYPE, Length::Chunks, DISPOSITION)?;
        if is_head {
            return Ok(());
        }
        chunk(client, &self.first)?;
        let mut piece = vec![0; PIECE_LEN];
        let mut sent = 0;
        loop {
            let len = match self.stream.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let was_less = sent < MAX_LEN;
            sent += len;
            if was_less && sent >= MAX_LEN {
                self.stream.shutdown(Shutdown::Write)?;
            }
            chunk(client, piece.get(..len).unwrap_or_default())?;
        }
        client.write_all(b"0\r\n\r\n")
    }
}

fn chunk(client: &mut Client, bytes: &[u8]) -> io::Result<()> {
    client.write_all(format!("{:x}\r\n", bytes.len()).as_bytes())?;
    client.write_all(bytes)?;
    client.write_all(b"\r\n")
}

const CONTENT_TYPE: &str = "application/x-pcapng";
const DISPOSITION: &str = "Content-Disposition: attachment; filename=\"culvert.pcapng\"\r\n";

/// The right to capture, until it is dropped.
struct Running(Arc<AtomicBool>);

impl Running {
    fn of(is_running: &Arc<AtomicBool>) -> Option<Running> {
        let was_running = is_running.swap(true, AcqRel);
        (!was_running).then(|| Running(Arc::clone(is_running)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, std::sync::atomic::Ordering::Release);
    }
}
