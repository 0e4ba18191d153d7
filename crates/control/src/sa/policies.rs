//! Policies that change: guard, steering, routes and MTUs follow.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use config::Config;
use policy::{Action, Direction, OutboundKey, PolicyConfig, PolicyEntry};

use super::Sas;
use crate::clock::Now;
use crate::inner_mtus::Seen;
use crate::linux::Linux;
use crate::vrfs::Vrfs;
use crate::wants::Wants;
use crate::workers::Crew;

/// A policy that was added, replaced or removed.
#[derive(Debug)]
pub(crate) struct Step {
    old: Option<Arc<PolicyEntry>>,
    new: Option<Arc<PolicyEntry>>,
}

impl Step {
    /// Its configuration before and after.
    pub(crate) fn configs(&self) -> (Option<&PolicyConfig>, Option<&PolicyConfig>) {
        (self.old.as_ref().map(|p| &p.config), self.new.as_ref().map(|p| &p.config))
    }
}

impl Sas {
    /// Policies as they were and as they are, where they changed since the last call.
    pub(crate) fn changed_policies(&mut self, linux: &mut Linux, wants: &mut Wants) -> Vec<Step> {
        let changed = self.source.changes().take_policies();
        let databases = self.source.databases();
        let mut steps = Vec::with_capacity(changed.len());
        for index in changed {
            let new = databases.policy(index).cloned();
            let old = match &new {
                Some(new) => self.followed.insert(index, Arc::clone(new)),
                None => self.followed.remove(&index),
            };
            self.shortfalls.follow(index, new.as_deref());
            let step = Step { old, new };
            let (before, after) = step.configs();
            self.by_sender.follow_policy(before, after);
            wants.paths |= linux.tunnels.follow_policy(before, after);
            steps.push(step);
        }
        let carries = self.source.carries_if_ids();
        let has_tunnel = |id| carries || linux.tunnels.ifindex(id).is_some();
        self.shortfalls.tell(linux.observer.snapshot(), has_tunnel, wants.paths);
        steps
    }

    /// Follows a change of policies or addresses with guard, steering and routes.
    ///
    /// The guard comes first: its barriers are installed before traffic depends on culvert alone.
    pub(crate) fn follow_policies(
        &mut self,
        now: Now,
        config: &Config,
        linux: &mut Linux,
        crew: &mut Crew,
        wants: &mut Wants,
    ) {
        let steps = self.changed_policies(linux, wants);
        self.follow_with_guard(now, config, &steps, wants);
        self.follow_inner_mtus(now, &steps, linux, crew);
        if Wants::take(&mut wants.paths) {
            self.follow_paths(linux, crew);
            // Of all routes, those that have changed among them.
            wants.routes.clear();
            return;
        }
        let snapshot = linux.observer.snapshot();
        for step in &steps {
            let (old, new) = step.configs();
            crew.ports.steer_policy(old, new);
            linux.private.change(old, new, snapshot, linux.tunnels.led());
        }
    }

    /// Sets steering and routes as a whole, by all policies and addresses.
    fn follow_paths(&mut self, linux: &mut Linux, crew: &mut Crew) {
        let snapshot = linux.observer.snapshot();
        let local: HashSet<IpAddr> = snapshot.addresses().map(|a| a.addr).collect();
        if let Some(kernel) = self.source.kernel_mut() {
            let vrfs = Vrfs::of(snapshot);
            linux.private.pass_vrfs(!vrfs.is_empty());
            kernel.set_local(local.clone(), vrfs);
        }
        let policies = || self.followed.values().map(|p| &p.config);
        let tunnelled = linux.tunnels.follow_all_routes(snapshot);
        let tunnelled = tunnelled.into_iter().chain(linux.reflection.segments().prefixes());
        let tunnelled = tunnelled.chain(linux.overlays.prefixes());
        let tunnelled = tunnelled.chain(crew.paths.taken(snapshot));
        let steering = crew.ports.steering().with(local, policies(), tunnelled);
        crew.ports.steer(steering);
        linux.private.follow(policies(), snapshot, linux.tunnels.led());
    }

    /// Tells Linux what fits the SAs behind protected destinations. Before routes to new ones are installed.
    pub(crate) fn follow_inner_mtus(
        &mut self,
        now: Now,
        steps: &[Step],
        linux: &mut Linux,
        crew: &Crew,
    ) {
        let changed_sas = self.source.changes().take_chosen_by();
        let path = |sa: &esp::Sa| Some(crew.tables.sa_mtu(sa)?.outer);
        let seen = Seen { databases: self.source.databases(), path: &path };
        let steps = steps.iter().filter_map(|Step { old, new }| {
            let index = new.as_ref().or(old.as_ref())?.config.index;
            Some((index, new.as_ref().map(|policy| &policy.config)))
        });
        let mut changed = self.inner_mtus.policies_changed(steps, seen);
        changed.extend(self.inner_mtus.sas_changed(changed_sas, seen));
        changed.extend(self.inner_mtus.follow_paths(now, seen));
        if !changed.is_empty() {
            linux.private.set_mtus(changed);
        }
    }

    /// True if an outbound policy that protects has its SAs. `None` for another policy, and where
    /// SAs differ from host to host.
    pub(crate) fn has_sas(&self, policy: &PolicyConfig) -> Option<bool> {
        let is_asked = policy.direction == Direction::Out
            && policy.action == Action::Allow
            && policy.templates.iter().any(|template| !template.optional)
            && OutboundKey::of_policy(policy).is_some();
        is_asked.then(|| self.source.databases().protecting(policy).is_some())
    }

    /// True if there is a policy of this index that may want SAs: it is not known to have them.
    pub(crate) fn wants_sas(&self, policy: u32) -> bool {
        let policy = self.source.databases().policy(policy);
        policy.is_some_and(|policy| self.has_sas(&policy.config) != Some(true))
    }
}
