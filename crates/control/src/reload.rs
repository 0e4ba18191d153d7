//! Another configuration for a running daemon: all of it, or nothing.
//!
//! 1. The file is examined as before a start ([`examine`]). With anything wrong it is refused here.
//! 2. What can fail is done first: tunnel interfaces, memif ports, workers. Then ports, whose drivers may refuse.
//! 3. What fails takes the daemon back: the configuration of before is followed in the same way. Interfaces that were
//!    closed are removed, and with them their addresses, only when all is done.
//!
//! A step that Linux may refuse at any time, and that is tried again by itself (the guard, routes, an interface that
//! is down), is no failure of a reload: `culvert status` shows it.

use std::fmt::Display;

use config::{Config, Listed, PortConfig, Problem, SidConfig, Srv6Config, WorkerConfig};
use io::{Port, Tun};
use report::{Occurrence, Reloaded};
use tracing::{error, info, warn};

use super::clock::Now;
use super::life::examine::{Situation, examine};
use super::plan::Plan;
use super::ports::{self, Ports};
use super::reloads::in_a_line;
use super::segments::SegmentRoutes;
use super::topology::Reflection;
use super::workers::ChangeError;
use super::{Daemon, End, limits, own, tun_config};

/// Why another configuration is not followed.
enum Failure {
    /// Something was refused.
    Refused(String),
    /// The daemon has to end.
    End(End),
}

fn refused(error: impl Display) -> Failure {
    // In one line: it is said in the middle of a sentence.
    Failure::Refused(error.to_string().lines().next().unwrap_or_default().to_owned())
}

impl Daemon {
    /// Reads the file again and follows it, or says why not. The last line of the log is the verdict.
    pub(super) fn reload(&mut self, now: Now) -> Reloaded {
        let path = self.life.config_path.clone();
        let is_unprivileged = self.crew.esp_sockets.are_wanted();
        let situation = Situation::of_running(&self.config, &self.crew.cores, is_unprivileged);
        let examined = examine(&path, &situation);
        let answer = Reloaded {
            file: path.display().to_string(),
            warnings: examined.warnings.clone(),
            ..Reloaded::default()
        };
        let next = match examined.accept(&path) {
            Ok((next, _)) => next,
            Err(refusal) => return self.refuse(now, answer, refusal.problems),
        };
        for warning in &answer.warnings {
            warn!("{}", Listed { path: &path, problems: std::slice::from_ref(warning) });
        }
        let waiting = self.config.fixed_changes(&next);
        if !waiting.is_empty() {
            warn!("keys that take effect only with a restart: {}", waiting.join(", "));
        }
        let before = self.config.clone();
        let failed_before: Vec<PortConfig> =
            self.crew.ports.failures().map(|(port, _)| port.clone()).collect();
        let followed = self.follow_config(now, &next, &failed_before);
        let failed = match followed {
            Ok(()) => None,
            Err(Failure::End(end)) => {
                let failed = "the workers are lost, and the daemon ends".to_owned();
                self.life.ending = Some(end);
                Some(failed)
            }
            Err(Failure::Refused(why)) => {
                self.go_back(now, &before);
                Some(why)
            }
        };
        self.linux.tunnels.settle();
        self.linux.memifs.settle();
        match failed {
            Some(why) => {
                let number = self.life.reloads.number();
                error!(
                    "configuration not reloaded: {why}; everything is as before (reload {number})"
                );
                self.life.reloads.refuse(now, why.clone());
                self.shows.event_log.add(now, Occurrence::ReloadRefused { why: why.clone() });
                Reloaded { failed: Some(why), ..answer }
            }
            None => {
                self.life.reloads.take(now, waiting.clone());
                let waits_for_restart = waiting.clone();
                self.shows.event_log.add(now, Occurrence::Reloaded { waits_for_restart });
                info!(path = %path.display(), "configuration reloaded");
                Reloaded { reloaded: true, waits_for_restart: waiting, ..answer }
            }
        }
    }

    /// Says what is wrong with the file.
    fn refuse(&mut self, now: Now, answer: Reloaded, problems: Vec<Problem>) -> Reloaded {
        let path = self.life.config_path.clone();
        let why = in_a_line(&path, &problems);
        let noun = if problems.len() == 1 { "problem" } else { "problems" };
        // One event, whose number keeps it from being left out as one that came a moment ago.
        error!(
            "{}\nconfiguration not reloaded: {} {noun}, nothing was changed (reload {})",
            Listed { path: &path, problems: &problems },
            problems.len(),
            self.life.reloads.number()
        );
        self.life.reloads.refuse(now, why.clone());
        self.shows.event_log.add(now, Occurrence::ReloadRefused { why });
        Reloaded { problems, ..answer }
    }

    /// Follows the configuration of before, after another one has failed halfway.
    fn go_back(&mut self, now: Now, before: &Config) {
        // What failed before may fail again: it is tried again, as always.
        match self.follow_config(now, before, &before.ports) {
            Ok(()) => {}
            Err(Failure::Refused(why)) => {
                error!("{why}\n  while the configuration of before was taken up again")
            }
            Err(Failure::End(end)) => self.life.ending = Some(end),
        }
    }

