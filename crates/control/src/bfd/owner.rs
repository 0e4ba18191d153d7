//! Sessions as `bfdd` describes them: what a worker is told of them, and what `bfdd` hears.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Instant;

use bfd::dplane::{Body, Message, Peer, counters, echo_reply, state_change};
use bfd::{Counts, Diagnostic, Standing, State};
use dataplane::{BfdAsked, BfdChange, BfdReports, BfdSession};

use super::places::{Places, place};

/// Most sessions that are had at once.
const MOST_SESSIONS: usize = 4096;

/// Messages without an effect in front of counters. `bfdd` of FRR 8.4 to 10.6 waits for counters outside of its loop, and frees
/// its buffer there after three messages of one read alone. After a hundred answers by themselves it takes the full buffer for
/// a connection that has ended.
const FILLERS: usize = 2;

/// Who has the sessions: workers.
pub trait Carrier {
    /// Changes a session.
    fn change(&self, change: BfdChange);
    /// Sessions as they stand. `None` from a worker that is late.
    fn ask(&self, asked: BfdAsked) -> Option<BfdReports>;
}

/// Ends of a session: addresses of this host and of the peer, true for several hops, and the interface, 0 for any.
type Ends = (IpAddr, IpAddr, bool, u32);

/// A session of `bfdd`.
#[derive(Clone, Debug)]
pub struct Known {
    /// The session as `bfdd` has described it.
    pub peer: Peer,
    /// The session as a worker has it, or why none does.
    pub placed: Result<BfdSession, String>,
    /// State as it was heard of last.
    pub standing: Option<Standing>,
    /// Time since when it has that state.
    pub since: Instant,
    /// The ends that another session has.
    waits_for: Option<Ends>,
    source_port: u16,
}

impl Known {
    /// State of this end.
    pub fn state(&self) -> State {
        let down = if self.peer.settings.is_shut { State::AdminDown } else { State::Down };
        self.standing.map_or(down, |standing| standing.state)
    }
}

/// A change of a session's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Address of the peer.
    pub peer: IpAddr,
    /// State before the change.
    pub from: State,
    /// The session as it stands.
    pub to: Standing,
}

/// The sessions of one connection.
#[derive(Debug, Default)]
pub struct Owner {
    /// Sessions by their discriminators.
    pub known: BTreeMap<u32, Known>,
    by_ends: HashMap<Ends, u32>,
    /// Sessions that are not had as another has their ends.
    waiting: HashMap<Ends, BTreeSet<u32>>,
    source_ports: HashSet<u16>,
    next_port: u16,
    /// Version of the protocol that `bfdd` speaks.
    pub version: Option<u8>,
    /// Sessions that no worker has any more, as `bfdd` is to hear of them.
    lost: Vec<Standing>,
}

impl Owner {
    /// Follows a message. Returns the answer, if one is wanted.
    pub fn hear(
        &mut self,
        now: Instant,
        message: Message,
        places: Places<'_>,
        carrier: &impl Carrier,
    ) -> Option<Vec<u8>> {
        let Message { version, id, body } = message;
        self.version = Some(version);
        match body {
            Body::EchoRequest { data_plane, bfdd } => {
                return Some(echo_reply(version, id, (data_plane, bfdd)));
            }
            Body::EchoReply => {}
            Body::Add(peer) => self.add(now, *peer, places, carrier),
            Body::Delete { discr } => self.delete(discr, places, carrier),
            Body::RequestCounters { discr } => {
                let counts = self.counts(discr, carrier);
                let mut answer = echo_reply(version, 0, (0, 0)).repeat(FILLERS);
                answer.extend(counters(version, id, discr, counts));
                return Some(answer);
            }
        }
        None
    }

    fn add(&mut self, now: Instant, peer: Peer, places: Places<'_>, carrier: &impl Carrier) {
        let discr = peer.settings.discr;
        if let Some(known) = self.known.get_mut(&discr) {
            known.peer = peer;
        } else if self.known.len() >= MOST_SESSIONS {
            tracing::warn!(discr, peer = %peer.dst, "bfdd has more sessions than culvert");
            return;
        } else {
            let (source_port, placed) = (self.free_port(), Err(String::new()));
            let (standing, waits_for) = (None, None);
            let known = Known { peer, placed, standing, since: now, waits_for, source_port };
            self.known.insert(discr, known);
        }
        self.settle(discr, places, carrier);
    }

    /// Looks at where all sessions stand: Linux's tables have changed.
    pub fn follow(&mut self, places: Places<'_>, carrier: &impl Carrier) {
        let all: Vec<u32> = self.known.keys().copied().collect();
        all.into_iter().for_each(|discr| self.settle(discr, places, carrier));
    }

    /// Has a worker have the session as it is to be, and those that had to wait for its ends.
    fn settle(&mut self, discr: u32, places: Places<'_>, carrier: &impl Carrier) {
        if let Some(ends) = self.settle_one(discr, places, carrier) {
            self.settle_waiting(ends, places, carrier);
        }
    }

