//! Circuit breakers of constant rates of IP-TFS that have opened, or closed.

use dataplane::BreakCause;
use policy::SaId;
use report::Occurrence;
use tracing::{info, warn};

use crate::Daemon;
use crate::clock::Now;
use crate::texts::spi_text;

impl Daemon {
    /// Logs a break: the operator who asked for the rate has to see that the path does not carry
    /// it (RFC 9347, section 2.4.1).
    pub(crate) fn note_break(&mut self, now: Now, sa: &SaId, cause: Option<BreakCause>) {
        let (spi, dst) = (spi_text(sa.spi), sa.dst);
        let occurrence = match cause.map(text) {
            Some(why) => {
                warn!(%spi, %dst, %why, "the constant rate of an SA has stopped");
                Occurrence::RateBroken { spi, dst, why }
            }
            None => {
                info!(%spi, %dst, "the constant rate of an SA goes on");
                Occurrence::RateRestored { spi, dst }
            }
        };
        self.shows.event_log.add(now, occurrence);
    }
}

fn text(cause: BreakCause) -> String {
    match cause {
        BreakCause::Losses { ppm } => format!("the other end reports losses of {} %", ppm / 10_000),
        BreakCause::Silence => "the other end reports nothing".to_owned(),
        BreakCause::Device => "the port does not take what is sent".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_a_sentence() {
        let losses = text(BreakCause::Losses { ppm: 253_000 });
        assert_eq!(losses, "the other end reports losses of 25 %");
        assert_ne!(text(BreakCause::Silence), text(BreakCause::Device));
    }
}
