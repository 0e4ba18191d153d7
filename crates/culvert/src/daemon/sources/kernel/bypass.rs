//! The kernel's policies that let IPv6 pass by the private interface, as they are learnt again.

use policy::{Action, PolicyConfig};
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketType, socket};

/// Whether a policy is one that [`xfrm::Kernel::put_bypass`] installs, of this run or another.
pub fn is_bypass(config: &PolicyConfig) -> bool {
    let selector = &config.selector;
    let is_any = |prefix: policy::Prefix| prefix.len == 0 && prefix.addr.is_ipv6();
    selector.ifindex != 0
        && is_any(selector.src)
        && is_any(selector.dst)
        && selector.protocol == 0
        && config.priority == 0
        && config.action == Action::Allow
        && config.templates.is_empty()
}

/// Whether there is an interface with this index.
pub fn exists(ifindex: u32) -> bool {
    let asking = socket(AddressFamily::INET, SocketType::DGRAM, None);
    asking.is_ok_and(|socket| index_to_name(socket, ifindex).is_ok())
}
