//! The VLANs of ports: Linux's devices (`ip link add type vlan`) that lie on a port, or on one of these.
//!
//! Each is an interface with addresses, routes and neighbours of its own, which the mirror knows. Here is which
//! tags its frames have on which port, and the numbers by which workers, the steering programs and the way back
//! to Linux know it. What is not taken stays with Linux: its frames pass the port's program.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::VlanConfig;
use dataplane::{CodePoints, FIRST_VLAN_SLOT, Priorities, Remark, Vlan, VlanCounters};
use mirror::{Link, Snapshot};
use steer::back::TAGS;
use tracing::warn;
use wire::{EtherType, MacAddr, VlanTags};

use crate::vlan_priorities;

/// The most VLANs of all ports together.
pub const MAX_VLANS: usize = 1024;

/// The tag of the first VLAN on the way back to Linux; those of ports and marks are below.
pub const FIRST_TAG: u16 = TAGS - MAX_VLANS as u16;

/// Interfaces between a VLAN and its port.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    name: String,
    port: u32,
    port_slot: usize,
    tags: VlanTags,
    /// Of the device on the port, and of the one on that.
    macs: Vec<MacAddr>,
    priorities: Vec<Priorities>,
    remark: Option<Remark>,
}

/// A VLAN that was met.
struct Entry {
    number: usize,
    counters: Arc<VlanCounters>,
    /// Where it is; none while it is Linux's.
    place: Option<Place>,
    /// Which frames it has counted.
    identity: (u32, VlanTags),
}

/// The VLANs of all ports.
#[derive(Default)]
pub struct Vlans {
    /// VLANs by the index of their interface.
    entries: BTreeMap<u32, Entry>,
    /// Where the search for a free number begins: one that was used lately may still be in a packet.
    next: usize,
    /// Code points for the ports' own packets, by priority.
    of_ports: BTreeMap<u32, CodePoints>,
    table: Arc<dataplane::Vlans>,
    is_full_told: bool,
}

/// A VLAN that is taken.
pub struct Taken<'v> {
    /// Index of its interface.
    pub ifindex: u32,
    /// Index of the port's interface.
    pub port: u32,
    /// The tags of its frames.
    pub tags: VlanTags,
    /// Tag of its packets on the way back to Linux.
    pub back: u16,
    /// Name of its interface.
    pub name: &'v str,
}

/// A VLAN as the operator sees it.
pub struct VlanState<'s> {
    /// Interface of the VLAN.
    pub link: &'s Link,
    /// The interface at the bottom.
    pub port: &'s str,
    /// VLAN identifiers, the outermost first.
    pub ids: Vec<u16>,
    /// `up`, or why it is Linux's.
    pub state: String,
    /// Where its priorities are not Linux's.
    pub priorities: &'static str,
    /// Counts of its frames.
    pub stats: dataplane::VlanStats,
}

impl Vlans {
    /// Follows Linux's devices. `port_slot` tells the slot of a port that works. True if another set of them is
    /// taken now, or in another way.
    pub fn follow(
        &mut self,
        snapshot: &Snapshot,
        config: &[VlanConfig],
        port_slot: impl Fn(u32) -> Option<usize>,
    ) -> bool {
        let here = |index: &u32, _: &mut Entry| snapshot.link(*index).is_some();
        let before = self.entries.len();
        self.entries.retain(here);
        let mut has_changed = before != self.entries.len();
        for link in snapshot.links().filter(|link| link.vlan.is_some()) {
            let place = place(snapshot, config, link, &port_slot);
            has_changed |= self.put(link, place);
        }
        let ports = snapshot.links().filter(|link| port_slot(link.index).is_some());
        let of_port = |link: &Link| Some((link.index, vlan_priorities::of_port(config, link)?));
        let of_ports = ports.filter_map(of_port).collect();
        has_changed |= of_ports != self.of_ports;
        self.of_ports = of_ports;
        if has_changed {
            self.table = Arc::new(self.make_table());
        }
        has_changed
    }

    /// Notes where a device is; true if that is news.
    fn put(&mut self, link: &Link, place: Option<Place>) -> bool {
        let identity = place.as_ref().map(|place| (place.port, place.tags));
        if let Some(entry) = self.entries.get_mut(&link.index)
            && identity.is_none_or(|identity| identity == entry.identity)
        {
            let is_news = entry.place != place;
            entry.place = place;
            return is_news;
        }
        let Some(identity) = identity else { return false };
        self.entries.remove(&link.index);
        let Some(number) = self.free_number() else {
            if !self.is_full_told {
                warn!(vlan = link.name, "more than {MAX_VLANS} VLANs: the rest is left to Linux");
                self.is_full_told = true;
            }
            return false;
        };
        self.next = number + 1;
        let entry = Entry { number, counters: Arc::default(), place, identity };
        self.entries.insert(link.index, entry);
        true
    }

    fn free_number(&self) -> Option<usize> {
        let used: std::collections::HashSet<usize> =
            self.entries.values().map(|entry| entry.number).collect();
        let numbers = (0..MAX_VLANS).map(|n| (self.next + n) % MAX_VLANS);
        numbers.into_iter().find(|number| !used.contains(number))
    }

