//! Memif ports: applications that share memory with the workers (`[[port]]`, `kind = "memif"`).
//!
//! The kernel has no device for one. A TAP interface stands for it, with its name: addresses, routes, neighbours
//! and firewall rules are Linux's there, as of any port, and ARP is answered there ([`memif::port`]). It outlives
//! the daemon as tunnel interfaces do, and goes when it is taken out of the configuration.
//!
//! The control thread has the control channels. When a peer has told its rings, each pair of them becomes a port of
//! the worker that has that queue's number; when the peer goes, they go. Between two peers nothing can be sent:
//! that is counted (`transmit-down`).

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{MemifConfig, MemifRole};
use io::tun::Tap;
use io::{PortCounters, PortStats};
use memif::message::{Name, Secret};
use memif::port::LinuxFrames;
use memif::{
    Channel, ClientConfig, Faults, Link, Listener, MemifPort, Parts, Queue, ServerConfig, Trust,
};
use mirror::Snapshot;
use report::State;
use tracing::{info, warn};

use crate::clock::Now;
use crate::linux::edge::OwnInterfaces;
use crate::slots;
use crate::way_back::WorkingPort;
use crate::workers::set::Workers;

/// How long a peer may take to tell its rings.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// How long a client stays that is none of those that come and go.
const STAY_TIME: Duration = Duration::from_secs(30);

/// The least and the most time from a client's end to the next one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// How often a server that is not there is looked for.
const CONNECT_INTERVAL: Duration = Duration::from_millis(900);

/// Bytes of a buffer of ours, where we own the memory: a frame of the longest packet, in whole cache lines.
const fn buffer_len(mtu: u32) -> u32 {
    (mtu + FRAME_OVERHEAD).next_multiple_of(64)
}

/// An Ethernet header with a tag.
const FRAME_OVERHEAD: u32 = 18;

/// Frames that Linux sent while nobody was there, which a new peer does not get.
const MOST_STALE: usize = 2048;

/// A peer that has connected, or is about to.
struct Peer {
    link: Link,
    since: Instant,
    /// Pairs of rings; none before it has told them.
    queues: u32,
}

/// Counters of one port. They count on with the next peer, and with other settings.
#[derive(Clone, Default)]
struct Counts {
    /// Of each queue.
    queues: Vec<Arc<PortCounters>>,
    faults: Arc<Faults>,
    /// Frames of Linux's own.
    linux: Arc<LinuxFrames>,
}

impl Counts {
    /// Counters for so many queues at least.
    fn begin(&mut self, queues: usize) {
        while self.queues.len() < queues {
            self.queues.push(PortCounters::new());
        }
    }
}

/// One memif port.
struct Entry {
    config: MemifConfig,
    /// Its number among all ports, from 0.
    place: usize,
    tap: Arc<Tap>,
    /// Linux has told of the interface.
    is_seen: bool,
    listener: Option<Listener>,
    peer: Option<Peer>,
    counts: Counts,
    /// Why it does not work.
    trouble: String,
    /// When the server is looked for next; none: at once.
    connect_at: Option<Instant>,
    pause: Pause,
}

/// When the next client is taken.
///
/// A client can keep what its memory has become while it was connected, come again with other memory, and so on: what
/// was a hole in it is charged to the daemon. So those that leave at once are taken less and less often.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    /// How many have left at once, one after the other.
    hasty: u32,
    /// From the end of the last one on.
    len: Duration,
    /// None: the next is taken now.
    until: Option<Instant>,
}

impl Pause {
    /// A client has gone that came at a time.
    fn begin(&mut self, came: Instant, now: Instant) {
        self.hasty = match now.saturating_duration_since(came) < STAY_TIME {
            true => self.hasty.saturating_add(1),
            false => 0,
        };
        let (least, most) = PAUSES;
        self.len = match self.hasty {
            0 => Duration::ZERO,
            hasty => least.saturating_mul(1 << (hasty - 1).min(16)).min(most),
        };
        self.until = Some(now + self.len);
    }

    /// How long no client is taken yet.
    fn left(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }
}

/// All of them.
#[derive(Default)]
pub struct Memifs {
    entries: Vec<Entry>,
    /// Interfaces of those that were closed, or could not be opened, while another configuration is followed; and what
    /// they have counted.
    closed: BTreeMap<String, Counts>,
}

