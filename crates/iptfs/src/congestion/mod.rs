//! Congestion control of a constant rate (RFC 9347, section 2.4.2): TCP-friendly rate control (RFC 5348), told in the
//! header of sub-type 1.
//!
//! ```text
//!   arrives ──> losses ──> loss event rate, its inverse ──┐                     ┌──> header that leaves
//!          └──> the value to send back ───────────────────┴─> [`Controller`] ───┤
//!          └──> what the other end says of what it got ──> round-trip time, ────┴──> interval between payloads
//!                                                          allowed rate
//! ```
//!
//! | part | RFC 5348 |
//! | --- | --- |
//! | [`throughput`] | 3.1, 6.3.1 |
//! | [`losses`] | 5, 6 |
//! | [`sender`] | 4 |
//!
//! Times are microseconds of a clock that does not go back. A controller is a pair of SAs': what one brings is told by
//! the other.
//!
//! # Not handled
//!
//! Discounting of old intervals (section 5.5), which is optional. The rate at which the other end receives is not told
//! by the header: as payloads leave evenly, a doubling a round trip stands for section 4.3's limit by it.

pub mod losses;
pub mod sender;
pub mod throughput;

use self::losses::Losses;
use self::sender::Sender;
use crate::header::Congestion;

/// The state of a pair of SAs.
#[derive(Clone, Debug)]
pub struct Controller {
    losses: Losses,
    sender: Sender,
    /// The value to send back, and when it came; of each that comes the first counts.
    to_echo: Option<(u32, u64)>,
    has_marks: bool,
}

impl Controller {
    /// Before anything was sent; `most_per_s` payloads a second are never exceeded.
    pub fn new(most_per_s: f64, now_us: u64) -> Controller {
        Controller {
            losses: Losses::default(),
            sender: Sender::new(most_per_s, now_us),
            to_echo: None,
            has_marks: false,
        }
    }

    /// A payload with this sequence number has come; `is_marked` by congestion (ECN CE). A replayed one must not be told.
    pub fn arrived(&mut self, seq: u64, is_marked: bool, header: Option<&Congestion>, now_us: u64) {
        let rtt_us = header.map_or(0, |header| header.rtt_us);
        self.losses.arrived(seq, is_marked, rtt_us, now_us);
        self.has_marks |= is_marked;
        let Some(header) = header else { return };
        if self.to_echo.is_none_or(|(value, _)| value != header.value) {
            self.to_echo = Some((header.value, now_us));
        }
        // 0 is what an end says that has heard nothing yet.
        if header.echo != 0 {
            let passed = low_half(now_us).wrapping_sub(header.echo);
            let rtt_us = passed.wrapping_sub(header.echo_delay_us);
            self.sender.heard(header.loss_event_rate, rtt_us, now_us);
        }
    }

    /// What the next payload says.
    pub fn header(&mut self, now_us: u64) -> Congestion {
        let (echo, came_us) = self.to_echo.unwrap_or((0, now_us));
        let delay = u32::try_from(now_us - came_us).unwrap_or(u32::MAX);
        Congestion {
            is_probe: false,
            is_congested: core::mem::take(&mut self.has_marks),
            loss_event_rate: self.losses.inverse_rate(),
            rtt_us: self.sender.rtt_us().min(Congestion::MAX_RTT),
            echo_delay_us: delay.min(Congestion::MAX_DELAY),
            transmit_delay_us: self.interval_us(now_us).min(Congestion::MAX_DELAY),
            value: low_half(now_us).max(1),
            echo,
        }
    }

    /// Payloads a second that may be sent now.
    pub fn rate_per_s(&mut self, now_us: u64) -> f64 {
        self.sender.rate_per_s(now_us)
    }

    /// Microseconds between two payloads.
    pub fn interval_us(&mut self, now_us: u64) -> u32 {
        (1e6 / self.rate_per_s(now_us)).round().clamp(1.0, f64::from(u32::MAX)) as u32 // in range
    }
}

/// Times of 32 bits: a round trip is shorter than the hour after which they come back.
const fn low_half(now_us: u64) -> u32 {
    now_us as u32 // the low half is meant
}
