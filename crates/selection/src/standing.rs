//! The standing of one path under one rule.

use core::time::Duration;

use crate::bounds::Bounds;
use crate::quality::Quality;

/// How a path stands under a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Within the bounds.
    #[default]
    Good,
    /// Beyond them, or not yet back within them for long enough.
    Bad {
        /// Since when it has been within the bounds by the margin, without a break.
        well_since: Option<Duration>,
    },
    /// The far end does not answer.
    Dead,
}

impl Standing {
    /// The standing after a measurement at `now`. A path of which nothing is known stands as it did: a session that begins
    /// anew ends no hold-down.
    pub(crate) fn after(
        self,
        now: Duration,
        quality: Option<&Quality>,
        bounds: &Bounds,
        return_after: Duration,
    ) -> Standing {
        let Some(quality) = quality else { return self };
        if !quality.is_alive {
            return Standing::Dead;
        }
        match self {
            Standing::Good if bounds.hold(quality) => Standing::Good,
            Standing::Good => Standing::Bad { well_since: None },
            Standing::Bad { .. } | Standing::Dead if !bounds.hold_well(quality) => {
                Standing::Bad { well_since: None }
            }
            Standing::Dead | Standing::Bad { well_since: None } => {
                Standing::Bad { well_since: Some(now) }
            }
            Standing::Bad { well_since: Some(since) }
                if now.saturating_sub(since) < return_after =>
            {
                self
            }
            Standing::Bad { .. } => Standing::Good,
        }
    }
}
