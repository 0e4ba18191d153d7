//! A flush of many SAs, in turns: other requests are served between them.
//!
//! It walks the serial numbers downwards, as a dump does. What is added while it runs has a larger
//! number and stays, as if it had been added after the flush; what others remove meanwhile is gone
//! already. The notification and the acknowledgement come when all are gone, and what the
//! requester sent behind the flush waits for that.

use super::request::{Call, Sender};
use super::sas::protocol_matches;
use super::{Database, Group, Output};
use crate::backend::Backend;
use crate::clock::Now;
use crate::codec::{Message, SaFlush, kind};
use crate::failure::Failure;

/// A flush that is not at its end; goes on with [`Database::go_on`].
#[derive(Debug)]
pub struct Flush {
    progress: Progress,
    sender: Sender,
    /// The request, and what follows it in its datagram.
    datagram: Message,
}

/// How far a flush has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    protocol: u8,
    /// Everything from this serial number on has been looked at.
    cursor: u64,
    has_removed: bool,
}

impl Flush {
    pub(super) fn new(progress: Progress, sender: &Sender, datagram: &[u8]) -> Flush {
        Flush { progress, sender: *sender, datagram: Message::new(datagram.to_vec()) }
    }
}

impl<B: Backend> Database<B> {
    /// `FLUSHSA`. One notification, none where nothing was there. Returns how far it has come if
    /// that is not the end.
    pub(super) fn flush_sas(&mut self, call: &mut Call<'_>) -> Result<Option<Progress>, Failure> {
        // Linux's struct is one byte; netlink pads it.
        let protocol = *call.body.first().ok_or(Failure::HeaderLength)?;
        call.attributes(1)?;
        let progress = Progress { protocol, cursor: u64::MAX, has_removed: false };
        Ok(self.flush_turn(progress, call))
    }

    /// One turn of a flush, and its notification if it is the last one.
    fn flush_turn(&mut self, mut progress: Progress, call: &mut Call<'_>) -> Option<Progress> {
        for _ in 0..SAS_PER_TURN {
            let Some((serial, sa)) = self.sad.before(progress.cursor) else {
                if progress.has_removed {
                    let mut w = call.notice().writer(kind::FLUSHSA);
                    w.fixed(&SaFlush { protocol: progress.protocol, ..SaFlush::default() });
                    call.event(Group::Sa, w.finish());
                }
                return None;
            };
            progress.cursor = serial;
            if protocol_matches(sa.info.id.protocol, progress.protocol) {
                self.remove_sa(serial, call.out);
                progress.has_removed = true;
            }
        }
        Some(progress)
    }

    /// The next turn of a flush; with the last one all that was behind it in its datagram. As
    /// [`Database::request`].
    pub fn go_on(&mut self, flush: Flush, now: Now, out: &mut Vec<Output>) {
        let Flush { progress, sender, datagram } = flush;
        self.requests(&sender, &datagram, Some(progress), now, out);
    }

    /// Begins a flush, or goes on with it.
    pub(super) fn flush(
        &mut self,
        call: &mut Call<'_>,
        progress: Option<Progress>,
    ) -> Result<Option<Progress>, Failure> {
        match progress {
            Some(progress) => Ok(self.flush_turn(progress, call)),
            None => self.flush_sas(call),
        }
    }
}

/// SAs that a turn looks at: a few milliseconds with all that hangs on each.
const SAS_PER_TURN: usize = 512;
