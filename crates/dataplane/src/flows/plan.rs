//! A flow's plan: what is done to each of its packets without a look-up.
//!
//! A plan is a kept decision of [`crate::resolve`]. [`Plan::judge`] says whether it holds for a
//! packet; [`crate::apply`] carries it out.

use core::sync::atomic::Ordering::Relaxed;

use arrayvec::ArrayVec;
use esp::{Mode, Sa};
use io::Packet;
use policy::{PolicyCounters, Reader, SaEntry, Stamp, WorkerIndex};
use wire::{Fields, Fragment};

use crate::flows::Details;
use crate::model::{Action, Aggregate, Forward, Offload, Seal};

impl Action {
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
