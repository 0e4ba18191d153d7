//! NAT of Linux's, carried out by the fast path (`[nat]`).
//!
//! Connections are learnt from ctnetlink: a dump, and what comes, changes and goes. Those that the fast path may carry
//! are published to the workers ([`conntrack::Bindings`]), and those that are translated are taken by the ports. Linux
//! sees nothing of what is carried, so it is told that these connections are alive ([`upkeep`]).

mod rows;
mod statistics;
mod taken;
mod timeouts;
mod upkeep;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use conntrack::{Binding, Bindings, Change, Direction, Entry, Event, Tuple, message};
use netlink::answer::Answer;
use netlink::{Fault, Heard, Listener};
use tracing::{debug, warn};

pub use self::statistics::look as statistics;
pub use self::taken::TakenFlows;
#[cfg(test)]
pub use self::timeouts::Timeouts;
use self::upkeep::Upkeep;
use crate::clock::Now;
use crate::linux::edge::{Ctnetlink, Rules, Tracking};
use crate::sources::kernel::NatWatch;

/// Time until everything is asked for once more, where that was not taken.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Step of the ports for a direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStep {
    /// Tuple of its packets, as they arrive.
    pub tuple: Tuple,
    /// True if they are taken from now on.
    pub is_taken: bool,
}

/// The fast path's table of Linux's connections.
pub struct Nat {
    bindings: Arc<Bindings>,
    rules: Box<dyn Rules>,
    tracking: Box<dyn Tracking>,
    events: Listener,
    requests: Listener,
    dump: Option<Dump>,
    dumps: u32,
    /// When everything is asked for, as events were lost; again and again, until that is taken.
    read_at: Option<Instant>,
    upkeep: Upkeep,
    counters: NatCounters,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NatCounters {
    /// Times that events were lost, and everything was read anew.
    pub overruns: u64,
    /// Times that Linux was told that a connection is alive.
    pub refreshed: u64,
    /// Requests that it refused: the connection was gone.
    pub refused: u64,
}

/// A dump under way.
struct Dump {
    answers: Listener,
    /// Connections that events have told of meanwhile: the dump may tell later how they were before.
    told: HashSet<(Tuple, u32)>,
}

/// Results of a round.
#[derive(Default)]
struct Round {
    now_ms: u64,
    /// Connections that are not in the table yet.
    fresh: HashMap<Tuple, Arc<Binding>>,
    changes: Vec<Change>,
    steps: Vec<FlowStep>,
    /// Requests that Linux gets before the fast path follows.
    requests: Vec<u8>,
}

impl Nat {
    /// Begins to learn from Linux.
    ///
    /// # Errors
    /// The kernel has no connection tracking, or does not let this process ask.
    pub fn begin() -> io::Result<Nat> {
        Nat::by(Box::new(Ctnetlink), Box::new(NatWatch::new()))
    }

    /// Begins to learn by these edges.
    ///
    /// # Errors
    /// There is no connection tracking, or it does not let this process ask.
    pub fn by(mut tracking: Box<dyn Tracking>, rules: Box<dyn Rules>) -> io::Result<Nat> {
        // First: what changes meanwhile is told.
        let (events, requests) = (tracking.events()?, tracking.requests()?);
        let bindings = Arc::new(Bindings::default());
        bindings.set_asks(rules.families());
        let mut nat = Nat {
            bindings,
            rules,
            tracking,
            events,
            requests,
            dump: None,
            dumps: 0,
            read_at: None,
            upkeep: Upkeep::default(),
            counters: NatCounters::default(),
        };
        nat.read_anew()?;
        Ok(nat)
    }

    /// The connections, for workers and ports.
    pub fn bindings(&self) -> &Arc<Bindings> {
        &self.bindings
    }

    /// Descriptors that become readable when there is something to learn.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let dump = self.dump.as_ref().map(|dump| dump.answers.fd());
        [self.events.fd()].into_iter().chain(dump).chain(self.rules.fd())
    }

