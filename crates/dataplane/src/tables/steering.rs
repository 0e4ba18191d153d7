//! Path selection as packets meet it: which traffic takes which path.
//!
//! Routes decide whether a packet goes by a path at all, and rules which of the paths it takes: a rule is asked only
//! about packets that the routes lead to the interface of a path. So what is delivered on a network of this host, or
//! routed elsewhere, is never steered, however wide a rule is.
//!
//! A path is a tunnel interface, or an uplink whose packets leave in clear. `resolve::steer` has the rule by which
//! packets may go in clear at all.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::Arc;

use policy::Prefix;
use selection::Choice;

use crate::tables::replication::Replication;
use crate::tables::traffic::{About, Rules, Traffic, TrafficMatch};

/// Where the packets of a path leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathExit {
    /// Name of the path.
    pub name: Arc<str>,
    /// The tunnel interface, or the port of an uplink.
    pub ifindex: u32,
    /// Of an uplink how packets leave in clear. `None`: by a tunnel interface, whose policies protect them.
    pub clear: Option<ClearExit>,
}

/// How packets leave in clear by an uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClearExit {
    /// Mark by which rules of Linux's lead packets out of the uplink, in Linux and here.
    pub mark: u32,
    /// Addresses of the uplink, the path's own first. What Linux has translated to one of them leaves by it, whatever rules say.
    pub addresses: Box<[IpAddr]>,
    /// Prefixes of other addresses that Linux translates to there.
    pub prefixes: Box<[Prefix]>,
    /// True if Linux translates whatever leaves by it: a connection that has begun elsewhere cannot come here.
    pub is_translated: bool,
}

/// A rule, with the paths that are chosen at present.
#[derive(Clone, Debug)]
pub struct SteerRule {
    /// Name of the rule.
    pub name: Arc<str>,
    /// Conditions that packets must meet.
    pub matches: TrafficMatch,
    /// The paths that its flows take, as places among the exits. None stops them.
    pub choice: Choice,
    /// Number of the replication among [`Steering::with_replications`], if its flows travel in copies.
    pub copies: Option<u16>,
}

/// A rule in its place.
#[derive(Debug)]
struct Placed {
    rule: SteerRule,
    /// Counts up with each change of what the rule answers.
    version: u32,
}

impl About for Placed {
    fn matches(&self) -> &TrafficMatch {
        &self.rule.matches
    }
}

/// Rules whose answers a plan follows from, at the state that they were asked in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SteerStamp {
    /// No rule is about the packet.
    #[default]
    Free,
    /// One rule decides.
    Rule {
        /// Place of the rule.
        at: u32,
        /// Version of the rule then.
        version: u32,
    },
    /// Several: as many changes had there been of all of them.
    Several {
        /// The sum of all versions.
        changes: u32,
    },
}

/// Difference between two states of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SteerChange {
    /// All rules answer as they did.
    Same,
    /// Some rules answer otherwise: plans that follow from them do not hold.
    Answers,
    /// There are other rules or paths: no plan holds.
    Rules,
}

/// All rules, and all paths.
#[derive(Debug, Default)]
pub struct Steering {
    rules: Rules<Placed>,
    /// Changes of what the rules answer.
    changes: u32,
    /// The same number: the same rules and paths, whatever the rules answer.
    era: u32,
    exits: Vec<Option<PathExit>>,
    /// Interfaces of the paths that can be used, each with the place of its first path.
    ifindices: HashMap<u32, usize, ahash::RandomState>,
    replications: Vec<Replication>,
}

/// Answer of the first rule about a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steered<'s> {
    /// Name of the rule. `None`: the translation of its connection decides.
    pub(crate) rule: Option<&'s Arc<str>>,
    /// Where the packet leaves. `None`: the rule stops it.
    pub(crate) exit: Option<&'s PathExit>,
    /// Number of the replication, if the packet travels in copies.
    pub(crate) copies: Option<u16>,
    /// The rule, and its version.
    pub(crate) stamp: SteerStamp,
}

impl Steering {
    /// Rules, of which the first that is about a packet decides. `exits` are the paths by their index; `None` for one
    /// whose interface is not there, which no choice takes.
    pub fn new(rules: Vec<SteerRule>, exits: Vec<Option<PathExit>>) -> Steering {
        let mut ifindices = HashMap::default();
        for (at, exit) in exits.iter().enumerate() {
            if let Some(exit) = exit {
                ifindices.entry(exit.ifindex).or_insert(at);
            }
        }
        let rules = rules.into_iter().map(|rule| Placed { rule, version: 0 }).collect();
        let (changes, era, replications) = (0, 0, Vec::new());
        Steering { rules: Rules::new(rules), changes, era, exits, ifindices, replications }
    }

