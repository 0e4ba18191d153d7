//! A flow, the same for both directions.

use core::net::IpAddr;

use wire::{Headers, protocol};

/// Address and port of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct End {
    /// Address of the host.
    pub addr: IpAddr,
    /// Port, 0 where the protocol has none.
    pub port: u16,
}

/// Identity of a flow. Packets of both directions have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    /// IP protocol of the flow.
    pub protocol: u8,
    /// The ends, the lesser first.
    ends: [End; 2],
}

impl FlowId {
    /// The flow between two ends, in any order.
    pub fn new(protocol: u8, one: End, other: End) -> FlowId {
        let ends = if one <= other { [one, other] } else { [other, one] };
        FlowId { protocol, ends }
    }

    /// The flow of a packet, and the packet's ends: source, destination.
    pub fn of(h: &Headers) -> (FlowId, End, End) {
        let (src_port, dst_port) = match protocol::has_ports(h.protocol) {
            true => (h.src_port, h.dst_port),
            false => (0, 0),
        };
        let (src, dst) = (End { addr: h.src, port: src_port }, End { addr: h.dst, port: dst_port });
        (FlowId::new(h.protocol, src, dst), src, dst)
    }

    /// Both ends, in no order that means something.
    pub const fn ends(&self) -> &[End; 2] {
        &self.ends
    }
}
