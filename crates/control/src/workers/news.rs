//! News from the workers, and which part hears of them.

use config::Config;
use dataplane::Event;
use mirror::Snapshot;
use report::Occurrence;

use super::Crew;
use crate::bfd::Places;
use crate::clock::Now;
use crate::linux::Linux;
use crate::sa::Sas;
use crate::shows::{Shows, breaks};
use crate::texts::spi_text;
use crate::wants::Wants;

/// Most events of workers that one round handles, so that everything else has its turn.
const EVENTS_PER_ROUND: usize = 1024;

/// The parts that hear of events.
pub(crate) struct Hearers<'d> {
    /// The configuration in force.
    pub(crate) config: &'d Config,
    /// Linux's network state.
    pub(crate) linux: &'d mut Linux,
    /// SAs and policies.
    pub(crate) sa: &'d mut Sas,
    /// Events for operators.
    pub(crate) shows: &'d mut Shows,
}

impl Crew {
    /// Hears what workers tell, and has the parts act on it.
    pub(crate) fn serve(&mut self, now: Now, hearers: &mut Hearers<'_>, wants: &mut Wants) {
        self.events.clear();
        for left in (0..EVENTS_PER_ROUND).rev() {
            let Some(event) = self.events.next() else { break };
            if left == 0 {
                self.events.remind();
            }
            self.hear(now, event, hearers, wants);
        }
        self.serve_bfd(now, hearers, wants);
    }

    /// Has the sessions of BFD follow Linux's tables. Returns what operators hear of it.
    pub(crate) fn place_bfd(&mut self, now: Now, snapshot: &Snapshot) -> Vec<Occurrence> {
        let Crew { bfd, workers, tables, .. } = self;
        let topology = tables.topology.load();
        let leaves_by = |ifindex| topology.leaves_by(ifindex);
        bfd.follow_places(now, Places { snapshot, leaves_by: &leaves_by }, workers)
    }

    /// Hears what `bfdd` has to say.
    fn serve_bfd(&mut self, now: Now, hearers: &mut Hearers<'_>, wants: &mut Wants) {
        let Crew { bfd, workers, tables, .. } = self;
        let had_sessions = bfd.has_sessions();
        let topology = tables.topology.load();
        let leaves_by = |ifindex| topology.leaves_by(ifindex);
        let places = Places { snapshot: hearers.linux.observer.snapshot(), leaves_by: &leaves_by };
        let told = bfd.serve(now, places, workers);
        told.into_iter().for_each(|what| hearers.shows.event_log.add(now, what));
        wants.topology |= bfd.has_sessions() != had_sessions;
    }

    fn hear(&mut self, now: Now, event: Event, hearers: &mut Hearers<'_>, wants: &mut Wants) {
        let Hearers { config, linux, sa, shows } = hearers;
        let learns = config.path_mtu.learn;
        let told = match event {
            Event::Acquire { policy, cpu, flow } => {
                shows.note_acquire(now, policy, &flow);
                sa.acquire(now, policy, cpu, &flow);
                None
            }
            Event::VolumeReached { sa: id, hard } => {
                sa.source.volume_reached(&id, hard);
                Some(Occurrence::SaLimit { spi: spi_text(id.spi), dst: id.dst, hard })
            }
            Event::MappingChanged { sa: id, src, src_port: port } => {
                sa.source.mapping_changed(now, &id, src, port);
                Some(Occurrence::PeerMoved { spi: spi_text(id.spi), src, port })
            }
            Event::TooBig { sa: id, dst, mtu } if learns => sa.learn_path_mtu(now, &id, dst, mtu),
            Event::SegmentsTooBig { path, mtu } if learns => sa.learn_segments_mtu(now, path, mtu),
            Event::TooBig { .. } | Event::SegmentsTooBig { .. } => None,
            Event::RateBroken { sa: id, cause } => Some(breaks::told(&id, cause)),
            Event::PathState { id, from, to } => self.paths.note(now, id, from, to),
            Event::Bfd(standing) => self.bfd.note(now, standing),
            Event::Resolve { ifindex, ip } => {
                wants.neighbours |= linux.resolve(ifindex, ip);
                None
            }
            Event::PortGone { ifindex } => {
                self.ports.lost(ifindex, &self.workers);
                linux.tunnels.lost(ifindex);
                self.esp_sockets.lost(ifindex);
                (wants.topology, wants.paths) = (true, true);
                None
            }
        };
        wants.path_mtus |= matches!(told, Some(Occurrence::PathMtu { .. }));
        told.into_iter().for_each(|what| shows.event_log.add(now, what));
    }
}
