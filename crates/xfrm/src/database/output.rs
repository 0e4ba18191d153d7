//! What comes out of the databases: messages, changes, and work that is not at its end.

use policy::SaId;

use super::pending::{Dump, Flush};
use super::sad::Sa;
use super::spd::Policy;
use crate::codec::Message;

/// A multicast group (`XFRMNLGRP_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Group {
    /// A packet needs an SA.
    Acquire = 1,
    /// Lifetimes.
    Expire = 2,
    /// SAs.
    Sa = 3,
    /// Policies and defaults.
    Policy = 4,
    /// Replay state and counters.
    Aevents = 5,
    /// Mobile IPv6's reports; nothing is sent here.
    Report = 6,
    /// Moved ends.
    Migrate = 7,
    /// Moved peers.
    Mapping = 8,
}

/// What comes out of the databases, in order.
#[derive(Debug)]
pub enum Output {
    /// For the requester.
    Reply(Message),
    /// For the requester: more than one message, to be taken piece by piece with
    /// [`Database::dump_chunk`](super::Database::dump_chunk). What follows for this requester waits for its end.
    Dump(Dump),
    /// A flush that is not at its end: for [`Database::go_on`](super::Database::go_on), as soon as others had their turn.
    /// What the requester sends meanwhile waits for its end.
    Flush(Flush),
    /// For everyone in the group.
    Event {
        /// The group.
        group: Group,
        /// The message.
        message: Message,
    },
    /// For the journal.
    Change(Change),
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKey {
    /// An SA.
    Sa(SaId),
    /// The policy with this index.
    Policy(u32),
    /// The default actions.
    Defaults,
}

impl RecordKey {
    /// Whether the bytes of a key are an SA's, or a policy's; none for default actions, and for what is no key of these.
    pub fn is_sa(bytes: &[u8]) -> Option<bool> {
        match bytes.first() {
            Some(1) => Some(true),
            Some(2) => Some(false),
            _ => None,
        }
    }

    /// The key as bytes, for a store that wants them: different keys have different bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            RecordKey::Sa(id) => {
                let mut bytes = vec![1, id.protocol, if id.dst.is_ipv4() { 4 } else { 6 }];
                bytes.extend(crate::codec::Address::from(id.dst).0);
                for n in [id.spi, id.mark.value, id.mark.mask] {
                    bytes.extend(n.to_be_bytes());
                }
                bytes
            }
            RecordKey::Policy(index) => {
                let mut bytes = vec![2];
                bytes.extend(index.to_be_bytes());
                bytes
            }
            RecordKey::Defaults => vec![3],
        }
    }
}

/// A change for the journal. It is complete: who applies it needs nothing else.
#[derive(Clone, Debug)]
pub struct Change {
    /// What changed.
    pub key: RecordKey,
    /// Its record now, `None` where it is gone. It holds keys; its memory is cleared when dropped.
    pub record: Option<Message>,
}

impl Change {
    pub(super) fn sa_gone(sa: &Sa) -> Change {
        Change { key: RecordKey::Sa(sa.id()), record: None }
    }

    pub(super) fn policy_gone(policy: &Policy) -> Change {
        Change { key: RecordKey::Policy(policy.info.index), record: None }
    }
}
