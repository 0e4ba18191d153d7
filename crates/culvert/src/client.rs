//! Asks a running daemon.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::paths;
use crate::report::Request;

/// How long a daemon may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("no daemon answers at {path}: {source}\n  {hint}")]
    NotRunning {
        /// The socket.
        path: String,
        /// Why.
        source: std::io::Error,
        /// What to do.
        hint: String,
    },
    /// Only root may ask.
    #[error("{path}: only root may ask the daemon\n  sudo culvert ...")]
    NotRoot {
        /// The socket.
        path: String,
    },
    /// The conversation broke.
    #[error("the daemon at {path} did not answer: {source}")]
    Broken {
        /// The socket.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The answer is not what this version understands.
    #[error("the daemon's answer is not understood ({0}); client and daemon differ in version?")]
    Answer(#[from] serde_json::Error),
}

const NO_ANSWER: &str = "no answer: it is busy, or ends";

/// A connection to a daemon.
fn connect(name: &str) -> Result<UnixStream, ClientError> {
    let socket = paths::control_socket(name);
    let path = socket.display().to_string();
    UnixStream::connect(&socket).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => ClientError::NotRoot { path },
        kind => ClientError::NotRunning { path, hint: hint(name, kind), source },
    })
}

/// Why no daemon answers under this name; nothing if one does.
pub fn silence(name: &str) -> Option<ClientError> {
    connect(name).err()
}

/// Asks, and returns where the answer comes.
pub fn put(name: &str, request: &Request) -> Result<UnixStream, ClientError> {
    let socket = paths::control_socket(name);
    let path = socket.display().to_string();
    let mut stream = connect(name)?;
    let mut talk = || {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)
    };
    match talk() {
        Ok(()) => Ok(stream),
        Err(source) => Err(ClientError::Broken { path, source }),
    }
}

/// One question, one answer, as JSON text.
pub fn ask_json(name: &str, request: Request) -> Result<String, ClientError> {
    let mut stream = put(name, &request)?;
    let mut talk = || {
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        // It gives up on a question that it has not got to for two seconds.
        if answer.is_empty() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, NO_ANSWER));
        }
        Ok(answer)
    };
    let path = paths::control_socket(name).display().to_string();
    talk().map_err(|source| ClientError::Broken { path, source })
}

/// One question, one answer.
pub fn ask<T: DeserializeOwned>(name: &str, request: Request) -> Result<T, ClientError> {
    Ok(serde_json::from_str(&ask_json(name, request)?)?)
}

/// Whether a daemon accepts connections under this name.
pub fn is_running(name: &str) -> bool {
    UnixStream::connect(paths::control_socket(name)).is_ok()
}

/// The instances that answer.
pub fn running() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir("/run/culvert")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_running(name))
        .collect();
    names.sort();
    names
}

/// What to do where nobody answers.
fn hint(name: &str, kind: io::ErrorKind) -> String {
    let names = running();
    let names = if names.is_empty() { "none".into() } else { names.join(", ") };
    let start = format!(
        "start one with `culvert run`, or name the instance with --name (running: {names})"
    );
    match kind {
        // Its socket is there still.
        io::ErrorKind::ConnectionRefused => format!(
            "it was killed, and what its guard blocks stays blocked (culvert guard show --name {name})\n  {start}"
        ),
        _ => start,
    }
}
