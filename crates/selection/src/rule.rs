//! A rule: whose paths, in which order, within which bounds.

use core::time::Duration;

use crate::bounds::Bounds;

/// The most paths of a rule.
pub const MAX_CANDIDATES: usize = 64;

/// A path that a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Index of the path.
    pub path: u16,
    /// Number by which flows draw lots for the path: the same while it is the same path, whatever its index.
    pub lot: u64,
    /// Share of the flows, where paths share them. At least 1.
    pub weight: u16,
}

/// How flows are spread over the good paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// All take the first of them.
    #[default]
    Prefer,
    /// Each takes one by the weights.
    Share,
}

/// Treatment of flows while no path is within the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// They take the least bad path.
    #[default]
    LeastBad,
    /// They are stopped.
    Block,
}

/// Which paths some traffic may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The paths, the preferred one first; 1 to [`MAX_CANDIDATES`].
    pub candidates: Vec<Candidate>,
    /// The worst quality that is good.
    pub bounds: Bounds,
    /// How flows are spread over the good paths.
    pub spread: Spread,
    /// Treatment of flows where none is good.
    pub fallback: Fallback,
    /// How long a path must be within the bounds by the margin before it is good again.
    pub return_after: Duration,
}
