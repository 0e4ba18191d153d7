//! Output of the databases: messages, changes, and work that is not at its end.

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
    /// Lifetimes that ended, soft or hard.
    Expire = 2,
    /// SAs that changed.
    Sa = 3,
    /// Policies and defaults.
    Policy = 4,
    /// Replay state and counters.
    Aevents = 5,
    /// Mobile IPv6's reports; nothing is sent here.
    Report = 6,
    /// SAs whose ends moved.
    Migrate = 7,
    /// Peers behind NAT whose port or address moved.
    Mapping = 8,
}

/// Output of the databases, in order.
#[derive(Debug)]
pub enum Output {
    /// For the requester.
    Reply(Message),
    /// For the requester: more than one message, to be taken piece by piece with
    /// [`Database::dump_chunk`](super::Database::dump_chunk). What follows for this requester waits for its end.
    Dump(Dump),
    /// A flush that is not at its end: for [`Database::go_on`](super::Database::go_on), as soon as others had their turn.
    /// Messages that the requester sends meanwhile wait for its end.
    Flush(Flush),
    /// For everyone in the group.
    Event {
        /// Group that hears of it.
        group: Group,
        /// Message for the group.
        message: Message,
    },
    /// For the journal.
    Change(Change),
}

/// Identity of a record's SA, policy or default actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKey {
    /// Record of an SA.
    Sa(SaId),
    /// The policy with this index.
    Policy(u32),
    /// The default actions.
    Defaults,
}

impl RecordKey {
    /// True if the bytes of a key are an SA's, false if a policy's. `None` for default actions,
    /// and for any other bytes.
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
    /// Identity of the changed entry.
    pub key: RecordKey,
    /// Present record, `None` where the entry is gone. It holds keys; its memory is cleared when
    /// dropped.
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
