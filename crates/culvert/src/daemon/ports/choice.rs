//! By which sockets a port works, and what a driver's answer to zero copy has to do with it.

use std::io;

use ::io::XskError;
use steer::Hook;
use tracing::info;

use crate::config::Sockets;

/// Where a port's program stands, and the first queue if it is bound already: of a port that may be of either kind it is
/// bound with zero copy, by `bind`, to learn whether the driver has any. That it has none is logged.
///
/// # Errors
///
/// An answer that says nothing about the driver; the port is tried again then.
pub(super) fn sockets_of<T>(
    kind: Sockets,
    interface: &str,
    bind: impl FnOnce() -> Result<T, XskError>,
) -> Result<(Hook, Option<T>), XskError> {
    match kind {
        Sockets::Xdp => return Ok((Hook::Xdp, None)),
        Sockets::Packet => return Ok((Hook::Packet, None)),
        Sockets::Auto => {}
    }
    match bind() {
        Ok(bound) => Ok((Hook::Xdp, Some(bound))),
        Err(error) if is_about_now(&error.source) => Err(error),
        Err(error) => {
            let reason = error.source;
            info!(
                port = interface,
                "kind = \"auto\": packet sockets, as the driver has no zero copy ({reason})"
            );
            Ok((Hook::Packet, None))
        }
    }
}

/// Whether the queue is somebody else's, the interface is not there or not up, or rights are missing: with a driver that
/// has zero copy it would be the same, and packet sockets would stay when it is over. Drivers refuse in several ways
/// (`EOPNOTSUPP` the kernel for them, `EINVAL` where a setting stands against it), and one that lacks memory for it works
/// without.
fn is_about_now(answer: &io::Error) -> bool {
    matches!(
        answer.raw_os_error(),
        Some(libc::EBUSY | libc::ENODEV | libc::ENETDOWN | libc::EPERM | libc::EACCES)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(errno: i32) -> Result<(), XskError> {
        let source = io::Error::from_raw_os_error(errno);
        Err(XskError { interface: "wan".into(), queue: 0, call: "bind", source, hint: "" })
    }

    #[test]
    fn a_driver_is_asked_only_where_it_decides() {
        let never = || -> Result<(), XskError> { unreachable!("bound without need") };
        assert_eq!(sockets_of(Sockets::Xdp, "wan", never).unwrap(), (Hook::Xdp, None));
        assert_eq!(sockets_of(Sockets::Packet, "wan", never).unwrap(), (Hook::Packet, None));
    }

    #[test]
    fn zero_copy_is_taken_and_the_queue_that_was_bound_with_it() {
        let bound = sockets_of(Sockets::Auto, "wan", || Ok("the queue"));
        assert_eq!(bound.unwrap(), (Hook::Xdp, Some("the queue")));
    }

    #[test]
    fn a_driver_that_refuses_gets_packet_sockets() {
        for errno in [libc::EOPNOTSUPP, libc::EINVAL, libc::ENOTSUP, libc::ENOMEM, libc::ENOENT] {
            let chosen = sockets_of(Sockets::Auto, "wan", || answer(errno));
            assert_eq!(chosen.unwrap(), (Hook::Packet, None), "{errno}");
        }
    }

    #[test]
    fn what_passes_by_itself_decides_nothing() {
        for errno in [libc::EBUSY, libc::ENODEV, libc::ENETDOWN, libc::EPERM, libc::EACCES] {
            let error = sockets_of(Sockets::Auto, "wan", || answer(errno)).unwrap_err();
            assert_eq!(error.source.raw_os_error(), Some(errno));
        }
    }
}
