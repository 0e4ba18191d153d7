//! A session as it stands, for who manages it.

use crate::state::{Diagnostic, State};

/// The last packet of a peer, in what it says of its session. Intervals are microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSaid {
    /// Discriminator of the peer's session; 0 while nothing is heard.
    pub discr: u32,
    /// State of the peer's session.
    pub state: State,
    /// True if the peer is in demand mode.
    pub demand: bool,
    /// True if the peer's session does not end with its control plane.
    pub is_independent: bool,
    /// Shortest interval between its packets that the peer would use.
    pub desired_min_tx: u32,
    /// Shortest interval that the peer can receive with; 0: it wants no periodic packets.
    pub required_min_rx: u32,
    /// Shortest interval between echo packets that the peer can receive with; 0: none.
    pub required_min_echo_rx: u32,
    /// Packets of the peer that may be missing before the session is down.
    pub detect_mult: u8,
    /// Reason that the peer gives for its session's state.
    pub diagnostic: Diagnostic,
}

/// Packets of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that were received, and taken.
    pub received: u64,
    /// Packets that were sent.
    pub sent: u64,
}

/// A session as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Discriminator of this end.
    pub discr: u32,
    /// State of this end.
    pub state: State,
    /// Reason that this end last left the state Up.
    pub diagnostic: Diagnostic,
    /// Last packet of the peer.
    pub peer: PeerSaid,
    /// Interval of packets before the jitter, in microseconds. `None`: none are sent by themselves.
    pub transmit_us: Option<u32>,
    /// Without a packet for this long the session is down, in microseconds. `None`: nothing was heard yet.
    pub detection_us: Option<u64>,
    /// Packets so far.
    pub counts: Counts,
}
