//! Why a request failed.

use std::io;

/// Faults of an exchange, by the one at fault.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The kernel said no.
    #[error("{}{}", io::Error::from_raw_os_error(*.errno), explained(.text))]
    Refused {
        /// A positive errno.
        errno: i32,
        /// The kernel's own explanation, where it gave one (`NLMSGERR_ATTR_MSG`).
        text: Option<String>,
    },
    /// The kernel's answer is not one to the request, or is cut short.
    #[error("the kernel's answer is damaged")]
    Malformed,
    /// The kernel had no room for a message, or there was none here: it is lost.
    #[error("netlink messages were lost")]
    Lost,
    /// The socket failed: the environment's fault.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

impl Fault {
    /// The kernel's errno, if it refused.
    pub fn refusal(&self) -> Option<i32> {
        match self {
            Fault::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

/// For callers that know errnos only: a loss is the `ENOBUFS` that the socket gave.
impl From<Fault> for io::Error {
    fn from(fault: Fault) -> io::Error {
        match fault {
            Fault::Refused { errno, .. } => io::Error::from_raw_os_error(errno),
            Fault::Malformed => io::ErrorKind::InvalidData.into(),
            Fault::Lost => io::Error::from_raw_os_error(libc::ENOBUFS),
            Fault::Socket(error) => error,
        }
    }
}

fn explained(text: &Option<String>) -> String {
    text.as_ref().map(|text| format!(" ({text})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_the_kernels_words() {
        let refused = Fault::Refused { errno: libc::ENODEV, text: Some("no such link".into()) };
        assert_eq!(refused.to_string(), "No such device (os error 19) (no such link)");
        assert_eq!(refused.refusal(), Some(libc::ENODEV));
        assert_eq!(io::Error::from(refused).raw_os_error(), Some(libc::ENODEV));
        assert_eq!(Fault::Lost.refusal(), None);
        assert_eq!(io::Error::from(Fault::Lost).raw_os_error(), Some(libc::ENOBUFS));
        assert_eq!(io::Error::from(Fault::Malformed).kind(), io::ErrorKind::InvalidData);
    }
}
