//! Measured quality of a path.

use core::time::Duration;

/// The measured quality of a path for one class of traffic, over one window of measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// True if the far end answers.
    pub is_alive: bool,
    /// Time from here to the far end, or there and back: as bounds mean it.
    pub delay: Duration,
    /// Variation of the delay.
    pub jitter: Duration,
    /// Lost probes, in millionths of those sent.
    pub loss_ppm: u32,
}
