//! A flush of many SAs or policies, in turns: other requests are served between them.
//!
//! It walks the serial numbers downwards, as a dump does. Flushed is added while it runs has a larger
//! number and stays, as if it had been added after the flush; what others remove meanwhile is gone
//! already. The notification and the acknowledgement come when all are gone, and what the
//! requester sent behind the flush waits for that. Between the turns of a flush of policies packets
//! meet those that are left, as they do while Linux flushes.

use super::Database;
use super::call::Call;
use super::output::{Group, Output};
use super::pending::{Flush, Flushed, Progress};
use super::verify::policy_type;
use crate::backend::{Backend, SaEnd};
use crate::clock::Now;
use crate::codec::{SaFlush, attr, kind};
use crate::failure::Failure;

impl<B: Backend> Database<B> {
    /// `FLUSHSA` and `FLUSHPOLICY`: begins, or goes on with what `progress` says. One notification,
    /// none where nothing was there. Returns how far it has come if that is not the end.
    pub(super) fn flush(
        &mut self,
        call: &mut Call<'_>,
        progress: Option<Progress>,
    ) -> Result<Option<Progress>, Failure> {
        let mut progress = match progress {
            Some(progress) => progress,
            None => Progress { what: asked(call)?, cursor: u64::MAX, has_removed: false },
        };
        for _ in 0..ENTRIES_PER_TURN {
            if self.flush_one(&mut progress, call.out).is_none() {
                if progress.has_removed {
                    announce(progress.what, call);
                }
                return Ok(None);
            }
        }
        Ok(Some(progress))
    }

    /// Looks at the youngest entry that was not looked at yet; `None` if there is none.
    fn flush_one(&mut self, progress: &mut Progress, out: &mut Vec<Output>) -> Option<()> {
        let serial = match progress.what {
            Flushed::Sas(protocol) => {
                let (serial, sa) = self.sad.before(progress.cursor)?;
                // A companion goes with the last of its tunnels.
                if sa.has_protocol(protocol) && !sa.is_companion() {
                    self.remove_sa(serial, SaEnd::Deleted, out);
                    progress.has_removed = true;
                }
                serial
            }
            Flushed::Policies => {
                let (serial, _) = self.spd.before(progress.cursor)?;
                self.remove_policy(serial, out);
                progress.has_removed = true;
                serial
            }
        };
        progress.cursor = serial;
        Some(())
    }

    /// The next turn of a flush; with the last one all that was behind it in its datagram. As
    /// [`Database::request`].
    pub fn go_on(&mut self, flush: Flush, now: Now, out: &mut Vec<Output>) {
        let Flush { progress, sender, datagram } = flush;
        self.requests(&sender, &datagram, Some(progress), now, out);
    }
}

/// Entries that a request wants flushed.
fn asked(call: &Call<'_>) -> Result<Flushed, Failure> {
    if call.header.kind == kind::FLUSHPOLICY {
        policy_type(&call.attributes(0)?)?;
        return Ok(Flushed::Policies);
    }
    // Linux's struct is one byte; netlink pads it.
    let protocol = *call.body.first().ok_or(Failure::HeaderLength)?;
    call.attributes(1)?;
    Ok(Flushed::Sas(protocol))
}

/// Tells the group that something was flushed.
fn announce(what: Flushed, call: &mut Call<'_>) {
    let (group, message) = match what {
        Flushed::Sas(protocol) => {
            let mut w = call.notice().writer(kind::FLUSHSA);
            w.fixed(&SaFlush { protocol, ..SaFlush::default() });
            (Group::Sa, w.finish())
        }
        Flushed::Policies => {
            let mut w = call.notice().writer(kind::FLUSHPOLICY);
            w.attribute(attr::POLICY_TYPE, &[0; 6]);
            (Group::Policy, w.finish())
        }
    };
    call.event(group, message);
}

/// Entries that a turn looks at: a few milliseconds with all that hangs on each.
const ENTRIES_PER_TURN: usize = 512;
