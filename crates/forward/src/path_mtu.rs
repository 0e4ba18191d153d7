//! Path MTUs that routers reported (RFC 1191, RFC 8201), by destination, or by the segments on the way (SRv6).
//!
//! A report only lowers what is known. What was learnt is forgotten after a while, so that a path that has
//! become wider is found out. Whether a report is to be believed is the caller's to check.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::HashMap;

/// The least path MTU of IPv4 that is learnt, in bytes, as Linux's `min_pmtu` is: what claims to be
/// narrower would make packets so short that little is left of them.
pub const LEAST_V4: u32 = 552;
/// The least path MTU of IPv6, in bytes (RFC 8200 §5).
pub const LEAST_V6: u32 = 1280;

/// The most segments that a path has.
pub const MAX_STOPS: usize = 8;

/// Segments in the order in which packets pass them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stops {
    addrs: [Ipv6Addr; MAX_STOPS],
    len: u8,
}

impl Stops {
    /// The segments of a path, at most [`MAX_STOPS`]. `None` if there are more.
    pub fn new(stops: &[Ipv6Addr]) -> Option<Stops> {
        let mut addrs = [Ipv6Addr::UNSPECIFIED; MAX_STOPS];
        addrs.get_mut(..stops.len())?.copy_from_slice(stops);
        Some(Stops { addrs, len: stops.len() as u8 })
    }

    /// The segments, in the order of the path.
    pub fn as_slice(&self) -> &[Ipv6Addr] {
        self.addrs.get(..self.len.into()).unwrap_or_default()
    }
}

/// Path that has an MTU of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MtuPath {
    /// The path to a destination.
    To(IpAddr),
    /// The path through segments, for packets with all of their headers.
    Through(Stops),
    /// The path to a last segment, for packets without a list of segments: it needs none, or was
    /// taken off on the way.
    Bare(Ipv6Addr),
}

impl From<IpAddr> for MtuPath {
    fn from(dst: IpAddr) -> MtuPath {
        MtuPath::To(dst)
    }
}

impl MtuPath {
    /// The least MTU that is learnt of it, in bytes.
    const fn least(&self) -> u32 {
        match self {
            MtuPath::To(IpAddr::V4(_)) => LEAST_V4,
            MtuPath::To(IpAddr::V6(_)) | MtuPath::Through(_) | MtuPath::Bare(_) => LEAST_V6,
        }
    }
}

/// Path MTUs that are known, for those who look them up: immutable, shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathMtus {
    known: HashMap<MtuPath, u32, ahash::RandomState>,
    /// The entries of [`MtuPath::Bare`] once more, to be searched in order.
    bare: Box<[(Ipv6Addr, u32)]>,
}

impl PathMtus {
    /// The MTU of the path to a destination, in bytes: that of its first link, unless a narrower one was
    /// reported.
    #[inline]
    pub fn of(&self, dst: IpAddr, link: usize) -> usize {
        // Mostly there is none.
        match self.known.is_empty() {
            true => link,
            false => self.known.get(&dst.into()).map_or(link, |mtu| link.min(*mtu as usize)),
        }
    }

    /// The MTU of the path through segments, in bytes, for packets with all of their headers; `link` is that of the
    /// first link. Packets without their list, which is so many bytes long, go on to where `ends_at` says.
    pub fn through(
        &self,
        stops: &[Ipv6Addr],
        list_len: usize,
        ends_at: impl Fn(Ipv6Addr) -> bool,
        link: usize,
    ) -> usize {
        if self.known.is_empty() {
            return link;
        }
        let whole = Stops::new(stops).and_then(|stops| self.learnt(MtuPath::Through(stops)));
        let ends = self.bare.iter().filter(|(dst, _)| ends_at(*dst));
        let without = ends.map(|(_, mtu)| *mtu as usize + list_len).min();
        whole.map(|mtu| mtu as usize).into_iter().chain(without).fold(link, usize::min)
    }

    /// The MTU that was reported of a path, in bytes.
    pub fn learnt(&self, path: impl Into<MtuPath>) -> Option<u32> {
        self.known.get(&path.into()).copied()
    }
}

/// Path MTUs that were learnt, and their expiry. For one thread; times are of any monotonic clock.
#[derive(Clone, Debug)]
pub struct PathMtuTable {
    lifetime_ns: u64,
    learnt: HashMap<MtuPath, Learnt, ahash::RandomState>,
}

#[derive(Clone, Copy, Debug)]
struct Learnt {
    mtu: u32,
    until_ns: u64,
}

/// The most paths of which something is learnt.
const MOST: usize = 4096;

impl PathMtuTable {
    /// An empty one, which forgets what it has learnt after so long.
    pub fn new(lifetime_ns: u64) -> PathMtuTable {
        PathMtuTable { lifetime_ns, learnt: HashMap::default() }
    }

    /// Takes in a report; true if the path's MTU, in bytes, is another one now.
    ///
    /// It is at least [`LEAST_V4`] or [`LEAST_V6`]. What is not below the known MTU changes nothing, but
    /// the same again makes it last longer.
    pub fn report(&mut self, path: impl Into<MtuPath>, mtu: u32, now_ns: u64) -> bool {
        let path = path.into();
        let mtu = mtu.max(path.least());
        let until_ns = now_ns.saturating_add(self.lifetime_ns);
        match self.learnt.get_mut(&path) {
            Some(known) if mtu > known.mtu => false,
            Some(known) => {
                let is_lower = mtu < known.mtu;
                *known = Learnt { mtu, until_ns };
                is_lower
            }
            None => {
                if self.learnt.len() >= MOST {
                    self.forget_first();
                }
                self.learnt.insert(path, Learnt { mtu, until_ns });
                true
            }
        }
    }

