//! The header of an AGGFRAG payload (RFC 9347, section 6.1).
//!
//! ```text
//!    0                   1                   2                   3
//!    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |  Sub-type (0) |   Reserved    |          BlockOffset          |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |  Sub-type (1) |  Reserved |P|E|          BlockOffset          |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |                          LossEventRate                        |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |                      RTT                  |   Echo Delay ...
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!        ... Echo Delay   |               Transmit Delay            |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |                              TVal                             |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |                             TEcho                             |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

/// The header of a payload. What is reserved is sent as zero, and not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Bytes from the header's end to the first block that begins in this payload: what is left, here and in payloads to
    /// come, of a packet that began before. May lie behind the payload's end.
    pub block_offset: u16,
    /// Congestion information, of sub-type 1 alone.
    pub congestion: Option<Congestion>,
}

/// Congestion information of one end for the other (RFC 9347, sections 3 and 6.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Congestion {
    /// The payload is a probe of the path's MTU.
    pub is_probe: bool,
    /// Payloads came with a mark of congestion (ECN CE).
    pub is_congested: bool,
    /// The inverse of the loss event rate (RFC 5348); 0 for no loss.
    pub loss_event_rate: u32,
    /// Round-trip time as the sender of this header estimates it, in microseconds; at most [`Congestion::MAX_RTT`].
    pub rtt_us: u32,
    /// From when the echoed value came to when it was sent, in microseconds; at most [`Congestion::MAX_DELAY`].
    pub echo_delay_us: u32,
    /// The interval at which payloads are sent, in microseconds; at most [`Congestion::MAX_DELAY`].
    pub transmit_delay_us: u32,
    /// A value that the other end is to send back.
    pub value: u32,
    /// The value that is sent back.
    pub echo: u32,
}

impl Congestion {
    /// The largest round-trip time that there is room for (22 bits): it stands for all that are longer.
    pub const MAX_RTT: u32 = (1 << 22) - 1;
    /// The largest delay (21 bits), likewise.
    pub const MAX_DELAY: u32 = (1 << 21) - 1;
}

/// Why a payload has no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The payload is shorter than a header.
    Truncated,
    /// No such sub-type.
    SubType(u8),
}

impl Header {
    /// Length in bytes of the header without congestion control.
    pub const LEN: usize = 4;
    /// Length in bytes of the one with it.
    pub const CONGESTION_LEN: usize = 24;

    /// Length in bytes.
    pub const fn header_len(&self) -> usize {
        if self.congestion.is_some() { Header::CONGESTION_LEN } else { Header::LEN }
    }

    /// Reads a payload's header; what is behind it are its blocks.
    ///
    /// # Errors
    /// The payload is too short, or of another sub-type.
    #[inline]
    pub fn parse(payload: &[u8]) -> Result<(Header, &[u8]), HeaderError> {
        let Some((&[sub_type, flags, high, low], rest)) = payload.split_first_chunk() else {
            return Err(HeaderError::Truncated);
        };
        let block_offset = u16::from_be_bytes([high, low]);
        match sub_type {
            0 => Ok((Header { block_offset, congestion: None }, rest)),
            1 => {
                let (words, rest) = rest.split_first_chunk().ok_or(HeaderError::Truncated)?;
                let congestion = Some(Congestion::parse(flags, words));
                Ok((Header { block_offset, congestion }, rest))
            }
            other => Err(HeaderError::SubType(other)),
        }
    }

    /// Writes the header to the beginning of a payload, which has room for it; none if not.
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) -> Option<()> {
        let [high, low] = self.block_offset.to_be_bytes();
        let Some(congestion) = &self.congestion else {
            *payload.first_chunk_mut()? = [0, 0, high, low];
            return Some(());
        };
        let (first, words) = payload.split_first_chunk_mut::<4>()?;
        *words.first_chunk_mut()? = congestion.words();
        let flags = u8::from(congestion.is_probe) << 1 | u8::from(congestion.is_congested);
        *first = [1, flags, high, low];
        Some(())
    }
}

