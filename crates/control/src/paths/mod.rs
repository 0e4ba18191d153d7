//! Paths that are measured (`[[path]]`, `[paths]`): what the worker that measures is told, and what it tells.

mod copies;
mod keys;
mod own;
mod port_places;
#[cfg(test)]
mod reload_tests;
mod rows;
mod rules;
mod sources;
mod states;
#[cfg(test)]
mod tests;
mod unasked;
mod uplinks;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apps::AppId;
use config::{PathConfig, PathMode, PathsConfig, SteerConfig};

use dataplane::{
    ClearReflector, CopyRemoval, PathEnds, PathReflector, PathReport, PathSession, PathSetup,
    PathState, ProbeExit, Probes, Steering,
};
use esp::IvSource;
use mirror::Snapshot;
use paths::stamp::Key;
use paths::{Kind, Labels, Limits, Prober, Quality, Reflector, Removal, Remover};
use report::{Occurrence, PathStanding, Steer, SteerCopies, SteerParity, SteerPath};

use crate::clock::Now;
use crate::workers::set::Workers;

pub use keys::read_key;
pub use own::OwnFlows;
use port_places::PortPlaces;
use rules::{NO_INTERFACE, PathSelection, routing_mark};
use selection::Standing;
use states::shown;

/// Sessions that a stateful reflector counts for.
const COUNTED_SESSIONS: usize = 4096;

/// Paths of the configuration, and the sessions that measure them.
#[derive(Default)]
pub struct Paths {
    options: PathsConfig,
    configured: Vec<PathConfig>,
    /// Their sources at present, of those that have one.
    sources: Vec<Option<IpAddr>>,
    /// Keys by their files.
    keys: HashMap<PathBuf, Key>,
    /// In the order of the configuration.
    sessions: Vec<Session>,
    /// Places of sessions, by their identities.
    by_id: HashMap<u32, usize>,
    /// Places of sessions, by their path's place and class.
    by_class: HashMap<(usize, u8), usize>,
    /// Packets that the worker that measures is given.
    ends: Arc<PathEnds>,
    reflector: Option<u32>,
    clear_reflector: Option<u32>,
    next_id: u32,
    random: Option<IvSource>,
    /// How probes leave, as the worker was told, by session. `None`: it is to be told anew.
    told: Option<Vec<ProbeExit>>,
    /// Bits of the mark of what culvert gives back to Linux.
    own_mark: u32,
    selection: PathSelection,
    /// By session, as the worker has told last.
    measured: HashMap<u32, Measured>,
    /// Identity by which far ends know this host where packets travel in copies; 0 while nobody has asked for it.
    identity: u64,
    /// Labels of hosts whose second copies are removed here. They stay when the configuration changes.
    labels: Arc<Labels>,
    /// True if paths are to be judged at once: a state, an interface or a rule has changed.
    is_urgent: bool,
    /// Place of the session whose state has changed last, of which the worker has not been asked since.
    changed: Option<usize>,
    /// Place of the session that the worker is asked of next, and when.
    next: (usize, Option<Instant>),
}

/// Measurements of a session.
struct Measured {
    state: PathState,
    quality: Quality,
    removal: Option<Removal>,
}

/// A path in one class.
#[derive(Clone, Debug)]
struct Session {
    id: u32,
    /// Place of the path in the configuration.
    path: usize,
    dscp: u8,
    /// Place of its port, or of its identifier, among those between its two addresses.
    port_place: u16,
    probes: Probes,
    /// True if the far end is asked for removal of copies.
    asks: bool,
    /// Random bits, so that who does not see probes cannot answer them.
    noise: u64,
    state: PathState,
    since: Instant,
}

