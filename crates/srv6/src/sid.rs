//! Segments of this node.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::csid::Csid;
use crate::headend::Headend;

/// Behaviour of a segment (RFC 8986 §4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// On to the next segment.
    End,
    /// End.X: on to the next segment by a next hop.
    EndX(Ipv6Addr),
    /// End.T: on to the next segment by a table.
    EndT(u32),
    /// Decapsulates Ethernet, out of an interface.
    EndDx2(u32),
    /// Decapsulates IPv4, to a next hop.
    EndDx4(Ipv4Addr),
    /// Decapsulates IPv6, to a next hop.
    EndDx6(Ipv6Addr),
    /// Decapsulates IPv4, by a table.
    EndDt4(u32),
    /// Decapsulates IPv6, by a table.
    EndDt6(u32),
    /// Decapsulates either, by a table.
    EndDt46(u32),
    /// On to the next segment, with further headers around the packet.
    EndB6Encaps(Headend),
}

/// Flavours of a segment (RFC 8986 §4.16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flavours {
    /// The last but one takes the header off.
    pub psp: bool,
    /// The last one takes the header off.
    pub usp: bool,
    /// The last one decapsulates.
    pub usd: bool,
}

/// A segment of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sid {
    /// Behaviour for packets that arrive with this segment.
    pub behaviour: Behaviour,
    /// Flavours of the behaviour.
    pub flavours: Flavours,
    /// How it is compressed.
    pub csid: Csid,
}

/// How a packet goes on from a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// As the tables say.
    Lookup,
    /// As one table says.
    Table(u32),
    /// To a next hop.
    Via(IpAddr),
    /// Out of an interface, as it is.
    Interface(u32),
}

impl Sid {
    /// One without flavours or compression.
    pub const fn new(behaviour: Behaviour) -> Sid {
        let flavours = Flavours { psp: false, usp: false, usd: false };
        Sid { behaviour, flavours, csid: Csid::None }
    }

    /// How packets go on from it.
    pub fn next(&self) -> Next {
        match &self.behaviour {
            Behaviour::End | Behaviour::EndB6Encaps(_) => Next::Lookup,
            Behaviour::EndX(addr) | Behaviour::EndDx6(addr) => Next::Via(IpAddr::V6(*addr)),
            Behaviour::EndDx4(addr) => Next::Via(IpAddr::V4(*addr)),
            Behaviour::EndT(table)
            | Behaviour::EndDt4(table)
            | Behaviour::EndDt6(table)
            | Behaviour::EndDt46(table) => Next::Table(*table),
            Behaviour::EndDx2(ifindex) => Next::Interface(*ifindex),
        }
    }

    /// Bytes that a packet becomes longer by, at most.
    pub fn overhead(&self) -> usize {
        match &self.behaviour {
            Behaviour::EndB6Encaps(headend) => headend.overhead(),
            _ => 0,
        }
    }

    /// The name, as iproute2 spells it.
    pub const fn name(&self) -> &'static str {
        match &self.behaviour {
            Behaviour::End => "End",
            Behaviour::EndX(_) => "End.X",
            Behaviour::EndT(_) => "End.T",
            Behaviour::EndDx2(_) => "End.DX2",
            Behaviour::EndDx4(_) => "End.DX4",
            Behaviour::EndDx6(_) => "End.DX6",
            Behaviour::EndDt4(_) => "End.DT4",
            Behaviour::EndDt6(_) => "End.DT6",
            Behaviour::EndDt46(_) => "End.DT46",
            Behaviour::EndB6Encaps(_) => "End.B6.Encaps",
        }
    }
}
