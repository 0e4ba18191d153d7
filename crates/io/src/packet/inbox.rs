//! Bytes that a packet socket has received, until they are cut into frames.

use core::ops::Range;
use std::io;
use std::os::fd::BorrowedFd;

use crate::messages::{Messages, Received};
use crate::tun::{VNET_HEADER_LEN, VnetHeader};

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

/// Frames with their vnet headers. Who sent them stands in them.
pub(super) struct Inbox(Messages<0, CONTROL_LEN>);

impl Inbox {
    pub(super) fn new() -> Self {
        Self(Messages::new())
    }

    /// Receives what is there; false if that is nothing. Only for an inbox that was taken all out of.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        self.0.receive(socket)
    }

    /// The next message. `Some(None)` for one that is of no use.
    pub(super) fn next(&mut self) -> Option<Option<Message>> {
        let Received { place, flags, control, .. } = self.0.next()?;
        let (is_cut, tag) = (flags & libc::MSG_TRUNC != 0, tag(control));
        let frame = place.start + VNET_HEADER_LEN..place.end;
        let head = self.0.bytes(place).first_chunk::<VNET_HEADER_LEN>();
        let head = head.filter(|_| !is_cut);
        Some(head.map(|head| Message { vnet: VnetHeader::parse(head), place: frame, tag }))
    }

    /// A message's bytes.
    pub(super) fn bytes_mut(&mut self, place: Range<usize>) -> &mut [u8] {
        self.0.bytes_mut(place)
    }
}

/// The tag that a control message of the kernel's tells, `struct tpacket_auxdata` behind its header:
///
/// ```text
/// len:8 level:4 type:4 | status:4 len:4 snaplen:4 mac:2 net:2 vlan_tci:2 vlan_tpid:2
/// ```
fn tag(control: &[u8]) -> Option<Tag> {
    if control.len() < AUXDATA_AT + AUXDATA_LEN {
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
        assert_eq!(tag(&known), Some([0x88, 0xa8, 0x20, 0x05]));
        assert_eq!(tag(&control(valid, 5, 0)), Some([0x81, 0, 0, 5]));
        assert_eq!(tag(&control(0, 5, 0x8100)), None);
        assert_eq!(tag(&[]), None, "the kernel wrote nothing");
        let mut other = known;
        other[12] ^= 1;
        assert_eq!(tag(&other), None, "another message");
    }
}
