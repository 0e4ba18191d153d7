//! One request on its way through the databases.

use super::envelope::{Envelope, Sender};
use super::output::{Group, Output};
use crate::clock::Now;
use crate::codec::{Attributes, BadAttribute, Field, Header, Message};
use crate::failure::Failure;

/// One request on its way through the databases.
pub(super) struct Call<'a> {
    pub sender: &'a Sender,
    pub header: &'a Header,
    /// Bytes behind the header.
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
