//! Policies that change: guard, steering, routes and MTUs follow.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use guard::{Defaults, GuardError, NftError};
use policy::{Action, PolicyConfig, PolicyEntry};
use report::{Warning, WarningKind};
use tracing::{error, info, warn};

use crate::clock::Now;
use crate::inner_mtus::Seen;
use crate::texts::direction_text;
use crate::vrfs::Vrfs;
use crate::{Daemon, TICK};

type Followed = Option<Arc<PolicyEntry>>;

impl Daemon {
    /// Policies as they were and as they are, where they changed since the last call.
    pub(crate) fn changed_policies(&mut self) -> Vec<(Followed, Followed)> {
        let changed = self.sa.source.changes().take_policies();
        let databases = self.sa.source.databases();
        let mut steps = Vec::with_capacity(changed.len());
        for index in changed {
            let new = databases.policy(index).cloned();
            let old = match &new {
                Some(new) => self.sa.followed.insert(index, Arc::clone(new)),
                None => self.sa.followed.remove(&index),
            };
            self.sa.shortfalls.follow(index, new.as_deref());
            let (before, after) = configs(&old, &new);
            self.sa.by_sender.follow_policy(before, after);
            self.wants.paths |= self.linux.tunnels.follow_policy(before, after);
            steps.push((old, new));
        }
        let is_beside_kernel = self.sa.source.is_beside_kernel();
        let has_tunnel = |id| is_beside_kernel || self.linux.tunnels.ifindex(id).is_some();
        self.sa.shortfalls.tell(self.linux.observer.snapshot(), has_tunnel, self.wants.paths);
        steps
    }

    /// Follows a change of policies or addresses with guard, steering and routes.
    ///
    /// The guard comes first: its barriers are installed before traffic depends on culvert alone.
    pub(crate) fn follow_policies(&mut self, now: Now) {
        let steps = self.changed_policies();
        self.follow_with_guard(now, &steps);
        self.follow_inner_mtus(now, &steps);
        let snapshot = self.linux.observer.snapshot();
        if self.wants.paths {
            let policies = || self.sa.followed.values().map(|p| &p.config);
            let local: HashSet<IpAddr> = snapshot.addresses().map(|a| a.addr).collect();
            if let Some(kernel) = self.sa.source.kernel_mut() {
                let vrfs = Vrfs::of(snapshot);
                self.linux.private.pass_vrfs(!vrfs.is_empty());
                kernel.set_local(local.clone(), vrfs);
            }
            let tunnelled = self.linux.tunnels.follow_all_routes(snapshot);
            let tunnelled =
                tunnelled.into_iter().chain(self.linux.reflection.segments().prefixes());
            let steering = self.crew.ports.steering().with(local, policies(), tunnelled);
            self.crew.ports.steer(steering);
            self.linux.private.follow(policies(), snapshot, self.linux.tunnels.led());
            // Of all routes, those that have changed among them.
            self.wants.routes.clear();
            self.wants.paths = false;
            return;
        }
        for (old, new) in &steps {
            let (old, new) = configs(old, new);
            self.crew.ports.steer_policy(old, new);
            self.linux.private.change(old, new, snapshot, self.linux.tunnels.led());
        }
    }

    /// Tells Linux what fits the SAs behind protected destinations. Before routes to new ones are installed.
    pub(crate) fn follow_inner_mtus(&mut self, now: Now, steps: &[(Followed, Followed)]) {
        let changed_sas = self.sa.source.changes().take_chosen_by();
        let path = |sa: &esp::Sa| Some(self.crew.tables.sa_mtu(sa)?.outer);
        let seen = Seen { databases: self.sa.source.databases(), path: &path };
        let steps = steps.iter().filter_map(|(old, new)| {
            let index = new.as_ref().or(old.as_ref())?.config.index;
            Some((index, new.as_ref().map(|policy| &policy.config)))
        });
        let mut changed = self.sa.inner_mtus.policies_changed(steps, seen);
        changed.extend(self.sa.inner_mtus.sas_changed(changed_sas, seen));
        changed.extend(self.sa.inner_mtus.follow_paths(now, seen));
        if !changed.is_empty() {
            self.linux.private.set_mtus(changed);
        }
    }

