//! Makes the workers' tables from the mirror of Linux's.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use config::{GtpuConfig, MarkConfig};
use dataplane::{Interface, MarkRule, Overlays, Segments, Topology};
use forward::{
    Fib, Hop, NeighbourEntry, NeighbourState, Neighbours, RouteChange, RouteEntry, RouteKind,
    Routes, RuleAction, RuleEntry, SourceCheck, Subnet,
};
use mirror::{Change, Family, Snapshot};
use wire::ethernet::MacAddr;
use xfrm::shim_protocol::ROUTE_PROTOCOL;

use crate::esp_sockets::{self, EspSockets};
use crate::memifs::Memifs;
use crate::ports::Ports;
use crate::private;
use crate::segments::SegmentRoutes;
use crate::services;
use crate::tunnels::Tunnels;
use crate::vlans::Vlans;
use crate::vrfs::Vrfs;
use crate::way_back::WayBack;

/// Routes and neighbours as workers read them, kept in step with the mirror. A change costs the same
/// however many routes there are.
pub struct Reflection {
    routes: Routes,
    neighbours: Neighbours,
    own: Own,
    segments: SegmentRoutes,
}

/// Routes that lead back to culvert, and are left out.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Culvert's own tables.
    pub tables: [u32; 2],
    /// The private interface: its routes in every table.
    pub ifindex: u32,
}

impl Reflection {
    /// From a whole snapshot.
    pub fn new(snapshot: &Snapshot, own: Own, mut segments: SegmentRoutes) -> Self {
        segments.take_in(snapshot);
        let found = snapshot.routes().filter_map(|r| followed(r, own, &segments));
        let found = segments.configured().chain(found);
        let mut routes = Routes::new(found, rules(snapshot), Some(own.tables[0]));
        routes.pin(segments.tables());
        let neighbours = snapshot.neighbours().map(neighbour).collect();
        Self { routes, neighbours, own, segments }
    }

    /// Applies changes; `snapshot` is the state after all of them.
    pub fn follow(&mut self, snapshot: &Snapshot, changes: &[Change]) {
        let mut changed = BTreeSet::new();
        let mut are_rules_new = false;
        if changes.iter().any(|change| self.concerns_segments(change)) {
            self.segments.take_in(snapshot);
            self.routes.pin(self.segments.tables());
            changed.extend(self.segments.configured_at());
        }
        for change in changes {
            match change {
                Change::Route(route) | Change::RouteRemoved(route) => {
                    if !self.own.tables.contains(&route.table) {
                        changed.insert((route.table, route.dst));
                    }
                }
                // Rules name interfaces, whose indices change.
                Change::Rule(_)
                | Change::RuleRemoved(_)
                | Change::Link(_)
                | Change::LinkRemoved(_) => are_rules_new = true,
                Change::Neighbour(new) => {
                    self.neighbours.insert(neighbour(new));
                }
                Change::NeighbourRemoved(old) => {
                    self.neighbours.remove(old.ifindex, old.ip);
                }
                Change::Address(_)
                | Change::AddressRemoved(_)
                | Change::Forwarding(_)
                | Change::ForwardingRemoved(_) => {}
            }
        }
        let changes = changed.into_iter().map(|(table, dst)| RouteChange {
            table,
            dst: subnet(dst),
            routes: self.routes_to(snapshot, (table, dst)),
        });
        let changes: Vec<RouteChange> = changes.collect();
        self.routes.change(changes);
        if are_rules_new {
            self.routes.set_rules(rules(snapshot));
        }
    }

    /// All routes to a prefix.
    fn routes_to(
        &self,
        snapshot: &Snapshot,
        (table, dst): (u32, mirror::Prefix),
    ) -> Vec<RouteEntry> {
        let own = self.segments.configured().filter(|r| (r.table, r.dst) == (table, subnet(dst)));
        let linuxs = snapshot.routes_to(table, dst);
        own.chain(linuxs.filter_map(|r| followed(r, self.own, &self.segments))).collect()
    }

