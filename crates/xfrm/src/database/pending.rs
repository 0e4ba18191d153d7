//! Work that a request leaves: a dump or a flush that is not at its end.

use super::envelope::{Envelope, Sender};
use crate::codec::{AddressFilter, Message, flag};
use crate::failure::Failure;

/// A dump in progress.
#[derive(Clone, Debug)]
pub struct Dump {
    pub(super) what: Dumped,
    /// Everything from this serial number on has been handled.
    pub(super) cursor: u64,
    pub(super) envelope: Envelope,
    /// Errno of the final message.
    pub(super) errno: i32,
    pub(super) finished: bool,
}

/// The entries that a dump lists.
#[derive(Clone, Debug)]
pub(super) enum Dumped {
    /// None: the request was refused.
    Nothing,
    /// SAs of this protocol that pass the filter.
    Sas { protocol: u8, filter: Option<AddressFilter> },
    /// All policies at once.
    Policies,
}

impl Dump {
    /// A dump at its beginning, for the requester that `answer` goes to.
    pub(super) fn new(what: Result<Dumped, Failure>, answer: Envelope) -> Dump {
        let (what, errno) = match what {
            Ok(what) => (what, 0),
            Err(failure) => (Dumped::Nothing, failure.errno()),
        };
        let envelope = Envelope { flags: flag::MULTI, ..answer };
        Dump { what, cursor: u64::MAX, envelope, errno, finished: false }
    }
}

/// A flush that is not at its end; goes on with [`Database::go_on`](super::Database::go_on).
#[derive(Debug)]
pub struct Flush {
    pub(super) progress: Progress,
    pub(super) sender: Sender,
    /// The request, and what follows it in its datagram.
    pub(super) datagram: Message,
}

/// How far a flush has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub what: Flushed,
    /// Everything from this serial number on has been looked at.
    pub cursor: u64,
    pub has_removed: bool,
}

/// The entries that a flush removes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flushed {
    /// The SAs of this protocol, or of several, as [`Sa::has_protocol`](super::sad::Sa::has_protocol) says.
    Sas(u8),
    /// All policies at once.
    Policies,
}

impl Flush {
    pub(super) fn new(progress: Progress, sender: &Sender, datagram: &[u8]) -> Flush {
        Flush { progress, sender: *sender, datagram: Message::new(datagram.to_vec()) }
    }
}
