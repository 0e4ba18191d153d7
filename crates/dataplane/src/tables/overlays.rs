//! Overlays: far ends that packets are sent to, and interfaces that what was inside comes in by.
//!
//! ```text
//!   route to an overlay's interface ── a slot as of a port ── encapsulate ── between ── classify ─ flows ─> ...
//!   to this host, named by its headers ── decapsulate ── between ── classify ─ flows ─> ...
//!                                             └─ unknown, or for this host ─> Linux, with its headers
//! ```
//!
//! In the FIB a route leads to the interface that Linux has (`ip link add type gre`). Which far end packets go to hangs on
//! the next hop where the interface has several. A packet that has got headers is a packet of this host, which came in by
//! the index of its far end; what was inside is one that came in by the interface.

use core::net::IpAddr;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use overlay::{Arrived, Encap, Id, Inner, PortKind, Session};
use wire::{Family, Headers, MacAddr, protocol};

use crate::model::{
    FIRST_OVERLAYS, FIRST_OVERLAYS_SLOT, INSIDE, Ingress, MAX_OVERLAYS, Made, Meta, overlay_of,
    was_inside,
};

/// A far end of an overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarEnd {
    /// Index of the overlay's interface.
    pub ifindex: u32,
    /// Next hop that it stands behind. `None`: all packets that are routed to the interface go there.
    pub hop: Option<IpAddr>,
    /// Headers that packets get.
    pub encap: Encap,
}

/// An overlay's interface, as packets come in by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayLink {
    /// Index of the interface.
    pub ifindex: u32,
    /// Name that packets have of it.
    pub id: Id,
    /// Address that its packets are sent to. `None`: any of this host.
    pub local: Option<IpAddr>,
    /// Address that its packets come from. `None`: any.
    pub remote: Option<IpAddr>,
    /// Station of this host, where Ethernet frames are inside.
    pub mac: Option<MacAddr>,
    /// Stations that Linux knows, and the far ends where they are. Frames of others go to Linux, which learns them.
    /// `None` where nothing is learnt.
    pub stations: Option<HashSet<(MacAddr, IpAddr), ahash::RandomState>>,
    /// True if GRE packets have checksums, and false if they have none.
    pub has_checksum: Option<bool>,
    /// True if UDP over IPv6 may come without a checksum (RFC 6935).
    pub takes_zero_checksum6: bool,
    /// Session of L2TPv3, as packets to this host name it.
    pub session: Option<Session>,
}

/// Far ends and interfaces by their numbers, and how they are found.
#[derive(Debug, Default)]
struct Table {
    far_ends: Vec<Option<FarEnd>>,
    hops: HashMap<(u32, Option<IpAddr>), usize, ahash::RandomState>,
    links: Vec<Option<OverlayLink>>,
    /// Of their addresses first that of this host, then that of the far end.
    ids: HashMap<(Id, Option<IpAddr>, Option<IpAddr>), usize, ahash::RandomState>,
    /// UDP ports of this host, and what comes there.
    ports: Vec<(u16, PortKind)>,
    has_gre: bool,
    has_l2tp: bool,
}

/// Overlays that the data path carries out; mostly none.
#[derive(Clone, Debug, Default)]
pub struct Overlays(Arc<Table>);

impl Overlays {
    /// With these far ends and interfaces, in the places of their numbers.
    pub fn new(
        far_ends: impl IntoIterator<Item = Option<FarEnd>>,
        links: impl IntoIterator<Item = Option<OverlayLink>>,
    ) -> Overlays {
        let mut table = Table {
            far_ends: far_ends.into_iter().take(MAX_OVERLAYS).collect(),
            links: links.into_iter().take(MAX_OVERLAYS).collect(),
            ..Table::default()
        };
        let far_ends = table.far_ends.iter().enumerate();
        table.hops = far_ends
            .filter_map(|(at, end)| end.as_ref().map(|end| ((end.ifindex, end.hop), at)))
            .collect();
        let links = || table.links.iter().enumerate().filter_map(|(at, l)| Some((at, l.as_ref()?)));
        table.ids = links().map(|(at, link)| ((link.id, link.local, link.remote), at)).collect();
        let ports = links().filter_map(|(_, link)| match link.id {
            Id::Vxlan { port, .. } => Some((port, PortKind::Vxlan)),
            Id::Geneve { port, .. } => Some((port, PortKind::Geneve)),
            Id::L2tp { port, .. } => Some((port?, PortKind::L2tp)),
            Id::Gre { .. } => None,
        });
        table.ports = ports.collect();
        table.ports.sort_unstable_by_key(|(port, _)| *port);
        table.ports.dedup();
        table.has_gre = links().any(|(_, link)| matches!(link.id, Id::Gre { .. }));
        table.has_l2tp = links().any(|(_, link)| matches!(link.id, Id::L2tp { port: None, .. }));
        Overlays(Arc::new(table))
    }