    fn make_table(&self) -> dataplane::Vlans {
        let mut table = dataplane::Vlans::default();
        for (ifindex, entry) in &self.entries {
            let Some(place) = &entry.place else { continue };
            let vlan = Vlan {
                ifindex: *ifindex,
                port: place.port,
                port_slot: place.port_slot,
                tags: place.tags,
                macs: place.macs.iter().copied().collect(),
                priorities: place.priorities.iter().copied().collect(),
                remark: place.remark,
                counters: Arc::clone(&entry.counters),
            };
            table.add(FIRST_VLAN_SLOT + entry.number, vlan);
        }
        self.of_ports.iter().for_each(|(port, dscps)| table.add_port(*port, *dscps));
        table
    }

    /// As workers read them.
    pub fn table(&self) -> Arc<dataplane::Vlans> {
        Arc::clone(&self.table)
    }

    /// The workers' slot for packets that leave by a VLAN.
    pub fn slot(&self, ifindex: u32) -> Option<usize> {
        let entry = self.entries.get(&ifindex).filter(|entry| entry.place.is_some())?;
        Some(FIRST_VLAN_SLOT + entry.number)
    }

    /// VLANs that are taken.
    pub fn taken(&self) -> impl Iterator<Item = Taken<'_>> {
        self.entries.iter().filter_map(|(ifindex, entry)| {
            let place = entry.place.as_ref()?;
            Some(Taken {
                ifindex: *ifindex,
                port: place.port,
                tags: place.tags,
                back: FIRST_TAG + entry.number as u16,
                name: &place.name,
            })
        })
    }

    /// All on these ports, as the operator sees them.
    pub fn states<'s>(
        &'s self,
        snapshot: &'s Snapshot,
        config: &[VlanConfig],
        is_port: impl Fn(&str) -> bool,
    ) -> Vec<VlanState<'s>> {
        let state = |link: &'s Link| {
            let (chain, port) = chain(snapshot, link)?;
            let entry = self.entries.get(&link.index);
            let is_taken = entry.is_some_and(|entry| entry.place.is_some());
            is_port(&port.name).then(|| VlanState {
                link,
                port: &port.name,
                ids: chain.iter().rev().filter_map(|l| Some(l.vlan.as_ref()?.id)).collect(),
                state: match is_taken {
                    true => "up".into(),
                    false => {
                        why_not(&chain).unwrap_or("left to Linux: its port is not open").into()
                    }
                },
                priorities: vlan_priorities::text(config, link, port),
                stats: entry.map(|entry| entry.counters.read()).unwrap_or_default(),
            })
        };
        snapshot.links().filter_map(state).collect()
    }
}

/// A VLAN and those that it lies on, itself first, and the interface below them. None for what is no VLAN, or lies
/// on something in another network namespace.
fn chain<'s>(snapshot: &'s Snapshot, link: &'s Link) -> Option<(Vec<&'s Link>, &'s Link)> {
    let mut chain = Vec::new();
    let mut at = link;
    while at.vlan.is_some() {
        if at.is_tied_elsewhere || chain.len() > DEEPEST {
            return None;
        }
        chain.push(at);
        at = snapshot.link(at.lower?)?;
    }
    (!chain.is_empty()).then_some((chain, at))
}

/// The interface that a VLAN lies on, below all its tags, and how many these are.
pub fn port_below<'s>(snapshot: &'s Snapshot, link: &'s Link) -> Option<(&'s Link, u32)> {
    chain(snapshot, link).map(|(chain, port)| (port, chain.len() as u32))
}

/// Why a VLAN is Linux's.
fn why_not(chain: &[&Link]) -> Option<&'static str> {
    let link = chain.first()?;
    if chain.len() > wire::ethernet::MAX_TAGS {
        return Some("left to Linux: more than two tags");
    }
    if chain.iter().any(|link| !link.up) {
        return Some("down: set the interface up");
    }
    link.master.map(|_| "left to Linux: it belongs to a bridge, a bond or a VRF")
}

/// Where a VLAN is, if culvert takes it.
fn place(
    snapshot: &Snapshot,
    config: &[VlanConfig],
    link: &Link,
    port_slot: impl Fn(u32) -> Option<usize>,
) -> Option<Place> {
    let (chain, port) = chain(snapshot, link)?;
    if why_not(&chain).is_some() {
        return None;
    }
    let outermost_first = || chain.iter().rev().copied();
    let priorities = outermost_first().filter_map(|l| vlan_priorities::of(config, l, port));
    let tags = outermost_first().try_fold(VlanTags::NONE, |tags, link| {
        let vlan = link.vlan.as_ref()?;
        tags.with(EtherType(vlan.tpid), vlan.id)
    })?;
    Some(Place {
        name: link.name.clone(),
        port: port.index,
        port_slot: port_slot(port.index)?,
        tags,
        macs: outermost_first().filter_map(|link| link.mac.map(MacAddr)).collect(),
        priorities: priorities.collect(),
        remark: vlan_priorities::remark(config, outermost_first(), port),
    })
}

