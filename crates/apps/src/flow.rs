//! A flow that is looked at: what of it is kept, and for how long.

use crate::application::AppId;
use crate::flow_id::{End, FlowId};
use crate::quic::ClientSide;
use crate::second::Asked;
use crate::stream::Stream;

/// A flow in the table.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) id: FlowId,
    /// The end whose packet was seen first.
    pub(crate) first: End,
    /// Packets with payload that were looked at.
    pub(crate) packets: u64,
    /// Bytes of these packets, as IP packets.
    pub(crate) bytes: u64,
    pub(crate) stage: Stage,
    /// Questions to a second classifier.
    pub(crate) asked: Asked,
}

/// Stage of a flow.
#[derive(Debug)]
pub(crate) enum Stage {
    /// More packets have to come.
    Looking(Box<Looking>),
    /// It is decided.
    Decided(AppId),
}

/// Bytes of a flow that is not decided.
#[derive(Debug)]
pub(crate) enum Looking {
    /// Both directions, that of the lesser end first.
    Tcp([Stream; 2]),
    Udp(ClientSide),
}

impl Looking {
    /// Memory that it takes, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        let inner = match self {
            Looking::Tcp(streams) => streams.iter().map(Stream::footprint).sum(),
            Looking::Udp(client) => client.footprint(),
        };
        size_of::<Looking>() + inner
    }
}