    /// The directions in which packets that no policy is about are blocked.
    pub(crate) fn defaults(&self) -> Defaults {
        let databases = self.sa.source.databases();
        Defaults::of(|direction| databases.default_action(direction) != Action::Allow)
    }

    /// True if barriers stand for policies. Where the kernel owns the policies, they stand
    /// themselves. A default action that blocks has no other way to hold for packets that never
    /// come to a worker.
    pub(crate) fn is_guarded(&self) -> bool {
        let is_wanted = self.config.guard.enabled || self.defaults().is_any();
        is_wanted && !self.sa.source.is_beside_kernel()
    }

    /// Prefixes that the guard blocks until policies name them.
    pub(crate) fn guarded(&self) -> Vec<policy::Prefix> {
        match self.config.guard.enabled && !self.sa.source.is_beside_kernel() {
            true => self.config.guard.prefixes.iter().map(|prefix| prefix.0).collect(),
            false => Vec::new(),
        }
    }

    /// Follows default actions; whether they are others now.
    fn follow_defaults(&mut self) -> bool {
        let defaults = match self.is_guarded() {
            true => self.defaults(),
            false => Defaults::default(),
        };
        if self.sa.guard.defaults() == defaults {
            return false;
        }
        let blocked: Vec<String> = defaults.directions().map(direction_text).collect();
        info!(blocked = blocked.join(","), "default actions of the policy database");
        // The barriers of policies come and go with them.
        self.wants.guard |= !self.config.guard.enabled;
        self.sa.guard.set_defaults(defaults);
        true
    }

    pub(crate) fn follow_with_guard(&mut self, now: Now, steps: &[(Followed, Followed)]) {
        let has_defaults = self.follow_defaults();
        let result = if !self.is_guarded() {
            // Barriers from before would no longer follow the policies.
            match self.wants.guard && self.sa.guard.standing().len() > 0 {
                true => self.sa.guard.clear(now.at),
                false => Ok(()),
            }
        } else if self.wants.guard {
            let prefixes = self.guarded();
            self.sa.guard.spare(self.config.tunnels.iter().map(|tunnel| tunnel.interface.clone()));
            self.sa.guard.set(self.sa.followed.values().map(|p| &p.config), &prefixes, now.at)
        } else {
            for (old, new) in steps {
                let (old, new) = configs(old, new);
                self.sa.guard.change(old, new);
            }
            let is_due = self.sa.guard.due().is_some_and(|at| at <= now.at);
            if is_due || has_defaults || !steps.is_empty() {
                self.sa.guard.settle(now.at)
            } else if self.sa.check_at <= now.at {
                self.sa.check_at = now.at + TICK;
                self.sa.guard.check(now.at).map(|gone| {
                    if gone {
                        warn!("somebody took the guard away; it stands again");
                    }
                })
            } else {
                return;
            }
        };
        self.wants.guard = false;
        match result {
            Ok(()) if self.sa.guard.is_complete() => self.sa.guard_trouble = None,
            Ok(()) => {}
            Err(error) => {
                let trouble = Warning::new(kind_of(&error), error.to_string());
                if self.sa.guard_trouble.as_ref() != Some(&trouble) {
                    error!("{}", trouble.text);
                    self.sa.guard_trouble = Some(trouble);
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

/// The old and the new configuration of a policy that changed.
fn configs<'a>(
    old: &'a Followed,
    new: &'a Followed,
) -> (Option<&'a PolicyConfig>, Option<&'a PolicyConfig>) {
    (old.as_ref().map(|p| &p.config), new.as_ref().map(|p| &p.config))
}