/// VLANs above each other; Linux allows for eight.
const DEEPEST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::xfrm_interface;

    const WAN: u32 = 2;

    /// The interface WAN, and devices: index, the one below, TPID, VLAN identifier.
    fn snapshot(devices: &[(u32, u32, u16, u16)], change: impl Fn(&mut Link)) -> Snapshot {
        let link = |index, lower, vlan| Link {
            name: format!("if{index}"),
            kind: None,
            mac: Some([2, 0, 0, 0, 0, index as u8]),
            lower,
            xfrm: None,
            vlan,
            ..xfrm_interface(index, 0)
        };
        let vlans = devices.iter().map(|(index, lower, tpid, id)| {
            let egress_qos = BTreeMap::from([(0, 1), (6, 5)]);
            let mut device =
                link(*index, Some(*lower), Some(mirror::Vlan { tpid: *tpid, id: *id, egress_qos }));
            change(&mut device);
            device
        });
        [link(WAN, None, None)].into_iter().chain(vlans).map(mirror::Change::Link).collect()
    }

    fn slot(ifindex: u32) -> Option<usize> {
        (ifindex == WAN).then_some(17)
    }

    fn taken(vlans: &Vlans) -> Vec<(u32, u32, String)> {
        vlans.taken().map(|vlan| (vlan.ifindex, vlan.port, vlan.tags.to_string())).collect()
    }

    #[test]
    fn devices_on_a_port_are_taken_two_deep() {
        let devices = [(10, WAN, 0x88a8, 7), (11, 10, 0x8100, 100), (12, 11, 0x8100, 5)];
        let snapshot = snapshot(&devices, |_| ());
        let mut vlans = Vlans::default();
        assert!(vlans.follow(&snapshot, &[], slot));
        let expected = [(10, WAN, "802.1ad 7".to_owned()), (11, WAN, "802.1ad 7, 100".to_owned())];
        assert_eq!(taken(&vlans), expected);
        assert!(!vlans.follow(&snapshot, &[], slot), "no news");
        let states = vlans.states(&snapshot, &[], |name| name == "if2");
        let shown: Vec<_> = states.iter().map(|v| (v.ids.clone(), v.state.as_str())).collect();
        let three = "left to Linux: more than two tags";
        assert_eq!(shown, [(vec![7], "up"), (vec![7, 100], "up"), (vec![7, 100, 5], three)]);
        assert!(vlans.states(&snapshot, &[], |_| false).is_empty());
        // Priorities change, of a VLAN and of the port.
        for interface in ["if11", "if2"] {
            let dscps = Some([Some(1); 8]);
            let entry =
                VlanConfig { interface: interface.into(), dscp_to_pcp: None, pcp_to_dscp: dscps };
            assert!(vlans.follow(&snapshot, std::slice::from_ref(&entry), slot), "{interface}");
            assert!(!vlans.follow(&snapshot, &[entry], slot), "no news");
        }
        assert!(vlans.follow(&snapshot, &[], slot));
        // The port goes.
        assert!(vlans.follow(&snapshot, &[], |_| None));
        assert_eq!((taken(&vlans), vlans.slot(10)), (vec![], None));
    }

    #[test]
    fn what_linux_alone_can_carry_on_is_left_to_it() {
        let device = [(10, WAN, 0x8100, 100)];
        let changes: [fn(&mut Link); 4] = [
            |link| link.up = false,
            |link| link.master = Some(3),
            |link| link.is_tied_elsewhere = true,
            |link| link.vlan.as_mut().expect("a VLAN").id = 0,
        ];
        for change in changes {
            let mut vlans = Vlans::default();
            vlans.follow(&snapshot(&device, change), &[], slot);
            assert!(taken(&vlans).is_empty());
        }
        let port = snapshot(&device, |_| ());
        let below = |index| {
            port_below(&port, port.link(index).expect("a link")).map(|(l, tags)| (l.index, tags))
        };
        assert_eq!((below(10), below(WAN)), (Some((WAN, 1)), None));
    }

    #[test]
    fn a_number_is_not_used_again_at_once() {
        let mut vlans = Vlans::default();
        let with = |devices: &[(u32, u32, u16, u16)]| snapshot(devices, |_| ());
        vlans.follow(&with(&[(10, WAN, 0x8100, 100)]), &[], slot);
        assert_eq!(vlans.slot(10), Some(FIRST_VLAN_SLOT));
        vlans.follow(&with(&[]), &[], slot);
        vlans.follow(&with(&[(11, WAN, 0x8100, 100)]), &[], slot);
        assert_eq!(vlans.slot(11), Some(FIRST_VLAN_SLOT + 1));
        // More than there are numbers for.
        let many: Vec<_> = (1..1100).map(|n| (100 + u32::from(n), WAN, 0x8100, n)).collect();
        vlans.follow(&with(&many), &[], slot);
        assert_eq!(vlans.taken().count(), MAX_VLANS);
    }
}
