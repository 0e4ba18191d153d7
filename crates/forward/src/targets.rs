//! Where routes lead, each target once however many routes lead to it.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::Arc;

use crate::route::{Hop, RouteEntry, RouteKind};
use crate::route_result::RouteResult;
use crate::trie::HOLE;

/// Where a packet goes that a route holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// One next hop for every packet.
    Fixed(RouteResult),
    /// One of several next hops; flows are spread.
    Spread {
        /// At least two.
        hops: Box<[Hop]>,
        /// MTU of the route, in bytes.
        mtu: Option<u32>,
        /// The route's preferred source address.
        src: Option<IpAddr>,
        /// The sum of the hops' weights.
        total_weight: u32,
    },
}

impl Target {
    /// The packet's next hop.
    pub fn choose(&self, dst: IpAddr, src: IpAddr) -> RouteResult {
        let (hops, mtu, from, total_weight) = match self {
            Self::Fixed(result) => return *result,
            Self::Spread { hops, mtu, src, total_weight } => (hops, *mtu, *src, *total_weight),
        };
        // The hash's place in 0..total_weight, without a division.
        let place = (u64::from(flow_hash(dst, src)) * u64::from(total_weight)) >> 32;
        let mut upto = 0u64;
        let chosen = hops.iter().find(|hop| {
            upto += u64::from(hop.weight.max(1));
            place < upto
        });
        chosen.or(hops.first()).map_or(RouteResult::None, |hop| unicast(hop, mtu, from))
    }

    /// True if packets may leave by the interface; `None` where they leave by none.
    pub fn leaves_by(&self, ifindex: u32) -> Option<bool> {
        match self {
            Self::Fixed(RouteResult::Unicast { ifindex: way, .. }) => Some(*way == ifindex),
            Self::Fixed(_) => None,
            Self::Spread { hops, .. } => Some(hops.iter().any(|hop| hop.ifindex == ifindex)),
        }
    }
}

const fn unicast(hop: &Hop, mtu: Option<u32>, src: Option<IpAddr>) -> RouteResult {
    RouteResult::Unicast { ifindex: hop.ifindex, gateway: hop.gateway, mtu, src }
}

/// A hash of the two addresses: even, the same for every packet of a flow, not keyed (a sender
/// who picks addresses can pick the hop; nothing but balance hangs on it).
fn flow_hash(dst: IpAddr, src: IpAddr) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = 0u64;
    let mut mix = |word: u64| {
        state = (state ^ word).wrapping_mul(ODD);
        state ^= state >> 29;
    };
    for addr in [dst, src] {
        match addr {
            IpAddr::V4(a) => mix(a.to_bits().into()),
            IpAddr::V6(a) => {
                let bits = a.to_bits();
                mix((bits >> 64) as u64);
                mix(bits as u64);
            }
        }
    }
    (state >> 32) as u32
}

/// All targets, numbered from 1 as values of a trie, and how many routes lead to each.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    targets: Arc<Vec<Target>>,
    numbers: HashMap<Target, u32, ahash::RandomState>,
    uses: Vec<u32>,
    free: Vec<u32>,
}

impl Targets {
    /// The value of a route: a target's number, which is used once more, or [`HOLE`]. `None` for
    /// a unicast route without hops, which is as good as none.
    pub fn take(&mut self, route: RouteEntry) -> Option<u32> {
        let target = match (route.kind, &*route.hops) {
            (RouteKind::Throw, _) => return Some(HOLE),
            (RouteKind::Local, _) => Target::Fixed(RouteResult::Local),
            (RouteKind::Blackhole, _) => Target::Fixed(RouteResult::Blackhole),
            (RouteKind::Unreachable, _) => Target::Fixed(RouteResult::Unreachable),
            (RouteKind::Prohibit, _) => Target::Fixed(RouteResult::Prohibit),
            (RouteKind::Unicast, []) => return None,
            (RouteKind::Unicast, [hop]) => Target::Fixed(unicast(hop, route.mtu, route.src)),
            (RouteKind::Unicast, hops) => Target::Spread {
                total_weight: hops.iter().map(|hop| u32::from(hop.weight.max(1))).sum(),
                hops: route.hops.into(),
                mtu: route.mtu,
                src: route.src,
            },
        };
        if let Some(number) = self.numbers.get(&target) {
            if let Some(uses) = self.uses.get_mut(*number as usize - 1) {
                *uses += 1;
            }
            return Some(*number);
        }
        let targets = Arc::make_mut(&mut self.targets);
        let number = self.free.pop().unwrap_or_else(|| {
            targets.push(target.clone());
            self.uses.push(0);
            targets.len() as u32
        });
        let at = number as usize - 1;
        if let (Some(place), Some(uses)) = (targets.get_mut(at), self.uses.get_mut(at)) {
            *place = target.clone();
            *uses = 1;
        }
        self.numbers.insert(target, number);
        Some(number)
    }

    /// A route with this value is gone.
    pub fn give_back(&mut self, value: u32) {
        let Some(at) = (value as usize).checked_sub(1) else { return };
        let Some(uses) = self.uses.get_mut(at) else { return };
        *uses -= 1;
        if *uses == 0
            && let Some(target) = self.targets.get(at)
        {
            self.numbers.remove(target);
            self.free.push(value);
        }
    }

    /// All of them, for readers: value `n` is at `n - 1`.
    pub fn shared(&self) -> Arc<Vec<Target>> {
        Arc::clone(&self.targets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{Subnet, table};

    fn route(kind: RouteKind, hops: &[u32]) -> RouteEntry {
        RouteEntry {
            table: table::MAIN,
            dst: Subnet { addr: IpAddr::from([10, 0, 0, 0]), len: 8 },
            kind,
            priority: 0,
            hops: hops.iter().map(|i| Hop { ifindex: *i, gateway: None, weight: 1 }).collect(),
            mtu: None,
            src: None,
        }
    }

    #[test]
    fn targets_are_kept_once_and_numbers_come_again() {
        let mut all = Targets::default();
        assert_eq!(all.take(route(RouteKind::Unicast, &[])), None);
        assert_eq!(all.take(route(RouteKind::Throw, &[])), Some(HOLE));
        let one = all.take(route(RouteKind::Unicast, &[1])).unwrap();
        assert_eq!(all.take(route(RouteKind::Unicast, &[1])), Some(one));
        let two = all.take(route(RouteKind::Unicast, &[1, 2])).unwrap();
        assert_ne!(one, two);
        let before = all.shared();
        all.give_back(one);
        all.give_back(HOLE);
        assert_eq!(all.take(route(RouteKind::Local, &[])), Some(3));
        all.give_back(one);
        assert_eq!(all.take(route(RouteKind::Prohibit, &[])), Some(one));
        assert_eq!(all.take(route(RouteKind::Unicast, &[1])), Some(4));
        // Targets that were published before stay as they were.
        assert_eq!(before.first().unwrap().leaves_by(1), Some(true));
        assert_eq!(all.shared().first(), Some(&Target::Fixed(RouteResult::Prohibit)));
        assert_eq!(before.get(1).unwrap().leaves_by(2), Some(true));
        assert_eq!(before.get(1).unwrap().leaves_by(3), Some(false));
    }
}
