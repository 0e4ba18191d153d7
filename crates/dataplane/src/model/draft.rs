//! How packets go on, before that is a plan: what is decided about one packet.

use conntrack::{Found, Rewrite};
use limit::LimitPath;
use policy::SaBundle;

use crate::model::{Action, Adjacency, NextHop};

/// How a packet goes on; a plan, once it is known to be good for the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft {
    pub(crate) action: Action,
    /// The next hop; the action's adjacency is meaningless where there is one.
    pub(crate) to: Option<NextHop>,
    /// The packet is cut into packets of at most so many bytes first.
    pub(crate) cut: Option<usize>,
    /// A SYN is told this maximum segment size first.
    pub(crate) mss: Option<u16>,
    /// True if the next packets of the flow are treated alike.
    pub(crate) is_for_flow: bool,
}

impl Draft {
    /// An action on all packets of a flow.
    pub(crate) const fn of_flow(action: Action) -> Draft {
        Draft { action, to: None, cut: None, mss: None, is_for_flow: true }
    }

    /// The packets of a flow are worker `home`'s.
    pub(crate) fn hand_over(home: usize) -> Draft {
        // A worker's number is below 256.
        Draft::of_flow(Action::HandOver { to: home as u8 })
    }
}

/// How several SAs protect a packet, one inside the other.
///
/// A plan has no room for so much: see [`crate::features::bundle::Bundles`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SealAll {
    pub(crate) sas: SaBundle,
    /// How many of them, from the innermost on, have this worker for a home. The packet goes on to the home
    /// of the next one then, if there is one.
    pub(crate) own: u8,
    /// The next hop, and the MTU of the path to the peer.
    pub(crate) to: NextHop,
    /// The next hop, as bytes, if its neighbour is known.
    pub(crate) adjacency: Option<Adjacency>,
    /// The packet is cut into packets of at most so many bytes first.
    pub(crate) cut: Option<usize>,
    pub(crate) is_hop: bool,
}

impl SealAll {
    /// The SAs that are left when the worker's own have sealed the packet.
    pub(crate) fn onward(&self) -> Option<SaBundle> {
        let mut left = self.sas.as_slice().iter().skip(self.own.into());
        let mut sas = SaBundle::new(*left.next()?);
        for sa in left {
            // As many as a bundle has.
            let _ = sas.push(*sa);
        }
        Some(sas)
    }
}

/// A packet that is translated, and then forwarded or sealed.
#[derive(Clone)]
pub(crate) struct Translation {
    /// Decision after the translation.
    pub(crate) draft: Draft,
    /// The connection in Linux's table.
    pub(crate) found: Found,
    /// Translation of the packet. `None`: it stays as it is.
    pub(crate) rewrite: Option<Rewrite>,
}

/// A rate limit.
#[derive(Clone)]
pub(crate) struct RateLimit {
    /// The worker's way through it, and those above it.
    pub(crate) path: LimitPath,
    /// Key of the packet's buckets among those of the limiter.
    pub(crate) key: u64,
    /// The DSCP of packets for which it was found, where others of their flow may be under another.
    pub(crate) dscp: Option<u8>,
}

/// Source and destination port, or ICMP type and code, of a packet's first fragment.
pub(crate) type FirstPorts = (u16, u16);

/// Reason that fragments wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Gather {
    /// To be opened; or, if it is other UDP, to be given back.
    Outer,
    /// To be sealed as one packet.
    Whole,
    /// To be given to an application; or, if it is no GTP-U, to be judged by the first one's ports.
    Gtpu,
    /// To be judged by the first one's ports.
    Ports,
}
