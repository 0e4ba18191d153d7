//! The rate limit that a packet is under, once it is known what is done to it.

use esp::Sa;
use limit::LimitPath;
use policy::SaEntry;

use super::outbound_policy::is_own_ike;
use super::{Decision, Entry, Question};
use crate::model::{Action, Notes, Origin, RateLimit, Step, was_inside};
use crate::tables::traffic::Traffic;
use crate::view::View;

/// How a packet came, for rules about that.
#[derive(Clone, Copy)]
pub(super) struct RuleIngress<'s> {
    ifindex: u32,
    mark: u32,
    is_in: bool,
    via: Option<&'s SaEntry<Sa>>,
    /// The worker has made it.
    is_own: bool,
}

impl<'s> RuleIngress<'s> {
    pub(super) fn of(entry: &Entry<'s>) -> RuleIngress<'s> {
        let came =
            |ifindex, mark| RuleIngress { ifindex, mark, is_in: false, via: None, is_own: false };
        match entry {
            Entry::Port { ifindex, mark, .. } => came(*ifindex, *mark),
            Entry::Decrypted { ifindex, mark, via } => {
                RuleIngress { is_in: true, via: via.first().copied(), ..came(*ifindex, *mark) }
            }
            // What got segments was counted before it did; what was inside came by no interface.
            Entry::Stepped { index, mark, .. } => {
                RuleIngress { is_own: !was_inside(*index), ..came(0, *mark) }
            }
            Entry::Outbound(origin) => match *origin {
                Origin::Port { ifindex, mark, .. } => came(ifindex, mark),
                Origin::Decrypted { ifindex, mark } => {
                    RuleIngress { is_in: true, ..came(ifindex, mark) }
                }
                Origin::Linux { mark } => came(0, mark),
                Origin::Tunnel { ifindex, marks } => came(ifindex, marks.mark),
                Origin::Stepped { .. }
                | Origin::Worker { .. }
                | Origin::Probe { .. }
                | Origin::OnLink { .. } => RuleIngress { is_own: true, ..came(0, 0) },
            },
        }
    }
}

/// The SA that protects a packet: the outermost, if there are several.
fn outermost<'v>(view: &'v View, decision: &Decision) -> Option<&'v SaEntry<Sa>> {
    let handle = match decision {
        Decision::Go(draft) => draft.action.protected_by(),
        Decision::Translate(translation) => translation.draft.action.protected_by(),
        Decision::SealAll(seal) => seal.sas.as_slice().last().copied(),
        _ => None,
    };
    handle.and_then(|sa| view.reader.sa(sa))
}

/// True if packets with this decision may be under a limit. ESP is, once it is open. A packet for
/// another worker is under the limit there. A packet that goes back to Linux as it came is under
/// none.
fn is_limited(decision: &Decision, is_in: bool) -> bool {
    match decision {
        Decision::Go(draft) => match draft.action {
            Action::ToLinux(_) | Action::Application(_) => is_in,
            action => action.leaves(),
        },
        Decision::SealAll(_) | Decision::Translate(_) => true,
        _ => false,
    }
}

/// The limit of a packet that goes on; none of the worker's own ICMP errors, which have a limit of their own, and of
/// this host's key exchange, which a full tunnel must not stop. Where rules are about DSCPs, packets that are under none
/// have one that all pass, as others of their flow may not.
#[cold]
#[inline(never)]
pub(super) fn rate_limit<N: Notes>(
    question: &mut Question<'_, N>,
    came: RuleIngress<'_>,
    decision: &Decision,
) -> Option<RateLimit> {
    let RuleIngress { ifindex, mark, is_in, via, is_own } = came;
    let is_exempt = is_own || !is_in && is_own_ike(question, Origin::Linux { mark });
    if is_exempt || !is_limited(decision, is_in) {
        return None;
    }
    let sa = if is_in { via } else { outermost(question.view, decision) };
    let application = question.view.application(question.h);
    let packet = Traffic { h: question.h, ifindex, mark, is_in, sa, application };
    let rules = &question.view.topology.rate_rules;
    let dscp = rules.has_dscps().then_some(question.h.traffic_class >> 2);
    let Some(rule) = rules.find(&packet) else {
        return dscp.map(|_| RateLimit { path: LimitPath::free(), key: 0, dscp });
    };
    let (path, key) =
        (LimitPath::new(&rule.limiter, question.view.worker.get()), rule.each.key(&packet));
    question.tell(|| Step::RateLimit(rule.limiter.name().into()));
    Some(RateLimit { path, key, dscp })
}
