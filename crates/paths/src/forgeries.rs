//! Forged probes: what those of one source may cost.
//!
//! A probe whose HMAC is wrong has cost one for each key. Each source may have so many of them a second; beyond that its probes
//! are not read. A sender with a key is read as long as nobody forges probes in its name, however many others do: inside a
//! tunnel a peer has no other addresses than those that its SA's selectors allow.

use core::hash::BuildHasher;
use core::net::IpAddr;
use std::hash::RandomState;

/// Forged probes of one source that are checked in a second.
const FORGED_A_SECOND: u64 = 16;

/// Places of sources. Two may have the same, which a secret number decides. Together with the above the bound of all: 4096
/// forged probes a second.
const PLACES: usize = 256;

/// Time after which a source may have one forged probe more.
const PRICE_NS: u64 = 1_000_000_000 / FORGED_A_SECOND;

/// A source, or several in one place.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    /// Time until which its forged probes are paid for: at most a second ahead.
    paid_until_ns: u64,
    /// Place of the key that its last probe had.
    key: usize,
}

/// Forged probes of all sources.
#[derive(Debug)]
pub(crate) struct Forgeries {
    sources: Box<[Source]>,
    secret: RandomState,
}

/// The place of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(usize);

impl Forgeries {
    /// No source has forged any.
    pub(crate) fn new() -> Forgeries {
        Forgeries { sources: vec![Source::default(); PLACES].into(), secret: RandomState::new() }
    }

    /// The place of a source, with the place of the key that is to be tried first. `None`: its probes are not to be read at
    /// present.
    pub(crate) fn place(&self, from: IpAddr, now_ns: u64) -> Option<(Place, usize)> {
        let place = self.secret.hash_one(from) as usize % PLACES;
        let source = self.sources.get(place)?;
        let is_beyond =
            source.paid_until_ns.saturating_sub(now_ns) > (FORGED_A_SECOND - 1) * PRICE_NS;
        (!is_beyond).then_some((Place(place), source.key))
    }

    /// A probe of the source was forged.
    pub(crate) fn forged(&mut self, Place(at): Place, now_ns: u64) {
        if let Some(source) = self.sources.get_mut(at) {
            source.paid_until_ns = source.paid_until_ns.max(now_ns).saturating_add(PRICE_NS);
        }
    }

    /// A probe of the source has this key.
    pub(crate) fn proven(&mut self, Place(at): Place, key: usize) {
        if let Some(source) = self.sources.get_mut(at) {
            source.key = key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn forge(forgeries: &mut Forgeries, from: IpAddr, now_ns: u64) -> bool {
        let place = forgeries.place(from, now_ns);
        place.into_iter().for_each(|(place, _)| forgeries.forged(place, now_ns));
        place.is_some()
    }

    #[test]
    fn a_source_has_so_many_a_second() {
        let mut forgeries = Forgeries::new();
        let from = IpAddr::from([192, 0, 2, 1]);
        let mut read = |now_ns| (0..100).filter(|_| forge(&mut forgeries, from, now_ns)).count();
        assert_eq!([read(0), read(0), read(PRICE_NS), read(10 * SECOND_NS)], [16, 0, 1, 16]);
    }

    #[test]
    fn all_sources_together_are_bounded() {
        let mut forgeries = Forgeries::new();
        let sources = (0..1 << 16_u32).map(|n| IpAddr::from((10_u32 << 24 | n).to_be_bytes()));
        let read = sources.map(|from| usize::from(forge(&mut forgeries, from, 0))).sum::<usize>();
        assert_eq!(read, PLACES * FORGED_A_SECOND as usize);
    }

    #[test]
    fn the_key_of_the_last_probe_is_tried_first() {
        let mut forgeries = Forgeries::new();
        let from = IpAddr::from([192, 0, 2, 1]);
        let (place, key) = forgeries.place(from, 0).expect("nothing was forged");
        assert_eq!(key, 0);
        forgeries.proven(place, 5);
        assert_eq!(forgeries.place(from, 0).map(|(_, key)| key), Some(5));
    }
}
