//! Classes of packets that wait: which leave first.

/// A class, from the first to leave to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Voice, signalling and routing: EF, VOICE-ADMIT, CS5, CS6 and CS7.
    Urgent,
    /// Video, transactions and management: AF2x to AF4x, CS2 to CS4.
    Assured,
    /// All else, code points without a meaning among it (RFC 2474 §4.1), and AF1x.
    Usual,
    /// Below best effort: LE (RFC 8622), CS1 (RFC 4594 §4.10).
    Lesser,
}

impl Class {
    /// All of them, the first to leave first.
    pub const ALL: [Class; CLASSES] = [Class::Urgent, Class::Assured, Class::Usual, Class::Lesser];

    /// The name in configuration and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Urgent => "urgent",
            Class::Assured => "assured",
            Class::Usual => "usual",
            Class::Lesser => "lesser",
        }
    }

    /// The class of a DSCP, 0 to 63 (RFC 4594 figure 3).
    pub const fn of_dscp(dscp: u8) -> Class {
        match dscp {
            40 | 44 | 46 | 48 | 56 => Class::Urgent,
            16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 32 | 34 | 36 | 38 => Class::Assured,
            1 | 8 => Class::Lesser,
            _ => Class::Usual,
        }
    }
}

/// How many classes there are.
pub const CLASSES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_have_classes() {
        for (dscps, class) in [
            (&[46, 44, 40, 48, 56][..], Class::Urgent),
            (&[34, 36, 38, 26, 18, 32, 24, 16], Class::Assured),
            (&[0, 10, 12, 14, 2, 63, 41], Class::Usual),
            (&[1, 8], Class::Lesser),
        ] {
            assert!(dscps.iter().all(|dscp| Class::of_dscp(*dscp) == class), "{class:?}");
        }
        assert!(Class::ALL.iter().enumerate().all(|(at, class)| *class as usize == at));
    }
}
