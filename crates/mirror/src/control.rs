//! Changes to the network's state that culvert itself has to make.

use core::net::IpAddr;

use crate::attribute::{Request, append, ip_bytes};
use crate::connection::Connection;
use crate::error::Error;
use crate::model::{Family, NextHop, Prefix, Route, RouteKind, Rule, RuleAction};
use crate::uapi::*;

/// Asks Linux for changes in the network namespace of the thread that makes it.
///
/// Every method waits for Linux's answer and needs `CAP_NET_ADMIN`. Errors are
/// [`Error::Refused`] with Linux's errno, or [`Error::Socket`].
pub struct Control {
    connection: Connection,
}

impl Control {
    /// Opens the socket.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn new() -> Result<Control, Error> {
        Ok(Control { connection: Connection::new()? })
    }

    /// Adds a routing rule.
    ///
    /// # Errors
    /// `EEXIST` if the very rule is there already.
    pub fn add_rule(&mut self, rule: &Rule) -> Result<(), Error> {
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.connection.command("add a rule", RTM_NEWRULE, flags, |kind, flags| {
            rule_request(kind, flags, rule)
        })
    }

    /// Deletes the routing rule that is like this one.
    ///
    /// # Errors
    /// `ENOENT` if there is none.
    pub fn delete_rule(&mut self, rule: &Rule) -> Result<(), Error> {
        self.connection
            .command("delete a rule", RTM_DELRULE, 0, |kind, flags| rule_request(kind, flags, rule))
    }

    /// Adds a route, or replaces the one of the same table, destination and metric.
    ///
    /// # Errors
    /// As Linux gives them; `ENETDOWN` where the interface is down.
    pub fn replace_route(&mut self, route: &Route) -> Result<(), Error> {
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.connection.command("set a route", RTM_NEWROUTE, flags, |kind, flags| {
            route_request(kind, flags, route)
        })
    }

    /// Deletes a route.
    ///
    /// # Errors
    /// `ESRCH` if there is none like this.
    pub fn delete_route(&mut self, route: &Route) -> Result<(), Error> {
        self.connection.command("delete a route", RTM_DELROUTE, 0, |kind, flags| {
            route_request(kind, flags, route)
        })
    }

    /// Sets a link up or down.
    ///
    /// # Errors
    /// `ENODEV` if there is no such link.
    pub fn set_link_up(&mut self, ifindex: u32, up: bool) -> Result<(), Error> {
        let header = link_header(ifindex, if up { IFF_UP } else { 0 }, IFF_UP);
        let what = if up { "set a link up" } else { "set a link down" };
        self.connection
            .command(what, RTM_NEWLINK, 0, |kind, flags| Request::new(kind, flags, &header))
    }

    /// Sets a link's MTU in bytes.
    ///
    /// # Errors
    /// `EINVAL` if the driver does not allow it.
    pub fn set_link_mtu(&mut self, ifindex: u32, mtu: u32) -> Result<(), Error> {
        let header = link_header(ifindex, 0, 0);
        self.connection.command("set a link's MTU", RTM_NEWLINK, 0, |kind, flags| {
            Request::new(kind, flags, &header).attribute(IFLA_MTU, &mtu.to_ne_bytes())
        })
    }

    /// Sets a permanent neighbour entry, in the place of whatever is there.
    ///
    /// # Errors
    /// As Linux gives them.
    pub fn replace_neighbour(
        &mut self,
        ifindex: u32,
        ip: IpAddr,
        mac: [u8; 6],
    ) -> Result<(), Error> {
        let header = neighbour_header(ifindex, ip, NUD_PERMANENT, 0);
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.connection.command("set a neighbour", RTM_NEWNEIGH, flags, |kind, flags| {
            Request::new(kind, flags, &header)
                .attribute(NDA_DST, &ip_bytes(ip))
                .attribute(NDA_LLADDR, &mac)
        })
    }

    /// Deletes a neighbour entry.
    ///
    /// # Errors
    /// `ENOENT` if there is none.
    pub fn delete_neighbour(&mut self, ifindex: u32, ip: IpAddr) -> Result<(), Error> {
        let header = neighbour_header(ifindex, ip, 0, 0);
        self.connection.command("delete a neighbour", RTM_DELNEIGH, 0, |kind, flags| {
            Request::new(kind, flags, &header).attribute(NDA_DST, &ip_bytes(ip))
        })
    }

    /// Has Linux resolve a neighbour, or confirm one that is stale, as if a packet were to be sent
    /// to it. The answer comes as a change to the neighbour: usable or failed.
    ///
    /// # Errors
    /// As Linux gives them; `ENETDOWN` where the interface is down.
    pub fn resolve(&mut self, ifindex: u32, ip: IpAddr) -> Result<(), Error> {
        let header = neighbour_header(ifindex, ip, 0, NTF_USE);
        self.connection.command("resolve a neighbour", RTM_NEWNEIGH, NLM_F_CREATE, |kind, flags| {
            Request::new(kind, flags, &header).attribute(NDA_DST, &ip_bytes(ip))
        })
    }
}

