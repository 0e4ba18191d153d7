//! `culvert capture`: what the daemon records, to files or a pipe.

use std::error::Error;
use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use control::pcapng::{self, Block};
use report::client::put;
use report::{CaptureRequest, Refused, Request};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::keys::Keys;
use super::output::{Output, Rotation};
use crate::cli::CaptureArgs;

/// How often it is looked whether the capture should end.
const LOOK: Duration = Duration::from_millis(100);

/// How often it is looked for new SAs, whose keys are wanted.
const FOLLOW: Duration = Duration::from_secs(1);

/// How long nothing may match before that is said.
const SILENCE: Duration = Duration::from_secs(5);

/// Bytes of one read.
const READ_LEN: usize = 1 << 16;

/// Receiver of the progress report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// A person, on standard error.
    Person,
    /// Wireshark, which takes what is said there for an error.
    Wireshark,
}

/// Captures until interrupted, or until there is as much as was asked for.
pub fn capture(name: &str, args: &CaptureArgs, teller: Teller) -> Result<(), Box<dyn Error>> {
    let request = CaptureRequest {
        filter: args.filter.filter(),
        snap_len: args.snaplen,
        count: args.count,
        seconds: args.duration,
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut keys = args.show_keys.as_ref().map(|path| Keys::begin(name, path)).transpose()?;
    let stream = put(name, &Request::Capture(request))?;
    let mut relay = Relay::new(stream, stop)?;
    let files = args.files.map(|files| files as usize);
    let rotation = args.rotate_size.map(|size| Rotation { size, files });
    let output = Output::new(&args.write, rotation);
    if teller == Teller::Person {
        relay.silent_until = Some(Instant::now() + SILENCE);
    }
    let mut follow = || keys.as_mut().map_or(Ok(()), Keys::follow);
    match relay.run(output, &mut follow) {
        // Nobody reads any more: Wireshark is closed.
        Err(Failed::Write { source, .. }) if source.kind() == ErrorKind::BrokenPipe => {}
        ended => ended?,
    }
    // What was lost is in the file's interface statistics too, where Wireshark shows it.
    if teller == Teller::Person {
        eprintln!("culvert: {}", relay.summary());
    }
    Ok(())
}

/// Passes blocks on from the daemon.
pub struct Relay {
    stream: UnixStream,
    stop: Arc<AtomicBool>,
    /// Received bytes that are no whole block yet.
    rest: Vec<u8>,
    packets: u64,
    lost: u64,
    /// When it is said that nothing matches, if nothing has by then.
    silent_until: Option<Instant>,
    /// Why the daemon has ended it, if it has.
    comment: Option<String>,
}

/// Why a capture failed.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The daemon does not capture.
    #[error("{0}")]
    Refused(String),
    /// The daemon went away, or says what is no capture.
    #[error("the daemon's answer broke off: {0}")]
    Read(io::Error),
    /// The file cannot be written.
    #[error("writing the capture to {path}: {source}", path = path.display())]
    Write {
        /// Where the capture was to go.
        path: PathBuf,
        /// The file system's answer.
        source: io::Error,
    },
    /// The keys cannot be had, or not be written.
    #[error("the keys: {0}")]
    Keys(Box<dyn Error>),
}

impl Relay {
    /// Of an answer that begins.
    pub fn new(stream: UnixStream, stop: Arc<AtomicBool>) -> io::Result<Relay> {
        stream.set_read_timeout(Some(LOOK))?;
        let (rest, silent_until) = (Vec::new(), None);
        Ok(Relay { stream, stop, rest, packets: 0, lost: 0, silent_until, comment: None })
    }

    /// Passes on until the daemon has nothing more; tells it to end when that is wanted.
    ///
    /// `follow` is called every second, and at the end.
    pub fn run(
        &mut self,
        mut output: Output,
        follow: &mut dyn FnMut() -> Result<(), Box<dyn Error>>,
    ) -> Result<(), Failed> {
        let mut followed = Instant::now();
        let mut is_ending = false;
        let mut piece = vec![0; READ_LEN];
        let mut is_begun = false;
        loop {
            if !is_ending && self.stop.load(Relaxed) {
                is_ending = true;
                // One that is gone has ended.
                let _ = self.stream.shutdown(Shutdown::Write);
            }
            if followed.elapsed() > FOLLOW {
                follow().map_err(Failed::Keys)?;
                followed = Instant::now();
            }
            self.tell_silence(is_begun);
            let len = match self.stream.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => len,
                Err(e) if is_pause(e.kind()) => continue,
                Err(error) => return Err(Failed::Read(error)),
            };
            self.rest.extend_from_slice(piece.get(..len).unwrap_or_default());
            // The first block begins with a line feed.
            is_begun |= self.rest.first() == Some(&b'\n');
            if is_begun {
                self.pass_on(&mut output)?;
            }
        }
        if !is_begun {
            let refused = serde_json::from_slice::<Refused>(&self.rest);
            return Err(match refused {
                Ok(Refused { error }) => Failed::Refused(error),
                Err(_) => Failed::Read(ErrorKind::UnexpectedEof.into()),
            });
        }
        follow().map_err(Failed::Keys)?;
        let path = output.current().to_owned();
        output.end().map_err(|source| Failed::Write { path, source })
    }

    /// Says once that nothing has matched, when that has lasted for a while.
    fn tell_silence(&mut self, is_begun: bool) {
        if self.packets > 0 {
            self.silent_until = None;
        }
        if is_begun && self.silent_until.take_if(|until| *until <= Instant::now()).is_some() {
            eprintln!(
                "culvert: no packet has matched for {} s; it goes on, Ctrl-C ends it. `culvert flows` shows what there is, \
                 `culvert stats` whether anything comes",
                SILENCE.as_secs()
            );
        }
    }

    /// Writes the whole blocks.
    fn pass_on(&mut self, output: &mut Output) -> Result<(), Failed> {
        let mut at = 0;
        while let Some(rest) = self.rest.get(at..)
            && let Some(len) =
                pcapng::block_len(rest).map_err(|error| Failed::Read(io::Error::other(error)))?
            && let Some(block) = rest.get(..len)
        {
            at += len;
            match pcapng::kind(block) {
                Block::Head => output.add_head(block),
                Block::Packet => {
                    self.packets += 1;
                    output.add_packet(block)
                }
                Block::Statistics { lost, comment } => {
                    self.lost += lost;
                    self.comment = comment.map(str::to_owned).or(self.comment.take());
                    output.add(block)
                }
                Block::Other => output.add(block),
            }
            .map_err(|source| Failed::Write { path: output.current().to_owned(), source })?;
        }
        self.rest.drain(..at);
        output.flush().map_err(|source| Failed::Write { path: output.current().to_owned(), source })
    }

    /// Summary of the capture, in words.
    pub fn summary(&self) -> String {
        let Relay { packets, lost, comment, .. } = self;
        let why = comment.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        format!("{packets} packets captured, {lost} lost{why}")
    }
}

/// True if a read ended only because nothing has come yet.
fn is_pause(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
