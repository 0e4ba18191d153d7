//! Netlink messages to model values.
//!
//! Only what the model holds is looked at: attributes, kinds and families that are not known, or
//! that have an unexpected length, are passed over, so that a newer kernel or foreign state never
//! costs a message that can be understood.

use core::net::IpAddr;
use std::sync::Arc;

use netlink::attribute::{as_ip, as_text, as_u32, u16_at, u32_at};
use netlink::{Attributes, Field as _, Header, Messages, flag, kind};

use crate::model::{
    Address, Family, Forwarding, Link, Neighbour, NeighbourState, NextHop, Prefix, Route,
    RouteKind, Rule, RuleAction, Vlan, XfrmInterface,
};
use crate::overlay::overlay;
use crate::seg6;
use crate::uapi::*;

/// Content of a netlink message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A link exists, in this form.
    Link(Link),
    /// The link of this index is gone.
    LinkGone(u32),
    /// An address exists.
    Address(Address),
    /// An address is gone.
    AddressGone(Address),
    /// A rule exists.
    Rule(Rule),
    /// A rule is gone.
    RuleGone(Rule),
    /// A route exists; `replaces` one of its key.
    Route {
        /// The route that is gone or new.
        route: Route,
        /// Another route of the same key was replaced.
        replaces: bool,
    },
    /// A route, or some next hops of an IPv6 route, are gone.
    RouteGone(Route),
    /// A neighbour's entry exists.
    Neighbour(Neighbour),
    /// A neighbour's entry is gone.
    NeighbourGone(Neighbour),
    /// A forwarding entry of an overlay exists.
    Forwarding(Forwarding),
    /// A forwarding entry of an overlay is gone.
    ForwardingGone(Forwarding),
    /// Messages were lost.
    Overrun,
    /// Something that is not in the model.
    Other,
}

/// Messages of one datagram from the kernel.
///
/// Takes arbitrary bytes: ends at the first message that does not fit.
pub fn decode(datagram: &[u8]) -> impl Iterator<Item = Message> + '_ {
    Messages::new(datagram)
        .map(|(header, whole)| read(&header, whole.get(Header::LEN..).unwrap_or_default()))
}

/// Content of a message, by its header and body.
pub(crate) fn read(header: &Header, body: &[u8]) -> Message {
    message(header.kind, header.flags, body).unwrap_or(Message::Other)
}

fn message(kind: u16, flags: u16, payload: &[u8]) -> Option<Message> {
    Some(match kind {
        RTM_NEWLINK => Message::Link(link(payload)?),
        RTM_DELLINK => Message::LinkGone(link_index(payload)?),
        RTM_NEWADDR => Message::Address(address(payload)?),
        RTM_DELADDR => Message::AddressGone(address(payload)?),
        RTM_NEWRULE => Message::Rule(rule(payload)?),
        RTM_DELRULE => Message::RuleGone(rule(payload)?),
        RTM_NEWROUTE => {
            Message::Route { route: route(payload)?, replaces: flags & flag::REPLACE != 0 }
        }
        RTM_DELROUTE => Message::RouteGone(route(payload)?),
        RTM_NEWNEIGH if payload.first() == Some(&AF_BRIDGE) => {
            Message::Forwarding(forwarding(payload)?)
        }
        RTM_DELNEIGH if payload.first() == Some(&AF_BRIDGE) => {
            Message::ForwardingGone(forwarding(payload)?)
        }
        RTM_NEWNEIGH => Message::Neighbour(neighbour(payload)?),
        RTM_DELNEIGH => Message::NeighbourGone(neighbour(payload)?),
        kind::OVERRUN => Message::Overrun,
        _ => return None,
    })
}

fn family(number: u8) -> Option<Family> {
    match number {
        AF_INET => Some(Family::V4),
        AF_INET6 => Some(Family::V6),
        _ => None,
    }
}

/// An address of the family given.
fn ip_of(family: Family, payload: &[u8]) -> Option<IpAddr> {
    as_ip(payload).filter(|addr| Family::of(*addr) == family)
}

