//! By which sockets a port works that says `kind = "auto"`, or no kind.
//!
//! | the first that holds | the port works by |
//! | --- | --- |
//! | the driver has zero copy | AF_XDP |
//! | the kernel owns SAs and policies | AF_XDP, with a copy of each frame |
//! | the kernel lacks what packet sockets need (before Linux 6.6) | AF_XDP, with a copy of each frame |
//! | all else | packet sockets |
//!
//! The choice is made when a port is opened, and holds until it is closed: other sockets could not take over without
//! losing packets. Where the kernel owns the SAs, its ESP may be in GRO (`INET_ESP_OFFLOAD`), which is in front of
//! packet sockets and behind XDP: packets would be the kernel's and never come.

use std::{fmt, io};

use ::io::{PacketError, XskError};
use steer::{Hook, SteerError};

/// Why a port that may be of either kind is of the one that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// A queue was bound with zero copy.
    ZeroCopy,
    /// The queue was not bound with zero copy, for this reason.
    NoZeroCopy(String),
    /// The same, and the kernel owns the SAs.
    KernelOwns(String),
    /// There is no zero copy, and this is what packet sockets lack.
    NoPacketSockets(String),
}

impl Reason {
    /// Where the port's program stands.
    pub(super) const fn hook(&self) -> Hook {
        match self {
            Reason::NoZeroCopy(_) => Hook::Packet,
            Reason::ZeroCopy | Reason::KernelOwns(_) | Reason::NoPacketSockets(_) => Hook::Xdp,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::ZeroCopy => f.write_str("the driver has zero copy"),
            Reason::NoZeroCopy(why) => f.write_str(why),
            Reason::KernelOwns(why) => {
                write!(
                    f,
                    "{why}, and the kernel owns the SAs: it could take ESP before a packet socket"
                )
            }
            Reason::NoPacketSockets(lack) => {
                write!(f, "no zero copy and no packet sockets: {lack}")
            }
        }
    }
}

/// Choice of the sockets by the port's first queue, which was bound with zero copy; with the queue
/// if it was.
///
/// # Errors
///
/// An answer that says nothing about the driver; the port is tried again then.
pub(super) fn choose<T>(
    bound: Result<T, XskError>,
    is_beside_kernel: bool,
) -> Result<(Reason, Option<T>), XskError> {
    match bound {
        Ok(queue) => Ok((Reason::ZeroCopy, Some(queue))),
        Err(error) if is_about_now(&error.source) => Err(error),
        Err(XskError { call, source, .. }) => {
            let why = match source.raw_os_error() {
                Some(libc::EOPNOTSUPP) => "the driver has no zero copy".to_owned(),
                _ => format!("no zero copy ({call}: {source})"),
            };
            let reason = match is_beside_kernel {
                true => Reason::KernelOwns(why),
                false => Reason::NoZeroCopy(why),
            };
            Ok((reason, None))
        }
    }
}

/// True if the answer is about the moment: another program has the queue, the interface is not
/// there or not up, or rights are missing. With a driver that has zero copy it would be the same,
/// and packet sockets would stay when it is over. Drivers refuse in several ways (`EOPNOTSUPP` the
/// kernel for them, `EINVAL` where a setting stands against it), and one that lacks memory for it
/// works without.
fn is_about_now(answer: &io::Error) -> bool {
    matches!(
        answer.raw_os_error(),
        Some(libc::EBUSY | libc::ENODEV | libc::ENETDOWN | libc::EPERM | libc::EACCES)
    )
}

/// Why a port of packet sockets could not be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoPacketPort {
    /// The kernel has no such ports.
    #[error("{0}")]
    Lacks(String),
    /// Something of this moment.
    #[error("{0}")]
    Fails(String),
}

impl From<SteerError> for NoPacketPort {
    fn from(error: SteerError) -> Self {
        match error {
            SteerError::NoTcx { .. } | SteerError::Load { .. } => Self::Lacks(error.to_string()),
            _ => Self::Fails(error.to_string()),
        }
    }
}

impl From<PacketError> for NoPacketPort {
    fn from(error: PacketError) -> Self {
        match error.source.raw_os_error() {
            Some(libc::EAFNOSUPPORT | libc::ENOPROTOOPT) => Self::Lacks(error.to_string()),
            _ => Self::Fails(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(errno: i32) -> Result<(), XskError> {
        let source = io::Error::from_raw_os_error(errno);
        Err(XskError { interface: "wan".into(), queue: 0, call: "bind", source, hint: "" })
    }

    #[test]
    fn zero_copy_is_taken_and_the_queue_that_was_bound_with_it() {
        for is_beside_kernel in [false, true] {
            let (reason, queue) = choose(Ok("the queue"), is_beside_kernel).unwrap();
            assert_eq!((reason.hook(), queue), (Hook::Xdp, Some("the queue")));
        }
    }

    #[test]
    fn a_driver_that_refuses_gets_packet_sockets() {
        for errno in
            [libc::EOPNOTSUPP, libc::EINVAL, libc::ENOMEM, libc::ENOENT, libc::EAFNOSUPPORT]
        {
            let (reason, queue) = choose(answer(errno), false).unwrap();
            assert_eq!((reason.hook(), queue), (Hook::Packet, None), "{errno}");
        }
        let told = |errno| choose(answer(errno), false).unwrap().0.to_string();
        assert_eq!(told(libc::EOPNOTSUPP), "the driver has no zero copy");
        assert!(told(libc::ENOBUFS).contains("bind: No buffer space"), "not the driver's fault");
    }

    #[test]
    fn a_kernel_that_owns_the_sas_or_lacks_something_keeps_to_xdp() {
        let (reason, _) = choose(answer(libc::EOPNOTSUPP), true).unwrap();
        assert_eq!(reason.hook(), Hook::Xdp);
        assert!(reason.to_string().contains("the kernel owns the SAs"), "{reason}");
        let reason = Reason::NoPacketSockets("Linux 6.6 or later (tcx)".into());
        assert_eq!(reason.hook(), Hook::Xdp);
        assert!(reason.to_string().contains("6.6"), "{reason}");
    }

    #[test]
    fn what_passes_by_itself_decides_nothing() {
        for errno in [libc::EBUSY, libc::ENODEV, libc::ENETDOWN, libc::EPERM, libc::EACCES] {
            let error = choose(answer(errno), false).unwrap_err();
            assert_eq!(error.source.raw_os_error(), Some(errno));
        }
        let packet = |errno| {
            let source = io::Error::from_raw_os_error(errno);
            PacketError { interface: "wan".into(), call: "bind", source, hint: "" }
        };
        for errno in [libc::ENODEV, libc::ENETDOWN, libc::EPERM, libc::ENOBUFS] {
            assert!(matches!(packet(errno).into(), NoPacketPort::Fails(_)), "{errno}");
        }
        for errno in [libc::EAFNOSUPPORT, libc::ENOPROTOOPT] {
            assert!(matches!(packet(errno).into(), NoPacketPort::Lacks(_)), "{errno}");
        }
        let (interface, reason) = ("wan".to_owned(), "EINVAL".to_owned());
        let no_tcx = SteerError::NoTcx { interface: interface.clone(), reason };
        assert!(matches!(no_tcx.into(), NoPacketPort::Lacks(_)));
        let full = SteerError::Full { interface, table: "sad" };
        assert!(matches!(full.into(), NoPacketPort::Fails(_)));
    }
}
