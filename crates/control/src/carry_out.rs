//! The end of a round: what is wanted is carried out, once and in the order of [`wants`](super::wants).

use std::sync::Arc;

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

    /// Follows interfaces that have come, gone or changed: Linux's side first, then sockets of ports.
    pub(super) fn follow_links(&mut self, now: Now) {
        let Daemon { config, wants, linux, sa, crew, .. } = self;
        if Wants::take(&mut wants.links) {
            linux.follow_links(now, config, &mut sa.source, crew, wants);
            crew.ports.follow(linux.observer.snapshot(), &crew.workers);
        }
    }

    /// Gives workers what has changed of their tables, once for all of it, and then attaches the programs of ports that
    /// they have been told of.
    pub(super) fn publish(&mut self, now: Now) {
        let Daemon { config, wants, linux, sa, crew, shows, life, .. } = self;
        if Wants::take(&mut wants.marks) {
            linux.marks.tell(config, &linux.private, &linux.tunnels);
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
        let mut are_vlans_new = false;
        if topology {
            let (topology, are_others) = linux.topology(config, crew);
            let (guarded, snapshot) = (sa.guarded(&config.guard), linux.observer.snapshot());
            crew.publish(topology, config, guarded, snapshot, &life.confinement);
            are_vlans_new = are_others;
        }
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
            let had_sessions = crew.bfd.has_sessions();
            let told = crew.follow_topology(now, linux);
            told.into_iter().for_each(|what| shows.event_log.add(now, what));
            wants.topology |= crew.bfd.has_sessions() != had_sessions;
        }
        if is_any_unattached {
            // Workers may have been waited for.
            life.beat_late(&sa.source, crew);
            crew.ports.attach(&crew.workers);
            // How a program is attached decides whether a port's packets can go back to it.
            wants.topology = true;
        }
    }
}