    /// Follows another configuration. Ports that `may_fail` are no failure.
    fn follow_config(
        &mut self,
        now: Now,
        next: &Config,
        may_fail: &[PortConfig],
    ) -> Result<(), Failure> {
        self.linux.tunnels.follow(&next.tunnels, &self.crew.workers).map_err(refused)?;
        self.linux.memifs.follow(now, &next.memifs, &self.crew.workers).map_err(refused)?;
        self.shows.vici.follow(&next.vici, &self.life.confinement).map_err(refused)?;
        self.config.vici.clone_from(&next.vici);
        self.config.tunnels.clone_from(&next.tunnels);
        self.config.memifs.clone_from(&next.memifs);
        self.change_workers(next)?;
        if next.ports != self.config.ports {
            self.crew.ports.close(&self.crew.workers);
            // The new ports take what the old ones took, from their first frame on.
            let steering = self.crew.ports.steering().clone();
            let flows = self.crew.ports.take_flows();
            self.crew.ports = Ports::new(&next.ports, &self.crew.umem, self.config.tun.mark);
            self.crew.ports.set_flows(flows);
            self.crew.ports.steer(steering);
        }
        self.linux.tell_ports(&mut self.sa.source, next.port_names());
        self.wants.marks = true;
        self.crew.ports.set_marks(&next.marks);
        self.config.ports.clone_from(&next.ports);
        self.config.marks.clone_from(&next.marks);
        self.config.vlans.clone_from(&next.vlans);
        self.config.gtpu.clone_from(&next.gtpu);
        self.config.limits.clone_from(&next.limits);
        self.config.applications.clone_from(&next.applications);
        self.config.application_list.clone_from(&next.application_list);
        self.follow_srv6_config(next.srv6.clone(), next.sids.clone());
        self.config.guard.clone_from(&next.guard);
        self.sa.follow_path_mtu_config(&next.path_mtu);
        self.config.path_mtu.clone_from(&next.path_mtu);
        self.wants.path_mtus = true;
        (self.wants.guard, self.wants.links) = (true, true);
        // Whether ports open is known then.
        self.follow_links(now);
        self.publish(now);
        let mut failures = self.crew.ports.failures().filter(|(port, _)| !may_fail.contains(port));
        match failures.next() {
            Some((port, why)) => {
                let name = &port.interface;
                let why = why.strip_prefix(&format!("{name}: ")).unwrap_or(why);
                Err(refused(format!("port {name}: {why}")))
            }
            None => Ok(()),
        }
    }

    /// Changes to the workers of another configuration, their number and cores. If these cannot be, nothing changes.
    fn change_workers(&mut self, next: &Config) -> Result<(), Failure> {
        let queues = ports::most_queues(&next.ports);
        let plan = Plan::new(&next.worker, queues, &self.crew.cores).map_err(refused)?;
        let WorkerConfig { cpus, cpu, crypto_cpus, .. } = next.worker.clone();
        let running = self.config.worker.clone();
        if plan == *self.crew.workers.plan() {
            self.config.worker = WorkerConfig { cpus, cpu, crypto_cpus, ..running };
            return Ok(());
        }
        let threads = |plan: &Plan| plan.workers.len() + plan.crypto.len();
        let more = threads(&plan).saturating_sub(threads(self.crew.workers.plan()));
        if let Some(problem) = limits::growth_problem(&self.config, more) {
            return Err(refused(problem));
        }
        let private = self.more_private_queues(plan.workers.len());
        let counters: Vec<_> = private.iter().map(|queue| queue.counters()).collect();
        let workers = plan.workers.len();
        let databases = self.sa.source.databases();
        match self.crew.workers.change(plan, databases, self.linux.private.ifindex(), private) {
            Ok(()) => {
                self.crew.private_counters.extend(counters);
                self.config.worker = WorkerConfig { cpus, cpu, crypto_cpus, ..running };
                info!(workers, "other workers");
                Ok(())
            }
            Err(ChangeError::NotBegun(error)) => Err(refused(error)),
            Err(ChangeError::Dead(death)) => Err(Failure::End(End::WorkerDied(death))),
            Err(ChangeError::Halfway(error)) => Err(Failure::End(End::WorkersLost(error))),
        }
    }

    /// New queues of the private interface, so that there is one for each worker.
    fn more_private_queues(&self, workers: usize) -> Vec<Box<dyn Port>> {
        let mut queues: Vec<Box<dyn Port>> = Vec::new();
        while self.crew.private_counters.len() + queues.len() < workers {
            match Tun::add_queue(&tun_config(&self.config), self.linux.private.ifindex()) {
                Ok(queue) => queues.push(Box::new(queue)),
                Err(error) => {
                    warn!("{error}\n  workers without a queue have the first one send for them");
                    break;
                }
            }
        }
        queues
    }

    /// Follows another `[srv6]`, or other `[[sid]]`s.
    fn follow_srv6_config(&mut self, srv6: Srv6Config, sids: Vec<SidConfig>) {
        if srv6 != self.config.srv6 || sids != self.config.sids {
            let segments = SegmentRoutes::of_config(&srv6, &sids);
            let own = own(&self.config, self.linux.private.ifindex());
            self.linux.reflection = Reflection::new(self.linux.observer.snapshot(), own, segments);
            (self.config.srv6, self.config.sids) = (srv6, sids);
            self.wants.paths = true;
        }
    }
}