/// A port as the operator sees it.
pub struct MemifState<'a> {
    /// Name of its interface.
    pub interface: &'a str,
    /// `up`, or what is the matter.
    pub state: State,
    /// Role of this end.
    pub mode: &'static str,
    /// Frames that the peer sent and that went to Linux past the workers.
    pub passed: u64,
    /// The counters of each queue.
    pub stats: Vec<PortStats>,
    /// Faults of peers, by name, where there are any.
    pub faults: Vec<(&'static str, u64)>,
}

impl Memifs {
    /// Makes the interface of one, and listens. One that was closed before counts on. [`Memifs::settle`] removes the interface, should it be closed by then.
    /// `is_taken` tells if a place among all ports has another port.
    ///
    /// # Errors
    /// The interface cannot be made.
    pub fn open_port(
        &mut self,
        config: &MemifConfig,
        interfaces: &mut dyn OwnInterfaces,
        is_taken: impl Fn(usize) -> bool,
    ) -> Result<(), io::TunError> {
        // They stay there: if the interface cannot be made, the one of before is opened again.
        let counts = self.closed.entry(config.interface.clone()).or_default().clone();
        let tap = interfaces.open_tap(config)?;
        // From the end: interfaces that are taken over are numbered from the beginning.
        let is_free = |place: &usize| !self.has_place(*place) && !is_taken(*place);
        let place = (0..slots::MAX_PORTS).rev().find(is_free).unwrap_or(0);
        let mut entry = Entry {
            config: config.clone(),
            place,
            tap: Arc::new(tap),
            is_seen: false,
            listener: None,
            peer: None,
            counts,
            trouble: String::new(),
            connect_at: None,
            pause: Pause::default(),
        };
        entry.listen();
        entry.wait_for_peer();
        self.entries.push(entry);
        Ok(())
    }

    /// Closes one. Its interface stays until [`Memifs::settle`], for one with other settings, or if it is opened again.
    pub fn close_port(&mut self, now: Now, config: &MemifConfig, workers: &Workers) {
        let gone = self.entries.extract_if(.., |entry| entry.config == *config);
        for mut entry in gone {
            entry.part(now, "the configuration has changed", workers);
            // Its descriptor is closed with it, or the interface would be in use.
            self.closed.insert(entry.config.interface, entry.counts);
        }
    }

    /// Removes the interfaces of those that were closed, and that the configuration does not have.
    pub fn settle(&mut self, wanted: &[MemifConfig], interfaces: &mut dyn OwnInterfaces) {
        for name in std::mem::take(&mut self.closed).into_keys() {
            if !wanted.iter().any(|memif| memif.interface == name)
                && let Err(error) = interfaces.remove_tap(&name)
            {
                warn!("{error}");
            }
        }
    }

    /// True if one has a place among all ports.
    pub fn has_place(&self, place: usize) -> bool {
        self.entries.iter().any(|entry| entry.place == place)
    }

    /// The configurations of all that are there.
    pub fn configs(&self) -> impl Iterator<Item = &MemifConfig> {
        self.entries.iter().map(|entry| &entry.config)
    }

    /// Follows interfaces that somebody deletes.
    pub fn follow_links(&mut self, now: Now, snapshot: &Snapshot, workers: &Workers) {
        self.entries.retain_mut(|entry| {
            let is_there = snapshot.link(entry.tap.ifindex()).is_some();
            entry.is_seen |= is_there;
            if entry.is_seen && !is_there {
                entry.part(now, "somebody deleted its interface", workers);
                warn!(
                    port = entry.config.interface,
                    "somebody deleted a memif port's interface; SIGHUP makes it again"
                );
                return false;
            }
            true
        });
    }