fn mac(payload: &[u8]) -> Option<[u8; 6]> {
    payload.try_into().ok()
}

/// Bridges and others send messages of their own families about a link: only those of none say
/// that a link comes or goes.
fn link_index(payload: &[u8]) -> Option<u32> {
    (*payload.first()? == AF_UNSPEC && payload.len() >= IFINFOMSG_LEN).then_some(())?;
    u32_at(payload, 4)
}

fn link(payload: &[u8]) -> Option<Link> {
    let index = link_index(payload)?;
    let is_ethernet = u16_at(payload, 2)? == ARPHRD_ETHER;
    let flags = u32_at(payload, 8)?;
    let (mut name, mut mtu) = (None, None);
    let mut link = Link {
        index,
        up: flags & IFF_UP != 0,
        running: flags & IFF_UP != 0 && flags & IFF_RUNNING != 0,
        loopback: flags & IFF_LOOPBACK != 0,
        ..Link::default()
    };
    for (kind, value) in Attributes::new(payload.get(IFINFOMSG_LEN..)?) {
        match kind {
            IFLA_ADDRESS if is_ethernet => link.mac = mac(value),
            IFLA_IFNAME => name = Some(as_text(value)),
            IFLA_MTU => mtu = as_u32(value),
            IFLA_MASTER => link.master = as_u32(value),
            IFLA_LINK => link.lower = as_u32(value),
            IFLA_HEADROOM => link.headroom = u16_at(value, 0),
            IFLA_LINK_NETNSID => link.is_tied_elsewhere = true,
            IFLA_LINKINFO => {
                let info = Attributes::new(value);
                link.kind = info.find(IFLA_INFO_KIND).map(as_text);
                link.xfrm = match link.kind.as_deref() {
                    Some("xfrm") => xfrm_interface(info.find(IFLA_INFO_DATA).unwrap_or_default()),
                    _ => None,
                };
                link.vlan = match link.kind.as_deref() {
                    Some("vlan") => vlan(info.find(IFLA_INFO_DATA).unwrap_or_default()),
                    _ => None,
                };
                let data = info.find(IFLA_INFO_DATA).unwrap_or_default();
                link.overlay =
                    link.kind.as_deref().and_then(|kind| overlay(kind, data)).map(Box::new);
                link.vrf_table = match link.kind.as_deref() {
                    Some("vrf") => {
                        let data = info.find(IFLA_INFO_DATA).unwrap_or_default();
                        Attributes::new(data).find(IFLA_VRF_TABLE).and_then(as_u32)
                    }
                    _ => None,
                };
            }
            _ => {}
        }
    }
    // Without these it is no description of a link (wireless events are like that).
    link.name = name?;
    link.mtu = mtu?;
    Some(link)
}

/// An XFRM interface, by its attributes.
fn xfrm_interface(data: &[u8]) -> Option<XfrmInterface> {
    let data = Attributes::new(data);
    if data.find(IFLA_XFRM_COLLECT_METADATA).is_some() {
        return Some(XfrmInterface::External);
    }
    let if_id = data.find(IFLA_XFRM_IF_ID).and_then(as_u32)?;
    (if_id != 0).then_some(XfrmInterface::IfId(if_id))
}

/// A VLAN, by its attributes.
fn vlan(data: &[u8]) -> Option<Vlan> {
    let data = Attributes::new(data);
    let tpid = match data.find(IFLA_VLAN_PROTOCOL) {
        Some(value) => u16::from_be_bytes(*value.first_chunk()?),
        // Older kernels have no other.
        None => ETH_P_8021Q,
    };
    let mappings = Attributes::new(data.find(IFLA_VLAN_EGRESS_QOS).unwrap_or_default());
    let mappings = mappings.filter(|(kind, _)| *kind == IFLA_VLAN_QOS_MAPPING);
    let egress_qos = mappings.filter_map(|(_, mapping)| {
        Some((u32_at(mapping, 0)?, u8::try_from(u32_at(mapping, 4)?).ok()? & 7))
    });
    let id = u16_at(data.find(IFLA_VLAN_ID)?, 0)?;
    Some(Vlan { tpid, id, egress_qos: egress_qos.collect() })
}

