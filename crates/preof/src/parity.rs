//! Parity of a group of packets, by which the far end recovers one that is lost: their XOR.
//!
//! A parity packet is on the associated channel of its stream (RFC 4385 §5), of a type for experimental use (RFC 5586 §10): in
//! place of the control word it has
//!
//! ```text
//! +--------------------+
//! | 0001, 0, type      |  4 bytes: the header of the channel
//! +--------------------+
//! | base               |  4 bytes: 0000, and the number of the group's first packet
//! +--------------------+
//! | covered            |  8 bytes: bit i, from the lowest, is set if base + i is of the group
//! +--------------------+
//! | length             |  2 bytes: XOR of the lengths
//! +--------------------+
//! | body               |  XOR of the packets, the shorter ones with zeros behind them
//! +--------------------+
//! ```

use crate::numbered::{Label, Malformed, NUMBERS, Numbered, Outside, overhead};

/// Numbers that a group may span.
pub const SPAN: u32 = 64;

/// Longest packet that a group takes, in bytes.
pub const LONGEST_COVERED: usize = 2048;

/// Bytes of a parity packet between the header of its channel and its body.
pub const PARITY_LEN: usize = 14;

/// The header of the associated channel: version 0, type 0x7ff8 (experimental).
const CHANNEL: u32 = 1 << 28 | 0x7ff8;

/// Group of packets whose XOR a parity packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity {
    /// Label of the stream.
    pub label: u32,
    /// Number of the first packet.
    pub base: u32,
    /// A bit for each of the numbers from `base` on; the lowest one is set.
    pub covered: u64,
    /// XOR of the lengths.
    pub len: u16,
}

/// Payload of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A packet with its number.
    Packet(Numbered),
    /// Parity of packets before it.
    Parity(Parity),
}

impl Content {
    /// Label of the stream.
    pub const fn label(&self) -> u32 {
        match self {
            Content::Packet(numbered) => numbered.label,
            Content::Parity(parity) => parity.label,
        }
    }

    /// Reads what an IP payload begins with. A packet begins [`LEN`](crate::LEN) bytes further on, and a body
    /// [`PARITY_LEN`] behind that.
    ///
    /// # Errors
    /// It is too short, or says something else.
    pub fn parse(payload: &[u8]) -> Result<Content, Malformed> {
        let (Label { label, word }, rest) = Label::parse(payload)?;
        if word != CHANNEL {
            let is_number = word < NUMBERS;
            let numbered = is_number.then_some(Content::Packet(Numbered { label, number: word }));
            return numbered.ok_or(Malformed::ControlWord);
        }
        let (base, rest) = rest.split_first_chunk().ok_or(Malformed::Short)?;
        let (covered, rest) = rest.split_first_chunk().ok_or(Malformed::Short)?;
        let (len, body) = rest.split_first_chunk().ok_or(Malformed::Short)?;
        let parity = Parity {
            label,
            base: u32::from_be_bytes(*base),
            covered: u64::from_be_bytes(*covered),
            len: u16::from_be_bytes(*len),
        };
        let is_sound = parity.base < NUMBERS && parity.covered & 1 != 0;
        match is_sound && body.len() <= LONGEST_COVERED {
            true => Ok(Content::Parity(parity)),
            false => Err(Malformed::Parity),
        }
    }
}

impl Parity {
    /// The numbers of the group.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        let Parity { base, covered, .. } = *self;
        let set = (0..SPAN).filter(move |at| covered & 1 << at != 0);
        set.map(move |at| base.wrapping_add(at) % NUMBERS)
    }

    /// Writes all headers in front of a body, for which `whole` has [`overhead`] and [`PARITY_LEN`] bytes. False as with
    /// [`Numbered::emit`].
    pub fn emit(&self, outside: Outside, whole: &mut [u8]) -> bool {
        let label = Label { label: self.label, word: CHANNEL };
        let at = overhead(outside.dst);
        match whole.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            Some(place) => self.write(place),
            None => return false,
        }
        label.emit(outside, whole)
    }

    /// Writes what stands in front of the body.
    fn write(&self, to: &mut [u8; PARITY_LEN]) {
        let bytes = self.base.to_be_bytes().into_iter();
        let bytes = bytes.chain(self.covered.to_be_bytes()).chain(self.len.to_be_bytes());
        to.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    }
}

/// A group at its sender. Its body is the caller's memory.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    parity: Parity,
    longest: usize,
}

impl Group {
    /// A group without packets, of a stream; `first` is the number of the packet that is added next.
    pub const fn new(label: u32, first: u32) -> Group {
        let parity = Parity { label, base: first % NUMBERS, covered: 0, len: 0 };
        Group { parity, longest: 0 }
    }

    /// True if a number lies in the span.
    pub const fn spans(&self, number: u32) -> bool {
        number.wrapping_sub(self.parity.base) % NUMBERS < SPAN
    }

