//! Linux's connection tracking in memory: it tells and is told of connections as bytes, and forgets those without packets.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use conntrack::message::{self, Asked};
use conntrack::{Entry, Tuple};
use netlink::memory::{InMemory, Inbox};
use netlink::{Field as _, Header, Listener, MessageWriter, Messages, flag, kind};

use crate::clock::Now;
use crate::linux::edge::{Rules, Tracking};
use crate::linux::nat::Timeouts;

/// Connection tracking. Clones are the same.
#[derive(Clone)]
pub struct Connections {
    state: Arc<Mutex<State>>,
    news: Inbox,
}

#[derive(Default)]
struct State {
    there: BTreeMap<u32, Tracked>,
    now_ms: u64,
    /// Requests that are not answered, from now on.
    failures: u32,
    /// True for IPv4 and for IPv6 where there are rules of NAT.
    rules: [bool; 2],
}

/// A connection, and until when it is kept without packets.
#[derive(Clone, Copy)]
struct Tracked {
    entry: Entry,
    until_ms: u64,
}

impl Connections {
    /// No connections, and no rules of NAT.
    pub fn new(now: Now) -> Connections {
        let state = State { now_ms: now.at_ns / 1_000_000, ..State::default() };
        Connections { state: Arc::new(Mutex::new(state)), news: Inbox::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A packet that Linux sees makes a connection what it is now, and keeps it.
    pub fn sees(&self, entry: Entry) {
        let mut state = self.state();
        let kept_s = Timeouts::read().of(entry.original.protocol, entry.status);
        let until_ms = state.now_ms + u64::from(kept_s) * 1000;
        state.there.insert(entry.id, Tracked { entry, until_ms });
        self.news.put(message::told(&entry, false));
    }

    /// A connection ends.
    pub fn end(&self, id: u32) {
        if let Some(tracked) = self.state().there.remove(&id) {
            self.news.put(message::told(&tracked.entry, true));
        }
    }

    /// Time goes on. Connections that end by it.
    pub fn pass(&self, now: Now) -> Vec<Entry> {
        let mut state = self.state();
        let now_ms = now.at_ns / 1_000_000;
        state.now_ms = now_ms;
        let over = state.there.extract_if(.., |_, tracked| tracked.until_ms <= now_ms);
        let over: Vec<Entry> = over.map(|(_, tracked)| tracked.entry).collect();
        over.iter().for_each(|entry| self.news.put(message::told(entry, true)));
        over
    }

    /// Connections that there are.
    pub fn there(&self) -> Vec<Entry> {
        self.state().there.values().map(|tracked| tracked.entry).collect()
    }

    /// News since the last round, and this, are lost.
    pub fn lose_news(&self) {
        self.news.lose_all();
    }

    /// Requests are not taken, so many of them.
    pub fn fail(&self, requests: u32) {
        self.state().failures = requests;
    }

    /// True for IPv4 and for IPv6 where there are rules of NAT.
    pub fn rules(&self) -> [bool; 2] {
        self.state().rules
    }

    /// There are rules of NAT, or not, for IPv4 and for IPv6.
    pub fn set_rules(&self, rules: [bool; 2]) {
        self.state().rules = rules;
    }
}

impl State {
    /// Keeps a connection, as an update says; an errno.
    fn update(&mut self, original: &Tuple, timeout_s: Option<u32>) -> i32 {
        let found = self.there.values_mut().find(|tracked| tracked.entry.original == *original);
        let Some(tracked) = found else { return -libc::ENOENT };
        if let Some(timeout_s) = timeout_s {
            tracked.until_ms = self.now_ms + u64::from(timeout_s) * 1000;
        }
        0
    }
}

impl InMemory for Connections {
    fn requested(&mut self, datagram: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let mut state = self.state();
        if state.failures > 0 {
            state.failures -= 1;
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        let mut answers = Vec::new();
        for (header, whole) in Messages::new(datagram) {
            match message::asked(header.kind, whole.get(Header::LEN..).unwrap_or_default()) {
                Some(Asked::Dump) => {
                    answers.extend(state.there.values().map(|t| message::told(&t.entry, false)));
                    let mut done = MessageWriter::new(kind::DONE, flag::MULTI, header.seq, 0);
                    answers.push(done.fixed(&0_i32).take().to_vec());
                }
                Some(Asked::Update { original, timeout_s }) => {
                    let errno = state.update(&original, timeout_s);
                    if errno != 0 {
                        let mut refusal = MessageWriter::new(kind::ERROR, 0, header.seq, 0);
                        answers.push(refusal.fixed(&errno).take().to_vec());
                    }
                }
                None => panic!("a request of type {}", header.kind),
            }
        }
        Ok(answers)
    }
}

impl Tracking for Connections {
    fn events(&mut self) -> io::Result<Listener> {
        Listener::in_memory(self.news.clone(), Box::new(self.clone()))
    }

    fn requests(&mut self) -> io::Result<Listener> {
        Listener::in_memory(Inbox::default(), Box::new(self.clone()))
    }
}

impl Rules for Connections {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn families(&self) -> [bool; 2] {
        self.state().rules
    }

    fn poll(&mut self, _: Now) -> bool {
        true
    }
}

/// How long a silent connection is kept, in milliseconds.
pub fn kept_ms(entry: &Entry) -> u64 {
    Duration::from_secs(Timeouts::read().of(entry.original.protocol, entry.status).into())
        .as_millis() as u64
}
