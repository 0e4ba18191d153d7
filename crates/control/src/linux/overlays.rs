//! Overlays: Linux's interfaces (`ip link add ... type gre`, `vxlan`, `geneve`; `ip l2tp`) as workers have them.
//!
//! Those that the configuration names are carried out here, with the far ends that their addresses, neighbours and
//! forwarding entries say. What is not understood is Linux's alone, and a row says why.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dataplane::{FarEnd, MAX_OVERLAYS, OverlayLink, Overlays};
use forward::{Fib, RouteResult};
use mirror::{Change, Link, Overlay, OverlayDf, OverlayKind, RouteKind, Snapshot};
use overlay::{
    Class, Cookie, DontFragment, EcnMode, Encap, Id, Macs, Outer, Ports, Session, Shape, Ttl, Udp,
};
use wire::MacAddr;

use config::{L2SpecType, OverlayConfig};
use report::OverlayRow;

/// Overlay interfaces of Linux, and those among them that are carried out here.
#[derive(Default)]
pub struct OverlayLinks {
    config: OverlayConfig,
    /// True if overlays are the kernel's whatever they are named: its own IPsec protects beside the fast path.
    is_beside_kernel: bool,
    far_ends: Vec<Option<FarEnd>>,
    links: Vec<Option<OverlayLink>>,
    /// Destinations that lead to one of them, whose packets ports have to take.
    prefixes: BTreeSet<(IpAddr, u8)>,
    told: BTreeSet<(IpAddr, u8)>,
    rows: Vec<OverlayRow>,
    /// UDP source ports of this host, as Linux has them.
    ports: Ports,
}

/// Packets in clear of overlays that ports take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverlayTraffic {
    /// UDP ports of this host.
    pub ports: BTreeSet<u16>,
    /// True if GRE is taken.
    pub gre: bool,
    /// True if L2TPv3 over IP is taken.
    pub l2tp: bool,
}

impl OverlayLinks {
    /// By the configuration.
    pub fn of_config(config: &OverlayConfig, is_beside_kernel: bool) -> OverlayLinks {
        let ports = local_ports().unwrap_or(Ports { from: 32768, below: 60999 });
        OverlayLinks { config: config.clone(), is_beside_kernel, ports, ..OverlayLinks::default() }
    }

    /// True if changes may concern an overlay.
    pub fn are_concerned(&self, changes: &[Change], snapshot: &Snapshot) -> bool {
        let is_overlay = |ifindex| snapshot.link(ifindex).is_some_and(|l| l.overlay.is_some());
        changes.iter().any(|change| match change {
            Change::Link(link) | Change::LinkRemoved(link) => {
                link.overlay.is_some() || !self.rows.is_empty()
            }
            Change::Neighbour(n) | Change::NeighbourRemoved(n) => is_overlay(n.ifindex),
            Change::Forwarding(_) | Change::ForwardingRemoved(_) => true,
            // By routes and addresses sources are chosen.
            _ => !self.rows.is_empty(),
        })
    }

    /// Takes all of them in anew. True if workers need to be told.
    pub fn take_in(&mut self, snapshot: &Snapshot, fib: &Fib) -> bool {
        let (mut far_ends, mut links) = (Vec::new(), Vec::new());
        self.rows.clear();
        let mut carried = BTreeSet::new();
        for link in snapshot.links() {
            let Some(settings) = &link.overlay else { continue };
            let mut row = row(link, settings);
            match self.carry(snapshot, fib, link, settings) {
                Ok((ends, here)) => {
                    row.far_ends = ends.len();
                    row.carried = true;
                    far_ends.extend(ends);
                    links.push(here);
                    carried.insert(link.index);
                }
                Err(why) => row.why = why,
            }
            self.rows.push(row);
        }
        self.prefixes = prefixes(snapshot, &carried);
        let ends =
            renumber(&self.far_ends, far_ends, |a, b| (a.ifindex, a.hop) == (b.ifindex, b.hop));
        let links = renumber(&self.links, links, |a, b| a.ifindex == b.ifindex);
        let has_changed = ends != self.far_ends || links != self.links;
        (self.far_ends, self.links) = (ends, links);
        has_changed
    }

