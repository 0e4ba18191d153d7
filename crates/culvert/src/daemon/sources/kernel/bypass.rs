//! The kernel's policies that let IPv6 pass by the private interface: IPv6 has no `disable_xfrm`, and its
//! `disable_policy` is another one.
//!
//! | packets | told by |
//! | --- | --- |
//! | that Linux forwards to the private interface | the interface that they leave by |
//! | that have come by it, and that the fast path has judged | a mark, which a program gives them where they come in |
//!
//! What a program of this host itself sends is not told by the interface: Linux asks its policies before it
//! is known.

use policy::{Action, Direction, PolicyConfig};
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketType, socket};
use xfrm::Bypass;

/// All of them, for the private interface with this index, and this mark of what has come by it.
pub fn all(private: u32, judged: u32) -> [(Direction, Bypass); 3] {
    [
        (Direction::Out, Bypass::By(private)),
        (Direction::In, Bypass::Marked(judged)),
        (Direction::Forward, Bypass::Marked(judged)),
    ]
}

/// Which of them a policy is, of this run or another.
pub fn told_by(config: &PolicyConfig, judged: u32) -> Option<Bypass> {
    let selector = &config.selector;
    let is_any = |prefix: policy::Prefix| prefix.len == 0 && prefix.addr.is_ipv6();
    let is_ours = is_any(selector.src)
        && is_any(selector.dst)
        && selector.protocol == 0
        && config.priority == 0
        && config.action == Action::Allow
        && config.templates.is_empty();
    let mark = policy::Mark { value: judged, mask: judged };
    match (is_ours, config.direction, selector.ifindex) {
        (true, Direction::Out, ifindex @ 1..) => Some(Bypass::By(ifindex)),
        (true, Direction::In | Direction::Forward, 0) if config.mark == mark => {
            Some(Bypass::Marked(judged))
        }
        _ => None,
    }
}

/// Whether there is an interface with this index.
pub fn exists(ifindex: u32) -> bool {
    let asking = socket(AddressFamily::INET, SocketType::DGRAM, None);
    asking.is_ok_and(|socket| index_to_name(socket, ifindex).is_ok())
}
