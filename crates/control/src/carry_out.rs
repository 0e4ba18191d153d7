//! The end of a round: what is wanted is carried out, once and in the order of [`wants`](super::wants).

use std::sync::Arc;

use dataplane::Topology;

use super::Daemon;
use super::clock::Now;
use super::wants::Wants;

impl Daemon {
    /// Carries out what the round has found out to be wanted, in the order of [`wants`](super::wants).
    pub(super) fn carry_out(&mut self, now: Now) {
        self.follow_links(now);
        self.linux.follow_marks(&mut self.sa.source, &mut self.wants);
        self.publish(now);
        self.crew.follow_sas(&mut self.sa.source);
        let Daemon { config, wants, linux, sa, crew, .. } = self;
        sa.follow_policies(now, config, linux, crew, wants);
        linux.follow_routes(wants);
    }

    /// Follows interfaces that have come, gone or changed: with sockets of ports, tunnel interfaces and memif ports.
    pub(super) fn follow_links(&mut self, now: Now) {
        let Daemon { config, wants, linux, sa, crew, .. } = self;
        if !Wants::take(&mut wants.links) {
            return;
        }
        linux.follow_interfaces(&mut sa.source, config.port_names(), wants);
        linux.tunnels.follow_moves(linux.observer.snapshot());
        linux.memifs.follow_links(now, linux.observer.snapshot(), &crew.workers);
        crew.ports.follow(linux.observer.snapshot(), &crew.workers);
        // Policies may name new addresses.
        (wants.topology, wants.paths) = (true, true);
    }

    /// Gives workers what has changed of their tables, once for all of it, and then attaches the programs of ports that
    /// they have been told of.
    pub(super) fn publish(&mut self, now: Now) {
        let Daemon { config, wants, linux, sa, crew, .. } = self;
        if Wants::take(&mut wants.marks) {
            linux.tell_marks(config);
        }
        let neighbours = Wants::take(&mut wants.neighbours);
        if neighbours {
            crew.tables.neighbours.store(Arc::new(linux.reflection.neighbours()));
        }
        let path_mtus = Wants::take(&mut wants.path_mtus);
        if path_mtus {
            crew.tables.path_mtus.store(Arc::new(sa.path_mtus.path_mtus()));
        }
        let topology = Wants::take(&mut wants.topology);
        let are_vlans_new = topology && self.publish_topology();
        let Daemon { config, wants, linux, sa, crew, life, .. } = self;
        if path_mtus || topology {
            sa.inner_mtus.paths_changed(now);
        }
        if neighbours || path_mtus || topology {
            crew.workers.wake();
        }
        let is_any_unattached = crew.ports.is_any_unattached();
        if are_vlans_new || is_any_unattached {
            // Frames come once workers know where they belong. A worker that is late takes the tables over before it
            // receives.
            let _ = crew.workers.wait_for_commands();
        }
        if are_vlans_new {
            linux.tell_ports(&mut sa.source, config.port_names());
        }
        if topology {
            crew.paths.serve(linux.observer.snapshot(), &crew.workers);
            crew.ports.steer_vlans(&linux.vlans);
            let segments = linux.reflection.segments_seen().functions();
            crew.ports.steer_segment_errors(segments.headends().next().is_some());
            crew.ports.steer_overlays(linux.overlays.traffic());
        }
        if is_any_unattached {
            // Workers may have been waited for.
            life.beat(Now::read(), &sa.source, crew);
            crew.ports.attach(&crew.workers);
            // How a program is attached decides whether a port's packets can go back to it.
            wants.topology = true;
        }
    }

    /// Publishes another topology. True if there are other VLANs than before.
    fn publish_topology(&mut self) -> bool {
        let Daemon { config, linux, sa, crew, life, .. } = self;
        let (topology, are_vlans_new) = linux.topology(config, crew);
        let clamps_mss = config.path_mtu.clamp_mss;
        let guarded = sa.guarded(&config.guard);
        let of = (&config.applications, config.application_list.as_slice());
        let applications = crew.recognition.follow(of, &crew.workers, &life.confinement);
        // Limits may name applications.
        let rate_rules = crew.rate_rules(&config.limits, linux.observer.snapshot());
        let path_ends = crew.paths.ends();
        let topology =
            Topology { clamps_mss, guarded, applications, rate_rules, path_ends, ..topology };
        crew.tables.topology.store(Arc::new(topology));
        crew.published += 1;
        are_vlans_new
    }
}
