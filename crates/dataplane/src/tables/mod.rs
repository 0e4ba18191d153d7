//! Tables that the control thread publishes for workers: routes, neighbours, interfaces.

pub(crate) mod applications;
pub(crate) mod links;
pub(crate) mod mark_rule;
pub(crate) mod overlays;
pub(crate) mod path_ends;
pub(crate) mod rate_rules;
pub(crate) mod remark;
pub(crate) mod replication;
pub(crate) mod segments;
pub(crate) mod steering;
pub(crate) mod traffic;
pub(crate) mod tunnel;
pub(crate) mod vlan;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use conntrack::Bindings;
use esp::Sa;
use forward::{Fib, Neighbours, PathMtus, RouteResult, SourceCheck};
use policy::{Marks, Prefix};
use wire::ethernet::MacAddr;
use wire::{Family, Fragment, Headers, Summary, protocol};

use crate::gtpu::Services;
use crate::model::LOOPBACK;
use crate::tables::applications::Applications;
use crate::tables::links::Links;
use crate::tables::mark_rule::MarkRule;
use crate::tables::overlays::Overlays;
use crate::tables::path_ends::PathEnds;
use crate::tables::rate_rules::RateRules;
use crate::tables::steering::Steering;
use crate::tables::tunnel::{Binding, Tunnels};
use crate::tables::vlan::Vlans;
use segments::{Function, Onward, Segments};
use srv6::Next;

/// Facts about an interface that a worker needs.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Where its port stands in the worker, if culvert has taken it over; the slot of a VLAN.
    pub port: Option<usize>,
    /// Ethernet address of the interface.
    pub mac: MacAddr,
    /// MTU in bytes, of IP packets.
    pub mtu: u32,
    /// True if packets can be sent.
    pub up: bool,
    /// The tag by which Linux takes packets back as received by it; through the private interface,
    /// and as received by that, where there is none.
    pub back: Option<u16>,
    /// How the sources of IPv4 packets that come in by it are checked.
    pub source_check: SourceCheck,
    /// Of a tunnel interface of culvert's what is routed to it is protected by.
    pub binding: Option<Binding>,
    /// An IPv4 address of it, for ICMP errors.
    pub addr4: Option<Ipv4Addr>,
    /// An IPv6 address of it, global if there is one.
    pub addr6: Option<Ipv6Addr>,
}

impl Interface {
    /// Address of the interface in a family.
    pub fn addr(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::V4 => self.addr4.map(IpAddr::V4),
            Family::V6 => self.addr6.map(IpAddr::V6),
        }
    }
}

/// A UDP socket in place of an interface: Linux routes what leaves by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketWay {
    /// By which index the interfaces have it.
    pub ifindex: u32,
    /// Where it is bound: its own address, or any of the family.
    pub local: IpAddr,
}

/// Routes and interfaces at one moment.
#[derive(Default)]
pub struct Topology {
    /// Routes and rules, without culvert's own table.
    pub fib: Fib,
    /// Interfaces by index.
    pub interfaces: HashMap<u32, Interface, ahash::RandomState>,
    /// The VLANs of ports.
    pub vlans: Arc<Vlans>,
    /// Tunnel interfaces that are up.
    pub tunnels: Tunnels,
    /// Rules for the marks of packets that arrive at a port; mostly none.
    pub mark_rules: Vec<MarkRule>,
    /// The tags by which Linux takes decrypted packets with a mark.
    pub marks: HashMap<Marks, u16, ahash::RandomState>,
    /// Addresses whose GTP-U is applications'; mostly none.
    pub gtpu: Services,
    /// Tags by which Linux takes a packet back as received by an interface, with the mark of an uplink; mostly none.
    pub uplink_tags: HashMap<(u32, u32), u16, ahash::RandomState>,
    /// Applications that flows are told apart by; mostly none.
    pub applications: Option<Arc<Applications>>,
    /// Ends of paths that are measured; mostly none.
    pub path_ends: Arc<PathEnds>,
    /// True if a worker has sessions of BFD, whose packets it takes.
    pub takes_bfd: bool,
    /// Which rate limits packets are under; mostly none.
    pub rate_rules: Arc<RateRules>,
    /// Routes with segments (SRv6); mostly none.
    pub segments: Segments,
    /// Overlays that are carried out here; mostly none.
    pub overlays: Overlays,
    /// True if the MSS of TCP connections through SAs is clamped to the path
    /// (`path_mtu.clamp_mss`).
    pub clamps_mss: bool,
    /// Prefixes to which nothing leaves in clear unless a policy lets it pass.
    pub guarded: Vec<Prefix>,
    /// UDP sockets that protected packets leave by where the way leads by an interface that is Linux's alone; mostly
    /// none.
    pub sockets: Vec<SocketWay>,
    /// Every address of this host.
    pub local: HashSet<IpAddr, ahash::RandomState>,
}

/// The worker that has the sessions of BFD: it sends their packets and takes those of peers.
pub(crate) const BFD_HOME: usize = 0;

/// State that the control thread writes, and workers read.
///
/// Each part is replaced as a whole; a worker sees the old one or the new one.
#[derive(Default)]
pub struct Tables {
    /// Routes and interfaces.
    pub topology: ArcSwap<Topology>,
    /// Neighbours of all interfaces.
    pub neighbours: ArcSwap<Neighbours>,
    /// Path MTUs that routers reported.
    pub path_mtus: ArcSwap<PathMtus>,
    /// Which traffic takes which path. [`Tables::steer`] replaces it.
    pub steering: ArcSwap<Steering>,
    /// Connections that Linux tracks, where its NAT is learnt. Set before there are workers; it changes in place.
    pub nat: Option<Arc<Bindings>>,
    /// Reports between the two SAs of each pair of IP-TFS mode. The workers' own.
    pub links: Links,
}

