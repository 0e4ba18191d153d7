//! The kernel's own XFRM databases: culvert learns them, and takes packets over from the kernel.
//!
//! | Module       | What it knows                                                        |
//! |--------------|----------------------------------------------------------------------|
//! | this one     | what is carried out of decisions                                     |
//! | `learning`   | what the kernel tells                                                |
//! | `model`      | what the kernel has, and which SAs and policies belong together      |
//! | `choice`     | which of them the fast path takes: decisions alone                   |
//! | `why`        | why the others stay                                                  |
//! | `firewall`   | firewalls that the fast path would pass by                           |
//! | `published`  | what the data path has of them                                       |
//! | `crossing`   | how an SA gets into the fast path, and back                          |
//! | `lease`      | outbound numbers                                                     |
//! | `moved`      | what an SA has received, when it goes on with other ends             |
//! | `write_back` | what the kernel is told meanwhile                                    |
//! | `source`     | what the daemon's loop asks for                                      |
//! | `bypass`     | the policies that IPv6 through the private interface needs           |
//! | `touch`      | the use time of outbound policies                                    |
//! | `timing`     | how often things are looked at                                       |
//!
//! The kernel stays the owner. Whatever happens to this process, it can go on with every SA: its outbound
//! numbers are always at or beyond those of the fast path, and packets reach it as soon as nobody
//! takes them.

mod bypass;
mod choice;
mod crossing;
mod firewall;
mod learning;
mod lease;
mod model;
mod moved;
mod published;
mod source;
#[cfg(test)]
mod testing;
mod timing;
mod touch;
mod why;
mod write_back;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::time::Instant;

use crypto::Providers;
use policy::Direction;
use tracing::{debug, info, warn};
use vault::Vault;
use xfrm::{Kernel, KernelEvents, LearntPolicy};

use self::choice::Choice;
pub use self::firewall::{NatWatch, Watch as FirewallWatch, look as firewalls, nat_rules};
use self::model::{Link, Model, Place, SaKey};
use self::moved::Departed;
use self::published::{Hand, Published};
use self::why::policy as reason;
use super::{Merge, SaRules};
use crate::clock::Now;

/// Most SAs that are on their way at a time.
const MOVING_MOST: usize = 64;

/// Marks of packets that are culvert's own business.
#[derive(Clone, Copy, Debug)]
pub struct OwnMarks {
    /// Mark of packets that are led past culvert's routes.
    pub past: u32,
    /// Mark of packets that came by the private interface, and that the fast path has judged.
    pub judged: u32,
}

/// The kernel's databases, and what of them is in the fast path.
pub struct KernelSource {
    kernel: Kernel,
    events: KernelEvents,
    model: Model,
    published: Published,
    /// Links that have to be decided about.
    touched: HashSet<Link>,
    /// SAs that wait for their turn to enter the fast path.
    waiting: BTreeSet<SaKey>,
    /// SAs on their way.
    moving: BTreeSet<SaKey>,
    /// When the kernel is to be told of an SA.
    to_write: BTreeSet<(Instant, SaKey)>,
    /// SAs that were deleted lately, and may come again with other ends.
    departed: Departed,
    /// When something is to be decided about again.
    revisits: BTreeSet<(Instant, Link)>,
    samples: Vec<(IpAddr, u32)>,
    /// Windows of packets that the kernel has received, and since when they are known.
    merges: Vec<(Instant, Merge)>,
    generation: u64,
    marks: OwnMarks,
    /// The XFRM interfaces by which Linux takes what was judged, by `if_id`.
    judged_by: BTreeSet<u32>,
    /// The packets that outbound policies had when their use time was moved last.
    policy_uses: HashMap<u32, u64>,
    /// Why policies stay that would be taken with their SAs.
    policy_whys: HashMap<u32, Cow<'static, str>>,
    /// When it was served last.
    served_at: Instant,
    /// Until when the kernel's use of an SA does not count against it: it took over while this thread hung.
    lenient_until: Instant,
    is_stopping: bool,
    /// When everything is to be asked for again: news were missed.
    learn_at: Option<Instant>,
    trouble: Option<String>,
    /// The firewalls; none where they are not asked.
    firewall: Option<FirewallWatch>,
    /// The vault, whose lock keeps a second daemon of this name away.
    vault: Vault,
}

/// Settings of a source, and what it works by.
pub struct KernelParts {
    /// The vault of the name: its lock keeps a second daemon away.
    pub vault: Vault,
    /// Engines of the algorithms.
    pub providers: Providers,
    /// Limits to what is carried out.
    pub rules: SaRules,
    /// Marks of packets that are culvert's own business.
    pub marks: OwnMarks,
    /// Addresses of this host.
    pub local: HashSet<IpAddr>,
    /// The firewalls; none where they are not asked.
    pub firewall: Option<FirewallWatch>,
}

