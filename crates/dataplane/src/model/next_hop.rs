//! Where a packet goes next: as an address, or as bytes.

use core::net::IpAddr;

use wire::Span;
use wire::ethernet::HEADER_LEN;

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NextHop {
    /// Index of the egress interface.
    pub(crate) ifindex: u32,
    /// The neighbour's address.
    pub(crate) addr: IpAddr,
    /// The longest IP packet, in bytes.
    pub(crate) mtu: usize,
    /// Packets came in by a VLAN, and those that were drop eligible stay so if they leave by one.
    pub(crate) keeps_dei: bool,
}

impl NextHop {
    /// For packets whose buffers say nothing of how they came in.
    pub(crate) const fn new(ifindex: u32, addr: IpAddr, mtu: usize) -> NextHop {
        NextHop { ifindex, addr, mtu, keeps_dei: false }
    }

    /// Without the length.
    pub(crate) const fn towards(&self) -> Towards {
        let NextHop { ifindex, addr, keeps_dei, .. } = *self;
        Towards { ifindex, addr, keeps_dei }
    }
}

/// Interface and address that packets are sent to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Towards {
    /// Index of the egress interface.
    pub(crate) ifindex: u32,
    /// The neighbour's address.
    pub(crate) addr: IpAddr,
    /// As of a [`NextHop`].
    pub(crate) keeps_dei: bool,
}

/// The next hop of a flow, as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Adjacency {
    /// The egress port's [slot](crate::slots); or a VLAN's, from
    /// [`FIRST_VLAN_SLOT`](crate::FIRST_VLAN_SLOT) on, with [`KEEPS_DEI`](crate::model::KEEPS_DEI).
    pub(crate) slot: u16,
    /// The Ethernet header.
    pub(crate) header: [u8; HEADER_LEN],
}

impl Adjacency {
    /// Writes the Ethernet header in front of an IP packet, and says where the frame lies; none if
    /// there is no room for it.
    #[inline(always)]
    pub(crate) fn frame(&self, buffer: &mut [u8], ip: Span) -> Option<Span> {
        let start = ip.start.checked_sub(HEADER_LEN)?;
        *buffer.get_mut(start..)?.first_chunk_mut()? = self.header;
        Some(Span { start, len: ip.len + HEADER_LEN })
    }
}