    /// Far ends and the interface of an overlay.
    ///
    /// # Errors
    /// It is Linux's alone, and why.
    fn carry(
        &self,
        snapshot: &Snapshot,
        fib: &Fib,
        link: &Link,
        settings: &Overlay,
    ) -> Result<(Vec<FarEnd>, OverlayLink), String> {
        if !self.config.names(&link.name) {
            return Err("overlay.interfaces does not name it".into());
        }
        if self.is_beside_kernel {
            return Err("overlays stay with the kernel while its own IPsec protects".into());
        }
        if !link.up {
            return Err("it is down".into());
        }
        if link.is_tied_elsewhere {
            return Err("its outer packets belong to another network namespace".into());
        }
        if let Some(master) = link.master {
            let name = snapshot.link(master).map_or("another interface", |master| &master.name);
            return Err(format!(
                "it belongs to {name}: frames of bridges and packets of VRFs are Linux's"
            ));
        }
        if let Some(more) = settings.more {
            return Err(format!("its setting {more} is Linux's alone"));
        }
        let maker = Maker {
            snapshot,
            fib,
            link,
            settings,
            ports: self.ports,
            l2spec_type: self.config.l2spec_type,
        };
        if settings.session.is_some() && maker.sessions().is_none() {
            return Err("Linux does not tell whether its packets have the sublayer: say it with \
                        overlay.l2spec_type"
                .into());
        }
        let ends = maker.far_ends();
        if ends.is_empty()
            && let Some(remote) = settings.remote
            && maker.way(remote, None).is_none()
        {
            return Err(format!("no route leads to its far end {remote} by its device"));
        }
        Ok((ends, maker.inside()))
    }

    /// The overlays, as workers read them.
    pub fn overlays(&self) -> Overlays {
        Overlays::new(self.far_ends.iter().cloned(), self.links.iter().cloned())
    }

    /// All of them as people read it.
    pub fn rows(&self) -> &[OverlayRow] {
        &self.rows
    }

    /// Named interfaces that are Linux's all the same, for people.
    pub fn warnings(&self, snapshot: &Snapshot) -> Vec<String> {
        let left = self.rows.iter().filter(|row| !row.carried && self.config.names(&row.interface));
        let left = left.map(|row| {
            let OverlayRow { interface, why, .. } = row;
            format!("overlay {interface}: Linux carries it out, not the fast path: {why}")
        });
        let is_no_overlay = |name: &&String| {
            let found = snapshot.link_by_name(name);
            !name.ends_with('*') && found.is_none_or(|link| link.overlay.is_none())
        };
        let missing = self.config.interfaces.iter().filter(is_no_overlay).map(|name| {
            format!(
                "overlay.interfaces = {name:?}: there is no such interface of kind gre, gretap, ip6gre, ip6gretap, vxlan or \
                 geneve, or with Ethernet in L2TPv3"
            )
        });
        left.chain(missing).collect()
    }

    /// Packets in clear that ports take.
    pub fn traffic(&self) -> OverlayTraffic {
        let ids = || self.links.iter().flatten().map(|link| link.id);
        let ports = ids().filter_map(|id| match id {
            Id::Vxlan { port, .. } | Id::Geneve { port, .. } => Some(port),
            Id::L2tp { port, .. } => port,
            Id::Gre { .. } => None,
        });
        OverlayTraffic {
            ports: ports.collect(),
            gre: ids().any(|id| matches!(id, Id::Gre { .. })),
            l2tp: ids().any(|id| matches!(id, Id::L2tp { port: None, .. })),
        }
    }

    /// The destinations whose packets ports take.
    pub fn prefixes(&self) -> impl Iterator<Item = steer::Prefix> {
        self.prefixes.iter().filter_map(|(addr, len)| steer::Prefix::new(*addr, *len))
    }

    /// True if the prefixes have changed since the last call.
    pub fn have_prefixes_changed(&mut self) -> bool {
        let has_changed = self.told != self.prefixes;
        if has_changed {
            self.told.clone_from(&self.prefixes);
        }
        has_changed
    }
}

/// Maker of an overlay's far ends.
struct Maker<'m> {
    snapshot: &'m Snapshot,
    fib: &'m Fib,
    link: &'m Link,
    settings: &'m Overlay,
    ports: Ports,
    /// Sublayer of sessions that Linux does not tell of.
    l2spec_type: Option<L2SpecType>,
}

