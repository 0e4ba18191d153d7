//! Dumps of any size, taken piece by piece.
//!
//! A dump walks the serial numbers downwards, youngest first as Linux does. What is added while it
//! runs has a larger number and does not appear; what is removed meanwhile is left out. Nothing is
//! copied ahead, so a slow reader costs no memory.

use super::Database;
use super::call::Call;
use super::pending::{Dump, Dumped};
use super::sad::Sa;
use crate::backend::Backend;
use crate::codec::{AF_INET, AF_INET6, Address, AddressFilter, Message, attr, kind};
use crate::failure::Failure;

impl<B: Backend> Database<B> {
    /// A dump of SAs. Its request has no fixed struct; attributes narrow it.
    pub(super) fn dump_sas(&self, call: &Call<'_>) -> Dump {
        let what = call.attributes(0).and_then(|a| {
            let filter = a.value::<AddressFilter>(attr::ADDRESS_FILTER);
            if filter.as_ref().is_some_and(|f| f.src_prefix_len > 128 || f.dst_prefix_len > 128) {
                return Err(Failure::DumpFilter);
            }
            Ok(Dumped::Sas { protocol: a.value(attr::PROTO).unwrap_or(0), filter })
        });
        Dump::new(what, call.answer())
    }

    /// A dump of policies.
    #[expect(clippy::unused_self, reason = "beside dump_sas")]
    pub(super) fn dump_policies(&self, call: &Call<'_>) -> Dump {
        Dump::new(Ok(Dumped::Policies), call.answer())
    }

    /// The dump's next datagram, of at most `max_len` bytes unless a single message is longer;
    /// `None` when all has been given out. The last one ends with `NLMSG_DONE`.
    pub fn dump_chunk(&self, dump: &mut Dump, max_len: usize) -> Option<Message> {
        if dump.finished {
            return None;
        }
        let mut chunk = Message::default();
        chunk.reserve(max_len);
        while let Some((serial, message)) = self.dump_next(dump) {
            if !chunk.is_empty() && chunk.len() + message.len() > max_len {
                return Some(chunk);
            }
            chunk.extend_from_slice(&message);
            dump.cursor = serial;
        }
        if !chunk.is_empty() && chunk.len() + DONE_LEN > max_len {
            dump.cursor = 0;
            return Some(chunk);
        }
        let mut w = dump.envelope.writer(kind::DONE);
        w.fixed(&-dump.errno);
        chunk.extend_from_slice(&w.finish());
        dump.finished = true;
        Some(chunk)
    }

    /// The next message of the dump; the cursor stays.
    fn dump_next(&self, dump: &Dump) -> Option<(u64, Message)> {
        let mut cursor = dump.cursor;
        match &dump.what {
            Dumped::Nothing => None,
            Dumped::Policies => {
                let (serial, policy) = self.spd.before(cursor)?;
                Some((serial, self.policy_message(kind::NEWPOLICY, policy, dump.envelope)))
            }
            Dumped::Sas { protocol, filter } => loop {
                let (serial, sa) = self.sad.before(cursor)?;
                if sa.has_protocol(*protocol) && filter.as_ref().is_none_or(|f| passes(f, sa)) {
                    return Some((serial, self.sa_message(kind::NEWSA, sa, dump.envelope)));
                }
                cursor = serial;
            },
        }
    }
}

/// True if an SA passes a dump's filter.
fn passes(f: &AddressFilter, sa: &Sa) -> bool {
    if matches!(f.family, AF_INET | AF_INET6) && f.family != sa.info.family {
        return false;
    }
    same_prefix(&f.src, &sa.info.src, f.src_prefix_len)
        && same_prefix(&f.dst, &sa.info.id.dst, f.dst_prefix_len)
}

fn same_prefix(a: &Address, b: &Address, len: u8) -> bool {
    let shift = 128 - u32::from(len.min(128));
    let differ = u128::from_be_bytes(a.0) ^ u128::from_be_bytes(b.0);
    shift == 128 || differ >> shift == 0
}

/// Length in bytes of the message that ends a dump.
const DONE_LEN: usize = 20;