    /// True if there are no overlays.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.far_ends.is_empty() && self.0.links.is_empty()
    }

    /// The index of the far end that packets to a next hop on an interface go to.
    pub(crate) fn towards(&self, ifindex: u32, hop: IpAddr) -> Option<u32> {
        let hops = &self.0.hops;
        let at = hops.get(&(ifindex, None)).or_else(|| hops.get(&(ifindex, Some(hop))))?;
        Some(FIRST_OVERLAYS | *at as u32)
    }

    /// True if an interface is one of an overlay that is carried out here.
    pub fn has_interface(&self, ifindex: u32) -> bool {
        self.index_inside(ifindex).is_some()
    }

    /// The index by which what was inside of an interface's packets comes in.
    pub(crate) fn index_inside(&self, ifindex: u32) -> Option<u32> {
        let is_it =
            |link: &Option<OverlayLink>| link.as_ref().is_some_and(|l| l.ifindex == ifindex);
        self.0.links.iter().position(is_it).map(inside_index)
    }

    /// The far end that an index stands for.
    pub(crate) fn far_end(&self, index: u32) -> Option<&FarEnd> {
        let at = overlay_of(index).filter(|_| !was_inside(index))?;
        self.0.far_ends.get(at)?.as_ref()
    }

    /// The interface that what was inside came in by, by the index that it came in with.
    pub(crate) fn link(&self, index: u32) -> Option<&OverlayLink> {
        let at = overlay_of(index).filter(|_| was_inside(index))?;
        self.0.links.get(at)?.as_ref()
    }

    /// The slot to which packets for a far end are sent.
    pub(crate) fn slot(&self, index: u32) -> Option<u16> {
        self.far_end(index)?;
        u16::try_from(overlay_of(index)? + FIRST_OVERLAYS_SLOT).ok()
    }

    /// The far end that has made a packet, if all that it makes of one family are one flow: with UDP they are as many as
    /// flows inside.
    pub(crate) fn made(&self, meta: &Meta) -> Option<Made> {
        let index = meta.ingress.ifindex;
        let end = self.far_end(index)?;
        let is_one = end.encap.udp().is_none() && meta.ingress == Ingress::of_port(index);
        // Whatever is inside, the outer headers are the same.
        is_one.then_some(Made { number: overlay_of(index)?, inner: Family::V4 })
    }

    /// True if packets to this host with such headers may be an overlay's.
    pub(crate) fn may_be(&self, h: &Headers) -> bool {
        match h.protocol {
            overlay::GRE_PROTOCOL => self.0.has_gre,
            overlay::L2TP_PROTOCOL => self.0.has_l2tp,
            protocol::UDP => self.kind(h.dst_port).is_some(),
            _ => false,
        }
    }

    /// Kind of tunnels at a UDP port of this host.
    pub(crate) fn kind(&self, port: u16) -> Option<PortKind> {
        // A handful.
        self.0.ports.iter().find(|(known, _)| *known == port).map(|(_, kind)| *kind)
    }

    /// The interface that a packet names, the one that says most of its ends; with the packet's index inside, and where
    /// the packet inside begins.
    pub(crate) fn inside(&self, packet: &[u8], h: &Headers) -> Option<(u32, &OverlayLink, usize)> {
        let arrived = overlay::look(packet, h, |port| self.kind(port)).ok()?;
        let ends =
            [(Some(h.dst), Some(h.src)), (Some(h.dst), None), (None, Some(h.src)), (None, None)];
        let at = ends
            .into_iter()
            .find_map(|(local, remote)| self.0.ids.get(&(arrived.id, local, remote)).copied())?;
        let link = self.0.links.get(at)?.as_ref()?;
        let Arrived { cut, inner, has_checksum, .. } = match &link.session {
            Some(session) => arrived.of_session(packet, session).ok()?,
            None => arrived,
        };
        if link.has_checksum.is_some_and(|has| has != has_checksum) {
            return None;
        }
        // Linux drops it, and counts it at its socket.
        let is_udp6 = h.protocol == protocol::UDP && h.src.is_ipv6();
        if is_udp6 && !has_checksum && !link.takes_zero_checksum6 {
            return None;
        }
        if let Inner::Frame { dst, src } = inner? {
            let is_known = |stations: &HashSet<_, _>| stations.contains(&(src, h.src));
            if Some(dst) != link.mac || !link.stations.as_ref().is_none_or(is_known) {
                return None;
            }
        }
        Some((inside_index(at), link, cut))
    }
}

/// The index by which what was inside comes in, of the interface with a number.
const fn inside_index(at: usize) -> u32 {
    FIRST_OVERLAYS | INSIDE | at as u32
}

impl FarEnd {
    /// Headers that packets get, as policy sees them.
    pub(crate) fn outer_headers(&self) -> Headers {
        let outer = self.encap.outer();
        let (src_port, dst_port) = self.encap.ports(0);
        Headers {
            src: outer.src,
            dst: outer.dst,
            protocol: self.encap.protocol(),
            ttl: 64,
            traffic_class: 0,
            dont_fragment: true,
            fragment: wire::Fragment::Whole,
            header_len: self.encap.outer_len() as u16,
            total_len: wire::ipv6::MIN_MTU,
            src_port,
            dst_port,
        }
    }
}
