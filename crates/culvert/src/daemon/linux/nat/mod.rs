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
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use conntrack::{Binding, Bindings, Change, Direction, Entry, Event, Tuple, events, message};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use tracing::{debug, warn};

pub use self::statistics::look as statistics;
pub use self::taken::TakenFlows;
use self::upkeep::Upkeep;
use crate::daemon::sources::kernel::NatWatch;

/// What ports have to do about a direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStep {
    /// Its packets, as they arrive.
    pub tuple: Tuple,
    /// Whether they are taken from now on.
    pub is_taken: bool,
}

/// What the fast path knows of Linux's connections.
pub struct Nat {
    bindings: Arc<Bindings>,
    rules: NatWatch,
    events: Socket,
    requests: Socket,
    dump: Option<Dump>,
    dumps: u32,
    upkeep: Upkeep,
    counters: NatCounters,
}

/// What has happened.
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
    socket: Socket,
    /// Connections that have gone meanwhile: the dump may tell of them later.
    gone: HashSet<(Tuple, u32)>,
}

/// What a round has found out.
#[derive(Default)]
struct Round {
    /// Connections that are not in the table yet.
    fresh: HashMap<Tuple, Arc<Binding>>,
    changes: Vec<Change>,
    steps: Vec<FlowStep>,
    /// What Linux is told before.
    requests: Vec<u8>,
}

impl Nat {
    /// Begins to learn.
    ///
    /// # Errors
    /// The kernel has no connection tracking, or does not let this process ask.
    pub fn begin() -> io::Result<Nat> {
        let mut events = Socket::new(NETLINK_NETFILTER)?;
        // Without it a burst of new connections is lost; more than the system's limit needs a privilege.
        let _ = events.set_rx_buf_sz(EVENTS_BUFFER_LEN);
        events.bind(&SocketAddr::new(0, message::GROUPS))?;
        events.set_non_blocking(true)?;
        let mut requests = Socket::new(NETLINK_NETFILTER)?;
        requests.bind_auto()?;
        requests.connect(&SocketAddr::new(0, 0))?;
        requests.set_non_blocking(true)?;
        let bindings = Arc::new(Bindings::default());
        let rules = NatWatch::new();
        bindings.set_asks(rules.families());
        let (upkeep, counters) = (Upkeep::new(), NatCounters::default());
        let mut nat =
            Nat { bindings, rules, events, requests, dump: None, dumps: 0, upkeep, counters };
        nat.read_anew()?;
        Ok(nat)
    }

    /// The connections, for workers and ports.
    pub fn bindings(&self) -> &Arc<Bindings> {
        &self.bindings
    }

    /// Descriptors that become readable when there is something to learn.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let dump = self.dump.as_ref().map(|dump| dump.socket.as_fd());
        [self.events.as_fd()].into_iter().chain(dump).chain(self.rules.fd())
    }

    /// How long the next round may be put off while no descriptor is readable.
    pub fn due_in(&self) -> Option<Duration> {
        (!self.bindings.is_empty()).then(|| self.upkeep.due_in())
    }

    /// Follows rules of NAT; true if there are some where there were none, or the other way round: what was
    /// decided before is void then.
    pub fn follow_rules(&mut self) -> bool {
        let has_changed = self.rules.poll();
        if has_changed {
            self.bindings.set_asks(self.rules.families());
        }
        has_changed
    }

    /// Learns what there is to learn, and tells Linux what is alive. `is_local` tells addresses of this host,
    /// whose connections are not forwarded.
    pub fn serve(&mut self, is_local: impl Fn(IpAddr) -> bool) -> Vec<FlowStep> {
        let mut round = Round::default();
        let mut is_lost = false;
        for _ in 0..DATAGRAMS_PER_ROUND {
            match self.events.recv_from_full() {
                Ok((told, _)) => {
                    for event in events(&told) {
                        match event {
                            Event::Is(entry) => self.learn(&mut round, entry, &is_local),
                            Event::Gone { original, id } => self.forget(&mut round, original, id),
                            Event::Done | Event::Answered(_) => {}
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => is_lost = true,
            }
        }
        self.read_dump(&mut round, &is_local);
        if is_lost {
            self.counters.overruns += 1;
            if let Err(error) = self.read_anew() {
                warn!(%error, "connections cannot be read");
            }
        }
        self.upkeep.tell(&self.bindings, &mut round.requests, &mut self.counters.refreshed);
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
                binding.upkeep.told_ms.store(self.upkeep.now_ms(), Relaxed);
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

    /// A connection is gone.
    fn forget(&mut self, round: &mut Round, original: Tuple, id: u32) {
        if let Some(dump) = &mut self.dump {
            dump.gone.insert((original, id));
        }
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
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_non_blocking(true)?;
        socket.send(&message::dump(), 0)?;
        self.dumps = self.dumps.wrapping_add(1);
        self.dump = Some(Dump { socket, gone: HashSet::new() });
        Ok(())
    }

    fn read_dump(&mut self, round: &mut Round, is_local: &impl Fn(IpAddr) -> bool) {
        let Some(dump) = self.dump.take() else { return };
        for _ in 0..DATAGRAMS_PER_ROUND {
            let told = match dump.socket.recv_from_full() {
                Ok((told, _)) => told,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    debug!(%error, "a dump of connections");
                    break;
                }
            };
            for event in events(&told) {
                match event {
                    Event::Is(entry) if !dump.gone.contains(&(entry.original, entry.id)) => {
                        self.learn(round, entry, is_local);
                    }
                    Event::Done | Event::Answered(_) => return self.sweep(round),
                    Event::Is(_) | Event::Gone { .. } => {}
                }
            }
        }
        self.dump = Some(dump);
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
            && let Err(error) = self.requests.send(requests, 0)
        {
            debug!(%error, "connections were not refreshed");
        }
        while let Ok((answer, _)) = self.requests.recv_from_full() {
            let is_refusal = |event: &Event| matches!(event, Event::Answered(errno) if *errno != 0);
            self.counters.refused += events(&answer).filter(is_refusal).count() as u64;
        }
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

/// Room for events, in bytes.
const EVENTS_BUFFER_LEN: usize = 8 << 20;

/// Most datagrams of each socket that one round reads, so that everything else has its turn.
const DATAGRAMS_PER_ROUND: usize = 256;