    /// Descriptors to wait on.
    pub fn fds(&self, now: Now) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.entries.iter().flat_map(move |entry| {
            // One that waits would end each sleep.
            let is_taken = entry.pause.left(now.at).is_none();
            let listener = entry.listener.as_ref().filter(|_| is_taken).map(AsFd::as_fd);
            listener.into_iter().chain(entry.peer.as_ref().map(|peer| peer.link.as_fd()))
        })
    }

    /// Takes what has come by the channels.
    pub fn serve(&mut self, now: Now, workers: &Workers) {
        for entry in &mut self.entries {
            entry.hear(now, workers);
            match entry.config.role {
                MemifRole::Server => entry.accept(now, workers),
                MemifRole::Client => entry.connect(now, workers),
            }
        }
    }

    /// Listens where that failed.
    pub fn retry(&mut self) {
        self.entries.iter_mut().for_each(Entry::listen);
    }

    /// Tells every peer that it is over. The workers, if there are any, keep the queues.
    pub fn close(&mut self) {
        for entry in &mut self.entries {
            entry.listener = None;
            if let Some(peer) = entry.peer.take() {
                peer.link.disconnect("culvert ends");
            }
        }
    }

    /// The workers' slot for packets that leave by an interface.
    pub fn slot(&self, ifindex: u32) -> Option<usize> {
        let entry = self.entries.iter().find(|e| e.tap.ifindex() == ifindex)?;
        Some(slots::of_port(entry.place))
    }

    /// Ports whose interfaces take packets back.
    pub fn working(&self) -> impl Iterator<Item = WorkingPort<'_>> {
        self.entries.iter().map(|entry| WorkingPort {
            interface: &entry.config.interface,
            ifindex: entry.tap.ifindex(),
            tag: entry.place as u16 + 1,
            // No program of ours is at its ingress.
            takes_back: true,
            unmarks: false,
        })
    }

    /// Every port's interface, and why it does not work, if so.
    pub fn troubles(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.entries.iter().map(|entry| {
            let why = Some(entry.trouble.as_str()).filter(|why| !why.is_empty());
            (entry.config.interface.as_str(), why)
        })
    }

    /// Counts packets as received by a queue.
    #[cfg(test)]
    pub fn count(&mut self, interface: &str, queue: usize, packets: u64) {
        for entry in self.entries.iter_mut().filter(|entry| entry.config.interface == interface) {
            entry.counts.begin(queue + 1);
            entry.counts.queues[queue].received(packets, 64 * packets);
        }
    }

    /// Every port as the operator sees it.
    pub fn states(&self) -> impl Iterator<Item = MemifState<'_>> {
        self.entries.iter().map(|entry| MemifState {
            interface: &entry.config.interface,
            state: match entry.trouble.as_str() {
                "" => State::Up,
                trouble => State::Other(trouble.to_owned()),
            },
            mode: match entry.config.role {
                MemifRole::Server => "server",
                MemifRole::Client => "client",
            },
            passed: entry.counts.linux.read().0,
            stats: entry.counts.queues.iter().map(|counters| counters.read()).collect(),
            faults: entry
                .counts
                .faults
                .read()
                .filter(|(_, count)| *count > 0)
                .map(|(fault, count)| (fault.name(), count))
                .collect(),
        })
    }
}

impl Entry {
    /// Listens, if that is its role and it does not yet.
    fn listen(&mut self) {
        if self.config.role == MemifRole::Client || self.listener.is_some() {
            return;
        }
        let path = &self.config.socket;
        match Listener::new(path) {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => {
                let trouble = format!("{}: {error}; tried again every 10 s", path.display());
                if self.trouble != trouble {
                    warn!(port = self.config.interface, "{trouble}");
                    self.trouble = trouble;
                }
                return;
            }
        }
        self.wait_for_peer();
    }

    /// The state while nobody is there.
    fn wait_for_peer(&mut self) {
        let path = self.config.socket.display();
        match (self.config.role, &self.listener) {
            (MemifRole::Server, Some(_)) => {
                self.trouble = match self.pause.len.as_secs() {
                    0 => format!("no client yet at {path}"),
                    seconds => format!(
                        "no client yet at {path}; they leave at once, so the next is taken {seconds} s after the last"
                    ),
                };
            }
            // What failed is said already.
            (MemifRole::Server, None) => {}
            (MemifRole::Client, _) => self.trouble = format!("no server yet at {path}"),
        }
    }

    /// Takes what the peer has sent.
    fn hear(&mut self, now: Now, workers: &Workers) {
        let Some(peer) = &mut self.peer else { return };
        match peer.link.advance() {
            Ok(Some(queues)) => self.begin(now, queues, workers),
            Ok(None) if peer.queues == 0 && now.since(peer.since) > HANDSHAKE_TIME => {
                self.part(now, "it took too long to tell its rings", workers);
            }
            Ok(None) => {}
            Err(error) => self.part(now, &error.to_string(), workers),
        }
    }

