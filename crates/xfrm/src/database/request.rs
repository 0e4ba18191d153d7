//! One datagram of requests: framing, dispatch, acknowledgements.

use super::emit::Envelope;
use super::flush::{Flush, Progress};
use super::{Database, Dump, Group, Output};
use crate::backend::Backend;
use crate::clock::Now;
use crate::codec::{
    Acknowledgement, Attributes, BadAttribute, Field, Header, Message, Messages, flag, kind,
};
use crate::failure::Failure;

/// Who sends a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// Port id: what `getsockname` gives.
    pub port_id: u32,
    /// `NETLINK_EXT_ACK`: errors explain themselves.
    pub ext_ack: bool,
    /// `NETLINK_CAP_ACK`: errors do not repeat the request.
    pub cap_ack: bool,
}

/// One request on its way through the databases.
pub(super) struct Call<'a> {
    pub sender: &'a Sender,
    pub header: &'a Header,
    /// What follows the header.
    pub body: &'a [u8],
    pub now: Now,
    pub out: &'a mut Vec<Output>,
}

impl<'a> Call<'a> {
    /// The fixed struct and the attributes behind it.
    pub fn parse<T: Field>(&self) -> Result<(T, Attributes<'a>), Failure> {
        let fixed = T::decode(self.body).map_err(|_| Failure::HeaderLength)?;
        Ok((fixed, self.attributes(T::LEN)?))
    }

    /// The attributes behind a fixed part of this length.
    pub fn attributes(&self, fixed_len: usize) -> Result<Attributes<'a>, Failure> {
        let rest = self.body.get(aligned(fixed_len)..).unwrap_or_default();
        Attributes::parse(rest).map_err(|e| bad_attribute(e, fixed_len))
    }

    pub fn reply(&mut self, message: Message) {
        self.out.push(Output::Reply(message));
    }

    pub fn event(&mut self, group: Group, message: Message) {
        self.out.push(Output::Event { group, message });
    }

    /// The envelope of an answer.
    pub fn answer(&self) -> Envelope {
        Envelope { flags: 0, seq: self.header.seq, port_id: self.sender.port_id }
    }

    /// The envelope of a notification: it tells whose request it was.
    pub fn notice(&self) -> Envelope {
        Envelope { flags: 0, seq: self.header.seq, port_id: self.header.port_id }
    }
}

/// An attribute's failure, with its place counted from the message's start.
pub(super) fn bad_attribute(e: BadAttribute, fixed_len: usize) -> Failure {
    let offset = u32::try_from(Header::LEN + aligned(fixed_len) + e.offset).unwrap_or(u32::MAX);
    Failure::Attribute { kind: e.kind, offset, errno: e.errno }
}

const fn aligned(len: usize) -> usize {
    (len + 3) & !3
}

/// What a request leaves to be done.
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
