//! The worker's counters: how packets came in, what was done to them, and how each ended.

use outcome::{DropReason, Outcome};

use crate::gtpu::Gtpu;
use crate::latency::Latency;
use crate::model::{Counter, named_counters};

named_counters! {
    /// The worker's work, beside the ends of packets.
    Work:
    /// Packets that were decrypted.
    decrypted, "decrypted";
    /// Packets that were encrypted.
    encrypted, "encrypted";
    /// Packets that went by their flow's cached plan. Here and in the misses, ESP to this host
    /// counts once, when it is decrypted, and what comes to a NAT traversal port otherwise not at
    /// all.
    flow_hits, "flow-hits";
    /// Packets that took the slow path: their flow had no plan, or none that fitted them.
    flow_misses, "flow-misses";
    /// Packets forwarded in clear, by the tables.
    forwarded_clear, "forwarded-clear";
    /// Packets that got segments (SRv6 headend).
    srv6_encapsulated, "srv6-encapsulated";
    /// Steps of packets on to another segment (SRv6 End and its like).
    srv6_steps, "srv6-steps";
    /// Packets that were inside of others, which ended at a segment of this node.
    srv6_decapsulated, "srv6-decapsulated";
    /// Packets that got the headers of an overlay.
    overlay_encapsulated, "overlay-encapsulated";
    /// Packets that were inside of an overlay's, and went on without its headers.
    overlay_decapsulated, "overlay-decapsulated";
    /// Packets of overlays to this host that Linux got: for itself, of an unknown network or key, or not understood.
    overlay_left, "overlay-left";
    /// Packets whose addresses were translated as Linux's NAT has decided.
    translated, "translated";
    /// Packets that were cut into fragments, before or after encryption or without it.
    fragmented, "fragmented";
    /// Packets that were put together from fragments.
    reassembled, "reassembled";
    /// ICMP errors made.
    icmp_errors, "icmp-errors";
    /// ICMP errors not made because of the rate limit or the rules that forbid them.
    icmp_suppressed, "icmp-suppressed";
    /// ICMP errors about this host's own ESP that quoted a packet that was really sent.
    path_mtu_reports, "path-mtu-reports";
    /// Such errors that quoted no packet that was sent: guesses, or about an SA that is gone.
    path_mtu_guesses, "path-mtu-guesses";
    /// Such errors that quoted a packet that was really sent, and were ignored among too many guesses.
    path_mtu_ignored, "path-mtu-ignored";
    /// ICMPv6 errors that said that a packet with segments of this host's was too big.
    srv6_path_mtu_reports, "srv6-path-mtu-reports";
    /// Other ICMPv6 errors from inside of the path of this host's segments: nobody is there, or its hops end.
    srv6_path_errors, "srv6-path-errors";
    /// TCP connections that were told a smaller maximum segment size.
    mss_clamped, "mss-clamped";
    /// Packets that were tried with later sequence numbers, as an SA with ESN had failed so often.
    resync_tries, "esn-resync-tries";
    /// Resyncs that found the number: the SA goes on with it.
    resyncs, "esn-resyncs";
    /// Probes of paths sent.
    probes_sent, "probes-sent";
    /// Replies that measured something.
    probes_answered, "probes-answered";
    /// Probes of others sent back.
    probes_reflected, "probes-reflected";
    /// Packets of BFD sent.
    bfd_sent, "bfd-sent";
    /// Packets of BFD that their sessions have heard.
    bfd_received, "bfd-received";
    /// BFD echo packets of peers that were sent back.
    bfd_echoed, "bfd-echoed";
    /// Second copies made of packets that travel in copies.
    copies_made, "copies-made";
    /// Bytes of these packets, without the headers of copies.
    copies_made_bytes, "copies-made-bytes";
    /// Copies of other hosts, first and second ones.
    copies_taken, "copies-taken";
    /// Packets out of copies that waited for those before them.
    copies_waited, "copies-waited";
    /// Packets that were waited for in vain: no copy of them came in time.
    copies_gaps, "copies-gaps";
    /// Parity packets made.
    parity_made, "parity-made";
    /// Bytes of these packets, without the headers of copies.
    parity_made_bytes, "parity-made-bytes";
    /// Parity packets of other hosts.
    parity_taken, "parity-taken";
    /// Lost packets that parity has brought back.
    parity_recovered, "parity-recovered";
    /// Acquires sent to the owners of policies.
    acquires, "acquires";
    /// Partial checksums completed.
    checksums_completed, "checksums-completed";
    /// Times the worker slept because there was nothing to do.
    sleeps, "sleeps";
}

/// Declares what a helper counts, to be added to the counters of the worker that it serves.
macro_rules! counted_by_helpers {
    ($( $field:ident, )+) => {
        /// A helper's counts, to be added to the worker's counters.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Done { $( $field: u64, )+ }

        impl Done {
            /// The present values.
            pub(crate) fn of(work: &Work) -> Done {
                Done { $( $field: work.$field.value(), )+ }
            }

            /// The counts since `before`.
            pub(crate) fn since(self, before: Done) -> Done {
                Done { $( $field: self.$field - before.$field, )+ }
            }

            /// Adds it to the counters.
            pub(crate) fn add_to(self, work: &Work) {
                $( work.$field.add(self.$field); )+
            }
        }
    };
}

