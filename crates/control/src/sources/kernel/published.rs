//! SAs and policies of the kernel that the data path has.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crypto::{Keys, Providers};
use esp::{LiveNumbers, Sa};
use policy::{Action, Databases, Direction, PolicyConfig, SaConfig, SaEntry, SaId};
use report::Gone;
use xfrm::{Counters, Replay};

use crate::sources::shared_keys::SharedKeys;
use crate::sources::{Changes, SaRules, last_numbers, live, session};

/// The data path's tables, and what has changed in them.
pub struct Published {
    providers: Providers,
    rules: SaRules,
    databases: Databases<Sa>,
    changes: Changes,
    shared_keys: SharedKeys,
}

impl Published {
    /// Databases without entries.
    pub fn new(providers: Providers, rules: SaRules) -> Published {
        Published {
            providers,
            rules,
            databases: Databases::new(),
            changes: Changes::default(),
            shared_keys: SharedKeys::default(),
        }
    }

    /// Databases of the data path.
    pub fn databases(&self) -> &Databases<Sa> {
        &self.databases
    }

    /// Puts an SA together, with its numbers, for [`Published::add`]; one that encrypts with the last number
    /// that it may use.
    ///
    /// # Errors
    /// Why the data path does not take it.
    pub fn prepare(
        &self,
        config: &SaConfig,
        keys: &Keys,
        replay: &Replay,
        counters: &Counters,
        ceiling: Option<u64>,
    ) -> Result<Sa, String> {
        let params = &config.params;
        let session = session::of(config, keys, &self.providers, self.rules.allow_weak)
            .map_err(|refusal| refusal.message)?;
        let window = params.replay_window;
        let live = match ceiling {
            Some(ceiling) => LiveNumbers::on_heap_with_ceiling(window, ceiling),
            None => LiveNumbers::on_heap(window),
        };
        let sa = Sa::new(params.clone(), session, live)
            .map_err(|error| format!("culvert: {error}"))?
            .with_ceiling(ceiling.is_some())
            .with_tunnel_headers(self.rules.tunnel_headers);
        sa.live().sent().store(replay.sent, Relaxed);
        live::set_received(&sa, replay);
        live::set_counters(sa.live(), counters);
        Ok(sa)
    }

    /// Lets packets use an SA.
    pub fn add(&mut self, config: &SaConfig, keys: &Keys, sa: Sa) {
        let id = config.id();
        self.remove(&id, Gone::Deleted);
        self.databases.replace_sa(last_numbers::with_alarm(config, &sa), sa);
        self.shared_keys.add(config, keys);
        self.changes.sa_added(config);
    }

    /// Changes an SA's limits or ends; its numbers go on.
    ///
    /// # Errors
    /// Why the data path does not take the change.
    pub fn update(&mut self, config: &SaConfig) -> Result<(), String> {
        let Some(old) = self.databases.sa(&config.id()) else { return Ok(()) };
        let session = old.esp.session().clone();
        let sa = Sa::new(config.params.clone(), session, old.esp.live().clone())
            .map_err(|error| format!("culvert: {error}"))?
            .with_ceiling(old.esp.has_ceiling())
            .with_tunnel_headers(self.rules.tunnel_headers);
        self.changes.sa_replaced(&old.config, config);
        self.databases.replace_sa(last_numbers::with_alarm(config, &sa), sa);
        Ok(())
    }

    /// Takes an SA from packets; who has it still may finish a burst.
    pub fn remove(&mut self, id: &SaId, why: Gone) -> Option<Arc<SaEntry<Sa>>> {
        let entry = self.databases.remove_sa(id)?;
        self.shared_keys.remove(id);
        self.changes.sa_removed(&entry.config, why);
        Some(entry)
    }

    /// SAs that have one key, for the operator.
    pub fn shared_keys(&self) -> Option<String> {
        self.shared_keys.warning()
    }

    /// Has ports take an SA's packets, or leave them to the kernel.
    pub fn steer(&mut self, id: &SaId, is_added: bool) {
        self.changes.steer(id, is_added);
    }