impl Paths {
    /// Follows another configuration. Sessions that stay the same go on with what they have measured.
    ///
    /// # Errors
    /// A key cannot be read, or there are no random numbers; nothing has changed.
    pub fn follow(
        &mut self,
        now: Now,
        (options, own_mark): (&PathsConfig, u32),
        configured: &[PathConfig],
        steers: &[SteerConfig],
    ) -> Result<(), String> {
        self.own_mark = own_mark;
        let files = configured.iter().filter_map(|path| path.key_file.as_ref());
        let in_clear = options.clear.iter().flat_map(|clear| &clear.key_files);
        let files = files.chain(options.key_files.iter().filter(|_| options.reflector));
        let mut keys: HashMap<PathBuf, Key> = HashMap::new();
        for file in files.chain(in_clear) {
            let key = read_key(file).map_err(|error| format!("{}: {error}", file.display()))?;
            keys.insert(file.clone(), key);
        }
        let is_used = !configured.is_empty() || options.reflector || options.clear.is_some();
        if is_used && self.random.is_none() {
            let random = IvSource::new().map_err(|error| format!("no random numbers: {error}"))?;
            self.random = Some(random);
        }
        if let Some(random) = self.random.as_mut().filter(|_| self.identity == 0) {
            self.identity = random.random().max(1);
        }
        let in_copies = steers.iter().filter(|steer| steer.is_numbered());
        let in_copies: HashSet<&String> = in_copies.flat_map(|steer| &steer.paths).collect();
        let old = core::mem::take(&mut self.sessions);
        let name = |session: &Session| Some(self.configured.get(session.path)?.name.as_str());
        let old: HashMap<(&str, u8), &Session> = old
            .iter()
            .filter_map(|session| Some(((name(session)?, session.dscp), session)))
            .collect();
        let known = |path: &PathConfig, class: u8| {
            let known = *old.get(&(path.name.as_str(), class))?;
            let is_same = self.configured.get(known.path) == Some(path)
                && path.key_file.iter().all(|file| self.keys.get(file) == keys.get(file));
            is_same.then_some(known)
        };
        let keeps_ports = self.options.source_port == options.source_port;
        let port_of = |path: &PathConfig, class: u8| {
            known(path, class).filter(|_| keeps_ports).map(|known| known.port_place)
        };
        let mut taken = PortPlaces::default();
        for path in configured {
            let kept = path.dscp.iter().filter_map(|class| port_of(path, class.0));
            kept.for_each(|place| taken.keep((path.source, path.to), place));
        }
        let mut sessions = Vec::new();
        for (at, path) in configured.iter().enumerate() {
            for class in &path.dscp {
                let port_place =
                    port_of(path, class.0).unwrap_or_else(|| taken.free((path.source, path.to)));
                let probes = match path.mode {
                    PathMode::Stamp => Probes::Stamp {
                        local: options.source_port.saturating_add(port_place),
                        far: path.port,
                    },
                    PathMode::Icmp => Probes::Echo(ECHO_IDENT.wrapping_add(port_place)),
                };
                let asks = in_copies.contains(&path.name);
                let known = known(path, class.0)
                    .filter(|known| (known.probes, known.asks) == (probes, asks));
                let session = match known {
                    Some(known) => Session { path: at, ..known.clone() },
                    None => {
                        self.next_id += 1;
                        let (id, state) = (self.next_id, PathState::Untried);
                        let since = now.at;
                        let noise = self.random.as_mut().map_or(0, IvSource::random);
                        let (path, dscp) = (at, class.0);
                        Session { id, path, dscp, port_place, probes, asks, noise, state, since }
                    }
                };
                sessions.push(session);
            }
        }
        let by_id = sessions.iter().enumerate().map(|(at, session)| (session.id, at));
        self.by_id = by_id.collect();
        let by_class = sessions.iter().enumerate();
        self.by_class = by_class.map(|(at, session)| ((session.path, session.dscp), at)).collect();
        self.is_urgent = true;
        self.sessions = sessions;
        let same_keys = options.key_files.iter().all(|file| self.keys.get(file) == keys.get(file));
        self.reflector = match self.reflector {
            _ if !options.reflector => None,
            Some(id) if *options == self.options && same_keys => Some(id),
            _ => {
                self.next_id += 1;
                Some(self.next_id)
            }
        };
        self.clear_reflector = match (self.clear_reflector, &options.clear) {
            (_, None) => None,
            (Some(id), Some(clear))
                if *options == self.options
                    && self.configured == configured
                    && clear.key_files.iter().all(|file| self.keys.get(file) == keys.get(file)) =>
            {
                Some(id)
            }
            _ => {
                self.next_id += 1;
                Some(self.next_id)
            }
        };
        self.keys = keys;
        self.options = options.clone();
        self.configured = configured.to_vec();
        let sources = configured.iter().map(|path| path.source);
        self.sources =
            sources.map(|addr| Some(addr).filter(|addr| !addr.is_unspecified())).collect();
        self.told = None;
        self.ends = Arc::new(self.all_ends());
        self.selection.follow(steers, configured, own_mark);
        self.measured.retain(|id, _| self.by_id.contains_key(id));
        Ok(())
    }

