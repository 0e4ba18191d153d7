//! What an SA of IP-TFS mode has packed, or unpacked: written by its home, read by anyone.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Declares the counters once: field, name.
macro_rules! counters {
    ($( $(#[$doc:meta])* $field:ident, $name:literal; )+) => {
        /// Counters of one SA of IP-TFS mode. An SA has one direction, and so has each of them its meaning.
        #[derive(Debug, Default)]
        pub struct IptfsCounters { $( $(#[$doc])* pub $field: IptfsCounter, )+ }

        impl IptfsCounters {
            /// Every counter with its name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                [ $( ($name, self.$field.value()), )+ ].into_iter()
            }
        }
    };
}

counters! {
    /// Payloads sent, or taken apart.
    payloads, "payloads";
    /// Packets put into payloads, or taken out of them.
    packets, "packets";
    /// Those of them that were spread over several payloads.
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
    /// Outbound: how long the first packet of each payload has waited for it to leave, all together, in nanoseconds.
    waited_ns, "waited-ns";
    /// Outbound: the longest of these times.
    longest_wait_ns, "longest-wait-ns";
}

impl IptfsCounters {
    /// A payload leaves whose first packet has waited so long.
    pub fn leave(&self, waited_ns: u64) {
        self.payloads.add(1);
        self.waited_ns.add(waited_ns);
        if waited_ns > self.longest_wait_ns.value() {
            self.longest_wait_ns.0.store(waited_ns, Relaxed);
        }
    }

    /// How long the first packet of a payload has waited on average, in nanoseconds; 0 if none has left.
    pub fn mean_wait_ns(&self) -> u64 {
        let filled = self.payloads.value().saturating_sub(self.padding.value());
        self.waited_ns.value().checked_div(filled).unwrap_or(0)
    }
}

/// A counter with one writer, the SA's home.
#[derive(Debug, Default)]
pub struct IptfsCounter(AtomicU64);

impl IptfsCounter {
    /// Adds; only the SA's home calls this, so a load and a store are enough.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The value.
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
