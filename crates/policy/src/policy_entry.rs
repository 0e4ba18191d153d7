//! A policy in the database: configuration, precomputed outbound treatment, and counters.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::flow::Flow;
use crate::model::{Action, PolicyConfig, Template};

/// The place of a policy among all of its direction: the smallest that matches decides.
///
/// Linux's order: priority first, and of two policies of one priority the older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) priority: u32,
    /// Order of insertion.
    pub(crate) age: u64,
}

impl Rank {
    /// Behind every policy.
    pub(crate) const LAST: Rank = Rank { priority: u32::MAX, age: u64::MAX };
}

/// What the policy means for a packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Block,
    Bypass,
    /// One ESP template, the first.
    Protect,
    /// Templates that culvert cannot apply: AH, IPComp, or more than one.
    Unsupported,
}

/// One policy, shared between the control thread and the workers by `Arc`.
#[derive(Debug)]
pub struct PolicyEntry {
    /// As the owner described it.
    pub config: PolicyConfig,
    pub(crate) rank: Rank,
    pub(crate) treatment: Treatment,
    packets: AtomicU64,
    bytes: AtomicU64,
    first_use_s: AtomicU64,
    last_use_s: AtomicU64,
}

impl PolicyEntry {
    pub(crate) fn new(config: PolicyConfig, age: u64) -> PolicyEntry {
        let treatment = match (config.action, config.templates.as_slice()) {
            (Action::Block, _) => Treatment::Block,
            (Action::Allow, []) => Treatment::Bypass,
            (Action::Allow, [Template { protocol: ESP, .. }]) => Treatment::Protect,
            (Action::Allow, _) => Treatment::Unsupported,
        };
        PolicyEntry {
            rank: Rank { priority: config.priority, age },
            treatment,
            config,
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            first_use_s: AtomicU64::new(0),
            last_use_s: AtomicU64::new(0),
        }
    }

    /// Whether the policy protects, but in a way that the data path cannot do (AH, IPComp, several
    /// templates): such traffic is blocked outbound, and the owner should be told.
    pub fn is_unsupported(&self) -> bool {
        self.treatment == Treatment::Unsupported
    }

    /// Whether the policy is for the packet: selector, mark and XFRM interface.
    ///
    /// Where the selector names an interface and the packet's is not known, a policy that protects
    /// or blocks is taken to match and one that lets pass is not, so that nothing leaks.
    pub(crate) fn matches(&self, flow: &Flow<'_>) -> bool {
        self.config.if_id == flow.if_id
            && self.config.mark.matches(flow.mark)
            && flow.is_selected(&self.config.selector, self.treatment != Treatment::Bypass)
    }

    /// Counts packets that the policy decided, at wall-clock second `now_s`.
    ///
    /// Several workers may count at once; a worker that counts a burst at a time contends less.
    pub fn count(&self, packets: u64, bytes: u64, now_s: u64) {
        self.packets.fetch_add(packets, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        if self.first_use_s.load(Relaxed) == 0 {
            // The first of several workers wins; the loser's second is the same or later.
            let _ = self.first_use_s.compare_exchange(0, now_s, Relaxed, Relaxed);
        }
        if self.last_use_s.load(Relaxed) < now_s {
            self.last_use_s.fetch_max(now_s, Relaxed);
        }
    }

    /// Packets decided.
    pub fn packets(&self) -> u64 {
        self.packets.load(Relaxed)
    }

    /// Bytes decided.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Wall-clock second of the first use, 0 for never.
    pub fn first_use_s(&self) -> u64 {
        self.first_use_s.load(Relaxed)
    }

    /// Wall-clock second of the last use, 0 for never (Linux's `curlft.use_time`).
    pub fn last_use_s(&self) -> u64 {
        self.last_use_s.load(Relaxed)
    }
}

/// IP protocol ESP.
const ESP: u8 = 50;
