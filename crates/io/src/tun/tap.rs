//! A TAP interface: Linux's side of a link whose other side is a program.
//!
//! Frame by frame, without super-packets: what Linux sends here is ARP, neighbour discovery, and its own few
//! packets to that program.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{TunError, hint, ioctl};

/// Name and settings of a TAP interface to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapConfig {
    /// The interface's name, 1 to 15 bytes.
    pub name: String,
    /// The longest packet in bytes.
    pub mtu: u32,
    /// Link-layer address. `None`: one that the kernel makes up with the interface.
    pub mac: Option<[u8; 6]>,
}

/// A TAP interface that outlives its descriptor.
#[derive(Debug)]
pub struct Tap {
    name: String,
    file: File,
    ifindex: u32,
}

/// No second queue: one that another process has open is not taken.
const FLAGS: libc::c_int = libc::IFF_TAP | libc::IFF_NO_PI;

impl Tap {
    /// Makes the interface, or takes one that an earlier process has left, and sets it up.
    ///
    /// # Errors
    /// [`TunError`], also if the interface is of another kind or in use.
    pub fn open_lasting(config: &TapConfig) -> Result<Self, TunError> {
        let fail = failing(&config.name);
        if config.name.is_empty() || config.name.len() >= libc::IF_NAMESIZE {
            return Err(fail("TUNSETIFF", io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let file = ioctl::open().map_err(|e| fail("open(/dev/net/tun)", e))?;
        ioctl::set_interface(&file, &config.name, FLAGS).map_err(|e| fail("TUNSETIFF", e))?;
        ioctl::set_persistent(&file, true).map_err(|e| fail("TUNSETPERSIST", e))?;
        ioctl::set_mtu(&config.name, config.mtu).map_err(|e| fail("SIOCSIFMTU", e))?;
        if let Some(mac) = config.mac {
            ioctl::set_mac(&config.name, mac).map_err(|e| fail("SIOCSIFHWADDR", e))?;
        }
        let ifindex = ioctl::ifindex(&config.name).map_err(|e| fail("SIOCGIFINDEX", e))?;
        ioctl::set_up(&config.name).map_err(|e| fail("SIOCSIFFLAGS", e))?;
        Ok(Self { name: config.name.clone(), file, ifindex })
    }

    /// An interface whose descriptor somebody else has opened: it is read and written as a TAP device is.
    pub fn over(name: &str, ifindex: u32, descriptor: OwnedFd) -> Self {
        Self { name: name.to_owned(), file: descriptor.into(), ifindex }
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's number.
    pub const fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Takes the next frame that Linux sends, if there is one; returns its length. One that is longer than the
    /// buffer is cut.
    ///
    /// # Errors
    /// The interface is down, or gone.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match (&self.file).read(buffer) {
                Ok(len) => return Ok(Some(len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives Linux a frame.
    ///
    /// # Errors
    /// It does not take it.
    pub fn write(&self, frame: &[u8]) -> io::Result<()> {
        (&self.file).write(frame).map(drop)
    }

    /// Removes the interface of that name, if nobody has it open.
    ///
    /// # Errors
    /// [`TunError`] names the system call.
    pub fn remove(name: &str) -> Result<(), TunError> {
        let fail = failing(name);
        let file = ioctl::open().map_err(|e| fail("open(/dev/net/tun)", e))?;
        ioctl::set_interface(&file, name, FLAGS).map_err(|e| fail("TUNSETIFF", e))?;
        ioctl::set_persistent(&file, false).map_err(|e| fail("TUNSETPERSIST", e))
    }
}

fn failing(name: &str) -> impl Fn(&'static str, io::Error) -> TunError {
    let name = name.to_owned();
    move |call, source| TunError { name: name.clone(), call, hint: hint(call, &source), source }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
