//! The databases: requests in, answers, notifications and changes out.
//!
//! Pure logic: time is an argument, the data path a [`Backend`], and nothing is sent here. One
//! thread owns it. A request that fails has changed nothing.

mod aevent;
mod call;
mod companion;
mod convert;
mod direction;
mod dump;
mod emit;
mod envelope;
mod expiry;
mod fields;
mod flush;
mod info;
mod iptfs;
mod larval;
mod learn;
mod lifetime;
mod migrate;
mod migrate_state;
mod negotiations;
mod offload;
mod output;
mod pending;
mod policies;
mod record;
mod request;
mod sad;
mod sas;
mod spd;
mod verify;

use core::net::IpAddr;
use std::collections::HashMap;
use std::hash::RandomState;

use policy::Action;

pub use envelope::Sender;
pub use larval::{Acquired, Flow};
pub use learn::{KernelNumbers, LearntPolicy, LearntSa, Wanted};
pub use negotiations::GivenBack;
pub use output::{Change, Group, Output, RecordKey};
pub use pending::{Dump, Flush};

use crate::backend::Backend;
use crate::codec::{LifetimeConfig, SpdThreshold};
use lifetime::Timers;
use sad::Sad;
use spd::Spd;

/// Settings of the databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a larval SA waits for its keys, in seconds (Linux's `xfrm_acq_expires`; 165 is
    /// what strongSwan sets).
    pub acquire_timeout_s: u32,
    /// How many CPUs SAs can be for (`XFRMA_SA_PCPU`): those that the host could have.
    pub cpus: u32,
    /// How long the same mapping message of one SA is held back, in seconds, unless the SA says
    /// otherwise (`XFRMA_MTIMER_THRESH`).
    pub mapping_interval_s: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { acquire_timeout_s: 165, cpus: MAX_CPUS, mapping_interval_s: 10 }
    }
}

/// Where nothing else is said: Linux's limit (`CONFIG_NR_CPUS`).
const MAX_CPUS: u32 = 8192;

/// Linux's SAD and SPD.
#[derive(Debug)]
pub struct Database<B> {
    backend: B,
    settings: Settings,
    sad: Sad,
    spd: Spd,
    timers: Timers,
    /// Actions for packets that no policy matches: in, out, forward.
    defaults: [Action; 3],
    thresholds: [SpdThreshold; 2],
    acquire_seq: u32,
    /// The policies for which larval SAs of a CPU wait.
    waiting_cpus: HashMap<u64, u32>,
    random: RandomState,
    random_counter: u64,
    given_back: GivenBack,
}

impl<B: Backend> Database<B> {
    /// Empty databases; whatever no policy matches passes, as in a fresh kernel.
    pub fn new(backend: B, settings: Settings) -> Self {
        Database {
            backend,
            settings,
            sad: Sad::default(),
            spd: Spd::default(),
            timers: Timers::default(),
            defaults: [Action::Allow; 3],
            thresholds: [
                SpdThreshold { local_bits: 32, remote_bits: 32 },
                SpdThreshold { local_bits: 128, remote_bits: 128 },
            ],
            acquire_seq: 0,
            waiting_cpus: HashMap::new(),
            random: RandomState::new(),
            random_counter: 0,
            given_back: GivenBack::default(),
        }
    }

    /// The data path.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The data path.
    pub fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    /// How many SAs there are, larval ones too.
    pub fn sa_count(&self) -> usize {
        self.sad.len()
    }

    /// An SA's keys, for who asks for them explicitly; zeroised when dropped.
    pub fn keys_of(&self, id: &policy::SaId) -> Option<crypto::Keys> {
        let (_, sa) = self.sad.find_exact(id)?;
        sa.config(0).ok().map(|(_, keys)| keys)
    }

    /// An SA's limits by volume and by time.
    pub fn limits_of(&self, id: &policy::SaId) -> Option<LifetimeConfig> {
        Some(self.sad.find_exact(id)?.1.info.limits.clone())
    }

    /// SPIs that were given back without an SA.
    pub fn given_back(&self) -> GivenBack {
        self.given_back
    }

    /// The SPI that has been reserved longest without an SA: its peer, and since when, in milliseconds of the
    /// monotonic clock.
    pub fn oldest_reservation(&self) -> Option<(IpAddr, u64)> {
        negotiations::oldest(&self.sad)
    }

    /// How many policies there are: in, out, forward.
    pub fn policy_counts(&self) -> [u32; 3] {
        self.spd.counts()
    }

    /// When [`Database::tick`] has something to do, in milliseconds of the monotonic clock.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.timers.next_ms()
    }
}
