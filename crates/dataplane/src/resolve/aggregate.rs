//! Packets that an SA of IP-TFS mode carries (RFC 9347): of any length, as payloads carry pieces, unless it must not cut
//! them.

use esp::Sa;
use forward::IcmpCause;
use outcome::DropReason;
use policy::{SaEntry, SaHandle};
use wire::Family;

use super::limits::{Limits, ends_here};
use super::mss::{clamps_mss, mss_of_syn};
use super::payload_len::{longest, payload_len};
use super::route::way_to;
use super::ways::to_port;
use super::{Decision, Question};
use crate::model::{Action, Aggregate, Draft, LOOPBACK, Notes, Origin, Step, ip_len};

/// A packet that this SA, whose home is here, carries in payloads.
///
/// 1. The SA's limits; 2. TTL, if it is forwarded; 3. where payloads go; 4. whether it fits one, where it has to.
pub(super) fn aggregate<N: Notes>(
    question: &mut Question<'_, N>,
    origin: Origin,
    handle: SaHandle,
    sa: &SaEntry<Sa>,
) -> Decision {
    let (view, h) = (question.view, question.h);
    let limits = Limits::of(core::iter::once((handle, sa)));
    if let Some(end) = ends_here(question, origin, limits) {
        return end;
    }
    let is_hop = origin.is_hop();
    let (dst, src) = (sa.config.params.dst, sa.config.params.src);
    let to = match to_port(view, way_to(question, dst, src, LOOPBACK), (dst, src)) {
        Ok(to) => to,
        Err(reason) => return Decision::Drop(reason),
    };
    let Some(payload_len) = payload_len(sa, to.mtu) else {
        return Decision::Drop(DropReason::OutTooBig);
    };
    let longest = longest(sa, payload_len);
    question.tell(|| Step::size(h, None, to.mtu));
    let mut cut = None;
    if usize::from(h.total_len) > longest {
        if h.family() == Family::V6 || h.dont_fragment {
            let cause = IcmpCause::TooBig { mtu: longest as u32 };
            return Decision::Error(cause, DropReason::OutTooBig, origin);
        }
        cut = Some(longest);
    }
    let by = Aggregate {
        sa: handle,
        state: sa.state(),
        longest: ip_len(longest),
        is_hop,
        clamps_mss: clamps_mss(question) && longest < usize::from(u16::MAX),
    };
    Decision::Go(Draft {
        action: Action::Aggregate(by),
        to: None,
        cut,
        mss: mss_of_syn(question, || Some(longest)),
        is_for_flow: limits.at_limit.is_none() && cut.is_none(),
    })
}