    /// Takes clients that have connected. There is one at a time.
    fn accept(&mut self, now: Now, workers: &Workers) {
        let Some(listener) = &self.listener else { return };
        if self.pause.left(now.at).is_some() {
            return;
        }
        let Some(channel) = listener.accept() else { return };
        if self.peer.is_some() {
            memif::link::disconnect(&channel, "another client is connected");
            info!(port = self.config.interface, "a second client was turned away");
            return;
        }
        let config = ServerConfig {
            id: self.config.id,
            name: Name::new(&self.config.interface),
            secret: self.secret(),
            queues: self.most_queues(workers),
            log2_ring_size: self.config.ring_size.ilog2() as u8,
            trust: if self.config.unsealed { Trust::Any } else { Trust::Sealed },
            most_bytes: self.config.memory_bytes(),
        };
        // A client that is gone again says nothing.
        let Ok(link) = Link::serve(channel, &config, &self.counts.faults) else { return };
        self.peer = Some(Peer { link, since: now.at, queues: 0 });
    }

    /// Looks for a server, at intervals.
    fn connect(&mut self, now: Now, workers: &Workers) {
        if self.peer.is_some() || self.connect_at.is_some_and(|at| at > now.at) {
            return;
        }
        self.connect_at = Some(now.at + CONNECT_INTERVAL);
        let Ok(channel) = Channel::connect(&self.config.socket) else { return };
        let config = ClientConfig {
            id: self.config.id,
            name: Name::new(&self.config.interface),
            secret: self.secret(),
            queues: self.most_queues(workers),
            log2_ring_size: self.config.ring_size.ilog2() as u8,
            buffer_len: buffer_len(self.config.mtu),
        };
        let link = Link::join(channel, &config, &self.counts.faults);
        self.peer = Some(Peer { link, since: now.at, queues: 0 });
    }

    fn secret(&self) -> Option<Secret> {
        self.config.secret.as_deref().map(Secret::new)
    }

    /// Queues for which workers have slots.
    fn most_queues(&self, workers: &Workers) -> u16 {
        let slots = workers.count() * slots::QUEUES_PER_WORKER;
        (self.config.queues as usize).min(slots) as u16
    }

    /// The peer has told its rings: they become ports.
    fn begin(&mut self, now: Now, queues: Vec<Queue>, workers: &Workers) {
        let Some(peer) = &mut self.peer else { return };
        let count = queues.len() as u32;
        let name = peer.link.peer();
        peer.queues = count;
        let mut stale = [0; 64];
        for _ in 0..MOST_STALE {
            if !matches!(self.tap.read(&mut stale), Ok(Some(_))) {
                break;
            }
        }
        self.counts.begin(queues.len());
        let ifindex = self.tap.ifindex();
        let Counts { queues: counters, linux, .. } = self.counts.clone();
        for (number, (queue, counters)) in (0..).zip(queues.into_iter().zip(counters)) {
            let parts = Parts {
                name: format!("{} queue {number}", self.config.interface),
                queue,
                tap: (number == 0).then(|| Arc::clone(&self.tap)),
                max_frame_len: (self.config.mtu + FRAME_OVERHEAD) as usize,
                counters,
                linux: Arc::clone(&linux),
            };
            match MemifPort::new(parts) {
                Ok(port) => {
                    let slot = slots::of_port(self.place);
                    workers.add_port(slot, number, ifindex, Box::new(port));
                }
                Err(error) => return self.part(now, &error.to_string(), workers),
            }
        }
        info!(port = self.config.interface, peer = %name, queues = count, "memif connected");
        self.trouble.clear();
    }

    /// Ends the connection with the peer.
    fn part(&mut self, now: Now, why: &str, workers: &Workers) {
        let Some(peer) = self.peer.take() else { return };
        if peer.queues > 0 {
            workers.remove_ports(self.tap.ifindex());
        }
        peer.link.disconnect(why);
        warn!(port = self.config.interface, why, "memif disconnected");
        self.connect_at = Some(now.at + CONNECT_INTERVAL);
        // Nothing of the memory of a client is touched before it has told its rings.
        if self.config.role == MemifRole::Server && peer.queues > 0 {
            self.pause.begin(peer.since, now.at);
        }
        self.wait_for_peer();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_leave_at_once_are_taken_less_and_less_often() {
        let mut pause = Pause::default();
        let mut now = Instant::now();
        assert_eq!(pause.left(now), None);
        let mut taken = 0;
        let end = now + Duration::from_secs(600);
        while now < end {
            pause.begin(now, now);
            now += pause.left(now).unwrap();
            assert_eq!(pause.left(now), None, "its turn has come");
            taken += 1;
        }
        assert!((20..=30).contains(&taken), "{taken} in ten minutes");
        // One that stays makes good for all.
        pause.begin(now, now + STAY_TIME);
        assert_eq!(pause.left(now + STAY_TIME), None);
        pause.begin(now, now);
        assert_eq!(pause.left(now), Some(PAUSES.0));
    }
}