/// Longest packet on the path of an outbound SA, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaMtu {
    /// The longest outer packet.
    pub outer: usize,
    /// The longest packet that fits once it is sealed; in transport mode one without options or
    /// extension headers.
    pub inner: usize,
    /// True if a router reported it.
    pub is_learnt: bool,
}

impl Tables {
    /// Longest packet on the path of an SA, by the present tables. `None` if they lead to no
    /// interface, as those of inbound SAs do.
    pub fn sa_mtu(&self, sa: &Sa) -> Option<SaMtu> {
        let (topology, params) = (self.topology.load(), sa.params());
        let route = topology.fib.lookup(params.dst, params.src, 0, LOOPBACK);
        let RouteResult::Unicast { ifindex, mtu, .. } = route else { return None };
        let interface = topology.interfaces.get(&ifindex)?;
        let link = mtu.unwrap_or(interface.mtu).min(interface.mtu) as usize;
        let outer = self.path_mtus.load().of(params.dst, link);
        Some(SaMtu { outer, inner: sa.max_inner_len(outer), is_learnt: outer < link })
    }

    /// Replaces the rules of path selection. Of the same rules and paths, only flows of a rule that answers otherwise are decided
    /// anew. By one thread alone.
    pub fn steer(&self, steering: Steering) {
        let old = self.steering.load();
        self.steering.store(Arc::new(steering.in_place_of(&old)));
    }
}

impl Topology {
    /// True for a packet that is BFD for a session of a worker's, perhaps.
    pub(crate) fn may_be_bfd(&self, h: &Headers) -> bool {
        self.takes_bfd
            && h.protocol == protocol::UDP
            && h.fragment == Fragment::Whole
            && matches!(h.dst_port, bfd::SINGLE_HOP_PORT | bfd::MULTI_HOP_PORT | bfd::ECHO_PORT)
    }

    /// True for the index of an interface that packets leave by here: a port, a tunnel interface, or an overlay.
    pub fn leaves_by(&self, ifindex: u32) -> bool {
        let own = |it: &Interface| it.binding.is_some() || it.port.is_some();
        self.interfaces.get(&ifindex).is_some_and(own) || self.overlays.link(ifindex).is_some()
    }

    /// True if UDP to this port of ours may be ESP in UDP.
    pub fn is_natt_port(&self, port: u16) -> bool {
        port == wire::natt::PORT
    }

    /// True if slots stand for headends, or for far ends of overlays.
    pub(crate) fn has_functions(&self) -> bool {
        !self.segments.is_empty() || !self.overlays.is_empty()
    }

    /// The slot of a headend, or of a far end of an overlay, by its index.
    pub(crate) fn function_slot(&self, index: u32) -> Option<u16> {
        self.segments.slot(index).or_else(|| self.overlays.slot(index))
    }

    /// The socket that packets from this address leave by.
    pub(crate) fn socket_of(&self, src: IpAddr) -> Option<u32> {
        let is_for = |way: &&SocketWay| {
            way.local == src || way.local.is_unspecified() && way.local.is_ipv4() == src.is_ipv4()
        };
        self.sockets.iter().find(is_for).map(|way| way.ifindex)
    }

    /// The interface by which a packet between these addresses leaves this host; none if it is for this
    /// host, or goes nowhere.
    pub fn way_out(&self, src: IpAddr, dst: IpAddr) -> Option<u32> {
        match self.fib.lookup(dst, src, 0, LOOPBACK) {
            RouteResult::Unicast { ifindex, .. } => Some(ifindex),
            _ => None,
        }
    }

    /// The address that an ICMP error comes from: the interface's, or else another port's.
    pub(crate) fn reporter(&self, ifindex: u32, family: Family) -> Option<IpAddr> {
        let own = self.interfaces.get(&ifindex).and_then(|interface| interface.addr(family));
        own.or_else(|| {
            // The lowest index, so that it is always the same.
            let others = self.interfaces.iter().filter(|(_, interface)| interface.port.is_some());
            let addressed = others.filter_map(|(i, interface)| Some((*i, interface.addr(family)?)));
            addressed.min_by_key(|(i, _)| *i).map(|(_, addr)| addr)
        })
    }

    /// True if an address is one of this host.
    pub fn is_local_addr(&self, addr: IpAddr) -> bool {
        self.local.contains(&addr)
    }

    /// The mark of a packet by the rules, 0 where none matches it.
    #[cold]
    pub(crate) fn mark(&self, ifindex: u32, summary: &Summary) -> u32 {
        let rule = self.mark_rules.iter().find(|rule| rule.matches(ifindex, summary));
        rule.map_or(0, |rule| rule.mark)
    }

    /// Where a packet goes on that left a step, as its segment says; none if as the rules say.
    pub(crate) fn lookup_stepped(&self, index: u32, dst: IpAddr, src: IpAddr) -> Option<Onward> {
        let route = self.segments.get(index)?;
        let Function::Sid(sid) = &route.function else { return None };
        match sid.next() {
            Next::Lookup | Next::Interface(_) => None,
            Next::Table(table) => Some(Onward::Route(self.fib.lookup_in(table, dst, src))),
            Next::Via(via) => Some(Onward::Via { via, ifindex: route.ifindex }),
        }
    }
}