impl Maker<'_> {
    /// True around Ethernet frames.
    fn has_frames(&self) -> bool {
        !self.settings.is_ip_inside
    }

    /// All far ends that are known.
    fn far_ends(&self) -> Vec<FarEnd> {
        if !self.has_frames() {
            if let Some(remote) = self.settings.remote {
                return self.far_end(None, remote, None, None).into_iter().collect();
            }
            // As of DMVPN's hubs: each neighbour is behind a far end of its own.
            let behind = self.snapshot.neighbours_on(self.link.index);
            let usable = behind.filter(|n| n.state.is_usable());
            return usable
                .filter_map(|n| self.far_end(Some(n.ip), n.far_end?, None, None))
                .collect();
        }
        let neighbours = self.snapshot.neighbours_on(self.link.index);
        let usable = neighbours.filter(|n| n.state.is_usable());
        let ends = usable.filter_map(|n| {
            let mac = n.mac?;
            let (remote, via) = match self.settings.kind {
                OverlayKind::Vxlan => self.behind(mac)?,
                _ => (self.settings.remote?, None),
            };
            self.far_end(Some(n.ip), remote, via, Some(MacAddr(mac)))
        });
        ends.collect()
    }

    /// The far end that a station is behind, by the forwarding entries: its own, or that of all that have none if it is
    /// one alone. A frame for several far ends is Linux's.
    fn behind(&self, mac: [u8; 6]) -> Option<(IpAddr, Option<u32>)> {
        let of = |mac: [u8; 6]| {
            self.snapshot.forwarding_of(self.link.index).filter(move |entry| entry.mac == mac)
        };
        let own = of(mac).next().is_some();
        let mut entries = of(if own { mac } else { [0; 6] });
        let entry = entries.next().filter(|entry| !entry.has_more)?;
        let is_one = entries.next().is_none() && !entry.far_end.is_multicast();
        is_one.then_some((entry.far_end, entry.via))
    }

    /// The source address of packets to a far end, if a route leads there by the interface's device.
    fn way(&self, remote: IpAddr, via: Option<u32>) -> Option<IpAddr> {
        let any: IpAddr = match remote {
            // Sources that no rule is about.
            IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
            IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        };
        let from = self.settings.local.unwrap_or(any);
        if from.is_ipv4() != remote.is_ipv4() {
            return None;
        }
        let RouteResult::Unicast { ifindex, src, .. } = self.fib.lookup(remote, from, 0, LOOPBACK)
        else {
            return None;
        };
        let device = via.or(self.link.lower).filter(|device| *device != 0);
        if device.is_some_and(|device| device != ifindex) {
            return None;
        }
        let mut on = self.snapshot.addresses_of(ifindex).filter(|a| !a.tentative).map(|a| a.addr);
        let is_global = |addr: &IpAddr| match addr {
            IpAddr::V4(_) => remote.is_ipv4(),
            IpAddr::V6(addr) => remote.is_ipv6() && !addr.is_unicast_link_local(),
        };
        self.settings.local.or(src).or_else(|| on.find(is_global))
    }

    fn far_end(
        &self,
        hop: Option<IpAddr>,
        remote: IpAddr,
        via: Option<u32>,
        station: Option<MacAddr>,
    ) -> Option<FarEnd> {
        let settings = self.settings;
        let outer = Outer {
            src: self.way(remote, via)?,
            dst: remote,
            class: settings.class.map_or(Class::Inherit, Class::Fixed),
            ttl: match settings.ttl {
                None => Ttl::Inherit,
                Some(0) => Ttl::Fixed(DEFAULT_TTL),
                Some(ttl) => Ttl::Fixed(ttl),
            },
            dont_fragment: match settings.df {
                OverlayDf::Unset => DontFragment::Unset,
                OverlayDf::Set => DontFragment::Set,
                OverlayDf::Inherit => DontFragment::Inherit,
            },
            encap_limit: settings.encap_limit.filter(|_| remote.is_ipv6()),
            // Linux does not look at those marks of L2TP when it decapsulates (RFC 9601 §6.1.1).
            ecn: match settings.kind {
                OverlayKind::L2tp => EcnMode::Compatibility,
                _ => EcnMode::Normal,
            },
        };
        let frame = match (station, self.link.mac) {
            (Some(dst), Some(src)) => Some(Macs { dst, src: MacAddr(src) }),
            _ => None,
        };
        let udp_ports = settings.session.as_ref().and_then(|session| session.ports);
        let udp = || Udp {
            src: match udp_ports {
                Some((own, _)) => Ports { from: own, below: own },
                None => settings.ports.map_or(self.ports, |(from, below)| Ports { from, below }),
            },
            dst: udp_ports.map_or(settings.port, |(_, far)| far),
            has_checksum: match remote {
                IpAddr::V4(_) => settings.has_udp_checksum,
                IpAddr::V6(_) => !settings.has_zero_checksum6,
            },
        };
        let shape = match settings.kind {
            OverlayKind::Gre | OverlayKind::Gretap => {
                Shape::Gre { key: settings.okey, has_checksum: settings.has_ocsum, frame }
            }
            OverlayKind::Vxlan => Shape::Vxlan { vni: settings.vni, udp: udp(), frame: frame? },
            OverlayKind::Geneve => Shape::Geneve { vni: settings.vni, udp: udp(), frame },
            OverlayKind::L2tp => Shape::L2tp {
                session: self.sessions()?.1,
                udp: udp_ports.is_some().then(udp),
                frame: frame?,
            },
        };
        // Frames have stations.
        if self.has_frames() != frame.is_some() {
            return None;
        }
        let encap = Encap::new(outer, &shape).ok()?;
        Some(FarEnd { ifindex: self.link.index, hop, encap })
    }

    /// Of L2TPv3: the session in packets to this host, and in those to the far end.
    fn sessions(&self) -> Option<(Session, Session)> {
        let session = self.settings.session.as_ref()?;
        let configured = self.l2spec_type.map(|kind| kind == L2SpecType::Default);
        let has_sublayer = session.has_sublayer.or(configured)?;
        let of =
            |id, cookie: &[u8]| Some(Session { id, cookie: Cookie::new(cookie)?, has_sublayer });
        // Each end names its own number, and the cookie that it sends.
        Some((of(session.id, &session.peer_cookie)?, of(session.peer_id, &session.cookie)?))
    }

    /// The interface, as what was inside comes in by it.
    fn inside(&self) -> OverlayLink {
        let (settings, is_frame) = (self.settings, self.has_frames());
        let is_gre = matches!(settings.kind, OverlayKind::Gre | OverlayKind::Gretap);
        let stations = self.snapshot.forwarding_of(self.link.index).filter(|e| e.mac != [0; 6]);
        let (port, vni) = (settings.port, settings.vni);
        let session = self.sessions().map(|(here, _)| here);
        let own_port = settings.session.as_ref().and_then(|session| session.ports).map(|p| p.0);
        OverlayLink {
            ifindex: self.link.index,
            id: match settings.kind {
                OverlayKind::Gre | OverlayKind::Gretap => Id::Gre { key: settings.ikey, is_frame },
                OverlayKind::Vxlan => Id::Vxlan { port, vni },
                OverlayKind::Geneve => Id::Geneve { port, vni, is_frame },
                OverlayKind::L2tp => {
                    Id::L2tp { port: own_port, session: session.map_or(0, |here| here.id) }
                }
            },
            local: settings.local.filter(|_| is_gre || session.is_some()),
            // Of VXLAN from all far ends.
            remote: settings.remote.filter(|_| settings.kind != OverlayKind::Vxlan),
            mac: self.link.mac.filter(|_| is_frame).map(MacAddr),
            stations: settings
                .learns
                .then(|| stations.map(|entry| (MacAddr(entry.mac), entry.far_end)).collect()),
            has_checksum: is_gre.then_some(settings.has_icsum),
            takes_zero_checksum6: settings.takes_zero_checksum6,
            session,
        }
    }
}

