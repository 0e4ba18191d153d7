//! `[nat]`: whether NAT of Linux's is carried out by the fast path.

use serde::Deserialize;

/// Section `[nat]` of the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NatConfig {
    /// Where translations are learnt from.
    pub learn: NatLearning,
    /// Directions of translated connections that each port takes, at most.
    pub flows: u32,
}

/// Where translations are learnt from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NatLearning {
    /// Nothing is learnt.
    #[default]
    Off,
    /// Linux's connection tracking.
    Conntrack,
}

impl NatConfig {
    /// True if connections are learnt.
    pub fn is_on(&self) -> bool {
        self.learn == NatLearning::Conntrack
    }

    /// Directions that ports take: none where nothing is learnt.
    pub fn taken_flows(&self) -> u32 {
        if self.is_on() { self.flows } else { 0 }
    }
}

impl Default for NatConfig {
    fn default() -> Self {
        NatConfig { learn: NatLearning::Off, flows: 131_072 }
    }
}
