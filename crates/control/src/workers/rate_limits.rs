//! Rate limits (`[[limit]]`): from the configuration to what workers read, and back as reports.

use std::collections::HashMap;
use std::sync::Arc;

use apps::AppId;
use dataplane::{RateRule, RateRules, TrafficMatch};
use limit::{Algorithm, Class, Colour, Lanes, Limiter, Treatment, Unit, units};
use mirror::Snapshot;
use policy::Prefix;

use config::{LimitConfig, LimitEachOf};
use report::{
    Limit, LimitAlgorithm, LimitBucket, LimitBy, LimitClass, LimitColour, LimitEach,
    LimitTreatment, LimitWaiting, LimitWay,
};

/// The limiters, and what they were made from.
#[derive(Default)]
pub struct RateLimits {
    entries: Vec<LimitConfig>,
    /// Of each entry, the interfaces that it names.
    interfaces: Vec<Vec<u32>>,
    /// Of each entry, the application that it names.
    applications: Vec<Option<AppId>>,
    workers: usize,
    limiters: Vec<Arc<Limiter>>,
    /// Where the next limiters' lanes lie.
    lanes: Lanes,
    rules: Arc<RateRules>,
}

impl RateLimits {
    /// Rules for workers. What has not changed keeps its buckets; where nothing has, so do the rules.
    pub fn follow(
        &mut self,
        entries: &[LimitConfig],
        snapshot: &Snapshot,
        application: impl Fn(&str) -> Option<AppId>,
        (workers, now_ns): (usize, u64),
    ) -> Arc<RateRules> {
        if entries.is_empty() && self.entries.is_empty() {
            return Arc::clone(&self.rules);
        }
        let interfaces: Vec<_> = entries.iter().map(|entry| named(snapshot, entry)).collect();
        let named_by = |entry: &LimitConfig| entry.application.as_deref().map(&application);
        // One that is not there is no flow's.
        let applications: Vec<Option<AppId>> = entries
            .iter()
            .map(|entry| named_by(entry).map(|id| id.unwrap_or(AppId::NONE)))
            .collect();
        let is_same = self.entries == entries
            && self.interfaces == interfaces
            && self.applications == applications
            && self.workers == workers;
        if !is_same {
            self.limiters = self.make(entries, (workers, now_ns));
            let all = entries.iter().zip(&interfaces).zip(&applications).zip(&self.limiters);
            let rules = all.filter(|(((entry, _), _), _)| entry.is_about_packets());
            let rules = rules.map(|(((entry, interfaces), application), limiter)| RateRule {
                matches: matches(entry, interfaces, *application),
                each: entry.each(),
                limiter: Arc::clone(limiter),
            });
            self.rules = Arc::new(RateRules::new(rules.collect()));
            (self.entries, self.interfaces, self.workers) = (entries.to_vec(), interfaces, workers);
            self.applications = applications;
        }
        Arc::clone(&self.rules)
    }

    /// The limiters of entries, those of before where names are the same. The configuration is checked: parents are
    /// there, and in no loop.
    fn make(&mut self, entries: &[LimitConfig], at: (usize, u64)) -> Vec<Arc<Limiter>> {
        let RateLimits { limiters, lanes, .. } = self;
        let old: HashMap<&str, &Arc<Limiter>> =
            limiters.iter().map(|limiter| (limiter.name(), limiter)).collect();
        let mut made: HashMap<&str, Arc<Limiter>> = HashMap::new();
        // Each time those whose parents are there: as often as a hierarchy is deep.
        while made.len() < entries.len() {
            let before = made.len();
            for entry in entries {
                let parent = entry.parent.as_deref().map(|name| made.get(name).cloned());
                if made.contains_key(entry.name.as_str()) || matches!(parent, Some(None)) {
                    continue;
                }
                let (settings, parent) = (entry.settings(), parent.flatten());
                let limiter = match old.get(entry.name.as_str()) {
                    Some(old) => old.changed_among(lanes, settings, parent, at),
                    None => Limiter::among(lanes, &entry.name, settings, parent, at),
                };
                let limiter = limiter.with_each(entry.each.is_some());
                made.insert(&entry.name, Arc::new(limiter));
            }
            if made.len() == before {
                break;
            }
        }
        entries.iter().filter_map(|entry| made.get(entry.name.as_str()).cloned()).collect()
    }

    /// Settings and counts of all limiters.
    pub fn report(&self, now_ns: u64) -> Vec<Limit> {
        let all = self.entries.iter().zip(&self.limiters);
        all.map(|(entry, limiter)| row(entry, limiter, (self.workers, now_ns))).collect()
    }
}