/// The destinations of routes that lead to these interfaces.
fn prefixes(snapshot: &Snapshot, carried: &BTreeSet<u32>) -> BTreeSet<(IpAddr, u8)> {
    if carried.is_empty() {
        return BTreeSet::new();
    }
    let routes = snapshot.routes().filter(|route| {
        let leads_there = route.next_hops.iter().any(|hop| carried.contains(&hop.ifindex));
        // Of a link alone: not to be routed.
        let is_of_link = match route.dst.addr {
            IpAddr::V4(_) => false,
            IpAddr::V6(addr) => addr.is_unicast_link_local() || addr.is_multicast(),
        };
        route.kind == RouteKind::Unicast && leads_there && !is_of_link
    });
    routes.map(|route| (route.dst.addr, route.dst.len)).collect()
}

/// The new ones, of which those that were there keep their places.
fn renumber<T: Clone>(
    old: &[Option<T>],
    new: Vec<T>,
    is_same: impl Fn(&T, &T) -> bool,
) -> Vec<Option<T>> {
    let mut places: Vec<Option<T>> = vec![None; old.len()];
    let mut rest = Vec::new();
    for one in new {
        let was = |place: &Option<T>| place.as_ref().is_some_and(|was| is_same(was, &one));
        match old.iter().position(was).and_then(|at| places.get_mut(at)) {
            Some(place @ None) => *place = Some(one),
            _ => rest.push(one),
        }
    }
    let mut free = 0;
    for one in rest {
        while places.get(free).is_some_and(Option::is_some) {
            free += 1;
        }
        match places.get_mut(free) {
            Some(place) => *place = Some(one),
            None if free < MAX_OVERLAYS => places.push(Some(one)),
            // The rest are Linux's alone.
            None => break,
        }
    }
    while places.last().is_some_and(Option::is_none) {
        places.pop();
    }
    places
}

