//! Uplinks whose packets leave in clear: what ports take for them, and the marks that Linux gets.

use std::collections::BTreeSet;
use std::sync::Arc;

use mirror::{Route, RouteKind, Snapshot};
use steer::Prefix;

use super::Paths;
use super::rules::routing_mark;
use super::sources::source_of;

impl Paths {
    /// Destinations that ports take for uplinks: the addresses that replies to probes go to, and probes in clear, and, with
    /// rules, those that the routes lead to an uplink.
    pub fn taken(&self, snapshot: &Snapshot) -> Vec<Prefix> {
        let uplinks = self.configured.iter().filter(|path| path.uplink.is_some());
        let uplinks = uplinks.filter_map(|path| source_of(path, snapshot));
        let answering = self.options.clear.iter().flat_map(|clear| &clear.at).copied();
        let sources: BTreeSet<_> = uplinks.chain(answering).collect();
        let hosts = sources.into_iter().filter_map(|addr| {
            let len = if addr.is_ipv4() { 32 } else { 128 };
            Prefix::new(addr, len)
        });
        let indices = match self.selection.is_empty() {
            true => BTreeSet::new(),
            false => self.uplinks(snapshot),
        };
        let is_led = |route: &&Route| leads_to(route, &indices);
        let routed: BTreeSet<_> = match indices.is_empty() {
            true => BTreeSet::new(),
            false => snapshot
                .routes()
                .filter(is_led)
                .map(|route| (route.dst.addr, route.dst.len))
                .collect(),
        };
        hosts.chain(routed.into_iter().filter_map(|(addr, len)| Prefix::new(addr, len))).collect()
    }

    /// Follows the addresses of uplinks that paths without a source have, as they change.
    pub fn follow_addresses(&mut self, snapshot: &Snapshot) {
        let sources = self.configured.iter().map(|path| source_of(path, snapshot));
        let sources: Vec<_> = sources.collect();
        if sources != self.sources {
            self.sources = sources;
            self.told = None;
            self.ends = Arc::new(self.all_ends());
        }
    }

    /// True if ports take other destinations once a route has changed.
    pub fn are_concerned(&self, route: &Route, snapshot: &Snapshot) -> bool {
        !self.selection.is_empty() && leads_to(route, &self.uplinks(snapshot))
    }

    /// Marks that Linux has to be told beside what it gets back, one for each way out.
    pub fn marks(&self) -> BTreeSet<u32> {
        let uplinks = self.configured.iter().filter(|path| path.uplink.is_some() && path.mark != 0);
        uplinks.map(|path| routing_mark(path, self.own_mark)).collect()
    }

    /// Indices of the uplinks that are there.
    fn uplinks(&self, snapshot: &Snapshot) -> BTreeSet<u32> {
        let names = self.configured.iter().filter_map(|path| path.uplink.as_deref());
        names.filter_map(|name| Some(snapshot.link_by_name(name)?.index)).collect()
    }
}

/// True if a route leads packets that are forwarded out of one of these interfaces.
fn leads_to(route: &Route, indices: &BTreeSet<u32>) -> bool {
    route.kind == RouteKind::Unicast
        && !route.dst.addr.is_multicast()
        && route.next_hops.iter().any(|hop| indices.contains(&hop.ifindex))
}