    /// The same, with how the flows of some rules travel in copies.
    pub fn with_replications(self, replications: Vec<Replication>) -> Steering {
        Steering { replications, ..self }
    }

    /// The same, in place of `old`. If these are the same rules and paths, plans are void only of the rules that answer
    /// otherwise.
    pub(crate) fn in_place_of(mut self, old: &Steering) -> Steering {
        let (now, before) = (self.rules.all(), old.rules.all());
        let is_same = |(a, b): (&Placed, &Placed)| {
            (&a.rule.name, &a.rule.matches) == (&b.rule.name, &b.rule.matches)
        };
        if now.len() != before.len()
            || !now.iter().zip(before).all(is_same)
            || self.exits != old.exits
        {
            self.era = old.era.wrapping_add(1);
            return self;
        }
        let versions = before.iter().enumerate().map(|(at, rule)| {
            let is_changed = self.answer(at) != old.answer(at);
            rule.version.wrapping_add(is_changed.into())
        });
        let versions: Vec<u32> = versions.collect();
        for (placed, version) in self.rules.all_mut().iter_mut().zip(versions) {
            placed.version = version;
        }
        (self.era, self.changes) = (old.era, old.changes.wrapping_add(1));
        self
    }

    /// All that a rule answers to the packets that it is about.
    fn answer(&self, at: usize) -> Option<(&Choice, Option<u16>, Option<&Replication>)> {
        let SteerRule { choice, copies, .. } = &self.rules.all().get(at)?.rule;
        Some((choice, *copies, copies.and_then(|number| self.replication(number))))
    }

    /// Difference from an older state of the rules.
    pub(crate) fn change_since(&self, old: &Steering) -> SteerChange {
        match (self.era == old.era, self.changes == old.changes) {
            (false, _) => SteerChange::Rules,
            (true, false) => SteerChange::Answers,
            (true, true) => SteerChange::Same,
        }
    }

    /// True if the rules that a plan follows from answer as they did.
    pub(crate) fn holds(&self, stamp: SteerStamp) -> bool {
        match stamp {
            SteerStamp::Free => true,
            SteerStamp::Rule { at, version } => {
                self.rules.all().get(at as usize).is_some_and(|rule| rule.version == version)
            }
            SteerStamp::Several { changes } => self.changes == changes,
        }
    }

    /// The stamp of a plan that follows from both.
    pub(crate) fn both(&self, one: SteerStamp, other: SteerStamp) -> SteerStamp {
        match (one, other) {
            (SteerStamp::Free, stamp) | (stamp, SteerStamp::Free) => stamp,
            (one, other) if one == other => one,
            _ => SteerStamp::Several { changes: self.changes },
        }
    }

    /// True if a path of this name leads out of an uplink in clear.
    pub fn is_in_clear(&self, name: &str) -> bool {
        self.exits.iter().flatten().any(|exit| *exit.name == *name && exit.clear.is_some())
    }

    /// True if any flow travels in copies.
    #[inline]
    pub(crate) fn has_replications(&self) -> bool {
        !self.replications.is_empty()
    }

    /// A replication by its number.
    pub(crate) fn replication(&self, number: u16) -> Option<&Replication> {
        self.replications.get(usize::from(number))
    }

