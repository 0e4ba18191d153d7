//! A limiter's rates and bursts.

use core::fmt;

use crate::colour::Rule;
use crate::queue::Bounds;
use crate::treatment::Treatments;
use crate::{Colour, PARTS, Treatment};

/// Unit of the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bits of IP packets.
    Bits,
    /// Tokens are packets.
    Packets,
}

/// A bucket: how fast it fills, and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Bits or packets a second.
    pub rate: u64,
    /// Bits or packets.
    pub burst: u64,
}

/// How packets get their colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// One bucket: green or red.
    Single(Fill),
    /// One rate, three colours (RFC 2697): what the first bucket has no room for goes to the second.
    OneRate {
        /// CIR and CBS.
        committed: Fill,
        /// EBS (RFC 2697), in bytes or packets.
        excess_burst: u64,
    },
    /// Two rates, three colours (RFC 2698).
    TwoRates {
        /// CIR and CBS.
        committed: Fill,
        /// PIR and PBS.
        peak: Fill,
    },
    /// Two rates for differentiated services (RFC 4115).
    Differentiated {
        /// CIR and CBS.
        committed: Fill,
        /// EIR and EBS.
        excess: Fill,
    },
}

/// How workers have a limiter in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Each leases tokens ahead.
    #[default]
    Leases,
    /// One has all buckets at a time, as if its packets came by an atomic queue; they move to another when none of its packets
    /// is under way. Not of limiters that have [a queue](Settings::queue), or of which each flow or tunnel has buckets of its own.
    Atomic,
}

/// All that decides what a limiter does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Unit that rates and bursts count.
    pub unit: Unit,
    /// Rates and bursts.
    pub algorithm: Algorithm,
    /// True if the colour that a packet comes with counts (RFC 2697 §3, colour-aware).
    pub is_aware: bool,
    /// Bytes that are counted for each packet beyond its IP length.
    pub overhead: u16,
    /// Treatment of packets of each colour.
    pub treatments: Treatments,
    /// Bounds of each worker's queue of packets for which there are no tokens. `None`: such a
    /// packet is red at once. With one bucket alone, and without [`Settings::is_aware`].
    pub queue: Option<Bounds>,
    /// How workers share it; that of the outermost limiter decides.
    pub sharing: Sharing,
}

/// Reason that settings are not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// A rate of 0: nothing would ever pass.
    ZeroRate,
    /// A rate above [`MAX_RATE`].
    Rate,
    /// The peak rate is below the committed one (RFC 2698 §2).
    PeakBelow,
    /// A burst that does not hold one packet of the greatest length.
    SmallBurst {
        /// The least burst, in bytes or packets.
        least: u64,
    },
    /// A burst above [`MAX_BURST_BYTES`].
    LargeBurst,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::ZeroRate => write!(f, "a rate above 0"),
            SettingsError::Rate => write!(f, "a rate of at most 1Tbit, or 1Gpps"),
            SettingsError::PeakBelow => write!(f, "a peak rate that is not below the rate"),
            SettingsError::SmallBurst { least } => {
                write!(f, "a burst of at least {least}: smaller ones stop the longest packets")
            }
            SettingsError::LargeBurst => write!(f, "a burst of at most 1GiB"),
        }
    }
}

impl core::error::Error for SettingsError {}

impl Settings {
    /// One bucket of bits, whose red packets are dropped.
    pub fn single(rate: u64, burst_bytes: u64) -> Settings {
        Settings {
            unit: Unit::Bits,
            algorithm: Algorithm::Single(Fill { rate, burst: burst_bytes * 8 }),
            is_aware: false,
            overhead: 0,
            treatments: Treatments::default(),
            queue: None,
            sharing: Sharing::default(),
        }
    }

    /// The committed bucket.
    pub const fn first(&self) -> Fill {
        match self.algorithm {
            Algorithm::Single(fill) => fill,
            Algorithm::OneRate { committed, .. }
            | Algorithm::TwoRates { committed, .. }
            | Algorithm::Differentiated { committed, .. } => committed,
        }
    }

    /// The other one. With one rate, what it holds; it fills from the first one's overflow.
    pub const fn second(&self) -> Option<Fill> {
        match self.algorithm {
            Algorithm::Single(_) => None,
            Algorithm::OneRate { committed, excess_burst } => {
                Some(Fill { rate: committed.rate, burst: excess_burst })
            }
            Algorithm::TwoRates { peak, .. } => Some(peak),
            Algorithm::Differentiated { excess, .. } => Some(excess),
        }
    }

    /// True if the second bucket fills from the first one's overflow.
    pub const fn overflows(&self) -> bool {
        matches!(self.algorithm, Algorithm::OneRate { .. })
    }

