//! Events, for who wants to be told: `culvert events`, and the log.
//!
//! The last [`MOST`] events are remembered. Who follows them asks again and again for those after the last
//! one it knows, so the daemon keeps nothing for it, and one that is slow misses events instead of holding
//! them up; it is told how many.

mod drop_bursts;
mod log_line;
mod ports;
mod watch;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use policy::SaConfig;
use report::{Event, Events, Occurrence, SaGone, SaIdentity};

pub use self::watch::Watch;
use crate::clock::Now;
use crate::sources::SaChange;
use crate::texts::{spi_text, suite_text};

/// Events that are remembered.
const MOST: usize = 4096;

/// Events in one answer.
const AT_ONCE: usize = 512;

/// The events of this run.
pub struct EventLog {
    /// Run of the daemon: see [`Events::run`].
    run: u64,
    /// The newest last.
    events: VecDeque<Event>,
    /// Of the newest.
    last: u64,
    sas: Tunnels,
}

impl EventLog {
    /// At the start of the daemon.
    pub fn new(now: Now) -> EventLog {
        EventLog { run: now.wall_ms, events: VecDeque::new(), last: 0, sas: Tunnels::default() }
    }

    /// Something has happened.
    pub fn add(&mut self, now: Now, what: Occurrence) {
        log_line::write(&what);
        if self.events.len() == MOST {
            self.events.pop_front();
        }
        self.last += 1;
        self.events.push_back(Event { number: self.last, time_ms: now.wall_ms, what });
    }

    /// SAs that are there at the start: no news.
    pub fn begin(&mut self, sas: impl Iterator<Item = SaConfig>) {
        for config in sas {
            self.sas.add(&config);
        }
    }

    /// SAs have come or gone.
    pub fn follow(&mut self, now: Now, changes: impl IntoIterator<Item = SaChange>) {
        for SaChange { config, gone } in changes {
            let sa = identity(&config);
            let what = match gone {
                None => match self.sas.add(&config) {
                    0 => Occurrence::SaUp(sa),
                    _ => Occurrence::SaRekeyed(sa),
                },
                Some(why) => match self.sas.remove(&config) {
                    0 => Occurrence::SaDown(SaGone { sa, why }),
                    _ => Occurrence::SaRemoved(SaGone { sa, why }),
                },
            };
            self.add(now, what);
        }
    }

    /// The first events after number `after` of a run.
    pub fn after(&self, after: u64, run: u64) -> Events {
        let after = if run == self.run { after.min(self.last) } else { 0 };
        let oldest = self.last + 1 - self.events.len() as u64;
        let lost = oldest.saturating_sub(after + 1);
        let known = usize::try_from((after + 1).saturating_sub(oldest)).unwrap_or(usize::MAX);
        let events: Vec<Event> = self.events.iter().skip(known).take(AT_ONCE).cloned().collect();
        let last = events.last().map_or(self.last, |event| event.number);
        Events { events, run: self.run, last, lost }
    }
}

/// How many SAs there are with the same ends for the same policies: of several the youngest has replaced the
/// others, or is about to.
#[derive(Default)]
struct Tunnels {
    /// By a hash of what they have in common, which spares memory with many.
    counts: HashMap<u64, u32>,
    hasher: RandomState,
}

impl Tunnels {
    fn key(&self, config: &SaConfig) -> u64 {
        let params = &config.params;
        let protocol = params.protocol.number();
        let scope = (config.if_id, config.mark.value, config.mark.mask, config.cpu);
        self.hasher.hash_one((params.src, params.dst, protocol, config.reqid, scope))
    }

    /// Returns how many others there are.
    fn add(&mut self, config: &SaConfig) -> u32 {
        let count = self.counts.entry(self.key(config)).or_default();
        *count += 1;
        *count - 1
    }