    /// True if there are no paths to choose from.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ifindices.is_empty()
    }

    /// True if the routes lead to a path, so that a rule may choose another.
    #[inline]
    pub(crate) fn is_path(&self, ifindex: u32) -> bool {
        !self.ifindices.is_empty() && self.ifindices.contains_key(&ifindex)
    }

    /// The uplink that a connection belongs to whose packets Linux translates to this source.
    pub(crate) fn uplink_of(&self, src: IpAddr) -> Option<&PathExit> {
        let uplink = |is_of: &dyn Fn(&ClearExit) -> bool| {
            self.exits.iter().flatten().find(|exit| exit.clear.as_ref().is_some_and(is_of))
        };
        // Several uplinks may be one interface.
        uplink(&|clear| clear.addresses.first() == Some(&src))
            .or_else(|| uplink(&|clear| clear.addresses.contains(&src)))
            .or_else(|| uplink(&|clear| clear.prefixes.iter().any(|prefix| prefix.contains(src))))
    }

    /// The answer about a packet that the routes lead to a path. `None`: no rule is about it.
    pub(crate) fn steer(&self, packet: &Traffic<'_>) -> Option<Steered<'_>> {
        let (at, Placed { rule, version }) = self.rules.find_place(packet)?;
        let path = rule.choice.path(packet.flow_hash());
        let exit = path.and_then(|path| self.exits.get(usize::from(path))?.as_ref());
        let stamp = SteerStamp::Rule { at, version: *version };
        Some(Steered { rule: Some(&rule.name), exit, copies: rule.copies, stamp })
    }

    /// The first path that leaves by an interface.
    pub(crate) fn first_on(&self, ifindex: u32) -> Option<&PathExit> {
        self.exits.get(*self.ifindices.get(&ifindex)?)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use paths::Removal;
    use selection::Candidate;

    use super::*;
    use crate::tables::replication::{Beside, CopyWay, Streams};

    fn rules(paths: [u16; 2]) -> Steering {
        let rule = |(name, path): (&str, u16)| SteerRule {
            name: name.into(),
            matches: TrafficMatch::default(),
            choice: Choice::new([Candidate { path, lot: 0, weight: 1 }]),
            copies: None,
        };
        Steering::new(["a", "b"].into_iter().zip(paths).map(rule).collect(), Vec::new())
    }

    #[test]
    fn stamps_hold_while_their_rules_answer_the_same() {
        let first = rules([0, 0]).in_place_of(&Steering::default());
        let [a, b] = [0, 1].map(|at| SteerStamp::Rule { at, version: 0 });
        assert_eq!(first.both(a, SteerStamp::Free), a);
        assert_eq!(first.both(b, b), b);
        let several = first.both(a, b);
        assert!([SteerStamp::Free, a, b, several].iter().all(|stamp| first.holds(*stamp)));
        let second = rules([0, 1]).in_place_of(&first);
        assert_eq!(second.change_since(&first), SteerChange::Answers);
        let held = [SteerStamp::Free, a, b, several].map(|stamp| second.holds(stamp));
        assert_eq!(held, [true, true, false, false]);
        let third = rules([0, 0]).in_place_of(&second);
        assert!(!third.holds(b), "it has answered otherwise in between");
        let other = Steering::new(Vec::new(), Vec::new()).in_place_of(&third);
        assert_eq!(other.change_since(&third), SteerChange::Rules);
    }

    #[test]
    fn a_source_is_of_the_uplink_whose_own_it_is_before_all_others() {
        let addr = |last: u8| IpAddr::from([192, 0, 2, last]);
        let uplink = |name: &str, addresses: &[u8]| {
            let addresses = addresses.iter().map(|last| addr(*last)).collect();
            let prefixes = [].into();
            let clear = Some(ClearExit { mark: 1, addresses, prefixes, is_translated: true });
            Some(PathExit { name: name.into(), ifindex: 3, clear })
        };
        let steering =
            Steering::new(Vec::new(), vec![None, uplink("one", &[1, 2, 3]), uplink("two", &[2])]);
        let of = |last| steering.uplink_of(addr(last)).map(|exit| &*exit.name);
        assert_eq!([1, 2, 3, 4].map(of), [Some("one"), Some("two"), Some("one"), None]);
        assert_eq!(steering.first_on(3).map(|exit| &*exit.name), Some("one"));
    }

    #[test]
    fn plans_of_a_rule_end_when_its_copies_or_its_matches_are_others() {
        let streams = Arc::new(Streams::new(Removal { by: 1, label: 16, recovers: false }));
        let [src, dst] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let way = |ifindex| CopyWay { name: "path".into(), ifindex, src, dst };
        let to = |ifindex| Replication {
            streams: Arc::clone(&streams),
            way: way(1),
            beside: Beside::Copy(way(ifindex)),
        };
        let rule = |dscp, copies| SteerRule {
            name: "a".into(),
            matches: TrafficMatch { dscp, ..TrafficMatch::default() },
            choice: Choice::new([Candidate { path: 0, lot: 0, weight: 1 }]),
            copies: Some(copies),
        };
        let of = |rule, ways: [u32; 2]| {
            Steering::new(vec![rule], Vec::new()).with_replications(ways.map(to).into())
        };
        let first = of(rule(None, 0), [2, 3]).in_place_of(&Steering::default());
        let stamp = SteerStamp::Rule { at: 0, version: 0 };
        let holds = |next: Steering| next.in_place_of(&first).holds(stamp);
        assert!(holds(of(rule(None, 0), [2, 3])));
        assert!(!holds(of(rule(None, 0), [3, 3])), "another way");
        assert!(!holds(of(rule(None, 1), [3, 2])), "the same ones in another place");
        let other = of(rule(Some(46), 0), [2, 3]).in_place_of(&first);
        assert_eq!(other.change_since(&first), SteerChange::Rules);
    }
}
