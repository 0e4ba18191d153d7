//! Versions of QUIC whose Initial packets can be read.

/// Version of QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 1 (RFC 9000).
    V1,
    /// Version 2 (RFC 9369).
    V2,
    /// Drafts 29 to 32 of version 1.
    Draft29,
    /// Drafts 23 to 28 of version 1.
    Draft23,
}

impl Version {
    /// The version with a number of a long header. Drafts 33 and 34 are as version 1.
    pub const fn new(number: u32) -> Option<Version> {
        match number {
            0x0000_0001 | 0xff00_0021 | 0xff00_0022 => Some(Version::V1),
            0x6b33_43cf => Some(Version::V2),
            0xff00_001d..=0xff00_0020 => Some(Version::Draft29),
            0xff00_0017..=0xff00_001c => Some(Version::Draft23),
            _ => None,
        }
    }

    /// Number of the version in a long header; of drafts that of the last that is alike.
    pub const fn number(self) -> u32 {
        match self {
            Version::V1 => 0x0000_0001,
            Version::V2 => 0x6b33_43cf,
            Version::Draft29 => 0xff00_0020,
            Version::Draft23 => 0xff00_001c,
        }
    }

    /// Salt of the Initial secret (RFC 9001 §5.2, RFC 9369 §3.3.1; the same section of the drafts).
    pub(super) const fn salt(self) -> [u8; 20] {
        match self {
            Version::V1 => [
                0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8,
                0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a,
            ],
            Version::V2 => [
                0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26,
                0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
            ],
            Version::Draft29 => [
                0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61,
                0x11, 0xe0, 0x43, 0x90, 0xa8, 0x99,
            ],
            Version::Draft23 => [
                0xc3, 0xee, 0xf7, 0x12, 0xc7, 0x2e, 0xbb, 0x5a, 0x11, 0xa7, 0xd2, 0x43, 0x2b, 0xb4,
                0x63, 0x65, 0xbe, 0xf9, 0xf5, 0x02,
            ],
        }
    }

    /// Type of an Initial packet in the first byte of a long header (RFC 9000 §17.2.2, RFC 9369 §3.2).
    pub(super) const fn initial(self) -> u8 {
        match self {
            Version::V2 => 1,
            _ => 0,
        }
    }

    /// Labels of key, IV and header protection (RFC 9001 §5.1, RFC 9369 §3.3.2).
    pub(super) const fn labels(self) -> [&'static str; 3] {
        match self {
            Version::V2 => ["tls13 quicv2 key", "tls13 quicv2 iv", "tls13 quicv2 hp"],
            _ => ["tls13 quic key", "tls13 quic iv", "tls13 quic hp"],
        }
    }
}
