//! Changes to the network's state that culvert itself has to make.

use core::net::IpAddr;

use netlink::{Connection, Field as _, Header, MessageWriter, Protocol, flag};

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
        Ok(Control { connection: Connection::open(Protocol::Route)? })
    }

    /// Adds a routing rule.
    ///
    /// # Errors
    /// `EEXIST` if the very rule is there already.
    pub fn add_rule(&mut self, rule: &Rule) -> Result<(), Error> {
        let flags = flag::CREATE | flag::EXCL;
        self.command("add a rule", rule_request(RTM_NEWRULE, flags, rule))
    }

    /// Deletes the routing rule that is like this one.
    ///
    /// # Errors
    /// `ENOENT` if there is none.
    pub fn delete_rule(&mut self, rule: &Rule) -> Result<(), Error> {
        self.command("delete a rule", rule_request(RTM_DELRULE, 0, rule))
    }

    /// Adds a route, or replaces the one of the same table, destination and metric.
    ///
    /// # Errors
    /// As Linux gives them; `ENETDOWN` where the interface is down.
    pub fn replace_route(&mut self, route: &Route) -> Result<(), Error> {
        let flags = flag::CREATE | flag::REPLACE;
        self.command("set a route", route_request(RTM_NEWROUTE, flags, route))
    }

    /// Deletes a route.
    ///
    /// # Errors
    /// `ESRCH` if there is none like this.
    pub fn delete_route(&mut self, route: &Route) -> Result<(), Error> {
        self.command("delete a route", route_request(RTM_DELROUTE, 0, route))
    }

    /// Sets a link up or down.
    ///
    /// # Errors
    /// `ENODEV` if there is no such link.
    pub fn set_link_up(&mut self, ifindex: u32, up: bool) -> Result<(), Error> {
        let header = link_header(ifindex, if up { IFF_UP } else { 0 }, IFF_UP);
        let what = if up { "set a link up" } else { "set a link down" };
        self.command(what, request(RTM_NEWLINK, 0, &header))
    }

    /// Sets a link's MTU in bytes.
    ///
    /// # Errors
    /// `EINVAL` if the driver does not allow it.
    pub fn set_link_mtu(&mut self, ifindex: u32, mtu: u32) -> Result<(), Error> {
        let header = link_header(ifindex, 0, 0);
        let mut request = request(RTM_NEWLINK, 0, &header);
        request.field(IFLA_MTU, &mtu);
        self.command("set a link's MTU", request)
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
        let mut request = request(RTM_NEWNEIGH, flag::CREATE | flag::REPLACE, &header);
        request.attribute(NDA_DST, &ip_bytes(ip)).attribute(NDA_LLADDR, &mac);
        self.command("set a neighbour", request)
    }

    /// Deletes a neighbour entry.
    ///
    /// # Errors
    /// `ENOENT` if there is none.
    pub fn delete_neighbour(&mut self, ifindex: u32, ip: IpAddr) -> Result<(), Error> {
        let header = neighbour_header(ifindex, ip, 0, 0);
        let mut request = request(RTM_DELNEIGH, 0, &header);
        request.attribute(NDA_DST, &ip_bytes(ip));
        self.command("delete a neighbour", request)
    }

    /// Has Linux resolve a neighbour, or confirm one that is stale, as if a packet were to be sent
    /// to it. The answer comes as a change to the neighbour: usable or failed.
    ///
    /// # Errors
    /// As Linux gives them; `ENETDOWN` where the interface is down.
    pub fn resolve(&mut self, ifindex: u32, ip: IpAddr) -> Result<(), Error> {
        let header = neighbour_header(ifindex, ip, 0, NTF_USE);
        let mut request = request(RTM_NEWNEIGH, flag::CREATE, &header);
        request.attribute(NDA_DST, &ip_bytes(ip));
        self.command("resolve a neighbour", request)
    }

    /// Waits for the acknowledgement; `what` names the request in errors.
    fn command(&mut self, what: &str, request: MessageWriter) -> Result<(), Error> {
        self.connection.command(request).map_err(|fault| Error::of(what, fault))
    }
}

