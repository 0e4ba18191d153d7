//! Where a packet came from.

use policy::Marks;

use crate::model::{LOOPBACK, was_inside};

/// Where a packet came from, as routing and ICMP errors ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A port, in clear.
    Port {
        /// The port's interface.
        ifindex: u32,
        /// The mark that a rule gives it, or 0.
        mark: u32,
        /// True if the guard's barrier would stop it in Linux.
        is_barred: bool,
    },
    /// Linux, through the private interface.
    Linux {
        /// Mark of the packet, 0 without one.
        mark: u32,
    },
    /// Linux, through a tunnel interface that it was routed to.
    Tunnel {
        /// Index of the interface.
        ifindex: u32,
        /// The mark of the packet, and the interface's id; or the interface's mark.
        marks: Marks,
    },
    /// An SA: it was decrypted here.
    Decrypted {
        /// The tunnel interface that it counts as received by, or else the interface that its ESP packet
        /// came in by.
        ifindex: u32,
        /// The mark that a rule gives it, or 0.
        mark: u32,
    },
    /// A step of SRv6: it was at a segment of this node, or has got segments.
    Stepped {
        /// Where the function stands, and whether the packet was inside of another; see [`crate::tables::segments`].
        index: u32,
        /// The mark that a rule gives it, or 0.
        mark: u32,
        /// True if it came under protection.
        protected: bool,
        /// The interface that routing rules see it come in by.
        ifindex: u32,
    },
    /// The worker itself: an ICMP error.
    Worker {
        /// True if it answers a packet that had been decrypted, and so must not leave in clear.
        protected: bool,
    },
    /// The worker itself: a probe of an uplink, which leaves in clear by it or not at all.
    Probe {
        /// The uplink's interface.
        ifindex: u32,
        /// Mark by which rules lead out of the uplink.
        mark: u32,
    },
    /// The worker itself: to a link-local address, which is on the link of an interface (RFC 4007 §6).
    OnLink {
        /// Index of the interface.
        ifindex: u32,
    },
}

impl Origin {
    /// The interface that routing rules see it come in by.
    pub(crate) const fn iif(self) -> u32 {
        match self {
            Origin::Port { ifindex, .. }
            | Origin::Decrypted { ifindex, .. }
            | Origin::Stepped { ifindex, .. } => ifindex,
            Origin::Linux { .. }
            | Origin::Tunnel { .. }
            | Origin::Worker { .. }
            | Origin::Probe { .. }
            | Origin::OnLink { .. } => LOOPBACK,
        }
    }

    /// Marks that travel beside it.
    pub(crate) const fn marks(self) -> Marks {
        match self {
            Origin::Linux { mark }
            | Origin::Port { mark, .. }
            | Origin::Decrypted { mark, .. }
            | Origin::Stepped { mark, .. } => Marks::of_mark(mark),
            Origin::Tunnel { marks, .. } => marks,
            // Its mark is for routing alone.
            Origin::Worker { .. } | Origin::Probe { .. } | Origin::OnLink { .. } => {
                Marks::of_mark(0)
            }
        }
    }

    /// True if forwarding it is a hop, which decrements its TTL.
    pub(crate) const fn is_hop(self) -> bool {
        match self {
            Origin::Port { .. } | Origin::Decrypted { .. } => true,
            // A step has spent it, but for what was inside.
            Origin::Stepped { index, .. } => was_inside(index),
            Origin::Linux { .. }
            | Origin::Tunnel { .. }
            | Origin::Worker { .. }
            | Origin::Probe { .. }
            | Origin::OnLink { .. } => false,
        }
    }

    /// True if it is on its way through this node, and not of a program here.
    pub(crate) const fn is_transit(self) -> bool {
        matches!(self, Origin::Port { .. } | Origin::Decrypted { .. } | Origin::Stepped { .. })
    }
}
