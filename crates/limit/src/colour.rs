//! Colours of packets, and how two buckets give them.

/// Result of a limiter for a packet (RFC 2697 §1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Colour {
    /// Within the committed rate and burst.
    #[default]
    Green,
    /// Above it, and within the excess or peak.
    Yellow,
    /// Above the excess or peak too.
    Red,
}

impl Colour {
    /// All of them, from the best to the worst.
    pub const ALL: [Colour; 3] = [Colour::Green, Colour::Yellow, Colour::Red];

    /// The name in configuration and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Colour::Green => "green",
            Colour::Yellow => "yellow",
            Colour::Red => "red",
        }
    }

    /// The colour that a DSCP tells: the drop precedence of assured forwarding (RFC 2597 §6); others are green.
    pub const fn of_dscp(dscp: u8) -> Colour {
        let (class, precedence) = (dscp >> 3, dscp & 0b111);
        match (class, precedence) {
            (1..=4, 0b100) => Colour::Yellow,
            (1..=4, 0b110) => Colour::Red,
            _ => Colour::Green,
        }
    }
}

/// The bucket: each limiter has one or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The committed one.
    First,
    /// The bucket of the excess, or of the peak.
    Second,
}

/// How colours follow from what two buckets hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Green from the one bucket.
    Single,
    /// Green from the first, else yellow from the second (RFC 2697 §3, RFC 4115 §2).
    Either,
    /// Yellow from the second, green from both (RFC 2698 §3).
    Both,
}

impl Rule {
    /// The colour of a packet that came with one; `has` asks whether a bucket holds its tokens.
    #[inline(always)]
    pub(crate) fn colour(self, came: Colour, mut has: impl FnMut(Which) -> bool) -> Colour {
        use Colour::{Green, Red, Yellow};
        match self {
            Rule::Single if came != Red && has(Which::First) => Green,
            Rule::Either if came == Green && has(Which::First) => Green,
            Rule::Either if came != Red && has(Which::Second) => Yellow,
            Rule::Both if came != Red && has(Which::Second) => {
                if came == Green && has(Which::First) { Green } else { Yellow }
            }
            _ => Red,
        }
    }

    /// True if a packet of a colour takes its tokens from a bucket.
    #[inline(always)]
    pub(crate) const fn takes(self, colour: Colour, from: Which) -> bool {
        matches!(
            (self, colour, from),
            (_, Colour::Green, Which::First)
                | (Rule::Both, Colour::Green, Which::Second)
                | (_, Colour::Yellow, Which::Second)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_precedences_are_colours() {
        for (dscp, colour) in [
            (0, Colour::Green),
            (46, Colour::Green),
            (10, Colour::Green),
            (12, Colour::Yellow),
            (14, Colour::Red),
            (38, Colour::Red),
            (36, Colour::Yellow),
            // Class 5 has none: 44 is voice-admit.
            (44, Colour::Green),
        ] {
            assert_eq!(Colour::of_dscp(dscp), colour, "{dscp}");
        }
    }
}
