//! UDP sockets that clients hand over: ESP in UDP comes by them.

use std::os::fd::OwnedFd;

use super::client::Client;
use crate::shim_protocol::Record;

/// A descriptor that a client has handed over. [`Server::answer`](super::Server::answer) is to say what became of it.
#[derive(Debug)]
pub struct Handed {
    /// The client, for [`Server::answer`](super::Server::answer) and [`Server::is_connected`](super::Server::is_connected).
    pub client: u64,
    /// The socket that was handed over.
    pub socket: OwnedFd,
}

/// Sockets that were not taken yet.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) are_wanted: bool,
    pub(super) waiting: Vec<Handed>,
}

impl Queue {
    /// Answers a record of a greeted client, if it is about sockets; `with` came with its datagram.
    pub(super) fn hear(
        &mut self,
        token: u64,
        client: &mut Client,
        record: Record,
        with: &mut Option<OwnedFd>,
    ) {
        match record {
            Record::Sockets { .. } => {
                client.say(Record::Sockets { wanted: u32::from(self.are_wanted) });
            }
            Record::Socket { .. } => match with.take() {
                Some(socket) if self.are_wanted => {
                    self.waiting.push(Handed { client: token, socket })
                }
                Some(_) => client.say(answer(libc::EOPNOTSUPP)),
                None => client.say(answer(libc::EBADF)),
            },
            _ => {}
        }
    }
}

/// The answer, with 0 for one that was taken.
pub(super) fn answer(errno: i32) -> Record {
    Record::Socket { errno: errno.unsigned_abs() }
}
