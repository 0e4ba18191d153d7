//! The socket that stands in for `NETLINK_XFRM`: many programs, one database, one thread.
//!
//! Non-blocking throughout. The owner adds [`Server::poll_fd`] to its own loop and calls
//! [`Server::receive`] when that is readable, [`Server::enqueue`] with what the databases put out
//! for other reasons (time, data path), and [`Server::send`]. Between receiving and sending it
//! carries out elsewhere what a request has changed: an answer says that all of it is done.
//! [`Server::process`] and [`Server::publish`] are the same in one step, where nothing lies between.

mod client;
mod handed;
mod serve;
mod socket;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use client::{Client, Fate};
use socket::{Epoll, Interest};

use crate::backend::Backend;
use crate::clock::Now;
use crate::codec::Message;
use crate::database::{Change, Database, Flush, Group, Output};
use crate::shim_protocol::MAX_DATAGRAM_LEN;

pub use handed::Handed;
pub use socket::peer_uid;

/// Limits of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Most connections. The oldest that has sent nothing gives way to a further one; where all have, the further one is
    /// closed.
    pub clients: usize,
    /// Most bytes that wait for one client. Beyond it, notifications are dropped (the client is
    /// told, as `ENOBUFS`), and its requests are left unread until it reads.
    pub queued_bytes: usize,
    /// The user id that may connect.
    pub uid: u32,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits { clients: 256, queued_bytes: 4 << 20, uid: 0 }
    }
}

/// The server. The socket's file goes away with it.
#[derive(Debug)]
pub struct Server {
    listener: OwnedFd,
    path: PathBuf,
    epoll: Epoll,
    clients: BTreeMap<u64, Client>,
    /// Unfinished flushes with their clients' tokens. They go on when a client leaves.
    flushes: VecDeque<(u64, Flush)>,
    last_token: u64,
    limits: ServerLimits,
    /// Until when no connection is accepted, because `accept` has failed.
    closed_until: Option<Instant>,
    /// Of one datagram; empty, that is, all zeros, between them, as a request may have keys.
    buffer: Message,
    handed: handed::Queue,
}

impl Server {
    /// Listens at the path (mode 0600). A socket left behind by a dead process is replaced.
    ///
    /// # Errors
    /// Somebody listens there already (`AddrInUse`), or the path cannot be used.
    pub fn new(path: &Path, limits: ServerLimits) -> io::Result<Server> {
        let listener = socket::listen(path)?;
        let epoll = Epoll::new()?;
        epoll.add(listener.as_fd(), LISTENER, Interest { read: true, write: false })?;
        Ok(Server {
            listener,
            path: path.to_owned(),
            epoll,
            clients: BTreeMap::new(),
            flushes: VecDeque::new(),
            last_token: LISTENER,
            limits,
            closed_until: None,
            buffer: Message::new(vec![0; MAX_DATAGRAM_LEN]),
            handed: handed::Queue::default(),
        })
    }

    /// A descriptor that is readable when [`Server::process`] has something to do.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// True if [`Server::process`] has something to do though nothing is readable: a flush goes
    /// on.
    pub fn is_busy(&self) -> bool {
        !self.flushes.is_empty()
    }

    /// When to call [`Server::process`] though nothing is readable: to accept connections again.
    pub fn due(&self) -> Option<Instant> {
        self.closed_until
    }

    /// How many programs are connected.
    pub fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// True if a client is in the group.
    pub fn listening(&self, group: Group) -> bool {
        self.clients.values().any(|c| c.listens_to(group))
    }

    /// Handles what is ready, without waiting.
    ///
    /// Each change is handed to `journal` before its requester gets an answer, so what was
    /// acknowledged survives a crash if the journal does.
    ///
    /// # Errors
    /// Only those of epoll; a client's errors close that client.
    pub fn process<B: Backend>(
        &mut self,
        database: &mut Database<B>,
        now: Now,
        journal: &mut impl FnMut(Change),
    ) -> io::Result<()> {
        self.receive(database, now, journal)?;
        self.send(database);
        Ok(())
    }

