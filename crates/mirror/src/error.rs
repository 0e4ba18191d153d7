//! Errors of the mirror.

use std::io;
use std::path::PathBuf;

use netlink::Fault;

/// An operation on the network's state failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The netlink socket failed: the environment's fault.
    #[error("the netlink socket failed: {0}")]
    Socket(#[from] io::Error),
    /// Linux refused a request.
    #[error("Linux refused to {what}: {source}{}", detail(.explanation))]
    Refused {
        /// The request, in words.
        what: String,
        /// Linux's errno for it.
        source: io::Error,
        /// Linux's own explanation, where it gave one.
        explanation: Option<String>,
    },
    /// A setting below `/proc/sys` could not be read or written.
    #[error("{path}: {source}")]
    Setting {
        /// Path of the file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    /// Error of the request that `what` names.
    pub(crate) fn of(what: &str, fault: Fault) -> Error {
        match fault {
            Fault::Refused { errno, text } => Error::Refused {
                what: what.to_owned(),
                source: io::Error::from_raw_os_error(errno),
                explanation: text,
            },
            other => Error::Socket(other.into()),
        }
    }

    /// Linux's errno, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Socket(e) => e.raw_os_error(),
            Error::Refused { source, .. } | Error::Setting { source, .. } => source.raw_os_error(),
        }
    }
}

fn detail(explanation: &Option<String>) -> String {
    explanation.as_ref().map(|text| format!(" ({text})")).unwrap_or_default()
}