/// An overlay as people read it.
fn row(link: &Link, settings: &Overlay) -> OverlayRow {
    let text =
        |addr: Option<IpAddr>| addr.map_or_else(|| "any".to_owned(), |addr| addr.to_string());
    let key = |key: Option<u32>| key.map_or_else(|| "none".to_owned(), |key| key.to_string());
    OverlayRow {
        interface: link.name.clone(),
        kind: match settings.kind {
            OverlayKind::L2tp => "l2tp".into(),
            _ => link.kind.clone().unwrap_or_default(),
        },
        local: text(settings.local),
        remote: text(settings.remote),
        id: match settings.kind {
            OverlayKind::Gre | OverlayKind::Gretap if settings.ikey == settings.okey => {
                format!("key {}", key(settings.ikey))
            }
            OverlayKind::Gre | OverlayKind::Gretap => {
                format!("key {} in, {} out", key(settings.ikey), key(settings.okey))
            }
            OverlayKind::Vxlan | OverlayKind::Geneve => {
                format!("vni {} port {}", settings.vni, settings.port)
            }
            OverlayKind::L2tp => {
                let session = settings.session.clone().unwrap_or_default();
                let by = session.ports.map_or_else(
                    || "over IP".to_owned(),
                    |(own, far)| format!("port {own} in, {far} out"),
                );
                format!("session {} in, {} out, {by}", session.id, session.peer_id)
            }
        },
        mtu: link.mtu,
        far_ends: 0,
        carried: false,
        why: String::new(),
    }
}

/// Linux's range of ports for flows, as it spreads those of tunnels.
fn local_ports() -> Option<Ports> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut words = text.split_whitespace().map(str::parse);
    let (from, below) = (words.next()?.ok()?, words.next()?.ok()?);
    Some(Ports { from, below })
}

/// Linux's default of `net.ipv4.ip_default_ttl` and `net.ipv6.conf.all.hop_limit`.
const DEFAULT_TTL: u8 = 64;

/// The loopback's index.
const LOOPBACK: u32 = 1;

#[cfg(test)]
mod tests {
    use forward::{Hop, RouteEntry, RouteKind as Kind, Routes, RuleEntry, Subnet, table};
    use mirror::{Address, Forwarding, Neighbour, NeighbourState};

    use super::*;

    const WAN: u32 = 2;
    const OVERLAY: u32 = 9;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn link(index: u32, name: &str, overlay: Option<Overlay>) -> Link {
        Link {
            index,
            name: name.into(),
            mac: Some([2, 0, 0, 0, 0, index as u8]),
            mtu: 1450,
            up: true,
            running: true,
            overlay: overlay.map(Box::new),
            ..Link::default()
        }
    }

    fn settings(kind: OverlayKind) -> Overlay {
        Overlay {
            kind,
            local: Some(ip("192.0.2.1")),
            remote: None,
            ikey: None,
            okey: None,
            has_icsum: false,
            has_ocsum: false,
            vni: 42,
            port: 4789,
            ports: None,
            has_udp_checksum: false,
            has_zero_checksum6: false,
            takes_zero_checksum6: false,
            ttl: Some(0),
            class: Some(0),
            df: OverlayDf::Set,
            encap_limit: None,
            learns: true,
            is_ip_inside: kind == OverlayKind::Gre,
            session: None,
            more: None,
        }
    }