    /// Forgets what is too old; true if there was something.
    pub fn expire(&mut self, now_ns: u64) -> bool {
        let before = self.learnt.len();
        self.learnt.retain(|_, learnt| learnt.until_ns > now_ns);
        self.learnt.len() != before
    }

    /// The path MTUs that are known now.
    pub fn path_mtus(&self) -> PathMtus {
        let known = self.learnt.iter().map(|(path, learnt)| (*path, learnt.mtu));
        let bare = known.clone().filter_map(|(path, mtu)| match path {
            MtuPath::Bare(dst) => Some((dst, mtu)),
            MtuPath::To(_) | MtuPath::Through(_) => None,
        });
        PathMtus { bare: bare.collect(), known: known.collect() }
    }

    /// True if no path MTU is known.
    pub fn is_empty(&self) -> bool {
        self.learnt.is_empty()
    }

    /// Forgets what would be forgotten first.
    fn forget_first(&mut self) {
        let first = self.learnt.iter().min_by_key(|(_, learnt)| learnt.until_ns);
        if let Some(path) = first.map(|(path, _)| *path) {
            self.learnt.remove(&path);
        }
    }
}

/// The next lower MTU that links have, for routers that do not say theirs (RFC 1191 §7.1), in bytes.
pub fn plateau_below(len: u32) -> u32 {
    const PLATEAUS: [u32; 10] = [65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296];
    PLATEAUS.into_iter().find(|plateau| *plateau < len).unwrap_or(68)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }

    #[test]
    fn only_lowers_and_is_forgotten() {
        let mut table = PathMtuTable::new(100);
        assert_eq!(table.path_mtus().of(v4(1), 1500), 1500);
        assert!(table.report(v4(1), 1400, 0));
        assert!(!table.report(v4(1), 1450, 10), "higher");
        assert_eq!(table.path_mtus().of(v4(1), 1500), 1400);
        assert_eq!(table.path_mtus().of(v4(1), 1300), 1300, "the link is narrower");
        assert_eq!(table.path_mtus().of(v4(2), 1500), 1500, "another destination");
        assert!(table.report(v4(1), 1300, 20));
        assert!(!table.report(v4(1), 1300, 60), "the same: only lasts longer");
        assert!(!table.expire(120));
        assert!(table.expire(160));
        assert!(table.is_empty());
        assert_eq!(table.path_mtus().learnt(v4(1)), None);
    }

    #[test]
    fn nothing_below_the_least() {
        let mut table = PathMtuTable::new(100);
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        table.report(v4(1), 68, 0);
        table.report(v6, 600, 0);
        let known = table.path_mtus();
        assert_eq!((known.learnt(v4(1)), known.learnt(v6)), (Some(552), Some(1280)));
    }

    #[test]
    fn many_destinations_are_bounded() {
        let mut table = PathMtuTable::new(1_000_000);
        for n in 0..5000u32 {
            table.report(IpAddr::from(n.to_be_bytes()), 1400, n.into());
        }
        let known = table.path_mtus();
        assert_eq!(known.known.len(), MOST);
        assert_eq!(known.learnt(IpAddr::from(4999u32.to_be_bytes())), Some(1400));
        assert_eq!(known.learnt(IpAddr::from(0u32.to_be_bytes())), None, "the oldest went");
    }

    #[test]
    fn paths_through_segments_are_apart() {
        let a = |n: u16| Ipv6Addr::from([0xfc00, 0, 0, 0, 0, 0, 0, n]);
        let (one, two) = ([a(1), a(3)], [a(2), a(3)]);
        let mut table = PathMtuTable::new(100);
        let of = |table: &PathMtuTable, stops: &[Ipv6Addr]| {
            table.path_mtus().through(stops, 40, |dst| Some(&dst) == stops.last(), 1500)
        };
        let through = |stops: &[Ipv6Addr]| MtuPath::Through(Stops::new(stops).expect("few"));
        table.report(IpAddr::V6(a(3)), 1281, 0);
        assert_eq!(of(&table, &one), 1500, "the path to an address is another one");
        table.report(through(&one), 1400, 0);
        assert_eq!((of(&table, &one), of(&table, &two)), (1400, 1500));
        // Without the list they are shorter there.
        table.report(MtuPath::Bare(a(3)), 1440, 0);
        assert_eq!((of(&table, &one), of(&table, &two)), (1400, 1480));
        assert_eq!(of(&table, &[a(4)]), 1500);
        table.report(through(&one), 600, 0);
        assert_eq!(of(&table, &one), 1280);
        assert!(table.expire(100) && of(&table, &one) == 1500);
        assert!(Stops::new(&[a(1); MAX_STOPS + 1]).is_none());
        assert_eq!(Stops::new(&one).expect("few").as_slice(), one);
    }

    #[test]
    fn plateaus_of_rfc_1191() {
        assert_eq!([1500, 1492, 1400, 300, 100].map(plateau_below), [1492, 1006, 1006, 296, 68]);
    }

    proptest! {
        /// The MTU never rises but by being forgotten, and is the least that was reported since.
        #[test]
        fn is_the_least_of_what_was_reported(
            reports in prop::collection::vec((0u8..3, 500u32..9000, 0u64..40), 1..60),
        ) {
            let mut table = PathMtuTable::new(1_000_000);
            let mut least: HashMap<u8, u32> = HashMap::new();
            let mut now = 0;
            for (n, mtu, pause) in reports {
                now += pause;
                let told = table.report(v4(n), mtu, now);
                let known = least.entry(n).or_insert(u32::MAX);
                prop_assert_eq!(told, mtu.max(LEAST_V4) < *known);
                *known = (*known).min(mtu.max(LEAST_V4));
                prop_assert_eq!(table.path_mtus().learnt(v4(n)), Some(*known));
            }
        }
    }
}