    /// Packets that the worker that measures is given.
    pub fn ends(&self) -> Arc<PathEnds> {
        Arc::clone(&self.ends)
    }

    fn all_ends(&self) -> PathEnds {
        let mut ends = PathEnds {
            reflector: self.reflector.map(|_| self.options.port),
            removal: self.options.remove_copies.then(|| CopyRemoval {
                labels: Arc::clone(&self.labels),
                wait_ns: u64::from(self.options.copies_wait_ms) * 1_000_000,
            }),
            ..PathEnds::default()
        };
        let addresses = self.options.clear.iter().flat_map(|clear| &clear.at);
        let reflectors = addresses.map(|at| SocketAddr::new(*at, self.options.port));
        ends.clear.reflectors = reflectors.collect();
        for session in &self.sessions {
            let Some(path) = self.configured.get(session.path) else { continue };
            let PathConfig { to, .. } = path;
            let Some(source) = self.source(session.path) else { continue };
            let (stamps, echoes) = match path.uplink {
                Some(_) => (&mut ends.clear.sessions, &mut ends.clear.echoes),
                None => (&mut ends.sessions, &mut ends.echoes),
            };
            match session.probes {
                Probes::Stamp { local, far } => {
                    let far = SocketAddr::new(*to, far);
                    stamps.insert((SocketAddr::new(source, local), far));
                }
                Probes::Echo(_) => {
                    echoes.insert((source, *to));
                }
            }
        }
        ends
    }

    /// Tells the worker what it is to measure, if that has changed, or the interfaces have.
    pub fn serve(&mut self, snapshot: &Snapshot, workers: &Workers) {
        self.selection.follow_links();
        self.is_urgent = true;
        let links: HashMap<&str, u32> = match self.sessions.is_empty() {
            true => HashMap::new(),
            false => snapshot.links().map(|link| (link.name.as_str(), link.index)).collect(),
        };
        let exits: Vec<ProbeExit> =
            self.sessions.iter().map(|session| self.exit(&links, session)).collect();
        // Where interfaces alone have changed the worker keeps all that it has of the sessions.
        if let Some(told) = &self.told {
            let changes = led_otherwise(told, &exits);
            if !changes.is_empty() {
                workers.lead_probes(changes);
            }
            self.told = Some(exits);
            return;
        }
        // Nothing is measured, and nothing was.
        let has_reflector = self.reflector.is_some() || self.clear_reflector.is_some();
        let is_empty = self.sessions.is_empty() && !has_reflector;
        if is_empty && self.next_id == 0 {
            self.told = Some(exits);
            return;
        }
        let now_ns = workers.now_ns();
        let sessions = self.sessions.iter().zip(&exits);
        let sessions = sessions.filter_map(|(session, exit)| self.session(session, *exit, now_ns));
        let sessions = sessions.collect();
        let reflector = self.reflector.map(|id| {
            let Paths { options, keys, .. } = &*self;
            let keys = options.key_files.iter().filter_map(|file| keys.get(file).cloned());
            let counted = if options.counts { COUNTED_SESSIONS } else { 0 };
            let limits = Limits { per_second: options.per_second, sessions: counted };
            let mut reflector = Reflector::new(keys.collect(), limits);
            if options.remove_copies {
                let labels = Arc::clone(&self.labels);
                reflector = reflector.with_remover(Remover::new(labels, self.identity));
            }
            PathReflector { id, port: options.port, reflector }
        });
        workers.measure(PathSetup { sessions, reflector, clear: self.in_clear() });
        self.told = Some(exits);
    }

