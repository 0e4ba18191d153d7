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
//! | [`Guard::refusals`], [`Guard::warnings`] | what nft or the kernel refuses, and what blocks more in its place |
//! | [`apply()`] | has `nft` carry out a ruleset, for others as well |
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
//! use std::time::Instant;
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
//!     let now = Instant::now();
//!     guard.add_prefixes(&[prefix], now)?;
//!     guard.finish(now)
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
//! The rest is tried all the same, and nothing less is blocked. A barrier that the kernel or nft refuses is replaced by
//! one that blocks more ([`Refusal`]). A ruleset is taken as a whole, so the rules that nft refuses are looked for by
//! halves, and the others stand. Where nft cannot be used at all, IPv6 is blocked by kernel policies, which the private
//! interface is not exempt from. What is refused is tried again by [`Guard::settle`] when [`Guard::due`] says so;
//! [`Guard::is_complete`] is false while something is not blocked that should be, or could be blocked more narrowly for
//! all of IPv6.
//!
//! A kernel policy of ours has a soft limit of packets that nobody else has: a number made of the instance's name, which
//! Linux keeps and never acts on. So barriers that no list names are found in the kernel's own dump, and removed at a
//! start, and whenever the kernel does not have what was to be removed. Those of others are left alone.
//!
//! # Not handled
//!
//! Between early boot and the first policy only prefixes that are configured are blocked. Later fragments have no ports,
//! so a policy that names ports does not hold them back, as in Linux.
#![forbid(unsafe_code)]

mod apply;
mod barrier;
mod bisect;
#[cfg(test)]
mod cases;
mod classes;
mod defaults;
#[cfg(any(test, feature = "memory"))]
#[cfg_attr(not(test), expect(dead_code, reason = "tests of the guard itself use all of it"))]
mod fakes;
#[cfg(test)]
mod fuzz;
mod kernel;
mod list;
#[cfg(feature = "memory")]
pub mod memory;
mod netfilter;
mod nft;
#[cfg(test)]
mod properties;
mod refusals;
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
use kernel::{KernelPolicies, Policies, Tag};
use list::List;
use netfilter::Netfilter;
pub use nft::{NftError, apply};
pub use refusals::Refusal;
use refusals::Refusals;
use standing::Standing;
use threshold::{Chooser, FRESH, Threshold};

