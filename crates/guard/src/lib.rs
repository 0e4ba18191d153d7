//! Kernel policies that keep protected traffic from leaving in clear while no daemon runs.
//!
//! With the built-in database nothing but culvert can encrypt. When it dies, its XDP programs are
//! detached and the kernel would route protected packets in clear. So every policy that culvert
//! serves is installed in the kernel too, as a [`Barrier`]: it blocks what the policy protects and
//! passes what the policy lets pass. Packets that culvert handles never meet a barrier: they go from
//! port to port past the stack, or through the private interface, which is exempt.
//!
//! ```text
//!   policies ──> set, change ──> wanted ──┐
//!   default actions ──────────────────────┤
//!   [guard] prefixes ─────────────────────┤ settle: additions come before removals
//!                                         v
//!       guard.json <── standing ──> IPv4: XFRM policies of action block or allow
//!                                   IPv6: sets and rules of nftables
//! ```
//!
//! Barriers are kernel XFRM policies, which need no ESP in the kernel and survive the process.
//! **IPv6** is the exception. What exempts the private interface from policies exists for IPv4
//! alone: Linux has no `disable_xfrm` for IPv6, and its `disable_policy` goes by the interface that
//! owns the address, not by the one that a packet came in by. So the barriers for IPv6 are nftables
//! rules, which exempt the private interface by name.
//!
//! | | |
//! | --- | --- |
//! | [`Barrier`], [`Effect`] | a selector, a direction, and whether it blocks or passes |
//! | [`Guard::set_defaults`] | directions in which packets that no policy is about are blocked |
//! | [`Guard::set`] | installs exactly these barriers, whatever the kernel has: after a start |
//! | [`Guard::change`], [`Guard::settle`] | one policy was added or removed; the cost does not depend on how many there are |
//! | [`Guard::check`] | reinstalls what somebody flushed |
//! | [`apply`] | has `nft` carry out a ruleset, for others as well |
//! | [`Guard::finish`], [`Guard::clear`] | at the end: completes what was put off, or removes everything |
//!
//! `guard.json` lists the installed barriers. It is written before a barrier is installed and after
//! one was removed, so the next process (a restarted daemon, `culvert guard clear`) misses none.
//!
//! # Example
//!
//! ```
//! use guard::{Barrier, Effect, Guard, GuardError};
//! use policy::Prefix;
//! use std::path::Path;
//!
//! let protected = Prefix { addr: [10, 2, 0, 0].into(), len: 16 };
//! // To the prefix, and from it: for this host, and forwarded.
//! let barriers = Barrier::of_prefix(protected);
//! assert!(barriers.iter().all(|barrier| barrier.effect() == Effect::Block));
//! // The lowest priority: a policy that lets traffic pass comes first.
//! assert!(barriers.iter().all(|barrier| barrier.priority() == u32::MAX));
//!
//! /// Needs CAP_NET_ADMIN and a kernel with CONFIG_XFRM_USER.
//! fn block_until_policies_come(prefix: Prefix) -> Result<(), GuardError> {
//!     let mut guard = Guard::open("default", "culvert0", Path::new("/run/culvert/default"))?;
//!     guard.add_prefixes(&[prefix])?;
//!     guard.finish()
//! }
//! ```
//!
//! # Threads
//!
//! One owner for each instance: the daemon's control thread, or a command while no daemon runs.
//! Requests to the kernel wait for its answer, and those for IPv6 for the program `nft`.
//!
//! # When something fails
//!
//! The rest is tried all the same. A barrier that the kernel refused is tried again by
//! [`Guard::settle`] when [`Guard::due`] says so; [`Guard::is_complete`] is false meanwhile.
//!
//! # Not handled
//!
//! Without `nft` IPv6 is not guarded. Between early boot and the first policy only prefixes that
//! are configured are blocked.
#![forbid(unsafe_code)]

mod barrier;
#[cfg(test)]
mod cases;
mod classes;
mod defaults;
mod kernel;
mod list;
mod netfilter;
#[cfg(test)]
mod properties;
mod standing;
#[cfg(test)]
mod testing;
mod threshold;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use policy::{Direction, PolicyConfig, Prefix, Selector};
use thiserror::Error;

pub use barrier::{Barrier, Effect};
pub use defaults::Defaults;
use kernel::{KernelPolicies, Listing};
use list::{List, Step};
use netfilter::Netfilter;
pub use netfilter::apply;
use standing::Standing;
use threshold::{Chooser, FRESH, Threshold, choose};