fn address(payload: &[u8]) -> Option<Address> {
    let family = family(*payload.first()?)?;
    let mut flags = u32::from(*payload.get(2)?);
    let (mut local, mut peer) = (None, None);
    for (kind, value) in Attributes::new(payload.get(IFADDRMSG_LEN..)?) {
        match kind {
            // On point-to-point links this is the peer's; elsewhere both are the same, and IPv6
            // may give only this one.
            IFA_ADDRESS => peer = ip_of(family, value),
            IFA_LOCAL => local = ip_of(family, value),
            IFA_FLAGS => flags = as_u32(value).unwrap_or(flags),
            _ => {}
        }
    }
    let tentative = flags & IFA_F_TENTATIVE != 0 && flags & IFA_F_OPTIMISTIC == 0;
    Some(Address {
        ifindex: u32_at(payload, 4)?,
        addr: local.or(peer)?,
        prefix_len: *payload.get(1)?,
        scope: *payload.get(3)?,
        tentative: tentative || flags & IFA_F_DADFAILED != 0,
        secondary: flags & IFA_F_SECONDARY != 0,
        deprecated: flags & IFA_F_DEPRECATED != 0,
    })
}

fn rule(payload: &[u8]) -> Option<Rule> {
    let family = family(*payload.first()?)?;
    let prefix = |len: u8, addr: Option<IpAddr>| {
        (len != 0).then(|| Prefix { addr: addr.unwrap_or(family.unspecified()), len })
    };
    let flags = u32_at(payload, 8)?;
    let (mut from, mut to) = (None, None);
    let (mut target, mut mask) = (0, None);
    let mut rule = Rule {
        invert: flags & FIB_RULE_INVERT != 0,
        action: RuleAction::Nop,
        // The TOS.
        has_more: *payload.get(3)? != 0,
        ..Rule::new(family, 0, u32::from(*payload.get(4)?))
    };
    for (kind, value) in Attributes::new(payload.get(FIB_RULE_HDR_LEN..)?) {
        match kind {
            FRA_DST => to = ip_of(family, value),
            FRA_SRC => from = ip_of(family, value),
            FRA_IIFNAME => rule.iif = Some(as_text(value)),
            FRA_OIFNAME => rule.oif = Some(as_text(value)),
            FRA_GOTO => target = as_u32(value)?,
            FRA_PRIORITY => rule.priority = as_u32(value)?,
            FRA_FWMARK => rule.fwmark = as_u32(value)?,
            FRA_FWMASK => mask = as_u32(value),
            FRA_TABLE => rule.table = as_u32(value)?,
            // All ones: no suppression.
            FRA_SUPPRESS_PREFIXLEN => {
                rule.suppress_prefix_len = as_u32(value).filter(|n| *n != u32::MAX);
            }
            FRA_SUPPRESS_IFGROUP => rule.has_more |= as_u32(value) != Some(u32::MAX),
            FRA_TUN_ID => rule.has_more |= value.iter().any(|b| *b != 0),
            FRA_L3MDEV => rule.l3mdev = value.first().is_some_and(|is| *is != 0),
            FRA_IP_PROTO => rule.ip_protocol = value.first().copied(),
            FRA_SPORT_RANGE => rule.sport = Some(ports(value)?),
            FRA_DPORT_RANGE => rule.dport = Some(ports(value)?),
            // A single port has all bits.
            FRA_SPORT_MASK | FRA_DPORT_MASK => rule.has_more |= u16_at(value, 0) != Some(u16::MAX),
            FRA_PROTOCOL => rule.protocol = *value.first()?,
            // What does not select.
            FRA_PAD | FRA_FLOW => {}
            // Users, and whatever kernels to come may add.
            _ => rule.has_more = true,
        }
    }
    rule.from = prefix(*payload.get(2)?, from);
    rule.to = prefix(*payload.get(1)?, to);
    rule.fwmask = mask.unwrap_or(if rule.fwmark == 0 { 0 } else { u32::MAX });
    rule.action = match *payload.get(7)? {
        FR_ACT_TO_TBL => RuleAction::Lookup,
        FR_ACT_GOTO => RuleAction::Goto(target),
        FR_ACT_NOP => RuleAction::Nop,
        FR_ACT_BLACKHOLE => RuleAction::Blackhole,
        FR_ACT_UNREACHABLE => RuleAction::Unreachable,
        FR_ACT_PROHIBIT => RuleAction::Prohibit,
        other => RuleAction::Other(other),
    };
    Some(rule)
}

