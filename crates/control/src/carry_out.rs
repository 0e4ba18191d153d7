//! The end of a round: what is wanted is carried out, once and in the order of [`wants`](super::wants).

use std::sync::Arc;

use dataplane::Topology;

use super::Daemon;
use super::clock::Now;
use super::topology::{self, Known};
use super::wants::Wants;

impl Daemon {
    /// Carries out what the round has found out to be wanted, in the order of [`wants`].
    pub(super) fn carry_out(&mut self, now: Now) {
        self.follow_links(now);
        self.follow_marks();
        self.publish(now);
        self.follow_sas();
        self.follow_policies(now);
        self.follow_routes();
    }

    /// Follows interfaces that have come, gone or changed: with sockets of ports, tunnel interfaces and memif ports.
    pub(super) fn follow_links(&mut self, now: Now) {
        if !Wants::take(&mut self.wants.links) {
            return;
        }
        self.follow_interfaces();
        self.linux.tunnels.follow_moves(self.linux.observer.snapshot());
        self.linux.memifs.follow_links(now, self.linux.observer.snapshot(), &self.crew.workers);
        self.crew.ports.follow(self.linux.observer.snapshot(), &self.crew.workers);
        // Policies may name new addresses.
        (self.wants.topology, self.wants.paths) = (true, true);
    }

    /// Gives workers what has changed of their tables, once for all of it, and then attaches the programs of ports that
    /// they have been told of.
    pub(super) fn publish(&mut self, now: Now) {
        if Wants::take(&mut self.wants.marks) {
            self.tell_marks();
        }
        let neighbours = Wants::take(&mut self.wants.neighbours);
        if neighbours {
            self.crew.tables.neighbours.store(Arc::new(self.linux.reflection.neighbours()));
        }
        let path_mtus = Wants::take(&mut self.wants.path_mtus);
        if path_mtus {
            self.crew.tables.path_mtus.store(Arc::new(self.sa.path_mtus.path_mtus()));
        }
        let topology = Wants::take(&mut self.wants.topology);
        let are_vlans_new = topology && self.publish_topology();
        if path_mtus || topology {
            self.sa.inner_mtus.paths_changed(now);
        }
        if neighbours || path_mtus || topology {
            self.crew.workers.wake();
        }
        let is_any_unattached = self.crew.ports.is_any_unattached();
        if are_vlans_new || is_any_unattached {
            // Frames come once workers know where they belong. A worker that is late takes the tables over before it
            // receives.
            let _ = self.crew.workers.wait_for_commands();
        }
        if are_vlans_new {
            self.follow_port_names(self.config.port_names());
        }
        if topology {
            self.crew.ports.steer_vlans(&self.linux.vlans);
            let segments = self.linux.reflection.segments_seen().functions();
            self.crew.ports.steer_segment_errors(segments.headends().next().is_some());
        }
        if is_any_unattached {
            // Workers may have been waited for.
            self.beat(Now::read());
            self.crew.ports.attach(&self.crew.workers);
            // How a program is attached decides whether a port's packets can go back to it.
            self.wants.topology = true;
        }
    }

    /// Puts the topology together and publishes it. True if there are other VLANs than before.
    fn publish_topology(&mut self) -> bool {
        let slot_of = |i| self.crew.ports.slot(i).or_else(|| self.linux.memifs.slot(i));
        let are_vlans_new =
            self.linux.vlans.follow(self.linux.observer.snapshot(), &self.config.vlans, slot_of);
        self.linux.way_back.follow(self.crew.ports.working().chain(self.linux.memifs.working()));
        self.linux.way_back.follow_vlans(self.linux.vlans.taken());
        let known = Known {
            ports: &self.crew.ports,
            memifs: &self.linux.memifs,
            esp_sockets: &self.crew.esp_sockets,
            vlans: &self.linux.vlans,
            tunnels: &self.linux.tunnels,
            marks: &self.config.marks,
            gtpu: &self.config.gtpu,
            way_back: &self.linux.way_back,
        };
        let topology =
            topology::topology(self.linux.observer.snapshot(), self.linux.reflection.fib(), &known);
        let guarded = self.guarded();
        let clamps_mss = self.config.path_mtu.clamp_mss;
        let rate_rules = self.rate_rules();
        let segments = self.linux.reflection.segments_seen().functions();
        let topology = Topology { clamps_mss, guarded, rate_rules, segments, ..topology };
        self.crew.tables.topology.store(Arc::new(topology));
        self.crew.published += 1;
        are_vlans_new
    }

    /// Makes the routes to the private interface follow Linux's own, and puts back what somebody took away.
    fn follow_routes(&mut self) {
        let routes = std::mem::take(&mut self.wants.routes);
        if !routes.is_empty() {
            let led = self.linux.tunnels.led();
            self.linux.private.follow_routes(routes, self.linux.observer.snapshot(), led);
        }
        if Wants::take(&mut self.wants.private) {
            self.linux.private.repair(self.linux.observer.snapshot());
        }
    }
}
