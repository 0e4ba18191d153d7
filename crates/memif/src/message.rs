//! The messages of the control channel: 128 bytes, packed, in the machine's byte order.
//!
//! ```text
//!   0      2
//!   | type | type's own fields ... | zero up to 128 |
//! ```
//!
//! | type | from | offset: field |
//! | --- | --- | --- |
//! | 1 ack | both | |
//! | 2 hello | server | 2: name, 34: least version, 36: most, 38: last region, 40: last ring to the client, 42: last ring to the server, 44: log2 of the ring size |
//! | 3 init | client | 2: version, 4: interface id, 8: mode, 9: secret, 33: name |
//! | 4 add region | client | 2: index, 4: size; a descriptor |
//! | 5 add ring | client | 2: flags, 4: index, 6: region, 8: offset, 12: log2 of the size, 13: private header; a descriptor |
//! | 6 connect | client | 2: name |
//! | 7 connected | server | 2: name |
//! | 8 disconnect | both | 2: code, 6: text |
//!
//! Formats as in VPP's `memif.h` and DPDK's `drivers/net/memif/memif.h`, version 2.0.

/// Bytes of every message.
pub const LEN: usize = 128;

/// Version 2.0, the only one.
pub const VERSION: u16 = 0x0200;

/// Flag of [`AddRing`]: the ring leads from client to server.
pub const TO_SERVER: u16 = 1;

/// A text of a fixed length; zeros follow where it is shorter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>(pub [u8; N]);

/// The name of a program or an interface.
pub type Name = Text<32>;

/// Secret that a client must know to be let in.
pub type Secret = Text<24>;

impl<const N: usize> Text<N> {
    /// As much of a text as fits.
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; N];
        for (to, from) in bytes.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        Self(bytes)
    }

    /// True if both are the same. The time taken does not tell where they differ.
    pub fn is_same(&self, other: &Self) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |all, (a, b)| all | (a ^ b));
        core::hint::black_box(differing) == 0
    }
}

impl<const N: usize> core::fmt::Display for Text<N> {
    /// Up to the first zero, without what a terminal would act upon.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(N);
        let text = String::from_utf8_lossy(self.0.get(..len).unwrap_or_default());
        text.chars().try_for_each(|c| write!(f, "{}", if c.is_control() { '?' } else { c }))
    }
}

impl<const N: usize> core::fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{self}")
    }
}

/// Kind of the packets in the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Ethernet frames without FCS.
    Ethernet,
    /// IPv4 or IPv6 packets.
    Ip,
    /// VPP's punt and inject.
    PuntInject,
    /// A mode without a meaning here.
    Other(u8),
}

impl Mode {
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Ethernet,
            1 => Self::Ip,
            2 => Self::PuntInject,
            _ => Self::Other(number),
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::Ethernet => 0,
            Self::Ip => 1,
            Self::PuntInject => 2,
            Self::Other(number) => number,
        }
    }
}

/// Limits of a server. The numbers of regions and rings are the greatest possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The server's program.
    pub name: Name,
    /// The least version.
    pub min_version: u16,
    /// The greatest version.
    pub max_version: u16,
    /// The last region.
    pub max_region: u16,
    /// The last ring that leads to the client.
    pub max_to_client: u16,
    /// The last ring that leads to the server.
    pub max_to_server: u16,
    /// The longest ring, as a power of two.
    pub max_log2_ring_size: u8,
}

/// Which interface a client wants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Init {
    /// Version that the client speaks.
    pub version: u16,
    /// The interface's number at the socket.
    pub id: u32,
    /// Kind of the packets.
    pub mode: Mode,
    /// Secret for a server that asks for one.
    pub secret: Secret,
    /// The client's program.
    pub name: Name,
}

impl core::fmt::Debug for Init {
    /// Without the secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { version, id, mode, name, .. } = self;
        write!(f, "Init {{ version: {version:#x}, id: {id}, mode: {mode:?}, name: {name} }}")
    }
}