    /// Looks at sessions that wait for ends which no session has any more. None of them has ends that others wait for.
    fn settle_waiting(&mut self, ends: Ends, places: Places<'_>, carrier: &impl Carrier) {
        for discr in self.waiting.remove(&ends).unwrap_or_default() {
            self.settle_one(discr, places, carrier);
        }
    }

    /// Notes which ends a session waits for.
    fn wait(&mut self, discr: u32, ends: Option<Ends>) {
        let Some(known) = self.known.get_mut(&discr) else { return };
        let before = std::mem::replace(&mut known.waits_for, ends);
        if let Some(before) = before
            && let Some(waiting) = self.waiting.get_mut(&before)
        {
            waiting.remove(&discr);
            if waiting.is_empty() {
                self.waiting.remove(&before);
            }
        }
        if let Some(ends) = ends {
            self.waiting.entry(ends).or_default().insert(discr);
        }
    }

    /// Has a worker have the session as it is to be. Returns the ends that it has no more.
    fn settle_one(
        &mut self,
        discr: u32,
        places: Places<'_>,
        carrier: &impl Carrier,
    ) -> Option<Ends> {
        let known = self.known.get(&discr)?;
        let wanted = place(&known.peer, known.source_port, places);
        let other = |session: &BfdSession| {
            self.by_ends.get(&ends_of(session)).copied().filter(|other| *other != discr)
        };
        let taken_by = wanted.as_ref().ok().and_then(other);
        let waits_for = taken_by.and(wanted.as_ref().ok()).map(ends_of);
        let placed = match taken_by {
            Some(other) => Err(format!("session {other} has the same ends")),
            None => wanted,
        };
        self.wait(discr, waits_for);
        let known = self.known.get_mut(&discr)?;
        if placed == known.placed {
            return None;
        }
        let before = known.placed.as_ref().ok().map(ends_of);
        if let Some(before) = before {
            self.by_ends.remove(&before);
        }
        let now = placed.as_ref().ok().map(ends_of);
        match &placed {
            Ok(session) => {
                self.by_ends.insert(ends_of(session), discr);
                carrier.change(BfdChange::Set(*session));
            }
            Err(why) => {
                tracing::warn!(discr, peer = %known.peer.dst, why, "a session of bfdd is not had");
                if known.placed.is_ok() {
                    carrier.change(BfdChange::End(discr));
                }
                // Nobody checks it any more.
                let (state, diagnostic) = (State::Down, Diagnostic::PATH_DOWN);
                let lost = known.standing.map(|it| Standing { state, diagnostic, ..it });
                self.lost.extend(lost);
            }
        }
        known.placed = placed;
        before.filter(|_| before != now)
    }

    fn delete(&mut self, discr: u32, places: Places<'_>, carrier: &impl Carrier) {
        self.wait(discr, None);
        let Some(known) = self.known.remove(&discr) else { return };
        self.source_ports.remove(&known.source_port);
        if let Ok(session) = known.placed {
            let ends = ends_of(&session);
            self.by_ends.remove(&ends);
            carrier.change(BfdChange::End(discr));
            self.settle_waiting(ends, places, carrier);
        }
    }

    fn counts(&self, discr: u32, carrier: &impl Carrier) -> Counts {
        let told = carrier.ask(BfdAsked::One(discr));
        let told = told.and_then(|reports| reports.sessions.first().copied());
        let known = || self.known.get(&discr)?.standing;
        told.or_else(known).map(|standing| standing.counts).unwrap_or_default()
    }

    /// A source port that no other session has (RFC 5881 §4).
    fn free_port(&mut self) -> u16 {
        let ports = bfd::FIRST_SOURCE_PORT..=u16::MAX;
        // There are more ports than sessions.
        loop {
            self.next_port = match self.next_port {
                port if ports.contains(&port) && port < u16::MAX => port + 1,
                _ => bfd::FIRST_SOURCE_PORT,
            };
            if self.source_ports.insert(self.next_port) {
                return self.next_port;
            }
        }
    }

    /// Takes note of how a session stands. Returns what `bfdd` is told, and the change of its state if there is one.
    pub fn note(&mut self, now: Instant, to: Standing) -> Option<(Vec<u8>, Option<Changed>)> {
        // What a worker has said before it was told to end a session does not count.
        self.known.get(&to.discr)?.placed.as_ref().ok()?;
        self.say(now, to)
    }

    /// Takes note of how the next session stands that no worker has any more. Returns the same as `note`.
    pub fn next_lost(&mut self, now: Instant) -> Option<(Vec<u8>, Option<Changed>)> {
        let lost = self.lost.pop()?;
        self.say(now, lost)
    }

    fn say(&mut self, now: Instant, to: Standing) -> Option<(Vec<u8>, Option<Changed>)> {
        let known = self.known.get_mut(&to.discr)?;
        let from = known.state();
        known.standing = Some(to);
        let has_changed = from != to.state;
        if has_changed {
            known.since = now;
        }
        let changed = has_changed.then_some(Changed { peer: known.peer.dst, from, to });
        Some((state_change(self.version?, &to), changed))
    }
}

const fn ends_of(session: &BfdSession) -> Ends {
    (session.local, session.far, session.is_multi_hop, session.ifindex)
}
