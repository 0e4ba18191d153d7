//! Timestamps and their error estimates (RFC 4656 §4.1.2, RFC 8186 §2).

/// Seconds from 1900 to 1970.
const NTP_OFFSET_S: u64 = 2_208_988_800;
const NS_PER_S: u64 = 1_000_000_000;

/// A timestamp as it is on the wire: 32 bits of seconds, and a fraction that the error estimate gives the format of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The NTP timestamp of some nanoseconds after 1970. It repeats after 136 years.
    pub const fn of_unix_ns(ns: u64) -> Timestamp {
        let seconds = (ns / NS_PER_S + NTP_OFFSET_S) & 0xffff_ffff;
        let fraction = ((ns % NS_PER_S) << 32) / NS_PER_S;
        Timestamp(seconds << 32 | fraction)
    }

    /// Nanoseconds from an earlier timestamp of the same clock and format to this one; below zero if the other is the later
    /// one. `None` for fractions that the format does not have.
    pub fn ns_since(self, earlier: Timestamp, estimate: ErrorEstimate) -> Option<i64> {
        let apart = self.0.wrapping_sub(earlier.0).cast_signed();
        if !estimate.is_ptp() {
            let ns = (i128::from(apart) * i128::from(NS_PER_S)) >> 32;
            return i64::try_from(ns).ok();
        }
        let ns = |time: Timestamp| {
            let ns = time.0 & 0xffff_ffff;
            (ns < NS_PER_S).then_some(ns.cast_signed())
        };
        let seconds = ((self.0 >> 32) as u32).wrapping_sub((earlier.0 >> 32) as u32).cast_signed();
        Some(i64::from(seconds) * NS_PER_S.cast_signed() + ns(self)? - ns(earlier)?)
    }
}

/// Error estimate of a timestamp: synchronised or not, the timestamp's format, and how far it may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorEstimate(pub u16);

impl ErrorEstimate {
    /// Estimate of an NTP timestamp of a clock that nobody vouches for: half a second.
    pub const UNSYNCHRONISED: ErrorEstimate = ErrorEstimate(31 << 8 | 1);

    /// True if timestamps are of the truncated PTP format: seconds and nanoseconds.
    pub const fn is_ptp(self) -> bool {
        self.0 & 0x4000 != 0
    }

    /// True if it is one that senders may send: a multiplier of 0 marks a packet as corrupt (RFC 4656 §4.1.2).
    pub const fn is_valid(self) -> bool {
        self.0 & 0xff != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PTP: ErrorEstimate = ErrorEstimate(0x4001);
    const NTP: ErrorEstimate = ErrorEstimate::UNSYNCHRONISED;

    #[test]
    fn the_epoch_is_ntps() {
        assert_eq!(Timestamp::of_unix_ns(0), Timestamp(0x83aa_7e80_0000_0000));
        assert_eq!(Timestamp::of_unix_ns(500_000_000), Timestamp(0x83aa_7e80_8000_0000));
    }

    #[test]
    fn ptp_has_nanoseconds() {
        let (a, b) = (Timestamp(7 << 32 | 999_999_999), Timestamp(9 << 32 | 1));
        assert_eq!(b.ns_since(a, PTP), Some(1_000_000_002));
        assert_eq!(a.ns_since(b, PTP), Some(-1_000_000_002));
        assert_eq!(Timestamp(1_000_000_000).ns_since(a, PTP), None);
        // Over the end of 32 bits of seconds.
        assert_eq!(Timestamp(0).ns_since(Timestamp(0xffff_ffff << 32), PTP), Some(1_000_000_000));
    }

    #[test]
    fn a_multiplier_of_zero_is_corrupt() {
        assert!(NTP.is_valid() && !ErrorEstimate(0x3f00).is_valid());
    }

    proptest! {
        #[test]
        fn differences_are_those_of_the_clock(at in 0u64..4_000_000_000_000_000_000, by in 0u64..1_000_000_000_000) {
            let (from, to) = (Timestamp::of_unix_ns(at), Timestamp::of_unix_ns(at + by));
            let there = to.ns_since(from, NTP).expect("in range");
            let back = from.ns_since(to, NTP).expect("in range");
            // A fraction of 32 bits is a quarter of a nanosecond.
            prop_assert!(there.abs_diff(by.cast_signed()) <= 1, "{there} for {by}");
            prop_assert!(back.abs_diff(-by.cast_signed()) <= 1, "{back} for {by}");
        }
    }
}
