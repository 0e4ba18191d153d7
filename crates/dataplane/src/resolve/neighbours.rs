//! The next hop of packets as bytes, where its neighbour is known.

use forward::Resolution;
use wire::ethernet::{EtherType, HEADER_LEN, emit_untagged};
use wire::{Family, MacAddr};

use crate::model::{Adjacency, NextHop, is_function, keeping_dei};
use crate::view::View;

/// The port and the Ethernet header towards a next hop, for packets of a family; none unless
/// the neighbour is known and Linux has no doubts about it.
pub(crate) fn adjacency(view: &View, to: NextHop, family: Family) -> Option<Adjacency> {
    if is_function(to.ifindex) {
        let slot = view.topology.function_slot(to.ifindex)?;
        return Some(Adjacency { slot, header: [0; HEADER_LEN] });
    }
    let Resolution::Resolved { mac, confirm: false } = view.neighbours.resolve(to.ifindex, to.addr)
    else {
        return None;
    };
    let mut adjacency = adjacency_to(view, to.ifindex, mac, family)?;
    if to.keeps_dei {
        adjacency.slot = keeping_dei(adjacency.slot.into()) as u16;
    }
    Some(adjacency)
}

/// The port of an interface that is up, and the Ethernet header towards a station.
pub(crate) fn adjacency_to(
    view: &View,
    ifindex: u32,
    mac: MacAddr,
    family: Family,
) -> Option<Adjacency> {
    let interface = view.topology.interfaces.get(&ifindex).filter(|i| i.up)?;
    let ether_type = match family {
        Family::V4 => EtherType::IPV4,
        Family::V6 => EtherType::IPV6,
    };
    let mut header = [0; HEADER_LEN];
    emit_untagged(&mut header, mac, interface.mac, ether_type).ok()?;
    Some(Adjacency { slot: u16::try_from(interface.port?).ok()?, header })
}