    /// The reflector for probes that come in clear.
    fn in_clear(&self) -> Option<ClearReflector> {
        let (id, clear) = (self.clear_reflector?, self.options.clear.as_ref()?);
        let keys = clear.key_files.iter().filter_map(|file| self.keys.get(file).cloned());
        let limits = Limits { per_second: clear.per_second, sessions: 0 };
        let uplinks = self.configured.iter().zip(&self.sources);
        let uplinks = uplinks.filter(|(path, _)| path.uplink.is_some());
        let marks =
            uplinks.filter_map(|(path, at)| Some(((*at)?, routing_mark(path, self.own_mark))));
        Some(ClearReflector {
            id,
            senders: clear.from.iter().map(|prefix| prefix.0).collect(),
            marks: marks.collect(),
            reflector: Reflector::in_clear(keys.collect(), limits)?,
        })
    }

    /// When paths are to be judged again; `None` without rules.
    pub fn due_in(&self, now: Now) -> Option<Duration> {
        let (_, at) = self.next;
        (!self.selection.is_empty()).then(|| at.map_or(Duration::ZERO, |at| now.until(at)))
    }

    /// Judges the paths of all rules. Returns other rules if workers need them, and what operators hear of it.
    ///
    /// A path that has died counts at once. Other measurements are asked of the worker each [`JUDGED_EVERY`], some
    /// sessions at a time, so that many of them cost the control thread no more.
    pub fn select(
        &mut self,
        now: Now,
        snapshot: &Snapshot,
        workers: &Workers,
        application: impl Fn(&str) -> Option<AppId>,
    ) -> (Option<Steering>, Vec<Occurrence>) {
        let mut told = Vec::new();
        let is_due = self.due_in(now).is_some_and(|due| due.is_zero());
        // What a state has changed by is asked at once, however many sessions there are.
        if let Some(place) = self.changed.take().filter(|_| !self.selection.is_empty()) {
            self.ask(now, workers, place, &mut told);
        }
        if is_due && !self.sessions.is_empty() {
            let (from, _) = self.next;
            let (asked, left) = self.ask(now, workers, from, &mut told);
            self.next = (if left == 0 { 0 } else { from + asked }, Some(now.at + JUDGED_EVERY));
        }
        // Many rounds have nothing to do with paths.
        if !is_due && !std::mem::take(&mut self.is_urgent) {
            return (None, told);
        }
        self.is_urgent = false;
        let Paths { sessions, by_class, measured, selection, .. } = self;
        let clock = Duration::from_nanos(now.at_ns);
        let session_of =
            |path, class| by_class.get(&(path, class)).and_then(|at| sessions.get(*at));
        let quality = |path, class| {
            let session = session_of(path, class)?;
            quality_of(session.state, measured.get(&session.id).map(|of| &of.quality))
        };
        let consent = |path, class| {
            let session = session_of(path, class).filter(|session| session.asks)?;
            measured.get(&session.id)?.removal
        };
        let updated = selection.update(clock, snapshot, application, quality, consent);
        let Some((steering, changed)) = updated else { return (None, told) };
        let by_rule = |name: &String| Occurrence::Steered {
            rule: name.clone(),
            paths: selection.takers(name),
        };
        told.extend(changed.iter().map(by_rule));
        (Some(steering), told)
    }

