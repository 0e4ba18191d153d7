//! Which rate limits packets are under.
//!
//! A packet is under the first rule that is about it, and under the limiters above that one. The limiters themselves
//! are [`limit`]'s.

use std::sync::Arc;

use limit::{Level, Limiter};

use crate::tables::traffic::{About, Rules, Traffic, TrafficMatch, hasher};

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

/// A rate limit, and the packets that are under it.
#[derive(Clone, Debug)]
pub struct RateRule {
    /// Conditions that packets must meet.
    pub matches: TrafficMatch,
    /// Sharing of the buckets.
    pub each: Each,
    /// The limiter, and those above it.
    pub limiter: Arc<Limiter>,
}

impl About for RateRule {
    fn matches(&self) -> &TrafficMatch {
        &self.matches
    }
}

/// The rate limits in their order.
#[derive(Debug, Default)]
pub struct RateRules {
    rules: Rules<RateRule>,
    /// True if any rule names a DSCP.
    has_dscps: bool,
}

impl RateRules {
    /// Rules, of which a packet is under the first that it meets.
    pub fn new(rules: Vec<RateRule>) -> RateRules {
        let has_dscps = rules.iter().any(|rule| rule.matches.dscp.is_some());
        RateRules { rules: Rules::new(rules), has_dscps }
    }

    /// True if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules().is_empty()
    }

    /// The rules in order.
    pub fn rules(&self) -> &[RateRule] {
        self.rules.all()
    }

    /// True if packets of one flow may be under different rules: those of different DSCPs.
    pub(crate) fn has_dscps(&self) -> bool {
        self.has_dscps
    }

    /// The first rule about a packet.
    pub(crate) fn find(&self, packet: &Traffic<'_>) -> Option<&RateRule> {
        self.rules.find(packet)
    }

    /// True if a limiter with these buckets is still among the rules.
    pub(crate) fn has(&self, level: &Level) -> bool {
        self.rules().iter().any(|rule| level.is_of(&rule.limiter))
    }
}

impl Each {
    /// Key of a packet's buckets among those of the rule; 0 where all packets share them.
    pub(crate) fn key(self, packet: &Traffic<'_>) -> u64 {
        let Traffic { is_in, sa, .. } = packet;
        match (self, sa) {
            (Each::All, _) => 0,
            (Each::Flow, _) => packet.flow_hash(),
            (Each::Tunnel, Some(sa)) => {
                let config = &sa.config;
                let ends = (config.params.src, config.params.dst);
                hasher().hash_one((is_in, ends, config.reqid, config.if_id, config.cpu))
            }
            (Each::Tunnel, None) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use limit::Settings;
    use policy::Prefix;

    use super::*;
    use crate::tables::traffic::TrafficDirection as Direction;

    fn rule(name: &str, matches: TrafficMatch) -> RateRule {
        let settings = Settings::single(1_000_000, 15_000);
        let limiter = Arc::new(Limiter::new(name, settings, None, (1, 0)));
        RateRule { matches, each: Each::All, limiter }
    }

    fn prefix(addr: [u8; 4], len: u8) -> Option<Prefix> {
        Some(Prefix { addr: addr.into(), len })
    }

    #[test]
    fn the_first_rule_about_a_packet_decides_however_it_is_found() {
        let all = |direction| TrafficMatch { direction, ..TrafficMatch::default() };
        let rules = RateRules::new(vec![
            rule("mark", TrafficMatch { mark: Some(7), ..TrafficMatch::default() }),
            rule("net", TrafficMatch { dst: prefix([10, 1, 0, 0], 16), ..TrafficMatch::default() }),
            rule(
                "host",
                TrafficMatch { dst: prefix([10, 1, 2, 3], 32), ..TrafficMatch::default() },
            ),
            rule("from", TrafficMatch { src: prefix([10, 9, 0, 0], 16), ..all(Direction::Both) }),
            rule(
                "dscp",
                TrafficMatch { dscp: Some(46), interfaces: vec![3], ..TrafficMatch::default() },
            ),
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
            let limited = Traffic { h: &h, ifindex: 3, mark, is_in, sa: None, application: None };
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
