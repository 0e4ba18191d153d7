//! Applications that flows are told apart by, and the packets of each.
//!
//! A worker asks with a flow's first packet. What it does not know then, a classifier learns from copies of the first
//! packets, and puts into [`Hints`], which all workers share.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use apps::{AppId, Catalogue, FlowId, Hints, Likely};
use policy::{PolicyCounters, WorkerIndex};
use wire::Headers;

/// Applications, what is known of flows, and counts.
#[derive(Debug)]
pub struct Applications {
    catalogue: Arc<Catalogue>,
    hints: Arc<Hints>,
    counters: Vec<PolicyCounters>,
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
        Applications { catalogue, hints, counters: PolicyCounters::list(count as u32), by_rule }
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
        self.counters.get(app.index()).map_or((0, 0), |c| (c.packets(), c.bytes()))
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

    /// The application that a packet's flow has, or most likely will have: by an answer that its client got, or by earlier
    /// flows to its server.
    pub(crate) fn expected(&self, h: &Headers, now_ns: u64) -> AppId {
        let (flow, src, dst) = FlowId::of(h);
        let decided = self.hints.flow(&flow, now_ns);
        let by_rule = || self.catalogue.of_first_packet(&flow, h.traffic_class >> 2);
        let likely = || self.hints.likely(flow.protocol, src, dst, now_ns).map(Likely::application);
        decided.or_else(by_rule).or_else(likely).unwrap_or(AppId::UNKNOWN)
    }

    /// Counters of an application.
    pub(crate) fn counters(&self, app: AppId) -> Option<&PolicyCounters> {
        self.counters.get(app.index())
    }

    /// Counts a packet with an application.
    pub(crate) fn count(&self, app: AppId, worker: WorkerIndex, bytes: u64, now_s: u64) {
        if let Some(counters) = self.counters(app) {
            counters.count(worker, 1, bytes, now_s);
        }
    }
}
