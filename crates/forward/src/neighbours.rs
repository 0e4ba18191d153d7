//! The neighbour table: link-layer addresses of next hops, as Linux has them.

use core::net::IpAddr;
use std::collections::HashMap;

use wire::MacAddr;

/// Linux's neighbour states (`NUD_*`), as far as they differ for a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NeighbourState {
    /// Linux is asking; no address yet.
    Incomplete,
    /// The address is good: reachable, permanent, or a link that needs none.
    Reachable,
    /// The address may be used, and Linux should be given reason to confirm it.
    Stale,
    /// The address may be used; Linux is confirming it.
    Probing,
    /// The neighbour did not answer.
    Failed,
}

/// One neighbour of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourEntry {
    /// The interface it is on.
    pub ifindex: u32,
    /// IP address of the neighbour.
    pub addr: IpAddr,
    /// Link-layer address, if known.
    pub mac: Option<MacAddr>,
    /// State of the entry, as Linux has it.
    pub state: NeighbourState,
}

/// The answer for one next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Send to this address.
    Resolved {
        /// The link-layer address.
        mac: MacAddr,
        /// Linux should be given reason to confirm the address: it sees none of the packets that
        /// are sent past it.
        confirm: bool,
    },
    /// Linux is asking already: hold the packet.
    Pending,
    /// Nobody has asked yet: hold the packet and have Linux ask.
    Unknown,
    /// The neighbour did not answer; Linux asks again when it is given a reason.
    Failed,
}

/// The neighbours of all interfaces.
///
/// One writer fills it; to share it with workers, publish copies. Look-ups do not allocate.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    entries: HashMap<(u32, IpAddr), (Option<MacAddr>, NeighbourState), ahash::RandomState>,
    /// From this index on interfaces have no neighbours.
    first_without: Option<u32>,
}

impl Neighbours {
    /// How to reach the address on the interface.
    pub fn resolve(&self, ifindex: u32, addr: IpAddr) -> Resolution {
        use NeighbourState::{Failed, Incomplete, Probing, Reachable, Stale};
        match self.entries.get(&(ifindex, addr)) {
            None if self.first_without.is_some_and(|first| ifindex >= first) => {
                Resolution::Resolved { mac: MacAddr::default(), confirm: false }
            }
            None => Resolution::Unknown,
            Some((Some(mac), state @ (Reachable | Stale | Probing))) => {
                Resolution::Resolved { mac: *mac, confirm: *state == Stale }
            }
            Some((_, Failed)) => Resolution::Failed,
            Some((_, Incomplete)) => Resolution::Pending,
            // A usable state without an address: a link that needs none, which is no Ethernet.
            Some((None, _)) => Resolution::Failed,
        }
    }

    /// Makes the interfaces from this index on ones without link-layer addresses: frames for them
    /// are addressed to no station.
    pub const fn address_nobody_from(&mut self, first: u32) {
        self.first_without = Some(first);
    }

    /// Puts a neighbour in the place of what was known of it, and says whether anything changed.
    pub fn insert(&mut self, entry: NeighbourEntry) -> bool {
        let value = (entry.mac, entry.state);
        self.entries.insert((entry.ifindex, entry.addr), value) != Some(value)
    }

    /// Forgets a neighbour, and says whether it was known.
    pub fn remove(&mut self, ifindex: u32, addr: IpAddr) -> bool {
        self.entries.remove(&(ifindex, addr)).is_some()
    }

    /// How many neighbours are known.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no neighbour is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All neighbours, in no order.
    pub fn iter(&self) -> impl Iterator<Item = NeighbourEntry> {
        self.entries.iter().map(|((ifindex, addr), (mac, state))| NeighbourEntry {
            ifindex: *ifindex,
            addr: *addr,
            mac: *mac,
            state: *state,
        })
    }
}

impl FromIterator<NeighbourEntry> for Neighbours {
    fn from_iter<I: IntoIterator<Item = NeighbourEntry>>(entries: I) -> Self {
        let mut all = Self::default();
        for entry in entries {
            all.insert(entry);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn entry(state: NeighbourState, mac: Option<MacAddr>) -> NeighbourEntry {
        NeighbourEntry { ifindex: 3, addr: "10.0.0.1".parse().unwrap(), mac, state }
    }

    #[test]
    fn each_state() {
        use NeighbourState::{Failed, Incomplete, Probing, Reachable, Stale};
        let cases = [
            (Incomplete, None, Resolution::Pending),
            (Reachable, Some(MAC), Resolution::Resolved { mac: MAC, confirm: false }),
            (Stale, Some(MAC), Resolution::Resolved { mac: MAC, confirm: true }),
            (Probing, Some(MAC), Resolution::Resolved { mac: MAC, confirm: false }),
            (Failed, None, Resolution::Failed),
            (Failed, Some(MAC), Resolution::Failed),
            // No link-layer address, as of a tunnel.
            (Reachable, None, Resolution::Failed),
        ];
        for (state, mac, want) in cases {
            let table: Neighbours = [entry(state, mac)].into_iter().collect();
            assert_eq!(table.resolve(3, "10.0.0.1".parse().unwrap()), want, "{state:?}");
            assert_eq!(table.resolve(4, "10.0.0.1".parse().unwrap()), Resolution::Unknown);
            assert_eq!(table.resolve(3, "10.0.0.2".parse().unwrap()), Resolution::Unknown);
        }
    }

    #[test]
    fn changes_are_told() {
        let mut table = Neighbours::default();
        assert!(table.insert(entry(NeighbourState::Incomplete, None)));
        assert!(!table.insert(entry(NeighbourState::Incomplete, None)));
        assert!(table.insert(entry(NeighbourState::Reachable, Some(MAC))));
        assert!(
            table.insert(NeighbourEntry {
                ifindex: 4,
                ..entry(NeighbourState::Reachable, Some(MAC))
            })
        );
        assert_eq!((table.len(), table.iter().count()), (2, 2));
        let addr = "10.0.0.1".parse().unwrap();
        assert!(table.remove(3, addr));
        assert_eq!(table.iter().map(|e| e.ifindex).collect::<Vec<_>>(), [4]);
        assert!(table.remove(4, addr) && !table.remove(4, addr) && table.is_empty());
    }
}