    /// True if a change may concern segments: a route with some, or their sources and interfaces.
    fn concerns_segments(&self, change: &Change) -> bool {
        match change {
            Change::Route(route) | Change::RouteRemoved(route) => route.has_encap,
            Change::Address(_) | Change::AddressRemoved(_) => self.segments.is_any(),
            Change::Link(_) | Change::LinkRemoved(_) => self.segments.is_any(),
            _ => false,
        }
    }

    /// The routes with segments.
    pub fn segments(&mut self) -> &mut SegmentRoutes {
        &mut self.segments
    }

    /// The same, to be looked at.
    pub fn segments_seen(&self) -> &SegmentRoutes {
        &self.segments
    }

    /// Routes and rules, to be published.
    pub fn fib(&self) -> Fib {
        self.routes.fib()
    }

    /// Neighbours, to be published.
    pub fn neighbours(&self) -> Neighbours {
        let mut neighbours = self.neighbours.clone();
        neighbours.address_nobody_from(esp_sockets::FIRST_INDEX);
        neighbours
    }
}

/// Facts about interfaces beside Linux's own.
pub struct Known<'k> {
    /// Ports of the daemon.
    pub ports: &'k Ports,
    /// The ports of applications that share memory.
    pub memifs: &'k Memifs,
    /// The UDP sockets of IKE daemons, in place of ports.
    pub esp_sockets: &'k EspSockets,
    /// The VLANs of ports.
    pub vlans: &'k Vlans,
    /// The tunnel interfaces.
    pub tunnels: &'k Tunnels,
    /// Rules for the marks of packets that arrive at a port.
    pub marks: &'k [MarkConfig],
    /// GTP-U services and their applications.
    pub gtpu: &'k [GtpuConfig],
    /// How Linux takes packets.
    pub way_back: &'k WayBack,
}

/// Routes, rules and interfaces, as workers read them.
pub fn topology(snapshot: &Snapshot, fib: Fib, known: &Known<'_>) -> Topology {
    let Known { ports, memifs, esp_sockets, vlans, tunnels, marks, gtpu, way_back } = known;
    let here = snapshot.links().map(|link| {
        let port = ports.slot(link.index).or_else(|| memifs.slot(link.index));
        let port = port.or_else(|| vlans.slot(link.index));
        let interface = Interface {
            port,
            back: way_back.tag(link.index),
            binding: tunnels.binding(link.index),
            source_check: match port {
                Some(_) => private::source_check(&link.name),
                None if link.overlay.is_some() => private::source_check(&link.name),
                None => SourceCheck::Off,
            },
            mac: MacAddr(link.mac.unwrap_or_default()),
            mtu: link.mtu,
            up: link.up && link.running,
            addr4: snapshot.addresses_of(link.index).find_map(|a| match a.addr {
                IpAddr::V4(addr) => Some(addr),
                IpAddr::V6(_) => None,
            }),
            addr6: global_v6(snapshot, link.index),
        };
        (link.index, interface)
    });
    let elsewhere = tunnels.elsewhere().map(|(ifindex, binding, mtu)| {
        let interface = Interface {
            port: None,
            back: None,
            binding: Some(binding),
            source_check: SourceCheck::Off,
            mac: MacAddr::default(),
            mtu,
            up: true,
            addr4: None,
            addr6: None,
        };
        (ifindex, interface)
    });
    let sockets = esp_sockets.interfaces(snapshot);
    let interfaces = here.chain(elsewhere).chain(sockets).collect::<HashMap<_, _, _>>();
    let is_up = |ifindex| snapshot.link(ifindex).is_some_and(|link| link.up);
    Topology {
        fib,
        interfaces,
        vlans: vlans.table(),
        tunnels: tunnels.up(is_up).collect(),
        mark_rules: marks.iter().map(|rule| mark_rule(snapshot, rule)).collect(),
        marks: way_back.marks().collect(),
        gtpu: services::of(snapshot, gtpu),
        segments: Segments::default(),
        overlays: Overlays::default(),
        clamps_mss: false,
        applications: None,
        rate_rules: Arc::default(),
        path_ends: Arc::default(),
        uplink_tags: HashMap::default(),
        takes_bfd: false,
        guarded: Vec::new(),
        sockets: esp_sockets.ways().collect(),
        local: snapshot.addresses().map(|a| a.addr).collect::<HashSet<_, _>>(),
    }
}

