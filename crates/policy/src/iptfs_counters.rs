//! Counters of an SA of IP-TFS mode: written by its home, read by anyone.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Declares counters, or gauges, once: field, name.
macro_rules! counters {
    ($(#[$all:meta])* $set:ident { $($extra:tt)* } $( $(#[$doc:meta])* $field:ident, $name:literal; )+) => {
        $(#[$all])*
        #[derive(Debug, Default)]
        pub struct $set { $( $(#[$doc])* pub $field: IptfsCounter, )+ $($extra)* }

        impl $set {
            /// Every one with its name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                [ $( ($name, self.$field.value()), )+ ].into_iter()
            }
        }
    };
}

counters! {
    /// Counters of one SA of IP-TFS mode. An SA has one direction, and so has each of them its meaning.
    IptfsCounters {
        /// Gauges: the present values.
        pub now: IptfsGauges,
    }
    /// Payloads sent, or taken apart.
    payloads, "payloads";
    /// Packets put into payloads, or taken out of them.
    packets, "packets";
    /// Packets among them that were spread over several payloads.
    spread, "spread-packets";
    /// Payloads of nothing but padding.
    padding, "padding-payloads";
    /// Outbound: packets for which the queue had no room. Inbound: packets of which a piece did not come.
    dropped, "dropped-packets";
    /// Inbound: payloads that came before one that was missing, and waited.
    early, "early-payloads";
    /// Inbound: payloads that came when they had been given up.
    late, "late-payloads";
    /// Inbound: payloads that were given up.
    missing, "missing-payloads";
    /// Inbound: payloads that contradict themselves, or what came before.
    faulty, "faulty-payloads";
    /// Inbound: payloads with a mark of congestion that counts.
    marked, "marked-payloads";
    /// Outbound: how often the circuit breaker has opened.
    breaks, "breaks";
    /// Outbound: how long the first packet of each payload has waited for it to leave, all together, in nanoseconds.
    waited_ns, "waited-ns";
    /// Outbound: the longest of these times.
    longest_wait_ns, "longest-wait-ns";
}

counters! {
    /// Present values of an SA of IP-TFS mode.
    IptfsGauges {}
    /// Outbound: the constant rate, in bits a second; 0 on demand.
    bits_per_s, "bits-per-second";
    /// Outbound: the round-trip time, in microseconds; 0 before it is known.
    rtt_us, "rtt-us";
    /// The loss event rate in millionths: inbound of arriving payloads, outbound of sent ones as the other end reports it.
    lost_ppm, "lost-ppm";
    /// Outbound: 1 while the circuit breaker is open.
    is_broken, "broken";
}

impl IptfsCounters {
    /// A payload leaves whose first packet has waited so long.
    pub fn leave(&self, waited_ns: u64) {
        self.payloads.add(1);
        self.waited_ns.add(waited_ns);
        if waited_ns > self.longest_wait_ns.value() {
            self.longest_wait_ns.set(waited_ns);
        }
    }

    /// How long the first packet of a payload has waited on average, in nanoseconds; 0 if none has left.
    pub fn mean_wait_ns(&self) -> u64 {
        let filled = self.payloads.value().saturating_sub(self.padding.value());
        self.waited_ns.value().checked_div(filled).unwrap_or(0)
    }
}

/// A counter, or gauge, with one writer, the SA's home.
#[derive(Debug, Default)]
pub struct IptfsCounter(AtomicU64);

impl IptfsCounter {
    /// Adds; only the SA's home calls this, so a load and a store are enough.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Puts a value in place of the one before.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The counter's value, read by any thread.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_payloads_with_packets() {
        let counters = IptfsCounters::default();
        assert_eq!(counters.mean_wait_ns(), 0);
        [100, 300].into_iter().for_each(|waited| counters.leave(waited));
        counters.leave(0);
        counters.padding.add(1);
        assert_eq!((counters.mean_wait_ns(), counters.longest_wait_ns.value()), (200, 300));
        assert_eq!(counters.iter().next(), Some(("payloads", 3)));
    }
}
