//! Sessions of BFD (`[bfd]`): FRR's `bfdd` describes them, a worker has them, and `bfdd` hears how they stand.
//!
//! Culvert connects to `bfdd`, so that `bfdd` knows when culvert has gone: it runs the sessions itself then. In the other
//! direction, when the connection ends, a worker stops at once: two that send for one session would contradict each other.
//!
//! | file | content |
//! | --- | --- |
//! | `stream` | the connection: bytes and messages |
//! | `owner` | the sessions: from messages to what a worker is told, and back |
//! | `places` | addresses and interfaces of a session, and why it cannot be had |
//! | `rows` | `culvert bfd` |

mod owner;
mod places;
mod rows;
mod stream;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use bfd::{Standing, State};
use config::BfdConfig;
use dataplane::{BfdAsked, BfdChange, BfdReports};
use report::Occurrence;

use crate::clock::Now;
use crate::workers::set::Workers;

pub use owner::Carrier;
use owner::{Changed, Owner};
pub use places::Places;
use stream::{Lost, Stream};

/// Pause before the next attempt to connect.
const AGAIN: Duration = Duration::from_secs(3);

/// Pause before what did not fit the socket is sent again.
const FLUSH_AGAIN: Duration = Duration::from_millis(10);

/// Sessions that a warning names.
const NAMED: usize = 4;

/// Connection to `bfdd`, and its sessions.
#[derive(Debug, Default)]
pub struct Bfd {
    config: BfdConfig,
    stream: Option<Stream>,
    is_connected: bool,
    /// Time of the next attempt to connect. `None`: at once.
    again_at: Option<Instant>,
    /// Reason that the last attempt or connection has ended.
    why: Option<String>,
    owner: Owner,
}

impl Carrier for Workers {
    fn change(&self, change: BfdChange) {
        self.change_bfd(change);
    }

    fn ask(&self, asked: BfdAsked) -> Option<BfdReports> {
        self.bfd(asked)
    }
}

impl Bfd {
    /// Follows another configuration: another `bfdd` has sessions of its own.
    pub fn follow(&mut self, config: &BfdConfig, carrier: &impl Carrier) {
        if *config == self.config {
            return;
        }
        self.end(carrier);
        *self = Bfd { config: config.clone(), ..Bfd::default() };
    }

    /// True if a worker has sessions, whose packets it takes.
    pub fn has_sessions(&self) -> bool {
        self.owner.known.values().any(|known| known.placed.is_ok())
    }

    /// UDP ports whose packets to this host are taken.
    pub fn ports(&self) -> impl Iterator<Item = u16> + use<> {
        let ports = [bfd::SINGLE_HOP_PORT, bfd::MULTI_HOP_PORT, bfd::ECHO_PORT];
        ports.into_iter().filter({
            let has_sessions = self.has_sessions();
            move |_| has_sessions
        })
    }

    /// How long the next round may be put off. `None` without a `bfdd`.
    pub fn due_in(&self, now: Now) -> Option<Duration> {
        self.config.dataplane.as_ref()?;
        match &self.stream {
            Some(stream) if stream.has_unsent() => Some(FLUSH_AGAIN),
            Some(_) => None,
            None => Some(self.again_at.map_or(Duration::ZERO, |at| now.until(at))),
        }
    }

