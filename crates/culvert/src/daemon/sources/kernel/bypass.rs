//! The kernel's policies that let pass what has come in by the private interface, for IPv6, whose
//! `disable_policy` says nothing of where a packet came in.
//!
//! A program marks such packets: the fast path has judged them. Outbound there is no such way: Linux asks its
//! policies before it is known by which interface a packet of this host leaves.

use policy::{Action, Direction, Mark, PolicyConfig};

/// Their directions.
pub const DIRECTIONS: [Direction; 2] = [Direction::In, Direction::Forward];

/// Whether a policy is one of them, of this run or another.
pub fn is_bypass(config: &PolicyConfig, judged: u32) -> bool {
    let selector = &config.selector;
    let is_any = |prefix: policy::Prefix| prefix.len == 0 && prefix.addr.is_ipv6();
    DIRECTIONS.contains(&config.direction)
        && is_any(selector.src)
        && is_any(selector.dst)
        && selector.protocol == 0
        && config.priority == 0
        && config.action == Action::Allow
        && config.templates.is_empty()
        && config.mark == Mark { value: judged, mask: judged }
}
