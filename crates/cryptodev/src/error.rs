//! Errors of DPDK and its devices at the start.

use core::fmt;

/// DPDK's environment does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// An argument that is none.
    #[error("an argument of DPDK has a zero byte: {0:?}")]
    Argument(String),
    /// The library refuses, and has said why on standard error.
    #[error("DPDK does not start: {}", errno(.0))]
    System(i32),
}

/// A device cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// DPDK did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No driver has made it, or it is somebody else's.
    #[error("DPDK has no free crypto device {0}: is its driver there, and the device bound to it?")]
    NotThere(String),
    /// DPDK could not configure the device.
    #[error("the device cannot be configured: {}", errno(.0))]
    Configuration(i32),
    /// The device has no algorithm suite of ESP.
    #[error("driver {0} has none of the algorithm suites of ESP")]
    NoSuite(String),
}

fn errno(number: &i32) -> Errno {
    Errno(*number)
}

/// An errno in words.
struct Errno(i32);

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}
