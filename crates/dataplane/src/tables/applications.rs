//! Applications that flows are told apart by, and the packets of each.
//!
//! A worker asks with a flow's first packet. What it does not know then, a classifier learns from copies of the first
//! packets, and puts into [`Hints`], which all workers share.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::HashMap;
use std::sync::Arc;

use apps::{AppId, Catalogue, FlowId, Hints, Likely};
use arc_swap::ArcSwap;
use policy::PolicyCounters;
use wire::Headers;

/// Applications, what is known of flows, and counts.
#[derive(Debug)]
pub struct Applications {
    catalogue: Arc<Catalogue>,
    hints: Arc<Hints>,
    /// Packets that take no path.
    counters: Vec<PolicyCounters>,
    /// The others, by application and path.
    by_path: ArcSwap<HashMap<(AppId, Arc<str>), PolicyCounters>>,
    /// Flows by application whose first packet told it, as an operator has said.
    by_rule: Vec<AtomicU64>,
}

/// Knowledge of a flow's application with a packet at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It is decided.
    Decided(AppId),
    /// Its packets have to be looked at.
    Open,
}

/// Port of name servers: whatever they answer is looked at.
const DNS_PORT: u16 = 53;

impl Applications {
    /// Applications of which no packet was counted yet.
    pub fn new(catalogue: Arc<Catalogue>, hints: Arc<Hints>) -> Applications {
        let count = catalogue.all().len();
        let by_rule = (0..count).map(|_| AtomicU64::new(0)).collect();
        let counters = PolicyCounters::list(count as u32);
        Applications { catalogue, hints, counters, by_path: ArcSwap::default(), by_rule }
    }

    /// The applications by number and name.
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// Knowledge of flows, servers and addresses.
    pub fn hints(&self) -> &Arc<Hints> {
        &self.hints
    }

    /// Packets and bytes of an application that workers have counted, from each flow's verdict on.
    pub fn counted(&self, app: AppId) -> (u64, u64) {
        let own = self.counters.get(app.index()).map_or((0, 0), |c| (c.packets(), c.bytes()));
        self.by_path(app).fold(own, |sum, (_, packets, bytes)| (sum.0 + packets, sum.1 + bytes))
    }

    /// Paths that packets of an application have taken, each with packets and bytes.
    pub fn by_path(&self, app: AppId) -> impl Iterator<Item = (Arc<str>, u64, u64)> {
        let all = self.by_path.load_full();
        let of_app: Vec<_> = all
            .iter()
            .filter(|((of, _), _)| *of == app)
            .map(|((_, path), counters)| (Arc::clone(path), counters.packets(), counters.bytes()))
            .collect();
        of_app.into_iter()
    }

    /// Flows of an application whose first packet told it.
    pub fn flows_by_rule(&self, app: AppId) -> u64 {
        self.by_rule.get(app.index()).map_or(0, |flows| flows.load(Relaxed))
    }

    /// Knowledge of a flow, by a packet of it.
    pub(crate) fn known(&self, flow: &FlowId, dscp: u8, now_ns: u64) -> Known {
        if flow.ends().iter().any(|end| end.port == DNS_PORT) {
            return Known::Open;
        }
        if let Some(app) = self.hints.flow(flow, now_ns) {
            return Known::Decided(app);
        }
        let Some(app) = self.catalogue.of_first_packet(flow, dscp) else { return Known::Open };
        self.hints.learn_flow(flow, app, now_ns);
        if let Some(flows) = self.by_rule.get(app.index()) {
            flows.fetch_add(1, Relaxed);
        }
        Known::Decided(app)
    }

    /// Notes that packets of a flow come with other ends, too, if its application is known.
    pub(crate) fn also_known_as(&self, flow: &FlowId, other: &FlowId, now_ns: u64) {
        if let Some(app) = self.hints.flow(flow, now_ns) {
            self.hints.learn_flow(other, app, now_ns);
        }
    }

    /// The application that a packet's flow has, or most likely will have: by an answer that its client got, or by earlier
    /// flows to its server.
    pub(crate) fn expected(&self, h: &Headers, now_ns: u64) -> AppId {
        let (flow, src, dst) = FlowId::of(h);
        let decided = self.hints.flow(&flow, now_ns);
        let by_rule = || self.catalogue.of_first_packet(&flow, h.traffic_class >> 2);
        let likely = || self.hints.likely(flow.protocol, src, dst, now_ns).map(Likely::application);
        decided.or_else(by_rule).or_else(likely).unwrap_or(AppId::UNKNOWN)
    }

    /// Counters of an application's packets that take a path, or none. Allocates with the first flow of each pair; past
    /// [`MOST_PAIRS`] pairs packets count as those that take no path.
    pub(crate) fn counters(&self, app: AppId, path: Option<&Arc<str>>) -> Option<PolicyCounters> {
        let own = || self.counters.get(app.index()).cloned();
        let Some(path) = path else { return own() };
        let key = (app, Arc::clone(path));
        let all = self.by_path.load();
        if let Some(known) = all.get(&key) {
            return Some(known.clone());
        }
        if all.len() >= MOST_PAIRS {
            return own();
        }
        let fresh = PolicyCounters::list(1).pop()?;
        // Another worker may have been first.
        self.by_path.rcu(|all| {
            let mut all = HashMap::clone(all);
            all.entry(key.clone()).or_insert_with(|| fresh.clone());
            all
        });
        self.by_path.load().get(&key).cloned()
    }
}

/// Pairs of application and path that are counted apart at most.
const MOST_PAIRS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use policy::WorkerIndex;

    #[test]
    fn packets_count_by_path_and_in_all() {
        let catalogue = Arc::new(Catalogue::new(Vec::new()).expect("a catalogue"));
        let app = catalogue.all().next().expect("one is built in").0;
        let applications = Applications::new(catalogue, Arc::new(Hints::new(64)));
        let count = |path: Option<&Arc<str>>| {
            let counters = applications.counters(app, path).expect("there is room");
            counters.count(WorkerIndex::new(0).expect("there is one"), 1, 100, 1);
        };
        let (fibre, lte): (Arc<str>, Arc<str>) = ("fibre".into(), "lte".into());
        [None, Some(&fibre), Some(&fibre), Some(&lte)].into_iter().for_each(count);
        assert_eq!(applications.counted(app), (4, 400));
        let mut by_path: Vec<_> = applications.by_path(app).collect();
        by_path.sort();
        assert_eq!(by_path, [(fibre, 2, 200), (lte, 1, 100)]);
        for n in 0..MOST_PAIRS {
            count(Some(&format!("path-{n}").into()));
        }
        let (packets, _) = applications.counted(app);
        assert_eq!(packets, 4 + MOST_PAIRS as u64, "no packet is lost without room");
        assert_eq!(applications.by_path(app).count(), MOST_PAIRS);
    }
}
