//! Asks a running daemon.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::paths;
use crate::{NotAllowed, Request};
use config::nearest;

/// How long a daemon may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a daemon that holds its vault may take until its socket is there.
const START: Duration = Duration::from_secs(5);

/// How long a command waits for a daemon that was started just before it, and holds nothing yet.
const GRACE: Duration = Duration::from_millis(300);

/// How often is looked meanwhile.
const STEP: Duration = Duration::from_millis(10);

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No daemon listens.
    #[error("no daemon answers at {path}: {reason}\n  {hint}")]
    NotRunning {
        /// Path of the socket.
        path: String,
        /// The kernel's answer, with its likely cause.
        reason: String,
        /// A remedy, for the operator.
        hint: String,
    },
    /// Only root may ask.
    #[error("{path}: only root may ask the daemon\n  sudo culvert ...")]
    NotRoot {
        /// Path of the socket.
        path: String,
    },
    /// The daemon does not answer this question to clients that only read.
    #[error("{0}")]
    NotAllowed(String),
    /// The conversation broke.
    #[error("the daemon at {path} did not answer: {source}")]
    Broken {
        /// Path of the socket.
        path: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The answer is not what this version understands.
    #[error("the daemon's answer is not understood ({0}); client and daemon differ in version?")]
    Answer(#[from] serde_json::Error),
}

const NO_ANSWER: &str = "no answer: it is busy, or ends";

/// Asks a daemon.
#[derive(Clone, Debug)]
pub struct Client {
    name: String,
    is_reader: bool,
    /// How long it waits for a daemon that does not show that it starts.
    grace: Duration,
}

impl Client {
    /// Root, who may ask anything.
    pub fn control(name: &str) -> Client {
        Client { name: name.to_owned(), is_reader: false, grace: GRACE }
    }

    /// One who only reads, and need not be root. Where the daemon has no socket for that it is asked as by root.
    pub fn reading(name: &str) -> Client {
        Client { name: name.to_owned(), is_reader: true, grace: Duration::ZERO }
    }

    /// A connection, and the socket's path. Waits for a daemon that is starting.
    fn connect(&self) -> Result<(UnixStream, String), ClientError> {
        let begin = Instant::now();
        loop {
            let result = self.connect_once();
            let waits = match &result {
                Err(ClientError::NotRunning { .. }) if !self.is_reader => {
                    let patience = if is_starting(&self.name) { START } else { self.grace };
                    begin.elapsed() < patience
                }
                _ => false,
            };
            if !waits {
                return result;
            }
            std::thread::sleep(STEP);
        }
    }

    fn connect_once(&self) -> Result<(UnixStream, String), ClientError> {
        let mut socket = paths::control_socket(&self.name);
        if self.is_reader {
            let reading = paths::reading_socket(&self.name);
            match UnixStream::connect(&reading) {
                Ok(stream) => return Ok((stream, reading.display().to_string())),
                // Root knows where else to look; what others may not do there says nothing.
                Err(error) if error.kind() != io::ErrorKind::NotFound || !is_root() => {
                    socket = reading;
                }
                Err(_) => {}
            }
        }
        let path = socket.display().to_string();
        match UnixStream::connect(&socket) {
            Ok(stream) => Ok((stream, path)),
            Err(source) => Err(match source.kind() {
                io::ErrorKind::PermissionDenied => ClientError::NotRoot { path },
                kind => ClientError::NotRunning {
                    path,
                    hint: self.hint(kind),
                    reason: match kind {
                        io::ErrorKind::NotFound => "none runs under this name".into(),
                        io::ErrorKind::ConnectionRefused => "nobody listens there any more".into(),
                        _ => source.to_string(),
                    },
                },
            }),
        }
    }

    /// Asks, and returns where the answer comes.
    pub fn put(&self, request: &Request) -> Result<UnixStream, ClientError> {
        self.send(request).map(|(stream, _)| stream)
    }

    fn send(&self, request: &Request) -> Result<(UnixStream, String), ClientError> {
        let (mut stream, path) = self.connect()?;
        let mut talk = || {
            stream.set_read_timeout(Some(TIMEOUT.max(request.patience())))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            let mut line = serde_json::to_vec(request)?;
            line.push(b'\n');
            stream.write_all(&line)
        };
        match talk() {
            Ok(()) => Ok((stream, path)),
            // One who may not ask is told so before anything is asked.
            Err(source) if source.kind() == io::ErrorKind::BrokenPipe => Ok((stream, path)),
            Err(source) => Err(ClientError::Broken { path, source }),
        }
    }

    /// One question, one answer, as JSON text.
    pub fn ask_json(&self, request: Request) -> Result<String, ClientError> {
        let (mut stream, path) = self.send(&request)?;
        let mut talk = || {
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            // It gives up on a question that it has not got to for two seconds.
            if answer.is_empty() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, NO_ANSWER));
            }
            Ok(answer)
        };
        match talk() {
            Err(source) => Err(ClientError::Broken { path, source }),
            Ok(answer) => match serde_json::from_str(&answer) {
                Ok(NotAllowed { not_allowed }) => Err(ClientError::NotAllowed(not_allowed)),
                Err(_) => Ok(answer),
            },
        }
    }

    /// One question, one answer.
    pub fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<T, ClientError> {
        Ok(serde_json::from_str(&self.ask_json(request)?)?)
    }

    /// Remedy where no daemon answers.
    fn hint(&self, kind: io::ErrorKind) -> String {
        let name = &self.name;
        // Which others there are only root sees.
        let names = if self.is_reader { String::new() } else { others(name, &running()) };
        let start =
            format!("start one with `culvert run`, or name the instance with --name{names}");
        match kind {
            // Its socket is there still.
            io::ErrorKind::ConnectionRefused => format!(
                "it was killed, and what its guard blocks stays blocked (culvert guard show --name {name})\n  {start}"
            ),
            _ => start,
        }
    }
}

