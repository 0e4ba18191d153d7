//! Which rate limits packets are under.
//!
//! A packet is under the first rule that is about it, and under the limiters above that one. The limiters themselves
//! are [`limit`]'s.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use esp::Sa;
use limit::{Level, Limiter};
use policy::{Prefix, SaEntry};
use wire::Headers;

/// Which packets of a rule have buckets in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Each {
    /// All packets share the buckets.
    #[default]
    All,
    /// Each flow has buckets of its own: addresses, protocol and ports.
    Flow,
    /// Each tunnel has buckets of its own: the ends, reqid and `if_id` of its SAs, one direction
    /// apart from the other. A rekeyed SA goes on with its buckets.
    Tunnel,
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To peers, and whatever leaves in clear without having been decrypted here.
    #[default]
    Out,
    /// From peers: decrypted here.
    In,
    /// Both directions, inbound and outbound.
    Both,
}

/// Conditions of a rule. A packet must meet all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Which way they go.
    pub direction: Direction,
    /// The interfaces that they, or their ESP packets, came in by; any if there are none. Linux's own have index 0.
    pub interfaces: Vec<u32>,
    /// Where they come from, before any translation.
    pub src: Option<Prefix>,
    /// Where they go, before any translation.
    pub dst: Option<Prefix>,
    /// DSCP of the packet.
    pub dscp: Option<u8>,
    /// Mark of the packet.
    pub mark: Option<u32>,
    /// The `if_id` of the SA that protects them, or has.
    pub if_id: Option<u32>,
    /// Reqid of its SA.
    pub reqid: Option<u32>,
    /// The other end of that SA.
    pub peer: Option<Prefix>,
}

/// A rate limit, and the packets that are under it.
#[derive(Clone, Debug)]
pub struct RateRule {
    /// Conditions that packets must meet.
    pub matches: Match,
    /// Sharing of the buckets.
    pub each: Each,
    /// The limiter, and those above it.
    pub limiter: Arc<Limiter>,
}

/// A packet that rules are about.
pub(crate) struct Limited<'a> {
    pub(crate) h: &'a Headers,
    pub(crate) ifindex: u32,
    pub(crate) mark: u32,
    /// True if the packet was decrypted here.
    pub(crate) is_in: bool,
    /// The outermost SA that protects it, or has.
    pub(crate) sa: Option<&'a SaEntry<Sa>>,
}

impl Match {
    fn is_about(&self, packet: &Limited<'_>) -> bool {
        let Limited { h, ifindex, mark, is_in, sa } = packet;
        let goes = match self.direction {
            Direction::Out => !is_in,
            Direction::In => *is_in,
            Direction::Both => true,
        };
        let config = sa.map(|sa| &sa.config);
        let other_end = config.map(|c| if *is_in { c.params.src } else { c.params.dst });
        goes && (self.interfaces.is_empty() || self.interfaces.contains(ifindex))
            && self.src.is_none_or(|prefix| prefix.contains(h.src))
            && self.dst.is_none_or(|prefix| prefix.contains(h.dst))
            && self.dscp.is_none_or(|dscp| h.traffic_class >> 2 == dscp)
            && self.mark.is_none_or(|wanted| *mark == wanted)
            && self.if_id.is_none_or(|wanted| config.is_some_and(|c| c.if_id == wanted))
            && self.reqid.is_none_or(|wanted| config.is_some_and(|c| c.reqid == wanted))
            && self.peer.is_none_or(|peer| other_end.is_some_and(|end| peer.contains(end)))
    }
}

/// Key by which a rule is found: the first of these that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Found {
    IfId(u32),
    Mark(u32),
    To(u8, IpAddr),
    From(u8, IpAddr),
    Any,
}

impl Found {
    fn of(matches: &Match) -> Found {
        let Match { if_id, mark, dst, src, .. } = matches;
        match (if_id, mark, dst, src) {
            (Some(if_id), ..) => Found::IfId(*if_id),
            (_, Some(mark), ..) => Found::Mark(*mark),
            (_, _, Some(Prefix { addr, len }), _) => Found::To(*len, masked(*addr, *len)),
            (_, _, _, Some(Prefix { addr, len })) => Found::From(*len, masked(*addr, *len)),
            _ => Found::Any,
        }
    }
}

/// Rules, in their order, found without a look at each.
#[derive(Debug, Default)]
pub struct RateRules {
    rules: Vec<RateRule>,
    /// Places of rules, ascending.
    found: HashMap<Found, Vec<u32>, ahash::RandomState>,
    /// The lengths of prefixes that rules are found by: destinations', and sources'.
    lens: [Vec<u8>; 2],
    /// True if any rule names a DSCP.
    has_dscps: bool,
}

impl RateRules {
    /// Rules, of which a packet is under the first that it meets.
    pub fn new(rules: Vec<RateRule>) -> RateRules {
        let mut found: HashMap<_, Vec<u32>, _> = HashMap::default();
        let mut lens = [Vec::new(), Vec::new()];
        for (at, rule) in (0..).zip(&rules) {
            let by = Found::of(&rule.matches);
            found.entry(by).or_default().push(at);
            let [to, from] = &mut lens;
            match by {
                Found::To(len, _) if !to.contains(&len) => to.push(len),
                Found::From(len, _) if !from.contains(&len) => from.push(len),
                _ => {}
            }
        }
        let has_dscps = rules.iter().any(|rule| rule.matches.dscp.is_some());
        RateRules { rules, found, lens, has_dscps }
    }