    /// Packets of it.
    pub const fn count(&self) -> u32 {
        self.parity.covered.count_ones()
    }

    /// Length of the body, in bytes.
    pub const fn body_len(&self) -> usize {
        self.longest
    }

    /// Adds a packet to the group, whose body is at the beginning of `body`. False, and nothing has changed, if it has no room or
    /// is beyond the span.
    pub fn add(&mut self, number: u32, packet: &[u8], body: &mut [u8]) -> bool {
        if !self.spans(number) || packet.len() > LONGEST_COVERED {
            return false;
        }
        let Some(place) = body.get_mut(..packet.len()) else { return false };
        // Behind its body the memory has anything.
        if let Some(new) = place.get_mut(self.longest..) {
            new.fill(0);
        }
        xor(place, packet);
        self.longest = self.longest.max(packet.len());
        self.parity.covered |= 1 << (number.wrapping_sub(self.parity.base) % NUMBERS);
        // Not longer than the longest one.
        self.parity.len ^= packet.len() as u16;
        true
    }

    /// The parity as it is by now.
    pub const fn parity(&self) -> Parity {
        self.parity
    }
}

/// XORs bytes into those of `to`, as many as both have.
pub(crate) fn xor(to: &mut [u8], bytes: &[u8]) {
    to.iter_mut().zip(bytes).for_each(|(to, byte)| *to ^= byte);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbered::LEN;
    use core::net::IpAddr;

    fn payload(parity: Parity, body: &[u8]) -> Vec<u8> {
        let (src, dst) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut whole = vec![0; overhead(dst) + PARITY_LEN];
        whole.extend(body);
        assert!(parity.emit(Outside { src, dst, class: 0, src_port: 49_152 }, &mut whole));
        whole.split_off(20)
    }

    /// By hand: RFC 4385 figure 2, and the picture above.
    #[test]
    fn the_bytes_are_those_of_the_picture() {
        let parity =
            Parity { label: 16, base: 0x0abc_def1, covered: 0x8000_0000_0000_0005, len: 0x102 };
        let bytes = payload(parity, &[9, 8]);
        assert_eq!(bytes[12..16], [0x10, 0, 0x7f, 0xf8]);
        assert_eq!(bytes[16..20], [0x0a, 0xbc, 0xde, 0xf1]);
        assert_eq!(bytes[20..30], [0x80, 0, 0, 0, 0, 0, 0, 5, 1, 2]);
        assert_eq!(bytes[30..], [9, 8]);
        assert_eq!(bytes.len(), LEN + PARITY_LEN + 2);
        assert_eq!(Content::parse(&bytes), Ok(Content::Parity(parity)));
        let numbers: Vec<_> = parity.numbers().collect();
        assert_eq!(numbers, [0x0abc_def1, 0x0abc_def3, 0x0abc_def1 + 63]);
    }

    #[test]
    fn what_is_no_parity_is_refused() {
        let good = Parity { label: 16, base: 0, covered: 1, len: 0 };
        for len in 0..LEN + PARITY_LEN {
            assert_eq!(Content::parse(&payload(good, &[])[..len]), Err(Malformed::Short), "{len}");
        }
        for (parity, len, is_sound) in [
            (good, LONGEST_COVERED, true),
            (good, LONGEST_COVERED + 1, false),
            (Parity { base: NUMBERS, ..good }, 0, false),
            (Parity { covered: 2, ..good }, 0, false),
        ] {
            let parsed = Content::parse(&payload(parity, &vec![0; len]));
            let expected = is_sound.then_some(Content::Parity(parity)).ok_or(Malformed::Parity);
            assert_eq!(parsed, expected);
        }
        let mut other = payload(good, &[]);
        other[15] = 0xf9;
        assert_eq!(Content::parse(&other), Err(Malformed::ControlWord));
    }

    #[test]
    fn a_group_takes_what_it_spans_and_has_room_for() {
        let mut body = [0xee; 100];
        let mut group = Group::new(16, NUMBERS - 1);
        assert!(group.add(NUMBERS - 1, &[1, 2, 3], &mut body));
        assert!(group.add(1, &[4, 4, 4, 4, 4], &mut body));
        assert!(!group.add(63, &[1], &mut body) && !group.add(NUMBERS - 2, &[1], &mut body));
        assert!(!group.add(2, &[1; 101], &mut body));
        assert_eq!((group.count(), group.body_len()), (2, 5));
        assert_eq!(body[..6], [5, 6, 7, 4, 4, 0xee]);
        assert_eq!(group.parity(), Parity { label: 16, base: NUMBERS - 1, covered: 5, len: 3 ^ 5 });
        let mut body = [0; LONGEST_COVERED + 1];
        assert!(!group.add(2, &[1; LONGEST_COVERED + 1], &mut body), "no memory keeps it");
        assert!(group.add(2, &[1; LONGEST_COVERED], &mut body));
        assert_eq!(group.body_len(), LONGEST_COVERED);
    }
}
