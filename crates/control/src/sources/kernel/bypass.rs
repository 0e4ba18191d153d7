//! The kernel's policies that let pass what has come in by the private interface, for IPv6, whose
//! `disable_policy` says nothing of where a packet came in; and what has come in by an XFRM interface and is for
//! this host, whose policies ask for SAs that Linux has not seen.
//!
//! A program marks such packets: the fast path has judged them. Outbound there is no such way: Linux asks its
//! policies before it is known by which interface a packet of this host leaves.

use policy::{Action, Direction, Mark, PolicyConfig};
use xfrm::Bypass;

/// Directions of the bypass policies.
const DIRECTIONS: [Direction; 2] = [Direction::In, Direction::Forward];

/// Bypass policies of the private interface.
pub fn of_private(judged: u32) -> [Bypass; 2] {
    DIRECTIONS.map(|direction| Bypass { direction, is_v6: true, if_id: 0, mark: judged })
}

/// Bypass policies of an XFRM interface. Packets that are not for this host do not come in by it.
pub fn of_interface(if_id: u32, judged: u32) -> [Bypass; 2] {
    [false, true].map(|is_v6| Bypass { direction: Direction::In, is_v6, if_id, mark: judged })
}

/// True if a policy is one of them, of this run or another.
pub fn is_bypass(config: &PolicyConfig, judged: u32) -> bool {
    let selector = &config.selector;
    let is_any =
        |prefix: policy::Prefix| prefix.len == 0 && (prefix.addr.is_ipv6() || config.if_id != 0);
    DIRECTIONS.contains(&config.direction)
        && is_any(selector.src)
        && is_any(selector.dst)
        && selector.protocol == 0
        && config.priority == 0
        && config.action == Action::Allow
        && config.templates.is_empty()
        && config.mark == Mark { value: judged, mask: judged }
}