/// A range of ports (`struct fib_rule_port_range`).
fn ports(value: &[u8]) -> Option<(u16, u16)> {
    Some((u16_at(value, 0)?, u16_at(value, 2)?))
}

fn route(payload: &[u8]) -> Option<Route> {
    let family = family(*payload.first()?)?;
    let flags = u32_at(payload, 8)?;
    if flags & RTM_F_CLONED != 0 {
        // An entry of the cache, no route.
        return None;
    }
    let src_len = *payload.get(2)?;
    let (mut oif, mut gateway, mut hops) = (None, None, Vec::new());
    let (mut encap_kind, mut encap) = (None, None);
    let mut src = None;
    let mut route = Route {
        dst: Prefix { addr: family.unspecified(), len: *payload.get(1)? },
        src: None,
        table: u32::from(*payload.get(4)?),
        kind: route_kind(*payload.get(7)?),
        metric: 0,
        tos: *payload.get(3)?,
        next_hops: Vec::new(),
        prefsrc: None,
        mtu: None,
        scope: *payload.get(6)?,
        protocol: *payload.get(5)?,
        has_encap: false,
    };
    for (kind, value) in Attributes::new(payload.get(RTMSG_LEN..)?) {
        match kind {
            RTA_DST => route.dst.addr = ip_of(family, value)?,
            RTA_SRC => src = ip_of(family, value),
            RTA_OIF => oif = as_u32(value),
            RTA_GATEWAY => gateway = ip_of(family, value),
            RTA_VIA => gateway = via(value),
            RTA_PRIORITY => route.metric = as_u32(value)?,
            RTA_PREFSRC => route.prefsrc = ip_of(family, value),
            RTA_METRICS => {
                route.mtu = Attributes::new(value).find(RTAX_MTU).and_then(as_u32);
            }
            RTA_MULTIPATH => {
                let (list, has_encap) = next_hops(family, value);
                hops = list;
                route.has_encap |= has_encap;
            }
            RTA_TABLE => route.table = as_u32(value)?,
            RTA_ENCAP_TYPE => encap_kind = Some(value),
            RTA_ENCAP => encap = Some(value),
            _ => {}
        }
    }
    let encap = seg6::encap(encap_kind, encap);
    route.has_encap |= encap.is_some();
    if hops.is_empty() && (oif.is_some() || gateway.is_some()) {
        // A single next hop has its flags in the route's.
        let low = (flags & 0xff) as u8;
        hops.push(NextHop {
            encap: encap.map(Arc::new),
            ..next_hop(oif.unwrap_or(0), gateway, 1, low)
        });
    }
    route.next_hops = hops;
    route.src =
        (src_len != 0).then(|| Prefix { addr: src.unwrap_or(family.unspecified()), len: src_len });
    Some(route)
}

fn next_hop(ifindex: u32, gateway: Option<IpAddr>, weight: u16, flags: u8) -> NextHop {
    NextHop {
        ifindex,
        gateway,
        weight,
        dead: flags & RTNH_F_DEAD != 0,
        link_down: flags & RTNH_F_LINKDOWN != 0,
        encap: None,
    }
}

