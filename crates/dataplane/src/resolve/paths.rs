//! Probes and replies to this host: the worker that measures takes them.

use super::Decision;
use super::question::Context;
use crate::model::{Action, Draft, Measure, Other};
use crate::tables::path_ends::PATHS_HOME;

/// Decision for a decrypted packet of this host that may be a probe or a reply. `linux` is the decision for one that is
/// neither.
pub(super) fn measured(context: &Context<'_>, linux: Decision) -> Decision {
    let ends = &context.view.topology.path_ends;
    match linux {
        Decision::Go(Draft { action: Action::ToLinux(way), .. })
            if !ends.is_empty() && ends.may_take(context.h) =>
        {
            by_home(context, Other::ToLinux(way))
        }
        // Linux cannot be told of it.
        other => other,
    }
}

/// The same for a packet that came in clear, and may be a reply to a probe of an uplink, or a probe for the reflector in clear.
pub(super) fn measured_in_clear(context: &Context<'_>, linux: Decision) -> Decision {
    let ends = &context.view.topology.path_ends;
    if !ends.is_any_clear() || !ends.may_take_in_clear(context.h) {
        return linux;
    }
    match linux {
        Decision::Go(Draft { action: Action::BackToLinux { tag }, .. }) => {
            by_home(context, Other::Back(tag))
        }
        Decision::Go(Draft { action: Action::ToLinux(way), .. }) => {
            by_home(context, Other::ToLinux(way))
        }
        other => other,
    }
}

fn by_home(context: &Context<'_>, other: Other) -> Decision {
    match context.view.worker.get() {
        PATHS_HOME => Decision::Go(Draft::of_flow(Action::Measure(Measure { other }))),
        _ => Decision::Go(Draft::hand_over(PATHS_HOME)),
    }
}