/// `struct ifinfomsg`.
fn link_header(ifindex: u32, flags: u32, change: u32) -> Vec<u8> {
    let mut header = vec![0; 4];
    for number in [ifindex, flags, change] {
        header.extend_from_slice(&number.to_ne_bytes());
    }
    header
}

/// `struct ndmsg`.
fn neighbour_header(ifindex: u32, ip: IpAddr, state: u16, flags: u8) -> Vec<u8> {
    let mut header = vec![family_number(Family::of(ip)), 0, 0, 0];
    header.extend_from_slice(&ifindex.to_ne_bytes());
    header.extend_from_slice(&state.to_ne_bytes());
    header.extend_from_slice(&[flags, 0]);
    header
}

const fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => AF_INET,
        Family::V6 => AF_INET6,
    }
}

fn rule_request(kind: u16, flags: u16, rule: &Rule) -> Request {
    let len = |prefix: Option<Prefix>| prefix.map_or(0, |p| p.len);
    let (action, target) = match rule.action {
        RuleAction::Lookup => (FR_ACT_TO_TBL, None),
        RuleAction::Goto(target) => (FR_ACT_GOTO, Some(target)),
        RuleAction::Nop => (FR_ACT_NOP, None),
        RuleAction::Blackhole => (FR_ACT_BLACKHOLE, None),
        RuleAction::Unreachable => (FR_ACT_UNREACHABLE, None),
        RuleAction::Prohibit => (FR_ACT_PROHIBIT, None),
        RuleAction::Other(number) => (number, None),
    };
    let table = u8::try_from(rule.table).unwrap_or(RT_TABLE_COMPAT);
    let family = family_number(rule.family);
    let mut header = vec![family, len(rule.to), len(rule.from), 0, table, 0, 0, action];
    header.extend_from_slice(&(if rule.invert { FIB_RULE_INVERT } else { 0 }).to_ne_bytes());
    let address = |prefix: Option<Prefix>| prefix.map(|p| ip_bytes(p.addr));
    let number = |n: u32| Some(n.to_ne_bytes().to_vec());
    let name = |name: &Option<String>| name.as_ref().map(|n| [n.as_bytes(), &[0]].concat());
    let has_mark = rule.fwmask != 0;
    Request::new(kind, flags, &header)
        .optional(FRA_PRIORITY, number(rule.priority))
        .optional(FRA_TABLE, number(rule.table))
        .optional(FRA_DST, address(rule.to))
        .optional(FRA_SRC, address(rule.from))
        .optional(FRA_IIFNAME, name(&rule.iif))
        .optional(FRA_OIFNAME, name(&rule.oif))
        .optional(FRA_FWMARK, number(rule.fwmark).filter(|_| has_mark))
        .optional(FRA_FWMASK, number(rule.fwmask).filter(|_| has_mark))
        .optional(FRA_GOTO, target.and_then(number))
        .optional(FRA_SUPPRESS_PREFIXLEN, rule.suppress_prefix_len.and_then(number))
        .optional(FRA_L3MDEV, rule.l3mdev.then(|| vec![1]))
        .optional(FRA_IP_PROTO, rule.ip_protocol.map(|number| vec![number]))
        .optional(FRA_SPORT_RANGE, rule.sport.map(port_range))
        .optional(FRA_DPORT_RANGE, rule.dport.map(port_range))
        .optional(FRA_PROTOCOL, Some(vec![rule.protocol]).filter(|_| rule.protocol != 0))
}

