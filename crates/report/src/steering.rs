//! `culvert steer`: which traffic takes which path.

use serde::{Deserialize, Serialize};

/// A rule, and its paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steer {
    /// Name of the rule.
    pub rule: String,
    /// Its paths, the preferred one first.
    pub paths: Vec<SteerPath>,
    /// Seconds for which a path must be well before it has flows again.
    pub return_after_s: u32,
    /// Second copies of its packets, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<SteerCopies>,
    /// Parity of its packets, if it wants any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parity: Option<SteerParity>,
    /// Tunnel interfaces that routes lead to and no path has: no rule is asked about their packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unasked: Vec<SteerUnasked>,
}

/// A tunnel interface that routes lead to and no path has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteerUnasked {
    /// Name of the interface.
    pub interface: String,
    /// Destinations of one of the routes.
    pub route: String,
    /// Other routes that lead there.
    pub more: usize,
}

/// Parity of a rule's packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SteerParity {
    /// One parity packet for so many.
    Of(u8),
    /// There is none, for this reason.
    Refused(String),
}

/// Second copies of a rule's packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SteerCopies {
    /// They go by this path.
    By(String),
    /// There are none, for this reason.
    Refused(String),
}

/// A path under a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteerPath {
    /// Name of the path.
    pub name: String,
    /// How it stands.
    pub stands: PathStanding,
    /// Seconds for which a bad path has been within the bounds by the margin.
    pub well_s: Option<u64>,
    /// Weight among the paths that have flows; 0: it has none.
    pub weight: u16,
}

/// How a path stands under a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathStanding {
    /// Within the bounds, or not measured yet.
    Good,
    /// Beyond the bounds, or not within them for long enough.
    Bad,
    /// Without an answer from the far end, or without an interface.
    Dead,
}

impl PathStanding {
    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            PathStanding::Good => "good",
            PathStanding::Bad => "bad",
            PathStanding::Dead => "dead",
        }
    }
}
