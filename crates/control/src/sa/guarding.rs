//! The guard follows policies and default actions: what the kernel blocks where culvert does not protect it.

use std::collections::BTreeMap;

use config::{Config, GuardConfig};
use guard::{Defaults, GuardError, NftError};
use policy::Action;
use report::{Warning, WarningKind};
use tracing::{error, info, warn};

use super::Sas;
use super::policies::Step;
use crate::clock::Now;
use crate::texts::direction_text;
use crate::wants::Wants;
use crate::{TICK, kernel_blocks};

impl Sas {
    /// The directions in which packets that no policy is about are blocked.
    pub(crate) fn defaults(&self) -> Defaults {
        let databases = self.source.databases();
        Defaults::of(|direction| databases.default_action(direction) != Action::Allow)
    }

    /// True if barriers stand for policies, which their owner does not block itself. A default action that blocks has
    /// no other way to hold for packets that never come to a worker.
    pub(crate) fn is_guarded(&self, config: &GuardConfig) -> bool {
        let is_wanted = config.enabled || self.defaults().is_any();
        is_wanted && !self.source.stands_guard()
    }

    /// Prefixes that the guard blocks until policies name them.
    pub(crate) fn guarded(&self, config: &GuardConfig) -> Vec<policy::Prefix> {
        match config.enabled && !self.source.stands_guard() {
            true => config.prefixes.iter().map(|prefix| prefix.0).collect(),
            false => Vec::new(),
        }
    }

    /// Packets that the guard's policies in the kernel have blocked, as far as Linux tells.
    pub(crate) fn kernel_blocked(&self) -> BTreeMap<String, u64> {
        match self.guard.policies() {
            0 => BTreeMap::new(),
            _ => kernel_blocks::read(),
        }
    }

    /// Follows default actions; true if they are others than before.
    fn follow_defaults(&mut self, config: &GuardConfig, wants: &mut Wants) -> bool {
        let defaults = match self.is_guarded(config) {
            true => self.defaults(),
            false => Defaults::default(),
        };
        if self.guard.defaults() == defaults {
            return false;
        }
        let blocked: Vec<String> = defaults.directions().map(direction_text).collect();
        info!(blocked = blocked.join(","), "default actions of the policy database");
        // The barriers of policies come and go with them.
        wants.guard |= !config.enabled;
        self.guard.set_defaults(defaults);
        true
    }

    /// Has barriers follow policies, and puts up again what somebody took away.
    pub(crate) fn follow_with_guard(
        &mut self,
        now: Now,
        config: &Config,
        steps: &[Step],
        wants: &mut Wants,
    ) {
        let has_defaults = self.follow_defaults(&config.guard, wants);
        let is_anew = Wants::take(&mut wants.guard);
        let result = if !self.is_guarded(&config.guard) {
            // Barriers from before would no longer follow the policies.
            match is_anew && self.guard.standing().len() > 0 {
                true => self.guard.clear(now.at),
                false => Ok(()),
            }
        } else if is_anew {
            let prefixes = self.guarded(&config.guard);
            self.guard.spare(config.tunnels.iter().map(|tunnel| tunnel.interface.clone()));
            self.guard.set(self.followed.values().map(|p| &p.config), &prefixes, now.at)
        } else {
            for step in steps {
                let (old, new) = step.configs();
                self.guard.change(old, new);
            }
            let is_due = self.guard.due().is_some_and(|at| at <= now.at);
            if is_due || has_defaults || !steps.is_empty() {
                self.guard.settle(now.at)
            } else if self.check_at <= now.at {
                self.check_at = now.at + TICK;
                self.guard.check(now.at).map(|gone| {
                    if gone {
                        warn!("somebody took the guard away; it stands again");
                    }
                })
            } else {
                return;
            }
        };
        self.note_guard(result);
    }

    /// Logs trouble of the guard once, and remembers it until everything stands.
    fn note_guard(&mut self, result: Result<(), GuardError>) {
        match result {
            Ok(()) if self.guard.is_complete() => self.guard_trouble = None,
            Ok(()) => {}
            Err(error) => {
                let trouble = Warning::new(kind_of(&error), error.to_string());
                if self.guard_trouble.as_ref() != Some(&trouble) {
                    error!("{}", trouble.text);
                    self.guard_trouble = Some(trouble);
                }
            }
        }
    }
}

/// Kind of the warning while the guard is in trouble.
const fn kind_of(error: &GuardError) -> WarningKind {
    match error {
        GuardError::Netfilter(NftError::Missing(_)) => WarningKind::NftMissing,
        GuardError::Netfilter(_) => WarningKind::NftFails,
        _ => WarningKind::GuardIncomplete,
    }
}
