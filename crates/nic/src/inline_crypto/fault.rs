//! Faults of the hardware, to try what stands on it.

use core::fmt;
use core::str::FromStr;

/// A fault of the hardware. It stays until it is taken away, a hang until a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing comes back.
    Hang,
    /// Sealed packets have a wrong ICV, and are told as done.
    WrongIcv,
    /// Sealed packets have a wrong byte in the middle, and are told as done.
    WrongCipher,
    /// Packets are not sealed, and are told as done.
    InClear,
    /// Of what it opens it says that the ICV is wrong.
    FalseAlarm,
    /// Opened packets have a wrong byte, and are told as done.
    WrongText,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 6] = [
        Fault::Hang,
        Fault::WrongIcv,
        Fault::WrongCipher,
        Fault::InClear,
        Fault::FalseAlarm,
        Fault::WrongText,
    ];

    /// As people spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Hang => "hang",
            Fault::WrongIcv => "wrong-icv",
            Fault::WrongCipher => "wrong-cipher",
            Fault::InClear => "in-clear",
            Fault::FalseAlarm => "false-alarm",
            Fault::WrongText => "wrong-text",
        }
    }

    /// Spoils an ESP packet that was sealed.
    pub(crate) fn spoil_sealed(self, esp: &mut [u8]) {
        match self {
            Fault::WrongIcv => flip(esp.last_mut()),
            Fault::WrongCipher => flip_middle(esp),
            _ => {}
        }
    }

    /// Spoils an ESP packet that was opened.
    pub(crate) fn spoil_opened(self, esp: &mut [u8]) {
        if self == Fault::WrongText {
            flip_middle(esp);
        }
    }
}

fn flip(byte: Option<&mut u8>) {
    byte.into_iter().for_each(|byte| *byte ^= 0x20);
}

fn flip_middle(esp: &mut [u8]) {
    let middle = esp.len() / 2;
    flip(esp.get_mut(middle));
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no fault with this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFault;

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(name: &str) -> Result<Fault, UnknownFault> {
        Fault::ALL.into_iter().find(|fault| fault.name() == name).ok_or(UnknownFault)
    }
}
