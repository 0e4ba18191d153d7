//! The kernel's own SAD, beside ours: how many SAs it holds.
//!
//! On a machine whose kernel has ESP, an IKE daemon that works on the kernel's XFRM may own tunnels
//! of its own. What is asked here never contains a key: the count comes from `GETSADINFO`, and of a
//! notification only the header is read; the kernel discards the rest.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_XFRM};

use super::connection::Connection;
use crate::codec::{Field, Header, MessageWriter, attr, flag, kind};

/// Follows the number of SAs in the kernel's SAD of the calling thread's network namespace.
///
/// For one thread. Nothing is changed in the kernel.
pub struct KernelSad {
    /// For `GETSADINFO`.
    requests: Connection,
    /// Subscribed to notifications about SAs.
    events: Socket,
    count: u32,
}

impl KernelSad {
    /// Subscribes to changes, then counts what is there.
    ///
    /// # Errors
    /// The kernel has no XFRM, or does not let this process ask.
    pub fn open() -> io::Result<KernelSad> {
        let mut events = Socket::new(NETLINK_XFRM)?;
        events.bind(&SocketAddr::new(0, GROUP_SA | GROUP_EXPIRE))?;
        events.set_non_blocking(true)?;
        let mut sad = KernelSad { requests: Connection::open()?, events, count: 0 };
        sad.count = sad.ask()?;
        Ok(sad)
    }

    /// SAs of all protocols, reservations of SPIs included, when it was last asked.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Readable when SAs have come or gone.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Counts again if the kernel has told of a change.
    ///
    /// # Errors
    /// The kernel did not answer; the count stays as it was.
    pub fn poll(&mut self) -> io::Result<()> {
        let mut changed = false;
        loop {
            let mut header = [0u8; Header::LEN];
            match self.events.recv(&mut &mut header[..], 0) {
                Ok(0) => break,
                Ok(_) => changed = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Notifications were lost: the count says what is there all the same.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                Err(error) => return Err(error),
            }
        }
        if changed {
            self.count = self.ask()?;
        }
        Ok(())
    }

    fn ask(&mut self) -> io::Result<u32> {
        let answer = self.requests.ask(|sequence| {
            let mut writer = MessageWriter::new(kind::GETSADINFO, flag::REQUEST, sequence, 0);
            writer.fixed(&0u32).take()
        })?;
        let body = answer.as_ref().and_then(|answer| answer.get(Header::LEN..));
        body.and_then(count_in).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// The count in the body of a `NEWSADINFO` message: flags, then attributes, of which Linux writes
/// the count first.
fn count_in(body: &[u8]) -> Option<u32> {
    let (_flags, rest) = body.split_first_chunk::<4>()?;
    let (header, rest) = rest.split_first_chunk::<4>()?;
    let kind = u16::from_ne_bytes([header[2], header[3]]);
    let value = rest.first_chunk::<4>().filter(|_| kind == attr::SAD_CNT)?;
    Some(u32::from_ne_bytes(*value))
}

/// `XFRMNLGRP_EXPIRE` and `XFRMNLGRP_SA` as bits of `nl_groups`.
const GROUP_EXPIRE: u32 = 1 << 1;
const GROUP_SA: u32 = 1 << 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::SadHashInfo;

    #[test]
    fn the_count_is_found_in_what_linux_answers() {
        let mut w = MessageWriter::new(kind::NEWSADINFO, 0, 1, 0);
        w.fixed(&u32::MAX);
        w.field(attr::SAD_CNT, &7u32);
        w.field(attr::SAD_HINFO, &SadHashInfo { buckets: 8, max_buckets: 1 << 20 });
        let message = w.finish();
        let body = message.get(Header::LEN..).expect("a body");
        assert_eq!(count_in(body), Some(7));
        for len in 0..12 {
            assert_eq!(count_in(body.get(..len).expect("shorter")), None, "cut to {len}");
        }
        let mut w = MessageWriter::new(kind::NEWSADINFO, 0, 1, 0);
        w.fixed(&0u32);
        w.field(attr::SAD_HINFO, &SadHashInfo { buckets: 8, max_buckets: 1 << 20 });
        assert_eq!(count_in(w.finish().get(Header::LEN..).expect("a body")), None);
    }
}
