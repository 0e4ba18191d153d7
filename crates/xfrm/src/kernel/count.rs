//! The kernel's own SAD, beside ours: how many SAs it holds.
//!
//! On a machine whose kernel has ESP, an IKE daemon that works on the kernel's XFRM may own tunnels
//! of its own. What is asked here never contains a key: the count comes from `GETSADINFO`, and
//! notifications are not looked at; the kernel discards what they say.

use std::io;
use std::os::fd::BorrowedFd;

use netlink::{Attributes, Connection, Listener, Protocol, attribute};

use crate::codec::{MessageWriter, attr, kind};

/// Follows the number of SAs in the kernel's SAD of the calling thread's network namespace.
///
/// For one thread. Nothing is changed in the kernel.
pub struct KernelSad {
    /// Connection for `GETSADINFO`.
    requests: Connection,
    /// Subscribed to notifications about SAs.
    events: Listener,
    count: u32,
}

impl KernelSad {
    /// Subscribes to changes, then counts what is there.
    ///
    /// # Errors
    /// The kernel has no XFRM, or does not let this process ask.
    pub fn open() -> io::Result<KernelSad> {
        let events = Listener::subscribe(Protocol::Xfrm, &[GROUP_SA, GROUP_EXPIRE], None)?;
        let mut sad = KernelSad { requests: Connection::open(Protocol::Xfrm)?, events, count: 0 };
        sad.count = sad.ask()?;
        Ok(sad)
    }

    /// SAs of all protocols, reservations of SPIs included, when it was last asked.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Readable when SAs have come or gone.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.events.fd()
    }

    /// Counts again if the kernel has told of a change.
    ///
    /// # Errors
    /// The kernel did not answer; the count stays as it was.
    pub fn poll(&mut self) -> io::Result<()> {
        // Where notifications were lost, the count says what is there all the same.
        if self.events.drain()? {
            self.count = self.ask()?;
        }
        Ok(())
    }

    fn ask(&mut self) -> io::Result<u32> {
        let mut request = MessageWriter::request(kind::GETSADINFO, 0);
        request.fixed(&0u32);
        let answer = self.requests.ask(request)?;
        let count = answer.and_then(|answer| count_in(&answer));
        count.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// The count in the body of a `NEWSADINFO` message: flags, then attributes.
fn count_in(body: &[u8]) -> Option<u32> {
    let attributes = Attributes::new(body.get(FLAGS_LEN..)?);
    attributes.find(attr::SAD_CNT).and_then(attribute::as_u32)
}

const FLAGS_LEN: usize = 4;

/// Multicast groups (`XFRMNLGRP_*`).
const GROUP_EXPIRE: u32 = 2;
const GROUP_SA: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Field as _, Header, SadHashInfo};

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