/// A ring in a region. The descriptor that comes with it is an eventfd: its reader waits on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddRing {
    /// [`TO_SERVER`], or none.
    pub flags: u16,
    /// Number of the ring in its direction.
    pub index: u16,
    /// The region that it lies in.
    pub region: u16,
    /// Where it lies there, in bytes.
    pub offset: u32,
    /// How many descriptors it has, as a power of two.
    pub log2_size: u8,
    /// Bytes in front of each packet, for the two programs alone.
    pub private_header_len: u16,
}

/// A message of the control channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The last message was taken.
    Ack,
    /// The server's first.
    Hello(Hello),
    /// The client's first.
    Init(Init),
    /// A region, whose memory file comes with it.
    AddRegion {
        /// Number of the region.
        index: u16,
        /// Length in bytes.
        size: u64,
    },
    /// One ring, in a region that was told.
    AddRing(AddRing),
    /// All regions and rings have been told.
    Connect {
        /// The client's interface.
        name: Name,
    },
    /// Packets may go.
    Connected {
        /// The server's interface.
        name: Name,
    },
    /// The sender ends the connection.
    Disconnect {
        /// The peer's own number for it.
        code: u32,
        /// Reason, for the log.
        text: Text<96>,
    },
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The message is not 128 bytes long.
    #[error("a message of {0} bytes; all have 128")]
    Length(usize),
    /// A type that version 2.0 does not have.
    #[error("a message of type {0}; there are 1 to 8")]
    Type(u16),
}

/// Bytes from an offset on; those past the end are 0. All offsets here are constants inside a message.
fn at<const N: usize>(bytes: &[u8; LEN], offset: usize) -> [u8; N] {
    core::array::from_fn(|i| bytes.get(offset + i).copied().unwrap_or_default())
}

fn u16_at(bytes: &[u8; LEN], offset: usize) -> u16 {
    u16::from_ne_bytes(at(bytes, offset))
}

fn u32_at(bytes: &[u8; LEN], offset: usize) -> u32 {
    u32::from_ne_bytes(at(bytes, offset))
}

