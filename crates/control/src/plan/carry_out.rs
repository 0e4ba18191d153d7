//! Does what a plan says. A start and a reload get their configuration here, and nowhere else.
//!
//! 1. The steps, in their order. The first that is refused ends it.
//! 2. What follows from them: barriers of the guard, then what ports take, then the ports themselves. Their drivers may
//!    refuse.
//! 3. Interfaces that were closed are removed, and with them their addresses.
//!
//! A reload that fails in 1 or 2 goes back by [`Daemon::take_back`]: the steps that were done are undone in the opposite
//! order. What Linux may refuse at any time (the guard, routes, an interface that is down) is tried
//! again by itself, and is no failure.

use config::{Config, PortConfig};
use tracing::{debug, error};

use super::Plan;
use super::failure::{Failure, StepError};
use super::running::Running;
use super::steps::{Change, Step};
use crate::Daemon;
use crate::clock::Now;
use crate::overlays::OverlayLinks;
use crate::ports::Ports;
use crate::segments::SegmentRoutes;
use crate::sources::Source;
use crate::topology::Reflection;

/// A plan that came to a stop.
#[derive(Debug)]
pub struct Stopped {
    /// Reason for it.
    pub failure: Failure,
    /// The steps that were done, in their order.
    pub done: Vec<Step>,
    /// The configuration of before.
    pub before: Box<Config>,
}

impl Daemon {
    /// Carries out a plan.
    ///
    /// # Errors
    /// A step was refused. Those before it are done.
    pub(crate) fn carry_out_plan(&mut self, now: Now, plan: Plan) -> Result<(), Box<Stopped>> {
        let Plan { steps, config, may_fail, .. } = plan;
        let before = Box::new(std::mem::replace(&mut self.config, config));
        let mut done = Vec::with_capacity(steps.len());
        for step in steps {
            debug!("{step}");
            if let Err(failure) = self.take_step(now, &step) {
                debug_assert_eq!(step.cannot_fail(), None, "{step}");
                return Err(Box::new(Stopped { failure, done, before }));
            }
            done.push(step);
        }
        self.take_effect(now);
        if let Some(refused) = refused_port(&self.crew.ports, &may_fail) {
            return Err(Box::new(Stopped { failure: refused.into(), done, before }));
        }
        self.settle();
        Ok(())
    }

    /// Undoes what a plan has done.
    pub(crate) fn take_back(&mut self, now: Now, done: &[Step], before: Config) {
        self.config = before;
        for step in done.iter().rev().map(Step::back) {
            debug!("{step}");
            match self.take_step(now, &step) {
                Ok(()) => {}
                Err(Failure::Refused(why)) => {
                    error!("{why}\n  while the configuration of before was taken up again");
                }
                Err(Failure::Lost(lost)) => {
                    self.life.ending = Some(lost.into());
                    return;
                }
            }
        }
        self.take_effect(now);
        self.settle();
    }

    /// The daemon as it runs, for a plan.
    pub(crate) fn running(&self) -> Running {
        Running {
            config: Some(self.config.clone()),
            is_beside_kernel: matches!(self.sa.source, Source::Kernel(_)),
            layout: self.crew.workers.layout().clone(),
            tunnels: self.linux.tunnels.states().map(|(config, ..)| config.clone()).collect(),
            memifs: self.linux.memifs.configs().cloned().collect(),
            ports: self.crew.ports.running().collect(),
        }
    }

