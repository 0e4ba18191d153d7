//! Packets that leave: policy before route.

use esp::Mode;
use outcome::DropReason;
use policy::{Direction, Ends, Flow, Outbound, SaHandle};
use wire::natt::{self, NattPayload};
use wire::{Fragment, protocol};

use super::{Decision, Question, SaWait};
use crate::packets::Origin;
use crate::view::View;

/// What the policy database said, without its references.
enum Policy {
    Clear,
    Drop(DropReason),
    Wait(SaWait),
    Protect(SaHandle),
}

impl Question<'_> {
    /// A packet that leaves, or is forwarded.
    pub(super) fn outbound(&mut self, origin: Origin) -> Decision {
        match self.policy(origin) {
            Policy::Drop(reason) => Decision::Drop(reason),
            Policy::Clear => self.clear(origin),
            Policy::Protect(sa) => self.protect(origin, sa),
            Policy::Wait(key) => Decision::Hold(key, origin),
        }
    }

    /// Asks the policy database.
    ///
    /// Where a policy wants protection and there is no SA, the packet waits; also under a template
    /// with `level use`, with which Linux would let it pass in clear.
    fn policy(&mut self, origin: Origin) -> Policy {
        let (view, h) = (self.view, self.h);
        if self.is_own_ike(origin) {
            return Policy::Clear;
        }
        let flow = Flow::new(h, view.leads_to(h, origin.iif()));
        let (answer, policy) = match view.reader.outbound(&flow) {
            Outbound::NoPolicy => (Policy::Clear, None),
            Outbound::DefaultBlock => return Policy::Drop(DropReason::OutPolicyBlock),
            Outbound::Bypass(policy) => (Policy::Clear, Some(policy)),
            Outbound::Block(policy) => (Policy::Drop(DropReason::OutPolicyBlock), Some(policy)),
            Outbound::Unsupported(policy) => {
                (Policy::Drop(DropReason::OutUnsupported), Some(policy))
            }
            // Counted when it goes on: it will be judged again.
            Outbound::NoState(policy, template) => {
                let ends = (template.mode == Mode::Transport).then_some((h.src, h.dst));
                return Policy::Wait(SaWait { policy: policy.config.index, ends });
            }
            Outbound::Protect(policy, sa) => (Policy::Protect(sa), Some(policy)),
        };
        let policy = policy.map(|policy| &**policy);
        self.note(Direction::Out, &flow, policy);
        answer
    }

    /// Whether a packet is key exchange (or neighbour discovery) of this very host, which no
    /// policy applies to. Linux forwards other people's packets through the private interface as
    /// well: those do not have an address of ours.
    fn is_own_ike(&self, origin: Origin) -> bool {
        origin == Origin::Linux
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

/// Whether a packet that waits for an SA need not wait any longer.
pub(crate) fn has_sa(view: &View, packet: &[u8], origin: Origin) -> bool {
    // One that does not parse any more may go too: to be dropped.
    wire::parse_ip(packet).map_or(true, |h| {
        let flow = Flow::new(&h, view.leads_to(&h, origin.iif()));
        !matches!(view.reader.outbound(&flow), Outbound::NoState(..))
    })
}
