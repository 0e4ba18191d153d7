//! One datagram of requests: framing, dispatch, acknowledgements.

use super::Database;
use super::call::Call;
use super::envelope::Sender;
use super::output::Output;
use super::pending::{Dump, Flush, Progress};
use crate::backend::Backend;
use crate::clock::Now;
use crate::codec::{Acknowledgement, Field, Header, Messages, flag, kind};
use crate::failure::Failure;

/// Steps of a request that are left for later.
enum Later {
    Dump(Dump),
    Flush(Progress),
}

impl<B: Backend> Database<B> {
    /// Handles one datagram from a client: any bytes at all. What it asks for is done before this
    /// returns, except dumps, which are handed out as [`Output::Dump`], and what is left of a
    /// datagram from a flush of many entries on: [`Output::Flush`].
    ///
    /// 1. Messages whose length is unsound end the datagram.
    /// 2. What is no request, or a control message, is acknowledged if it asks for that.
    /// 3. A request's notifications come before its acknowledgement; a dump has none.
    pub fn request(&mut self, sender: &Sender, datagram: &[u8], now: Now, out: &mut Vec<Output>) {
        self.requests(sender, datagram, None, now, out);
    }

    /// As [`Database::request`]; `progress` is that of the flush which the datagram begins with.
    pub(super) fn requests(
        &mut self,
        sender: &Sender,
        datagram: &[u8],
        mut progress: Option<Progress>,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        let mut messages = Messages::new(datagram);
        loop {
            let from_here = messages.rest();
            let Some((header, whole)) = messages.next() else { return };
            let outcome = if header.flags & flag::REQUEST == 0 || header.kind < kind::BASE {
                Ok(None)
            } else {
                let body = whole.get(Header::LEN..).unwrap_or_default();
                let call = Call { sender, header: &header, body, now, out };
                self.dispatch(call, progress.take())
            };
            let failure = match outcome {
                Ok(Some(Later::Dump(dump))) => {
                    out.push(Output::Dump(dump));
                    continue;
                }
                Ok(Some(Later::Flush(progress))) => {
                    out.push(Output::Flush(Flush::new(progress, sender, from_here)));
                    return;
                }
                Ok(None) => None,
                Err(failure) => Some(failure),
            };
            if let Some(failure) = failure.as_ref().filter(|f| f.is_for_operators()) {
                // The requester hears it too, but IKE daemons log the errno at most.
                tracing::warn!(port_id = sender.port_id, "refused: {failure}");
            }
            if failure.is_none() && header.flags & flag::ACK == 0 {
                continue;
            }
            let text = failure.as_ref().filter(|_| sender.ext_ack).map(Failure::text);
            let ack = Acknowledgement {
                port_id: sender.port_id,
                request: &header,
                whole,
                errno: failure.as_ref().map_or(0, Failure::errno),
                cap_ack: sender.cap_ack,
                text: text.as_deref(),
                offset: failure.as_ref().filter(|_| sender.ext_ack).and_then(Failure::offset),
            };
            out.push(Output::Reply(ack.message()));
        }
    }

    fn dispatch(
        &mut self,
        mut call: Call<'_>,
        progress: Option<Progress>,
    ) -> Result<Option<Later>, Failure> {
        let call = &mut call;
        let dump = call.header.flags & flag::DUMP != 0;
        match call.header.kind {
            kind::GETSA if dump => return Ok(Some(Later::Dump(self.dump_sas(call)))),
            kind::GETPOLICY if dump => return Ok(Some(Later::Dump(self.dump_policies(call)))),
            kind::NEWSA | kind::UPDSA => self.put_sa(call),
            kind::DELSA => self.delete_sa(call),
            kind::GETSA => self.get_sa(call),
            kind::FLUSHSA | kind::FLUSHPOLICY => {
                return Ok(self.flush(call, progress)?.map(Later::Flush));
            }
            kind::ALLOCSPI => self.allocate_spi(call),
            kind::ACQUIRE => self.acquire_request(call),
            kind::EXPIRE => self.expire_request(call),
            kind::NEWAE => self.set_aevent(call),
            kind::GETAE => self.get_aevent(call),
            kind::NEWPOLICY | kind::UPDPOLICY => self.put_policy(call),
            kind::DELPOLICY => self.delete_policy(call),
            kind::GETPOLICY => self.get_policy(call),
            kind::POLEXPIRE => self.policy_expire_request(call),
            kind::GETSADINFO => self.get_sad_info(call),
            kind::GETSPDINFO => self.get_spd_info(call),
            kind::NEWSPDINFO => self.set_spd_info(call),
            kind::SETDEFAULT => self.set_default(call),
            kind::GETDEFAULT => self.get_default(call),
            kind::MIGRATE => self.migrate(call),
            kind::MIGRATE_STATE => self.migrate_state(call),
            _ => Err(Failure::MessageType),
        }?;
        Ok(None)
    }
}
