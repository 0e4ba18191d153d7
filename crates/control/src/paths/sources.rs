//! Addresses that probes come from.

use std::net::IpAddr;

use config::PathConfig;
use mirror::{Address, Snapshot};

/// Address that a path's probes come from: the one that is configured, or one of its uplink that goes with `to`. `None` while the
/// uplink has none.
pub(super) fn source_of(path: &PathConfig, snapshot: &Snapshot) -> Option<IpAddr> {
    if !path.source.is_unspecified() {
        return Some(path.source);
    }
    let uplink = snapshot.link_by_name(path.uplink.as_deref()?)?;
    let is_on_link = is_link_local(path.to);
    let fits = |address: &&Address| {
        let is_family = address.addr.is_ipv4() == path.to.is_ipv4();
        is_family && !address.tentative && is_link_local(address.addr) == is_on_link
    };
    // As Linux prefers them (RFC 6724 §5, rule 3); temporary ones change by themselves.
    let preferred = |address: &&Address| (address.deprecated, address.secondary);
    let addresses = snapshot.addresses_of(uplink.index);
    addresses.filter(fits).min_by_key(preferred).map(|address| address.addr)
}

/// True for an IPv6 address that is of one link alone.
const fn is_link_local(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(addr) if addr.is_unicast_link_local())
}
