//! By which route Linux would send a packet of this host's own, and from which address, if culvert's
//! table were not there.
//!
//! The packet has no source address yet, no mark, and no interface that its socket is bound to. A
//! rule that asks for any of these, or for ports or users, does not apply to it.

use std::net::IpAddr;

use mirror::{Address, Family, Prefix, Route, RouteKind, Rule, RuleAction, Snapshot};

use super::address;
use super::way::Way;
use crate::tunnels::Led;

/// Linux's routes, rules and addresses, as they apply after culvert's rule.
pub struct Linux<'s> {
    snapshot: &'s Snapshot,
    v4: Vec<&'s Rule>,
    v6: Vec<&'s Rule>,
    /// The private interface: routes by it are culvert's, or lead back to it.
    private: u32,
    /// Routes to XFRM interfaces whose SAs are culvert's.
    led: Led<'s>,
}

impl<'s> Linux<'s> {
    /// Of the rules from `preference` on: what comes before has decided already. `protocol` marks
    /// culvert's own rules, `private` is its interface.
    pub fn new(
        snapshot: &'s Snapshot,
        preference: u32,
        protocol: u8,
        private: u32,
        led: Led<'s>,
    ) -> Linux<'s> {
        let rules = |family| {
            let all = snapshot.rules(family);
            all.filter(|r| r.priority >= preference && r.protocol != protocol).collect()
        };
        Linux { snapshot, v4: rules(Family::V4), v6: rules(Family::V6), private, led }
    }

    fn rules(&self, family: Family) -> &[&'s Rule] {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// The way to the whole of a prefix, as far as no route is for a part of it.
    pub fn way(&self, dst: Prefix) -> Option<Way> {
        let rules = self.rules(Family::of(dst.addr));
        let mut at = 0;
        while let Some(rule) = rules.get(at) {
            at += 1;
            if !applies(rule, dst) {
                continue;
            }
            match rule.action {
                RuleAction::Lookup => match self.route(rule, dst) {
                    Some(Route { kind: RouteKind::Throw, .. }) | None => {}
                    Some(route) => return self.way_of(route),
                },
                RuleAction::Goto(priority) => {
                    let target = rules.iter().position(|r| r.priority >= priority);
                    at = at.max(target.unwrap_or(rules.len()));
                }
                RuleAction::Nop | RuleAction::Other(_) => {}
                RuleAction::Blackhole | RuleAction::Unreachable | RuleAction::Prohibit => {
                    return None;
                }
            }
        }
        None
    }

    /// The longest route of a rule's table that covers the prefix.
    fn route(&self, rule: &Rule, dst: Prefix) -> Option<&'s Route> {
        let mut routes = self.snapshot.routes_around(rule.table, dst);
        let found = routes.find(|route| self.is_usable(route))?;
        let is_suppressed = rule.suppress_prefix_len.is_some_and(|n| u32::from(found.dst.len) <= n);
        (!is_suppressed).then_some(found)
    }

    fn is_usable(&self, route: &Route) -> bool {
        let is_plain = route.tos == 0 && route.src.is_none();
        is_plain && (route.kind != RouteKind::Unicast || self.way_of(route).is_some())
    }

    fn way_of(&self, route: &Route) -> Option<Way> {
        let mut hops = route.next_hops.iter().filter(|hop| !hop.dead && !hop.link_down);
        let hop = hops.find(|hop| hop.ifindex != self.private)?;
        (route.kind == RouteKind::Unicast).then_some(Way {
            ifindex: hop.ifindex,
            gateway: hop.gateway,
            prefsrc: route.prefsrc,
            scope: route.scope,
        })
    }

    /// The prefixes inside another one that Linux's routes and rules name: only at their borders
    /// the way changes. One may come several times.
    pub fn named_within(&self, prefix: Prefix) -> impl Iterator<Item = Prefix> {
        let rules = self.rules(Family::of(prefix.addr));
        let tables = rules.iter().filter(|r| r.action == RuleAction::Lookup).map(|r| r.table);
        let routes = tables.flat_map(move |table| self.snapshot.routes_within(table, prefix));
        let destinations = rules.iter().filter_map(|r| r.to);
        let inside = move |to: &Prefix| to.len > prefix.len && prefix.contains(to.addr);
        routes
            .filter(|route| self.is_usable(route))
            .map(|route| route.dst)
            .chain(destinations.filter(inside))
    }

    /// True if a route or rule names exactly this prefix.
    pub fn names(&self, prefix: Prefix) -> bool {
        self.rules(Family::of(prefix.addr)).iter().any(|rule| {
            let is_route = || {
                let mut routes = self.snapshot.routes_to(rule.table, prefix);
                rule.action == RuleAction::Lookup && routes.any(|route| self.is_usable(route))
            };
            rule.to == Some(prefix) || is_route()
        })
    }

    /// The destinations inside a prefix, and itself, that Linux would send by an XFRM interface whose SAs are
    /// culvert's, and that routes to one name.
    pub fn led_within(&self, prefix: Prefix) -> impl Iterator<Item = Prefix> {
        self.led.within(prefix).filter(|dst| self.leads_to_interface(*dst))
    }

    /// True if Linux would send to a destination by such an interface.
    pub fn leads_to_interface(&self, dst: Prefix) -> bool {
        self.way(dst).is_some_and(|way| self.led.leads(way.ifindex, Family::of(dst.addr)))
    }

    /// True if this host has an address inside.
    pub fn has_address_in(&self, prefix: Prefix) -> bool {
        self.snapshot.addresses().any(|a| prefix.contains(a.addr))
    }

    /// The source that Linux would take for a destination.
    pub fn source(&self, dst: Prefix, way: Way) -> Option<IpAddr> {
        way.prefsrc.or_else(|| {
            let all = || self.usable_addresses(Family::of(dst.addr));
            match dst.addr {
                IpAddr::V4(_) => address::v4_source(all, way),
                IpAddr::V6(to) => address::v6_source(all(), to, Some(way.ifindex)),
            }
        })
    }

    /// The source that Linux takes for a destination, if that leads anywhere.
    pub fn own_source(&self, dst: Prefix) -> Option<IpAddr> {
        self.source(dst, self.way(dst)?)
    }

    /// The source for a destination among the addresses that a policy takes: Linux's, if it is one
    /// of them, else the best of them.
    pub fn source_among(&self, dst: Prefix, takes: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let way = self.way(dst);
        let linux = way.and_then(|way| self.source(dst, way));
        if linux.is_some_and(&takes) {
            return linux;
        }
        let all = self.usable_addresses(Family::of(dst.addr)).filter(|a| takes(a.addr));
        let best = match dst.addr {
            IpAddr::V4(_) => address::v4_nearest(all, way),
            IpAddr::V6(to) => address::v6_source(all, to, way.map(|w| w.ifindex)),
        };
        best.or(linux)
    }

    fn usable_addresses(&self, family: Family) -> impl Iterator<Item = &'s Address> {
        // A link-local address is no source for what another interface sends.
        let is_link_local =
            |a: &Address| matches!(a.addr, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let all = self.snapshot.addresses().filter(move |a| a.family() == family);
        all.filter(move |a| !a.tentative && !a.addr.is_loopback() && !is_link_local(a))
    }
}

/// True if a rule applies to a packet of this host without source and mark, for all of a
/// destination prefix.
fn applies(rule: &Rule, dst: Prefix) -> bool {
    if rule.has_more || rule.ip_protocol.is_some() || rule.sport.is_some() || rule.dport.is_some() {
        return false;
    }
    // Only sockets of a VRF have one that is not known here.
    let matches = !rule.l3mdev
        && rule.oif.is_none()
        && rule.from.is_none()
        && rule.iif.as_deref().is_none_or(|name| name == "lo")
        && rule.fwmark & rule.fwmask == 0
        && rule.to.is_none_or(|to| to.len <= dst.len && to.contains(dst.addr));
    matches != rule.invert
}
