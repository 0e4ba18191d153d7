//! Tables that workers read: the topology, and what hangs on it.

use std::sync::Arc;

use config::Config;
use dataplane::Topology;
use mirror::Snapshot;
use policy::Prefix;
use report::Occurrence;

use super::Crew;
use crate::clock::Now;
use crate::confinement::Confinement;
use crate::linux::Linux;

impl Crew {
    /// Publishes a topology, with what the configuration wants of its packets.
    pub(crate) fn publish(
        &mut self,
        topology: Topology,
        config: &Config,
        guarded: Vec<Prefix>,
        snapshot: &Snapshot,
        confinement: &Confinement,
    ) {
        let clamps_mss = config.path_mtu.clamp_mss;
        let of = (&config.applications, config.application_list.as_slice());
        let applications = self.recognition.follow(of, &self.workers, confinement);
        // Limits may name applications.
        let rate_rules = self.rate_rules(&config.limits, snapshot);
        self.paths.follow_addresses(snapshot);
        let (path_ends, takes_bfd) = (self.paths.ends(), self.bfd.has_sessions());
        let topology = Topology {
            clamps_mss,
            guarded,
            applications,
            rate_rules,
            path_ends,
            takes_bfd,
            ..topology
        };
        self.tables.topology.store(Arc::new(topology));
        self.published += 1;
    }

    /// Has measured paths, sessions of BFD and steering programs follow a topology that was published. Returns what operators
    /// hear of it.
    pub(crate) fn follow_topology(&mut self, now: Now, linux: &Linux) -> Vec<Occurrence> {
        self.paths.serve(linux.observer.snapshot(), &self.workers);
        let told = self.place_bfd(now, linux.observer.snapshot());
        self.ports.steer_vlans(&linux.vlans);
        let segments = linux.reflection.segments_seen().functions();
        self.ports.steer_segment_errors(segments.headends().next().is_some());
        let mut traffic = linux.overlays.traffic();
        traffic.ports.extend(self.bfd.ports());
        self.ports.steer_overlays(traffic);
        told
    }

    /// Tries again what failed. Workers need another topology if that has opened a port.
    pub(crate) fn retry(&mut self, now: Now, snapshot: &Snapshot) -> bool {
        self.recognition.retry(now.at);
        let has_opened = self.ports.retry(snapshot, &self.workers);
        has_opened || self.recognition.has_ended()
    }
}
