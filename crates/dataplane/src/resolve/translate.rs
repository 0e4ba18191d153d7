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

use io::tun::back::UNMARKED;

use super::nat::{Connection, Nat};
use super::{Decision, Question};
use crate::model::{Action, Draft, NatSays, Notes, Origin, Step, Translation};

impl<N: Notes> Question<'_, N> {
    /// True if the packet is translated: it may be forwarded though it is addressed to this host,
    /// or the other way round.
    pub(super) fn is_translated(&self) -> bool {
        matches!(self.nat, Nat::Of(connection) if connection.rewrite.is_some())
    }

    /// True if Linux knows the packet's connection, and has to see it.
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
