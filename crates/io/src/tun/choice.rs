//! Which queue of an interface a packet of Linux's comes by.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

use super::ioctl;

/// Says how Linux chooses among an interface's queues; made by [`Tun::choice`](super::Tun::choice).
///
/// It shares the descriptor of the queue that it was made from: as long as it lives so do that queue and the
/// interface.
#[derive(Debug)]
pub struct QueueChoice(File);

impl QueueChoice {
    /// For the interface that one of its queues is of.
    pub(super) fn of(queue: &File) -> io::Result<Self> {
        queue.try_clone().map(Self)
    }

    /// Has a program choose, a socket filter of BPF's whose value is taken modulo the number of queues; or, with
    /// none, Linux by flows, see [`super`]. Packets that lie in a queue stay there.
    ///
    /// # Errors
    ///
    /// Errors of the kernel; then all is as before.
    pub fn by_program(&self, program: Option<BorrowedFd<'_>>) -> io::Result<()> {
        ioctl::set_steering(&self.0, program)
    }
}
