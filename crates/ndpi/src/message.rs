//! Messages between the daemon and the child: one each in a packet of a SEQPACKET socket. Numbers are little-endian.
//!
//! | from the daemon | bytes |
//! | --- | --- |
//! | a packet | number of the question (4), number of the flow (4), 1 if no more come (1), time in ms (8), IP packet |
//!
//! | from the child | bytes |
//! | --- | --- |
//! | ready | `R`, version of the library |
//! | unable | `U`, why |
//! | answer | `A`, number of the question (4), protocol, 0 for none (2) |

use crate::protocols::application;

/// The longest IP packet that is asked about, in bytes.
pub const MOST_BYTES: usize = 4096;

/// Bytes in front of the IP packet.
const HEAD_LEN: usize = 4 + 4 + 1 + 8;

/// The longest question, in bytes.
pub const LONGEST_QUESTION: usize = HEAD_LEN + MOST_BYTES;

/// The longest text of the child, in bytes.
const LONGEST_TEXT: usize = 400;

/// The longest message of the child, in bytes.
pub const LONGEST_ANSWER: usize = 1 + LONGEST_TEXT;

/// A packet to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'p> {
    /// Number of the question; the answer has the same.
    pub question: u32,
    /// Number of the flow. The child keeps flows by the number's last digits: a greater one takes the place of a lesser.
    pub flow: u32,
    /// True if no more packets of the flow come.
    pub is_last: bool,
    /// Time that it came at, in milliseconds of any clock.
    pub time_ms: u64,
    /// IP packet, or its beginning.
    pub bytes: &'p [u8],
}

impl<'p> Packet<'p> {
    /// Writes the question into a buffer, in place of what is there.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.clear();
        buffer.extend(self.question.to_le_bytes());
        buffer.extend(self.flow.to_le_bytes());
        buffer.push(u8::from(self.is_last));
        buffer.extend(self.time_ms.to_le_bytes());
        buffer.extend_from_slice(self.bytes.get(..MOST_BYTES).unwrap_or(self.bytes));
    }

    /// Reads a question.
    pub fn parse(message: &'p [u8]) -> Option<Packet<'p>> {
        let (question, rest) = message.split_first_chunk()?;
        let (flow, rest) = rest.split_first_chunk()?;
        let (is_last, rest) = rest.split_first()?;
        let (time_ms, bytes) = rest.split_first_chunk()?;
        let (question, flow) = (u32::from_le_bytes(*question), u32::from_le_bytes(*flow));
        let time_ms = u64::from_le_bytes(*time_ms);
        Some(Packet { question, flow, is_last: *is_last != 0, time_ms, bytes })
    }
}

/// Message of the child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has the library, of this version.
    Ready(String),
    /// It has not, and ends: why.
    Unable(String),
    /// The flow of a question, as far as it is known.
    Flow {
        /// Number of the question.
        question: u32,
        /// Number of a protocol that there is.
        protocol: Option<u16>,
    },
}

/// Reason for which a message is none of the child's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It has another length than its kind has.
    #[error("a message of {0} bytes")]
    Length(usize),
    /// There is no such kind.
    #[error("a message of kind {0:#04x}")]
    Kind(u8),
    /// A text has bytes that a terminal could take for commands.
    #[error("a text with byte {0:#04x}")]
    Text(u8),
    /// There is no such protocol.
    #[error("protocol {0}, which there is not")]
    Protocol(u16),
}

impl Answer {
    /// Bytes of the message. A text is cut at its length, and keeps printable ASCII alone.
    pub fn emit(&self) -> Vec<u8> {
        let with_text = |kind, text: &str| {
            let printable = text.bytes().map(|byte| if is_printable(byte) { byte } else { b'?' });
            core::iter::once(kind).chain(printable.take(LONGEST_TEXT)).collect()
        };
        match self {
            Answer::Ready(version) => with_text(b'R', version),
            Answer::Unable(why) => with_text(b'U', why),
            Answer::Flow { question, protocol } => {
                let protocol = protocol.unwrap_or(0).to_le_bytes();
                [&b"A"[..], &question.to_le_bytes(), &protocol].concat()
            }
        }
    }

    /// Reads a message, of which nothing is believed.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(message: &[u8]) -> Result<Answer, MessageError> {
        let wrong_length = MessageError::Length(message.len());
        let (kind, rest) = message.split_first().ok_or(wrong_length)?;
        match kind {
            b'R' => text(rest).map(Answer::Ready),
            b'U' => text(rest).map(Answer::Unable),
            b'A' => {
                let (question, protocol) = rest.split_first_chunk().ok_or(wrong_length)?;
                let protocol = protocol.try_into().map_err(|_| wrong_length)?;
                let protocol = match u16::from_le_bytes(protocol) {
                    0 => None,
                    known if application(known).is_some() => Some(known),
                    other => return Err(MessageError::Protocol(other)),
                };
                Ok(Answer::Flow { question: u32::from_le_bytes(*question), protocol })
            }
            other => Err(MessageError::Kind(*other)),
        }
    }
}

fn text(bytes: &[u8]) -> Result<String, MessageError> {
    if bytes.len() > LONGEST_TEXT {
        return Err(MessageError::Length(1 + bytes.len()));
    }
    match bytes.iter().find(|byte| !is_printable(**byte)) {
        Some(byte) => Err(MessageError::Text(*byte)),
        None => Ok(bytes.iter().copied().map(char::from).collect()),
    }
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_answer() {
        let long = [&b"R"[..], &[b'4'; LONGEST_TEXT + 1]].concat();
        let cases: [(&[u8], MessageError); 8] = [
            (b"", MessageError::Length(0)),
            (b"A\0\0\0", MessageError::Length(4)),
            (b"A\0\0\0\0\x01", MessageError::Length(6)),
            (b"A\0\0\0\0\x01\0\0", MessageError::Length(8)),
            (b"A\0\0\0\0\x1a\x01", MessageError::Protocol(282)),
            (b"Q", MessageError::Kind(b'Q')),
            (b"R4.2\x1b[2J", MessageError::Text(0x1b)),
            (&long, MessageError::Length(LONGEST_TEXT + 2)),
        ];
        for (bytes, error) in cases {
            assert_eq!(Answer::parse(bytes), Err(error));
        }
    }

    #[test]
    fn texts_are_made_harmless_before_they_are_sent() {
        let bytes = Answer::Unable(format!("a\u{1b}b\u{e4}{}", "c".repeat(500))).emit();
        assert_eq!(bytes.len(), LONGEST_ANSWER);
        let Ok(Answer::Unable(text)) = Answer::parse(&bytes) else { panic!("a text") };
        assert!(text.starts_with("a?b??ccc"), "{text}");
    }

    proptest! {
        #[test]
        fn messages_go_through(
            question: u32, flow: u32, is_last: bool, time_ms: u64,
            bytes in prop::collection::vec(any::<u8>(), 0..64), protocol in 0u16..282,
        ) {
            let packet = Packet { question, flow, is_last, time_ms, bytes: &bytes };
            let mut buffer = vec![1, 2, 3];
            packet.emit(&mut buffer);
            prop_assert_eq!(Packet::parse(&buffer), Some(packet));
            let answer = Answer::Flow { question, protocol: Some(protocol).filter(|p| *p != 0) };
            prop_assert_eq!(Answer::parse(&answer.emit()), Ok(answer));
        }
    }
}
