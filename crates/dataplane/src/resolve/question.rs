//! The packet that is decided about, how it came, and what is known of it so far.

use core::cell::Cell;
use core::ops::Deref;

use policy::{Direction, Flow, PolicyEntry, SaHandle, WorkerIndex};
use wire::{Fragment, Headers, protocol};

use super::decision::{ErrorCame, PolicyAnswers, Quote};
use super::nat::Nat;
use crate::model::{Action, Notes, Step};
use crate::tables::steering::SteerStamp;
use crate::view::View;

/// Everything that a decision follows from, and nothing that it changes.
pub(super) struct Context<'a> {
    pub(super) view: &'a View,
    pub(super) packet: &'a [u8],
    pub(super) h: &'a Headers,
    /// The worker that may have SAs of its own for it.
    pub(super) owner: Option<WorkerIndex>,
    /// A fragment's headers have the ports of its packet's first one.
    pub(super) knows_ports: bool,
    /// Decision of Linux's NAT about its connection.
    pub(super) nat: &'a Nat,
    /// The rules of path selection that were asked.
    pub(super) steered: Cell<SteerStamp>,
}

impl Context<'_> {
    /// True if it is a fragment that has to be judged by its packet's ports, and these are not
    /// known: some selector names ports (RFC 4301 §7).
    pub(super) fn needs_ports(&self) -> bool {
        self.h.fragment != Fragment::Whole && !self.knows_ports && self.view.reader.names_ports()
    }

    /// True if UDP to this host is to a NAT traversal port, or may be.
    pub(super) fn may_be_natt(&self) -> bool {
        match self.h.fragment {
            Fragment::Whole => self.view.topology.is_natt_port(self.h.dst_port),
            Fragment::First | Fragment::Later => !self.knows_ports,
        }
    }

    /// Action that opens a packet to this host, if it is one for an SA.
    pub(super) fn opening(&self) -> Option<Action> {
        match self.h.protocol {
            protocol::ESP => Some(Action::OpenBare),
            protocol::AH => Some(Action::OpenNext),
            protocol::UDP if self.may_be_natt() => Some(Action::OpenUdp),
            _ => None,
        }
    }
}

/// A packet that is resolved, and the answers so far.
pub(super) struct Question<'a, N> {
    pub(super) context: Context<'a>,
    pub(super) asked: PolicyAnswers,
    pub(super) at_limit: Option<SaHandle>,
    pub(super) wants_own: Option<u32>,
    pub(super) too_big: Option<Quote>,
    pub(super) segment_error: Option<ErrorCame>,
    /// True if the decision is good for all packets with such headers, not for this one alone.
    pub(super) is_for_flow: bool,
    /// Where each answer is noted, if somebody wants to know.
    pub(super) notes: &'a mut N,
}

/// A question is read as its context is.
impl<'a, N> Deref for Question<'a, N> {
    type Target = Context<'a>;

    #[inline(always)]
    fn deref(&self) -> &Context<'a> {
        &self.context
    }
}

impl<N: Notes> Question<'_, N> {
    /// Notes an answer for who wants to know.
    #[inline(always)]
    pub(super) fn tell(&mut self, step: impl FnOnce() -> Step) {
        self.notes.tell(step);
    }

    /// Notes the policy that decided about the packet.
    pub(super) fn note(
        &mut self,
        direction: Direction,
        flow: &Flow<'_>,
        policy: Option<&PolicyEntry>,
    ) {
        let stamp = self.view.reader.stamp(direction, flow, policy);
        self.asked.note(policy, stamp);
    }
}
