//! A UDP socket of the program's that has a second one at culvert.

use crate::sys;

/// One of them.
#[derive(Debug)]
pub(crate) struct Given {
    /// The program's descriptor.
    pub(crate) fd: i32,
    /// Inode of the socket behind the descriptor.
    pub(crate) inode: u64,
    /// The connection that the second one was handed over by.
    pub(crate) link: i32,
}

impl Given {
    /// True if culvert has closed the second one, while the program still has its own.
    pub(crate) fn is_down(&self) -> bool {
        // A descriptor that was closed without this library seeing it is no reason to go on.
        sys::inode(self.fd) == Some(self.inode)
            && !matches!(sys::receive(self.link, &mut [0; 64], false), Ok(1..) | Err(libc::EAGAIN))
    }
}
