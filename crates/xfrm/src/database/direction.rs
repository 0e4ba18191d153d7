//! Attributes that go with an SA of one direction only (`XFRMA_SA_DIR`), as Linux checks it.
//!
//! An SA without a direction may have everything.

use super::iptfs;
use crate::codec::{Attributes, EsnReplay, ReplayState, SaInfo, attr, constant as c};
use crate::failure::Failure;

/// The direction that a request names.
pub(super) fn direction_of(a: &Attributes<'_>) -> Option<u8> {
    a.value(attr::SA_DIR)
}

/// Checks the long form of the replay state: an outbound SA receives nothing, an inbound one sends
/// nothing, and without ESN there are no high halves.
pub(super) fn replay_fits(dir: Option<u8>, r: &EsnReplay, esn: bool) -> Result<(), Failure> {
    let last = if esn { u64::MAX } else { u64::from(u32::MAX) };
    match dir {
        Some(c::SA_DIR_OUT) => first_of([
            (r.window != 0, Failure::OutboundWindow),
            (r.edge != 0, Failure::OutboundEdge),
            (r.sent > last, Failure::OutboundHigh),
            (r.sent == last, Failure::OutboundLast),
            (!r.bitmap.is_empty(), Failure::OutboundBitmap),
        ]),
        Some(_) => first_of([
            (r.sent != 0, Failure::InboundSent),
            (r.edge > last, Failure::InboundHigh),
            (r.edge == last, Failure::InboundLast),
        ]),
        None => Ok(()),
    }
}

/// Checks the rest of a request.
pub(super) fn fits(dir: Option<u8>, info: &SaInfo, a: &Attributes<'_>) -> Result<(), Failure> {
    let has = |flag| info.flags & flag != 0;
    let extra: u32 = a.value(attr::SA_EXTRA_FLAGS).unwrap_or(0);
    let short: ReplayState = a.value(attr::REPLAY_VAL).unwrap_or_default();
    match dir {
        Some(c::SA_DIR_OUT) => first_of([
            (a.has(attr::MTIMER_THRESH), Failure::OutboundMapping),
            (has(c::STATE_DECAP_DSCP), Failure::OutboundDecapDscp),
            (has(c::STATE_ICMP), Failure::OutboundIcmp),
            (has(c::STATE_WILDRECV), Failure::OutboundWildRecv),
            (info.replay_window != 0, Failure::OutboundWindow),
            (iptfs::is_inbound(a), Failure::OutboundIptfs),
            (short.seq != 0 || short.bitmap != 0, Failure::OutboundEdge),
        ]),
        Some(_) => first_of([
            (has(c::STATE_NOPMTUDISC), Failure::InboundNoPmtuDisc),
            (extra & c::XFLAG_DONT_ENCAP_DSCP != 0, Failure::InboundDontEncapDscp),
            (extra & c::XFLAG_OSEQ_MAY_WRAP != 0, Failure::InboundMayWrap),
            (iptfs::is_outbound(a), Failure::InboundIptfs),
        ]),
        None => Ok(()),
    }
}

fn first_of<const N: usize>(checks: [(bool, Failure); N]) -> Result<(), Failure> {
    match checks.into_iter().find(|(is_wrong, _)| *is_wrong) {
        Some((_, failure)) => Err(failure),
        None => Ok(()),
    }
}