/// Why a barrier could not be installed or removed.
#[derive(Debug, Error)]
pub enum GuardError {
    /// The kernel's XFRM socket cannot be used.
    #[error(
        "NETLINK_XFRM: {0}\n  the guard needs CAP_NET_ADMIN and a kernel with CONFIG_XFRM_USER"
    )]
    Socket(io::Error),
    /// A barrier cannot be put up, and nothing that blocks more in its place.
    #[error(
        "the guard's barrier `{barrier}` is refused, and nothing stands in its place: {why}\n  \
         what it would block leaves in clear if the daemon dies; it is tried again"
    )]
    Refused {
        /// The barrier that is refused.
        barrier: Barrier,
        /// The kernel's answer.
        why: String,
    },
    /// A barrier cannot be removed.
    #[error("the kernel keeps the guard's policy `{barrier}`: {source}\n  it is tried again")]
    Kept {
        /// The barrier that stays.
        barrier: Barrier,
        /// The kernel's answer.
        source: io::Error,
    },
    /// IPv6 is guarded by kernel policies, because nftables cannot be used.
    #[error(
        "IPv6 guard: nft {0}\n  until it works, kernel policies guard IPv6, and also block what this host itself \
         sends to and gets from protected networks"
    )]
    Netfilter(NftError),
    /// The list cannot be kept.
    #[error("{path}: {source}")]
    List {
        /// Path of the file.
        path: PathBuf,
        /// The kernel's answer.
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
    /// Barriers that are refused, and what stands in their place.
    refusals: Refusals,
    /// Identities of barriers that the kernel did not remove.
    kept: HashSet<Barrier>,
    /// Why nftables cannot be used, if that is so.
    no_nft: Option<NftError>,
    /// Kernel policies let neighbour discovery pass.
    lets_discovery_pass: bool,
    retry_at: Option<Instant>,
    kernel: Box<dyn Policies>,
    tag: Tag,
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
        let tag = Tag::of(instance);
        let kernel = KernelPolicies::open(tag).map_err(GuardError::Socket)?;
        let netfilter = Netfilter::new(instance, tun, Box::new(nft::Program));
        Ok(Guard::with((list, standing), Box::new(kernel), tag, netfilter))
    }

    fn with(
        (list, standing): (List, HashMap<Barrier, Barrier>),
        mut kernel: Box<dyn Policies>,
        tag: Tag,
        netfilter: Netfilter,
    ) -> Guard {
        let holds = kernel.threshold().unwrap_or(FRESH);
        // Beside barriers of ours the threshold is most likely ours too.
        let before = if standing.is_empty() { holds } else { FRESH };
        Guard {
            list,
            wanted: HashMap::new(),
            defaults: Defaults::default(),
            standing: standing.into_values().collect(),
            touched: HashSet::new(),
            refusals: Refusals::default(),
            kept: HashSet::new(),
            no_nft: None,
            lets_discovery_pass: false,
            retry_at: None,
            kernel,
            tag,
            threshold: (before, holds),
            chooser: Chooser::default(),
            netfilter,
        }
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
        let number = barrier::direction_number(direction);
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
        now: Instant,
    ) -> Result<(), GuardError> {
        self.forget_wanted();
        for barrier in policies.into_iter().filter_map(Barrier::of_policy) {
            self.want(barrier);
        }
        self.want_prefixes(prefixes);
        self.want_defaults(self.defaults);
        self.enforce(now, true)
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
    pub fn settle(&mut self, now: Instant) -> Result<(), GuardError> {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry();
        }
        self.apply(now, false, false)
    }

    /// Reinstalls everything if barriers are missing: somebody flushed the kernel's policies or
    /// nftables. True if so.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn check(&mut self, now: Instant) -> Result<bool, GuardError> {
        let has = self.kernel.counts().map_err(GuardError::Socket)?;
        let standing = self.standing.policy_counts();
        let is_short = has.iter().zip(standing).any(|(has, wanted)| *has < wanted);
        if !is_short && !self.netfilter.is_gone() {
            return Ok(false);
        }
        self.enforce(now, true).map(|()| true)
    }

    /// As [`Guard::settle`], but puts nothing off. The last call of an owner.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn finish(&mut self, now: Instant) -> Result<(), GuardError> {
        self.netfilter.hurry();
        self.settle(now)
    }

    /// True if everything that is to be blocked is blocked, by some barrier, and every recorded
    /// change was applied.
    pub fn is_complete(&self) -> bool {
        let is_whole = self.kept.is_empty() && self.no_nft.is_none() && self.touched.is_empty();
        is_whole && !self.refusals.leave_a_gap()
    }

    /// The barriers of policies and prefixes that are refused, in order, and what stands in their place.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.refusals.named()
    }

    /// Warnings for an operator: a line for each of the first refused barriers, and how many more
    /// there are. A fault that all of IPv6 shares is an error of [`Guard::settle`].
    pub fn warnings(&self) -> Vec<String> {
        let is_common = |r: &Refusal| self.no_nft.is_some() && r.instead == r.barrier.as_policy();
        let refused = self.refusals().into_iter().filter(|refusal| !is_common(refusal));
        let mut warnings: Vec<String> = refused.map(|r| format!("guard: {r}")).collect();
        let more = warnings.len().saturating_sub(NAMED);
        warnings.truncate(NAMED);
        if more > 0 {
            warnings.push(format!(
                "guard: barrier refused {more} times more: culvert guard show lists what stands"
            ));
        }
        warnings
    }

    /// When [`Guard::settle`] has something to do though no policy changed.
    pub fn due(&self) -> Option<Instant> {
        [self.retry_at, self.netfilter.due()].into_iter().flatten().min()
    }

    /// Adds barriers for prefixes to the installed ones.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn add_prefixes(&mut self, prefixes: &[Prefix], now: Instant) -> Result<(), GuardError> {
        for barrier in self.standing.all().copied().collect::<Vec<_>>() {
            self.want(barrier);
        }
        self.want_prefixes(prefixes);
        // A policy that no list names may be one of a lost list: no time to let its packets pass.
        self.enforce(now, false)
    }

    /// Removes every barrier.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn clear(&mut self, now: Instant) -> Result<(), GuardError> {
        self.forget_wanted();
        self.defaults = Defaults::default();
        self.enforce(now, true)
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

    /// The barrier that the kernel is to have of an identity: of several the first in order.
    fn first_wanted(&self, identity: &Barrier) -> Option<Barrier> {
        self.wanted.get(identity)?.iter().min_by_key(|b| b.rank()).copied()
    }

    fn want_prefixes(&mut self, prefixes: &[Prefix]) {
        for barrier in prefixes.iter().flat_map(|prefix| Barrier::of_prefix(*prefix)) {
            self.want(barrier);
        }
    }
}

/// Refused barriers that are named one by one.
const NAMED: usize = 8;

/// Interval at which what the kernel refused is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
