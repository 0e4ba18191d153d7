//! States of paths, as reports have them.

use dataplane::PathState;

/// A state as reports have it.
pub(super) const fn shown(state: PathState) -> report::PathState {
    match state {
        PathState::Good => report::PathState::Good,
        PathState::Degraded => report::PathState::Degraded,
        PathState::Bad => report::PathState::Bad,
        PathState::Untried => report::PathState::Untried,
        PathState::Dead => report::PathState::Dead,
    }
}