/// Why a barrier could not be installed or removed.
#[derive(Debug, Error)]
pub enum GuardError {
    /// The kernel's XFRM socket cannot be used.
    #[error(
        "NETLINK_XFRM: {0}\n  the guard needs CAP_NET_ADMIN and a kernel with CONFIG_XFRM_USER"
    )]
    Socket(io::Error),
    /// The kernel refused a policy.
    #[error("the kernel refused the guard's policy `{barrier}`: {source}")]
    Refused {
        /// The policy's barrier.
        barrier: Barrier,
        /// The kernel's answer.
        source: io::Error,
    },
    /// `nft` failed or is missing.
    #[error("IPv6 guard: nft: {0}\n  install the package nftables, or IPv6 is not guarded")]
    Netfilter(String),
    /// The list cannot be kept.
    #[error("{path}: {source}")]
    List {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The barriers of one instance, in the network namespace of the process.
///
/// One at a time for each instance: the daemon, or a command while no daemon runs.
#[derive(Debug)]
pub struct Guard {
    list: List,
    /// Wanted barriers by identity. The kernel holds one policy for each identity: the first in
    /// order.
    wanted: HashMap<Barrier, Vec<Barrier>>,
    /// Directions in which packets that no policy is about are blocked.
    defaults: Defaults,
    standing: Standing,
    /// Identities to compare with what is installed.
    touched: HashSet<Barrier>,
    /// Identities whose barrier the kernel refused.
    refused: HashSet<Barrier>,
    retry_at: Option<Instant>,
    kernel: KernelPolicies,
    /// The kernel's hash threshold before the first barrier, and the present one.
    threshold: (Threshold, Threshold),
    chooser: Chooser,
    netfilter: Netfilter,
}

impl Guard {
    /// Takes over the barriers listed in `directory`, which must exist.
    ///
    /// `tun` is the private interface, which is exempt.
    ///
    /// # Errors
    /// When the list cannot be read, or the kernel has no XFRM.
    pub fn open(instance: &str, tun: &str, directory: &Path) -> Result<Guard, GuardError> {
        let path = directory.join("guard.json");
        let (list, standing) =
            List::open(path.clone()).map_err(|source| GuardError::List { path, source })?;
        let mut kernel = KernelPolicies::open().map_err(GuardError::Socket)?;
        let holds = kernel.threshold().unwrap_or(FRESH);
        // Beside barriers of ours the threshold is most likely ours too.
        let before = if standing.is_empty() { holds } else { FRESH };
        Ok(Guard {
            list,
            wanted: HashMap::new(),
            defaults: Defaults::default(),
            standing: standing.into_values().collect(),
            touched: HashSet::new(),
            refused: HashSet::new(),
            retry_at: None,
            kernel,
            threshold: (before, holds),
            chooser: Chooser::default(),
            netfilter: Netfilter::new(instance, tun),
        })
    }

    /// No barrier stops what goes to or comes from these interfaces of culvert's, beside the private one;
    /// [`Guard::set`] acts on it. For IPv4 their settings say so.
    pub fn spare(&mut self, interfaces: impl IntoIterator<Item = String>) {
        self.netfilter.spare(interfaces);
    }

    /// The installed barriers.
    pub fn standing(&self) -> impl ExactSizeIterator<Item = &Barrier> {
        self.standing.all()
    }

    /// The barrier that decides about packets of a direction that have this mark and that selectors match, as
    /// `matches` says.
    pub fn met(
        &self,
        direction: Direction,
        mark: u32,
        matches: impl Fn(&Selector) -> bool,
    ) -> Option<&Barrier> {
        let is_marked = |barrier: &&Barrier| {
            let (value, mask) = barrier.mark();
            mark & mask == value
        };
        let number = direction_number(direction);
        let of_direction = self.standing.all().filter(|b| b.direction() == number);
        of_direction.filter(is_marked).filter(|b| matches(&b.selector())).min_by_key(|b| b.rank())
    }

    /// How many of the listed barriers the kernel of this network namespace has: those of an instance in another
    /// one are listed too.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn present(&mut self) -> Result<usize, GuardError> {
        let listing = self.kernel.listing().map_err(GuardError::Socket)?;
        let has_rules = self.netfilter.is_there();
        let is_there = |b: &&Barrier| if b.is_netfilter() { has_rules } else { listing.has(b) };
        Ok(self.standing.all().filter(is_there).count())
    }

    /// How many barriers are kernel policies, which Linux counts the packets of.
    pub fn policies(&self) -> usize {
        self.standing.policies()
    }

    /// Installs exactly the barriers of these policies, and of these prefixes, to and from which
    /// all traffic needs protection. The kernel is asked which of them it has: others may have
    /// changed its tables.
    ///
    /// Additions come before removals. The list is written before the first barrier is installed and
    /// after the last was removed, so that it never misses one.
    ///
    /// # Errors
    /// The first failure; everything else is tried all the same, and what failed is tried again
    /// by [`Guard::settle`].
    pub fn set<'a>(
        &mut self,
        policies: impl IntoIterator<Item = &'a PolicyConfig>,
        prefixes: &[Prefix],
    ) -> Result<(), GuardError> {
        self.wanted.clear();
        for barrier in policies.into_iter().filter_map(Barrier::of_policy) {
            self.want(barrier);
        }
        self.want_prefixes(prefixes);
        self.want_defaults(self.defaults);
        self.enforce()
    }

    /// The directions in which packets that no policy is about are blocked.
    pub fn defaults(&self) -> Defaults {
        self.defaults
    }

    /// Records in which directions packets that no policy is about are blocked; [`Guard::settle`], or
    /// [`Guard::set`], acts on it.
    pub fn set_defaults(&mut self, defaults: Defaults) {
        let before = std::mem::replace(&mut self.defaults, defaults);
        self.want_defaults(defaults);
        for direction in before.directions() {
            Barrier::of_default(direction).into_iter().for_each(|barrier| self.unwant(barrier));
        }
    }

    /// Records that a policy was added, removed or replaced; [`Guard::settle`] acts on it.
    pub fn change(&mut self, old: Option<&PolicyConfig>, new: Option<&PolicyConfig>) {
        if let Some(barrier) = old.and_then(Barrier::of_policy) {
            self.unwant(barrier);
        }
        if let Some(barrier) = new.and_then(Barrier::of_policy) {
            self.want(barrier);
        }
    }

    /// Applies the changes that [`Guard::change`] recorded, and what is due: refused barriers again,
    /// and IPv6 in its final order.
    ///
    /// When it has returned, every wanted barrier that blocks is installed. Where there are many
    /// barriers for IPv6, what lets more pass than before may take effect a moment later.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn settle(&mut self) -> Result<(), GuardError> {
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.retry_at = None;
            self.touched.extend(self.refused.drain());
        }
        self.apply(false)
    }

    /// Reinstalls everything if barriers are missing: somebody flushed the kernel's policies or
    /// nftables. True if so.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn check(&mut self) -> Result<bool, GuardError> {
        let has = self.kernel.counts().map_err(GuardError::Socket)?;
        let standing = self.standing.policy_counts();
        let is_short = has.iter().zip(standing).any(|(has, wanted)| *has < wanted);
        if !is_short && !self.netfilter.is_gone() {
            return Ok(false);
        }
        self.enforce().map(|()| true)
    }

    /// As [`Guard::settle`], but puts nothing off. The last call of an owner.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn finish(&mut self) -> Result<(), GuardError> {
        self.netfilter.hurry();
        self.settle()
    }

    /// Whether no barrier was refused and every recorded change was applied.
    pub fn is_complete(&self) -> bool {
        self.refused.is_empty() && self.touched.is_empty()
    }

    /// When [`Guard::settle`] has something to do though no policy changed.
    pub fn due(&self) -> Option<Instant> {
        [self.retry_at, self.netfilter.due()].into_iter().flatten().min()
    }

    /// Adds barriers for prefixes to the installed ones.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn add_prefixes(&mut self, prefixes: &[Prefix]) -> Result<(), GuardError> {
        for barrier in self.standing.all().copied().collect::<Vec<_>>() {
            self.want(barrier);
        }
        self.want_prefixes(prefixes);
        self.enforce()
    }

    /// Removes every barrier.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn clear(&mut self) -> Result<(), GuardError> {
        self.wanted.clear();
        self.defaults = Defaults::default();
        self.enforce()
    }

    fn want(&mut self, barrier: Barrier) {
        let identity = barrier.identity();
        self.wanted.entry(identity).or_default().push(barrier);
        self.touched.insert(identity);
    }

    fn unwant(&mut self, barrier: Barrier) {
        let identity = barrier.identity();
        if let Some(list) = self.wanted.get_mut(&identity) {
            if let Some(at) = list.iter().position(|b| *b == barrier) {
                list.swap_remove(at);
            }
            if list.is_empty() {
                self.wanted.remove(&identity);
            }
        }
        self.touched.insert(identity);
    }

    fn want_defaults(&mut self, defaults: Defaults) {
        for barrier in defaults.directions().flat_map(Barrier::of_default) {
            self.want(barrier);
        }
    }

    fn want_prefixes(&mut self, prefixes: &[Prefix]) {
        for barrier in prefixes.iter().flat_map(|prefix| Barrier::of_prefix(*prefix)) {
            self.want(barrier);
        }
    }

    /// Compares every barrier with what the kernel has.
    fn enforce(&mut self) -> Result<(), GuardError> {
        self.touched.extend(self.wanted.keys().copied());
        self.touched.extend(self.standing.all().map(Barrier::identity));
        self.refused.clear();
        self.retry_at = None;
        self.apply(true)
    }

    fn apply(&mut self, again: bool) -> Result<(), GuardError> {
        let mut first_error = Ok(());
        let mut note = |result: Result<(), GuardError>| {
            if first_error.is_ok() {
                first_error = result;
            }
        };
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for identity in self.touched.drain() {
            let wanted = self.wanted.get(&identity);
            let wanted = wanted.and_then(|list| list.iter().min_by_key(|b| b.rank())).copied();
            match (self.standing.get(&identity), wanted) {
                (Some(has), Some(wanted)) if *has == wanted && !again => {}
                (_, Some(wanted)) => up.push(wanted),
                (Some(has), None) => down.push(*has),
                (None, None) => {}
            }
        }
        up.sort_by_key(Barrier::rank);
        let fail = |list: &List, source| GuardError::List { path: list.path().into(), source };

        let fresh: Vec<Barrier> = up.iter().filter(|b| !self.standing.has(b)).copied().collect();
        let listed = self.list.append(Step::Up, &fresh);
        note(listed.map_err(|e| fail(&self.list, e)));
        let mut gone = Vec::new();
        self.follow_threshold(&fresh);
        // Without a listing every policy is written again.
        let there =
            if again { self.kernel.listing().unwrap_or_default() } else { Listing::default() };
        let (rules, policies): (Vec<_>, Vec<_>) = up.into_iter().partition(Barrier::is_netfilter);
        let (there, missing): (Vec<_>, Vec<_>) = policies.into_iter().partition(|b| there.has(b));
        let results = self.kernel.put(&missing);
        let mut done: Vec<Barrier> = there;
        for (barrier, result) in missing.into_iter().zip(results) {
            match result {
                Ok(()) => done.push(barrier),
                Err(source) => {
                    self.refused.insert(barrier.identity());
                    note(Err(GuardError::Refused { barrier, source }));
                }
            }
        }
        rules.iter().for_each(|barrier| self.netfilter.up(*barrier));
        for barrier in done.into_iter().chain(rules) {
            let old = self.standing.insert(barrier);
            gone.extend(old.filter(|old| *old != barrier));
        }
        let (rules, policies): (Vec<_>, Vec<_>) = down.into_iter().partition(Barrier::is_netfilter);
        for barrier in rules {
            self.netfilter.down(barrier);
            self.standing.remove(&barrier.identity());
        }
        let results = self.kernel.remove(&policies);
        for (barrier, result) in policies.into_iter().zip(results) {
            if let Err(source) = result
                // Gone already.
                && source.raw_os_error() != Some(NO_ENTRY)
            {
                self.refused.insert(barrier.identity());
                note(Err(GuardError::Refused { barrier, source }));
                continue;
            }
            gone.push(barrier);
            self.standing.remove(&barrier.identity());
        }
        match self.netfilter.follow(self.standing.all().filter(|b| b.is_netfilter()), again) {
            Ok(down) => gone.extend(down),
            Err((error, not_up)) => {
                // They stay listed: an earlier table may still have them.
                for barrier in not_up {
                    self.standing.remove(&barrier.identity());
                    self.refused.insert(barrier.identity());
                }
                note(Err(GuardError::Netfilter(error)));
            }
        }
        if !self.refused.is_empty() && self.retry_at.is_none() {
            self.retry_at = Some(Instant::now() + RETRY_INTERVAL);
        }
        gone.retain(|b| !self.standing.has(b));
        let listed = self.list.append(Step::Down, &gone);
        // What is refused or pending may be known from the list alone, so it is kept whole.
        let is_settled = self.refused.is_empty() && !self.netfilter.owes();
        let listed = listed.and_then(|()| match is_settled {
            true => self.list.tidy(self.standing.all()),
            false => Ok(()),
        });
        note(listed.map_err(|e| fail(&self.list, e)));
        if self.standing.policies() == 0 {
            self.set_threshold(self.threshold.0);
            self.chooser = Chooser::default();
        }
        first_error
    }

    /// Adapts the kernel's hash threshold to the policies before these are added.
    fn follow_threshold(&mut self, fresh: &[Barrier]) {
        let count = self.standing.policies() + fresh.iter().filter(|b| !b.is_netfilter()).count();
        if self.chooser.is_due(count) {
            let next = choose(self.standing.all().chain(fresh), self.threshold.1);
            self.set_threshold(next);
        }
    }

    fn set_threshold(&mut self, next: Threshold) {
        if next == self.threshold.1 {
            return;
        }
        match self.kernel.set_threshold(next) {
            Ok(()) => {
                tracing::debug!(?next, "the kernel hashes policies from these lengths on");
                self.threshold.1 = next;
            }
            // Only time is lost.
            Err(error) => tracing::debug!(%error, "the kernel's policies stay in lists"),
        }
    }
}

/// Interval at which what the kernel refused is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// `ENOENT`.
const NO_ENTRY: i32 = 2;

/// The kernel's number of a direction (`XFRM_POLICY_IN`, …).
fn direction_number(direction: Direction) -> u8 {
    direction as u8
}
