//! Packets that are resolved, and are under a rate limit.

use io::Packet;
use outcome::DropReason;
use wire::Headers;

use crate::burst::Path;
use crate::features::Executor;
use crate::features::limit::rates::Stop;
use crate::features::limit::{marked, wait_for};
use crate::model::{Action, Judging, RateLimit};
use crate::slow::Entered;

impl Path {
    /// Has a packet pass its limit. Returns its headers, which may have another DSCP then.
    ///
    /// # Errors
    /// It does not pass, or has to wait.
    #[cold]
    pub(super) fn pass(
        &mut self,
        limit: &RateLimit,
        packet: &mut Packet,
        h: &Headers,
    ) -> Result<Headers, Stop> {
        let passed = self.exec.rooms.rates.pass(limit, h.into(), self.view.now.ns)?;
        let traffic_class = marked(packet, passed, h.into()).traffic_class();
        Ok(Headers { traffic_class, ..*h })
    }

    /// Drops a packet that does not pass here, or has it wait, or go where it is judged.
    #[cold]
    pub(super) fn stop(
        &mut self,
        (stop, limit): (Stop, Option<&RateLimit>),
        packet: Packet,
        h: &Headers,
        entered: Entered<'_>,
    ) {
        match (stop, limit) {
            (Stop::Until(ns), Some(limit)) => {
                let handed = self.handed(packet, entered);
                let Path { view, exec, .. } = self;
                let Executor { out, rooms, .. } = exec;
                wait_for(&mut rooms.rates, (view, out), (limit, ns), handed, h.into());
            }
            (Stop::Elsewhere(home, visit), _) => {
                let handed = self.handed(packet, entered);
                self.exec.out.ask(home, handed, Judging::of(visit, self.view.worker, h.into()));
            }
            _ => self.exec.out.drop(packet, DropReason::RateLimit),
        }
    }

    /// There may be other limiters. The worker's own thread alone: a lane has one writer.
    pub(crate) fn begin_rates(&mut self) {
        let Path { view, exec, .. } = self;
        exec.rooms.rates.begin_epoch(&view.topology.rate_rules, view.worker);
    }

    /// An action of the flow at a place of the flow cache, under its limit.
    pub(super) fn under(
        &mut self,
        place: usize,
        action: Action,
        limit: Option<&RateLimit>,
    ) -> Option<Action> {
        let Some(limit) = limit else { return Some(action) };
        let places = self.flows.places();
        self.exec.rooms.rates.keep((place, places), action, limit).map(Action::Limit)
    }
}
