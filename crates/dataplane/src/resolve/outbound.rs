//! Packets that leave: policy before route, and policy once more at a tunnel interface.

use esp::Mode;
use outcome::DropReason;
use policy::{Direction, Ends, Marks, Outbound, PolicyEntry, Prefix, SaHandle};
use wire::natt::{self, NattPayload};
use wire::{Fragment, protocol};

use super::decision::Policy;
use super::ways::tunnel_ahead;
use super::{Decision, Question, SaWait};
use crate::model::{Gather, Notes, Origin, Step};

impl<N: Notes> Question<'_, N> {
    /// A packet that leaves, or is forwarded.
    pub(super) fn outbound(&mut self, origin: Origin) -> Decision {
        if let Some(decision) = self.at_segment(origin) {
            return decision;
        }
        if self.needs_ports() {
            return Decision::Gather(Gather::Ports);
        }
        match self.policy(origin, origin.marks()) {
            // It is there already.
            answer if let Origin::Tunnel { ifindex, .. } = origin => {
                self.in_tunnel(origin, answer, self.view.binding(ifindex))
            }
            Policy::Drop(reason) => Decision::Drop(reason),
            Policy::Leave(way) => self.leave(origin, way),
            Policy::Protect(sa) => self.protect(origin, sa),
            Policy::ProtectAll(sas) => self.protect_all(origin, &sas),
            Policy::Wait(key) => Decision::Hold(key, origin),
            answer @ (Policy::Clear | Policy::Unnamed) => {
                match tunnel_ahead(self.view, self.h, origin) {
                    Some(tunnel) => {
                        self.tell_path(origin);
                        self.through_tunnel(origin, tunnel)
                    }
                    None if matches!(answer, Policy::Unnamed)
                        && let Some(prefix) = self.guarded(origin) =>
                    {
                        self.tell(|| Step::Guard(prefix));
                        Decision::Drop(DropReason::OutPolicyBlock)
                    }
                    None => self.clear(origin),
                }
            }
        }
    }

    /// Asks the policy database.
    ///
    /// Where a policy wants protection and there is no SA, the packet waits; also under a template
    /// with `level use`, with which Linux would let it pass in clear.
    pub(super) fn policy(&mut self, origin: Origin, marks: Marks) -> Policy {
        let (view, h) = (self.view, self.h);
        if self.is_own_ike(origin) {
            self.tell(|| Step::Exempt);
            return Policy::Clear;
        }
        let flow = view.flow(h, origin.iif(), marks);
        let outbound = match view.reader.outbound(&flow) {
            nobodys @ (Outbound::NoPolicy | Outbound::DefaultBlock) => {
                self.outbound_by_quoted(origin.iif(), marks).unwrap_or(nobodys)
            }
            outbound => outbound,
        };
        self.tell(|| Step::outbound(marks, &outbound));
        let (answer, policy) = match outbound {
            Outbound::NoPolicy => (Policy::Unnamed, None),
            Outbound::DefaultBlock => return Policy::Drop(DropReason::OutPolicyBlock),
            Outbound::Bypass(policy) => (Policy::Clear, Some(policy)),
            Outbound::Leave(policy) => (Policy::Leave(self.way_left(policy, &flow)), Some(policy)),
            Outbound::Block(policy) => (Policy::Drop(DropReason::OutPolicyBlock), Some(policy)),
            Outbound::Unsupported(policy) => {
                (Policy::Drop(DropReason::OutUnsupported), Some(policy))
            }
            // Nobody waits for an error: its sender's next one finds the SA that others ask for.
            Outbound::NoState(..) if !self.is_for_flow => {
                return Policy::Drop(DropReason::OutNoState);
            }
            // Counted when it goes on: it will be judged again.
            Outbound::NoState(policy, _) => {
                // A tunnel among the templates has the ends of what follows.
                let mut templates = policy.config.templates.iter();
                let is_hosts = templates.all(|template| template.mode == Mode::Transport);
                let ends = is_hosts.then_some((h.src, h.dst));
                return Policy::Wait(SaWait { policy: policy.config.index, ends });
            }
            // Software does not have the keys of the one, and the device not the policy of the other.
            Outbound::Protect(policy, sa) if view.device_of(sa) != policy.config.flags.device => {
                return Policy::Drop(DropReason::OutDeviceMismatch);
            }
            Outbound::Protect(policy, sa) => {
                self.note_own(policy, &[sa]);
                (Policy::Protect(sa), Some(policy))
            }
            Outbound::ProtectAll(_, sas)
                if sas.as_slice().iter().any(|sa| view.device_of(*sa).is_some()) =>
            {
                return Policy::Drop(DropReason::OutDeviceMismatch);
            }
            Outbound::ProtectAll(policy, sas) => {
                self.note_own(policy, sas.as_slice());
                (Policy::ProtectAll(sas), Some(policy))
            }
        };
        let policy = policy.map(|policy| &**policy);
        self.note(Direction::Out, &flow, policy);
        answer
    }

    /// The prefix that it would leave in clear for, though that needs protection until policies say more
    /// (`[guard]`). What goes back to Linux as it came the guard stops there.
    fn guarded(&self, origin: Origin) -> Option<Prefix> {
        let is_sent_here = !matches!(origin, Origin::Port { .. })
            || self.is_translated()
            || self.leads_to_segments(origin)
            || self.is_steered_to_port(origin);
        let mut prefixes = self.view.topology.guarded.iter().filter(|_| is_sent_here);
        prefixes.find(|prefix| prefix.contains(self.h.dst)).copied()
    }

    /// Notes whether the owner of a policy is to be asked for SAs of the worker's own, while these protect.
    fn note_own(&mut self, policy: &PolicyEntry, sas: &[SaHandle]) {
        if self.view.reader.wants_own(policy, sas, self.view.owner) {
            self.wants_own = Some(policy.config.index);
        }
    }

    /// True if a packet is key exchange (or neighbour discovery) of this very host, which no
    /// policy applies to. Linux forwards other hosts' packets through the private interface as
    /// well: those do not have an address of ours.
    pub(super) fn is_own_ike(&self, origin: Origin) -> bool {
        matches!(origin, Origin::Linux { .. })
            && self.view.topology.is_local_addr(self.h.src)
            && policy::always_bypass(self.h, Ends::Local, self.is_natt_ike())
    }

    /// UDP on the NAT traversal port that is not ESP: IKE behind its marker, or a keepalive.
    fn is_natt_ike(&self) -> bool {
        let (h, topology) = (self.h, &self.view.topology);
        let is_natt_port = topology.is_natt_port(h.src_port) || topology.is_natt_port(h.dst_port);
        if h.protocol != protocol::UDP || h.fragment == Fragment::Later || !is_natt_port {
            return false;
        }
        let payload = self.packet.get(usize::from(h.header_len) + wire::udp::HEADER_LEN..);
        let kind = payload.map(natt::classify);
        matches!(kind, Some(NattPayload::NonEspMarker | NattPayload::Keepalive))
    }
}
