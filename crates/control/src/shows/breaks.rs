//! Circuit breakers of constant rates of IP-TFS that have opened, or closed.

use dataplane::BreakCause;
use policy::SaId;
use report::Occurrence;
use tracing::{info, warn};

use crate::texts::spi_text;

/// Logs a break, and says it as an event: the operator who asked for the rate has to see that the path does not carry
/// it (RFC 9347, section 2.4.1).
pub(crate) fn told(sa: &SaId, cause: Option<BreakCause>) -> Occurrence {
    let (spi, dst) = (spi_text(sa.spi), sa.dst);
    match cause.map(text) {
        Some(why) => {
            warn!(%spi, %dst, %why, "the constant rate of an SA has stopped");
            Occurrence::RateBroken { spi, dst, why }
        }
        None => {
            info!(%spi, %dst, "the constant rate of an SA goes on");
            Occurrence::RateRestored { spi, dst }
        }
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