impl KernelSource {
    /// Subscribes, and learns what there is.
    ///
    /// # Errors
    /// The kernel has no XFRM, or does not let this process ask.
    pub fn open(parts: KernelParts, now: Now) -> io::Result<KernelSource> {
        // First: what changes meanwhile is told.
        let events = KernelEvents::open()?;
        KernelSource::new(parts, Kernel::open()?, events, now)
    }

    /// Learns what a kernel has, whose `events` are subscribed.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn new(
        KernelParts { vault, providers, rules, marks, local, firewall }: KernelParts,
        kernel: Kernel,
        events: KernelEvents,
        now: Now,
    ) -> io::Result<KernelSource> {
        let mut source = KernelSource {
            kernel,
            events,
            model: Model::default(),
            published: Published::new(providers, rules),
            touched: HashSet::new(),
            waiting: BTreeSet::new(),
            moving: BTreeSet::new(),
            to_write: BTreeSet::new(),
            departed: Departed::default(),
            revisits: BTreeSet::new(),
            samples: Vec::new(),
            merges: Vec::new(),
            generation: 0,
            marks,
            judged_by: BTreeSet::new(),
            policy_uses: HashMap::new(),
            policy_whys: HashMap::new(),
            served_at: now.at,
            lenient_until: now.at,
            is_stopping: false,
            learn_at: None,
            trouble: None,
            firewall,
            vault,
        };
        source.model.set_local(local);
        source.follow_firewalls();
        source.let_judged_pass();
        source.learn_all(now)?;
        info!(
            sas = source.model.sas().count(),
            policies = source.model.policy_indices().count(),
            "the kernel's SAs and policies are learnt"
        );
        Ok(source)
    }

    /// Takes over what firewalls there are.
    fn follow_firewalls(&mut self) {
        let Some(watch) = &self.firewall else { return };
        let firewalls = watch.firewalls();
        let warnings: Vec<String> = firewalls.warnings().collect();
        if self.model.set_firewalls(firewalls) {
            match warnings[..] {
                [] => info!("no firewall that the fast path would pass by is left"),
                _ => warnings.iter().for_each(|warning| warn!("{warning}")),
            }
            self.touched.extend(self.model.links());
        }
    }

    /// Has the kernel's policies let pass what comes by the private interface (IPv6), and by XFRM interfaces,
    /// which the fast path has judged.
    fn let_judged_pass(&mut self) {
        for bypass in bypass::of_private(self.marks.judged) {
            if let Err(error) = self.kernel.put_bypass(&bypass) {
                debug!(%error, ?bypass, "IPv6 through the private interface");
            }
        }
        for if_id in self.model.usable_interfaces() {
            let all = bypass::of_interface(if_id, self.marks.judged);
            let result = all.iter().try_for_each(|bypass| self.kernel.put_bypass(bypass));
            match result {
                Ok(()) => _ = self.judged_by.insert(if_id),
                Err(error) => debug!(%error, if_id, "what an XFRM interface brings"),
            }
        }
    }

    /// Takes the policies of XFRM interfaces away that are gone, or `all` of them.
    fn forget_judged(&mut self, all: bool) {
        let usable: BTreeSet<u32> = self.model.usable_interfaces().into_iter().collect();
        let gone: Vec<u32> =
            self.judged_by.iter().copied().filter(|id| all || !usable.contains(id)).collect();
        for if_id in gone {
            self.judged_by.remove(&if_id);
            for bypass in bypass::of_interface(if_id, self.marks.judged) {
                if let Err(error) = self.kernel.delete_bypass(&bypass) {
                    debug!(%error, if_id, "what an XFRM interface brings");
                }
            }
        }
    }

    /// True if a policy is taken, false if not. `None` where that depends on SAs.
    fn is_taken_alone(&self, policy: &LearntPolicy) -> Option<bool> {
        let config = &policy.config;
        let is_carried = policy.failure.is_none();
        match config.direction {
            // What they say about packets that the fast path has decrypted.
            Direction::In | Direction::Forward => Some(is_carried),
            Direction::Out if config.templates.is_empty() => {
                Some(is_carried && config.mark.mask == 0)
            }
            Direction::Out => None,
        }
    }

    /// Why Linux carries a policy out, if it does.
    fn why_policy_stays(&self, index: u32) -> Option<Cow<'static, str>> {
        if self.published.hand(index)? == Hand::Culvert {
            return None;
        }
        let policy = self.model.policy(index)?;
        let why = match self.is_taken_alone(policy) {
            Some(_) => choice::policy_reason(&self.model, index),
            None => self.policy_whys.get(&index).cloned(),
        };
        let has_mark = policy.config.mark.mask != 0;
        let why = why.or_else(|| has_mark.then_some(reason::MARK.into()));
        Some(why.unwrap_or(reason::CROSSING.into()))
    }

    /// Decides about everything that something has happened to.
    fn decide(&mut self, now: Now) {
        while let Some((_, link)) = self.revisits.first().filter(|(at, _)| *at <= now.at).copied() {
            self.revisits.pop_first();
            self.touched.insert(link);
        }
        let touched = std::mem::take(&mut self.touched);
        let mut done = HashSet::new();
        for link in touched {
            if done.contains(&link) {
                continue;
            }
            let component = self.model.component(link, &mut done);
            let choice = Choice::of(&self.model, &component, self.is_stopping, now.at);
            self.carry_out(now, choice);
        }
    }

    fn carry_out(&mut self, now: Now, choice: Choice) {
        for (key, why) in choice.sas {
            let Some(known) = self.model.sa_mut(&key) else { continue };
            match (why, known.place) {
                (None, Place::Kernel) => {
                    known.why = None;
                    self.waiting.insert(key);
                }
                (Some(why), Place::Fast | Place::Entering(_)) => self.leave(now, key, why),
                (Some(why), Place::Kernel) => {
                    known.why = Some(why);
                    self.waiting.remove(&key);
                }
                _ => {}
            }
        }
        for (index, why) in choice.policies {
            match &why {
                Some(why) => _ = self.policy_whys.insert(index, why.clone()),
                None => _ = self.policy_whys.remove(&index),
            }
            let Some(policy) = self.model.policy(index) else { continue };
            let (config, is_taken) = (policy.config.clone(), self.is_taken_alone(policy));
            if is_taken.is_some() {
                continue;
            }
            match (why, self.published.hand(index)) {
                (None, Some(Hand::Linux) | None) if self.has_all_sas(now, index) => {
                    self.published.put_policy(&config, Hand::Culvert);
                }
                // Its packets are led here first, and taken when that is done.
                (None, Some(Hand::Linux) | None) => {
                    self.published.put_policy(&config, Hand::LinuxByCulvert);
                }
                (None, Some(hand)) => self.published.put_policy(&config, hand),
                (Some(_), _) if !self.has_sa_on_its_way(index) => {
                    self.published.put_policy(&config, Hand::Linux);
                }
                _ => {}
            }
        }
    }

    /// Has SAs enter, some at a time: packets are held while an outbound one crosses.
    fn admit(&mut self, now: Now) {
        while self.moving.len() < MOVING_MOST
            && let Some(key) = self.waiting.pop_first()
        {
            if self.model.sa(&key).is_some_and(|known| known.place == Place::Kernel) {
                self.enter(now, key);
            }
        }
    }

    /// The policies of an outbound SA that Linux still carries out.
    fn policies_of_linux(&self, key: &SaKey) -> impl Iterator<Item = &LearntPolicy> {
        self.model
            .users(key)
            .filter(|policy| self.published.hand(policy.config.index) == Some(Hand::LinuxByCulvert))
    }

    /// Takes the policies of an outbound SA from Linux: until it is published, their packets are held.
    fn take_policies(&mut self, key: &SaKey) {
        let configs: Vec<_> = self.policies_of_linux(key).map(|p| p.config.clone()).collect();
        configs.iter().for_each(|config| self.published.put_policy(config, Hand::Culvert));
    }

    /// True if all SAs that Linux may choose for an outbound policy are in the fast path already:
    /// nothing has to cross. Then the packets that Linux encrypts by them, until it sees no more
    /// of the policy's packets, hardly count.
    fn has_all_sas(&mut self, now: Now, index: u32) -> bool {
        let Some(policy) = self.model.policy(index) else { return false };
        let keys: Vec<SaKey> = self.model.candidates(policy).copied().collect();
        let is_fast = |key| self.model.sa(key).is_some_and(|known| known.place == Place::Fast);
        if !keys.iter().all(is_fast) {
            return false;
        }
        for key in &keys {
            if let Some(known) = self.model.sa_mut(key) {
                known.arrived_at = Some(now.at);
            }
        }
        true
    }

    /// True if an SA of a policy is in the fast path, or on its way there or back.
    fn has_sa_on_its_way(&self, index: u32) -> bool {
        let Some(policy) = self.model.policy(index) else { return false };
        let candidates = self.model.candidates(policy);
        candidates.filter_map(|key| self.model.sa(key)).any(|sa| sa.place != Place::Kernel)
    }
}
