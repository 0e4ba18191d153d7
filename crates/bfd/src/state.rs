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
    /// Down, as an operator has switched it off.
    pub const ADMIN_DOWN: Diagnostic = Diagnostic(7);
}
