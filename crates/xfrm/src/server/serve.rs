//! Requests of clients are carried out, and the answers are queued for them.

use std::io::ErrorKind;

use zeroize::Zeroize;

use super::Server;
use super::client::Fate;
use crate::backend::Backend;
use crate::clock::Now;
use crate::database::{Change, Database, Output};
use crate::shim_protocol::records;

impl Server {
    /// Handles what one client sent: a bounded number of datagrams, so that others have their turn.
    pub(super) fn serve<B: Backend>(
        &mut self,
        token: u64,
        database: &mut Database<B>,
        now: Now,
        journal: &mut impl FnMut(Change),
    ) -> Fate {
        for _ in 0..DATAGRAMS_PER_TURN {
            let Some(client) = self.clients.get_mut(&token) else { return Fate::Open };
            if !client.wants_requests(self.limits.queued_bytes) {
                return Fate::Open;
            }
            let (len, mut with) = match client.receive(&mut self.buffer) {
                Ok((0, _)) => return Fate::Close,
                Ok(received) => received,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Fate::Open,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Fate::Close,
            };
            let Some(datagram) = self.buffer.get(..len) else {
                tracing::warn!(len, "an XFRM request is too long");
                self.buffer.as_mut_slice().zeroize();
                continue;
            };
            if let Some(records) = records(datagram) {
                for record in records {
                    if client.control(record) == Fate::Close {
                        return Fate::Close;
                    }
                    self.handed.hear(token, client, record, &mut with);
                }
                continue;
            }
            let Some(sender) = client.sender() else { return Fate::Close };
            let mut outputs = Vec::new();
            database.request(&sender, datagram, now, &mut outputs);
            self.buffer[..len].zeroize();
            self.route(Some(token), outputs, journal);
        }
        Fate::Open
    }

    /// Journals all changes, then queues all messages.
    pub(super) fn route(
        &mut self,
        requester: Option<u64>,
        outputs: Vec<Output>,
        journal: &mut impl FnMut(Change),
    ) {
        let mut messages = Vec::with_capacity(outputs.len());
        for output in outputs {
            match output {
                Output::Change(change) => journal(change),
                other => messages.push(other),
            }
        }
        for output in messages {
            let token = requester;
            let requester = requester.and_then(|token| self.clients.get_mut(&token));
            match output {
                Output::Flush(flush) => {
                    if let Some(client) = requester {
                        client.is_flushing = true;
                    }
                    self.flushes.extend(token.map(|token| (token, flush)));
                }
                Output::Reply(message) => {
                    if let Some(client) = requester {
                        client.reply(message);
                    }
                }
                Output::Dump(dump) => {
                    if let Some(client) = requester {
                        client.dump(dump);
                    }
                }
                Output::Event { group, message } => {
                    for client in self.clients.values_mut().filter(|c| c.listens_to(group)) {
                        client.notify(&message, self.limits.queued_bytes);
                    }
                }
                Output::Change(_) => {}
            }
        }
    }

    /// One turn of the flush that has waited longest.
    pub(super) fn go_on<B: Backend>(
        &mut self,
        database: &mut Database<B>,
        now: Now,
        journal: &mut impl FnMut(Change),
    ) {
        let Some((token, flush)) = self.flushes.pop_front() else { return };
        if let Some(client) = self.clients.get_mut(&token) {
            client.is_flushing = false;
        }
        let mut outputs = Vec::new();
        database.go_on(flush, now, &mut outputs);
        self.route(Some(token), outputs, journal);
    }
}

/// Datagrams of one client in a turn, so that the others have theirs.
const DATAGRAMS_PER_TURN: usize = 64;
