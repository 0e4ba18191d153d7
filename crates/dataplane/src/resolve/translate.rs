//! NAT, as Linux has decided about it for a packet's connection.
//!
//! ```text
//!   arrives ─ inbound policy ─┬─ no connection that may be carried ──> Linux, as it came
//!                             └─ one ─ translate ─ outbound policy ─┬─ forwarded or sealed ─> Translate
//!                                                                   └─ anything else ──> Linux, as it came
//! ```
//!
//! The order is Linux's: what arrives is judged as it arrives (`nf_nat_decode_session`), and what leaves by the
//! addresses that it leaves with (`nf_xfrm_me_harder`). Linux gets everything that is rare: fragments, ICMP errors,
//! a TTL that ends, packets that are too long, what waits for an SA.

use conntrack::{Found, Rewrite, Tuple};
use io::tun::back::UNMARKED;
use wire::Headers;

use super::{Decision, Entry, Question};
use crate::model::{Action, Draft, NatSays, Notes, Origin, Step, Translation};
use crate::view::View;

/// What Linux has decided.
pub(super) enum Nat {
    /// Nobody is asked.
    Off,
    /// Nothing yet.
    Unknown,
    /// It knows the connection, and has to see the packet.
    Linuxs,
    /// The packet's connection may be carried.
    Of(Box<Connection>),
}

/// A connection that may be carried.
pub(super) struct Connection {
    found: Found,
    rewrite: Option<Rewrite>,
    /// The packet's headers once it is translated.
    onward: Headers,
}

impl Nat {
    /// Of a packet that arrives.
    #[inline]
    pub(super) fn of(view: &View, packet: &[u8], h: &Headers, entry: &Entry<'_>) -> Nat {
        let Some(bindings) = &view.nat else { return Nat::Off };
        let ifindex = match entry {
            // An application's, by an address that is this host's own: no rule for what is forwarded is about it.
            Entry::Port { ifindex, .. } if view.topology.gtpu.is_source(h.src, *ifindex) => {
                return Nat::Off;
            }
            Entry::Port { ifindex, .. } | Entry::Decrypted { ifindex, .. } => *ifindex,
            // Linux's own, which it has translated; what leaves a step it has not seen.
            Entry::Stepped { .. } | Entry::Outbound(_) => return Nat::Off,
        };
        let tuple = Tuple::of(packet, h);
        let Some(found) = tuple.and_then(|tuple| bindings.find(&tuple)) else {
            return if bindings.asks(h.src) { Nat::Unknown } else { Nat::Off };
        };
        if !found.may_be_carried() || !conntrack::may_go(packet, h.into()) {
            return Nat::Linuxs;
        }
        let rewrite = found.binding.rewrite(found.direction);
        let onward = rewrite.map_or(*h, |to| translated(h, &to));
        if rewrite.is_some() && view.is_local(&onward, ifindex) {
            return Nat::Linuxs;
        }
        Nat::Of(Box::new(Connection { found, rewrite, onward }))
    }
}

/// A packet's headers once it is translated.
fn translated(h: &Headers, to: &Rewrite) -> Headers {
    let (src_port, dst_port) = match wire::protocol::is_icmp(h.protocol) {
        // Type and code.
        true => (h.src_port, h.dst_port),
        false => (to.src_port, to.dst_port),
    };
    Headers { src: to.src, dst: to.dst, src_port, dst_port, ..*h }
}

impl<N: Notes> Question<'_, N> {
    /// Whether the packet is to be forwarded though it is addressed to this host, or the other way round: it is
    /// translated.
    pub(super) fn is_translated(&self) -> bool {
        matches!(self.nat, Nat::Of(connection) if connection.rewrite.is_some())
    }

    /// Whether Linux knows the packet's connection, and has to see it.
    pub(super) fn is_for_conntrack(&self) -> bool {
        matches!(self.nat, Nat::Linuxs)
    }

    /// A packet that Linux gets as one for this host: it may find out that it is not, and then the connection's next
    /// packets are carried.
    pub(super) fn note_local(&mut self) {
        self.is_for_flow &= !matches!(self.nat, Nat::Unknown | Nat::Linuxs);
    }

    /// A packet that came in clear, and that Linux has to see for its connection. One that policy protects by the
    /// addresses that it has comes by the private interface then, as if it were Linux's own: past that it would meet
    /// the guard, and its connection would never begin.
    pub(super) fn leave_for_nat(&self, arrived: (u32, u32), is_barred: bool) -> Draft {
        let draft = self.leave_to_linux(arrived.0, is_barred);
        match draft.action {
            Action::BackToLinux { tag } if !self.leaves_in_clear(arrived) => {
                Draft { action: Action::BackToLinux { tag: tag | UNMARKED }, ..draft }
            }
            _ => draft,
        }
    }

    /// A packet that goes on; `linux` is how Linux gets it where it has to.
    pub(super) fn onward(
        &mut self,
        origin: Origin,
        linux: impl FnOnce(&Self) -> Decision,
    ) -> Decision {
        if let Some(decision) = self.at_segment(origin) {
            return decision;
        }
        let connection = match self.nat {
            Nat::Off => return self.outbound(origin),
            Nat::Unknown | Nat::Linuxs => {
                self.tell(|| Step::Nat(NatSays::Linux));
                self.is_for_flow = false;
                return linux(self);
            }
            Nat::Of(connection) => &**connection,
        };
        let Connection { found, rewrite, onward } = connection;
        self.tell(|| {
            Step::Nat(match rewrite {
                Some(to) => NatSays::Translated(*to),
                None => NatSays::Same,
            })
        });
        // The flow of a query is told by its type, not by its identifier.
        self.is_for_flow &= !found.binding.tuple(found.direction).is_icmp();
        let arrived = core::mem::replace(&mut self.h, onward);
        let decision = self.outbound(origin);
        self.h = arrived;
        match decision {
            Decision::Drop(_) => decision,
            // Its home asks anew.
            Decision::Go(Draft { action: Action::HandOver { .. }, .. }) => decision,
            Decision::Go(draft)
                if matches!(
                    draft.action,
                    Action::Forward(_) | Action::Wrap(_) | Action::Seal(_) | Action::Aggregate(_)
                ) && draft.cut.is_none() =>
            {
                let draft = Draft { is_for_flow: draft.is_for_flow && self.is_for_flow, ..draft };
                Decision::Translate(Translation { draft, found: found.clone(), rewrite: *rewrite })
            }
            _ => {
                self.is_for_flow = false;
                linux(self)
            }
        }
    }
}