/// A request of this type, with its fixed struct.
fn request(kind: u16, flags: u16, header: &[u8]) -> MessageWriter {
    let mut request = MessageWriter::request(kind, flags);
    request.raw(header);
    request
}

/// The address's bytes, in network byte order.
fn ip_bytes(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// A `struct ifinfomsg`, as bytes.
fn link_header(ifindex: u32, flags: u32, change: u32) -> Vec<u8> {
    let mut header = vec![0; 4];
    for number in [ifindex, flags, change] {
        header.extend_from_slice(&number.to_ne_bytes());
    }
    header
}

/// A `struct ndmsg`, as bytes.
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

fn rule_request(kind: u16, flags: u16, rule: &Rule) -> MessageWriter {
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
    let number = |n: u32| Some(n.to_ne_bytes());
    let name = |name: &Option<String>| name.as_ref().map(|n| [n.as_bytes(), &[0]].concat());
    let has_mark = rule.fwmask != 0;
    let mut request = request(kind, flags, &header);
    request
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
        .optional(FRA_L3MDEV, rule.l3mdev.then_some([1]))
        .optional(FRA_IP_PROTO, rule.ip_protocol.map(|number| [number]))
        .optional(FRA_SPORT_RANGE, rule.sport.map(port_range))
        .optional(FRA_DPORT_RANGE, rule.dport.map(port_range))
        .optional(FRA_PROTOCOL, Some([rule.protocol]).filter(|_| rule.protocol != 0));
    request
}

/// A `struct fib_rule_port_range`, as bytes.
fn port_range((first, last): (u16, u16)) -> Vec<u8> {
    [first.to_ne_bytes(), last.to_ne_bytes()].concat()
}

fn route_request(kind: u16, flags: u16, route: &Route) -> MessageWriter {
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
    let mut request = request(kind, flags, &header);
    request
        .attribute(RTA_DST, &ip_bytes(route.dst.addr))
        .field(RTA_TABLE, &route.table)
        .field(RTA_PRIORITY, &route.metric)
        .optional(RTA_SRC, route.src.map(|p| ip_bytes(p.addr)))
        .optional(RTA_PREFSRC, route.prefsrc.map(ip_bytes));
    if let Some(mtu) = route.mtu {
        request.nested(RTA_METRICS, |metrics| {
            metrics.field(RTAX_MTU, &mtu);
        });
    }
    let family = route.family();
    match route.next_hops.as_slice() {
        [] => {}
        [hop] => {
            request.field(RTA_OIF, &hop.ifindex);
            put_gateway(&mut request, family, hop);
        }
        hops => {
            let list: Vec<u8> = hops.iter().flat_map(|hop| hop_bytes(family, hop)).collect();
            request.attribute(RTA_MULTIPATH, &list);
        }
    }
    request
}

/// `struct rtnexthop` and its attributes.
fn hop_bytes(family: Family, hop: &NextHop) -> Vec<u8> {
    let hops = u8::try_from(hop.weight.saturating_sub(1)).unwrap_or(u8::MAX);
    let mut attributes = MessageWriter::request(0, 0);
    put_gateway(&mut attributes, family, hop);
    let attributes = attributes.finish();
    let attributes = attributes.get(Header::LEN..).unwrap_or_default();
    // A header and one attribute: the length fits.
    let len = (RTNEXTHOP_LEN + attributes.len()) as u16;
    let [low, high] = len.to_ne_bytes();
    [&[low, high, 0, hops], &hop.ifindex.to_ne_bytes()[..], attributes].concat()
}

fn put_gateway(request: &mut MessageWriter, family: Family, hop: &NextHop) {
    match hop.gateway {
        None => {}
        Some(gateway) if Family::of(gateway) == family => {
            request.attribute(RTA_GATEWAY, &ip_bytes(gateway));
        }
        Some(gateway) => {
            let of = u16::from(family_number(Family::of(gateway))).to_ne_bytes();
            request.attribute(RTA_VIA, &[&of, ip_bytes(gateway).as_slice()].concat());
        }
    }
}