/// The list in `RTA_MULTIPATH`, and whether any of them encapsulates.
fn next_hops(family: Family, payload: &[u8]) -> (Vec<NextHop>, bool) {
    let mut rest = payload;
    let mut list = Vec::new();
    let mut has_encap = false;
    while let (Some(len), Some(&[flags, hops]), Some(ifindex)) =
        (u16_at(rest, 0), rest.get(2..4).and_then(|b| b.first_chunk::<2>()), u32_at(rest, 4))
    {
        let len = usize::from(len);
        let Some(attributes) = rest.get(RTNEXTHOP_LEN..len) else { break };
        let attributes = Attributes::new(attributes);
        let encap = seg6::encap(attributes.find(RTA_ENCAP_TYPE), attributes.find(RTA_ENCAP));
        has_encap |= encap.is_some();
        let gateway = attributes.find(RTA_GATEWAY).and_then(|value| ip_of(family, value));
        let gateway = gateway.or_else(|| attributes.find(RTA_VIA).and_then(via));
        list.push(NextHop {
            encap: encap.map(Arc::new),
            ..next_hop(ifindex, gateway, u16::from(hops) + 1, flags)
        });
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    (list, has_encap)
}

/// `struct rtvia`: a gateway of any family.
fn via(payload: &[u8]) -> Option<IpAddr> {
    let family = family(u8::try_from(u16_at(payload, 0)?).ok()?)?;
    ip_of(family, payload.get(2..)?)
}

fn route_kind(number: u8) -> RouteKind {
    match number {
        RTN_UNICAST => RouteKind::Unicast,
        RTN_LOCAL => RouteKind::Local,
        RTN_BROADCAST => RouteKind::Broadcast,
        RTN_ANYCAST => RouteKind::Anycast,
        RTN_MULTICAST => RouteKind::Multicast,
        RTN_BLACKHOLE => RouteKind::Blackhole,
        RTN_UNREACHABLE => RouteKind::Unreachable,
        RTN_PROHIBIT => RouteKind::Prohibit,
        RTN_THROW => RouteKind::Throw,
        other => RouteKind::Other(other),
    }
}

fn neighbour(payload: &[u8]) -> Option<Neighbour> {
    let family = family(*payload.first()?)?;
    let flags = *payload.get(10)?;
    if flags & NTF_PROXY != 0 {
        // What this host answers for, not a neighbour.
        return None;
    }
    let attributes = Attributes::new(payload.get(NDMSG_LEN..)?);
    let mac = attributes.find(NDA_LLADDR).and_then(mac);
    let state = u16_at(payload, 8)?;
    // What Linux derives by itself (multicast, broadcast, loopback, links without addresses) comes
    // and goes without notification, and nobody needs to look it up.
    let is_assigned = mac.is_some_and(|mac| mac[0] & 1 == 0 && mac != [0; 6]);
    if state == NUD_NOARP && !is_assigned {
        return None;
    }
    Some(Neighbour {
        ifindex: u32_at(payload, 4)?,
        ip: attributes.find(NDA_DST).and_then(|value| ip_of(family, value))?,
        mac,
        state: match state {
            NUD_INCOMPLETE => NeighbourState::Incomplete,
            NUD_REACHABLE => NeighbourState::Reachable,
            NUD_STALE => NeighbourState::Stale,
            NUD_DELAY => NeighbourState::Delay,
            NUD_PROBE => NeighbourState::Probe,
            NUD_FAILED => NeighbourState::Failed,
            NUD_NOARP => NeighbourState::NoArp,
            NUD_PERMANENT => NeighbourState::Permanent,
            _ => NeighbourState::None,
        },
        router: flags & NTF_ROUTER != 0,
        far_end: attributes.find(NDA_LLADDR).and_then(as_ip),
    })
}

/// A forwarding entry of an overlay. Those of bridges have no far end.
fn forwarding(payload: &[u8]) -> Option<Forwarding> {
    let attributes = Attributes::new(payload.get(NDMSG_LEN..)?);
    let find = |kind| attributes.find(kind);
    Some(Forwarding {
        ifindex: u32_at(payload, 4)?,
        mac: find(NDA_LLADDR).and_then(mac)?,
        far_end: find(NDA_DST).and_then(as_ip)?,
        via: find(NDA_IFINDEX).and_then(as_u32),
        has_more: [NDA_PORT, NDA_VNI, NDA_NH_ID].iter().any(|kind| find(*kind).is_some()),
    })
}