/// A rule about marks. One that names an interface which is not there matches nothing.
fn mark_rule(snapshot: &Snapshot, rule: &MarkConfig) -> MarkRule {
    let index_of = |name: &String| snapshot.link_by_name(name).map_or(NO_INTERFACE, |l| l.index);
    MarkRule {
        ifindex: rule.interface.as_ref().map_or(0, index_of),
        dscp: rule.dscp.map(|dscp| dscp.0),
        src: rule.src.map(|prefix| prefix.0),
        dst: rule.dst.map(|prefix| prefix.0),
        mark: rule.mark,
    }
}

/// A global IPv6 address of an interface, or a link-local one where there is no other.
fn global_v6(snapshot: &Snapshot, ifindex: u32) -> Option<std::net::Ipv6Addr> {
    let mut addrs = snapshot
        .addresses_of(ifindex)
        .filter(|a| !a.tentative)
        .filter_map(|a| match a.addr {
            IpAddr::V6(addr) => Some(addr),
            IpAddr::V4(_) => None,
        })
        .collect::<Vec<_>>();
    addrs.sort_by_key(|a| a.is_unicast_link_local());
    addrs.first().copied()
}

/// A route as workers have it. Routes for one TOS or source prefix are left out: only Linux can
/// follow them. So are routes by the private interface: packets would loop.
fn followed(r: &mirror::Route, own: Own, segments: &SegmentRoutes) -> Option<RouteEntry> {
    let is_own = |hop: &mirror::NextHop| hop.ifindex == own.ifindex;
    let leads_back = !r.next_hops.is_empty() && r.next_hops.iter().all(is_own);
    let is_followed =
        r.tos == 0 && r.src.is_none() && !leads_back && !own.tables.contains(&r.table);
    is_followed.then(|| {
        let mut entry = route(r, segments);
        entry.hops.retain(|hop| hop.ifindex != own.ifindex);
        entry
    })
}

fn rules(snapshot: &Snapshot) -> Vec<RuleEntry> {
    let ifindex_of =
        |name: &str| snapshot.link_by_name(name).map_or(NO_INTERFACE, |link| link.index);
    let vrfs = OnceCell::new();
    [Family::V4, Family::V6]
        .into_iter()
        .flat_map(|family| snapshot.rules(family))
        // Culvert's own rules are for Linux's packets, not for those that workers route.
        .filter(|r| r.protocol != ROUTE_PROTOCOL)
        .flat_map(|r| match r.l3mdev && !r.invert {
            true => of_vrfs(r, rule(r, &ifindex_of), vrfs.get_or_init(|| Vrfs::of(snapshot))),
            false => vec![rule(r, &ifindex_of)],
        })
        .collect()
}

/// A rule for VRFs: for what comes in by an interface of one it leads to that one's table.
fn of_vrfs(r: &mirror::Rule, entry: RuleEntry, vrfs: &Vrfs) -> Vec<RuleEntry> {
    let inside = vrfs.interfaces().filter(|i| r.iif.is_none() || entry.iif == Some(*i));
    // What it looks at beside is Linux's to know.
    let has_more = r.has_more || r.ip_protocol.is_some() || r.sport.is_some() || r.dport.is_some();
    let is_followed = r.action == mirror::RuleAction::Lookup && !has_more;
    let of = |iif| {
        let table = vrfs.table(iif).filter(|_| is_followed);
        let action = table.map_or(RuleAction::Opaque, RuleAction::Table);
        RuleEntry { iif: Some(iif), action, ..entry.clone() }
    };
    inside.map(of).collect()
}

/// An index that no interface has: a rule with a name that nothing has matches nothing.
const NO_INTERFACE: u32 = u32::MAX;

fn subnet(prefix: mirror::Prefix) -> Subnet {
    Subnet { addr: prefix.addr, len: prefix.len }
}