/// `struct fib_rule_port_range`.
fn port_range((first, last): (u16, u16)) -> Vec<u8> {
    [first.to_ne_bytes(), last.to_ne_bytes()].concat()
}

fn route_request(kind: u16, flags: u16, route: &Route) -> Request {
    let action = match route.kind {
        RouteKind::Unicast => RTN_UNICAST,
        RouteKind::Local => RTN_LOCAL,
        RouteKind::Broadcast => RTN_BROADCAST,
        RouteKind::Anycast => RTN_ANYCAST,
        RouteKind::Multicast => RTN_MULTICAST,
        RouteKind::Blackhole => RTN_BLACKHOLE,
        RouteKind::Unreachable => RTN_UNREACHABLE,
        RouteKind::Prohibit => RTN_PROHIBIT,
        RouteKind::Throw => RTN_THROW,
        RouteKind::Other(number) => number,
    };
    let header = [
        family_number(route.family()),
        route.dst.len,
        route.src.map_or(0, |p| p.len),
        route.tos,
        u8::try_from(route.table).unwrap_or(RT_TABLE_UNSPEC),
        route.protocol,
        route.scope,
        action,
        0,
        0,
        0,
        0,
    ];
    let request = Request::new(kind, flags, &header)
        .attribute(RTA_DST, &ip_bytes(route.dst.addr))
        .attribute(RTA_TABLE, &route.table.to_ne_bytes())
        .attribute(RTA_PRIORITY, &route.metric.to_ne_bytes())
        .optional(RTA_SRC, route.src.map(|p| ip_bytes(p.addr)))
        .optional(RTA_PREFSRC, route.prefsrc.map(ip_bytes));
    let request = match route.mtu {
        Some(mtu) => request.nested(RTA_METRICS, RTAX_MTU, &mtu.to_ne_bytes()),
        None => request,
    };
    match route.next_hops.as_slice() {
        [] => request,
        [hop] => {
            let mut attributes = Vec::new();
            append_gateway(&mut attributes, route.family(), hop);
            request.attribute(RTA_OIF, &hop.ifindex.to_ne_bytes()).raw(&attributes)
        }
        hops => {
            let list: Vec<u8> =
                hops.iter().flat_map(|hop| hop_bytes(route.family(), hop)).collect();
            request.attribute(RTA_MULTIPATH, &list)
        }
    }
}

/// `struct rtnexthop` and its attributes.
fn hop_bytes(family: Family, hop: &NextHop) -> Vec<u8> {
    let hops = u8::try_from(hop.weight.saturating_sub(1)).unwrap_or(u8::MAX);
    let mut bytes = vec![0, 0, 0, hops];
    bytes.extend_from_slice(&hop.ifindex.to_ne_bytes());
    append_gateway(&mut bytes, family, hop);
    // A header and one attribute: the length fits.
    let len = bytes.len() as u16;
    bytes[..2].copy_from_slice(&len.to_ne_bytes());
    bytes
}

fn append_gateway(bytes: &mut Vec<u8>, family: Family, hop: &NextHop) {
    match hop.gateway {
        None => {}
        Some(gateway) if Family::of(gateway) == family => {
            append(bytes, RTA_GATEWAY, &ip_bytes(gateway));
        }
        Some(gateway) => {
            let of = u16::from(family_number(Family::of(gateway))).to_ne_bytes();
            append(bytes, RTA_VIA, &[&of, ip_bytes(gateway).as_slice()].concat());
        }
    }
}
