//! A packet's memory in a device's queue.

use crate::queue::{Buffer, NoRoom};

/// A packet's memory in a queue, and whose it is.
pub struct Bounce {
    pub(crate) bytes: Vec<u8>,
    pub(crate) head_len: usize,
    /// The run of the engine that it was submitted in.
    pub(crate) turn: u64,
    /// The job's place in that run.
    pub(crate) at: usize,
    /// Whether software checks what the device makes of it.
    pub(crate) is_checked: bool,
}

impl Bounce {
    pub(crate) fn with_capacity(most: usize) -> Bounce {
        let bytes = Vec::with_capacity(most);
        Bounce { bytes, head_len: 0, turn: 0, at: 0, is_checked: false }
    }

    /// A packet behind an outer header of `head_len` bytes.
    pub(crate) fn with_packet(packet: &[u8], head_len: usize) -> Bounce {
        Bounce { bytes: packet.to_vec(), head_len, ..Bounce::with_capacity(0) }
    }

    /// The packet behind its outer header.
    pub(crate) fn esp(&self) -> &[u8] {
        self.bytes.get(self.head_len..).unwrap_or_default()
    }
}

impl Buffer for Bounce {
    fn packet(&self) -> &[u8] {
        &self.bytes
    }

    fn packet_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn set_packet(&mut self, packet: &[u8]) -> Result<(), NoRoom> {
        if packet.len() > self.bytes.capacity() {
            return Err(NoRoom);
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(packet);
        Ok(())
    }
}

/// Writes the length of a packet into its header.
pub(crate) fn fill_len(packet: &mut [u8]) {
    let len = packet.len();
    let (at, len) = match packet.first() {
        Some(0x45) => (2, len),
        _ => (4, len.saturating_sub(40)),
    };
    if let Some(field) = packet.get_mut(at..at + 2) {
        field.copy_from_slice(&u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes());
    }
    if at == 2
        && let Some(header) = packet.get_mut(..20)
    {
        if let Some(checksum) = header.get_mut(10..12) {
            checksum.fill(0);
        }
        wire::ipv4::fill_checksum(header);
    }
}
