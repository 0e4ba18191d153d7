//! Path selection (`[[steer]]`): from the configuration and measured qualities to the rules that workers read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::paths::Removal;
use apps::AppId;
use config::{PathConfig, SteerConfig};
use dataplane::{ClearExit, PathExit, SteerRule, Steering};
use mirror::Snapshot;
use selection::{Quality, Selector, Standing};

use super::copies::{AllStreams, Refused, Second, Told, parity, replication, second};
use super::sources::source_of;

/// An index that no interface has.
pub(super) const NO_INTERFACE: u32 = u32::MAX;

/// The rules, each with the state of its paths.
#[derive(Default)]
pub struct PathSelection {
    paths: Vec<PathConfig>,
    /// Bits that the marks of packets have beside a path's, where Linux gets them back.
    own_mark: u32,
    pub(super) rules: Vec<(SteerConfig, Selector)>,
    /// As they were published: of each rule the index of the interface and the application that it names, and the exits of
    /// the paths.
    interfaces: Vec<Option<u32>>,
    applications: Vec<Option<AppId>>,
    exits: Vec<Option<PathExit>>,
    /// Of each rule the second path of its packets, or why there is none. `None`: it wants none.
    seconds: Vec<Option<Result<Second, Refused>>>,
    streams: AllStreams,
    is_new: bool,
    /// True if interfaces may be others than those that exits were found by.
    are_links_new: bool,
}

impl PathSelection {
    /// Follows another configuration. A rule keeps what it knows of its paths that stay the same, and their flows.
    pub fn follow(&mut self, rules: &[SteerConfig], paths: &[PathConfig], own_mark: u32) {
        self.own_mark = own_mark;
        if self.paths == paths && self.rules.iter().map(|(rule, _)| rule).eq(rules) {
            return;
        }
        let places = places_of(paths);
        let old_paths = std::mem::replace(&mut self.paths, paths.to_vec());
        let old_places = places_of(&old_paths);
        let mut old = HashMap::new();
        let seconds = std::mem::take(&mut self.seconds).into_iter().chain(std::iter::repeat(None));
        for ((rule, selector), second) in std::mem::take(&mut self.rules).into_iter().zip(seconds) {
            old.insert(rule.name.clone(), (rule, selector, second));
        }
        for rule in rules {
            let new = rule.rule(&places);
            let Some((old_rule, selector, second)) = old.get(&rule.name) else {
                self.rules.push((rule.clone(), Selector::new(new)));
                self.seconds.push(None);
                continue;
            };
            // By another class a path is measured otherwise.
            let is_same = |new: &PathConfig, old: &PathConfig| {
                new == old && rule.class_of(new) == old_rule.class_of(old)
            };
            let before = |at: u16| {
                let path = paths.get(usize::from(at))?;
                let before = *old_places.get(path.name.as_str())?;
                is_same(path, old_paths.get(usize::from(before))?).then_some(before)
            };
            let after = |at: u16| {
                let path = old_paths.get(usize::from(at))?;
                let after = *places.get(path.name.as_str())?;
                is_same(paths.get(usize::from(after))?, path).then_some(after)
            };
            let second = second.and_then(Result::ok).and_then(|second| {
                let path = after(second.path)?;
                Some(Ok(Second { path, ..second }))
            });
            self.rules.push((rule.clone(), Selector::in_place_of(selector, new, before)));
            self.seconds.push(second);
        }
        self.is_new = true;
    }

    /// Interfaces may have changed: where paths leave is found out anew.
    pub fn follow_links(&mut self) {
        self.are_links_new = true;
    }

    /// True if there is nothing to choose.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Judges all paths. `Some` if workers need other rules, with the names of those whose paths have changed.
    ///
    /// `quality` answers for a path, by its place, and a class of probes; `None` for one that is not measured yet.
    /// `consent` likewise, about removal of copies by its far end.
    pub fn update(
        &mut self,
        now: Duration,
        snapshot: &Snapshot,
        application: impl Fn(&str) -> Option<AppId>,
        quality: impl Fn(usize, u8) -> Option<Quality>,
        consent: impl Fn(usize, u8) -> Option<Removal>,
    ) -> Option<(Steering, Vec<String>)> {
        let mut is_other = std::mem::take(&mut self.is_new);
        if std::mem::take(&mut self.are_links_new) || is_other {
            let exits: Vec<_> =
                self.paths.iter().map(|path| exit(snapshot, path, self.own_mark)).collect();
            let interfaces: Vec<_> =
                self.rules.iter().map(|(rule, _)| interface(snapshot, rule)).collect();
            is_other |= exits != self.exits || interfaces != self.interfaces;
            (self.exits, self.interfaces) = (exits, interfaces);
        }
        // One that is not there is no flow's.
        let applications: Vec<_> = self
            .rules
            .iter()
            .map(|(rule, _)| {
                rule.application.as_deref().map(|name| application(name).unwrap_or(AppId::NONE))
            })
            .collect();
        is_other |= applications != self.applications;
        self.applications = applications;
        let PathSelection { exits, paths, rules, seconds, .. } = self;
        let mut changed = Vec::new();
        seconds.resize(rules.len(), None);
        for ((rule, selector), present) in rules.iter_mut().zip(seconds) {
            let of_path = |at: u16| {
                let at = usize::from(at);
                if exits.get(at).is_none_or(Option::is_none) {
                    return Some(Quality::default());
                }
                quality(at, rule.class_of(paths.get(at)?)?.0)
            };
            let has_moved = selector.update(now, of_path);
            let next = rule.is_numbered().then(|| {
                let first = selector.choice().takers().first().map(|taker| taker.path);
                let consent =
                    |at: u16| consent(at.into(), rule.class_of(paths.get(usize::from(at))?)?.0);
                if rule.parity > 0 {
                    return parity(first, consent);
                }
                let known = present.and_then(Result::ok).map(|second| second.path);
                let best = |may: &dyn Fn(u16) -> bool| selector.runner_up(known, of_path, may);
                second(first, best, consent)
            });
            let by = |second: &Option<Result<Second, Refused>>| second.and_then(Result::ok);
            if has_moved || by(&next) != by(present) {
                changed.push(rule.name.clone());
            }
            *present = next;
        }
        (is_other || !changed.is_empty()).then(|| (self.steering(), changed))
    }

