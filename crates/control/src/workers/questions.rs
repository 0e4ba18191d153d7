//! Questions that the workers answer, and what the other parts want of all of them.

use std::net::IpAddr;
use std::sync::Arc;

use config::LimitConfig;
use dataplane::{Explanation, Fate, Probe, RateRules};
use mirror::Snapshot;
use outcome::DropReason;
use report::{Direction, Limit};
use tracing::info;

use super::Crew;
use crate::clock::Now;
use crate::events::EventLog;
use crate::sources::Source;
use crate::sources::kernel::KernelSource;
use crate::steering::TakenEsp;

/// Most workers that are asked in turn: one that is not the home of the SA names the home.
const MOST_ASKED: usize = 2;

impl Crew {
    /// Asks worker 0 what it would do with a packet, and then the one that it would hand the packet over to.
    ///
    /// # Errors
    /// Text for people: no worker has answered in time.
    pub(crate) fn ask(&self, probe: Probe) -> Result<(usize, Explanation), String> {
        let mut worker = 0;
        for _ in 0..MOST_ASKED {
            let explanation = self.workers.explain(worker, probe.clone());
            let explanation = explanation.ok_or("a worker did not answer in time: ask again")?;
            match explanation.fate {
                Fate::HandedOver { to } => worker = to,
                _ => return Ok((worker, explanation)),
            }
        }
        Err("the SA's home has just changed: ask again".into())
    }

    /// Direction of an SA's packets, by its ends.
    pub(crate) fn direction(&self, src: IpAddr, dst: IpAddr) -> Option<Direction> {
        let topology = self.tables.topology.load();
        match (topology.is_local_addr(src), topology.is_local_addr(dst)) {
            (false, true) => Some(Direction::In),
            (true, false) => Some(Direction::Out),
            _ => None,
        }
    }

    /// The rules about rates, as they are in force.
    pub(crate) fn rate_rules(
        &mut self,
        limits: &[LimitConfig],
        snapshot: &Snapshot,
    ) -> Arc<RateRules> {
        let at = (self.workers.count(), self.workers.now_ns());
        let application = |name: &str| self.recognition.id(name);
        self.rate_limits.follow(limits, snapshot, application, at)
    }

    /// Has flows take other paths where measurements or interfaces say so.
    pub(crate) fn select_paths(&mut self, now: Now, snapshot: &Snapshot, log: &mut EventLog) {
        let Crew { paths, workers, recognition, tables, .. } = self;
        let application = |name: &str| recognition.id(name);
        let (steering, changes) = paths.select(now, snapshot, workers, application);
        if let Some(steering) = steering {
            tables.steer(steering);
        }
        changes.into_iter().for_each(|change| log.add(now, change));
    }

    /// `culvert limit show`.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        self.rate_limits.report(self.workers.now_ns())
    }

    /// Tells the steering programs culvert's SAs, once the kernel has some too.
    pub(crate) fn follow_sas(&mut self, source: &mut Source) {
        if self.ports.steering().esp == TakenEsp::All
            && let Some(own) = source.own_esp()
        {
            self.ports.leave_unknown_esp(own);
        }
        self.ports.steer_udp_fragments(source.databases().has_encapsulated());
        for step in source.changes().take_steps() {
            self.ports.steer_sa(step);
        }
        let samples = source.kernel_mut().map(KernelSource::take_samples);
        for (dst, spi) in samples.unwrap_or_default() {
            self.ports.sample_sa(dst, spi);
        }
    }

    /// Logs what was dropped in all, at the end: nobody can ask for it any more.
    pub(crate) fn tell_drops(&self) {
        let all = DropReason::ALL.iter().map(|reason| (reason, self.workers.dropped(*reason)));
        let some = all.filter(|(_, count)| *count > 0);
        let drops: Vec<String> = some.map(|(r, count)| format!("{} {count}", r.name())).collect();
        if !drops.is_empty() {
            info!("packets dropped in all: {}", drops.join(", "));
        }
    }
}
