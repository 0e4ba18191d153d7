//! Packets for this host that may be an overlay's: each says by its headers of which.
//!
//! Linux has the same interfaces, and gets, with the headers on it, all that is not carried out here: what names no
//! interface that is known, what is not understood, and what is inside for this host itself or for several: so local
//! programs and routing daemons see their packets come in by the interface, and Linux learns where stations are.

use core::net::IpAddr;

use esp::EcnDecap;
use io::Packet;
use wire::{Headers, protocol};

use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::model::{Decapsulate, Fate, Meta};
use crate::out::AnyOut;
use crate::tables::Topology;

impl Rare for Decapsulate {
    type Kept = ();

    fn holds<'k>(&'k self, (): &'k (), _asked: &Subject<'_>) -> Held<'k> {
        Held::Yes
    }

    #[inline(never)]
    fn apply(
        &self,
        (): &mut (),
        hands: &mut Hands<'_>,
        mut packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        let (topology, out) = (&hands.view.topology, &mut *hands.out);
        let Some(found) = find(topology, packet.data()) else {
            out.counters.work.overlay_left.add(1);
            return Some(Next { action: self.0.action(), packet, fields: None });
        };
        let InsideOverlay { index, cut, outer_class, inner_class } = found;
        let ecn = match EcnDecap::Rfc6040.combine(inner_class, outer_class) {
            Ok(ecn) => ecn,
            Err(reason) => {
                out.drop(packet, reason);
                return None;
            }
        };
        let class = inner_class & !wire::ECN_MASK | ecn;
        packet.span.start += cut;
        packet.span.len -= cut;
        if class != inner_class {
            wire::set_traffic_class(packet.data_mut(), class);
        }
        out.counters.work.overlay_decapsulated.add(1);
        out.between.push(packet, meta.ingress.within(index));
        None
    }

    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::Decapsulated
    }
}

/// A packet of an overlay that is carried out here.
struct InsideOverlay {
    /// Index by which what is inside comes in.
    index: u32,
    /// Where it begins.
    cut: usize,
    outer_class: u8,
    inner_class: u8,
}

/// The overlay that a packet names, if what is inside goes on here.
fn find(topology: &Topology, packet: &[u8]) -> Option<InsideOverlay> {
    let outer = wire::parse_ip(packet).ok()?;
    let (index, _, cut) = topology.overlays.inside(packet, &outer)?;
    let inner = wire::parse_ip(packet.get(cut..)?).ok()?;
    let goes_on = match topology.is_local_addr(inner.dst) {
        true => is_opened_here(topology, &inner),
        false => is_for_one(inner.dst),
    };
    goes_on.then_some(InsideOverlay {
        index,
        cut,
        outer_class: outer.traffic_class,
        inner_class: inner.traffic_class,
    })
}

/// True if a packet inside for this host is one that the data path may open, or hear.
fn is_opened_here(topology: &Topology, h: &Headers) -> bool {
    match h.protocol {
        protocol::ESP | protocol::AH => true,
        protocol::UDP if topology.is_natt_port(h.dst_port) => true,
        protocol::UDP if topology.may_be_bfd(h) => true,
        _ if topology.path_ends.may_take_in_clear(h) => true,
        _ => topology.overlays.may_be(h),
    }
}

/// True for the address of one host that routers forward to.
fn is_for_one(dst: IpAddr) -> bool {
    match dst {
        IpAddr::V4(dst) => {
            !dst.is_multicast() && !dst.is_broadcast() && !dst.is_link_local() && !dst.is_loopback()
        }
        IpAddr::V6(dst) => {
            !dst.is_multicast() && !dst.is_unicast_link_local() && !dst.is_loopback()
        }
    }
}
