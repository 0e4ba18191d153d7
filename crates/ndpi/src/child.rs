//! The child as its parent has it: begun, ended, and asked whether it can work at all.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::link::{Heard, Link};

/// A process that asks the library. It ends with this.
#[derive(Debug)]
pub struct Child(std::process::Child);

/// Variable with folders that the dynamic linker looks into first; of the environment, the child gets this alone.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

impl Child {
    /// Begins one by a program and its arguments, which [serve](crate::serve()). Returns it, and the socket of its [`Link`].
    ///
    /// # Errors
    /// There is no such program, or no process or socket can be had.
    pub fn begin(program: &Path, arguments: &[&str]) -> io::Result<(Child, OwnedFd)> {
        let family = AddressFamily::UNIX;
        let (here, there) = socketpair(family, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear();
        if let Some(folders) = std::env::var_os(LIBRARY_PATH) {
            command.env(LIBRARY_PATH, folders);
        }
        command.stdin(there).stdout(Stdio::null()).stderr(Stdio::null());
        Ok((Child(command.spawn()?), here))
    }

    /// Number of the process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may hang. One that has ended already is not there to be killed; a process that was killed ends at once.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Begins a child to hear whether it can work. Returns the version of the library.
///
/// # Errors
/// It cannot: why, and what to do about it.
pub fn probe(program: &Path, arguments: &[&str], patience: Duration) -> Result<String, String> {
    let begun = Child::begin(program, arguments);
    let (_child, socket) = begun.map_err(|error| format!("{}: {error}", program.display()))?;
    let deadline = Instant::now() + patience;
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout =
        Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    // Whatever comes of it, the link says.
    let _ = poll(&mut fds, Some(&timeout));
    match Link::new(socket).next(0) {
        Ok(Some(Heard::Ready(version))) => Ok(version),
        Ok(_) => Err(format!("no word in {} seconds", patience.as_secs())),
        Err(broken) => Err(broken.to_string()),
    }
}
