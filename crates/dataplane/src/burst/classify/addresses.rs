//! Addresses that were looked at lately: those of this host, where ESP comes to, and those that it
//! comes from.
//!
//! ESP that is for this host needs no plan: its SA is found by destination and SPI, and what the
//! plan of its outer flow would say is the same for all flows to that address. So the flow cache is
//! left to inner flows, and a gateway of many peers touches nothing for each that only says "ESP".
//! Questions about the two addresses in place of the plan are answered here for most packets.

use wire::{FlowKey, protocol};

use crate::model::Meta;
use crate::view::View;

/// Addresses of packets lately, whose classification is remembered for an epoch of the tables.
pub(crate) struct Addresses {
    /// Addresses of this host, whatever rule applies, that ESP comes to.
    own: KnownAddresses,
    /// Addresses that packets to this host may come from.
    sources: KnownAddresses,
}

impl Addresses {
    pub(crate) const fn new() -> Addresses {
        Addresses { own: KnownAddresses::new(), sources: KnownAddresses::new() }
    }

    /// Routes or addresses have changed.
    pub(crate) fn forget(&mut self) {
        self.own.forget();
        self.sources.forget();
    }

    /// Notes that ESP to the flow's destination is this host's, whatever rule applies.
    pub(crate) fn learn_own(&mut self, flow: &FlowKey) {
        self.own.learn(flow.dst_words());
    }

    /// True if a packet to this host may have its source, answered from memory where it can be.
    #[inline(always)]
    pub(crate) fn is_known_source(&mut self, view: &View, flow: &FlowKey) -> bool {
        self.sources.has(flow.src_words()) || self.learn_source(view, flow)
    }

    #[inline(never)]
    fn learn_source(&mut self, view: &View, flow: &FlowKey) -> bool {
        let is_possible = view.is_possible_source(flow.src(), true);
        if is_possible {
            self.sources.learn(flow.src_words());
        }
        is_possible
    }

    /// True if a packet is ESP, bare, from a port, to an address that is this host's for every
    /// packet. It needs no plan.
    #[inline(always)]
    pub(crate) fn is_own_esp(&self, meta: &Meta) -> bool {
        meta.summary.fields.protocol() == protocol::ESP
            && meta.has_flow
            && meta.ingress.ifindex != 0
            && !meta.ingress.is_decrypted()
            && self.own.has(meta.summary.flow.dst_words())
    }
}

/// Cache of some addresses with one known property. Of another address the caller has to find it
/// out.
///
/// Addresses are given as [`wire::FlowKey::dst_words`] has them.
pub(crate) struct KnownAddresses {
    places: [[u64; 3]; PLACES],
}

impl KnownAddresses {
    pub(crate) const fn new() -> KnownAddresses {
        KnownAddresses { places: [NONE; PLACES] }
    }

    /// Routes or addresses have changed.
    pub(crate) fn forget(&mut self) {
        self.places = [NONE; PLACES];
    }

    /// Notes an address.
    pub(crate) fn learn(&mut self, addr: [u64; 3]) {
        if let Some(place) = self.places.get_mut(place(addr)) {
            *place = addr;
        }
    }

    /// True if an address was noted.
    #[inline(always)]
    pub(crate) fn has(&self, addr: [u64; 3]) -> bool {
        // Without the call that comparing arrays takes.
        self.places.get(place(addr)).is_some_and(|known| {
            known.iter().zip(&addr).fold(0, |unlike, (a, b)| unlike | (a ^ b)) == 0
        })
    }
}

/// Where an address is noted.
#[inline(always)]
const fn place([a, b, _]: [u64; 3]) -> usize {
    // The upper bits of the product hang on all bits of the address.
    ((a ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2())) as usize
}

/// Of no address: the third word is 0 or 1.
const NONE: [u64; 3] = [0, 0, u64::MAX];

/// Of two addresses that meet in one place each finds the other there now and then.
const PLACES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_learned_until_it_is_forgotten() {
        let mut own = KnownAddresses::new();
        let addresses = [[0x0102_00c0, 0, 0], [0x0202_00c0, 0, 0], [7, 8, 1]];
        assert!(addresses.iter().all(|addr| !own.has(*addr)));
        own.learn(addresses[0]);
        assert!(own.has(addresses[0]));
        assert!(!own.has(addresses[1]) && !own.has(addresses[2]));
        own.forget();
        assert!(!own.has(addresses[0]) && !own.has([0; 3]));
    }

    #[test]
    fn the_same_place_is_not_the_same_address() {
        let mut own = KnownAddresses::new();
        let one = [1, 0, 0];
        let other = (2..).map(|n| [n, 0, 0]).find(|other| place(*other) == place(one)).unwrap();
        own.learn(one);
        assert!(!own.has(other));
        own.learn(other);
        assert!(own.has(other) && !own.has(one));
    }

    #[test]
    fn families_differ() {
        let mut own = KnownAddresses::new();
        own.learn([5, 0, 0]);
        assert!(!own.has([5, 0, 1]));
    }
}
