//! `culvert route`: routes, rules and neighbours as the data path has them.

use report::rule_text;
use report::{self, Routes};

use crate::linux::Linux;
use crate::texts::mac_text;

/// Linux's tables, as they are mirrored.
pub fn routes(linux: &Linux) -> Routes {
    let snapshot = linux.observer.snapshot();
    let name = |ifindex: u32| {
        snapshot.link(ifindex).map_or_else(|| ifindex.to_string(), |l| l.name.clone())
    };
    let prefix = |p: mirror::Prefix| format!("{}/{}", p.addr, p.len);
    let rules = [mirror::Family::V4, mirror::Family::V6]
        .into_iter()
        .flat_map(|family| snapshot.rules(family))
        .map(|rule| {
            let family = match rule.family {
                mirror::Family::V4 => "inet",
                mirror::Family::V6 => "inet6",
            };
            format!("{family} {}: {}", rule.priority, rule_text::describe(rule))
        })
        .collect();
    let routes = snapshot
        .routes()
        .map(|r| report::Route {
            table: r.table,
            dst: prefix(r.dst),
            kind: format!("{:?}", r.kind).to_lowercase().into(),
            via: r.next_hops.iter().filter_map(|h| h.gateway).map(|g| g.to_string()).collect(),
            dev: r.next_hops.iter().map(|h| name(h.ifindex)).collect(),
            metric: r.metric,
        })
        .collect();
    let neighbours = snapshot
        .neighbours()
        .map(|n| report::Neighbour {
            dev: name(n.ifindex),
            address: n.ip.to_string(),
            mac: n.mac.map(mac_text),
            state: format!("{:?}", n.state).to_lowercase().into(),
        })
        .collect();
    let segments = linux.reflection.segments_seen().rows().to_vec();
    let overlays = linux.overlays.rows().to_vec();
    Routes { rules, routes, neighbours, segments, overlays }
}
