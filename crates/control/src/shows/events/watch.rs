//! Events that are found out by looking once a second.

use std::time::{Duration, Instant};

use super::drop_bursts::DropBursts;
use super::ports::PortStates;

/// How often is looked. A port that is back sooner was not gone.
const INTERVAL: Duration = Duration::from_secs(1);

/// States that were seen last.
pub struct Watch {
    /// States of the ports.
    pub ports: PortStates,
    /// Bursts by drop counters.
    pub drops: DropBursts,
    looked_at: Instant,
}

impl Watch {
    /// Before the first packet.
    pub fn new(now: Instant) -> Watch {
        Watch { ports: PortStates::default(), drops: DropBursts::default(), looked_at: now }
    }

    /// How long it is since the last look, if it is time for the next one, which this is then.
    pub fn due(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.looked_at);
        (passed >= INTERVAL).then(|| {
            self.looked_at = now;
            passed
        })
    }
}
