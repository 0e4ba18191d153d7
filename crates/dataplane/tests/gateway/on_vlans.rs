//! VLANs of ports in place of the ports of a [`Gateway`](crate::support::Gateway).

use std::sync::Arc;

use dataplane::{FIRST_VLAN_SLOT, Interface, Remark, Topology, Vlan, VlanCounters, Vlans};
use wire::{EtherType, MacAddr, VlanTags};

use crate::support::{LAN, WAN};

/// The VLANs that stand for the LAN and the WAN.
pub struct OnVlans {
    pub lan: VlanTags,
    pub wan: VlanTags,
    /// Counters of the LAN's and the WAN's VLAN.
    pub counters: [Arc<VlanCounters>; 2],
    /// The DSCPs that what comes by the LAN's and the WAN's gets.
    pub remarks: [Option<Remark>; 2],
}

impl OnVlans {
    /// One tag on the LAN, two on the WAN.
    pub fn new() -> OnVlans {
        let lan = VlanTags::NONE.with(EtherType::VLAN, 200).expect("a VLAN");
        let outer = VlanTags::NONE.with(EtherType::SERVICE_VLAN, 7).expect("a VLAN");
        let wan = outer.with(EtherType::VLAN, 100).expect("a VLAN");
        OnVlans { lan, wan, counters: Default::default(), remarks: [None; 2] }
    }

    /// Puts ports below the interfaces, with other addresses.
    pub fn add_to(&self, topology: &mut Topology) {
        let mut vlans = Vlans::default();
        let both = [(LAN, self.lan), (WAN, self.wan)].into_iter().zip(&self.counters);
        for ((n, ((ifindex, tags), counters)), remark) in both.enumerate().zip(self.remarks) {
            let upper = topology.interfaces.get_mut(&ifindex).expect("an interface");
            let slot = FIRST_VLAN_SLOT + 3 * n;
            let port = upper.port.replace(slot).expect("a port");
            let lower = Interface { port: Some(port), mac: PORT_MAC, ..upper.clone() };
            let (lower, mac) = (Interface { addr4: None, addr6: None, ..lower }, upper.mac);
            topology.interfaces.insert(below(ifindex), lower);
            vlans.add(
                slot,
                Vlan {
                    ifindex,
                    port: below(ifindex),
                    port_slot: port,
                    tags,
                    macs: [mac].into_iter().collect(),
                    priorities: tags.iter().map(|_| std::array::from_fn(priority_of)).collect(),
                    remark,
                    counters: Arc::clone(counters),
                },
            );
            if let Some(Remark { dscps, .. }) = remark {
                vlans.add_port(below(ifindex), dscps);
            }
        }
        topology.vlans = Arc::new(vlans);
    }
}

/// The address of ports that have VLANs.
pub const PORT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xee]);

/// The priority of packets with this DSCP.
pub fn priority_of(dscp: usize) -> u8 {
    (dscp >> 3) as u8
}

/// The interface of a port that a VLAN lies on.
pub fn below(ifindex: u32) -> u32 {
    ifindex + 20
}

/// A frame with tags, each of priority 5.
pub fn tagged(tags: VlanTags, frame: &[u8]) -> Vec<u8> {
    if frame.len() < 14 {
        return frame.to_vec();
    }
    let tags = tags
        .iter()
        .flat_map(|tag| [tag.tpid.0.to_be_bytes(), (tag.tci | 5 << 13).to_be_bytes()].concat());
    frame[..12].iter().copied().chain(tags).chain(frame[12..].iter().copied()).collect()
}

/// A frame without its tags, which are these, with the priority of its DSCP.
pub fn untagged(tags: VlanTags, frame: &[u8]) -> Vec<u8> {
    let header = wire::EthernetHeader::parse(frame).expect("a frame");
    assert_eq!(VlanTags::of(&header), tags);
    let frame = [&frame[..12], &frame[header.payload_offset - 2..]].concat();
    let traffic_class = match frame[14] >> 4 {
        4 => frame[15],
        _ => frame[14] << 4 | frame[15] >> 4,
    };
    let expected = u16::from(priority_of(usize::from(traffic_class >> 2)));
    assert!(header.tags.iter().flatten().all(|tag| tag.tci >> 13 == expected));
    frame
}