    fn neighbour(host: u8, far_end: Option<&str>) -> Change {
        Change::Neighbour(Neighbour {
            ifindex: OVERLAY,
            ip: [10, 9, 0, host].into(),
            mac: far_end.is_none().then_some([2, 0, 0, 9, 0, host]),
            state: NeighbourState::Stale,
            router: false,
            far_end: far_end.map(ip),
        })
    }

    fn entry(host: u8, far_end: &str, via: Option<u32>) -> Change {
        let mac = if host == 0 { [0; 6] } else { [2, 0, 0, 9, 0, host] };
        Change::Forwarding(Forwarding {
            ifindex: OVERLAY,
            mac,
            far_end: ip(far_end),
            via,
            has_more: false,
        })
    }

    /// One overlay, the WAN, and changes beside.
    fn snapshot(overlay: Link, more: Vec<Change>) -> Snapshot {
        let address = Address {
            ifindex: WAN,
            addr: ip("192.0.2.1"),
            prefix_len: 24,
            scope: 0,
            tentative: false,
            secondary: false,
            deprecated: false,
        };
        let links = [Change::Link(link(WAN, "wan", None)), Change::Link(overlay)];
        links.into_iter().chain([Change::Address(address)]).chain(more).collect()
    }

    fn fib() -> Fib {
        let dst = Subnet { addr: ip("192.0.2.0"), len: 24 };
        let hops = vec![Hop { ifindex: WAN, gateway: None, weight: 1 }];
        let (kind, mtu, src) = (Kind::Unicast, None, None);
        let route = RouteEntry { table: table::MAIN, dst, kind, priority: 0, hops, mtu, src };
        Routes::new(vec![route], RuleEntry::defaults(), None).fib()
    }

    fn taken(snapshot: &Snapshot) -> OverlayLinks {
        let config = OverlayConfig { interfaces: vec!["ov*".into()], l2spec_type: None };
        let mut links = OverlayLinks::of_config(&config, false);
        links.take_in(snapshot, &fib());
        links
    }

    fn far_ends(links: &OverlayLinks) -> Vec<(Option<IpAddr>, IpAddr)> {
        links.far_ends.iter().flatten().map(|end| (end.hop, end.encap.outer().dst)).collect()
    }

    #[test]
    fn why_linux_carries_an_overlay_is_said() {
        let gre = Overlay { remote: Some(ip("192.0.2.2")), ..settings(OverlayKind::Gre) };
        let with = |change: &dyn Fn(&mut Link)| {
            let mut overlay = link(OVERLAY, "ov1", Some(gre.clone()));
            change(&mut overlay);
            let links = taken(&snapshot(overlay, Vec::new()));
            (links.rows[0].carried, links.rows[0].why.clone())
        };
        assert_eq!(with(&|_| ()), (true, String::new()));
        let more = |link: &mut Link, change: &dyn Fn(&mut Overlay)| {
            change(link.overlay.as_deref_mut().expect("one"));
        };
        for (change, why) in [
            (&(|l: &mut Link| l.name = "gre7".into()) as &dyn Fn(&mut Link), "does not name it"),
            (&|l| l.up = false, "it is down"),
            (&|l| l.is_tied_elsewhere = true, "another network namespace"),
            (&|l| l.master = Some(WAN), "it belongs to wan"),
            (&|l| more(l, &|o| o.more = Some("seq")), "its setting seq"),
            (
                &|l| more(l, &|o| o.remote = Some(ip("203.0.113.9"))),
                "no route leads to its far end",
            ),
            (&|l| l.lower = Some(77), "by its device"),
        ] {
            let (carried, said) = with(change);
            assert!(!carried && said.contains(why), "{said}");
        }
    }

    #[test]
    fn a_hub_has_a_far_end_for_each_neighbour() {
        let spokes = vec![neighbour(2, Some("192.0.2.2")), neighbour(3, Some("192.0.2.3"))];
        let overlay = link(OVERLAY, "ov1", Some(settings(OverlayKind::Gre)));
        let mut links = taken(&snapshot(overlay.clone(), spokes));
        let (two, three) = (Some(ip("10.9.0.2")), Some(ip("10.9.0.3")));
        assert_eq!(far_ends(&links), [(two, ip("192.0.2.2")), (three, ip("192.0.2.3"))]);
        // Those that stay keep their numbers.
        let later = vec![neighbour(3, Some("192.0.2.3")), neighbour(4, Some("192.0.2.4"))];
        assert!(links.take_in(&snapshot(overlay.clone(), later.clone()), &fib()));
        let four = Some(ip("10.9.0.4"));
        assert_eq!(far_ends(&links), [(four, ip("192.0.2.4")), (three, ip("192.0.2.3"))]);
        assert!(!links.take_in(&snapshot(overlay, later), &fib()), "nothing is new");
    }

