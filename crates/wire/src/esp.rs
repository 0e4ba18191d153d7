//! The ESP header (RFC 4303 §2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |               Security Parameters Index (SPI)                 |
//! +---------------------------------------------------------------+
//! |              Sequence Number (its low 32 bits)                |
//! +---------------------------------------------------------------+
//! |        IV, ciphertext with trailer, ICV: the suite's matter   |
//! ```

use core::fmt;

use crate::error::NoRoom;

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = 8;

/// A Security Parameters Index, in host byte order.
///
/// 0 is for local use and never on the wire, 1 to 255 are reserved (RFC 4303 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spi(pub u32);

impl fmt::Display for Spi {
    /// As `ip xfrm` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// The packet is too short for an ESP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the ESP header is truncated")]
pub struct EspTooShort;

impl From<EspTooShort> for outcome::DropReason {
    fn from(_: EspTooShort) -> Self {
        outcome::DropReason::MalformedEsp
    }
}

/// SPI and sequence number: the cleartext beginning of an ESP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EspHeader {
    /// SPI of the SA, host byte order.
    pub spi: Spi,
    /// The low 32 bits of the sequence number.
    pub seq: u32,
}

impl EspHeader {
    /// Parses the header that an ESP packet begins with.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, EspTooShort> {
        let [a, b, c, d, e, f, g, h] = *bytes.first_chunk::<HEADER_LEN>().ok_or(EspTooShort)?;
        Ok(Self {
            spi: Spi(u32::from_be_bytes([a, b, c, d])),
            seq: u32::from_be_bytes([e, f, g, h]),
        })
    }

    /// The header's bytes.
    pub const fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let [a, b, c, d] = self.spi.0.to_be_bytes();
        let [e, f, g, h] = self.seq.to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// Writes the header to the buffer's beginning.
    ///
    /// # Errors
    /// The buffer is shorter than 8 bytes.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), NoRoom> {
        *out.first_chunk_mut().ok_or(NoRoom)? = self.to_bytes();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_spi_is_shown_as_linux_does() {
        assert_eq!(Spi(0x00c0_ffee).to_string(), "0x00c0ffee");
    }

    #[test]
    fn short_packets_are_refused() {
        for len in 0..8 {
            assert_eq!(EspHeader::parse(&[0; 8][..len]), Err(EspTooShort));
        }
    }

    proptest! {
        #[test]
        fn round_trip(spi: u32, seq: u32) {
            let header = EspHeader { spi: Spi(spi), seq };
            let mut bytes = [0u8; 9];
            header.emit(&mut bytes).unwrap();
            prop_assert_eq!(&bytes[..4], &spi.to_be_bytes());
            prop_assert_eq!(EspHeader::parse(&bytes), Ok(header));
            prop_assert_eq!(header.emit(&mut bytes[..7]), Err(NoRoom));
        }
    }
}
