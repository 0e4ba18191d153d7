//! pcapng: what captures are written in.
//!
//! ```text
//!   section header | interface description ... | enhanced packet ... | interface statistics ...
//!
//!   each block:   type (4)  length (4)  body, padded to words  options  length (4)
//!   each option:  code (2)  length (2)  value, padded to words
//! ```
//!
//! Draft-ietf-opsawg-pcapng, in little-endian order, with nanoseconds. The daemon writes blocks; the command that
//! has asked passes them on whole, and reads of them the kind and what was lost.

/// Link type of Ethernet frames (draft-ietf-opsawg-pcaplinktype).
pub const LINK_ETHERNET: u16 = 1;
/// Link type of IP packets without a header before them.
pub const LINK_RAW: u16 = 101;

/// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// Tells a reader the order of bytes.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Options of every block.
const COMMENT: u16 = 1;

/// The longest block that is believed, in bytes.
const MAX_BLOCK_LEN: usize = 1 << 20;

/// Bytes of a block around its body.
const AROUND: usize = 12;

/// Which way a packet goes, as `epb_flags` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To this machine.
    In = 1,
    /// From this machine.
    Out = 2,
}

/// A block of one packet.
pub struct PacketBlock<'p> {
    /// The interface's number.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Bytes that were kept.
    pub bytes: &'p [u8],
    /// Length of the whole packet, in bytes.
    pub len: u32,
    /// Which way it goes.
    pub way: Way,
    /// Comments, for people.
    pub comments: &'p [String],
}

/// Begins a file.
pub fn section(to: &mut Vec<u8>, application: &str) {
    block(to, SECTION, |to| {
        put(to, &BYTE_ORDER.to_le_bytes());
        // Version 1.0, of a section whose length is not known.
        put(to, &[1, 0, 0, 0]);
        put(to, &u64::MAX.to_le_bytes());
        option(to, 4, application.as_bytes());
        end_options(to);
    });
}

/// Describes the next interface.
pub fn interface(to: &mut Vec<u8>, link: u16, snap_len: u32, name: &str, description: &str) {
    block(to, INTERFACE, |to| {
        put(to, &u32::from(link).to_le_bytes());
        put(to, &snap_len.to_le_bytes());
        option(to, 2, name.as_bytes());
        option(to, 3, description.as_bytes());
        // if_tsresol: nanoseconds.
        option(to, 9, &[9]);
        end_options(to);
    });
}

/// Adds a packet.
pub fn packet(to: &mut Vec<u8>, packet: &PacketBlock<'_>) {
    block(to, PACKET, |to| {
        put(to, &packet.interface.to_le_bytes());
        put_time(to, packet.time_ns);
        put(to, &(packet.bytes.len() as u32).to_le_bytes());
        put(to, &packet.len.to_le_bytes());
        put(to, packet.bytes);
        pad(to, packet.bytes.len());
        for comment in packet.comments {
            option(to, COMMENT, comment.as_bytes());
        }
        option(to, 2, &(packet.way as u32).to_le_bytes());
        end_options(to);
    });
}

/// Tells how many packets an interface has had, and how many of them were lost.
pub fn statistics(
    to: &mut Vec<u8>,
    interface: u32,
    time_ns: u64,
    (received, lost): (u64, u64),
    comment: Option<&str>,
) {
    block(to, STATISTICS, |to| {
        put(to, &interface.to_le_bytes());
        put_time(to, time_ns);
        if let Some(comment) = comment {
            option(to, COMMENT, comment.as_bytes());
        }
        option(to, ISB_RECEIVED, &received.to_le_bytes());
        option(to, ISB_LOST, &lost.to_le_bytes());
        end_options(to);
    });
}

const ISB_RECEIVED: u16 = 4;
const ISB_LOST: u16 = 5;

fn block(to: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    put(to, &kind.to_le_bytes());
    put(to, &[0; 4]);
    body(to);
    let len = ((to.len() - start + 4) as u32).to_le_bytes();
    put(to, &len);
    if let Some(place) = to.get_mut(start + 4..start + 8) {
        place.copy_from_slice(&len);
    }
}

/// One value; what is too long for it is cut.
fn option(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
    put(to, &code.to_le_bytes());
    put(to, &(value.len() as u16).to_le_bytes());
    put(to, value);
    pad(to, value.len());
}

fn end_options(to: &mut Vec<u8>) {
    put(to, &[0; 4]);
}

fn put_time(to: &mut Vec<u8>, time_ns: u64) {
    put(to, &((time_ns >> 32) as u32).to_le_bytes());
    put(to, &(time_ns as u32).to_le_bytes());
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(bytes);
}