fn route(r: &mirror::Route, segments: &SegmentRoutes) -> RouteEntry {
    use mirror::RouteKind as Kind;
    let kind = match r.kind {
        Kind::Unicast => RouteKind::Unicast,
        Kind::Local | Kind::Broadcast | Kind::Anycast | Kind::Multicast => RouteKind::Local,
        Kind::Blackhole => RouteKind::Blackhole,
        Kind::Prohibit => RouteKind::Prohibit,
        Kind::Throw => RouteKind::Throw,
        Kind::Unreachable | Kind::Other(_) => RouteKind::Unreachable,
    };
    // A route with an encapsulation that has no index (MPLS, …) is one that only Linux can follow: an
    // interface that is not a port sends the packet there.
    let ifindex_of = |hop: &mirror::NextHop| match r.has_encap {
        true => segments.index(hop).unwrap_or(NO_INTERFACE),
        false => hop.ifindex,
    };
    let hops = r
        .next_hops
        .iter()
        .filter(|hop| !hop.dead && !hop.link_down)
        .map(|hop| Hop { ifindex: ifindex_of(hop), gateway: hop.gateway, weight: hop.weight })
        .collect();
    RouteEntry {
        table: r.table,
        dst: subnet(r.dst),
        kind,
        priority: r.metric,
        hops,
        mtu: r.mtu,
        src: r.prefsrc,
    }
}

fn rule(r: &mirror::Rule, ifindex_of: &impl Fn(&str) -> u32) -> RuleEntry {
    use mirror::RuleAction as Action;
    let action = match r.action {
        _ if r.has_more || r.l3mdev || r.ip_protocol.is_some() => RuleAction::Opaque,
        _ if r.sport.is_some() || r.dport.is_some() => RuleAction::Opaque,
        Action::Lookup => RuleAction::Table(r.table),
        Action::Goto(priority) => RuleAction::Goto(priority),
        // No effect, as a goto to no rule.
        Action::Nop => RuleAction::Goto(0),
        Action::Blackhole => RuleAction::Blackhole,
        Action::Unreachable => RuleAction::Unreachable,
        Action::Prohibit => RuleAction::Prohibit,
        Action::Other(_) => RuleAction::Opaque,
    };
    RuleEntry {
        family: match r.family {
            Family::V4 => wire::Family::V4,
            Family::V6 => wire::Family::V6,
        },
        priority: r.priority,
        from: r.from.map(subnet),
        to: r.to.map(subnet),
        iif: r.iif.as_deref().map(ifindex_of),
        oif: r.oif.as_deref().map(ifindex_of),
        fwmark: r.fwmark,
        fwmask: r.fwmask,
        invert: r.invert,
        suppress_prefix_len: r.suppress_prefix_len.and_then(|len| u8::try_from(len).ok()),
        action,
    }
}

/// A neighbour as workers have it.
fn neighbour(n: &mirror::Neighbour) -> NeighbourEntry {
    use mirror::NeighbourState as State;
    let state = match n.state {
        State::Incomplete | State::None => NeighbourState::Incomplete,
        State::Reachable | State::NoArp | State::Permanent => NeighbourState::Reachable,
        State::Stale => NeighbourState::Stale,
        State::Delay | State::Probe => NeighbourState::Probing,
        State::Failed => NeighbourState::Failed,
    };
    NeighbourEntry { ifindex: n.ifindex, addr: n.ip, mac: n.mac.map(MacAddr), state }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_for_vrfs_are_for_what_comes_in_there() {
        let vrfs = Vrfs::with("red", 5, [198, 51, 100, 1].into());
        let index_of = |name: &str| if name == "lan" { 5 } else { 6 };
        let linux = mirror::Rule { l3mdev: true, ..mirror::Rule::new(Family::V4, 1000, 0) };
        let of = |r: &mirror::Rule| of_vrfs(r, rule(r, &index_of), &vrfs);
        let found = of(&linux);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].iif, found[0].action), (Some(5), RuleAction::Table(100)));
        let ports = mirror::Rule { dport: Some((53, 53)), ..linux.clone() };
        assert_eq!(of(&ports)[0].action, RuleAction::Opaque);
        let named = |name: &str| mirror::Rule { iif: Some(name.into()), ..linux.clone() };
        assert_eq!((of(&named("lan")).len(), of(&named("wan")).len()), (1, 0));
        // What is not of a VRF is not known of a packet either.
        let inverse = mirror::Rule { invert: true, ..linux };
        assert_eq!(rule(&inverse, &index_of).action, RuleAction::Opaque);
    }
}
