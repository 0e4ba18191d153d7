//! A flow's plan: what is done to each of its packets without a look-up.
//!
//! A plan is a kept decision of [`crate::resolve`]. [`Plan::judge`] says whether it holds for a
//! packet; [`crate::apply`] carries it out.

use core::sync::atomic::Ordering::Relaxed;

use arrayvec::ArrayVec;
use esp::{Mode, Sa};
use io::Packet;
use policy::{PolicyCounters, Reader, SaEntry, SaHandle, SaState, Stamp, WorkerIndex};
use wire::ethernet::HEADER_LEN;
use wire::{Fields, Fragment, Span};

use crate::aggfrag::Aggregate;
use crate::flows::Details;
use crate::flows::bundles::BundleSlot;
use crate::flows::rates::RateSlot;
use crate::flows::translations::TranslationSlot;

/// The next hop of a flow, as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Adjacency {
    /// The egress port's slot, below [`MAX_PORTS`](crate::MAX_PORTS); or a VLAN's, from
    /// [`FIRST_VLAN_SLOT`](crate::FIRST_VLAN_SLOT) on, with [`KEEPS_DEI`](crate::vlan::KEEPS_DEI).
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

/// What is done to a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// ESP for this host, bare.
    OpenBare,
    /// UDP to a NAT traversal port of this host: ESP, a keepalive, or IKE; or fragments of UDP to this
    /// host, of which some may be that.
    OpenUdp,
    /// AH for this host; or ESP or AH that was inside another SA's packet.
    OpenNext,
    /// Linux's.
    ToLinux(LinuxWay),
    /// Linux's: given back as received by the interface that it came in by.
    BackToLinux {
        /// The interface's tag.
        tag: u16,
    },
    /// Forwarded in clear.
    Forward(Forward),
    /// Forwarded to a headend, whose slot its adjacency has: it gets segments (SRv6).
    Wrap(Forward),
    /// Protected by an SA.
    Seal(Seal),
    /// Protected by a device, which has the SA.
    Offload(Offload),
    /// Protected by an SA of IP-TFS mode, in payloads.
    Aggregate(Aggregate),
    /// Protected by several SAs, one inside the other.
    SealAll(BundleSlot),
    /// GTP-U of applications: each message says of which.
    Application {
        /// The service's number.
        service: u16,
        /// How Linux gets what is for none of them.
        linux: LinuxWay,
    },
    /// Takes the step of a segment of this node, or gets segments as a whole frame (SRv6).
    Step(StepTo),
    /// Translated, and then forwarded or protected.
    Translate(TranslationSlot),
    /// Under a rate limit, and then whatever else.
    Limit(RateSlot),
    /// Handed over to the worker that is the home of its SA.
    HandOver {
        /// The worker's number.
        to: u8,
    },
}

impl Action {
    /// Whether packets count in the flow cache elsewhere: ESP and AH to this host once they are opened,
    /// what is handed over where it goes.
    #[inline(always)]
    pub(crate) const fn is_counted_later(&self) -> bool {
        use Action::{HandOver, OpenBare, OpenNext, OpenUdp};
        matches!(self, OpenBare | OpenUdp | OpenNext | HandOver { .. })
    }

    /// [`Plan::judge`] for what few packets have done to them.
    #[inline(never)]
    fn rarely_holds(
        &self,
        reader: &Reader<Sa>,
        details: &Details,
        packet: &Packet,
        h: Fields,
    ) -> bool {
        match self {
            Action::SealAll(slot) => details.bundles.holds(reader, *slot, packet, h),
            Action::Translate(slot) => details.translations.holds(reader, *slot, packet, h),
            Action::Offload(seal) => is_offloaded_by(reader, seal, packet, h),
            Action::Limit(slot) => details.holds_beneath_limit(reader, *slot, packet, h),
            Action::Aggregate(by) => is_aggregated_by(reader, by, packet, h),
            Action::Step(step) => !details.is_with_helpers && h.total_len() <= step.longest,
            Action::Wrap(forward) => is_forwarded_by(forward, packet, h),
            _ => false,
        }
    }

