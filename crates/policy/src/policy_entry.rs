//! A policy in the database: configuration, precomputed outbound treatment, and counters.

use crate::counters::{OwnCounters, PolicyCounters, WorkerIndex};
use crate::flow::Flow;
use crate::model::{Action, MAX_BUNDLE, PolicyConfig, Scope, Template};

/// The place of a policy among all of its direction: the smallest that matches decides.
///
/// Linux's order: those of devices, then priority, and of two policies of one priority the older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) priority: u32,
    /// Order of insertion, from [`Rank::FIRST_AGE`] on.
    pub(crate) age: u64,
}

impl Rank {
    /// The age of the first policy of all. Those of devices have smaller ones, made of priority and age, and 0 for a
    /// priority: so a look-up has no more to compare.
    pub(crate) const FIRST_AGE: u64 = 1 << 62;

    /// Rank of a policy of this age: by its priority first.
    pub(crate) fn of(config: &PolicyConfig, age: u64) -> Rank {
        match config.flags.device {
            None => Rank { priority: config.priority, age },
            Some(_) => {
                let order = age & ((1 << DEVICE_AGE_BITS) - 1);
                Rank { priority: 0, age: u64::from(config.priority) << DEVICE_AGE_BITS | order }
            }
        }
    }

    /// Behind every policy.
    pub(crate) const LAST: Rank = Rank { priority: u32::MAX, age: u64::MAX };
}

/// Treatment of a packet that leaves under the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Block,
    Bypass,
    /// Left to Linux.
    Leave,
    /// By this one template: a copy, so that a look-up need not go to the list.
    Protect(Template),
    /// By all of its templates, one after the other.
    ProtectAll,
    /// Not possible for culvert: IPComp without protection around it, too many templates, or a
    /// selector that it cannot evaluate.
    Unsupported,
}

/// One policy, shared between the control thread and the workers by `Arc`.
///
/// In this order, so that a look-up reads three cache lines in a row. Aligned to a line, so that
/// policies lie side by side (see [`mem::Allocator`]).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct PolicyEntry {
    pub(crate) rank: Rank,
    /// As the owner described it.
    pub config: PolicyConfig,
    pub(crate) treatment: Treatment,
    counters: OwnCounters,
}

const _: () = assert!(size_of::<PolicyEntry>() <= 5 * mem::LINE_LEN);

impl PolicyEntry {
    pub(crate) fn new(config: PolicyConfig, rank: Rank, counters: OwnCounters) -> PolicyEntry {
        let treatment = match (config.action, config.templates.as_slice()) {
            (Action::Block, _) => Treatment::Block,
            (Action::Leave, _) => Treatment::Leave,
            (Action::Allow, []) => Treatment::Bypass,
            (Action::Allow, [template]) if protects(template) => Treatment::Protect(*template),
            (Action::Allow, all) if all.len() <= MAX_BUNDLE && are_carried(all) => {
                Treatment::ProtectAll
            }
            (Action::Allow, _) => Treatment::Unsupported,
        };
        PolicyEntry { rank, treatment, config, counters }
    }

    /// The conditions that packets must meet for this policy.
    pub fn scope(&self) -> Scope {
        self.config.scope()
    }

    /// True if the policy asks for what the data path cannot do (IPComp without protection around
    /// it, too many templates). Such traffic is blocked outbound, and the owner should be told.
    pub fn is_unsupported(&self) -> bool {
        self.treatment == Treatment::Unsupported
    }

    /// True if the policy is for the packet: selector, mark and XFRM interface.
    ///
    /// Where the selector names an interface and the packet's is not known, a policy that protects,
    /// blocks or is left to Linux is taken to match and one that lets pass is not, so that nothing leaks.
    pub(crate) fn matches(&self, flow: &Flow<'_>) -> bool {
        self.config.if_id == flow.if_id
            && self.config.mark.matches(flow.mark)
            && flow.is_selected(&self.config.selector, self.treatment != Treatment::Bypass)
    }

    /// The policy's counters, for a flow's plan: it counts without another look-up.
    pub fn counters(&self) -> &PolicyCounters {
        self.counters.get()
    }

    /// Counts packets that the policy decided, at wall-clock second `now_s`. One thread for each
    /// worker's index.
    #[inline]
    pub fn count(&self, worker: WorkerIndex, packets: u64, bytes: u64, now_s: u64) {
        self.counters().count(worker, packets, bytes, now_s);
    }

    /// Packets that the policy decided, of all workers.
    pub fn packets(&self) -> u64 {
        self.counters().packets()
    }

    /// Bytes that the policy decided, of all workers.
    pub fn bytes(&self) -> u64 {
        self.counters().bytes()
    }

    /// Wall-clock second of the last use, 0 for never (Linux's `curlft.use_time`).
    pub fn last_use_s(&self) -> u64 {
        self.counters().last_use_s()
    }
}

/// Bits of the age that order policies of a device that have one priority.
const DEVICE_AGE_BITS: u32 = 29;

/// True if the data path can carry out the templates: IPComp comes first, before all protection,
/// and is never alone.
fn are_carried(templates: &[Template]) -> bool {
    let rest = match templates {
        [first, rest @ ..] if is_ipcomp(first) => rest,
        all => all,
    };
    !rest.is_empty() && rest.iter().all(protects)
}

fn protects(template: &Template) -> bool {
    matches!(template.protocol, wire::protocol::ESP | wire::protocol::AH)
}

/// True if a template asks for compression.
pub(crate) fn is_ipcomp(template: &Template) -> bool {
    template.protocol == wire::protocol::IPCOMP
}
