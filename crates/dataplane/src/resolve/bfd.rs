//! BFD to this host: the worker that has the sessions takes it.

use super::Decision;
use super::question::Context;
use crate::model::{Action, Bfd, Draft, Other};
use crate::tables::BFD_HOME;

/// Decision for a packet of this host that may be BFD for a session of culvert's. `linux` is the decision for any other.
pub(super) fn of_bfd(context: &Context<'_>, linux: Decision) -> Decision {
    if !context.view.topology.may_be_bfd(context.h) {
        return linux;
    }
    let way = match &linux {
        Decision::Go(Draft { action, is_for_flow: true, .. }) => Other::of(action),
        _ => None,
    };
    match (way, context.view.worker.get()) {
        (Some(way), BFD_HOME) => Decision::Go(Draft::of_flow(Action::Bfd(Bfd(way)))),
        (Some(_), _) => Decision::Go(Draft::hand_over(BFD_HOME)),
        // Linux cannot be told of it.
        (None, _) => linux,
    }
}