    /// True if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules in order.
    pub fn rules(&self) -> &[RateRule] {
        &self.rules
    }

    /// True if packets of one flow may be under different rules: those of different DSCPs.
    pub(crate) fn has_dscps(&self) -> bool {
        self.has_dscps
    }

    /// The first rule about a packet.
    pub(crate) fn find(&self, packet: &Limited<'_>) -> Option<&RateRule> {
        let Limited { h, mark, sa, .. } = packet;
        let [to, from] = &self.lens;
        let of_sa = sa.map(|sa| Found::IfId(sa.config.if_id));
        let ends = |lens: &'_ [u8], addr| {
            lens.iter().map(move |len| (*len, masked(addr, *len))).collect::<Vec<_>>()
        };
        let to = ends(to, h.dst).into_iter().map(|(len, addr)| Found::To(len, addr));
        let from = ends(from, h.src).into_iter().map(|(len, addr)| Found::From(len, addr));
        let all = [Found::Any, Found::Mark(*mark)].into_iter().chain(of_sa).chain(to).chain(from);
        let rule = |at: &u32| self.rules.get(*at as usize);
        let firsts = all.filter_map(|by| {
            let mut places = self.found.get(&by)?.iter();
            places.find(|at| rule(at).is_some_and(|rule| rule.matches.is_about(packet)))
        });
        firsts.min().and_then(rule)
    }

    /// True if a limiter with these buckets is still among the rules.
    pub(crate) fn has(&self, level: &Level) -> bool {
        self.rules.iter().any(|rule| level.is_of(&rule.limiter))
    }
}

impl Each {
    /// Key of a packet's buckets among those of the rule; 0 where all packets share them.
    pub(crate) fn key(self, packet: &Limited<'_>) -> u64 {
        static HASHER: OnceLock<ahash::RandomState> = OnceLock::new();
        // Nobody outside can have flows share buckets.
        let hasher = HASHER.get_or_init(ahash::RandomState::default);
        let Limited { h, is_in, sa, .. } = packet;
        match (self, sa) {
            (Each::All, _) => 0,
            (Each::Flow, _) => hasher.hash_one((h.src, h.dst, h.protocol, h.src_port, h.dst_port)),
            (Each::Tunnel, Some(sa)) => {
                let config = &sa.config;
                let ends = (config.params.src, config.params.dst);
                hasher.hash_one((is_in, ends, config.reqid, config.if_id, config.cpu))
            }
            (Each::Tunnel, None) => 0,
        }
    }
}

/// An address without the bits behind a prefix.
fn masked(addr: IpAddr, len: u8) -> IpAddr {
    match addr {
        IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
            IpAddr::V4((addr.to_bits() & mask).into())
        }
        IpAddr::V6(addr) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0);
            IpAddr::V6((addr.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limit::Settings;

    fn rule(name: &str, matches: Match) -> RateRule {
        let settings = Settings::single(1_000_000, 15_000);
        let limiter = Arc::new(Limiter::new(name, settings, None, (1, 0)));
        RateRule { matches, each: Each::All, limiter }
    }

    fn prefix(addr: [u8; 4], len: u8) -> Option<Prefix> {
        Some(Prefix { addr: addr.into(), len })
    }

    #[test]
    fn the_first_rule_about_a_packet_decides_however_it_is_found() {
        let all = |direction| Match { direction, ..Match::default() };
        let rules = RateRules::new(vec![
            rule("mark", Match { mark: Some(7), ..Match::default() }),
            rule("net", Match { dst: prefix([10, 1, 0, 0], 16), ..Match::default() }),
            rule("host", Match { dst: prefix([10, 1, 2, 3], 32), ..Match::default() }),
            rule("from", Match { src: prefix([10, 9, 0, 0], 16), ..all(Direction::Both) }),
            rule("dscp", Match { dscp: Some(46), interfaces: vec![3], ..Match::default() }),
            rule("rest", all(Direction::In)),
        ]);
        let found = |src: [u8; 4], dst: [u8; 4], mark, is_in, traffic_class| {
            let mut packet = [0; 28];
            packet[..4].copy_from_slice(&[0x45, traffic_class, 0, 28]);
            packet[8..10].copy_from_slice(&[64, 17]);
            packet[12..16].copy_from_slice(&src);
            packet[16..20].copy_from_slice(&dst);
            let sum = wire::checksum::checksum(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            let h = wire::parse_ip(&packet).expect("packet");
            let limited = Limited { h: &h, ifindex: 3, mark, is_in, sa: None };
            rules.find(&limited).map(|rule| rule.limiter.name().to_owned())
        };
        let name = |name: &str| Some(name.to_owned());
        let (a, b) = ([10, 9, 0, 1], [10, 8, 0, 1]);
        assert_eq!(found(a, [10, 1, 2, 3], 7, false, 0), name("mark"));
        assert_eq!(found(a, [10, 1, 2, 3], 0, false, 0), name("net"));
        assert_eq!(found(a, [10, 2, 2, 3], 0, false, 184), name("from"));
        assert_eq!(found(a, [10, 1, 2, 3], 7, true, 0), name("from"));
        assert_eq!(found(b, [10, 2, 2, 3], 0, false, 184), name("dscp"));
        assert_eq!(found(b, [10, 2, 2, 3], 0, false, 0), None);
        assert_eq!(found(b, [10, 2, 2, 3], 0, true, 184), name("rest"));
    }
}