fn put(bytes: &mut [u8; LEN], offset: usize, field: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(offset).zip(field) {
        *to = *from;
    }
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        let Ok(b) = <&[u8; LEN]>::try_from(bytes) else {
            return Err(MessageError::Length(bytes.len()));
        };
        Ok(match u16_at(b, 0) {
            1 => Self::Ack,
            2 => Self::Hello(Hello {
                name: Text(at(b, 2)),
                min_version: u16_at(b, 34),
                max_version: u16_at(b, 36),
                max_region: u16_at(b, 38),
                max_to_client: u16_at(b, 40),
                max_to_server: u16_at(b, 42),
                max_log2_ring_size: b[44],
            }),
            3 => Self::Init(Init {
                version: u16_at(b, 2),
                id: u32_at(b, 4),
                mode: Mode::of(b[8]),
                secret: Text(at(b, 9)),
                name: Text(at(b, 33)),
            }),
            4 => Self::AddRegion { index: u16_at(b, 2), size: u64::from_ne_bytes(at(b, 4)) },
            5 => Self::AddRing(AddRing {
                flags: u16_at(b, 2),
                index: u16_at(b, 4),
                region: u16_at(b, 6),
                offset: u32_at(b, 8),
                log2_size: b[12],
                private_header_len: u16_at(b, 13),
            }),
            6 => Self::Connect { name: Text(at(b, 2)) },
            7 => Self::Connected { name: Text(at(b, 2)) },
            8 => Self::Disconnect { code: u32_at(b, 2), text: Text(at(b, 6)) },
            other => return Err(MessageError::Type(other)),
        })
    }

    /// Writes a message.
    pub fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let b = &mut bytes;
        let kind: u16 = match self {
            Self::Ack => 1,
            Self::Hello(hello) => {
                put(b, 2, &hello.name.0);
                put(b, 34, &hello.min_version.to_ne_bytes());
                put(b, 36, &hello.max_version.to_ne_bytes());
                put(b, 38, &hello.max_region.to_ne_bytes());
                put(b, 40, &hello.max_to_client.to_ne_bytes());
                put(b, 42, &hello.max_to_server.to_ne_bytes());
                put(b, 44, &[hello.max_log2_ring_size]);
                2
            }
            Self::Init(init) => {
                put(b, 2, &init.version.to_ne_bytes());
                put(b, 4, &init.id.to_ne_bytes());
                put(b, 8, &[init.mode.number()]);
                put(b, 9, &init.secret.0);
                put(b, 33, &init.name.0);
                3
            }
            Self::AddRegion { index, size } => {
                put(b, 2, &index.to_ne_bytes());
                put(b, 4, &size.to_ne_bytes());
                4
            }
            Self::AddRing(ring) => {
                put(b, 2, &ring.flags.to_ne_bytes());
                put(b, 4, &ring.index.to_ne_bytes());
                put(b, 6, &ring.region.to_ne_bytes());
                put(b, 8, &ring.offset.to_ne_bytes());
                put(b, 12, &[ring.log2_size]);
                put(b, 13, &ring.private_header_len.to_ne_bytes());
                5
            }
            Self::Connect { name } => {
                put(b, 2, &name.0);
                6
            }
            Self::Connected { name } => {
                put(b, 2, &name.0);
                7
            }
            Self::Disconnect { code, text } => {
                put(b, 2, &code.to_ne_bytes());
                put(b, 6, &text.0);
                8
            }
        };
        put(b, 0, &kind.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_where_the_protocol_has_them() {
        let ring = AddRing {
            flags: TO_SERVER,
            index: 0x0203,
            region: 0x0405,
            offset: 0x0607_0809,
            log2_size: 10,
            private_header_len: 0x0b0c,
        };
        let bytes = Message::AddRing(ring).emit();
        let expected: [u8; 16] = [5, 0, 1, 0, 3, 2, 5, 4, 9, 8, 7, 6, 10, 0x0c, 0x0b, 0];
        assert_eq!(bytes[..16], expected);
        let init = Init {
            version: VERSION,
            id: 7,
            mode: Mode::Ip,
            secret: Text::new("s"),
            name: Text::new("n"),
        };
        let bytes = Message::Init(init).emit();
        assert_eq!(bytes[..10], [3, 0, 0, 2, 7, 0, 0, 0, 1, b's']);
        assert_eq!((bytes[33], bytes[34]), (b'n', 0));
        let region = Message::AddRegion { index: 1, size: 0x1122_3344_5566_7788 }.emit();
        assert_eq!(region[..12], [4, 0, 1, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    }

    #[test]
    fn what_is_no_message() {
        assert_eq!(Message::parse(&[1; 127]), Err(MessageError::Length(127)));
        assert_eq!(Message::parse(&[0; 128]), Err(MessageError::Type(0)));
        assert_eq!(Message::parse(&[9; 128]), Err(MessageError::Type(0x0909)));
    }

    #[test]
    fn texts_do_not_reach_a_terminal_raw() {
        assert_eq!(Text::<8>(*b"a\x1b[2J\0x\0").to_string(), "a?[2J");
        assert!(Secret::new("one").is_same(&Secret::new("one")));
        assert!(!Secret::new("one").is_same(&Secret::new("onE")));
    }

    proptest! {
        /// A message that is read and written again reads the same: nothing of a field is lost.
        #[test]
        fn round_trip(kind in 1_u8..=8, mut bytes in prop::collection::vec(any::<u8>(), LEN)) {
            (bytes[0], bytes[1]) = (kind, 0);
            let message = Message::parse(&bytes).unwrap();
            prop_assert_eq!(Message::parse(&message.emit()), Ok(message));
        }
    }
}
