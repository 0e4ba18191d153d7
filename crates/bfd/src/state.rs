//! States and diagnostics (RFC 5880 §4.1).

/// State of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Down, as an operator has switched it off.
    AdminDown = 0,
    /// Down, or just made.
    #[default]
    Down = 1,
    /// The peer is heard, and does not say yet that it hears us.
    Init = 2,
    /// Both ends hear each other.
    Up = 3,
}

impl State {
    /// From the two bits of a packet.
    pub(crate) const fn from_bits(bits: u8) -> State {
        match bits & 3 {
            0 => State::AdminDown,
            1 => State::Down,
            2 => State::Init,
            _ => State::Up,
        }
    }

    /// Name of the state, as FRR spells it.
    pub const fn name(self) -> &'static str {
        match self {
            State::AdminDown => "admin-down",
            State::Down => "down",
            State::Init => "init",
            State::Up => "up",
        }
    }
}

/// Why a session left the state Up, as packets carry it. Values that are not known here keep their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnostic(pub u8);

impl Diagnostic {
    /// Nothing to say.
    pub const NONE: Diagnostic = Diagnostic(0);
    /// No packet came for the detection time.
    pub const EXPIRED: Diagnostic = Diagnostic(1);
    /// The peer said that it is down.
    pub const NEIGHBOUR_DOWN: Diagnostic = Diagnostic(3);
    /// The way to the peer has gone.
    pub const PATH_DOWN: Diagnostic = Diagnostic(5);
    /// Down, as an operator has switched it off.
    pub const ADMIN_DOWN: Diagnostic = Diagnostic(7);
}

impl core::fmt::Display for Diagnostic {
    /// As RFC 5880 §4.1 has it; a number that is not assigned there as the number.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self.0 {
            0 => "no diagnostic",
            1 => "control detection time expired",
            2 => "echo function failed",
            3 => "neighbour signalled session down",
            4 => "forwarding plane reset",
            5 => "path down",
            6 => "concatenated path down",
            7 => "administratively down",
            8 => "reverse concatenated path down",
            other => return write!(f, "diagnostic {other}"),
        })
    }
}