    /// Whether what is done to a packet that passes a limit holds for it.
    pub(crate) fn holds(
        &self,
        reader: &Reader<Sa>,
        details: &Details,
        packet: &Packet,
        h: Fields,
    ) -> bool {
        match self {
            Action::Seal(seal) => {
                reader.sa(seal.sa).is_some_and(|sa| is_sealed_by(sa, seal, packet, h))
            }
            Action::Forward(forward) => is_forwarded_by(forward, packet, h),
            Action::SealAll(_)
            | Action::Translate(_)
            | Action::Offload(_)
            | Action::Wrap(_)
            | Action::Aggregate(_) => self.rarely_holds(reader, details, packet, h),
            // No limit is above another one: hierarchies are the limiters'.
            Action::Limit(_) => false,
            _ => true,
        }
    }

    /// Whether what is done to a packet that is translated holds for it.
    pub(crate) fn holds_beneath(&self, reader: &Reader<Sa>, packet: &Packet, h: Fields) -> bool {
        match self {
            Action::Seal(seal) => {
                reader.sa(seal.sa).is_some_and(|sa| is_sealed_by(sa, seal, packet, h))
            }
            Action::Forward(forward) | Action::Wrap(forward) => {
                h.total_len() <= forward.mtu && h.ttl() > 1
            }
            Action::Aggregate(by) => is_aggregated_by(reader, by, packet, h),
            _ => false,
        }
    }
}

/// The step of a packet at a segment or headend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTo {
    /// Where its function stands, see [`crate::segments`].
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
    /// Whether this is a hop of the packet's: its TTL is decremented.
    pub(crate) is_hop: bool,
    /// Whether the flow is of TCP that was decrypted, and its SYNs are told what fits the way back.
    pub(crate) clamps_mss: bool,
}

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
    /// Whether the flow is of TCP, and its SYNs are told what fits.
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

/// A length of IP packets, none of which is longer than 65535 bytes.
pub(crate) fn ip_len(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// The plan of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) action: Action,
    /// Counters of the policies that allowed it.
    counters: [Option<PolicyCounters>; MAX_POLICIES],
}

/// A plan holds as long as the databases would answer the same to all of these questions.
pub(crate) type Stamps = ArrayVec<Stamp, MAX_QUESTIONS>;

/// Questions to the policy database about one packet: one on its way in, one on its way out, and one at
/// the tunnel interface that it is routed to.
pub(crate) const MAX_QUESTIONS: usize = 3;

/// The most policies that a plan counts packets with: one of each way. A bypass policy in front of a
/// tunnel interface is the rare third.
pub(crate) const MAX_POLICIES: usize = 2;

/// Whether a plan holds for a packet.
pub(crate) enum Holds<'r> {
    /// The packet has to be resolved.
    No,
    /// It does.
    Yes,
    /// It does, and this is the SA that protects the packet.
    By(&'r SaEntry<Sa>),
}

impl Plan {
    pub(crate) fn new(action: Action, counters: ArrayVec<PolicyCounters, MAX_POLICIES>) -> Plan {
        let mut counters = counters.into_iter();
        Plan { action, counters: core::array::from_fn(|_| counters.next()) }
    }

    /// Counters of the policies that allowed the flow.
    #[inline(always)]
    pub(crate) fn counters(&self) -> impl Iterator<Item = &PolicyCounters> {
        self.counters.iter().flatten()
    }

    /// Counts a packet with the policies that allowed it.
    #[inline(always)]
    pub(crate) fn count(&self, worker: WorkerIndex, h: Fields, now_s: u64) {
        for counters in self.counters() {
            counters.count(worker, 1, u64::from(h.total_len()), now_s);
        }
    }

