//! Packets that a device protects by an SA and a policy of its own (packet offload).

use esp::{Mode, Sa};
use forward::IcmpCause;
use offload::PacketSa;
use outcome::DropReason;
use policy::{SaEntry, SaHandle};
use wire::Fragment;

use super::fit::Fit;
use super::mss::{clamps_mss, mss_of_syn};
use super::question::Context;
use super::route::way_to;
use super::ways::to_port;
use super::{Decision, Question};
use crate::model::{Action, DEVICES_HOME, Draft, LOOPBACK, Notes, Offload, Origin, Step, ip_len};

/// A packet that this SA, which a device has, protects. The device counts limits and numbers.
///
/// 1. A worker that has a queue of the device; 2. fragments; 3. the SA's state; 4. TTL, if it is forwarded; 5. whether
///    the packet fits the path to the peer once it is sealed: the device neither cuts packets nor tells their senders.
pub(super) fn offload<N: Notes>(
    question: &mut Question<'_, N>,
    origin: Origin,
    handle: SaHandle,
    sa: &SaEntry<Sa>,
) -> Decision {
    let Context { view, packet, h, .. } = **question;
    // A session of no device's is the executor's to refuse.
    if PacketSa::of(sa.esp.session()).is_some_and(|of| !view.has_queue_of(of)) {
        return Decision::Go(Draft::hand_over(DEVICES_HOME));
    }
    if h.fragment != Fragment::Whole {
        return Decision::Drop(DropReason::OutDeviceFragment);
    }
    let state = sa.state();
    if !state.is_usable() {
        return Decision::Drop(DropReason::OutStateExpired);
    }
    let is_hop = origin.is_hop();
    if is_hop && h.ttl <= 1 {
        let cause = IcmpCause::TimeExceeded;
        return Decision::Error(cause, DropReason::TtlExceeded, origin);
    }
    let params = &sa.config.params;
    let (dst, src) = match params.mode {
        Mode::Tunnel | Mode::Iptfs => (params.dst, params.src),
        Mode::Transport => (h.dst, h.src),
    };
    let to = match to_port(view, way_to(question, dst, src, LOOPBACK), (dst, src)) {
        Ok(to) => to,
        Err(reason) => return Decision::Drop(reason),
    };
    question.tell(|| Step::size(h, sa.esp.sealed_len_of(packet, h).ok(), to.mtu));
    match Fit::decide(&sa.esp, packet, h, to.mtu) {
        Ok(Fit::Whole) => {}
        Ok(Fit::TooBig { mtu }) => {
            let cause = IcmpCause::TooBig { mtu: mtu as u32 };
            return Decision::Error(cause, DropReason::OutTooBig, origin);
        }
        Ok(Fit::CutBefore { .. } | Fit::CutAfter) => {
            return Decision::Drop(DropReason::OutDeviceFragment);
        }
        Err(reason) => return Decision::Drop(reason),
    }
    let longest = match params.mode {
        Mode::Tunnel | Mode::Iptfs => sa.esp.max_inner_len(to.mtu),
        Mode::Transport => 0,
    };
    let offload = Offload {
        sa: handle,
        state,
        mtu: ip_len(to.mtu),
        longest: ip_len(longest),
        is_hop,
        clamps_mss: clamps_mss(question),
    };
    let mut draft = Draft::of_flow(Action::Offload(offload));
    draft.mss = mss_of_syn(question, || Some(sa.esp.max_inner_len(to.mtu)));
    Decision::Go(draft)
}
