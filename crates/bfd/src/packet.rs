//! Control packets (RFC 5880 §4.1).

use crate::state::{Diagnostic, State};

/// Length of a packet without authentication, in bytes.
pub const PACKET_LEN: usize = 24;

/// The version of the protocol.
const VERSION: u8 = 1;

const POLL: u8 = 1 << 5;
const FINAL: u8 = 1 << 4;
const INDEPENDENT: u8 = 1 << 3;
const AUTHENTICATED: u8 = 1 << 2;
const DEMAND: u8 = 1 << 1;
const MULTIPOINT: u8 = 1;

/// A control packet. Intervals are microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Why the sender's session last left the state Up.
    pub diagnostic: Diagnostic,
    /// State of the sender's session.
    pub state: State,
    /// True if the sender wants an answer with the final bit.
    pub poll: bool,
    /// True if this answers a poll.
    pub is_final: bool,
    /// True if the sender's session does not end with its control plane.
    pub is_independent: bool,
    /// True if the sender is in demand mode.
    pub demand: bool,
    /// Packets that may be missing before the session is down.
    pub detect_mult: u8,
    /// Discriminator of the sender's session; never 0.
    pub my_discr: u32,
    /// Discriminator of the receiver's session; 0 while the sender does not know it.
    pub your_discr: u32,
    /// Shortest interval between its packets that the sender would use.
    pub desired_min_tx: u32,
    /// Shortest interval that the sender can receive with; 0: it wants no periodic packets.
    pub required_min_rx: u32,
    /// Shortest interval between echo packets that the sender can receive with; 0: none.
    pub required_min_echo_rx: u32,
}

/// Why a packet was refused: the rules of RFC 5880 §6.8.6 in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not of version 1.
    Version,
    /// It is shorter than its fields, or its length is beyond its payload.
    Length,
    /// A detection multiplier of 0.
    DetectMult,
    /// The multipoint bit.
    Multipoint,
    /// A sender's discriminator of 0.
    MyDiscr,
    /// A receiver's discriminator of 0 in the state Init or Up.
    YourDiscr,
    /// It has an authentication section, and no session here has keys.
    Authenticated,
}

impl Refused {
    /// All of them.
    pub const ALL: [Refused; 7] = [
        Refused::Version,
        Refused::Length,
        Refused::DetectMult,
        Refused::Multipoint,
        Refused::MyDiscr,
        Refused::YourDiscr,
        Refused::Authenticated,
    ];

    /// Name of the reason.
    pub const fn name(self) -> &'static str {
        match self {
            Refused::Version => "version",
            Refused::Length => "length",
            Refused::DetectMult => "detect-mult",
            Refused::Multipoint => "multipoint",
            Refused::MyDiscr => "my-discriminator",
            Refused::YourDiscr => "your-discriminator",
            Refused::Authenticated => "authentication",
        }
    }
}

impl Packet {
    /// Reads a UDP payload.
    ///
    /// # Errors
    ///
    /// The first rule of RFC 5880 §6.8.6 that it breaks.
    pub fn parse(payload: &[u8]) -> Result<Packet, Refused> {
        let fixed: &[u8; PACKET_LEN] = payload.first_chunk().ok_or(Refused::Length)?;
        let [first, bits, detect_mult, length, ..] = *fixed;
        if first >> 5 != VERSION {
            return Err(Refused::Version);
        }
        let least = PACKET_LEN + if bits & AUTHENTICATED != 0 { 2 } else { 0 };
        if usize::from(length) < least || usize::from(length) > payload.len() {
            return Err(Refused::Length);
        }
        if detect_mult == 0 {
            return Err(Refused::DetectMult);
        }
        if bits & MULTIPOINT != 0 {
            return Err(Refused::Multipoint);
        }
        let word = |at: usize| {
            let bytes = fixed.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
        };
        let (my_discr, your_discr, state) = (word(4), word(8), State::from_bits(bits >> 6));
        if my_discr == 0 {
            return Err(Refused::MyDiscr);
        }
        if your_discr == 0 && matches!(state, State::Init | State::Up) {
            return Err(Refused::YourDiscr);
        }
        if bits & AUTHENTICATED != 0 {
            return Err(Refused::Authenticated);
        }
        Ok(Packet {
            diagnostic: Diagnostic(first & 0x1f),
            state,
            poll: bits & POLL != 0,
            is_final: bits & FINAL != 0,
            is_independent: bits & INDEPENDENT != 0,
            demand: bits & DEMAND != 0,
            detect_mult,
            my_discr,
            your_discr,
            desired_min_tx: word(12),
            required_min_rx: word(16),
            required_min_echo_rx: word(20),
        })
    }

    /// The packet as bytes, in network byte order.
    pub fn to_bytes(&self) -> [u8; PACKET_LEN] {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let bits = (self.state as u8) << 6
            | bit(self.poll, POLL)
            | bit(self.is_final, FINAL)
            | bit(self.is_independent, INDEPENDENT)
            | bit(self.demand, DEMAND);
        let first = VERSION << 5 | self.diagnostic.0 & 0x1f;
        let mut bytes = [0; PACKET_LEN];
        let words = [
            u32::from_be_bytes([first, bits, self.detect_mult, PACKET_LEN as u8]),
            self.my_discr,
            self.your_discr,
            self.desired_min_tx,
            self.required_min_rx,
            self.required_min_echo_rx,
        ];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }
}