    /// Asks the worker of some sessions from a place on. Returns of how many it has told, and how many are left.
    fn ask(
        &mut self,
        now: Now,
        workers: &Workers,
        from: usize,
        told: &mut Vec<Occurrence>,
    ) -> (usize, usize) {
        let Some(reports) = workers.measured(from) else { return (0, 0) };
        let asked = (reports.sessions.len(), reports.left);
        told.extend(reports.sessions.iter().filter_map(|report| self.take(now, report)));
        asked
    }

    /// Takes the measurements of a session. A state that was reported before and is not known counts: its event has found
    /// no room, as many paths have changed at once.
    fn take(&mut self, now: Now, report: &PathReport) -> Option<Occurrence> {
        let PathReport { id, state, quality, removal, .. } = *report;
        let before = self.measured.insert(id, Measured { state, quality, removal })?;
        let known = self.sessions.get(*self.by_id.get(&id)?)?.state;
        (before.state == state).then(|| self.note(now, id, known, state))?
    }

    /// Rules of path selection, and how their paths stand.
    pub fn steers(&self, now: Now, snapshot: &Snapshot) -> Vec<Steer> {
        let unasked = self.unasked(snapshot);
        let clock = Duration::from_nanos(now.at_ns);
        let path = |(name, standing, weight): (&str, Standing, u16)| {
            let well = match standing {
                Standing::Bad { well_since } => well_since,
                Standing::Good | Standing::Dead => None,
            };
            SteerPath {
                name: name.to_owned(),
                stands: match standing {
                    Standing::Good => PathStanding::Good,
                    Standing::Bad { .. } => PathStanding::Bad,
                    Standing::Dead => PathStanding::Dead,
                },
                well_s: well.map(|since| clock.saturating_sub(since).as_secs()),
                weight,
            }
        };
        let copies = self.selection.copies().chain(std::iter::repeat(None));
        let rules = self.selection.rules().zip(copies).map(|((rule, paths), copies)| Steer {
            rule: rule.name.clone(),
            paths: paths.into_iter().map(path).collect(),
            return_after_s: rule.return_after_s,
            unasked: unasked.clone(),
            parity: copies.as_ref().filter(|_| rule.parity > 0).map(|parity| match parity {
                Ok(_) => SteerParity::Of(rule.parity),
                Err(why) => SteerParity::Refused(why.clone()),
            }),
            copies: copies.filter(|_| rule.parity == 0).map(|copies| match copies {
                Ok(path) => SteerCopies::By(path),
                Err(why) => SteerCopies::Refused(why),
            }),
        });
        rules.collect()
    }

    /// How a session's probes leave; by an interface that none is where its own is not there.
    fn exit(&self, links: &HashMap<&str, u32>, session: &Session) -> ProbeExit {
        let index = |name: &str| links.get(name).copied().unwrap_or(NO_INTERFACE);
        let Some(path) = self.configured.get(session.path) else { return ProbeExit::Tunnel(0) };
        match (&path.uplink, &path.tunnel) {
            (Some(uplink), _) => {
                let mark = routing_mark(path, self.own_mark);
                // Without an address there is no probe.
                let ifindex = self.source(session.path).map_or(NO_INTERFACE, |_| index(uplink));
                ProbeExit::Uplink { ifindex, mark }
            }
            (None, Some(tunnel)) => ProbeExit::Tunnel(index(tunnel)),
            (None, None) => ProbeExit::Tunnel(0),
        }
    }

    /// Address that a path's probes come from, by the path's place. `None` while its uplink has none.
    fn source(&self, path: usize) -> Option<IpAddr> {
        *self.sources.get(path)?
    }

