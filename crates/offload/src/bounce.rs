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
    /// True if software checks the device's result.
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

/// Writes the length of a packet into its header, which is as [`head`](crate::offloaded::head) makes it: of length 0, with
/// the checksum of that.
#[inline]
pub(crate) fn fill_len(packet: &mut [u8]) {
    let len = packet.len();
    let be = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
    if packet.first() != Some(&0x45) {
        if let Some(field) = packet.get_mut(4..6) {
            field.copy_from_slice(&be(len.saturating_sub(40)).to_be_bytes());
        }
        return;
    }
    let len = be(len);
    let Some(header) = packet.first_chunk_mut::<20>() else { return };
    header[2..4].copy_from_slice(&len.to_be_bytes());
    // The sum of what was there, and of the field that was 0 (RFC 1624).
    let sum = u32::from(!u16::from_be_bytes([header[10], header[11]])) + u32::from(len);
    let folded = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;
    use crate::offloaded::head;

    #[test]
    fn headers_of_every_length_are_right() {
        let v4 = |last| IpAddr::from([192, 0, 2, last]);
        let v6 = |last| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]);
        for len in [36_usize, 100, 1400, 9000, 65_500] {
            for head in [head(v4(1), v4(2)), head(v4(255), v4(0)), head(v6(1), v6(2))] {
                let mut packet = head.clone();
                packet.resize(len.max(head.len() + 16), 7);
                fill_len(&mut packet);
                let h = wire::parse_ip(&packet).expect("length and checksum are right");
                assert_eq!(usize::from(h.total_len), packet.len());
            }
        }
    }
}
