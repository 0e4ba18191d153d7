//! Values of `[[limit]]`: rates, bursts, and what becomes of a colour.

use limit::{Fill, Treatment, Unit, units};
use serde::Deserialize;

use super::marks::Dscp;

/// A rate: `100Mbit`, `10kpps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64, pub Unit);

/// A burst: `64kB`, `32packets`; in bytes or packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst(pub u64, pub Unit);

/// Treatment of packets of a colour: `"pass"`, `"drop"`, or the DSCP that they get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action(pub Treatment);

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        units::rate(&text).map(|(n, unit)| Rate(n, unit)).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Burst {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        units::burst(&text).map(|(n, unit)| Burst(n, unit)).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Word(String),
        }
        let treatment = match Written::deserialize(deserializer)? {
            Written::Number(number @ 0..=63) => Some(Treatment::Mark(number as u8)),
            Written::Number(_) => None,
            Written::Word(word) => match word.as_str() {
                "pass" => Some(Treatment::Pass),
                "drop" => Some(Treatment::Drop),
                class => Dscp::of_class(class).map(|dscp| Treatment::Mark(dscp.0)),
            },
        };
        treatment.map(Action).ok_or_else(|| {
            let allowed = "this is no action; write \"pass\", \"drop\", or the DSCP that such packets get: 0 to 63, or a \
                           class such as \"AF12\"";
            serde::de::Error::custom(allowed)
        })
    }
}

impl Rate {
    /// 10 ms of it, at least 10 packets: what a burst is when it is left out.
    fn usual_burst(self) -> u64 {
        match self.1 {
            Unit::Bits => (self.0 / 100).max(15_000 * 8),
            Unit::Packets => (self.0 / 100).max(10),
        }
    }

    /// A bucket of it; a burst of bytes is in bits there.
    pub(super) fn fill(self, burst: Option<Burst>) -> Fill {
        let burst = burst.map_or(self.usual_burst(), Burst::tokens);
        Fill { rate: self.0, burst }
    }
}

impl Burst {
    pub(super) fn tokens(self) -> u64 {
        match self.1 {
            Unit::Bits => self.0.saturating_mul(8),
            Unit::Packets => self.0,
        }
    }
}
