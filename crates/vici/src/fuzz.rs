//! The entry of the fuzz target: a packet of any bytes.

use crate::lists;
use crate::message::{Element, Packet, walk};

/// Reads a packet, and its message in each way that there is.
pub fn exercise(bytes: &[u8]) {
    if let Ok(Packet::Response(message) | Packet::Event(_, message)) = Packet::parse(bytes) {
        read(message);
    }
    read(bytes);
}

fn read(message: &[u8]) {
    let (mut parts, mut begun, mut ended) = (0, 0, 0);
    let walked = walk(message, |sections, part| {
        parts += 1;
        assert!(sections.len() <= begun, "in a section that has not begun");
        match part {
            Element::Section(_) => begun += 1,
            Element::End => ended += 1,
            _ => {}
        }
    });
    // Each part takes a byte at least.
    assert!(parts <= message.len());
    assert!(walked.is_err() || begun == ended, "a message with a section that does not end");
    // The lists are read from what can be walked, and from nothing else.
    assert_eq!(lists::configured(message).is_ok(), walked.is_ok());
    assert_eq!(lists::up(message).is_ok(), walked.is_ok());
}