    /// Whether the plan holds for a packet: the SA is there and below its limits, the packet is
    /// short enough, and its TTL does not end here.
    #[inline(always)]
    pub(crate) fn judge<'r>(
        &self,
        reader: &'r Reader<Sa>,
        details: &Details,
        packet: &Packet,
        h: Fields,
    ) -> Holds<'r> {
        match &self.action {
            Action::Seal(seal) => match reader.sa(seal.sa) {
                Some(sa) if is_sealed_by(sa, seal, packet, h) => Holds::By(sa),
                _ => Holds::No,
            },
            Action::Forward(forward) => match is_forwarded_by(forward, packet, h) {
                true => Holds::Yes,
                false => Holds::No,
            },
            // All in one arm: with an arm more the compiler finds out anew what the action is at each use of it.
            rare @ (Action::SealAll(_)
            | Action::Offload(_)
            | Action::Aggregate(_)
            | Action::Translate(_)
            | Action::Step(_)
            | Action::Wrap(_)
            | Action::Limit(_)) => match rare.rarely_holds(reader, details, packet, h) {
                true => Holds::Yes,
                false => Holds::No,
            },
            _ => Holds::Yes,
        }
    }
}

/// Whether a packet can be forwarded as it is.
#[inline(always)]
fn is_forwarded_by(forward: &Forward, packet: &Packet, h: Fields) -> bool {
    let Forward { mtu, is_hop, clamps_mss, .. } = forward;
    let is_for_slow =
        h.total_len() > *mtu || *is_hop && h.ttl() <= 1 || *clamps_mss && is_syn(packet, h);
    !is_for_slow
}

/// Whether the plan's SA is still the one for this packet, and the packet can go as it is.
#[inline(always)]
fn is_sealed_by(sa: &SaEntry<Sa>, seal: &Seal, packet: &Packet, h: Fields) -> bool {
    let live = sa.esp.live();
    let fits = match seal.longest {
        0 => {
            let len = sa.esp.sealed_len_of(packet.data(), h);
            sa.esp.params().mode == Mode::Transport
                && len.is_ok_and(|len| len <= usize::from(seal.mtu))
        }
        longest => h.total_len() <= longest,
    };
    fits && sa.state() == seal.state
        && sa.is_below_alarms(live.bytes().load(Relaxed), live.packets().load(Relaxed))
        && (!seal.is_hop || h.ttl() > 1)
        && (!seal.clamps_mss || !is_syn(packet, h))
}

/// The same for an SA of IP-TFS mode, whose payloads have their own way.
fn is_aggregated_by(reader: &Reader<Sa>, by: &Aggregate, packet: &Packet, h: Fields) -> bool {
    let Some(sa) = reader.sa(by.sa) else { return false };
    let live = sa.esp.live();
    h.total_len() <= by.longest
        && sa.state() == by.state
        && sa.is_below_alarms(live.bytes().load(Relaxed), live.packets().load(Relaxed))
        && (!by.is_hop || h.ttl() > 1)
        && (!by.clamps_mss || !is_syn(packet, h))
}

/// The same for an SA in a device, which counts by itself and takes no fragments.
fn is_offloaded_by(reader: &Reader<Sa>, seal: &Offload, packet: &Packet, h: Fields) -> bool {
    let Some(sa) = reader.sa(seal.sa) else { return false };
    let fits = match seal.longest {
        0 => {
            let len = sa.esp.sealed_len_of(packet.data(), h);
            len.is_ok_and(|len| len <= usize::from(seal.mtu))
        }
        longest => h.total_len() <= longest,
    };
    fits && sa.state() == seal.state
        && h.fragment() == Fragment::Whole
        && (!seal.is_hop || h.ttl() > 1)
        && (!seal.clamps_mss || !is_syn(packet, h))
}

/// Whether a packet of a TCP flow opens a connection.
#[cold]
#[inline(never)]
fn is_syn(packet: &Packet, h: Fields) -> bool {
    packet.data().get(h.header_len().into()..).is_some_and(wire::tcp::is_syn)
}
