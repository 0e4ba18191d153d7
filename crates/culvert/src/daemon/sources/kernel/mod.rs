//! The kernel's own XFRM databases: culvert learns them, and takes packets over from the kernel.
//!
//! | Module       | What it knows                                                        |
//! |--------------|----------------------------------------------------------------------|
//! | this one     | what the kernel tells, and what is carried out of decisions          |
//! | `model`      | what the kernel has, and which SAs and policies belong together      |
//! | `choice`     | which of them the fast path takes: decisions alone                   |
//! | `why`        | why the others stay                                                  |
//! | `firewall`   | firewalls that the fast path would pass by                           |
//! | `published`  | what the data path has of them                                       |
//! | `crossing`   | how an SA gets into the fast path, and back                          |
//! | `lease`      | outbound numbers                                                     |
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
mod lease;
mod model;
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
use xfrm::{Kernel, KernelEvent, KernelEvents, LearntPolicy, LearntSa};

use self::choice::Choice;
pub use self::firewall::{Watch as FirewallWatch, look as firewalls};
use self::model::{Link, Model, Place, SaKey, Side};
use self::published::{Hand, Published};
use self::why::policy as reason;
use super::{Merge, SaRules};
use crate::daemon::clock::now;
use crate::daemon::texts::spi_text;
use crate::report::Gone;

/// Most datagrams of events that one round reads.
const EVENTS_AT_ONCE: usize = 1024;

/// Most SAs that are on their way at a time.
const MOVING_MOST: usize = 64;

/// How often a dump that changes have overtaken is made again.
const DUMPS: usize = 5;

/// Marks of packets that are culvert's own business.
#[derive(Clone, Copy, Debug)]
pub struct OwnMarks {
    /// What leads past culvert's routes.
    pub past: u32,
    /// What has come by the private interface, and was judged by the fast path.
    pub judged: u32,
}

/// The kernel's databases, and what of them is in the fast path.
pub struct KernelSource {
    kernel: Kernel,
    events: KernelEvents,
    model: Model,
    published: Published,
    /// What has to be decided about.
    touched: HashSet<Link>,
    /// SAs that wait for their turn to enter the fast path.
    waiting: BTreeSet<SaKey>,
    /// SAs on their way.
    moving: BTreeSet<SaKey>,
    /// When the kernel is to be told of an SA.
    to_write: BTreeSet<(Instant, SaKey)>,
    /// When something is to be decided about again.
    revisits: BTreeSet<(Instant, Link)>,
    samples: Vec<(IpAddr, u32)>,
    /// What the kernel has received, and since when that is known.
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
    trouble: Option<String>,
    /// The firewalls; none where they are not asked.
    firewall: Option<FirewallWatch>,
    /// Its lock keeps a second daemon of this name away.
    vault: Vault,
}