/// The indices of the interfaces that an entry names. One that is not there has an index that none has.
fn named(snapshot: &Snapshot, entry: &LimitConfig) -> Vec<u32> {
    let by_name = entry
        .interface
        .as_ref()
        .map(|name| snapshot.link_by_name(name).map_or(u32::MAX, |link| link.index));
    let mut indices: Vec<u32> = by_name.into_iter().collect();
    if let Some(id) = entry.vlan {
        let is_its = |link: &&mirror::Link| link.vlan.as_ref().is_some_and(|vlan| vlan.id == id);
        indices.extend(snapshot.links().filter(is_its).map(|link| link.index));
        if indices.is_empty() {
            indices.push(u32::MAX);
        }
    }
    indices.sort_unstable();
    indices
}

fn matches(entry: &LimitConfig, interfaces: &[u32], application: Option<AppId>) -> TrafficMatch {
    TrafficMatch {
        if_id: entry.if_id,
        reqid: entry.reqid,
        peer: entry.peer.map(|addr| Prefix { addr, len: if addr.is_ipv4() { 32 } else { 128 } }),
        ..entry.packets().matches(interfaces.iter().copied(), application)
    }
}

fn row(entry: &LimitConfig, limiter: &Limiter, (workers, now_ns): (usize, u64)) -> Limit {
    let settings = limiter.settings();
    let (levels, counts) = (limiter.levels(now_ns), limiter.counts());
    let fills = [Some(settings.first()), settings.second()];
    let buckets = fills.into_iter().zip(levels).filter_map(|(fill, level)| {
        let fill = fill?;
        // Parts of tokens; flows and tunnels have theirs elsewhere.
        let left = level / 1_000_000_000;
        Some(LimitBucket {
            rate: units::show_rate(fill.rate, settings.unit),
            burst: units::show_burst(fill.burst, settings.unit),
            left: entry.each.is_none().then(|| units::show_burst(left, settings.unit)),
        })
    });
    let colour = |colour: Colour| LimitColour {
        packets: counts.packets.get(colour as usize).copied().unwrap_or_default(),
        bytes: counts.bytes.get(colour as usize).copied().unwrap_or_default(),
        becomes: match settings.treatments.of(colour) {
            Treatment::Pass => LimitTreatment::Pass,
            Treatment::Drop => LimitTreatment::Drop,
            Treatment::Mark(dscp) => LimitTreatment::Other(format!("dscp {dscp}")),
        },
    };
    Limit {
        name: entry.name.clone(),
        parent: entry.parent.clone(),
        algorithm: match settings.algorithm {
            Algorithm::Single(_) => LimitAlgorithm::Single,
            Algorithm::OneRate { .. } => LimitAlgorithm::OneRate,
            Algorithm::TwoRates { .. } => LimitAlgorithm::TwoRates,
            Algorithm::Differentiated { .. } => LimitAlgorithm::Differentiated,
        },
        aware: settings.is_aware,
        overhead: settings.overhead,
        direction: match entry.direction {
            config::Way::Out => LimitWay::Out,
            config::Way::In => LimitWay::In,
            config::Way::Both => LimitWay::Both,
        },
        about: entry.about(),
        each: entry.each.map(|each| match each {
            LimitEachOf::Flow => LimitEach::Flow,
            LimitEachOf::Tunnel => LimitEach::Tunnel,
        }),
        by: match entry.by {
            config::LimitBy::Leases => LimitBy::Leases,
            config::LimitBy::Atomic => LimitBy::Atomic,
        },
        // It may be a worker of before, until the next packet.
        home: limiter.home().filter(|worker| *worker < workers),
        buckets: buckets.collect(),
        green: colour(Colour::Green),
        yellow: colour(Colour::Yellow),
        red: colour(Colour::Red),
        queue: settings.queue.map(|of| units::show_burst(u64::from(of.bytes) * 8, Unit::Bits)),
        queue_packets: settings.queue.map(|of| of.packets),
        waiting: if settings.queue.is_some() { waiting(limiter) } else { Vec::new() },
    }
}

/// Packets that wait, by class.
fn waiting(limiter: &Limiter) -> Vec<LimitWaiting> {
    let all = Class::ALL.into_iter().zip(limiter.waited());
    all.map(|(class, of)| LimitWaiting {
        class: match class {
            Class::Urgent => LimitClass::Urgent,
            Class::Assured => LimitClass::Assured,
            Class::Usual => LimitClass::Usual,
            Class::Lesser => LimitClass::Lesser,
        },
        now: of.now,
        gone: of.gone,
        dropped: of.dropped,
        total_us: of.total_ns / 1000,
        mean_us: of.mean_ns() / 1000,
        longest_us: of.longest_ns / 1000,
    })
    .collect()
}
