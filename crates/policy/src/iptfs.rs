//! How an SA of IP-TFS mode packs what it carries (RFC 9347).

/// Settings of Linux's `XFRMA_IPTFS_*` attributes, and the rate that Linux has no word for.
///
/// An SA has one direction: the first two are of inbound SAs, the rest of outbound ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iptfs {
    /// How long a missing outer packet is waited for, in microseconds.
    pub drop_time_us: u32,
    /// How many outer packets behind a missing one are kept for it; 0 takes them as they come.
    pub reorder_window: u16,
    /// No inner packet is spread over several outer ones.
    pub dont_fragment: bool,
    /// How long the first packet of an empty queue waits for others, in microseconds.
    pub init_delay_us: u32,
    /// Most bytes of inner packets that wait.
    pub max_queue_bytes: u32,
    /// Length of an outer packet in bytes, from its IP header to the end of the AGGFRAG payload: ESP's trailer and ICV
    /// come on top, as Linux counts. 0 for what the path takes.
    pub packet_len: u32,
    /// The constant rate; `None` on demand, Linux's only mode.
    pub rate: Option<IptfsRate>,
}

/// A constant rate, at which outer packets of one length leave whether there is something to carry or not
/// (RFC 9347, section 2.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IptfsRate {
    /// Bits a second of outer packets, from the IP header on.
    pub bits_per_s: u64,
    /// How losses are met.
    pub losses: IptfsLosses,
}

/// Reaction of a constant rate to losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IptfsLosses {
    /// The rate stays: losses are not measured.
    Ignored,
    /// The rate follows the losses (section 2.4.2).
    Followed {
        /// Lower bound of the rate, in bits a second.
        least_bits_per_s: u64,
        /// Packets may be marked in place of being dropped (section 3.1).
        has_ecn: bool,
    },
    /// The rate stays, and the SA stops when losses last (section 2.4.2.1).
    Broken(IptfsBreaker),
}

/// A circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IptfsBreaker {
    /// More losses than this are too many.
    pub loss_percent: u32,
    /// How long they last until it opens, in seconds.
    pub after_s: u32,
    /// How long it stays open at least, in seconds.
    pub restart_s: u32,
}

impl IptfsRate {
    /// One that stays as it is.
    pub const fn constant(bits_per_s: u64) -> IptfsRate {
        IptfsRate { bits_per_s, losses: IptfsLosses::Ignored }
    }

    /// True if payloads report congestion: they have the longer header.
    pub const fn has_reports(&self) -> bool {
        !matches!(self.losses, IptfsLosses::Ignored)
    }

    /// True if packets carry ECN and received marks count as congestion.
    pub const fn has_ecn(&self) -> bool {
        matches!(self.losses, IptfsLosses::Followed { has_ecn: true, .. })
    }
}

impl Default for Iptfs {
    /// As of Linux.
    fn default() -> Iptfs {
        Iptfs {
            drop_time_us: 1_000_000,
            reorder_window: 3,
            dont_fragment: false,
            init_delay_us: 0,
            max_queue_bytes: 1024 * 10_240,
            packet_len: 0,
            rate: None,
        }
    }
}
