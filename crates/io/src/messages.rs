//! Messages of a socket, received by one `recvmmsg` into memory of their own.

#![allow(unsafe_code, reason = "recvmmsg into buffers of its own; everything exported is safe")]

use core::ffi::c_int;
use core::ops::Range;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::umem::BURST_LEN;

/// Room for the messages of one call, with `NAME` bytes for who sent each, and `CONTROL` for control messages.
pub(crate) struct Messages<const NAME: usize, const CONTROL: usize> {
    /// A place of [`STRIDE`] bytes for each.
    buffer: Box<[u8]>,
    names: Box<[Aligned<NAME>; BURST_LEN]>,
    controls: Box<[Aligned<CONTROL>; BURST_LEN]>,
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
unsafe impl<const NAME: usize, const CONTROL: usize> Send for Messages<NAME, CONTROL> {}

/// Aligned as names and control messages are.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Aligned<const LEN: usize>([u8; LEN]);

/// A message that came.
#[derive(Clone, Debug)]
pub(crate) struct Received<'a> {
    /// Where it lies, to be given to [`Messages::bytes`].
    pub(crate) place: Range<usize>,
    /// Flags of `recvmsg`: set if something was cut off.
    pub(crate) flags: c_int,
    pub(crate) name: &'a [u8],
    /// As much as the kernel has written.
    pub(crate) control: &'a [u8],
}

impl<const NAME: usize, const CONTROL: usize> Messages<NAME, CONTROL> {
    pub(crate) fn new() -> Self {
        let mut messages = Self {
            // Pages that no message has reached yet cost nothing.
            buffer: vec![0; STRIDE * BURST_LEN].into_boxed_slice(),
            names: Box::new([Aligned([0; NAME]); BURST_LEN]),
            controls: Box::new([Aligned([0; CONTROL]); BURST_LEN]),
            // SAFETY: integers and pointers: zero is valid.
            parts: Box::new(unsafe { core::mem::zeroed() }),
            // SAFETY: as above.
            headers: Box::new(unsafe { core::mem::zeroed() }),
            came: 0,
            taken: 0,
            wanted: BURST_LEN,
        };
        let places = messages.buffer.chunks_exact_mut(STRIDE);
        let told = messages.names.iter_mut().zip(&mut *messages.controls);
        let parts = messages.parts.iter_mut().zip(told);
        for ((header, (part, (name, control))), place) in
            messages.headers.iter_mut().zip(parts).zip(places)
        {
            part.iov_base = place.as_mut_ptr().cast();
            part.iov_len = STRIDE;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            if NAME > 0 {
                header.msg_hdr.msg_name = name.0.as_mut_ptr().cast();
            }
        }
        messages
    }

    /// Receives what is there; false if that is nothing. Only where all that came before was taken out.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        for header in self.headers.iter_mut().take(self.wanted) {
            // The kernel writes how much of either it has used.
            header.msg_hdr.msg_namelen = NAME as libc::socklen_t;
            header.msg_hdr.msg_controllen = CONTROL;
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
                return match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
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

    /// The next message.
    pub(crate) fn next(&mut self) -> Option<Received<'_>> {
        if self.taken == self.came {
            return None;
        }
        let at = self.taken;
        self.taken += 1;
        let header = self.headers.get(at)?;
        let start = at * STRIDE;
        Some(Received {
            place: start..start + header.msg_len as usize,
            flags: header.msg_hdr.msg_flags,
            name: &self.names.get(at)?.0,
            control: self.controls.get(at)?.0.get(..header.msg_hdr.msg_controllen).unwrap_or(&[]),
        })
    }

    /// A message's bytes.
    pub(crate) fn bytes(&self, place: Range<usize>) -> &[u8] {
        self.buffer.get(place).unwrap_or(&[])
    }

    /// The bytes of a place, to be changed.
    pub(crate) fn bytes_mut(&mut self, place: Range<usize>) -> &mut [u8] {
        self.buffer.get_mut(place).unwrap_or(&mut [])
    }
}

/// A message's place: the longest IP packet with what stands in front of it, and so much that the first lines of all
/// places do not fall together in the cache.
const STRIDE: usize = 65536 + 256;

/// A message longer than this is a super-packet, or was joined.
const LONG: usize = 4096;

/// Super-packets that are received at once.
const FEW: usize = 4;
