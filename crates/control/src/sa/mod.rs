//! SAs and policies: what follows from them for the guard, for MTUs and for those who ask for SAs.

pub mod asked;
pub mod by_sender;
pub mod early;
mod guarding;
pub mod inner_mtus;
pub mod left;
pub mod lifetimes;
pub mod path_mtus;
pub mod policies;
mod serve;
pub mod shortfall;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use config::PathMtuConfig;
use forward::path_mtu::PathMtuTable;
use guard::Guard;
use policy::PolicyEntry;
use report::Warning;

use self::by_sender::BySender;
use self::inner_mtus::InnerMtus;
use self::shortfall::Shortfalls;
use crate::clock::Now;
use crate::sources::Source;

/// SAs and policies, and what has followed them.
pub(super) struct Sas {
    pub(super) source: Source,
    /// The policies that guard, routes and steering have followed, by index.
    pub(super) followed: HashMap<u32, Arc<PolicyEntry>>,
    pub(super) guard: Guard,
    /// Trouble of the guard, which was logged.
    pub(super) guard_trouble: Option<Warning>,
    /// When the kernel is asked again if the guard's barriers still stand.
    pub(super) check_at: Instant,
    /// Policies that are not carried out, and which of them were logged.
    pub(super) shortfalls: Shortfalls,
    pub(super) inner_mtus: InnerMtus,
    pub(super) path_mtus: PathMtuTable,
    /// Gives what Linux sends to the worker of its CPU, where a policy has SAs for each.
    pub(super) by_sender: BySender,
    /// Changes of SAs up to the last round that has followed them.
    pub(super) sas_followed: u64,
}

impl Sas {
    /// A source whose policies nothing has followed yet, and the guard.
    pub(super) fn new(source: Source, guard: Guard, by_sender: BySender, now: Now) -> Sas {
        Sas {
            source,
            followed: HashMap::new(),
            guard,
            guard_trouble: None,
            check_at: now.at,
            shortfalls: Shortfalls::default(),
            inner_mtus: InnerMtus::default(),
            path_mtus: PathMtuTable::new(lifetime_ns(&PathMtuConfig::default())),
            by_sender,
            sas_followed: 0,
        }
    }
}

/// Time in ns for which a learnt path MTU is believed.
fn lifetime_ns(config: &PathMtuConfig) -> u64 {
    u64::from(config.lifetime_s) * 1_000_000_000
}
