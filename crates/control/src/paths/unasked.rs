//! Tunnel interfaces that routes lead to and no path has: rules are asked about no packet there.

use std::collections::{BTreeMap, BTreeSet};

use mirror::{Route, RouteKind, Snapshot};
use report::SteerUnasked;

use super::Paths;

impl Paths {
    /// Tunnel interfaces that routes lead to and no path has, as where a path was removed and its routes were not. Those that
    /// Linux makes by itself for addresses do not count.
    pub fn unasked(&self, snapshot: &Snapshot) -> Vec<SteerUnasked> {
        let of_paths: BTreeSet<&str> =
            self.configured.iter().filter_map(|path| path.tunnel.as_deref()).collect();
        let tunnels: BTreeMap<u32, &str> = snapshot
            .links()
            .filter(|link| link.xfrm.is_some() && !of_paths.contains(link.name.as_str()))
            .map(|link| (link.index, link.name.as_str()))
            .collect();
        if self.selection.is_empty() || tunnels.is_empty() {
            return Vec::new();
        }
        let mut led: BTreeMap<&str, (String, usize)> = BTreeMap::new();
        for route in snapshot.routes().filter(|route| is_set(route)) {
            for hop in &route.next_hops {
                let Some(name) = tunnels.get(&hop.ifindex) else { continue };
                let first = || (format!("{}/{}", route.dst.addr, route.dst.len), 0);
                led.entry(name).or_insert_with(first).1 += 1;
            }
        }
        let row = |(interface, (route, count)): (&str, (String, usize))| SteerUnasked {
            interface: interface.to_owned(),
            route,
            more: count.saturating_sub(1),
        };
        led.into_iter().map(row).collect()
    }
}

/// True if an operator or a routing daemon has set a route that leads packets on.
fn is_set(route: &Route) -> bool {
    route.kind == RouteKind::Unicast
        && route.protocol != RTPROT_KERNEL
        && !route.dst.addr.is_multicast()
}

/// Origin of the routes that Linux makes for addresses (`rtnetlink(7)`).
const RTPROT_KERNEL: u8 = 2;
