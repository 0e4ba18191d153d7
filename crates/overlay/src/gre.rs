//! GRE (RFC 2784) with keys (RFC 2890).
//!
//! ```text
//!    0                   1                   2                   3
//!    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |C| |K|S| Reserved0       | Ver |         Protocol Type         |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |      Checksum (optional)      |       Reserved1 (optional)    |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |                         Key (optional)                        |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use wire::{EtherType, checksum};

/// The protocol type of whole Ethernet frames (transparent Ethernet bridging).
pub(crate) const ETHERNET: EtherType = EtherType(0x6558);

const FLAG_CHECKSUM: u16 = 0x8000;
const FLAG_KEY: u16 = 0x2000;

/// Where the checksum stands, if there is one.
const CHECKSUM: usize = 4;

/// A header as it is written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gre {
    pub(crate) kind: EtherType,
    pub(crate) key: Option<u32>,
    pub(crate) has_checksum: bool,
}

impl Gre {
    /// Length in bytes.
    pub(crate) const fn len(&self) -> usize {
        let mut len = 4;
        if self.has_checksum {
            len += 4;
        }
        if self.key.is_some() {
            len += 4;
        }
        len
    }

    /// Appends it, with a checksum of zero.
    pub(crate) fn append(&self, to: &mut Vec<u8>) {
        let mut flags = 0;
        if self.has_checksum {
            flags |= FLAG_CHECKSUM;
        }
        if self.key.is_some() {
            flags |= FLAG_KEY;
        }
        to.extend(flags.to_be_bytes());
        to.extend(self.kind.0.to_be_bytes());
        if self.has_checksum {
            to.extend([0; 4]);
        }
        if let Some(key) = self.key {
            to.extend(key.to_be_bytes());
        }
    }

    /// Reads one. `None` for another version, for sequence numbers and routing, and where bytes are missing.
    ///
    /// Linux passes over reserved bits that it does not know; here only a header without them is read.
    pub(crate) fn read(bytes: &[u8]) -> Option<Gre> {
        let (start, mut rest) = bytes.split_first_chunk::<4>()?;
        let [flags_hi, flags_lo, kind_hi, kind_lo] = *start;
        let flags = u16::from_be_bytes([flags_hi, flags_lo]);
        if flags & !(FLAG_CHECKSUM | FLAG_KEY) != 0 {
            return None;
        }
        let has_checksum = flags & FLAG_CHECKSUM != 0;
        if has_checksum {
            rest = rest.get(4..)?;
        }
        let key = match flags & FLAG_KEY {
            0 => None,
            _ => Some(u32::from_be_bytes(*rest.first_chunk()?)),
        };
        Some(Gre { kind: EtherType(u16::from_be_bytes([kind_hi, kind_lo])), key, has_checksum })
    }
}

/// Writes the checksum over a header that has one, and all behind it. It is zero yet.
pub(crate) fn fill_checksum(gre: &mut [u8]) {
    let sum = checksum::checksum(gre);
    if let Some(place) = gre.get_mut(CHECKSUM..).and_then(<[u8]>::first_chunk_mut) {
        *place = sum.to_be_bytes();
    }
}

/// True if the checksum over a header and all behind it is right.
pub(crate) fn is_checksum_right(gre: &[u8]) -> bool {
    checksum::checksum(gre) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_is_read_as_it_was_written() {
        for key in [None, Some(0), Some(0xfeed_beef)] {
            for has_checksum in [false, true] {
                let gre = Gre { kind: EtherType::IPV6, key, has_checksum };
                let mut bytes = Vec::new();
                gre.append(&mut bytes);
                assert_eq!(bytes.len(), gre.len());
                assert_eq!(Gre::read(&bytes), Some(gre));
                for short in 0..bytes.len() {
                    assert_eq!(Gre::read(&bytes[..short]), None, "{short} bytes");
                }
            }
        }
    }

    #[test]
    fn other_versions_sequence_numbers_and_routing_are_not_read() {
        for flags in [0x1000_u16, 0x4000, 0x0001, 0x0800, 0x0100, 0x0080] {
            let [hi, lo] = flags.to_be_bytes();
            assert_eq!(Gre::read(&[hi, lo, 8, 0, 0, 0, 0, 0]), None, "{flags:04x}");
        }
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let gre = Gre { kind: EtherType::IPV4, key: Some(7), has_checksum: true };
        let mut bytes = Vec::new();
        gre.append(&mut bytes);
        bytes.extend([1, 2, 3]);
        fill_checksum(&mut bytes);
        assert!(is_checksum_right(&bytes));
        bytes[14] ^= 1;
        assert!(!is_checksum_right(&bytes));
    }
}
