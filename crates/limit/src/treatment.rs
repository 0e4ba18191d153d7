//! Treatment of the packets of a colour.

use crate::Colour;

/// Treatment of a packet, once its colour is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// The packet passes as it is.
    Pass,
    /// The packet passes with this DSCP, 0 to 63.
    Mark(u8),
    /// The packet is dropped.
    Drop,
}

/// Treatment of packets by their colours: green, yellow, red.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Treatments(pub [Treatment; 3]);

impl Treatments {
    /// Treatment of a packet of a colour.
    #[inline(always)]
    pub const fn of(&self, colour: Colour) -> Treatment {
        match colour {
            Colour::Green => self.0[0],
            Colour::Yellow => self.0[1],
            Colour::Red => self.0[2],
        }
    }
}

impl Default for Treatments {
    /// Red packets are dropped, and others pass.
    fn default() -> Treatments {
        Treatments([Treatment::Pass, Treatment::Pass, Treatment::Drop])
    }
}