    /// Returns how many are left.
    fn remove(&mut self, config: &SaConfig) -> u32 {
        let key = self.key(config);
        let Some(count) = self.counts.get_mut(&key) else { return 0 };
        *count -= 1;
        let left = *count;
        if left == 0 {
            self.counts.remove(&key);
        }
        left
    }
}

fn identity(config: &SaConfig) -> SaIdentity {
    let params = &config.params;
    SaIdentity {
        spi: spi_text(params.spi),
        src: params.src,
        dst: params.dst,
        suite: suite_text(params),
        reqid: config.reqid,
        if_id: config.if_id,
    }
}

#[cfg(test)]
mod tests {
    use report::Gone;

    use super::*;
    use crate::sources::testing::{HERE, THERE, config};

    fn change(spi: u32, is_added: bool) -> SaChange {
        let gone = (!is_added).then_some(Gone::Deleted);
        SaChange { config: config(spi, (HERE, THERE), 7), gone }
    }

    fn names(events: &Events) -> Vec<String> {
        let name = |event: &Event| {
            let json = serde_json::to_value(event).unwrap();
            format!("{} {}", json["event"].as_str().unwrap(), json["spi"].as_str().unwrap_or("-"))
        };
        events.events.iter().map(name).collect()
    }

    #[test]
    fn a_rekey_is_told_from_a_tunnel_that_comes_up() {
        let mut log = EventLog::new(Now::read());
        log.follow(
            Now::read(),
            [change(1, true), change(2, true), change(1, false), change(2, false)],
        );
        let expected = [
            "sa-up 0x00000001",
            "sa-rekeyed 0x00000002",
            "sa-removed 0x00000001",
            "sa-down 0x00000002",
        ];
        assert_eq!(names(&log.after(0, 0)), expected);
        // What was there at the start is no news, and another one is its successor.
        let mut log = EventLog::new(Now::read());
        log.begin([change(1, true).config].into_iter());
        log.follow(Now::read(), [change(2, true)]);
        assert_eq!(names(&log.after(0, 0)), ["sa-rekeyed 0x00000002"]);
    }

    #[test]
    fn why_an_sa_is_gone_is_told() {
        for (why, told) in [
            (Gone::Deleted, "deleted"),
            (Gone::Expired, "expired"),
            (Gone::LeftToKernel, "left-to-kernel"),
        ] {
            let mut log = EventLog::new(Now::read());
            log.follow(
                Now::read(),
                [change(1, true), SaChange { gone: Some(why), ..change(1, false) }],
            );
            let [_, down] = &log.after(0, 0).events[..] else { panic!("two events") };
            let json = serde_json::to_value(down).unwrap();
            assert_eq!((&json["event"], &json["why"]), (&"sa-down".into(), &told.into()));
            assert_eq!(serde_json::from_value::<Event>(json).unwrap(), *down);
        }
    }

    #[test]
    fn who_follows_gets_each_once_and_hears_of_what_it_missed() {
        let mut log = EventLog::new(Now::read());
        let after = |log: &EventLog, number| log.after(number, log.run);
        assert_eq!(after(&log, 0).events, []);
        let port = |n: usize| Occurrence::PortUp { port: n.to_string() };
        (0..3).for_each(|n| log.add(Now::read(), port(n)));
        assert_eq!((after(&log, 0).events.len(), after(&log, 2).events[0].number), (3, 3));
        assert_eq!(after(&log, 3), Events { events: vec![], run: log.run, last: 3, lost: 0 });
        // Of another run.
        assert_eq!(log.after(2, 1).events.len(), 3);
        (3..MOST + 10).for_each(|n| log.add(Now::read(), port(n)));
        let (mut next, mut seen) = (3, Vec::new());
        let first = after(&log, next);
        assert_eq!(first.lost, 7);
        loop {
            let events = after(&log, next);
            if events.events.is_empty() {
                break;
            }
            next = events.last;
            seen.extend(events.events.iter().map(|event| event.number));
        }
        assert_eq!(seen, (11..=MOST as u64 + 10).collect::<Vec<_>>());
    }
}
