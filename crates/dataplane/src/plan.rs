//! What the look-ups decided about a flow, so that its next packets need none.
//!
//! The plan of a flow is not worked out beside the packet path: it is what the full path did to
//! one packet of the flow, written down on the way in a [`Lesson`]. A step whose outcome hangs on
//! more than the flow (a packet that was too long, that waits, that is dropped) writes down
//! nothing, and the flow's next packet takes the full path again.

use arrayvec::ArrayVec;
use policy::{PolicyEntry, SaHandle, SaState, Stamp, Tally};
use wire::Span;
use wire::ethernet::HEADER_LEN;

/// The next hop of a flow, as bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Adjacency {
    /// Where the egress port stands in the worker; below [`MAX_PORTS`](crate::worker::MAX_PORTS).
    pub(crate) slot: u16,
    /// The Ethernet header.
    pub(crate) header: [u8; HEADER_LEN],
}

impl Adjacency {
    /// Writes the Ethernet header in front of an IP packet, and says where the frame lies; none if
    /// there is no room for it.
    #[inline(always)]
    pub(crate) fn frame(&self, buffer: &mut [u8], ip: Span) -> Option<Span> {
        let start = ip.start.checked_sub(HEADER_LEN)?;
        *buffer.get_mut(start..)?.first_chunk_mut()? = self.header;
        Some(Span { start, len: ip.len + HEADER_LEN })
    }
}

/// What is done to the packets of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// ESP for this host, bare.
    OpenBare,
    /// UDP to a NAT traversal port of this host: ESP, a keepalive, or IKE.
    OpenUdp,
    /// Linux's: handed over through the private interface.
    ToLinux,
    /// Linux's: given back as received by the interface that it came in by.
    BackToLinux {
        /// The interface's tag.
        tag: u16,
    },
    /// Forwarded in clear.
    Forward {
        /// Where to.
        adjacency: Adjacency,
        /// The longest packet that goes out in one piece, in bytes.
        mtu: u16,
        /// Whether this is a hop of the packet's: its TTL is decremented.
        is_hop: bool,
    },
    /// Protected by an SA.
    Seal(Seal),
}

/// How an SA protects the packets of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seal {
    pub(crate) sa: SaHandle,
    /// The SA's state when it was chosen: in another one, another SA may be better.
    pub(crate) state: SaState,
    pub(crate) adjacency: Adjacency,
    /// Of the path to the peer, in bytes.
    pub(crate) mtu: u16,
    /// Tunnel mode: the longest packet that fits the path once it is sealed, in bytes. Transport
    /// mode: 0, as that depends on the packet's headers.
    pub(crate) longest: u16,
    pub(crate) is_hop: bool,
}

/// A length of IP packets, none of which is longer than 65535 bytes.
pub(crate) fn ip_len(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// The plan of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) action: Action,
    tallies: [Option<Tally>; MAX_QUESTIONS],
}

impl Plan {
    /// Where the policies that allowed it count each packet.
    #[inline(always)]
    pub(crate) fn tallies(&self) -> impl Iterator<Item = &Tally> {
        self.tallies.iter().flatten()
    }
}

/// A plan is good as long as the databases would answer the same to all of these questions.
pub(crate) type Stamps = ArrayVec<Stamp, MAX_QUESTIONS>;

/// Questions to the policy database about one packet: one on its way in, one on its way out.
const MAX_QUESTIONS: usize = 2;

/// What the full path has decided about a packet so far.
#[derive(Debug, Default)]
pub(crate) struct Lesson {
    tallies: ArrayVec<Tally, MAX_QUESTIONS>,
    stamps: Stamps,
    action: Option<Action>,
    /// There were more questions than a plan can keep.
    has_overflown: bool,
}

impl Lesson {
    /// The policy database was asked, and let the packet go on: by a policy, which has counted it,
    /// or for lack of one.
    pub(crate) fn allowed_by(&mut self, policy: Option<&PolicyEntry>, stamp: Stamp) {
        self.has_overflown |= self.stamps.try_push(stamp).is_err();
        if let Some(policy) = policy {
            self.has_overflown |= self.tallies.try_push(policy.tally().clone()).is_err();
        }
    }

    /// The packet went this way, and the next one of the flow may go without asking.
    pub(crate) fn conclude(&mut self, action: Action) {
        self.action = Some(action);
    }

    /// The flow's plan, if there is one.
    pub(crate) fn into_plan(self) -> Option<(Plan, Stamps)> {
        let Lesson { tallies, stamps, action, has_overflown } = self;
        let mut tallies = tallies.into_iter();
        let tallies = core::array::from_fn(|_| tallies.next());
        action.filter(|_| !has_overflown).map(|action| (Plan { action, tallies }, stamps))
    }
}
