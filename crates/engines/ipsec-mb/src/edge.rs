//! Packets at the end of a page, where the library's AES-CMAC reads on into the next.
//!
//! The code path with VAES of libipsec-mb 1.3 reads AES-CMAC's last block as 16 bytes also where the text ends within
//! them, so beyond a packet whose ICV is shorter than what is missing. Within the page of the packet's last byte that
//! harms nobody: what was read too much is masked out. Behind it may be a page that must not be touched, as behind
//! the last frame of a region. Such a packet, one in some 300 at random places, is worked on in a copy.

use ipsec_mb_sys as sys;

use crate::manager::{Manager, Packets};
use crate::slot::MAX_PACKET_LEN;

/// AES's block, in bytes.
const BLOCK_LEN: usize = 16;

/// The smallest page of any x86-64 processor, in bytes.
const PAGE_LEN: usize = 4096;

/// Room for the copy of one packet, with a block behind it.
pub(crate) struct Edge(Box<[u8]>);

impl Edge {
    pub(crate) fn new() -> Edge {
        Edge(vec![0; MAX_PACKET_LEN + BLOCK_LEN].into_boxed_slice())
    }

    /// True if the library would read another page than the packet's, for this entry of the packet.
    pub(crate) fn concerns(entry: &sys::Packet, packet: &[u8]) -> bool {
        let read_len = (entry.hash_len as usize).next_multiple_of(BLOCK_LEN);
        // Of the pages around the packet's last byte and the last one read.
        let page = |len: usize| (packet.as_ptr().addr() + len).saturating_sub(1) / PAGE_LEN;
        entry.hash == sys::MAC_CMAC
            && read_len > packet.len()
            && page(read_len) != page(packet.len())
    }

    /// Runs the entry of a packet by itself; false if the library failed, and the packet is as it was then.
    pub(crate) fn run(
        &mut self,
        manager: &mut Manager,
        mut entry: sys::Packet,
        packet: &mut [u8],
    ) -> bool {
        let Some(copy) = self.0.get_mut(..packet.len()) else { return false };
        copy.copy_from_slice(packet);
        entry.packet = copy.as_mut_ptr();
        let mut alone = Packets::new();
        alone.push(entry);
        // SAFETY: keys, IV and tag are the entry's own, borrowed by the caller; the packet is the copy, as long as the
        // one that the entry was made for, with a block of room behind it.
        let ran = unsafe { manager.scheduled(&alone) };
        if ran {
            packet.copy_from_slice(copy);
        }
        copy.fill(0);
        ran
    }
}
