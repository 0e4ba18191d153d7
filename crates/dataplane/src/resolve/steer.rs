//! Path selection: another path than the one that the routes lead to.

use forward::RouteResult;
use wire::Headers;

use crate::model::Origin;
use crate::tables::steering::Steered;
use crate::tables::traffic::Traffic;
use crate::view::View;

/// The answer of the rules about a packet that leaves, and that the routes lead to `found`. `None`: the routes decide.
///
/// A packet that Linux sends on a tunnel interface has its path already, and what workers make follows the routes.
pub(super) fn steered<'v>(
    view: &'v View,
    h: &Headers,
    origin: Origin,
    found: &RouteResult,
) -> Option<Steered<'v>> {
    let RouteResult::Unicast { ifindex, .. } = found else { return None };
    if !view.steering.is_path(*ifindex) {
        return None;
    }
    let (ifindex, mark, is_in) = match origin {
        Origin::Port { ifindex, mark, .. } => (ifindex, mark, false),
        Origin::Decrypted { ifindex, mark } => (ifindex, mark, true),
        Origin::Linux { mark } => (0, mark, false),
        Origin::Tunnel { .. } | Origin::Stepped { .. } | Origin::Worker { .. } => return None,
    };
    let application = view.application(h);
    view.steering.steer(&Traffic { h, ifindex, mark, is_in, sa: None, application })
}