counted_by_helpers! {
    decrypted,
    encrypted,
    flow_hits,
    flow_misses,
    forwarded_clear,
    mss_clamped,
    acquires,
    checksums_completed,
    overlay_encapsulated,
    resync_tries,
    resyncs,
    srv6_encapsulated,
}

/// One worker's counters.
///
/// Invariant, whenever the worker is between two bursts: `received + generated + taken over` is the sum
/// of transmitted, to Linux, consumed, dropped, handed over, and those held now.
#[derive(Debug)]
pub struct Counters {
    /// Rounds of the worker, also those that found nothing: as long as they come it works.
    pub rounds: Counter,
    /// Packets received, from ports and from Linux.
    pub received: Counter,
    /// Packets that the worker made: fragments beyond the first, ICMP errors.
    pub generated: Counter,
    /// Packets handed over to other workers.
    pub handed_over: Counter,
    /// Packets taken over from other workers.
    pub taken_over: Counter,
    transmitted: Counter,
    to_linux: Counter,
    consumed: Counter,
    held: Counter,
    drops: Box<[Counter]>,
    /// Counters of the work.
    pub work: Work,
    /// GTP-U of applications, which few have.
    pub gtpu: Box<Gtpu>,
    /// How long packets were here. Beside what is counted for each packet, as it is not.
    pub latency: Box<Latency>,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            rounds: Counter::default(),
            received: Counter::default(),
            generated: Counter::default(),
            handed_over: Counter::default(),
            taken_over: Counter::default(),
            transmitted: Counter::default(),
            to_linux: Counter::default(),
            consumed: Counter::default(),
            held: Counter::default(),
            drops: DropReason::ALL.iter().map(|_| Counter::default()).collect(),
            work: Work::default(),
            gtpu: Box::default(),
            latency: Box::default(),
        }
    }
}

/// Totals of how packets ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that were received.
    pub received: u64,
    /// Made by the worker.
    pub generated: u64,
    /// Handed over to other workers.
    pub handed_over: u64,
    /// Taken over from other workers.
    pub taken_over: u64,
    /// Sent out of a port.
    pub transmitted: u64,
    /// Handed to Linux.
    pub to_linux: u64,
    /// Packets that were consumed.
    pub consumed: u64,
    /// Packets that are held now.
    pub held: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}

impl core::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.received += other.received;
        self.generated += other.generated;
        self.handed_over += other.handed_over;
        self.taken_over += other.taken_over;
        self.transmitted += other.transmitted;
        self.to_linux += other.to_linux;
        self.consumed += other.consumed;
        self.held += other.held;
        self.dropped += other.dropped;
    }
}

impl Totals {
    /// In less out: 0 between bursts.
    pub fn balance(&self) -> i64 {
        let came = self.received + self.generated + self.taken_over;
        let ended = self.transmitted + self.to_linux + self.consumed + self.dropped;
        let went = ended + self.held + self.handed_over;
        came.wrapping_sub(went) as i64
    }
}

impl Counters {
    /// Counts how packets ended.
    pub fn count(&self, outcome: Outcome, n: u64) {
        match outcome {
            Outcome::Transmitted => self.transmitted.add(n),
            Outcome::ToLinux => self.to_linux.add(n),
            Outcome::Consumed => self.consumed.add(n),
            Outcome::Held => self.held.add(n),
            Outcome::Dropped(reason) => {
                if let Some(counter) = self.drops.get(reason as usize) {
                    counter.add(n);
                }
            }
        }
    }

    /// Held packets that another worker, whose counters are `from`, held before.
    pub(crate) fn adopt_held(&self, from: &Counters, n: u64) {
        from.handed_over.add(n);
        from.released(n);
        self.taken_over.add(n);
        self.count(Outcome::Held, n);
    }

    /// A held packet goes on; it will end in another way.
    pub fn released(&self, n: u64) {
        self.held.sub(n);
    }

    /// Packets dropped for one reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops.get(reason as usize).map_or(0, Counter::value)
    }

    /// The totals. Exact while the worker is between bursts.
    pub fn totals(&self) -> Totals {
        Totals {
            received: self.received.value(),
            generated: self.generated.value(),
            handed_over: self.handed_over.value(),
            taken_over: self.taken_over.value(),
            transmitted: self.transmitted.value(),
            to_linux: self.to_linux.value(),
            consumed: self.consumed.value(),
            held: self.held.value(),
            dropped: self.drops.iter().map(Counter::value).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balance_shows_a_lost_packet() {
        let c = Counters::default();
        c.received.add(3);
        c.count(Outcome::Transmitted, 1);
        c.count(Outcome::Dropped(DropReason::NoRoute), 1);
        assert_eq!(c.totals().balance(), 1);
        c.count(Outcome::Held, 1);
        assert_eq!(c.totals().balance(), 0);
        c.released(1);
        c.count(Outcome::ToLinux, 1);
        assert_eq!(c.totals().balance(), 0);
        assert_eq!(c.dropped(DropReason::NoRoute), 1);
    }
}