    /// The first half of [`Server::process`]: carries out requests, and keeps the answers back
    /// until [`Server::send`]. For an owner that has to act on a change before its requester is
    /// answered.
    ///
    /// # Errors
    /// As [`Server::process`].
    pub fn receive<B: Backend>(
        &mut self,
        database: &mut Database<B>,
        now: Now,
        journal: &mut impl FnMut(Change),
    ) -> io::Result<()> {
        if self.closed_until.is_some_and(|until| until <= Instant::now()) {
            self.open_door(true)?;
            self.closed_until = None;
        }
        for token in self.epoll.ready()? {
            if token == LISTENER {
                self.accept_all();
            } else if self.serve(token, database, now, journal) == Fate::Close {
                self.clients.remove(&token);
            }
        }
        self.go_on(database, now, journal);
        Ok(())
    }

    /// Sends what the databases put out without a request.
    pub fn publish<B: Backend>(
        &mut self,
        database: &Database<B>,
        outputs: Vec<Output>,
        journal: &mut impl FnMut(Change),
    ) {
        self.enqueue(outputs, journal);
        self.send(database);
    }

    /// As [`Server::publish`], but keeps the messages back until [`Server::send`].
    pub fn enqueue(&mut self, outputs: Vec<Output>, journal: &mut impl FnMut(Change)) {
        self.route(None, outputs, journal);
    }

    /// Accepts the connections that wait. An error is logged and touches no other connection.
    fn accept_all(&mut self) {
        loop {
            let fd = match socket::accept(self.listener.as_fd()) {
                Ok(Some(fd)) => fd,
                Ok(None) => return,
                Err(error) => {
                    // Out of descriptors or memory. The listener stays readable: without a pause
                    // the loop would spin.
                    tracing::error!(%error, "the XFRM socket lets nobody in for now");
                    self.closed_until = Some(Instant::now() + ACCEPT_PAUSE);
                    if let Err(error) = self.open_door(false) {
                        tracing::error!(%error, "the XFRM socket's listener");
                    }
                    return;
                }
            };
            if let Err(error) = self.take_in(fd) {
                tracing::error!(%error, "a new connection to the XFRM socket");
            }
        }
    }

    fn take_in(&mut self, fd: OwnedFd) -> io::Result<()> {
        let uid = socket::peer_uid(fd.as_fd())?;
        if uid != self.limits.uid {
            tracing::warn!(uid, "refused a connection to the XFRM socket");
            return Ok(());
        }
        if self.clients.len() >= self.limits.clients {
            tracing::warn!(limit = self.limits.clients, "too many XFRM sockets");
            // A program's first datagram follows its connect at once, so that a silent one has waited for nothing.
            let silent = self
                .clients
                .iter()
                .find(|(_, client)| client.sender().is_none())
                .map(|(&token, _)| token);
            let Some(silent) = silent else { return Ok(()) };
            self.clients.remove(&silent);
        }
        self.last_token += 1;
        self.epoll.add(fd.as_fd(), self.last_token, Interest { read: true, write: false })?;
        self.clients.insert(self.last_token, Client::new(fd));
        Ok(())
    }

    /// Sets whether epoll reports the listener.
    fn open_door(&self, is_open: bool) -> io::Result<()> {
        let interest = Interest { read: is_open, write: false };
        self.epoll.modify(self.listener.as_fd(), LISTENER, interest)
    }

    /// Tells clients from now on that UDP sockets are wanted.
    pub fn want_sockets(&mut self) {
        self.handed.are_wanted = true;
    }

    /// The sockets that were handed over since the last call.
    pub fn take_sockets(&mut self) -> Vec<Handed> {
        std::mem::take(&mut self.handed.waiting)
    }

    /// Queues what became of a client's socket: 0, or an errno.
    pub fn answer(&mut self, client: u64, errno: i32) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.say(handed::answer(errno));
        }
    }

    /// True if a client is there that has handed a socket over.
    pub fn is_connected(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }

    /// Sends what the sockets take, and closes those that are broken.
    pub fn send<B: Backend>(&mut self, database: &Database<B>) {
        let (epoll, limit) = (&self.epoll, self.limits.queued_bytes);
        self.clients.retain(|&token, client| {
            if client.flush(database) == Fate::Close {
                return false;
            }
            match client.new_interest(limit) {
                Some(interest) => epoll.modify(client.fd().as_fd(), token, interest).is_ok(),
                None => true,
            }
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A file that is gone already is no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

const LISTENER: u64 = 0;
/// How long no connection is accepted after `accept` failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
