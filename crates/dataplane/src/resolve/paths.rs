//! Probes and replies that are decrypted: the worker that measures takes them.

use super::Decision;
use super::question::Context;
use crate::model::{Action, Draft, Measure};
use crate::tables::path_ends::PATHS_HOME;

/// Decision for a decrypted packet of this host that may be a probe or a reply. `linux` is the decision for one that is
/// neither.
pub(super) fn measured(context: &Context<'_>, linux: Decision) -> Decision {
    let ends = &context.view.topology.path_ends;
    if ends.is_empty() || !ends.may_take(context.h) {
        return linux;
    }
    match linux {
        Decision::Go(Draft { action: Action::ToLinux(linux), .. }) => {
            match context.view.worker.get() {
                PATHS_HOME => Decision::Go(Draft::of_flow(Action::Measure(Measure { linux }))),
                _ => Decision::Go(Draft::hand_over(PATHS_HOME)),
            }
        }
        // Linux cannot be told of it.
        other => other,
    }
}
