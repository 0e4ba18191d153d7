//! Addresses that are this host's for every packet, whoever sends it: where ESP comes to.
//!
//! ESP that is for this host needs no plan: its SA is found by destination and SPI, and what the
//! plan of its outer flow would say is the same for all flows to that address. So the flow cache is
//! left to inner flows, and a gateway of many peers touches nothing for each that only says "ESP".

use core::net::IpAddr;

/// Some of this host's addresses; whoever asks for another one has to ask the routes.
pub(crate) struct OwnAddresses {
    places: [Option<IpAddr>; PLACES],
}

impl OwnAddresses {
    pub(crate) const fn new() -> OwnAddresses {
        OwnAddresses { places: [None; PLACES] }
    }

    /// Routes or addresses have changed.
    pub(crate) fn forget(&mut self) {
        *self = OwnAddresses::new();
    }

    /// Notes an address that is this host's for every packet.
    pub(crate) fn learn(&mut self, addr: IpAddr) {
        if let Some(place) = self.places.get_mut(place(addr)) {
            *place = Some(addr);
        }
    }

    /// Whether an address was noted.
    #[inline]
    pub(crate) fn has(&self, addr: IpAddr) -> bool {
        self.places.get(place(addr)).is_some_and(|place| *place == Some(addr))
    }
}

/// Where an address is noted: by its last bits, in which addresses of one host differ.
#[inline]
fn place(addr: IpAddr) -> usize {
    let last = match addr {
        IpAddr::V4(addr) => addr.to_bits(),
        IpAddr::V6(addr) => addr.to_bits() as u32,
    };
    (last ^ last >> 8) as usize % PLACES
}

/// Of two addresses that meet in one place each finds the other there now and then, and asks the
/// routes.
const PLACES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_learned_until_it_is_forgotten() {
        let mut own = OwnAddresses::new();
        let addresses: [IpAddr; 3] =
            ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(|addr| addr.parse().unwrap());
        assert!(addresses.iter().all(|addr| !own.has(*addr)));
        own.learn(addresses[0]);
        assert!(own.has(addresses[0]));
        assert!(!own.has(addresses[1]) && !own.has(addresses[2]));
        own.forget();
        assert!(!own.has(addresses[0]));
    }

    #[test]
    fn the_same_place_is_not_the_same_address() {
        let mut own = OwnAddresses::new();
        let [one, other]: [IpAddr; 2] = ["10.0.0.1", "10.64.0.1"].map(|addr| addr.parse().unwrap());
        assert_eq!(place(one), place(other));
        own.learn(one);
        assert!(!own.has(other));
        own.learn(other);
        assert!(own.has(other) && !own.has(one));
    }
}
