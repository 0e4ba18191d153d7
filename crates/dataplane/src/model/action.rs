//! Actions on the packets of a flow.

use policy::{SaHandle, SaState};

use crate::model::Adjacency;

/// How a packet is handed to Linux.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinuxWay {
    /// Through the private interface.
    Private,
    /// Through the tunnel interface in this slot.
    Tunnel(u16),
    /// Through the private interface, with the mark, and as received by the interface, that this tag
    /// stands for.
    Marked(u16),
}

/// Action for a packet, of a plan or decided afresh.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// ESP for this host, bare.
    OpenBare,
    /// UDP to a NAT traversal port of this host: ESP, a keepalive, or IKE; or fragments of UDP to this
    /// host, of which some may be that.
    OpenUdp,
    /// AH for this host; or ESP or AH that was inside another SA's packet.
    OpenNext,
    /// Given to Linux.
    ToLinux(LinuxWay),
    /// Linux's: given back as received by the interface that it came in by.
    BackToLinux {
        /// The interface's tag.
        tag: u16,
    },
    /// Forwarded in clear.
    Forward(Forward),
    /// Forwarded to the far end of an overlay, whose slot its adjacency has: it gets that one's headers.
    Encapsulate(Encapsulate),
    /// For this host, and an overlay's perhaps: what is inside goes on without its headers.
    Decapsulate(Decapsulate),
    /// Forwarded to a headend, whose slot its adjacency has: it gets segments (SRv6).
    Wrap(Wrap),
    /// Protected by an SA.
    Seal(Seal),
    /// Protected by a device, which has the SA.
    Offload(Offload),
    /// Protected by an SA of IP-TFS mode, in payloads.
    Aggregate(Aggregate),
    /// Protected by several SAs, one inside the other.
    SealAll(BundleSlot),
    /// GTP-U of applications: each message says of which.
    Application(ToApplication),
    /// Probe of a path, or a reply to one.
    Measure(Measure),
    /// BFD, for a session of this host perhaps.
    Bfd(Bfd),
    /// Sent in copies, by two tunnels.
    Replicate(Replicate),
    /// A copy of another host's: its headers, or itself, end here.
    Eliminate(Eliminate),
    /// Takes the step of a segment of this node, or gets segments as a whole frame (SRv6).
    Step(StepTo),
    /// Translated, and then forwarded or protected.
    Translate(TranslationSlot),
    /// Under a rate limit, and then whatever else.
    Limit(RateSlot),
    /// Looked at for the application of its flow, and then whatever else.
    Look(LookSlot),
    /// Handed over to the worker that is the home of its SA.
    HandOver {
        /// The worker's number.
        to: u8,
    },
}

impl Action {
    /// True if packets count in the flow cache elsewhere: ESP and AH to this host once they are
    /// opened, packets for another worker where they arrive.
    #[inline(always)]
    pub(crate) const fn is_counted_later(&self) -> bool {
        use Action::{HandOver, OpenBare, OpenNext, OpenUdp};
        matches!(self, OpenBare | OpenUdp | OpenNext | HandOver { .. })
    }

    /// Spends the hop ahead, of a packet that is cut: it is one for all pieces. True if there was one to spend.
    pub(crate) fn take_hop(&mut self) -> bool {
        let is_hop = match self {
            Action::Seal(seal) => &mut seal.is_hop,
            Action::Forward(forward)
            | Action::Wrap(Wrap(forward))
            | Action::Encapsulate(Encapsulate(forward)) => &mut forward.is_hop,
            Action::Aggregate(by) => &mut by.is_hop,
            Action::Replicate(by) => &mut by.is_hop,
            _ => return false,
        };
        core::mem::take(is_hop)
    }

    /// True if a packet leaves this host by it, as it is, with further headers, or protected. Decisions ask this rather
    /// than for kinds: one more kind is sorted here, for all of them.
    pub(crate) const fn leaves(&self) -> bool {
        match self {
            Action::Forward(_)
            | Action::Encapsulate(_)
            | Action::Wrap(_)
            | Action::Seal(_)
            | Action::Offload(_)
            | Action::Aggregate(_)
            | Action::Replicate(_)
            | Action::SealAll(_) => true,
            Action::OpenBare
            | Action::OpenUdp
            | Action::OpenNext
            | Action::ToLinux(_)
            | Action::BackToLinux { .. }
            | Action::Decapsulate(_)
            | Action::Application(_)
            | Action::Measure(_)
            | Action::Bfd(_)
            | Action::Eliminate(_)
            | Action::Step(_)
            | Action::HandOver { .. } => false,
            // What they go on by tells: these stand above it in a plan, and no decision is one.
            Action::Translate(_) | Action::Limit(_) | Action::Look(_) => false,
        }
    }