impl KernelSource {
    /// Subscribes, and learns what there is. Without `firewall` none is asked.
    ///
    /// # Errors
    /// The kernel has no XFRM, or does not let this process ask.
    pub fn new(
        vault: Vault,
        providers: Providers,
        rules: SaRules,
        marks: OwnMarks,
        local: HashSet<IpAddr>,
        firewall: Option<FirewallWatch>,
    ) -> io::Result<KernelSource> {
        // First: what changes meanwhile is told.
        let events = KernelEvents::open()?;
        let mut source = KernelSource {
            kernel: Kernel::open()?,
            events,
            model: Model::default(),
            published: Published::new(providers, rules),
            touched: HashSet::new(),
            waiting: BTreeSet::new(),
            moving: BTreeSet::new(),
            to_write: BTreeSet::new(),
            revisits: BTreeSet::new(),
            samples: Vec::new(),
            merges: Vec::new(),
            generation: 0,
            marks,
            judged_by: BTreeSet::new(),
            policy_uses: HashMap::new(),
            policy_whys: HashMap::new(),
            served_at: Instant::now(),
            lenient_until: Instant::now(),
            is_stopping: false,
            trouble: None,
            firewall,
            vault,
        };
        source.model.set_local(local);
        source.follow_firewalls();
        source.let_judged_pass();
        source.learn_all()?;
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

    /// Learns everything anew, and forgets what is gone.
    fn learn_all(&mut self) -> io::Result<()> {
        for attempt in 1..=DUMPS {
            let (policies, stale_policies) = self.kernel.policies()?;
            let (sas, stale_sas) = self.kernel.sas(&mut self.generation, now())?;
            if (stale_policies || stale_sas) && attempt < DUMPS {
                continue;
            }
            let there: HashSet<SaKey> = sas.iter().map(|sa| SaKey::from(&sa.id)).collect();
            let gone: Vec<SaKey> =
                self.model.sas().map(|(key, _)| *key).filter(|key| !there.contains(key)).collect();
            gone.iter().for_each(|key| self.sa_gone(key, Gone::Deleted));
            let there: HashSet<u32> = policies.iter().map(|p| p.config.index).collect();
            let gone: Vec<u32> =
                self.model.policy_indices().filter(|index| !there.contains(index)).collect();
            gone.into_iter().for_each(|index| self.policy_gone(index));
            policies.into_iter().for_each(|policy| self.policy_came(policy));
            sas.into_iter().for_each(|sa| self.sa_came(sa));
            break;
        }
        let defaults = self.kernel.defaults()?;
        self.published.set_defaults(defaults);
        Ok(())
    }

    /// Takes over what the kernel tells.
    fn hear(&mut self) -> io::Result<()> {
        let events = self.events.poll(EVENTS_AT_ONCE)?;
        if events.iter().any(|event| matches!(event, KernelEvent::All)) {
            self.let_judged_pass();
            self.learn_all()?;
            // That the kernel has used one may be among what was lost.
            let fast = self.model.sas().filter(|(_, known)| known.place == Place::Fast);
            let fast: Vec<SaKey> = fast.map(|(key, _)| *key).collect();
            fast.into_iter().for_each(|key| self.used_by_kernel(key));
            return Ok(());
        }
        // Linux tells what was requested; what the SA is has to be asked for, once for all events.
        let (mut asked, mut used) = (HashSet::new(), HashSet::new());
        for event in events {
            match event {
                KernelEvent::Sa(id) | KernelEvent::SaDying(id) => {
                    if asked.insert(SaKey::from(&id)) {
                        self.generation += 1;
                        match self.kernel.sa(&id, self.generation, now())? {
                            Some(sa) => self.sa_came(sa),
                            None => self.sa_gone(&SaKey::from(&id), Gone::Deleted),
                        }
                    }
                }
                KernelEvent::SaGone(id, end) => {
                    let key = SaKey::from(&id);
                    asked.remove(&key);
                    self.sa_gone(&key, end.into());
                }
                KernelEvent::Used(id) => {
                    used.insert(SaKey::from(&id));
                }
                KernelEvent::Policy(policy) => self.policy_came(policy),
                KernelEvent::PolicyGone(index) => self.policy_gone(index),
                KernelEvent::All => {}
            }
        }
        // There is one event for each packet, thousands after a while in which this thread did not run.
        used.into_iter().for_each(|key| self.used_by_kernel(key));
        Ok(())
    }

    fn sa_came(&mut self, mut sa: LearntSa) {
        let key = SaKey::from(&sa.id);
        if let Some(known) = self.model.sa(&key)
            && let (Ok((new, keys)), Ok((old, old_keys))) = (&mut sa.carried, &known.learnt.carried)
        {
            new.generation = old.generation;
            if keys != old_keys || new.params.suite != old.params.suite {
                // Another SA by the same name.
                self.sa_gone(&key, Gone::Deleted);
            } else if new != old && known.place != Place::Kernel {
                let config = new.clone();
                if let Err(text) = self.published.update(&config) {
                    warn!(spi = spi_text(config.params.spi), "{text}");
                }
            }
        }
        self.touched.extend(self.model.put_sa(sa));
    }

    fn sa_gone(&mut self, key: &SaKey, why: Gone) {
        let Some((known, link)) = self.model.remove_sa(key) else { return };
        let id = known.learnt.id;
        if self.published.remove(&id, why).is_some() && known.side == Some(Side::In) {
            self.published.steer(&id, false);
        }
        self.moving.remove(key);
        self.waiting.remove(key);
        self.touched.insert(link);
    }

    fn policy_came(&mut self, policy: LearntPolicy) {
        let config = &policy.config;
        if bypass::is_bypass(config, self.marks.judged) {
            return;
        }
        match self.is_taken_alone(&policy) {
            Some(true) => self.published.put_policy(config, Hand::Culvert),
            Some(false) => self.published.put_policy(config, Hand::Linux),
            None if !self.published.has_policy(config.index) => {
                self.published.put_policy(config, Hand::Linux);
            }
            // It stays as it is until it is decided about: at once, with all that has come.
            None => {}
        }
        self.touched.extend(self.model.put_policy(policy));
    }

    /// Whether a policy is taken, where that does not depend on SAs.
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

    fn policy_gone(&mut self, index: u32) {
        self.touched.extend(self.model.remove_policy(index));
        self.published.remove_policy(index);
        self.policy_uses.remove(&index);
        self.policy_whys.remove(&index);
    }

    /// Decides about everything that something has happened to.
    fn decide(&mut self) {
        let now = Instant::now();
        while let Some((_, link)) = self.revisits.first().filter(|(at, _)| *at <= now).copied() {
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
            let choice = Choice::of(&self.model, &component, self.is_stopping, now);
            self.carry_out(choice);
        }
    }

    fn carry_out(&mut self, choice: Choice) {
        for (key, why) in choice.sas {
            let Some(known) = self.model.sa_mut(&key) else { continue };
            match (why, known.place) {
                (None, Place::Kernel) => {
                    known.why = None;
                    self.waiting.insert(key);
                }
                (Some(why), Place::Fast | Place::Entering(_)) => self.leave(key, why),
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
                (None, Some(Hand::Linux) | None) if self.has_all_sas(index) => {
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
    fn admit(&mut self) {
        while self.moving.len() < MOVING_MOST
            && let Some(key) = self.waiting.pop_first()
        {
            if self.model.sa(&key).is_some_and(|known| known.place == Place::Kernel) {
                self.enter(key);
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

    /// Whether all SAs that Linux may choose for an outbound policy are in the fast path already: then nothing
    /// has to cross. If so, what Linux encrypts by them until it sees no more of the policy's packets hardly
    /// counts.
    fn has_all_sas(&mut self, index: u32) -> bool {
        let Some(policy) = self.model.policy(index) else { return false };
        let keys: Vec<SaKey> = self.model.candidates(policy).copied().collect();
        let is_fast = |key| self.model.sa(key).is_some_and(|known| known.place == Place::Fast);
        if !keys.iter().all(is_fast) {
            return false;
        }
        for key in &keys {
            if let Some(known) = self.model.sa_mut(key) {
                known.arrived_at = Some(Instant::now());
            }
        }
        true
    }

    /// Whether an SA of a policy is in the fast path, or on its way there or back.
    fn has_sa_on_its_way(&self, index: u32) -> bool {
        let Some(policy) = self.model.policy(index) else { return false };
        let candidates = self.model.candidates(policy);
        candidates.filter_map(|key| self.model.sa(key)).any(|sa| sa.place != Place::Kernel)
    }
}
