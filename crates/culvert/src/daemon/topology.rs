//! From what Linux has (the mirror) to what workers and steering read.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use dataplane::{Interface, Topology};
use forward::{
    Fib, Hop, NeighbourEntry, NeighbourState, Neighbours, RouteEntry, RouteKind, RuleAction,
    RuleEntry, SourceCheck, Subnet,
};
use mirror::{Family, Snapshot};
use wire::ethernet::MacAddr;

/// Routes, rules and interfaces; `own_table` is culvert's, which leads back to culvert, and `port`
/// tells which of the worker's places an interface has.
pub fn topology(
    snapshot: &Snapshot,
    own_table: u32,
    port: impl Fn(u32) -> Option<usize>,
    source_check: impl Fn(&str) -> SourceCheck,
) -> Topology {
    let interfaces = snapshot
        .links()
        .map(|link| {
            let port = port(link.index);
            let interface = Interface {
                port,
                source_check: match port {
                    Some(_) => source_check(&link.name),
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
        })
        .collect::<HashMap<_, _, _>>();
    Topology {
        fib: fib(snapshot, own_table),
        interfaces,
        local: snapshot.addresses().map(|a| a.addr).collect::<HashSet<_, _>>(),
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

fn fib(snapshot: &Snapshot, own_table: u32) -> Fib {
    let routes: Vec<RouteEntry> =
        snapshot.routes().filter(|r| r.tos == 0 && r.src.is_none()).map(route).collect();
    let ifindex_of =
        |name: &str| snapshot.link_by_name(name).map_or(NO_INTERFACE, |link| link.index);
    let rules: Vec<RuleEntry> = [Family::V4, Family::V6]
        .into_iter()
        .flat_map(|family| snapshot.rules(family))
        .map(|r| rule(r, &ifindex_of))
        .collect();
    Fib::new(routes, rules, Some(own_table))
}

/// An index that no interface has: a rule with a name that nothing has matches nothing.
const NO_INTERFACE: u32 = u32::MAX;

fn subnet(prefix: mirror::Prefix) -> Subnet {
    Subnet { addr: prefix.addr, len: prefix.len }
}

fn route(r: &mirror::Route) -> RouteEntry {
    use mirror::RouteKind as Kind;
    let kind = match r.kind {
        Kind::Unicast => RouteKind::Unicast,
        Kind::Local | Kind::Broadcast | Kind::Anycast | Kind::Multicast => RouteKind::Local,
        Kind::Blackhole => RouteKind::Blackhole,
        Kind::Prohibit => RouteKind::Prohibit,
        Kind::Throw => RouteKind::Throw,
        Kind::Unreachable | Kind::Other(_) => RouteKind::Unreachable,
    };
    // A route with an encapsulation (MPLS, SRv6, …) is one that only Linux can follow: an
    // interface that is not a port sends the packet there.
    let hops = r
        .next_hops
        .iter()
        .filter(|hop| !hop.dead && !hop.link_down)
        .map(|hop| Hop {
            ifindex: if r.has_encap { NO_INTERFACE } else { hop.ifindex },
            gateway: hop.gateway,
            weight: hop.weight,
        })
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
        _ if r.has_more => RuleAction::Opaque,
        Action::Lookup => RuleAction::Table(r.table),
        Action::Goto(priority) => RuleAction::Goto(priority),
        // Does nothing: like a goto that leads nowhere.
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

/// Neighbours, with the states that matter for sending.
pub fn neighbours(snapshot: &Snapshot) -> Neighbours {
    use mirror::NeighbourState as State;
    let mut neighbours = Neighbours::default();
    for n in snapshot.neighbours() {
        let state = match n.state {
            State::Incomplete | State::None => NeighbourState::Incomplete,
            State::Reachable | State::NoArp | State::Permanent => NeighbourState::Reachable,
            State::Stale => NeighbourState::Stale,
            State::Delay | State::Probe => NeighbourState::Probing,
            State::Failed => NeighbourState::Failed,
        };
        neighbours.insert(NeighbourEntry {
            ifindex: n.ifindex,
            addr: n.ip,
            mac: n.mac.map(MacAddr),
            state,
        });
    }
    neighbours
}