    /// How long the next round may be put off while no descriptor is readable.
    pub fn due_in(&self, now: Now) -> Option<Duration> {
        let upkeep = (!self.bindings.is_empty()).then(|| self.upkeep.due_in(now));
        let read = self.read_at.map(|at| now.until(at));
        upkeep.into_iter().chain(read).min()
    }

    /// Follows rules of NAT; true if there are some where there were none, or the other way round: what was
    /// decided before is void then.
    pub fn follow_rules(&mut self, now: Now) -> bool {
        let has_changed = self.rules.poll(now);
        if has_changed {
            self.bindings.set_asks(self.rules.families());
        }
        has_changed
    }

    /// Learns what there is to learn, and tells Linux what is alive. `is_local` tells addresses of this host,
    /// whose connections are not forwarded.
    pub fn serve(&mut self, now: Now, is_local: impl Fn(IpAddr) -> bool) -> Vec<FlowStep> {
        let mut round = Round { now_ms: Upkeep::now_ms(now), ..Round::default() };
        let mut is_lost = false;
        let mut told = Vec::new();
        let heard = self.events.hear(DATAGRAMS_PER_ROUND, |heard| match heard {
            Heard::Message(header, body) => told.extend(message::event(header.kind, body)),
            Heard::Lost => is_lost = true,
        });
        is_lost |= heard.is_err();
        for event in told {
            match event {
                Event::Is(entry) => {
                    self.outdate_dump(entry.original, entry.id);
                    self.learn(&mut round, entry, &is_local);
                }
                Event::Gone { original, id } => {
                    self.outdate_dump(original, id);
                    self.forget(&mut round, original, id);
                }
            }
        }
        self.read_dump(&mut round, &is_local);
        if is_lost {
            self.counters.overruns += 1;
            self.read_at = Some(now.at);
        }
        if self.read_at.is_some_and(|at| at <= now.at) {
            self.read_at = self.read_anew().err().map(|error| {
                warn!(%error, "connections cannot be read");
                now.at + READ_AGAIN
            });
        }
        let told = &mut self.counters.refreshed;
        let is_unsure = self.read_at.is_some() || self.dump.is_some();
        self.upkeep.tell(now, &self.bindings, is_unsure, &mut round.requests, told);
        self.tell(&round.requests);
        self.bindings.apply(round.changes);
        round.steps
    }

    /// A connection is there, and is like this.
    fn learn(&self, round: &mut Round, entry: Entry, is_local: &impl Fn(IpAddr) -> bool) {
        let known = self.known(round, &entry.original);
        let is_ours = is_local(entry.original.src) || is_local(entry.reply.src);
        let (original, reply) = if is_ours { (false, false) } else { entry.carried() };
        let known = known.filter(|known| {
            let is_same = known.entry.id == entry.id && known.entry.reply == entry.reply;
            if !is_same || !original {
                end(round, known);
            }
            is_same && original
        });
        if !original {
            return;
        }
        let binding = match known {
            Some(known) => known,
            None => {
                let binding = Arc::new(Binding::new(entry));
                binding.upkeep.told_ms.store(round.now_ms, Relaxed);
                if entry.original.protocol == wire::protocol::TCP {
                    message::be_liberal(&entry, &mut round.requests);
                }
                round.fresh.insert(entry.original, Arc::clone(&binding));
                put(round, &binding);
                binding
            }
        };
        binding.upkeep.status.store(entry.status.0, Relaxed);
        binding.upkeep.dump.store(self.dumps, Relaxed);
        if reply {
            binding.carry_both();
        }
    }

    /// An event tells of a connection: a dump under way is out of date about it.
    fn outdate_dump(&mut self, original: Tuple, id: u32) {
        if let Some(dump) = &mut self.dump {
            dump.told.insert((original, id));
        }
    }