    /// Installs a policy, to be carried out by whom `hand` says.
    pub fn put_policy(&mut self, config: &PolicyConfig, hand: Hand) {
        let config = match hand {
            Hand::Culvert => config.clone(),
            Hand::Linux => left(config),
            Hand::LinuxByCulvert => PolicyConfig { action: Action::Leave, ..config.clone() },
        };
        let old = self.databases.policy(config.index);
        if old.is_some_and(|old| old.config == config) {
            return;
        }
        self.changes.policy(config.index);
        self.databases.put_policy(config);
    }

    /// Hand that carries a policy out, if there is one with this index that has templates.
    pub fn hand(&self, index: u32) -> Option<Hand> {
        let config = &self.databases.policy(index)?.config;
        Some(match (config.action, config.templates.is_empty()) {
            (Action::Leave, true) => Hand::Linux,
            (Action::Leave, false) => Hand::LinuxByCulvert,
            _ => Hand::Culvert,
        })
    }

    /// True if there is a policy with this index.
    pub fn has_policy(&self, index: u32) -> bool {
        self.databases.policy(index).is_some()
    }

    /// Removes a policy.
    pub fn remove_policy(&mut self, index: u32) {
        if self.databases.remove_policy(index).is_some() {
            self.changes.policy(index);
        }
    }

    /// Sets the default actions for packets that no policy matches.
    pub fn set_defaults(&mut self, defaults: [Action; 3]) {
        let directions = [Direction::In, Direction::Out, Direction::Forward];
        for (direction, action) in directions.into_iter().zip(defaults) {
            if self.databases.default_action(direction) != action {
                self.databases.set_default(direction, action);
            }
        }
    }

    /// Changes that nobody has taken yet.
    pub fn changes(&mut self) -> &mut Changes {
        &mut self.changes
    }
}

/// Hand that carries a policy out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    /// Linux, and culvert sees nothing of its packets.
    Linux,
    /// Linux; ports and routes lead its packets to culvert, which gives them to Linux.
    LinuxByCulvert,
    /// The fast path carries it out.
    Culvert,
}

/// A policy that Linux carries out. Packets that ports take have no marks, and Linux may give them some: so
/// one for a mark counts whatever the mark is.
fn left(config: &PolicyConfig) -> PolicyConfig {
    let mark = policy::Mark::default();
    let templates = match config.direction {
        Direction::Out => Vec::new(),
        Direction::In | Direction::Forward => config.templates.clone(),
    };
    PolicyConfig { action: Action::Leave, templates, mark, ..config.clone() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use engine_openssl::OpensslProvider;

    use super::*;
    use crate::sources::testing::{HERE, THERE, config, keys};

    /// The kernel combines its numbers with random bits too, other ones, which nobody tells.
    #[test]
    fn an_sa_has_another_salt_each_time_it_is_taken_over() {
        let providers = Providers::new(Arc::new(OpensslProvider::new().unwrap()));
        let published = Published::new(providers, SaRules::default());
        let (config, counters) = (config(1, (HERE, THERE), 1), Counters::default());
        let replay = Replay { sent: 1000, ..Replay::default() };
        let salt = |ceiling| {
            let sa = published.prepare(&config, &keys(), &replay, &counters, ceiling).unwrap();
            assert_eq!(sa.live().sent().load(Relaxed), 1000);
            sa.live().iv_salt().unwrap()
        };
        let salts = BTreeSet::from([None, Some(2000), Some(2000)].map(salt));
        assert_eq!(salts.len(), 3);
    }

    #[test]
    fn both_directions_under_one_key_are_told_while_both_are_taken() {
        let providers = Providers::new(Arc::new(OpensslProvider::new().unwrap()));
        let mut published = Published::new(providers, SaRules::default());
        let configs = [config(1, (HERE, THERE), 1), config(2, (THERE, HERE), 1)];
        for config in &configs {
            assert_eq!(published.shared_keys(), None);
            let (replay, counters) = (Replay::default(), Counters::default());
            let sa = published.prepare(config, &keys(), &replay, &counters, None).unwrap();
            published.add(config, &keys(), sa);
        }
        assert!(published.shared_keys().unwrap().contains("have one key"));
        published.remove(&configs[0].id(), Gone::LeftToKernel);
        assert_eq!(published.shared_keys(), None);
    }
}
