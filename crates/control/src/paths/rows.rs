//! `culvert path`: what the worker has measured, as rows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use config::{PathConfig, PathMode};
use dataplane::{PathReport, PathReports};
use mirror::Snapshot;
use paths::{Reflections, Refusals};
use report::{MeasuredPath, MeasuredPaths, ReflectorCounts, TrafficLoss};

use super::states::shown;
use super::{Paths, Session};
use crate::clock::Now;
use crate::workers::set::Workers;

impl Paths {
    /// Everything that is measured, asked of the worker.
    pub fn rows(&self, now: Now, snapshot: &Snapshot, workers: &Workers) -> MeasuredPaths {
        let host = Host::of(snapshot);
        let (mut reports, mut reflections, mut clear) = (BTreeMap::new(), None, None);
        let mut from = 0;
        // As many as it tells at once, until there are no more, or it is late.
        while let Some(PathReports { sessions, left, reflections: counts, in_clear }) =
            workers.measured(from)
        {
            from += sessions.len();
            (reflections, clear) = (counts, in_clear);
            let is_done = left == 0 || sessions.is_empty();
            reports.extend(sessions.into_iter().map(|report| (report.id, report)));
            if is_done {
                break;
            }
        }
        let rows = self.sessions.iter();
        MeasuredPaths {
            paths: rows
                .filter_map(|session| self.row(now, &host, session, reports.get(&session.id)))
                .collect(),
            reflector: self.reflector.map(|_| reflected(self.options.port, reflections)),
            clear_reflector: self.clear_reflector.map(|_| reflected(self.options.port, clear)),
        }
    }

    fn row(
        &self,
        now: Now,
        host: &Host<'_>,
        session: &Session,
        report: Option<&PathReport>,
    ) -> Option<MeasuredPath> {
        let path = self.configured.get(session.path)?;
        let ms = |ns: u64| (ns / 1000) as f64 / 1000.0;
        let mut row = MeasuredPath {
            name: path.name.clone(),
            tunnel: path.tunnel.clone(),
            uplink: path.uplink.clone(),
            source: self.source(session.path),
            to: Some(path.to),
            mode: match path.mode {
                PathMode::Stamp => "stamp".into(),
                PathMode::Icmp => "icmp".into(),
            },
            keyed: path.key_file.is_some(),
            dscp: session.dscp,
            since_s: now.at.saturating_duration_since(session.since).as_secs(),
            interval_ms: path.interval_ms,
            trouble: host.trouble(path, self.source(session.path)),
            ..MeasuredPath::default()
        };
        let state = report.map_or(session.state, |report| report.state);
        row.state = shown(state);
        row.penalty = u64::from(path.cost) + u64::from(state.penalty());
        if let Some(report) = report {
            let quality = &report.quality;
            (row.sent, row.answered) = (report.sent, report.answered);
            (row.window, row.lost) = (quality.probes, quality.lost);
            row.loss_percent = f64::from(quality.loss_ppm()) / 10_000.0;
            (row.away, row.back) = (quality.away.map(traffic), quality.back.map(traffic));
            row.delay_ms = ms(quality.delay_ns);
            row.delay_p99_ms = ms(quality.delay_p99_ns);
            row.jitter_ms = ms(quality.jitter_ns);
            row.refused = refused(&report.refusals);
        }
        Some(row)
    }
}

fn traffic(loss: paths::TrafficLoss) -> TrafficLoss {
    let loss_percent = f64::from(loss.ppm()) / 10_000.0;
    TrafficLoss { sent: loss.sent, lost: loss.lost, loss_percent }
}

/// Counts of a reflector; nothing if the worker has not told of it.
fn reflected(port: u16, counts: Option<Reflections>) -> ReflectorCounts {
    let Reflections {
        reflected,
        malformed,
        unauthentic,
        limited,
        reflection,
        unnamed,
        too_long,
        no_room,
        bad_extensions,
        uncounted,
    } = counts.unwrap_or_default();
    let refused = occurred([
        ("malformed", malformed),
        ("unauthentic", unauthentic),
        ("limited", limited),
        ("reflection", reflection),
        ("unnamed", unnamed),
        ("too-long", too_long),
        ("no-room", no_room),
        ("bad-extensions", bad_extensions),
        ("uncounted", uncounted),
    ]);
    ReflectorCounts { port, reflected, refused }
}

/// Interfaces and addresses of this host that paths need.
struct Host<'s> {
    /// Interfaces by their names; true of those that are up.
    links: HashMap<&'s str, bool>,
    addresses: HashSet<IpAddr>,
}

impl Host<'_> {
    fn of(snapshot: &Snapshot) -> Host<'_> {
        Host {
            links: snapshot.links().map(|link| (link.name.as_str(), link.up)).collect(),
            addresses: snapshot.addresses().map(|address| address.addr).collect(),
        }
    }

    /// Reason that the probes of a path cannot be answered, if this host has one.
    fn trouble(&self, path: &PathConfig, source: Option<IpAddr>) -> Option<String> {
        let interface = path.tunnel.as_deref().or(path.uplink.as_deref());
        let of_link = interface.and_then(|name| match self.links.get(name) {
            None => Some(format!("there is no interface {name}")),
            Some(false) => Some(format!("interface {name} is down")),
            Some(true) => None,
        });
        of_link.or_else(|| match source {
            None => Some("its uplink has no address of its family".to_owned()),
            Some(source) => {
                let is_lost = !self.addresses.contains(&source);
                is_lost.then(|| format!("its source {source} is no address of this host"))
            }
        })
    }
}

fn refused(refusals: &Refusals) -> BTreeMap<String, u64> {
    let Refusals {
        malformed,
        unauthentic,
        unsent,
        duplicate,
        late,
        reflector_clock,
        negative_delay,
        own_clock,
        backward_count,
        surplus_count,
    } = *refusals;
    occurred([
        ("malformed", malformed),
        ("unauthentic", unauthentic),
        ("unsent", unsent),
        ("duplicate", duplicate),
        ("late", late),
        ("reflector-clock", reflector_clock),
        ("negative-delay", negative_delay),
        ("own-clock", own_clock),
        ("backward-count", backward_count),
        ("surplus-count", surplus_count),
    ])
}

fn occurred<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    let some = counts.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(name, count)| (name.to_owned(), count)).collect()
}