    fn session(&self, session: &Session, exit: ProbeExit, now_ns: u64) -> Option<PathSession> {
        let path = self.configured.get(session.path)?;
        let noise = session.noise;
        let kind = match path.mode {
            PathMode::Stamp => {
                let key = path.key_file.as_ref().map(|file| self.keys.get(file).cloned());
                // RFC 8972 §3: not 0.
                Kind::Stamp { ssid: (noise as u16).max(1), key: key.flatten() }
            }
            PathMode::Icmp => Kind::Echo,
        };
        let plan = path.plan();
        // Not all at once.
        let due_ns = now_ns + noise % plan.interval_ns;
        let mut prober = Prober::new(kind, plan, (noise >> 32) as u32, due_ns);
        if session.asks {
            prober = prober.asking_for_removal(self.identity);
        }
        if path.count_traffic {
            prober = prober.counting_packets();
        }
        Some(PathSession {
            id: session.id,
            local: self.source(session.path).unwrap_or(path.source),
            far: path.to,
            probes: session.probes,
            dscp: session.dscp,
            exit,
            prober,
        })
    }

    /// Takes note of a change of a session's state. `None` if it is known, or there is no such session any more.
    pub fn note(
        &mut self,
        now: Now,
        id: u32,
        from: PathState,
        to: PathState,
    ) -> Option<Occurrence> {
        let place = *self.by_id.get(&id)?;
        let session = self.sessions.get_mut(place).filter(|session| session.state != to)?;
        (session.state, session.since) = (to, now.at);
        (self.is_urgent, self.changed) = (true, Some(place));
        let path = self.configured.get(session.path)?;
        Some(Occurrence::PathState {
            path: path.name.clone(),
            dscp: session.dscp,
            from: shown(from),
            to: shown(to),
        })
    }

    /// Paths that are not what they should be, for `culvert status`.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let worst = PathState::ALL.into_iter().filter(|state| *state > PathState::Good);
        worst.filter_map(|state| {
            let of = self.sessions.iter().filter(|session| session.state == state);
            let names: Vec<_> = of
                .clone()
                .take(NAMED)
                .filter_map(|session| {
                    let path = self.configured.get(session.path)?;
                    Some(format!("{} (dscp {})", path.name, session.dscp))
                })
                .collect();
            let more = of.count().saturating_sub(NAMED);
            let and = if more > 0 { format!(" and {more} more") } else { String::new() };
            let noun = if names.len() == 1 { "path" } else { "paths" };
            let is_any = !names.is_empty() && state != PathState::Untried;
            is_any.then(|| {
                format!("{noun} {}{and}: {}; see culvert path", names.join(", "), state.name())
            })
        })
    }
}

/// The exits that have changed, with their places.
fn led_otherwise(told: &[ProbeExit], exits: &[ProbeExit]) -> Vec<(usize, ProbeExit)> {
    let all = told.iter().zip(exits).enumerate();
    all.filter(|(_, (was, is))| was != is).map(|(at, (_, is))| (at, *is)).collect()
}

/// Quality of a path as rules judge it. `None` while too little is known.
fn quality_of(state: PathState, measured: Option<&Quality>) -> Option<selection::Quality> {
    match (state, measured) {
        (PathState::Untried, _) | (_, None) => None,
        (PathState::Dead, _) => Some(selection::Quality::default()),
        (_, Some(quality)) => Some(selection::Quality {
            is_alive: true,
            delay: Duration::from_nanos(quality.delay_ns),
            jitter: Duration::from_nanos(quality.jitter_ns),
            loss_ppm: quality.judged_loss_ppm(),
        }),
    }
}

/// How often paths are judged.
const JUDGED_EVERY: Duration = Duration::from_millis(100);

/// Identifier of the first session's echoes between two addresses.
const ECHO_IDENT: u16 = 0xc0de;

/// Sessions that a warning names.
const NAMED: usize = 4;