fn pad(to: &mut Vec<u8>, len: usize) {
    to.resize(to.len() + len.next_multiple_of(4) - len, 0);
}

/// Kind of a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Block<'b> {
    /// First blocks of a file: section and interfaces.
    Head,
    /// A captured packet.
    Packet,
    /// Packets that were lost, and what there is to say.
    Statistics {
        /// Packets that were lost.
        lost: u64,
        /// Comment, for people.
        comment: Option<&'b str>,
    },
    /// A block of another kind.
    Other,
}

/// The length of the block that `bytes` begin with; none while its head is not there.
///
/// # Errors
/// It is no block.
pub fn block_len(bytes: &[u8]) -> Result<Option<usize>, NoBlock> {
    let Some(len) = word(bytes, 4) else { return Ok(None) };
    match usize::try_from(len) {
        Ok(len) if (AROUND..=MAX_BLOCK_LEN).contains(&len) && len.is_multiple_of(4) => {
            Ok(Some(len))
        }
        _ => Err(NoBlock),
    }
}

/// Kind of a whole block.
pub fn kind(block: &[u8]) -> Block<'_> {
    match word(block, 0) {
        Some(SECTION | INTERFACE) => Block::Head,
        Some(PACKET) => Block::Packet,
        Some(STATISTICS) => {
            let lost = find_option(block, ISB_LOST).and_then(|value| value.try_into().ok());
            let comment = find_option(block, COMMENT).and_then(|text| str::from_utf8(text).ok());
            Block::Statistics { lost: lost.map_or(0, u64::from_le_bytes), comment }
        }
        _ => Block::Other,
    }
}

/// Error: the bytes are no block of pcapng.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what came is no pcapng")]
pub struct NoBlock;

/// An option of a block of statistics.
fn find_option(block: &[u8], code: u16) -> Option<&[u8]> {
    let mut at = 20;
    loop {
        let [a, b, c, d] = *block.get(at..)?.first_chunk()?;
        let (found, len) = (u16::from_le_bytes([a, b]), usize::from(u16::from_le_bytes([c, d])));
        if found == 0 {
            return None;
        }
        let value = block.get(at + 4..)?.get(..len)?;
        if found == code {
            return Some(value);
        }
        at += 4 + len.next_multiple_of(4);
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(mut bytes: &[u8]) -> Vec<&[u8]> {
        let mut all = Vec::new();
        while let Some(len) = block_len(bytes).expect("a block") {
            let (block, rest) = bytes.split_at(len);
            assert_eq!(word(block, len - 4), word(block, 4), "both lengths");
            all.push(block);
            bytes = rest;
        }
        assert!(bytes.is_empty());
        all
    }

    #[test]
    fn what_is_written_is_found_again() {
        let mut file = Vec::new();
        section(&mut file, "culvert 1");
        interface(&mut file, LINK_RAW, 100, "wire", "what is on the wire");
        let comments = ["sent".to_owned(), "SA".to_owned()];
        for len in 0..9 {
            let bytes = &[7; 9][..len];
            let way = Way::Out;
            let block =
                PacketBlock { interface: 0, time_ns: 5, bytes, len: 9, way, comments: &comments };
            packet(&mut file, &block);
        }
        statistics(&mut file, 0, 6, (12, 3), Some("the end"));
        statistics(&mut file, 1, 6, (0, 0), None);
        let blocks = blocks(&file);
        let kinds: Vec<_> = blocks.iter().map(|block| kind(block)).collect();
        assert_eq!(kinds[..2], [Block::Head, Block::Head]);
        assert!(kinds[2..11].iter().all(|kind| *kind == Block::Packet));
        assert_eq!(kinds[11], Block::Statistics { lost: 3, comment: Some("the end") });
        assert_eq!(kinds[12], Block::Statistics { lost: 0, comment: None });
        assert_eq!(kinds.len(), 13);
    }

    #[test]
    fn what_is_no_block_is_refused_and_what_is_cut_waits() {
        assert_eq!(block_len(b"{\"error\":"), Err(NoBlock));
        assert_eq!(block_len(&[6, 0, 0, 0, 0, 0, 0, 0]), Err(NoBlock));
        assert_eq!(block_len(&[6, 0, 0, 0, 13, 0, 0, 0]), Err(NoBlock));
        assert_eq!(block_len(&[6, 0, 0, 0, 12, 0, 0]), Ok(None));
        // Options that reach beyond the block end it.
        let mut file = Vec::new();
        statistics(&mut file, 0, 0, (1, 2), None);
        file[22] = 0xff;
        assert_eq!(kind(&file), Block::Statistics { lost: 0, comment: None });
    }
}
