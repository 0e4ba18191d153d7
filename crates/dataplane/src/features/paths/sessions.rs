//! Sessions of this host: which probe is due, and what was measured.

use core::cmp::Reverse;
use core::net::IpAddr;
use std::collections::{BinaryHeap, HashMap};

use arrayvec::ArrayVec;
use outcome::DropReason;
use paths::stamp::{Layout, Timestamp, tlv};
use rustix::time::{ClockId, clock_gettime};

use super::counted::sent_before;
use super::setup::{
    ClearReflector, PathReflector, PathReport, PathReports, PathSession, PathSetup, ProbeExit,
    Probes,
};
use crate::event::Event;
use crate::features::crafted::{Crafted, Outside, TTL, Upper, headers, made, way_out};
use crate::model::Origin;
use crate::out::{AnyOut, Out};
use crate::view::View;

/// Reflections that wait for the end of a burst; more are dropped.
const ANSWERS: usize = 64;

/// Sessions that are looked at in a round at most, so that packets do not wait for them.
const SESSIONS_A_ROUND: usize = 32;

/// Sessions that are told of at once.
const REPORTS_AT_ONCE: usize = 64;

/// Longest payload of a probe, in bytes.
const LONGEST_PROBE: usize = Layout::KEYED.len + tlv::LONGEST_QUESTION;

/// A session, as its replies name it: addresses of this host and of the far end, and the port or identifier here.
pub(super) type Answerer = (IpAddr, IpAddr, bool, u16);

/// State of the worker that measures.
#[derive(Default)]
pub(crate) struct Paths {
    pub(super) sessions: Vec<PathSession>,
    pub(super) by_reply: HashMap<Answerer, usize, ahash::RandomState>,
    /// Times at which sessions are to be looked at, none later than it has to be.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    pub(super) reflector: Option<PathReflector>,
    pub(super) clear: Option<ClearReflector>,
    pub(super) answers: ArrayVec<Crafted, ANSWERS>,
}

impl Paths {
    /// Follows a setup: sessions that stay go on with what they have measured. `None` if nothing is measured any more.
    pub(crate) fn follow(
        old: Option<Box<Paths>>,
        setup: PathSetup,
        now_ns: u64,
    ) -> Option<Box<Paths>> {
        let PathSetup { mut sessions, mut reflector, mut clear } = setup;
        // All answers have left: this is between two bursts.
        let old = old.map(|old| *old).unwrap_or_default();
        let known = old.sessions.into_iter().map(|session| (session.id, session));
        let mut known: HashMap<u32, PathSession> = known.collect();
        for session in &mut sessions {
            if let Some(known) = known.remove(&session.id) {
                session.prober = known.prober;
            }
        }
        if let (Some(new), Some(known)) = (&mut reflector, old.reflector)
            && new.id == known.id
        {
            *new = known;
        }
        if let (Some(new), Some(known)) = (&mut clear, old.clear)
            && new.id == known.id
        {
            *new = known;
        }
        if sessions.is_empty() && reflector.is_none() && clear.is_none() {
            return None;
        }
        let by_reply = sessions.iter().enumerate().map(|(at, session)| (key_of(session), at));
        let by_reply = by_reply.collect();
        let due = (0..sessions.len()).map(|at| Reverse((now_ns, at))).collect();
        Some(Box::new(Paths {
            sessions,
            by_reply,
            due,
            reflector,
            clear,
            answers: ArrayVec::new(),
        }))
    }

    /// Has the probes of sessions, by their places, leave otherwise. The work is that of these sessions, however many others
    /// there are.
    pub(crate) fn lead(&mut self, changes: &[(usize, ProbeExit)]) {
        for (at, exit) in changes {
            if let Some(session) = self.sessions.get_mut(*at) {
                session.exit = *exit;
            }
        }
    }

    /// Time at which a session is to be looked at.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    /// True if reflections wait, or a session is to be looked at.
    pub(crate) fn has_work(&self, now_ns: u64) -> bool {
        !self.answers.is_empty() || self.due_ns().is_some_and(|due_ns| due_ns <= now_ns)
    }

    /// The reflections that wait, in the order of their probes.
    pub(crate) fn take_answers(&mut self) -> ArrayVec<Crafted, ANSWERS> {
        core::mem::take(&mut self.answers)
    }

