//! What a UDP socket has received, until it is cut into frames.

#![allow(unsafe_code, reason = "recvmmsg into buffers of its own; everything exported is safe")]

use core::net::SocketAddr;
use core::ops::Range;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::socket::{CONTROL_LEN, Control, Name, Told};
use crate::umem::BURST_LEN;

/// One datagram, or several that the kernel has joined.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) from: SocketAddr,
    pub(super) told: Told,
    /// Where it lies, to be given to [`Inbox::bytes`].
    pub(super) place: Range<usize>,
}

/// Room for the messages of one call of `recvmmsg`.
pub(super) struct Inbox {
    /// A place of [`STRIDE`] bytes for each.
    buffer: Box<[u8]>,
    names: Box<[Name; BURST_LEN]>,
    controls: Box<[Control; BURST_LEN]>,
    /// Point into `buffer`.
    parts: Box<[libc::iovec; BURST_LEN]>,
    /// Point to `parts`, `names` and `controls`.
    headers: Box<[libc::mmsghdr; BURST_LEN]>,
    /// How many came, and how many of these were taken.
    came: usize,
    taken: usize,
    /// How many are asked for.
    wanted: usize,
}

// SAFETY: all pointers lead into its own boxes, which move with it and which nobody else has.
unsafe impl Send for Inbox {}

impl Inbox {
    pub(super) fn new() -> Self {
        let mut inbox = Self {
            // Pages that no message has reached yet cost nothing.
            buffer: vec![0; STRIDE * BURST_LEN].into_boxed_slice(),
            names: Box::new([Name::default(); BURST_LEN]),
            controls: Box::new([Control::new(); BURST_LEN]),
            // SAFETY: integers and pointers: zero is valid.
            parts: Box::new(unsafe { core::mem::zeroed() }),
            // SAFETY: as above.
            headers: Box::new(unsafe { core::mem::zeroed() }),
            came: 0,
            taken: 0,
            wanted: BURST_LEN,
        };
        let places = inbox.buffer.chunks_exact_mut(STRIDE);
        let told = inbox.names.iter_mut().zip(&mut *inbox.controls);
        let parts = inbox.parts.iter_mut().zip(told);
        for ((header, (part, (name, control))), place) in
            inbox.headers.iter_mut().zip(parts).zip(places)
        {
            part.iov_base = place.as_mut_ptr().cast();
            part.iov_len = LONGEST;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = (&raw mut *name).cast();
            header.msg_hdr.msg_control = (&raw mut *control).cast();
        }
        inbox
    }

    /// Receives what is there; false if that is nothing. Only for an inbox that was taken all out of.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        for header in self.headers.iter_mut().take(self.wanted) {
            // The kernel writes how much of either it has used.
            header.msg_hdr.msg_namelen = size_of::<Name>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = CONTROL_LEN;
        }
        (self.came, self.taken) = (0, 0);
        // SAFETY: the headers refer to buffers of their own with these lengths, which nobody reads meanwhile.
        let came = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.wanted as u32,
                libc::MSG_DONTWAIT,
                core::ptr::null_mut(),
            )
        };
        self.came = match usize::try_from(came) {
            Ok(came) => came,
            Err(_) => {
                let error = io::Error::last_os_error();
                return match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => Ok(false),
                    // What a router or the peer has said of something sent before.
                    Some(
                        libc::ECONNREFUSED
                        | libc::EHOSTUNREACH
                        | libc::ENETUNREACH
                        | libc::EMSGSIZE
                        | libc::EPROTO
                        | libc::EACCES,
                    ) => Ok(false),
                    _ => Err(error),
                };
            }
        };
        // A few super-packets are a burst, and more at once do not stay in the cache.
        let is_long = |header: &libc::mmsghdr| header.msg_len as usize > LONG;
        let came = self.headers.get(..self.came).unwrap_or(&[]);
        self.wanted = if came.iter().any(is_long) { FEW } else { BURST_LEN };
        Ok(self.came > 0)
    }

    /// The next message. `Some(None)` for one that is of no use.
    pub(super) fn next(&mut self) -> Option<Option<Message>> {
        if self.taken == self.came {
            return None;
        }
        let at = self.taken;
        self.taken += 1;
        let header = self.headers.get(at)?;
        let (len, cut) = (header.msg_len as usize, libc::MSG_TRUNC | libc::MSG_CTRUNC);
        let from = self.names.get(at).and_then(Name::address);
        let (Some(from), 0) = (from, header.msg_hdr.msg_flags & cut) else { return Some(None) };
        let told = self.controls.get(at)?.read(header.msg_hdr.msg_controllen);
        let start = at * STRIDE;
        Some(Some(Message { from, told, place: start..start + len }))
    }

    /// A message's bytes.
    pub(super) fn bytes(&self, place: Range<usize>) -> &[u8] {
        self.buffer.get(place).unwrap_or(&[])
    }
}

/// The longest payload, and a message's place: so much longer that the first lines of all places do not fall
/// together in the cache.
const LONGEST: usize = 65536;
const STRIDE: usize = LONGEST + 256;

/// A message longer than this was joined.
const LONG: usize = 4096;

/// Super-packets that are received at once.
const FEW: usize = 4;
