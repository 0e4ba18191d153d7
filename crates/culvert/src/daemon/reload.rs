//! SIGHUP: another configuration for a running daemon.

use io::{Port, Tun};
use tracing::{error, info, warn};

use super::plan::Plan;
use super::ports::{self, Ports};
use super::segments::SegmentRoutes;
use super::topology::Reflection;
use super::workers::ChangeError;
use super::{Daemon, End, limits, own, tun_config, unprivileged};
use crate::config::{Config, SidConfig, Srv6Config, WorkerConfig};

impl Daemon {
    /// Applies the parts of the configuration that a running daemon can change.
    ///
    /// # Errors
    /// The daemon has to end.
    pub(super) fn reload(&mut self) -> Result<(), End> {
        let next = match Config::load(&self.config_path) {
            Ok(next) => next,
            Err(error) => {
                error!("{error}\n  the running configuration stays as it is");
                return Ok(());
            }
        };
        let fixed = self.config.fixed_changes(&next);
        if !fixed.is_empty() {
            warn!("changes of {} take effect only with a restart", fixed.join(", "));
        }
        self.change_workers(&next)?;
        if self.esp_sockets.are_wanted()
            && let Err(error) = unprivileged::check(&next)
        {
            error!("{error}\n  the running configuration stays as it is");
            return Ok(());
        }
        if next.ports.len() + next.memifs.len() > Ports::MAX {
            error!(most = Ports::MAX, "too many ports; they stay as they are");
            return Ok(());
        }
        if next.ports != self.config.ports {
            self.ports.close(&self.workers);
            // The new ports take what the old ones took, from their first frame on.
            let steering = self.ports.steering().clone();
            let flows = self.ports.take_flows();
            self.ports = Ports::new(&next.ports, &self.umem, self.config.tun.mark);
            self.ports.set_flows(flows);
            self.ports.steer(steering);
        }
        self.follow_port_names(next.port_names());
        self.tunnels.follow(&next.tunnels, &self.workers);
        self.memifs.follow(&next.memifs, &self.workers);
        self.tell_marks(&next.marks);
        self.ports.set_marks(&next.marks);
        self.config.ports = next.ports;
        self.config.memifs = next.memifs;
        self.config.tunnels = next.tunnels;
        self.config.marks = next.marks;
        self.config.vlans = next.vlans;
        self.config.gtpu = next.gtpu;
        self.config.limits = next.limits;
        self.follow_srv6_config(next.srv6, next.sids);
        self.config.guard = next.guard;
        self.follow_path_mtu_config(next.path_mtu);
        self.guard_anew = true;
        self.follow_linux();
        info!(path = %self.config_path.display(), "configuration reloaded");
        Ok(())
    }

    /// Changes to the workers of another configuration, their number and cores. If these cannot be,
    /// nothing changes.
    fn change_workers(&mut self, next: &Config) -> Result<(), End> {
        let queues = ports::most_queues(&next.ports);
        let plan = Plan::new(&next.worker, queues, &self.cores);
        let fits = |plan: &Plan| plan.check_queues(self.ports.most_queues());
        let plan = match plan.and_then(|plan| fits(&plan).map(|()| plan)) {
            Ok(plan) => plan,
            Err(error) => {
                error!("{error}\n  the workers stay as they are");
                return Ok(());
            }
        };
        if let Err(error) = limits::check_frames(&self.config, &next.ports, &plan) {
            error!("{error}\n  the workers stay as they are");
            return Ok(());
        }
        if let Some(warning) = plan.warning(queues)
            && !ports::spread_over_workers(&next.ports)
        {
            warn!("{warning}");
        }
        let WorkerConfig { cpus, cpu, crypto_cpus, .. } = next.worker.clone();
        let running = self.config.worker.clone();
        self.config.worker = WorkerConfig { cpus, cpu, crypto_cpus, ..running };
        if plan == *self.workers.plan() {
            return Ok(());
        }
        let private = self.more_private_queues(plan.workers.len());
        let counters: Vec<_> = private.iter().map(|queue| queue.counters()).collect();
        let workers = plan.workers.len();
        let databases = self.source.databases();
        match self.workers.change(plan, databases, self.private.ifindex(), private) {
            Ok(()) => {
                self.private_counters.extend(counters);
                info!(workers, "other workers");
                Ok(())
            }
            Err(ChangeError::NotBegun(error)) => {
                error!("{error}\n  the workers stay as they are");
                Ok(())
            }
            Err(ChangeError::Dead(death)) => Err(End::WorkerDied(death)),
            Err(ChangeError::Halfway(error)) => Err(End::WorkersLost(error)),
        }
    }

    /// New queues of the private interface, so that there is one for each worker.
    fn more_private_queues(&self, workers: usize) -> Vec<Box<dyn Port>> {
        let mut queues: Vec<Box<dyn Port>> = Vec::new();
        while self.private_counters.len() + queues.len() < workers {
            match Tun::add_queue(&tun_config(&self.config), self.private.ifindex()) {
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
            let own = own(&self.config, self.private.ifindex());
            self.reflection = Reflection::new(self.observer.snapshot(), own, segments);
            (self.config.srv6, self.config.sids) = (srv6, sids);
            self.paths_anew = true;
        }
    }
}
