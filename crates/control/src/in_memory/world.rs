//! The control thread's surroundings, in memory: Linux's tables, and an IKE daemon's socket.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;

use mirror::{Change, Error, Route, Rule, Snapshot};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};
use xfrm::codec::{Field as _, Header};
use xfrm::shim_protocol::Record;

use crate::linux::edge::{Changes, Tables};

/// Linux's tables, as Linux has them.
#[derive(Clone, Default)]
pub struct Linux(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    /// Everything that there is, as the message that told of it last.
    there: Vec<Change>,
    /// Changes that were not told yet.
    untold: Vec<Change>,
    /// Reading fails once.
    fails: bool,
    /// Routes are refused.
    refuses: bool,
    /// Client that may not have its answer before Linux leads its packets here.
    ike: Option<Rc<Ike>>,
}

/// True if two messages are about the same thing.
fn is_same(a: &Change, b: &Change) -> bool {
    match (a, b) {
        (Change::Link(a), Change::Link(b)) => a.index == b.index,
        (Change::Address(a), Change::Address(b)) => (a.ifindex, a.addr) == (b.ifindex, b.addr),
        (Change::Rule(a), Change::Rule(b)) => a == b,
        (Change::Route(a), Change::Route(b)) => (a.table, a.dst) == (b.table, b.dst),
        (Change::Neighbour(a), Change::Neighbour(b)) => (a.ifindex, a.ip) == (b.ifindex, b.ip),
        _ => false,
    }
}

/// The message that something is gone.
fn gone(change: Change) -> Change {
    match change {
        Change::Link(link) => Change::LinkRemoved(link),
        Change::Address(address) => Change::AddressRemoved(address),
        Change::Rule(rule) => Change::RuleRemoved(rule),
        Change::Route(route) => Change::RouteRemoved(route),
        Change::Neighbour(neighbour) => Change::NeighbourRemoved(neighbour),
        other => other,
    }
}

impl Linux {
    /// Something is new or different.
    pub fn put(&self, change: Change) {
        let mut state = self.0.borrow_mut();
        state.there.retain(|old| !is_same(old, &change));
        state.there.push(change.clone());
        state.untold.push(change);
    }

    /// Everything goes for which this holds; true if there was any.
    pub fn remove(&self, is_gone: impl Fn(&Change) -> bool) -> bool {
        let mut state = self.0.borrow_mut();
        let (out, kept): (Vec<_>, Vec<_>) = state.there.drain(..).partition(|c| is_gone(c));
        let is_any = !out.is_empty();
        state.there = kept;
        state.untold.extend(out.into_iter().map(gone));
        is_any
    }

    /// Reading fails the next time.
    pub fn fail_once(&self) {
        self.0.borrow_mut().fails = true;
    }

    /// Has routes refused from now on, or taken.
    pub fn refuse_routes(&self, is_refused: bool) {
        self.0.borrow_mut().refuses = is_refused;
    }

    /// Has routes of culvert's come before the client's answer.
    pub fn come_before(&self, ike: &Rc<Ike>) {
        self.0.borrow_mut().ike = Some(Rc::clone(ike));
    }

    /// Everything that there is.
    pub fn there(&self) -> Vec<Change> {
        self.0.borrow().there.clone()
    }
}

/// The mirror of [`Linux`].
pub struct Mirror {
    linux: Linux,
    snapshot: Snapshot,
    fd: UnixStream,
}

impl Mirror {
    /// Has read everything.
    pub fn new(linux: &Linux) -> Mirror {
        let fd = UnixStream::pair().unwrap().0;
        let mut mirror = Mirror { linux: linux.clone(), snapshot: Snapshot::default(), fd };
        mirror.poll().unwrap();
        mirror
    }
}

impl Tables for Mirror {
    fn add_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        fds.push(self.fd.as_fd());
    }

    fn is_stale(&self) -> bool {
        false
    }

    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn poll(&mut self) -> Result<Vec<Change>, Error> {
        let mut state = self.linux.0.borrow_mut();
        let changes = std::mem::take(&mut state.untold);
        self.snapshot = state.there.iter().cloned().collect();
        match std::mem::take(&mut state.fails) {
            true => Err(Error::Socket(io::Error::from_raw_os_error(5))),
            false => Ok(changes),
        }
    }

    fn used(&mut self, _: u32, _: IpAddr) -> Option<Change> {
        None
    }
}

fn refused(errno: i32) -> Error {
    let source = io::Error::from_raw_os_error(errno);
    Error::Refused { what: "do what a test does not let it".into(), source, explanation: None }
}

impl Changes for Linux {
    fn add_rule(&mut self, rule: &Rule) -> Result<(), Error> {
        if self.there().contains(&Change::Rule(rule.clone())) {
            return Err(refused(17));
        }
        self.put(Change::Rule(rule.clone()));
        Ok(())
    }

    fn delete_rule(&mut self, rule: &Rule) -> Result<(), Error> {
        let rule = Change::Rule(rule.clone());
        if self.remove(|c| *c == rule) { Ok(()) } else { Err(refused(2)) }
    }

    fn replace_route(&mut self, route: &Route) -> Result<(), Error> {
        if let Some(ike) = &self.0.borrow().ike {
            assert!(!ike.is_answered(), "answered before guard and routes have followed");
        }
        if self.0.borrow().refuses {
            return Err(refused(22));
        }
        self.put(Change::Route(route.clone()));
        Ok(())
    }

    fn delete_route(&mut self, route: &Route) -> Result<(), Error> {
        let route = Change::Route(route.clone());
        if self.remove(|c| is_same(c, &route)) { Ok(()) } else { Err(refused(3)) }
    }

    fn resolve(&mut self, _: u32, _: IpAddr) -> Result<(), Error> {
        Ok(())
    }
}

/// A program that installs SAs and policies, as an IKE daemon does.
pub struct Ike(OwnedFd);

impl Ike {
    /// Connects to the server of the databases.
    pub fn new(path: &Path) -> Ike {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        let fd = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        rustix::net::connect(&fd, &SocketAddrUnix::new(path).unwrap()).unwrap();
        rustix::io::write(&fd, &Record::Hello { port_id: 1 }.datagram()).unwrap();
        Ike(fd)
    }

    /// Sends a request.
    pub fn send(&self, request: &[u8]) {
        rustix::io::write(&self.0, request).unwrap();
    }

    /// True if an answer has come that was not read yet.
    pub fn is_answered(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        rustix::net::recv(&self.0, &mut [0; 1], flags).is_ok()
    }

    /// The errno of the answer, if it has come.
    pub fn answer(&self) -> Option<i32> {
        let mut buffer = [0; 4096];
        let len = rustix::io::read(&self.0, &mut buffer).ok()?;
        let errno = buffer[..len].get(Header::LEN..).and_then(|rest| rest.first_chunk::<4>());
        errno.map(|bytes| -i32::from_ne_bytes(*bytes))
    }
}
