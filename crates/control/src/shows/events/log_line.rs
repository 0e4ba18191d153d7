//! Events as lines of the log: `event` is the name that `culvert events` has, and each field is one of the line's.

use tracing::{debug, info, warn};

use report::{Gone, Occurrence, SaGone, SaIdentity};

/// A line at the level that the first word says.
macro_rules! tell {
    ($is_news:expr, $($fields:tt)*) => {
        if $is_news { info!($($fields)*) } else { debug!($($fields)*) }
    };
}

/// Writes an event to the log. What the log of the IKE daemon has too, or the source's, is for those who want all.
pub(super) fn write(what: &Occurrence) {
    match what {
        Occurrence::SaUp(sa) => of_sa("sa-up", sa, None),
        Occurrence::SaRekeyed(sa) => of_sa("sa-rekeyed", sa, None),
        Occurrence::SaRemoved(SaGone { sa, why }) => of_sa("sa-removed", sa, Some(*why)),
        Occurrence::SaDown(SaGone { sa, why }) => of_sa("sa-down", sa, Some(*why)),
        Occurrence::SaLimit { spi, dst, hard } => {
            let limit = if *hard { "hard" } else { "soft" };
            info!(event = "sa-limit", spi, %dst, limit);
        }
        Occurrence::Acquire { policy, src, dst, protocol } => {
            debug!(event = "acquire", policy, %src, %dst, protocol);
        }
        Occurrence::PeerMoved { spi, src, port } => info!(event = "peer-moved", spi, %src, port),
        Occurrence::RateBroken { spi, dst, why } => info!(event = "rate-broken", spi, %dst, why),
        Occurrence::RateRestored { spi, dst } => info!(event = "rate-restored", spi, %dst),
        Occurrence::PathState { path, dscp, from, to } => {
            info!(event = "path-state", path, dscp, from = from.name(), to = to.name());
        }
        Occurrence::BfdState { peer, from, to, why } => {
            info!(event = "bfd-state", %peer, from, to, why);
        }
        Occurrence::BfdConnection { address, why: None } => {
            info!(event = "bfd-connection", address, "connected to bfdd");
        }
        Occurrence::BfdConnection { address, why: Some(why) } => {
            warn!(event = "bfd-connection", address, why, "bfdd is gone");
        }
        Occurrence::Steered { rule, paths } => {
            info!(event = "steered", rule, paths = paths.join(","));
        }
        Occurrence::PathMtu { dst, mtu } => info!(event = "path-mtu", %dst, mtu),
        Occurrence::PortUp { port } => info!(event = "port-up", port),
        Occurrence::PortDown { port, why } => info!(event = "port-down", port, why),
        Occurrence::DeviceUp { device } => info!(event = "device-up", device),
        Occurrence::DeviceDown { device, why } => info!(event = "device-down", device, why),
        // The log says more of these already.
        Occurrence::Reloaded { waits_for_restart } => {
            debug!(event = "reloaded", waits_for_restart = waits_for_restart.join(","));
        }
        Occurrence::ReloadRefused { why } => debug!(event = "reload-refused", why),
        Occurrence::DropBurst { reason, packets } => info!(event = "drop-burst", reason, packets),
        Occurrence::DropBurstOver { reason, packets, seconds } => {
            info!(event = "drop-burst-over", reason, packets, seconds);
        }
    }
}

/// An SA that came or went. That its owner should have replaced or deleted it before is news.
fn of_sa(event: &'static str, sa: &SaIdentity, gone: Option<Gone>) {
    let SaIdentity { spi, src, dst, suite, reqid, if_id } = sa;
    let if_id = (*if_id != 0).then(|| format!("{if_id:#x}"));
    let why = gone.map(|why| match why {
        Gone::Deleted => "deleted",
        Gone::Expired => "expired",
        Gone::LeftToKernel => "left-to-kernel",
    });
    let is_news = gone == Some(Gone::Expired);
    tell!(is_news, event, spi, %src, %dst, suite, reqid, if_id, why);
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("one thread").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'w> MakeWriter<'w> for Lines {
        type Writer = Lines;

        fn make_writer(&'w self) -> Lines {
            self.clone()
        }
    }

    fn written(what: &Occurrence) -> String {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(lines.clone())
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .finish();
        tracing::subscriber::with_default(subscriber, || write(what));
        let bytes = lines.0.lock().expect("one thread").clone();
        String::from_utf8(bytes).expect("text").trim().to_owned()
    }

    #[test]
    fn fields_are_words_of_the_line() {
        let port = Occurrence::PortDown { port: "lan".into(), why: "no carrier".into() };
        assert_eq!(written(&port), "INFO event=\"port-down\" port=\"lan\" why=\"no carrier\"");
        let dst = "192.0.2.2".parse().expect("an address");
        let limit = Occurrence::SaLimit { spi: "0x00000001".into(), dst, hard: true };
        assert_eq!(
            written(&limit),
            "INFO event=\"sa-limit\" spi=\"0x00000001\" dst=192.0.2.2 limit=\"hard\""
        );
        let sa = SaIdentity {
            spi: "0x00000001".into(),
            src: dst,
            dst,
            suite: "aes128gcm16".into(),
            reqid: 1,
            if_id: 42,
        };
        let gone = |why| Occurrence::SaDown(SaGone { sa: sa.clone(), why });
        let expired = written(&gone(Gone::Expired));
        assert!(expired.ends_with("reqid=1 if_id=\"0x2a\" why=\"expired\""), "{expired}");
        assert_eq!(written(&gone(Gone::Deleted)), "", "the IKE daemon's log has it");
        for line in [written(&port), written(&limit), expired] {
            for word in ["{", "Some(", "PortDown", "SaLimit", "SaDown"] {
                assert!(!line.contains(word), "{line}");
            }
        }
    }
}
