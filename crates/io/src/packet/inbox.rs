//! What a packet socket has received, until it is cut into frames.

#![allow(unsafe_code, reason = "recvmmsg into buffers of its own; everything exported is safe")]

use core::ops::Range;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::tun::{VNET_HEADER_LEN, VnetHeader};
use crate::umem::BURST_LEN;

/// A VLAN tag that the kernel has taken out of a frame: TPID and TCI, as they stood there.
pub(super) type Tag = [u8; 4];

/// One received frame.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) vnet: VnetHeader,
    /// Where it lies, to be given to [`Inbox::bytes_mut`].
    pub(super) place: Range<usize>,
    pub(super) tag: Option<Tag>,
}

/// Room for the messages of one call of `recvmmsg`.
pub(super) struct Inbox {
    /// A place of [`STRIDE`] bytes for each.
    buffer: Box<[u8]>,
    controls: Box<[Control; BURST_LEN]>,
    /// Point into `buffer`.
    parts: Box<[libc::iovec; BURST_LEN]>,
    /// Point to `parts` and `controls`.
    headers: Box<[libc::mmsghdr; BURST_LEN]>,
    /// How many came, and how many of these were taken.
    came: usize,
    taken: usize,
    /// How many are asked for.
    wanted: usize,
}

// SAFETY: all pointers lead into its own boxes, which move with it and which nobody else has.
unsafe impl Send for Inbox {}

/// Room for what `PACKET_AUXDATA` says, aligned as a control message is.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_LEN]);

impl Inbox {
    pub(super) fn new() -> Self {
        let mut inbox = Self {
            // Pages that no message has reached yet cost nothing.
            buffer: vec![0; STRIDE * BURST_LEN].into_boxed_slice(),
            controls: Box::new([Control([0; CONTROL_LEN]); BURST_LEN]),
            // SAFETY: integers and pointers: zero is valid.
            parts: Box::new(unsafe { core::mem::zeroed() }),
            // SAFETY: as above.
            headers: Box::new(unsafe { core::mem::zeroed() }),
            came: 0,
            taken: 0,
            wanted: BURST_LEN,
        };
        let places = inbox.buffer.chunks_exact_mut(STRIDE);
        let parts = inbox.parts.iter_mut().zip(&mut *inbox.controls);
        for ((header, (part, control)), place) in inbox.headers.iter_mut().zip(parts).zip(places) {
            part.iov_base = place.as_mut_ptr().cast();
            part.iov_len = STRIDE;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL_LEN;
        }
        inbox
    }

    /// Receives what is there; false if that is nothing. Only for an inbox that was taken all out of.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        for header in self.headers.iter_mut().take(self.came) {
            // The kernel has written how much it used.
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

    /// The next message. `Some(None)` for one that is of no use.
    pub(super) fn next(&mut self) -> Option<Option<Message>> {
        if self.taken == self.came {
            return None;
        }
        let at = self.taken;
        self.taken += 1;
        let header = self.headers.get(at)?;
        let (len, flags) = (header.msg_len as usize, header.msg_hdr.msg_flags);
        let start = at * STRIDE;
        let place = start + VNET_HEADER_LEN..start + len;
        let head = self.buffer.get(start..).and_then(<[u8]>::first_chunk::<VNET_HEADER_LEN>);
        if flags & libc::MSG_TRUNC != 0 || len < VNET_HEADER_LEN {
            return Some(None);
        }
        let tag = self.controls.get(at).and_then(|c| tag(&c.0, header.msg_hdr.msg_controllen));
        Some(head.map(|head| Message { vnet: VnetHeader::parse(head), place, tag }))
    }

    /// A message's bytes.
    pub(super) fn bytes_mut(&mut self, place: Range<usize>) -> &mut [u8] {
        self.buffer.get_mut(place).unwrap_or(&mut [])
    }
}

/// The tag that a control message of the kernel's tells, `struct tpacket_auxdata` behind its header:
///
/// ```text
/// len:8 level:4 type:4 | status:4 len:4 snaplen:4 mac:2 net:2 vlan_tci:2 vlan_tpid:2
/// ```
fn tag(control: &[u8; CONTROL_LEN], len: usize) -> Option<Tag> {
    if len < AUXDATA_AT + AUXDATA_LEN {
        return None;
    }
    let word = |at: usize| control.get(at..).and_then(<[u8]>::first_chunk).copied();
    let word = |at| word(at).map_or(0, u32::from_ne_bytes);
    let half = |at: usize| control.get(at..).and_then(<[u8]>::first_chunk).copied();
    let half = |at| half(at).map_or(0, u16::from_ne_bytes);
    let is_auxdata = word(8) == libc::SOL_PACKET as u32 && word(12) == libc::PACKET_AUXDATA as u32;
    if !is_auxdata || word(AUXDATA_AT) & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let (tci, tpid) = (half(AUXDATA_AT + 16), half(AUXDATA_AT + 18));
    let tpid = match word(AUXDATA_AT) & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => 0x8100,
        _ => tpid,
    };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
    Some([a, b, c, d])
}

/// A message's place: its header, the longest frame with its tags, and so much that the first lines of all places
/// do not fall together in the cache.
const STRIDE: usize = 65536 + 256;

/// A frame longer than this is a super-packet.
const LONG: usize = 4096;

/// Super-packets that are received at once.
const FEW: usize = 4;

/// `struct cmsghdr`, then `struct tpacket_auxdata`.
const AUXDATA_AT: usize = 16;
const AUXDATA_LEN: usize = 20;
const CONTROL_LEN: usize = 40;

const _: () = assert!(size_of::<libc::cmsghdr>() == AUXDATA_AT);
const _: () = assert!(size_of::<libc::tpacket_auxdata>() == AUXDATA_LEN);

#[cfg(test)]
mod tests {
    use super::*;

    fn control(status: u32, tci: u16, tpid: u16) -> [u8; CONTROL_LEN] {
        let mut bytes = 36_u64.to_ne_bytes().to_vec();
        bytes.extend((libc::SOL_PACKET as u32).to_ne_bytes());
        bytes.extend((libc::PACKET_AUXDATA as u32).to_ne_bytes());
        bytes.extend(status.to_ne_bytes());
        bytes.extend([0; 12]);
        bytes.extend(tci.to_ne_bytes());
        bytes.extend(tpid.to_ne_bytes());
        bytes.resize(CONTROL_LEN, 0);
        bytes.try_into().expect("as long")
    }

    #[test]
    fn a_tag_is_what_stood_in_the_frame() {
        let (valid, tpid) = (libc::TP_STATUS_VLAN_VALID, libc::TP_STATUS_VLAN_TPID_VALID);
        let known = control(valid | tpid, 0x2005, 0x88a8);
        assert_eq!(tag(&known, CONTROL_LEN), Some([0x88, 0xa8, 0x20, 0x05]));
        assert_eq!(tag(&control(valid, 5, 0), CONTROL_LEN), Some([0x81, 0, 0, 5]));
        assert_eq!(tag(&control(0, 5, 0x8100), CONTROL_LEN), None);
        assert_eq!(tag(&known, 0), None, "the kernel wrote nothing");
        let mut other = known;
        other[12] ^= 1;
        assert_eq!(tag(&other, CONTROL_LEN), None, "another message");
    }
}