    /// The SA that protects packets, one alone.
    pub(crate) const fn protected_by(&self) -> Option<SaHandle> {
        match self {
            Action::Seal(seal) => Some(seal.sa),
            Action::Offload(seal) => Some(seal.sa),
            Action::Aggregate(by) => Some(by.sa),
            _ => None,
        }
    }

    /// The SA whose home has to be the worker that carries this out. A device's is with the device.
    pub(crate) fn sa(&self) -> Option<SaHandle> {
        self.protected_by().filter(|_| !matches!(self, Action::Offload(_)))
    }
}

/// The step of a packet at a segment or headend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTo {
    /// Where its function stands, see [`crate::tables::segments`].
    pub(crate) index: u32,
    /// The longest packet that takes it, in bytes.
    pub(crate) longest: u16,
}

/// How packets are forwarded in clear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forward {
    pub(crate) adjacency: Adjacency,
    /// The longest packet that goes out in one piece, in bytes.
    pub(crate) mtu: u16,
    /// True if this is a hop of the packet: its TTL is decremented.
    pub(crate) is_hop: bool,
    /// True if the flow is of TCP that was decrypted: the MSS of its SYNs is clamped to the way
    /// back.
    pub(crate) clamps_mss: bool,
}

/// How packets are forwarded to a headend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrap(pub(crate) Forward);

/// How packets are forwarded to the far end of an overlay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encapsulate(pub(crate) Forward);

/// For this host, and an overlay's perhaps. Others are Linux's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decapsulate(pub(crate) Other);

/// GTP-U of an address of applications.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToApplication {
    /// The service's number.
    pub(crate) service: u16,
    /// How Linux gets what is for none of them.
    pub(crate) linux: LinuxWay,
}

/// Probes of paths and their replies, to an address of this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    /// How Linux gets what is neither.
    pub(crate) other: Other,
}

/// How Linux gets a packet that proves to be another one than it may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Other {
    /// Given to Linux.
    ToLinux(LinuxWay),
    /// Given back as received by the interface with this tag.
    Back(u16),
}

impl Other {
    /// The way of an action that gives packets to Linux. `None` for any other action.
    pub(crate) const fn of(action: &Action) -> Option<Other> {
        match action {
            Action::ToLinux(way) => Some(Other::ToLinux(*way)),
            Action::BackToLinux { tag } => Some(Other::Back(*tag)),
            _ => None,
        }
    }

    /// The action that does it.
    pub(crate) const fn action(self) -> Action {
        match self {
            Other::ToLinux(way) => Action::ToLinux(way),
            Other::Back(tag) => Action::BackToLinux { tag },
        }
    }
}

/// BFD to an address of this host. What is for none of culvert's sessions is Linux's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bfd(pub(crate) Other);

/// How packets of a flow are sent in copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicate {
    /// Number of the replication among those of the rules.
    pub(crate) set: u16,
    /// State of the databases in which both ways were asked about.
    pub(crate) generation: u32,
    /// The longest packet that fits both ways with a copy's headers, in bytes.
    pub(crate) longest: u16,
    pub(crate) is_hop: bool,
    /// True if the flow is of TCP: the MSS of its SYNs is clamped.
    pub(crate) clamps_mss: bool,
}

/// Copies of other hosts, to an address of this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eliminate;

/// How an SA protects packets.
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
    /// True if the flow is of TCP: the MSS of its SYNs is clamped.
    pub(crate) clamps_mss: bool,
}

/// How an SA that a device has protects packets: as of [`Seal`], but the next hop, which is found for each packet that
/// comes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offload {
    pub(crate) sa: SaHandle,
    pub(crate) state: SaState,
    pub(crate) mtu: u16,
    pub(crate) longest: u16,
    pub(crate) is_hop: bool,
    pub(crate) clamps_mss: bool,
}

/// How packets of a flow go into an SA's payloads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aggregate {
    pub(crate) sa: SaHandle,
    /// The SA's state when it was chosen: in another one, another SA may be better.
    pub(crate) state: SaState,
    /// The longest packet that payloads take, in bytes.
    pub(crate) longest: u16,
    pub(crate) is_hop: bool,
    /// True if the flow is of TCP: the MSS of its SYNs is clamped.
    pub(crate) clamps_mss: bool,
}

/// A length of IP packets, none of which is longer than 65535 bytes.
pub(crate) fn ip_len(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// Where the bundle of a flow stands ([`crate::features::bundle::Bundles`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BundleSlot {
    pub(crate) place: u32,
    pub(crate) serial: u32,
}

/// Where the translation of a flow stands ([`crate::features::translate::Translations`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TranslationSlot {
    pub(crate) place: u32,
    pub(crate) serial: u32,
}

/// Where the rate limit of a flow stands ([`crate::features::limit::Rates`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateSlot {
    pub(crate) place: u32,
    pub(crate) serial: u32,
}

/// Where the look at a flow stands ([`crate::features::look::Looks`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LookSlot {
    pub(crate) place: u32,
    pub(crate) serial: u32,
}