/// The instances that run, and which of them may be meant.
fn others(name: &str, running: &[String]) -> String {
    let meant = nearest(name, running.iter().map(String::as_str));
    let meant = meant.map_or_else(String::new, |near| format!("; did you mean --name {near}?"));
    match running {
        [] => " (running: none)".into(),
        names => format!(" (running: {}{meant})", names.join(", ")),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True if a daemon of this name holds its vault: it starts, runs, or ends.
pub fn is_starting(name: &str) -> bool {
    is_locked(&paths::vault_dir(name))
}

fn is_locked(directory: &Path) -> bool {
    // One who may not look knows nothing. A shared lock for this moment holds up no daemon: it tries again.
    let Ok(vault) = File::open(directory) else { return false };
    matches!(vault.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Why no daemon answers under this name within so long, or the longer time that one needs that shows that it
/// starts; nothing if one does.
pub fn silence(name: &str, grace: Duration) -> Option<ClientError> {
    Client { grace, ..Client::control(name) }.connect().err()
}

/// Asks as root, and returns where the answer comes.
pub fn put(name: &str, request: &Request) -> Result<UnixStream, ClientError> {
    Client::control(name).put(request)
}

/// One question of root's, one answer, as JSON text.
pub fn ask_json(name: &str, request: Request) -> Result<String, ClientError> {
    Client::control(name).ask_json(request)
}

/// One question of root's, one answer.
pub fn ask<T: DeserializeOwned>(name: &str, request: Request) -> Result<T, ClientError> {
    Client::control(name).ask(request)
}

/// True if a daemon accepts connections under this name.
pub fn is_running(name: &str) -> bool {
    UnixStream::connect(paths::control_socket(name)).is_ok()
}

/// The instances that answer.
pub fn running() -> Vec<String> {
    let mut names: Vec<String> = instances().filter(|name| is_running(name)).collect();
    names.sort();
    names
}

/// The instance whose daemon has this process id.
pub fn instance_of(pid: i32) -> Option<String> {
    let is_its = |name: &String| {
        let socket = UnixStream::connect(paths::control_socket(name));
        // Of a socket that listens they are those of who made it.
        let peer = socket.and_then(|socket| Ok(socket_peercred(&socket)?));
        peer.is_ok_and(|peer| peer.pid.as_raw_nonzero().get() == pid)
    };
    instances().find(is_its)
}

/// The instances that have a directory.
fn instances() -> impl Iterator<Item = String> {
    let all = std::fs::read_dir(paths::RUNTIME).into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().into_string().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vault_tells_of_a_daemon_that_starts() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(!is_locked(&directory.path().join("missing")));
        assert!(!is_locked(directory.path()));
        let daemon = File::open(directory.path()).expect("its lock");
        daemon.try_lock().expect("free");
        assert!(is_locked(directory.path()));
        drop(daemon);
        assert!(!is_locked(directory.path()));
    }

    #[test]
    fn an_instance_whose_name_is_near_may_be_meant() {
        let running = ["gwa".to_owned(), "branch-7".to_owned()];
        assert_eq!(others("gwb", &running), " (running: gwa, branch-7; did you mean --name gwa?)");
        assert_eq!(others("head-office", &running), " (running: gwa, branch-7)");
        assert_eq!(others("gwa", &[]), " (running: none)");
    }

    #[test]
    fn who_asks_a_daemon_that_does_not_run_is_told_in_words() {
        let error = silence("no-such-instance", Duration::ZERO).expect("none runs").to_string();
        assert!(error.contains("no daemon answers at") && !error.contains("os error"), "{error}");
        assert!(error.contains("`culvert run`"), "{error}");
    }
}