    /// The rules as workers read them.
    fn steering(&mut self) -> Steering {
        let PathSelection {
            paths, rules, interfaces, applications, exits, seconds, streams, ..
        } = self;
        let mut replications = Vec::new();
        let mut copies_of = |(rule, selector): (&SteerConfig, &Selector),
                             second: &Option<Result<Second, Refused>>| {
            let Second { path: other, removal } = (*second)?.ok()?;
            let first = selector.choice().takers().first()?.path;
            let way = |at: u16| {
                let at = usize::from(at);
                Some((exits.get(at)?.as_ref()?, paths.get(at)?))
            };
            let number = u16::try_from(replications.len()).ok()?;
            replications.push(replication(streams.of(removal), rule, [way(first)?, way(other)?]));
            Some(number)
        };
        let rules = rules.iter().zip(interfaces).zip(applications).zip(seconds);
        let rules = rules.map(|((((rule, selector), interface), application), second)| SteerRule {
            name: rule.name.as_str().into(),
            matches: rule.packets().matches(*interface, *application),
            choice: selector.choice().clone(),
            copies: copies_of((rule, selector), second),
        });
        let rules = rules.collect();
        Steering::new(rules, exits.clone()).with_replications(replications)
    }

    /// Names of the paths that a rule's flows take, and then of that of their second copies.
    pub fn takers(&self, name: &str) -> Vec<String> {
        let of_rule = self.rules.iter().zip(&self.seconds).find(|((rule, _), _)| rule.name == name);
        let Some(((_, selector), second)) = of_rule else { return Vec::new() };
        let takers = selector.choice().takers().iter().map(|taker| taker.path);
        let first = selector.choice().takers().first().map(|taker| taker.path);
        let second = second.and_then(Result::ok).map(|second| second.path);
        takers
            .chain(second.filter(|second| first != Some(*second)))
            .map(|at| self.name(at).to_owned())
            .collect()
    }

    fn name(&self, at: u16) -> &str {
        self.paths.get(usize::from(at)).map_or("", |path| path.name.as_str())
    }

    /// Of each rule the path of second copies, or of parity, or why there are none; `None` of rules that want none.
    pub fn copies(&self) -> impl Iterator<Item = Option<Result<String, String>>> {
        let name = |at: u16| self.name(at);
        self.seconds.iter().map(move |second| {
            Some(match (*second)? {
                Ok(second) => Ok(name(second.path).to_owned()),
                Err(refused) => Err(Told(refused, &name).to_string()),
            })
        })
    }

    /// Each rule with its paths: name, standing, and weight among those that have flows.
    pub fn rules(&self) -> impl Iterator<Item = (&SteerConfig, Vec<(&str, Standing, u16)>)> {
        self.rules.iter().map(|(rule, selector)| {
            let paths = selector.standings().filter_map(|(at, standing)| {
                let name = self.paths.get(usize::from(at))?.name.as_str();
                let takers = selector.choice().takers().iter();
                let weight =
                    takers.filter(|taker| taker.path == at).map(|taker| taker.weight).sum();
                Some((name, standing, weight))
            });
            (rule, paths.collect())
        })
    }
}

/// Places of paths by their names.
fn places_of(paths: &[PathConfig]) -> HashMap<&str, u16> {
    paths.iter().map(|path| path.name.as_str()).zip(0..).collect()
}

/// Where a path's packets leave; `None` if its interface is not there, or down.
fn exit(snapshot: &Snapshot, path: &PathConfig, own_mark: u32) -> Option<PathExit> {
    let interface = path.tunnel.as_deref().or(path.uplink.as_deref())?;
    let link = snapshot.link_by_name(interface).filter(|link| link.up)?;
    let clear = match path.uplink {
        Some(_) => {
            let addresses = snapshot.addresses_of(link.index).map(|address| address.addr);
            Some(ClearExit {
                mark: routing_mark(path, own_mark),
                addresses: core::iter::once(source_of(path, snapshot)?).chain(addresses).collect(),
                prefixes: path.translated_to.iter().map(|prefix| prefix.0).collect(),
                is_translated: path.translated,
            })
        }
        None => None,
    };
    Some(PathExit { name: Arc::from(path.name.as_str()), ifindex: link.index, clear })
}

/// Mark by which Linux's rules lead out of a path's uplink, as Linux sees it on what culvert gives back.
pub(super) const fn routing_mark(path: &PathConfig, own_mark: u32) -> u32 {
    match path.mark {
        0 => 0,
        mark => mark | own_mark,
    }
}

/// The index of the interface that a rule names. One that is not there has an index that none has.
fn interface(snapshot: &Snapshot, rule: &SteerConfig) -> Option<u32> {
    let name = rule.interface.as_ref()?;
    Some(snapshot.link_by_name(name).map_or(NO_INTERFACE, |link| link.index))
}
