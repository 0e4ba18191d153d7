//! News of an inbound SA (RFC 9347, section 3): losses, the value to send back, the other end's report.

use super::losses::Losses;
use super::low_half;
use super::report::{Heard, Report};
use crate::header::Congestion;

/// Arrivals by one SA, from which reports to the sender are made.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    losses: Losses,
    /// The value to send back, and when it came; of each that comes the first counts.
    to_echo: Option<(u32, u64)>,
    heard: Option<Heard>,
}

impl Arrivals {
    /// Arrivals of an SA that takes another one's place: its losses go on from the inverse of a
    /// loss event rate.
    pub fn after(inverse_rate: u32) -> Arrivals {
        Arrivals { losses: Losses::after(inverse_rate), ..Arrivals::default() }
    }

    /// A payload with this sequence number has come; `is_marked` by congestion (ECN CE), which is as good as lost
    /// (section 3.1). A replayed one must not be told.
    pub fn arrived(&mut self, seq: u64, is_marked: bool, header: Option<&Congestion>, now_us: u64) {
        // While the other end probes the path's MTU what is missing may be a probe (section 6.1.2).
        if header.is_some_and(|header| header.is_probe) {
            self.losses.forgive(seq);
        }
        let rtt_us = header.map_or(0, |header| header.rtt_us);
        self.losses.arrived(seq, is_marked, rtt_us, now_us);
        let Some(header) = header else { return };
        if self.to_echo.is_none_or(|(value, _)| value != header.value) {
            self.to_echo = Some((header.value, now_us));
        }
        // 0 is what an end says that has heard nothing yet.
        if header.echo != 0 {
            let passed_us = low_half(now_us).wrapping_sub(header.echo);
            self.heard = Some(Heard {
                loss_event_rate: header.loss_event_rate,
                // More than the whole is a clock of the other end's that runs wrong.
                path_us: passed_us.saturating_sub(header.echo_delay_us),
                transmit_delay_us: header.transmit_delay_us,
                at_us: now_us,
            });
        }
    }

    /// The report for the sender.
    pub fn report(&self) -> Report {
        let (echo, came_us) = self.to_echo.unwrap_or_default();
        Report {
            loss_event_rate: self.losses.inverse_rate(),
            is_congested: self.losses.has_marks(),
            echo,
            came_us,
            heard: self.heard,
        }
    }
}
