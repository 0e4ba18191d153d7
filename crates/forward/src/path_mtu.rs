//! Path MTUs that routers reported (RFC 1191, RFC 8201), by destination.
//!
//! A report only lowers what is known. What was learnt is forgotten after a while, so that a path that has
//! become wider is found out. Whether a report is to be believed is the caller's to check.

use core::net::IpAddr;
use std::collections::HashMap;

/// The least path MTU of IPv4 that is learnt, in bytes, as Linux's `min_pmtu` is: what claims to be
/// narrower would make packets so short that little is left of them.
pub const LEAST_V4: u32 = 552;
/// The least path MTU of IPv6, in bytes (RFC 8200 §5).
pub const LEAST_V6: u32 = 1280;

/// Path MTUs that are known, for those who look them up: immutable, shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathMtus(HashMap<IpAddr, u32, ahash::RandomState>);

impl PathMtus {
    /// The MTU of the path to a destination, in bytes: that of its first link, unless a narrower one was
    /// reported.
    #[inline]
    pub fn of(&self, dst: IpAddr, link: usize) -> usize {
        // Mostly there is none.
        match self.0.is_empty() {
            true => link,
            false => self.0.get(&dst).map_or(link, |mtu| link.min(*mtu as usize)),
        }
    }

    /// The MTU that was reported for a destination, in bytes.
    pub fn learnt(&self, dst: IpAddr) -> Option<u32> {
        self.0.get(&dst).copied()
    }
}

/// What was learnt, and when it is forgotten. For one thread; times are of any monotonic clock.
#[derive(Clone, Debug)]
pub struct PathMtuTable {
    lifetime_ns: u64,
    learnt: HashMap<IpAddr, Learnt, ahash::RandomState>,
}

#[derive(Clone, Copy, Debug)]
struct Learnt {
    mtu: u32,
    until_ns: u64,
}

/// The most destinations for which something is learnt.
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
    pub fn report(&mut self, dst: IpAddr, mtu: u32, now_ns: u64) -> bool {
        let mtu = mtu.max(if dst.is_ipv4() { LEAST_V4 } else { LEAST_V6 });
        let until_ns = now_ns.saturating_add(self.lifetime_ns);
        match self.learnt.get_mut(&dst) {
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
                self.learnt.insert(dst, Learnt { mtu, until_ns });
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

    /// What is known now.
    pub fn path_mtus(&self) -> PathMtus {
        PathMtus(self.learnt.iter().map(|(dst, learnt)| (*dst, learnt.mtu)).collect())
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.learnt.is_empty()
    }

    /// Forgets what would be forgotten first.
    fn forget_first(&mut self) {
        let first = self.learnt.iter().min_by_key(|(_, learnt)| learnt.until_ns);
        if let Some(dst) = first.map(|(dst, _)| *dst) {
            self.learnt.remove(&dst);
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
        assert_eq!(known.0.len(), MOST);
        assert_eq!(known.learnt(IpAddr::from(4999u32.to_be_bytes())), Some(1400));
        assert_eq!(known.learnt(IpAddr::from(0u32.to_be_bytes())), None, "the oldest went");
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