    fn take_step(&mut self, now: Now, step: &Step) -> Result<(), Failure> {
        let (linux, crew) = (&mut self.linux, &mut self.crew);
        match step {
            Step::CloseTunnel(config) => linux.tunnels.close(config, &crew.workers),
            Step::OpenTunnel(config) => {
                linux.tunnels.open(config, &mut *linux.interfaces, &crew.workers)?;
            }
            Step::CloseMemif(config) => linux.memifs.close_port(now, config, &crew.workers),
            Step::OpenMemif(config) => {
                let is_taken = |place| crew.ports.has_place(place);
                linux.memifs.open_port(config, &mut *linux.interfaces, is_taken)?;
            }
            Step::Vici(Change { to, .. }) => {
                self.shows.vici.follow(to, &self.life.confinement).map_err(StepError::Vici)?;
            }
            Step::Paths(Change { to: (options, paths, steers), .. }) => {
                let options = (options, self.config.tun.mark);
                crew.paths.follow(now, options, paths, steers).map_err(StepError::Paths)?;
                (self.wants.topology, self.wants.paths) = (true, true);
            }
            Step::Workers(Change { to, .. }) => {
                crew.change(to, &self.config, linux, self.sa.source.databases())?;
            }
            Step::ClosePort(config) => crew.ports.remove(config, &crew.workers),
            Step::OpenPort(config) => {
                crew.ports.add(config, |place| linux.memifs.has_place(place));
            }
            Step::Marks(Change { to, .. }) => {
                crew.ports.set_marks(to);
                self.wants.marks = true;
            }
            Step::Vlans(_) | Step::Gtpu(_) | Step::Limits(_) | Step::Applications(_) => {
                self.wants.topology = true;
            }
            Step::Srv6(Change { to: (srv6, sids), .. }) => {
                let segments = SegmentRoutes::of_config(srv6, sids);
                let own = crate::own(&self.config, linux.private.ifindex());
                linux.reflection = Reflection::new(linux.observer.snapshot(), own, segments);
                linux.take_in_overlays(&mut self.wants);
                self.wants.paths = true;
            }
            Step::Overlay(Change { to, .. }) => {
                linux.overlays = OverlayLinks::of_config(to, self.sa.source.carries_on());
                linux.take_in_overlays(&mut self.wants);
                (self.wants.topology, self.wants.paths) = (true, true);
            }
            Step::Bfd(Change { to, .. }) => {
                crew.bfd.follow(to, &crew.workers);
                self.wants.topology = true;
            }
            Step::Guard(_) => self.wants.guard = true,
            Step::PathMtu(Change { to, .. }) => {
                self.sa.follow_path_mtu_config(to);
                self.wants.path_mtus = true;
            }
        }
        Ok(())
    }

    /// Has everything follow the configuration that counts. Nothing is taken from Linux, by a port or by a route, before
    /// barriers stand and the workers can send it on.
    fn take_effect(&mut self, now: Now) {
        let Daemon { config, wants, linux, sa, crew, life, .. } = self;
        (wants.guard, wants.links) = (true, true);
        linux.tell_ports(&mut sa.source, config.port_names());
        linux.follow_interfaces(&mut sa.source, config.port_names(), wants);
        let steps = sa.changed_policies(linux, wants);
        sa.follow_with_guard(now, config, &steps, wants);
        // Steps may have waited for workers.
        life.beat_late(&sa.source, crew);
        crew.follow_sas(&mut sa.source);
        // Ports take this from their first frame on.
        let snapshot = linux.observer.snapshot();
        let policies = sa.followed.values().map(|p| &p.config);
        let local = snapshot.addresses().map(|a| a.addr).collect();
        let tunnelled = linux.tunnels.follow_all_routes(snapshot);
        let tunnelled = tunnelled.into_iter().chain(linux.reflection.segments().prefixes());
        let tunnelled = tunnelled.chain(linux.overlays.prefixes());
        let tunnelled = tunnelled.chain(crew.paths.taken(snapshot));
        let steering = crew.ports.steering().with(local, policies, tunnelled);
        crew.ports.steer(steering);
        self.follow_links(now);
        self.linux.follow_marks(&mut self.sa.source, &mut self.wants);
        self.publish(now);
        let Daemon { linux, sa, crew, .. } = self;
        sa.follow_inner_mtus(now, &steps, linux, crew);
    }

    /// Removes what is left of what was closed.
    fn settle(&mut self) {
        self.linux.tunnels.settle(&self.config.tunnels, &mut *self.linux.interfaces);
        self.linux.memifs.settle(&self.config.memifs, &mut *self.linux.interfaces);
        self.crew.ports.settle(&self.config.ports);
    }
}

/// A port that could not be opened, and should have been.
fn refused_port(ports: &Ports, may_fail: &[PortConfig]) -> Option<StepError> {
    let mut failures = ports.failures();
    let (port, why) = failures.find(|(port, _)| !may_fail.contains(port))?;
    let interface = port.interface.clone();
    let why = why.strip_prefix(&format!("{interface}: ")).unwrap_or(why).to_owned();
    Some(StepError::Port { interface, why })
}