    #[test]
    fn stations_are_behind_the_far_ends_of_forwarding_entries() {
        let overlay = || link(OVERLAY, "ov1", Some(settings(OverlayKind::Vxlan)));
        let of = |more: Vec<Change>| far_ends(&taken(&snapshot(overlay(), more)));
        let known = || vec![neighbour(2, None), neighbour(3, None)];
        assert_eq!(of(known()), [], "nobody says where they are");
        let by = |entries: Vec<Change>| of(known().into_iter().chain(entries).collect());
        let (two, three) = (Some(ip("10.9.0.2")), Some(ip("10.9.0.3")));
        // One of its own, and that of all others.
        let both = by(vec![entry(2, "192.0.2.2", None), entry(0, "192.0.2.9", Some(WAN))]);
        assert_eq!(both, [(two, ip("192.0.2.2")), (three, ip("192.0.2.9"))]);
        // To several at once, to a group, and by another device: Linux's.
        let several = by(vec![entry(0, "192.0.2.8", None), entry(0, "192.0.2.9", None)]);
        assert_eq!(several, []);
        assert_eq!(by(vec![entry(0, "239.1.1.1", None)]), []);
        assert_eq!(by(vec![entry(2, "192.0.2.2", Some(77))]), []);
        let links = taken(&snapshot(overlay(), vec![entry(2, "192.0.2.2", None)]));
        let here = links.links[0].as_ref().expect("carried");
        let station = (MacAddr([2, 0, 0, 9, 0, 2]), ip("192.0.2.2"));
        assert_eq!(here.stations.as_ref().map(|all| all.contains(&station)), Some(true));
        assert_eq!(
            links.traffic(),
            OverlayTraffic { ports: [4789].into(), ..OverlayTraffic::default() }
        );
    }

    #[test]
    fn a_session_of_l2tp_needs_its_sublayer_told() {
        let session = |ports, has_sublayer| Overlay {
            remote: Some(ip("192.0.2.2")),
            session: Some(mirror::L2tpSession {
                id: 11,
                peer_id: 12,
                cookie: vec![2; 8],
                peer_cookie: vec![1; 4],
                ports,
                has_sublayer,
            }),
            ..settings(OverlayKind::L2tp)
        };
        let taken = |overlay: Overlay, l2spec_type| {
            let snapshot = snapshot(link(OVERLAY, "ov1", Some(overlay)), vec![neighbour(2, None)]);
            let config = OverlayConfig { interfaces: vec!["ov1".into()], l2spec_type };
            let mut links = OverlayLinks::of_config(&config, false);
            links.take_in(&snapshot, &fib());
            links
        };
        let untold = taken(session(None, None), None);
        assert!(untold.rows[0].why.contains("overlay.l2spec_type"), "{}", untold.rows[0].why);
        // IPv4 20, session 4, cookie 8, Ethernet 14; UDP 8 and the version's 4; the sublayer 4.
        for (ports, told, by_file, overhead) in [
            (None, Some(false), Some(L2SpecType::Default), 46),
            (None, None, Some(L2SpecType::None), 46),
            (None, None, Some(L2SpecType::Default), 50),
            (Some((1701, 1702)), Some(true), None, 62),
        ] {
            let links = taken(session(ports, told), by_file);
            let end = links.far_ends[0].as_ref().expect("a far end");
            assert_eq!(end.encap.overhead(), overhead);
            assert_eq!(end.encap.ports(7), ports.unwrap_or_default());
            let here = links.links[0].as_ref().expect("carried");
            let port = ports.map(|(own, _)| own);
            assert_eq!(here.id, Id::L2tp { port, session: 11 });
            let cookie = here.session.map(|here| here.cookie);
            assert_eq!(cookie, Cookie::new(&[1; 4]));
            let traffic = links.traffic();
            assert_eq!(
                (traffic.l2tp, traffic.ports.contains(&1701)),
                (port.is_none(), port.is_some())
            );
        }
    }
}
