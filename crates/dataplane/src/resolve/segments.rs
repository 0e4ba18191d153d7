//! SRv6: packets at a segment of this node, those that leave a step, and those that get segments.

use esp::Sa;
use forward::{IcmpCause, RouteResult};
use outcome::DropReason;
use policy::{Direction, Flow, Marks, SaEntry};
use srv6::{Behaviour, Headend};
use wire::{Family, protocol};

use super::ways::{Route, fits_sa, lookup, onward, outer_headers};
use super::{Decision, Question};
use crate::model::{
    Action, Draft, Gather, LOOPBACK, LinuxWay, NextHop, Notes, Origin, Step, StepTo, ip_len,
    was_inside,
};
use crate::view::View;

impl<N: Notes> Question<'_, N> {
    /// A packet whose destination is a segment of this node, if it is. That it may come was asked before.
    pub(super) fn at_segment(&mut self, origin: Origin) -> Option<Decision> {
        let (view, h) = (self.view, self.h);
        if view.topology.segments.is_empty() || h.family() != Family::V6 || !origin.is_transit() {
            return None;
        }
        let RouteResult::Unicast { ifindex: index, .. } = lookup(view, h, origin) else {
            return None;
        };
        let sid = view.topology.segments.sid(index)?;
        self.tell(|| Step::Sid { name: sid.name() });
        if !is_inside_domain(view, origin) {
            return Some(Decision::Drop(DropReason::Srv6Edge));
        }
        let mut longest = u16::MAX;
        if let Behaviour::EndB6Encaps(headend) = &sid.behaviour {
            self.note_outer(headend);
            // The sender is another headend, which can send less.
            let mtu = view.fits_headend(headend, Family::V6, fits_sa);
            if h.ttl > 1 && usize::from(h.total_len) > mtu {
                let cause = IcmpCause::TooBig { mtu: mtu as u32 };
                return Some(Decision::Error(cause, DropReason::OutTooBig, origin));
            }
            longest = ip_len(mtu);
        }
        Some(Decision::Go(Draft::of_flow(Action::Step(StepTo { index, longest }))))
    }

    /// A packet that has left a step: what was inside of another is judged as one that arrives, in clear or by the
    /// SAs that the other was under.
    pub(super) fn stepped(
        &mut self,
        index: u32,
        (mark, protected): (u32, bool),
        via: &[&SaEntry<Sa>],
    ) -> Decision {
        let (view, h) = (self.view, self.h);
        let Some(route) = view.topology.segments.get(index) else {
            return Decision::Drop(DropReason::NoRoute);
        };
        if view.topology.segments.headend(index).is_some() {
            // It was this host that has made the outer headers.
            return self.outbound(Origin::Stepped { index, mark, protected, ifindex: LOOPBACK });
        }
        let origin = Origin::Stepped { index, mark, protected, ifindex: route.ifindex };
        let way = onward(view, h, origin);
        let is_local = matches!(way, Route::Local);
        self.tell(|| Step::Ends { is_local });
        if was_inside(index) && !view.is_possible_source(h.src, is_local) {
            return Decision::Drop(DropReason::MartianSource);
        }
        if self.needs_ports() {
            return Decision::Gather(Gather::Ports);
        }
        match h.protocol {
            protocol::ESP if is_local => return Decision::Go(Draft::of_flow(Action::OpenBare)),
            protocol::AH if is_local => return Decision::Go(Draft::of_flow(Action::OpenNext)),
            protocol::UDP if is_local && self.may_be_natt() => {
                return Decision::Go(Draft::of_flow(Action::OpenUdp));
            }
            _ => {}
        }
        let direction = if is_local { Direction::In } else { Direction::Forward };
        if let Err(reason) = self.verify_stepped(direction, route.ifindex, mark, via) {
            return Decision::Drop(reason);
        }
        match is_local {
            true => Decision::Go(Draft::of_flow(Action::ToLinux(LinuxWay::Private))),
            false => self.outbound(origin),
        }
    }

    fn verify_stepped(
        &mut self,
        direction: Direction,
        ifindex: u32,
        mark: u32,
        via: &[&SaEntry<Sa>],
    ) -> Result<(), DropReason> {
        let (view, h) = (self.view, self.h);
        let marks = Marks::of_mark(mark);
        let flow = Flow::marked(h, view.leads_to(h, ifindex), marks);
        let in_clear = view.reader.verify(direction, &flow, &[]);
        let verified = in_clear.or_else(|reason| match via {
            [] => Err(reason),
            via => view.reader.verify(direction, &flow, via),
        });
        self.tell(|| {
            let found = view.reader.policy(direction, &flow).map(|policy| &**policy);
            Step::inbound(direction, marks, found, verified.as_ref().err().copied())
        });
        let policy = verified?.map(|policy| &**policy);
        self.note(direction, &flow, policy);
        Ok(())
    }

    /// The headend that the tables lead a packet to, which Linux need not see then.
    pub(super) fn leads_to_segments(&self, origin: Origin) -> bool {
        let view = self.view;
        !view.topology.segments.is_empty()
            && matches!(lookup(view, self.h, origin), RouteResult::Unicast { ifindex, .. }
                if view.topology.segments.headend(ifindex).is_some())
    }

    /// A packet that gets segments and its Ethernet header stays in front of it, where its route has it so.
    pub(super) fn whole_frame(&mut self, origin: Origin, to: NextHop) -> Option<Decision> {
        let headend = self.view.topology.segments.headend(to.ifindex)?;
        if !headend.mode().is_layer2() {
            return None;
        }
        // Only what a port received has one.
        if !matches!(origin, Origin::Port { .. }) || usize::from(self.h.total_len) > to.mtu {
            return Some(Decision::Drop(DropReason::Srv6NoFrame));
        }
        let action = Action::Step(StepTo { index: to.ifindex, longest: ip_len(to.mtu) });
        Some(Decision::Go(Draft::of_flow(action)))
    }

    /// Notes that the plan hangs on what policy says about the packets that a headend makes: whether they fit.
    pub(super) fn note_headend(&mut self, index: u32) {
        let view = self.view;
        let Some(headend) = view.topology.segments.headend(index) else { return };
        self.note_outer(headend);
    }

    /// The same of a headend.
    fn note_outer(&mut self, headend: &Headend) {
        let view = self.view;
        self.tell(|| Step::Headend { mode: headend.mode().name(), first: headend.first() });
        let h = outer_headers(headend);
        let flow = view.flow(&h, LOOPBACK, Marks::of_mark(0));
        let found = view.reader.outbound(&flow);
        let policy = found.policy();
        self.asked.note_stamp(view.reader.stamp(Direction::Out, &flow, policy));
    }
}

/// True if a packet came from inside the domain of segments (RFC 8754 §5.1).
///
/// The interface of an ESP packet says nothing about what is in it: that comes from the peer. So the interface counts
/// only where it is a tunnel's.
fn is_inside_domain(view: &View, origin: Origin) -> bool {
    let segments = &view.topology.segments;
    match origin {
        Origin::Port { ifindex, .. } => segments.is_inside(ifindex),
        Origin::Decrypted { ifindex, .. } => {
            segments.trusts_sas() || view.binding(ifindex).is_some() && segments.is_inside(ifindex)
        }
        // It was inside when it came to the step before.
        Origin::Stepped { .. } => true,
        Origin::Linux { .. } | Origin::Tunnel { .. } | Origin::Worker { .. } => true,
    }
}
