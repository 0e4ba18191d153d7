//! One connection: a program's netlink socket.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};

use super::socket::{self, Interest};
use crate::backend::Backend;
use crate::codec::Message;
use crate::database::{Database, Dump, Group, Sender};
use crate::shim_protocol::Record;

/// A datagram that waits to be sent.
#[derive(Debug)]
enum Queued {
    Message(Message),
    Dump(Dump),
    Control(Record),
    /// So many notifications were dropped here.
    Lost(u32),
}

/// Fate of a connection: it goes on, or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Open,
    Close,
}

/// A connection, and the options that its program has set.
#[derive(Debug)]
pub(super) struct Client {
    fd: OwnedFd,
    sender: Sender,
    greeted: bool,
    /// Bit 0 is group 1.
    groups: u32,
    queue: VecDeque<Queued>,
    queued_bytes: usize,
    /// A piece of a dump, or a message, that the socket did not take yet.
    stuck: Option<Message>,
    /// True while its flush is under way.
    pub is_flushing: bool,
    interest: Interest,
}

impl Client {
    pub fn new(fd: OwnedFd) -> Client {
        Client {
            fd,
            sender: Sender::default(),
            greeted: false,
            groups: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            stuck: None,
            is_flushing: false,
            interest: Interest { read: true, write: false },
        }
    }

    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The sender of its requests, once its hello has come.
    pub fn sender(&self) -> Option<Sender> {
        self.greeted.then_some(self.sender)
    }

    pub fn listens_to(&self, group: Group) -> bool {
        self.groups & group_bit(group as u32) != 0
    }

    /// Takes one record of a control datagram.
    pub fn control(&mut self, record: Record) -> Fate {
        match record {
            Record::Hello { port_id } => {
                self.sender.port_id = port_id;
                self.greeted = true;
            }
            _ if !self.greeted => return Fate::Close,
            Record::Groups { mask } => self.groups = mask,
            Record::Subscribe { group } => self.groups |= group_bit(group),
            Record::Unsubscribe { group } => self.groups &= !group_bit(group),
            Record::OptionOn { option } => self.option(option, true),
            Record::OptionOff { option } => self.option(option, false),
            Record::Sync { .. } => self.queue.push_back(Queued::Control(record)),
            // The server's, and what it has answered before.
            Record::Overrun { .. } | Record::Sockets { .. } | Record::Socket { .. } => {}
        }
        Fate::Open
    }

    /// Queues a control datagram.
    pub fn say(&mut self, record: Record) {
        self.queue.push_back(Queued::Control(record));
    }

    fn option(&mut self, option: u32, on: bool) {
        match option {
            NETLINK_EXT_ACK => self.sender.ext_ack = on,
            NETLINK_CAP_ACK => self.sender.cap_ack = on,
            _ => {}
        }
    }

    /// Queues an answer; answers are never dropped, see [`Client::wants_requests`].
    pub fn reply(&mut self, message: Message) {
        self.queued_bytes += message.len();
        self.queue.push_back(Queued::Message(message));
    }

    /// Queues a dump.
    pub fn dump(&mut self, dump: Dump) {
        self.queue.push_back(Queued::Dump(dump));
    }

    /// Queues a notification, or drops it and remembers that where the queue is full.
    pub fn notify(&mut self, message: &Message, max_queued_bytes: usize) {
        if self.queued_bytes + message.len() > max_queued_bytes {
            if let Some(Queued::Lost(n)) = self.queue.back_mut() {
                *n = n.saturating_add(1);
            } else {
                self.queue.push_back(Queued::Lost(1));
            }
        } else {
            self.reply(message.clone());
        }
    }

    /// True if more requests may be read: not during the client's flush, and not while too much
    /// waits to be read by the client.
    pub fn wants_requests(&self, max_queued_bytes: usize) -> bool {
        !self.is_flushing && self.queued_bytes < max_queued_bytes && self.queue.len() < MAX_QUEUED
    }

    /// Sends what the socket takes, but only a bounded part of a dump: a client that reads as fast as
    /// a dump is written would keep the server from all others.
    pub fn flush<B: Backend>(&mut self, database: &Database<B>) -> Fate {
        let mut chunks = 0;
        loop {
            if let Some(Queued::Dump(_)) = self.queue.front() {
                chunks += 1;
                if chunks > CHUNKS_PER_TURN {
                    return Fate::Open;
                }
            }
            let datagram = match self.stuck.take() {
                Some(datagram) => datagram,
                None => match self.next_datagram(database) {
                    Some(datagram) => datagram,
                    None => return Fate::Open,
                },
            };
            match socket::send(self.fd.as_fd(), &datagram) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.stuck = Some(datagram);
                    return Fate::Open;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => self.stuck = Some(datagram),
                // Longer than the socket's buffer: as good as lost.
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => {
                    self.queue.push_front(Queued::Lost(1));
                }
                Err(_) => return Fate::Close,
            }
        }
    }

    fn next_datagram<B: Backend>(&mut self, database: &Database<B>) -> Option<Message> {
        loop {
            match self.queue.front_mut()? {
                Queued::Dump(dump) => {
                    if let Some(chunk) = database.dump_chunk(dump, CHUNK_LEN) {
                        return Some(chunk);
                    }
                    self.queue.pop_front();
                }
                Queued::Message(message) => {
                    let message = core::mem::take(message);
                    self.queued_bytes -= message.len();
                    self.queue.pop_front();
                    return Some(message);
                }
                Queued::Control(record) => {
                    let datagram = record.datagram();
                    self.queue.pop_front();
                    return Some(Message::new(datagram.to_vec()));
                }
                Queued::Lost(lost) => {
                    let datagram = Record::Overrun { lost: *lost }.datagram();
                    self.queue.pop_front();
                    return Some(Message::new(datagram.to_vec()));
                }
            }
        }
    }

    /// Readiness to wait for, if that changed.
    pub fn new_interest(&mut self, max_queued_bytes: usize) -> Option<Interest> {
        let interest = Interest {
            read: self.wants_requests(max_queued_bytes),
            write: self.stuck.is_some() || !self.queue.is_empty(),
        };
        (interest != self.interest).then(|| {
            self.interest = interest;
            interest
        })
    }

    /// Receives one datagram, and the descriptor that comes with it.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        socket::receive(self.fd.as_fd(), buffer)
    }
}

/// The bit of a group, 0 for one that does not exist.
fn group_bit(group: u32) -> u32 {
    group.checked_sub(1).and_then(|n| 1u32.checked_shl(n)).unwrap_or(0)
}

const NETLINK_CAP_ACK: u32 = 10;
const NETLINK_EXT_ACK: u32 = 11;

/// The length in bytes that a dump's datagrams aim at: below the page that strongSwan reads with.
const CHUNK_LEN: usize = 3776;
/// Datagrams of dumps that are sent in one turn: half a millisecond.
const CHUNKS_PER_TURN: usize = 32;
/// Most entries in a queue before no more requests are read.
const MAX_QUEUED: usize = 4096;
