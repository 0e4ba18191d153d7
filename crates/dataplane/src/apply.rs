//! Actions: carries out what a plan says, for fresh and for cached decisions alike.
//!
//! Nothing is decided here. What an action needs to be exact (the SA is there, the packet fits, its
//! TTL goes on) was checked by [`crate::resolve`] or by [`Plan::judge`](crate::flows::plan::Plan::judge).

use esp::Sa;
use io::Packet;
use outcome::{DropReason, Outcome};
use policy::SaEntry;
use wire::natt::{self, NattPayload};
use wire::{Fields, Fragment};

use crate::crypt::Crypt;
use crate::features::aggfrag::Aggfrag;
use crate::features::device::Devices;
use crate::features::fragments::Fragments;
use crate::features::open::inbound_sas::InboundSas;
use crate::flows::Details;
use crate::model::{Action, Forward, LinuxWay, Meta, NextHop, SteppedScratch};
use crate::packets::Out;
use crate::view::View;

/// What carries decisions out: the crypto stage and the exit.
pub(crate) struct Executor {
    pub(crate) crypt: Crypt,
    pub(crate) out: Out,
    pub(crate) sas: InboundSas,
    /// What plans have no room for.
    pub(crate) details: Details,
    /// Fragments that wait; a helper has none.
    pub(crate) fragments: Option<Box<Fragments>>,
    /// Memory for packets between two steps of SRv6, since there were some.
    pub(crate) stepped: Option<Box<SteppedScratch>>,
    /// Queues of packet offload devices, where there are any.
    pub(crate) devices: Option<Box<Devices>>,
    /// What is packed and unpacked for SAs of IP-TFS mode.
    pub(crate) aggfrag: Aggfrag,
}

impl AsMut<Out> for Executor {
    fn as_mut(&mut self) -> &mut Out {
        &mut self.out
    }
}

impl Executor {
    pub(crate) fn new(crypt: Crypt, out: Out) -> Executor {
        Executor {
            crypt,
            out,
            sas: InboundSas::default(),
            details: Details::default(),
            fragments: None,
            stepped: None,
            devices: None,
            aggfrag: Aggfrag::default(),
        }
    }

    /// Carries out an action on a packet.
    ///
    /// `sa` is the SA of [`Action::Seal`]; `to` the next hop, where the action's adjacency is not
    /// known.
    #[inline(always)]
    pub(crate) fn apply(
        &mut self,
        view: &View,
        action: &Action,
        (sa, to): (Option<&SaEntry<Sa>>, Option<&NextHop>),
        packet: Packet,
        meta: &Meta,
    ) {
        let h = meta.summary.fields;
        match action {
            Action::Seal(seal) => match sa {
                Some(sa) => self.seal(view, seal, (sa, to), packet, h),
                None => self.out.drop(packet, DropReason::OutStateExpired),
            },
            // In one arm, as in `Plan::judge`.
            Action::SealAll(_)
            | Action::Offload(_)
            | Action::Aggregate(_)
            | Action::Translate(_)
            | Action::Limit(_)
            | Action::Step(_)
            | Action::Wrap(_)
            | Action::Application { .. } => {
                self.apply_rare(view, action, packet, meta);
            }
            Action::OpenBare => self.open_bare(view, packet, meta),
            Action::OpenUdp => self.open_udp(view, packet, meta),
            Action::OpenNext => self.open_next(view, packet, meta),
            Action::ToLinux(way) => self.give(packet, *way),
            Action::BackToLinux { tag } => self.out.give_back(packet, *tag),
            Action::Forward(forward) => self.forward(view, forward, to, packet, h),
            Action::HandOver { to } => self.out.hand_over(view, (*to).into(), packet, meta),
        }
    }

    /// What few packets have done to them.
    #[inline(never)]
    fn apply_rare(&mut self, view: &View, action: &Action, packet: Packet, meta: &Meta) {
        match action {
            Action::SealAll(slot) => match self.details.bundles.get(*slot).copied() {
                Some(seal) => self.seal_all(view, &seal, packet, meta.summary.fields),
                None => self.out.drop(packet, DropReason::OutStateExpired),
            },
            Action::Offload(seal) => self.offload(view, seal, packet, meta),
            Action::Aggregate(by) => self.aggregate(view, by, packet, meta.summary.fields),
            Action::Application { service, linux } => {
                self.give_to_application(view, (*service, *linux), packet, meta);
            }
            Action::Step(step) => self.out.step(view, step.index, packet, meta),
            Action::Wrap(forward) => self.wrap(view, forward, packet, meta.summary.fields),
            Action::Translate(slot) => {
                self.translate_by_plan(view, *slot, packet, meta.summary.fields);
            }
            Action::Limit(slot) => self.limit_by_plan(view, *slot, packet, meta),
            // Others are not given to it.
            _ => self.out.drop(packet, DropReason::OutUnsupported),
        }
    }

    /// Hands a packet to Linux.
    #[inline(never)]
    pub(crate) fn give(&mut self, packet: Packet, way: LinuxWay) {
        match way {
            LinuxWay::Private => self.out.give_to_linux(packet),
            LinuxWay::Tunnel(slot) => self.out.send(slot.into(), packet),
            LinuxWay::Marked(tag) => self.out.give_marked(packet, tag),
        }
    }

    /// Forwards a packet in clear.
    #[inline(always)]
    pub(crate) fn forward(
        &mut self,
        view: &View,
        forward: &Forward,
        to: Option<&NextHop>,
        mut packet: Packet,
        h: Fields,
    ) {
        if forward.is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
            return self.out.drop(packet, DropReason::MalformedIp);
        }
        self.out.counters.work.forwarded_clear.add(1);
        if let Some(to) = to {
            return self.out.send_to(view, packet, to.towards());
        }
        let span = packet.span;
        match forward.adjacency.frame(packet.frame.bytes_mut(), span) {
            Some(frame) => {
                packet.span = frame;
                self.out.send(forward.adjacency.slot.into(), packet);
            }
            None => self.out.drop(packet, DropReason::OutNoRoom),
        }
    }

    /// A packet to a NAT traversal port of this host (RFC 3948 §2), or a fragment of UDP, whose port the
    /// first one has.
    #[inline(never)]
    fn open_udp(&mut self, view: &View, packet: Packet, meta: &Meta) {
        if meta.summary.fields.fragment() != Fragment::Whole {
            return self.gather_outer(view, packet, meta);
        }
        let payload_at = usize::from(meta.summary.fields.header_len()) + wire::udp::HEADER_LEN;
        match packet.data().get(payload_at..).map(natt::classify) {
            Some(NattPayload::Esp) => self.open(view, packet, meta, true),
            // Steering leaves it to Linux; if one comes here all the same, Linux gets it.
            Some(NattPayload::NonEspMarker) => match view.back(meta.ingress.ifindex) {
                Some(tag) => self.out.give_back(packet, tag),
                None => self.out.give_to_linux(packet),
            },
            Some(NattPayload::Keepalive) => self.out.end(packet, Outcome::Consumed),
            Some(NattPayload::TooShort) | None => self.out.drop(packet, DropReason::MalformedEsp),
        }
    }
}