    /// A connection is gone.
    fn forget(&self, round: &mut Round, original: Tuple, id: u32) {
        if let Some(known) = self.known(round, &original).filter(|known| known.entry.id == id) {
            end(round, &known);
        }
    }

    /// The connection with this first direction that may be carried.
    fn known(&self, round: &Round, original: &Tuple) -> Option<Arc<Binding>> {
        let fresh = round.fresh.get(original).map(Arc::clone);
        let known = fresh.or_else(|| {
            let found = self.bindings.find(original)?;
            (found.direction == Direction::Original).then_some(found.binding)
        });
        known.filter(|known| known.is_live())
    }

    /// Asks for everything: at the start, and when events were lost.
    fn read_anew(&mut self) -> io::Result<()> {
        let answers = self.tracking.requests()?;
        answers.send(&message::dump())?;
        self.dumps = self.dumps.wrapping_add(1);
        self.dump = Some(Dump { answers, told: HashSet::new() });
        Ok(())
    }

    fn read_dump(&mut self, round: &mut Round, is_local: &impl Fn(IpAddr) -> bool) {
        let Some(mut dump) = self.dump.take() else { return };
        let (mut told, mut is_over) = (Vec::new(), false);
        let heard = dump.answers.hear(DATAGRAMS_PER_ROUND, |heard| match heard {
            Heard::Message(header, body) => match Answer::read(&header, body) {
                Ok(Answer::Part | Answer::Overrun) => {
                    told.extend(message::event(header.kind, body));
                }
                Ok(Answer::End) | Err(_) => is_over = true,
            },
            Heard::Lost => debug!(error = %Fault::Lost, "a dump of connections"),
        });
        if let Err(error) = heard {
            debug!(%error, "a dump of connections");
        }
        for event in told {
            match event {
                Event::Is(entry) if !dump.told.contains(&(entry.original, entry.id)) => {
                    self.learn(round, entry, is_local);
                }
                Event::Is(_) | Event::Gone { .. } => {}
            }
        }
        match is_over {
            true => self.sweep(round),
            false => self.dump = Some(dump),
        }
    }

    /// Forgets connections that a whole dump did not have.
    fn sweep(&mut self, round: &mut Round) {
        let mut old = Vec::new();
        self.bindings.each(0, 1, |binding| {
            if binding.upkeep.dump.load(Relaxed) != self.dumps {
                old.push(Arc::clone(binding));
            }
        });
        old.iter().for_each(|binding| end(round, binding));
    }

    /// Sends requests; what is refused is gone, as an event says as well.
    fn tell(&mut self, requests: &[u8]) {
        if !requests.is_empty()
            && let Err(error) = self.requests.send(requests)
        {
            debug!(%error, "connections were not refreshed");
        }
        // Where the socket is broken, nothing was refused.
        let _ = self.requests.hear(usize::MAX, |heard| {
            if let Heard::Message(header, body) = heard
                && let Err(Fault::Refused { .. }) = Answer::read(&header, body)
            {
                self.counters.refused += 1;
            }
        });
    }
}

/// A connection may be carried from now on.
fn put(round: &mut Round, binding: &Arc<Binding>) {
    for direction in [Direction::Original, Direction::Reply] {
        round.changes.push(Change::Put(Arc::clone(binding), direction));
        if binding.is_translated() {
            round.steps.push(FlowStep { tuple: *binding.tuple(direction), is_taken: true });
        }
    }
}

/// No packet of a connection may be carried from now on.
fn end(round: &mut Round, binding: &Arc<Binding>) {
    binding.end();
    round.fresh.remove(&binding.entry.original);
    for direction in [Direction::Original, Direction::Reply] {
        round.changes.push(Change::Remove(Arc::clone(binding), direction));
        if binding.is_translated() {
            round.steps.push(FlowStep { tuple: *binding.tuple(direction), is_taken: false });
        }
    }
}

/// Most datagrams of each socket that one round reads, so that everything else has its turn.
const DATAGRAMS_PER_ROUND: usize = 256;