    #[inline(always)]
    pub(crate) const fn rule(&self) -> Rule {
        match self.algorithm {
            Algorithm::Single(_) => Rule::Single,
            Algorithm::OneRate { .. } | Algorithm::Differentiated { .. } => Rule::Either,
            Algorithm::TwoRates { .. } => Rule::Both,
        }
    }

    /// True if one bucket decides, and a packet that it has tokens for passes unchanged.
    pub(crate) fn is_plain(&self) -> bool {
        self.rule() == Rule::Single
            && !self.is_aware
            && self.treatments.of(Colour::Green) == Treatment::Pass
    }

    /// The tokens of a packet, in thousand-millionths.
    #[inline(always)]
    pub const fn cost(&self, len: usize) -> u64 {
        match self.unit {
            // An IP packet has at most 65535 bytes: no overflow.
            Unit::Bits => (len as u64 + self.overhead as u64) * 8 * PARTS,
            Unit::Packets => PARTS,
        }
    }

    /// Checks them; `mtu` is the length of the longest packet, in bytes.
    ///
    /// # Errors
    /// The setting that cannot be, and its bucket: `false` in the first.
    pub fn check(&self, mtu: u64) -> Result<(), (SettingsError, bool)> {
        for (fill, is_second) in
            [Some((self.first(), false)), self.second().map(|fill| (fill, true))]
                .into_iter()
                .flatten()
        {
            self.check_fill(fill, mtu).map_err(|error| (error, is_second))?;
        }
        match self.algorithm {
            Algorithm::TwoRates { committed, peak } if peak.rate < committed.rate => {
                Err((SettingsError::PeakBelow, true))
            }
            _ => Ok(()),
        }
    }

    fn check_fill(&self, fill: Fill, mtu: u64) -> Result<(), SettingsError> {
        if fill.rate == 0 {
            return Err(SettingsError::ZeroRate);
        }
        let (most_rate, most, bits) = match self.unit {
            Unit::Bits => (MAX_RATE, MAX_BURST_BYTES * 8, 8),
            Unit::Packets => (PARTS, MAX_BURST_BYTES * 8, 1),
        };
        if fill.rate > most_rate {
            return Err(SettingsError::Rate);
        }
        // At such rates the nanoseconds that workers' leases are rounded to count.
        let rounding =
            if self.keeps_fractions(fill.rate) { fill.rate.div_ceil(ROUNDING) } else { 0 };
        let packet = match self.unit {
            Unit::Bits => (mtu + u64::from(self.overhead)) * 8,
            Unit::Packets => 1,
        };
        if fill.burst < packet + rounding {
            let least = (packet + rounding).div_ceil(bits);
            return Err(SettingsError::SmallBurst { least });
        }
        if fill.burst > most { Err(SettingsError::LargeBurst) } else { Ok(()) }
    }

    /// True if a nanosecond of the rate is so much of a packet that the rest of one must be kept.
    /// Otherwise less than 0.4 % of the shortest packet's tokens are lost.
    pub(crate) const fn keeps_fractions(&self, rate: u64) -> bool {
        match self.unit {
            Unit::Bits => rate > 500_000_000,
            Unit::Packets => rate > 3_000_000,
        }
    }
}

/// The most limiters one above the other.
pub const MAX_LEVELS: usize = 4;

/// The highest rate: 1 Tbit/s.
pub const MAX_RATE: u64 = 1_000_000_000_000;

/// The largest burst, in bytes: 1 GiB.
pub const MAX_BURST_BYTES: u64 = 1 << 30;

/// 1 / 80 ns: a nanosecond for each of 64 workers, and some.
const ROUNDING: u64 = PARTS / 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_told() {
        let check = |rate, burst| Settings::single(rate, burst).check(1500);
        assert_eq!(check(1_000_000, 1500), Ok(()));
        assert_eq!(check(0, 1500), Err((SettingsError::ZeroRate, false)));
        assert_eq!(check(MAX_RATE + 1, 1 << 20), Err((SettingsError::Rate, false)));
        let small = |least| Err((SettingsError::SmallBurst { least }, false));
        assert_eq!(check(1_000_000, 1499), small(1500));
        assert_eq!(check(100_000_000_000, 1500), small(2500));
        assert_eq!(check(1, MAX_BURST_BYTES + 1), Err((SettingsError::LargeBurst, false)));
        let committed = Fill { rate: 2, burst: 12_000 };
        let peak = Fill { rate: 1, burst: 12_000 };
        let settings = Settings {
            algorithm: Algorithm::TwoRates { committed, peak },
            ..Settings::single(2, 1500)
        };
        assert_eq!(settings.check(1500), Err((SettingsError::PeakBelow, true)));
    }
}