    /// The descriptor that is readable when `bfdd` has said something.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(Stream::as_fd)
    }

    /// Connects, hears what `bfdd` says, and answers. Returns what operators hear of it.
    pub fn serve(
        &mut self,
        now: Now,
        places: Places<'_>,
        carrier: &impl Carrier,
    ) -> Vec<Occurrence> {
        let Some(address) = &self.config.dataplane else { return Vec::new() };
        if self.stream.is_none() && self.again_at.is_none_or(|at| at <= now.at) {
            self.again_at = Some(now.at + AGAIN);
            match Stream::connect(address) {
                Ok(stream) => self.stream = Some(stream),
                Err(error) => self.why = Some(error.to_string()),
            }
        }
        let Some(stream) = &mut self.stream else { return Vec::new() };
        let mut told = Vec::new();
        let read = stream.read();
        if !self.is_connected && stream.is_connected() {
            self.is_connected = true;
            let address = address.to_string();
            told.push(Occurrence::BfdConnection { address, why: None });
        }
        let (messages, whole) = stream.messages();
        for message in messages {
            let answer = self.owner.hear(now.at, message, places, carrier);
            answer.into_iter().for_each(|answer| stream.say(&answer));
        }
        told.extend(self.tell_lost(now));
        let Some(stream) = &mut self.stream else { return told };
        if let Err(lost) = read.and(whole).and_then(|()| stream.flush()) {
            told.extend(self.lose(now, &lost, carrier));
        }
        told
    }

    /// Ends a connection that was lost. Sessions end with it.
    fn lose(&mut self, now: Now, lost: &Lost, carrier: &impl Carrier) -> Option<Occurrence> {
        let (was_connected, why) = (self.is_connected, lost.to_string());
        self.end(carrier);
        self.again_at = Some(now.at + AGAIN);
        self.why = Some(why.clone());
        let address = self.config.dataplane.as_ref()?.to_string();
        was_connected.then_some(Occurrence::BfdConnection { address, why: Some(why) })
    }

    fn end(&mut self, carrier: &impl Carrier) {
        if !self.owner.known.is_empty() {
            carrier.change(BfdChange::EndAll);
        }
        (self.stream, self.is_connected, self.owner) = (None, false, Owner::default());
    }

    /// Linux's tables have changed. Returns what operators hear of it.
    pub fn follow_places(
        &mut self,
        now: Now,
        places: Places<'_>,
        carrier: &impl Carrier,
    ) -> Vec<Occurrence> {
        self.owner.follow(places, carrier);
        self.tell_lost(now)
    }

    /// Tells `bfdd` of sessions that no worker has any more.
    fn tell_lost(&mut self, now: Now) -> Vec<Occurrence> {
        let mut told = Vec::new();
        while let Some((message, changed)) = self.owner.next_lost(now.at) {
            told.extend(self.say(&message, changed));
        }
        told
    }

    /// Takes note of how a session stands, and tells `bfdd`. `Some` for a change of its state.
    pub fn note(&mut self, now: Now, to: Standing) -> Option<Occurrence> {
        let (message, changed) = self.owner.note(now.at, to)?;
        self.say(&message, changed)
    }

    fn say(&mut self, message: &[u8], changed: Option<Changed>) -> Option<Occurrence> {
        let stream = self.stream.as_mut()?;
        stream.say(message);
        // A connection that fails is heard of when it is read.
        let _ = stream.flush();
        let Changed { peer, from, to } = changed?;
        let why = if to.state == State::Down { to.diagnostic.to_string() } else { String::new() };
        let (from, to) = (from.name().to_owned(), to.state.name().to_owned());
        Some(Occurrence::BfdState { peer, from, to, why })
    }

    /// A connection that is not there, sessions that cannot be had, and those that are not up.
    pub fn warnings(&self) -> Vec<String> {
        let Some(address) = &self.config.dataplane else { return Vec::new() };
        if !self.is_connected {
            let why = self.why.as_deref().unwrap_or("it has not answered yet");
            return vec![format!("bfdd is not connected ({address}): {why}")];
        }
        let known = self.owner.known.values();
        let refused = known.clone().filter_map(|known| {
            let why = known.placed.as_ref().err()?;
            Some(format!("the BFD session to {} is not had: {why}", known.peer.dst))
        });
        let mut warnings: Vec<String> = refused.take(NAMED).collect();
        let echoless = known.clone().filter(|known| known.placed.is_ok() && known.peer.wants_echo);
        warnings.extend(echoless.take(NAMED).map(|known| {
            format!("the BFD session to {} goes without the echo function, which culvert sends nothing for", known.peer.dst)
        }));
        let is_down = |state| matches!(state, State::Down | State::Init);
        let down: Vec<String> = known
            .filter(|known| known.placed.is_ok() && is_down(known.state()))
            .map(|known| known.peer.dst.to_string())
            .collect();
        if !down.is_empty() {
            let names = down.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = match down.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            warnings.push(format!("BFD sessions down: {names}{more}; see culvert bfd"));
        }
        warnings
    }
}
