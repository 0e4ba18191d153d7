//! Dumps and notifications of the kernel are taken into the model and into the data path's tables.

use std::collections::HashSet;
use std::io;

use report::Gone;
use tracing::warn;
use xfrm::{KernelEvent, LearntPolicy, LearntSa};

use super::model::{Place, SaKey, Side};
use super::moved::Inherited;
use super::published::Hand;
use super::{KernelSource, bypass};
use crate::clock::Now;
use crate::sources::live::replay_of;
use crate::texts::spi_text;

/// Most datagrams of events that one round reads.
const EVENTS_AT_ONCE: usize = 1024;

/// How often a dump that changes have overtaken is made again.
const DUMPS: usize = 5;

impl KernelSource {
    /// Learns everything anew, and forgets what is gone.
    pub(super) fn learn_all(&mut self, now: Now) -> io::Result<()> {
        for attempt in 1..=DUMPS {
            let (policies, stale_policies) = self.kernel.policies()?;
            let (sas, stale_sas) = self.kernel.sas(&mut self.generation, now.xfrm())?;
            if (stale_policies || stale_sas) && attempt < DUMPS {
                continue;
            }
            let there: HashSet<SaKey> = sas.iter().map(|sa| SaKey::from(&sa.id)).collect();
            let gone: Vec<SaKey> =
                self.model.sas().map(|(key, _)| *key).filter(|key| !there.contains(key)).collect();
            gone.iter().for_each(|key| self.sa_gone(now, key, Gone::Deleted));
            let there: HashSet<u32> = policies.iter().map(|p| p.config.index).collect();
            let gone: Vec<u32> =
                self.model.policy_indices().filter(|index| !there.contains(index)).collect();
            gone.into_iter().for_each(|index| self.policy_gone(index));
            policies.into_iter().for_each(|policy| self.policy_came(policy));
            sas.into_iter().for_each(|sa| self.sa_came(now, sa));
            break;
        }
        let defaults = self.kernel.defaults()?;
        self.published.set_defaults(defaults);
        Ok(())
    }

    /// Learns everything anew, as news were missed.
    pub(super) fn learn_anew(&mut self, now: Now) -> io::Result<()> {
        self.learn_all(now)?;
        // That the kernel has used one may be among what was missed.
        let fast = self.model.sas().filter(|(_, known)| known.place == Place::Fast);
        let fast: Vec<SaKey> = fast.map(|(key, _)| *key).collect();
        fast.into_iter().for_each(|key| self.used_by_kernel(now, key));
        Ok(())
    }

    /// Takes over what the kernel tells. What was missed is left to [`KernelSource::learn_anew`].
    pub(super) fn hear(&mut self, now: Now) -> io::Result<()> {
        let events = self.events.poll(EVENTS_AT_ONCE)?;
        if events.iter().any(|event| matches!(event, KernelEvent::All)) {
            self.let_judged_pass();
            self.learn_at = Some(now.at);
            // Whatever is missed: no packet takes a number of an SA that has gone.
            for event in events {
                if let KernelEvent::SaGone(id, end) = event {
                    self.sa_gone(now, &SaKey::from(&id), end.into());
                }
            }
            return Ok(());
        }
        // Linux tells what was requested; what the SA is has to be asked for, once for all events.
        let (mut asked, mut used) = (HashSet::new(), HashSet::new());
        let mut failure = None;
        for event in events {
            match event {
                // A dump will tell.
                KernelEvent::Sa(_) | KernelEvent::SaDying(_) if failure.is_some() => {}
                KernelEvent::Sa(id) | KernelEvent::SaDying(id) => {
                    if asked.insert(SaKey::from(&id)) {
                        self.generation += 1;
                        match self.kernel.sa(&id, self.generation, now.xfrm()) {
                            Ok(Some(sa)) => self.sa_came(now, sa),
                            Ok(None) => self.sa_gone(now, &SaKey::from(&id), Gone::Deleted),
                            Err(error) => failure = Some(error),
                        }
                    }
                }
                KernelEvent::SaGone(id, end) => {
                    let key = SaKey::from(&id);
                    asked.remove(&key);
                    self.sa_gone(now, &key, end.into());
                }
                KernelEvent::Used(id) => {
                    used.insert(SaKey::from(&id));
                }
                KernelEvent::Policy(policy) => self.policy_came(policy),
                KernelEvent::PolicyGone(index) => self.policy_gone(index),
                KernelEvent::All => {}
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        // There is one event for each packet, thousands after a while in which this thread did not run.
        used.into_iter().for_each(|key| self.used_by_kernel(now, key));
        Ok(())
    }

    fn sa_came(&mut self, now: Now, mut sa: LearntSa) {
        let key = SaKey::from(&sa.id);
        let is_behind = self.model.sa(&key).is_some_and(|known| known.is_ahead_of(&sa.numbers));
        if let Some(known) = self.model.sa(&key)
            && let (Ok((new, keys)), Ok((old, old_keys))) = (&mut sa.carried, &known.learnt.carried)
        {
            new.generation = old.generation;
            let is_other = keys != old_keys || new.params.suite != old.params.suite;
            if is_other || is_behind && known.side == Some(Side::In) {
                // Another SA by the same name. The window of an inbound one begins with the kernel's.
                self.sa_gone(now, &key, Gone::Deleted);
            } else if new != old && known.place != Place::Kernel {
                let config = new.clone();
                if let Err(text) = self.published.update(&config) {
                    warn!(spi = spi_text(config.params.spi), "{text}");
                }
            }
        }
        let inherited = self.departed.take(&sa);
        self.touched.extend(self.model.put_sa(sa, now.at));
        if let Some(known) = self.model.sa_mut(&key).filter(|_| inherited.is_some()) {
            known.inherited = inherited;
        }
        // Whichever SA it is: an outbound one goes on past all numbers that were used under its key, and so does the kernel.
        if is_behind {
            self.used_by_kernel(now, key);
        }
    }

    fn sa_gone(&mut self, now: Now, key: &SaKey, why: Gone) {
        let Some((known, link)) = self.model.remove_sa(key) else { return };
        let id = known.learnt.id;
        let published = self.published.remove(&id, why);
        if published.is_some() && known.side == Some(Side::In) {
            self.published.steer(&id, false);
        }
        if let Some(entry) = published.or_else(|| known.closing.clone()) {
            let (counted, told) = (known.counters(entry.esp.live()), &known.written.counters);
            let inherited = Inherited::new(replay_of(&entry.esp), &counted, told);
            self.departed.put(known.learnt, inherited, now.at);
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

    fn policy_gone(&mut self, index: u32) {
        self.touched.extend(self.model.remove_policy(index));
        self.published.remove_policy(index);
        self.policy_uses.remove(&index);
        self.policy_whys.remove(&index);
    }
}