    /// Looks at sessions that are due, and makes their probes.
    pub(crate) fn make(
        &mut self,
        view: &View,
        out: &mut Out,
        noise: u64,
        mut made: impl FnMut(Crafted),
    ) {
        let now_ns = out.reports.clock_ns();
        let mut noise = noise;
        for _ in 0..SESSIONS_A_ROUND {
            if self.due_ns().is_none_or(|due_ns| due_ns > now_ns) {
                return;
            }
            let Some(Reverse((_, at))) = self.due.pop() else { return };
            let Some(session) = self.sessions.get_mut(at) else { continue };
            if session.prober.is_due(now_ns)
                && let Some(probe) = session.make(view, out, (now_ns, noise as u16))
            {
                made(probe);
            }
            if let Some(told) = session.prober.tick(now_ns) {
                let id = session.id;
                out.reports.send(Event::PathState { id, from: told.from, to: told.to });
            }
            noise = noise.rotate_right(16).wrapping_mul(ODD);
            self.due.push(Reverse((session.prober.due_ns(), at)));
        }
    }

    /// Tells of sessions from a place on, as many as is done quickly.
    pub(crate) fn report(&self, from: usize) -> PathReports {
        let rest = self.sessions.get(from..).unwrap_or_default();
        let sessions: Vec<_> = rest.iter().take(REPORTS_AT_ONCE).map(PathSession::report).collect();
        let left = rest.len() - sessions.len();
        let reflections = self.reflector.as_ref().map(|it| it.reflector.reflections());
        let in_clear = self.clear.as_ref().map(|it| it.reflector.reflections());
        PathReports { sessions, left, reflections, in_clear }
    }
}

impl PathSession {
    /// The next probe; `None` if there is no buffer for it, or it cannot be made.
    fn make(&mut self, view: &View, out: &mut Out, (now_ns, noise): (u64, u16)) -> Option<Crafted> {
        let mut payload = [0; LONGEST_PROBE];
        let ends = Outside { src: self.local, dst: self.far, dscp: self.dscp, ttl: TTL };
        let origin = self.origin(view);
        let counted = match (self.probes, origin) {
            (Probes::Stamp { local, far }, Some(origin)) if self.prober.counts_packets() => {
                sent_before(view, &headers(ends, Upper::Udp(local, far), payload.len()), origin)
            }
            _ => None,
        };
        let (seq, len) = self.prober.send(now_ns, wall(), noise, counted, &mut payload)?;
        let upper = match self.probes {
            Probes::Stamp { local, far } => Upper::Udp(local, far),
            Probes::Echo(ident) => Upper::Echo(ident, seq as u16),
        };
        let (packet, h) = made(out, ends, upper, payload.get(..len)?)?;
        out.counters.work.probes_sent.add(1);
        match origin {
            Some(origin) => Some((packet, h, origin)),
            // Its interface is down, or gone: the probe is lost.
            None => {
                out.drop(packet, DropReason::TransmitDown);
                None
            }
        }
    }

    fn origin(&self, view: &View) -> Option<Origin> {
        match self.exit {
            ProbeExit::Tunnel(tunnel) => way_out(view, tunnel, true),
            ProbeExit::Uplink { ifindex, mark } => {
                let is_up = view.topology.interfaces.get(&ifindex).is_some_and(|it| it.up);
                is_up.then_some(Origin::Probe { ifindex, mark })
            }
        }
    }

    /// True if a reply has come as those to its probes do: decrypted, or in clear.
    pub(super) fn is_of(&self, is_decrypted: bool) -> bool {
        is_decrypted != matches!(self.exit, ProbeExit::Uplink { .. })
    }

    fn report(&self) -> PathReport {
        let (sent, answered) = self.prober.counts();
        PathReport {
            id: self.id,
            state: self.prober.state(),
            quality: self.prober.quality(),
            sent,
            answered,
            refusals: self.prober.refusals(),
            removal: self.prober.removal(),
        }
    }
}

const fn key_of(session: &PathSession) -> Answerer {
    match session.probes {
        Probes::Stamp { local, .. } => (session.local, session.far, true, local),
        Probes::Echo(ident) => (session.local, session.far, false, ident),
    }
}

/// The wall clock, as probes have it.
pub(super) fn wall() -> Timestamp {
    let time = clock_gettime(ClockId::Realtime);
    let (seconds, ns) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    Timestamp::of_unix_ns(seconds.wrapping_mul(1_000_000_000).wrapping_add(ns))
}

/// Spreads random bits over the probes of a round (a multiplier of Knuth's, MMIX).
const ODD: u64 = 6_364_136_223_846_793_005;
