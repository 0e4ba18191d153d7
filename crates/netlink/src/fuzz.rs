//! The entry of the fuzz target: a datagram of any bytes.

use crate::answer::Answer;
use crate::attribute::{Attributes, as_be16, as_be32, as_ip, as_text, as_u32};
use crate::field::Field as _;
use crate::message::{Header, MessageWriter, Messages};
use crate::netfilter;

/// Reads the messages of a datagram, their answers and all attributes, and holds them against what
/// the writer makes of them.
pub fn exercise(datagram: &[u8]) {
    let mut messages = Messages::new(datagram);
    let mut read = 0;
    while let Some((header, whole)) = messages.next() {
        read += whole.len();
        assert!(read + messages.rest().len() <= datagram.len());
        let body = &whole[Header::LEN..];
        let _ = Answer::read(&header, body);
        if let Some((_, attributes)) = netfilter::split(body) {
            values(attributes, 0);
        }
        let attributes = Attributes::new(body);
        values(attributes, 0);
        // What was understood is written, and understood again.
        let mut writer = MessageWriter::new(header.kind, header.flags, header.seq, header.port_id);
        for (kind, value) in attributes {
            writer.attribute(kind, value);
        }
        let written = writer.finish();
        let (again, same) = Messages::new(&written).next().expect("a message");
        assert_eq!(Header { len: header.len, ..again }, header);
        assert_eq!(same.len(), written.len());
        assert!(Attributes::new(&same[Header::LEN..]).eq(attributes));
    }
}

/// Reads values as all that they could be, and what is nested in them.
fn values(attributes: Attributes<'_>, depth: usize) {
    for (_, value) in attributes {
        let _ = (as_u32(value), as_be16(value), as_be32(value), as_ip(value));
        assert!(!as_text(value).contains('\0'));
        if depth < DEPTH {
            values(Attributes::new(value), depth + 1);
        }
    }
}

/// No message nests deeper.
const DEPTH: usize = 4;
