//! The trait of every packet port, and its errors.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::counters::{PortCounters, PortStats};
use crate::umem::{Burst, FramePool};

/// A source and sink of packets, used by one worker.
///
/// Never blocks. A worker that has nothing to do sleeps in `poll` on [`Port::fd`] (POLLIN), and
/// calls [`Port::check`] when `poll` reports an error on it.
pub trait Port: Send {
    /// Receives packets into the free places of `out`, in order, and returns how many.
    ///
    /// Frames come from `pool`. With an empty pool or a full burst nothing is taken.
    ///
    /// # Errors
    ///
    /// [`PortError::Gone`] when the interface is gone; what was received before is in `out`.
    fn rx(&mut self, pool: &mut FramePool, out: &mut Burst) -> Result<usize, PortError>;

    /// Transmits packets from the front of `burst` and returns how many left it; the rest stays,
    /// in order, because there is no room now.
    ///
    /// Frames go back to `pool` when the packet has been sent. A packet that can never be sent
    /// leaves the burst too and is counted ([`PortStats::tx_refused`]).
    ///
    /// # Errors
    ///
    /// [`PortError::Gone`] when the interface is gone; what was not sent is in `burst`.
    fn tx(&mut self, burst: &mut Burst, pool: &mut FramePool) -> Result<usize, PortError>;

    /// Gives back the frames of finished transmissions. `tx` does it too; an idle worker calls
    /// this so that they do not wait for the next packet.
    ///
    /// # Errors
    ///
    /// [`PortError::Gone`] when the interface is gone.
    fn reclaim(&mut self, pool: &mut FramePool) -> Result<(), PortError>;

    /// Asks the kernel whether the port still works.
    ///
    /// # Errors
    ///
    /// [`PortError::Gone`] when the interface is gone.
    fn check(&mut self) -> Result<(), PortError>;

    /// Descriptor to wait on, if there is one.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// The number of frames inside the port: in rings and queues.
    fn frames_held(&self) -> usize;

    /// The port's counters, for any thread to read at any time: also after the port has gone.
    fn counters(&self) -> Arc<PortCounters>;

    /// The counts so far.
    fn stats(&self) -> PortStats {
        self.counters().read()
    }
}

/// Why a port does not work.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The interface does not exist any more. Drop the port; make a new one when it returns.
    #[error("{port}: the interface is gone ({call}: {source})")]
    Gone {
        /// The interface, and the queue if it has several.
        port: String,
        /// The system call that told.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A system call failed in a way that is not expected.
    #[error("{port}: {call} failed: {source}")]
    System {
        /// The interface, and the queue if it has several.
        port: String,
        /// The system call.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl PortError {
    /// Sorts an error of a system call by what it means for the port.
    pub(crate) fn new(port: &str, call: &'static str, source: io::Error) -> Self {
        let port = port.to_owned();
        match source.raw_os_error() {
            Some(libc::ENXIO | libc::ENODEV | libc::ENETDOWN | libc::EBADF | libc::EBADFD) => {
                Self::Gone { port, call, source }
            }
            _ => Self::System { port, call, source },
        }
    }

    /// True if the interface is gone, as against a failure that may pass.
    pub const fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }
}
