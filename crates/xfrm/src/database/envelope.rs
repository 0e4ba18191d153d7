//! Who sent a request, and the numbers in the headers of what is sent for it.

use crate::codec::MessageWriter;

/// Sender of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// Port id: what `getsockname` gives.
    pub port_id: u32,
    /// `NETLINK_EXT_ACK`: errors explain themselves.
    pub ext_ack: bool,
    /// `NETLINK_CAP_ACK`: errors do not repeat the request.
    pub cap_ack: bool,
}

/// The numbers in a message's header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Envelope {
    pub flags: u16,
    pub seq: u32,
    pub port_id: u32,
}

impl Envelope {
    pub fn writer(self, kind: u16) -> MessageWriter {
        MessageWriter::new(kind, self.flags, self.seq, self.port_id)
    }
}