/// Bytes behind the first word of sub-type 1.
const WORDS_LEN: usize = Header::CONGESTION_LEN - Header::LEN;

impl Congestion {
    fn parse(flags: u8, words: &[u8; WORDS_LEN]) -> Congestion {
        let word = |at: usize| {
            let bytes = words.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
        };
        let times = u64::from(word(4)) << 32 | u64::from(word(8));
        Congestion {
            is_probe: flags & 2 != 0,
            is_congested: flags & 1 != 0,
            loss_event_rate: word(0),
            rtt_us: (times >> 42) as u32,
            echo_delay_us: (times >> 21) as u32 & Congestion::MAX_DELAY,
            transmit_delay_us: times as u32 & Congestion::MAX_DELAY,
            value: word(12),
            echo: word(16),
        }
    }

    fn words(&self) -> [u8; WORDS_LEN] {
        let times = u64::from(self.rtt_us.min(Congestion::MAX_RTT)) << 42
            | u64::from(self.echo_delay_us.min(Congestion::MAX_DELAY)) << 21
            | u64::from(self.transmit_delay_us.min(Congestion::MAX_DELAY));
        let words =
            [self.loss_event_rate, (times >> 32) as u32, times as u32, self.value, self.echo];
        let mut bytes = [0; WORDS_LEN];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_fields_lie_where_the_figures_have_them() {
        let mut bytes = [0xff; 24];
        Header { block_offset: 0x1234, congestion: None }.emit(&mut bytes).unwrap();
        assert_eq!(bytes[..5], [0, 0, 0x12, 0x34, 0xff]);
        let congestion = Congestion {
            is_probe: true,
            is_congested: true,
            loss_event_rate: 0x0102_0304,
            rtt_us: 1,
            echo_delay_us: 1,
            transmit_delay_us: 1,
            value: 0x1122_3344,
            echo: 0x5566_7788,
        };
        let header = Header { block_offset: 5, congestion: Some(congestion) };
        header.emit(&mut bytes).unwrap();
        // RTT ends with bit 10 of its word, Echo Delay with bit 21 of the next one.
        let times = [0, 0, 4, 0, 0, 0x20, 0, 1];
        assert_eq!(bytes[..8], [1, 3, 0, 5, 1, 2, 3, 4]);
        assert_eq!(bytes[8..16], times);
        assert_eq!(bytes[16..], [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        assert_eq!(Header::parse(&bytes), Ok((header, &[][..])));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        assert_eq!(Header::parse(&[0, 0, 0]), Err(HeaderError::Truncated));
        assert_eq!(Header::parse(&[1; 23]), Err(HeaderError::Truncated));
        assert_eq!(Header::parse(&[0x45; 40]), Err(HeaderError::SubType(0x45)));
        assert!(Header::parse(&[0, 0xff, 0, 0]).is_ok(), "what is reserved is not looked at");
        assert!(Header::default().emit(&mut [0; 3]).is_none());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(words in any::<[u32; 6]>(), offset in any::<u16>(), flags in 0u8..4) {
            let [loss_event_rate, rtt, echo_delay, transmit_delay, value, echo] = words;
            let congestion = Congestion {
                is_probe: flags & 1 != 0,
                is_congested: flags & 2 != 0,
                loss_event_rate,
                rtt_us: rtt & Congestion::MAX_RTT,
                echo_delay_us: echo_delay & Congestion::MAX_DELAY,
                transmit_delay_us: transmit_delay & Congestion::MAX_DELAY,
                value,
                echo,
            };
            let header = Header { block_offset: offset, congestion: Some(congestion) };
            let mut bytes = [0; Header::CONGESTION_LEN];
            prop_assert!(header.emit(&mut bytes).is_some());
            prop_assert_eq!(Header::parse(&bytes), Ok((header, &[][..])));
        }
    }
}
