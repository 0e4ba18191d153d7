//! Packets that an SA protects: its limits, the path to the peer, and whether the packet fits.

use dispatch::Home;
use esp::Mode;
use forward::IcmpCause;
use outcome::DropReason;
use policy::SaHandle;
use wire::Fragment;

use super::aggregate::aggregate;
use super::fit::Fit;
use super::limits::{Limits, ends_here};
use super::mss::{clamps_mss, mss_of_syn};
use super::offload::offload;
use super::question::Context;
use super::route::{next_hop, onto, way_to};
use super::ways::{family_of, to_port};
use super::{Decision, Question};
use crate::model::{Action, Draft, Gather, LOOPBACK, Notes, Origin, Seal, Step, ip_len};

/// A packet that this SA protects.
///
/// 1. The SA's home; 2. its limits; 3. TTL, if it is forwarded; 4. where the outer packet goes; 5. whether
///    it fits.
pub(super) fn protect<N: Notes>(
    question: &mut Question<'_, N>,
    origin: Origin,
    handle: SaHandle,
) -> Decision {
    let Context { view, packet, h, .. } = **question;
    let Some(sa) = view.reader.sa(handle) else {
        return Decision::Drop(DropReason::OutStateExpired);
    };
    question.tell(|| Step::Sa(sa.config.id()));
    let home = sa.home().at();
    if home == Home::DEVICE {
        return offload(question, origin, handle, sa);
    }
    if home != view.worker.get() && home != Home::WORKERS {
        return Decision::Go(Draft::hand_over(home));
    }
    if sa.esp.is_iptfs() {
        return aggregate(question, origin, handle, sa);
    }
    let limits = Limits::of(core::iter::once((handle, sa)));
    if let Some(end) = ends_here(question, origin, limits) {
        return end;
    }
    let is_hop = origin.is_hop();
    let params = &sa.config.params;
    if params.mode == Mode::Transport && h.fragment != Fragment::Whole {
        return Decision::Gather(Gather::Whole);
    }
    let (dst, src, family, longest) = match params.mode {
        Mode::Tunnel | Mode::Iptfs => (params.dst, params.src, family_of(params.dst), None),
        Mode::Transport => (h.dst, h.src, h.family(), Some(0)),
    };
    let to = match to_port(view, way_to(question, dst, src, LOOPBACK), (dst, src)) {
        Ok(to) => to,
        Err(reason) => return Decision::Drop(reason),
    };
    question.tell(|| Step::size(h, sa.esp.sealed_len_of(packet, h).ok(), to.mtu));
    let fit = match Fit::decide(&sa.esp, packet, h, to.mtu) {
        Ok(Fit::TooBig { mtu }) => {
            let cause = IcmpCause::TooBig { mtu: mtu as u32 };
            return Decision::Error(cause, DropReason::OutTooBig, origin);
        }
        Ok(fit) => fit,
        Err(reason) => return Decision::Drop(reason),
    };
    let to = match sa.esp.params().mode {
        // Its outer packets are in other buffers.
        Mode::Iptfs => to,
        Mode::Tunnel | Mode::Transport => onto(question, origin, to),
    };
    let known = next_hop(question, to, family).filter(|_| fit == Fit::Whole);
    let longest = longest.unwrap_or_else(|| sa.esp.max_inner_len(to.mtu));
    let seal = Seal {
        sa: handle,
        state: sa.state(),
        adjacency: known.unwrap_or_default(),
        mtu: ip_len(to.mtu),
        longest: ip_len(longest),
        is_hop,
        clamps_mss: clamps_mss(question),
    };
    Decision::Go(Draft {
        action: Action::Seal(seal),
        to: known.is_none().then_some(to),
        cut: if let Fit::CutBefore { mtu } = fit { Some(mtu) } else { None },
        mss: mss_of_syn(question, || Some(sa.esp.max_inner_len(to.mtu))),
        is_for_flow: known.is_some() && limits.at_limit.is_none(),
    })
}
