//! The throughput of TCP under the same conditions (RFC 5348, section 3.1).

/// Packets a second at this round-trip time and loss event rate, which is above 0: b is 1, and a retransmission's
/// timeout four round trips, as the RFC recommends.
pub fn packets_per_s(rtt_us: u32, loss_event_rate: f64) -> f64 {
    let rtt_s = f64::from(rtt_us.max(1)) / 1e6;
    let p = loss_event_rate.min(1.0);
    let timeouts = 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
    1.0 / (rtt_s * ((2.0 * p / 3.0).sqrt() + timeouts))
}

/// The loss event rate that goes with a throughput (section 6.3.1).
pub fn loss_event_rate(rtt_us: u32, packets_per_s_wanted: f64) -> f64 {
    let (mut low, mut high) = (1e-9_f64, 1.0_f64);
    // Throughput falls as the rate rises. Halving the exponents: sixty steps are more than a double tells apart.
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if packets_per_s(rtt_us, middle) > packets_per_s_wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_the_equation_s() {
        // Round-trip time in milliseconds, loss event rate, and 1/(R sqrt(2p/3) + 4R (3 sqrt(3p/8) p (1 + 32p^2))) by hand.
        let known = [
            (100, 0.01, 112.33),
            (100, 0.0001, 1223.64),
            (10, 0.05, 368.59),
            (1, 1.0, 4.11),
            (200, 0.1, 8.85),
        ];
        for (rtt_ms, p, expected) in known {
            let got = packets_per_s(rtt_ms * 1000, p);
            assert!((got / expected - 1.0).abs() < 0.01, "{rtt_ms} ms, {p}: {got}, not {expected}");
        }
    }

    proptest! {
        #[test]
        fn both_ways_agree(rtt_us in 100u32..4_000_000, p in 1e-7f64..0.9) {
            let back = loss_event_rate(rtt_us, packets_per_s(rtt_us, p));
            prop_assert!((back / p - 1.0).abs() < 1e-6);
            prop_assert!(packets_per_s(rtt_us, p * 1.1) < packets_per_s(rtt_us, p));
        }
    }
}
