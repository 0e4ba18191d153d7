//! Captures as classic pcap files with nanosecond times, which tcpdump and Wireshark read.
//!
//! Layout: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-03.html>, §4 and §5.

use std::io::{self, Write};
use std::time::Duration;

/// First header of a file's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// Ethernet frames without the FCS.
    Ethernet,
    /// IPv4 or IPv6 packets.
    RawIp,
}

/// Writes a pcap file, packet by packet. Not for the hot path: every packet is a write; give it a
/// `BufWriter`.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    out: W,
    snap_len: usize,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file's header. Of each packet the first `snap_len` bytes are kept.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn new(mut out: W, link_type: LinkType, snap_len: u32) -> io::Result<Self> {
        let link_type: u32 = match link_type {
            LinkType::Ethernet => 1,
            LinkType::RawIp => 101,
        };
        let mut header = [0_u8; 24];
        header[0..4].copy_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
        header[4..6].copy_from_slice(&2_u16.to_le_bytes());
        header[6..8].copy_from_slice(&4_u16.to_le_bytes());
        header[16..20].copy_from_slice(&snap_len.to_le_bytes());
        header[20..24].copy_from_slice(&link_type.to_le_bytes());
        out.write_all(&header)?;
        Ok(Self { out, snap_len: snap_len as usize })
    }

    /// Appends a packet; `time` is since the Unix epoch.
    ///
    /// # Errors
    ///
    /// Errors of the writer.
    pub fn packet(&mut self, time: Duration, data: &[u8]) -> io::Result<()> {
        let kept = data.get(..self.snap_len).unwrap_or(data);
        let mut header = [0_u8; 16];
        // Seconds wrap in 2106, as the format has it.
        header[0..4].copy_from_slice(&(time.as_secs() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&time.subsec_nanos().to_le_bytes());
        header[8..12].copy_from_slice(&(kept.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&(data.len() as u32).to_le_bytes());
        self.out.write_all(&header)?;
        self.out.write_all(kept)
    }

    /// Flushes, and returns the writer.
    ///
    /// # Errors
    ///
    /// Errors of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_and_packet_headers() {
        let mut writer = PcapWriter::new(Vec::new(), LinkType::RawIp, 4).expect("memory");
        writer.packet(Duration::new(3, 9), &[1, 2, 3, 4, 5, 6]).expect("memory");
        let file = writer.finish().expect("memory");
        assert_eq!(file.len(), 24 + 16 + 4);
        assert_eq!(file[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(file[16..24], [4, 0, 0, 0, 101, 0, 0, 0]);
        assert_eq!(file[24..40], [3, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0]);
        assert_eq!(file[40..], [1, 2, 3, 4]);
    }
}
