//! Where a packet came from.

use crate::view::LOOPBACK;

/// Where a packet came from, as routing and ICMP errors ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A port, in clear.
    Port {
        /// The port's interface.
        ifindex: u32,
        /// Whether the guard's barrier would stop it in Linux.
        is_barred: bool,
    },
    /// Linux, through the private interface.
    Linux,
    /// An SA: it was decrypted here.
    Decrypted {
        /// The interface that its ESP packet came in by.
        ifindex: u32,
    },
    /// The worker itself: an ICMP error.
    Worker {
        /// Whether it answers a packet that had been decrypted, and so must not leave in clear.
        protected: bool,
    },
}

impl Origin {
    /// The interface that routing rules see it come in by.
    pub(crate) const fn iif(self) -> u32 {
        match self {
            Origin::Port { ifindex, .. } | Origin::Decrypted { ifindex } => ifindex,
            Origin::Linux | Origin::Worker { .. } => LOOPBACK,
        }
    }

    /// Whether forwarding it is a hop, which decrements its TTL.
    pub(crate) const fn is_hop(self) -> bool {
        matches!(self, Origin::Port { .. } | Origin::Decrypted { .. })
    }
}
