//! The last step: neighbour, Ethernet header, transmit queue; and fragments on the way there.

use core::net::IpAddr;

use forward::{Held, Resolution, fragment, fragment_v6};
use io::Packet;
use outcome::{DropReason, Outcome};
use wire::ethernet::{EtherType, HEADER_LEN, emit_untagged};
use wire::{Family, Headers, Span};

use crate::event::Event;
use crate::plan::Adjacency;
use crate::worker::Worker;

/// Where a packet goes next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextHop {
    /// Egress interface.
    pub(crate) ifindex: u32,
    /// The neighbour's address.
    pub(crate) addr: IpAddr,
    /// The longest IP packet, in bytes.
    pub(crate) mtu: usize,
}

impl Worker {
    /// The port and the Ethernet header towards a next hop, for packets of a family; none unless
    /// the neighbour is known and Linux has no doubts about it.
    pub(crate) fn adjacency(&self, to: NextHop, family: Family) -> Option<Adjacency> {
        let interface = self.topology.interfaces.get(&to.ifindex).filter(|i| i.up)?;
        let Resolution::Resolved { mac, confirm: false } =
            self.neighbours.resolve(to.ifindex, to.addr)
        else {
            return None;
        };
        let ether_type = match family {
            Family::V4 => EtherType::IPV4,
            Family::V6 => EtherType::IPV6,
        };
        let mut header = [0; HEADER_LEN];
        emit_untagged(&mut header, mac, interface.mac, ether_type).ok()?;
        Some(Adjacency { slot: u16::try_from(interface.port?).ok()?, header })
    }

    /// Sends an IP packet to a neighbour, or holds it until Linux has found the neighbour.
    pub(crate) fn emit(&mut self, mut packet: Packet, ifindex: u32, next_hop: IpAddr) {
        let Some(interface) = self.topology.interfaces.get(&ifindex) else {
            return self.drop_packet(packet, DropReason::TransmitDown);
        };
        let (slot, mac, up) = (interface.port, interface.mac, interface.up);
        let (Some(slot), true) = (slot, up) else {
            return self.drop_packet(packet, DropReason::TransmitDown);
        };
        let neighbour = match self.neighbours.resolve(ifindex, next_hop) {
            Resolution::Resolved { mac, confirm } => {
                // Linux sees none of our packets: without a hint it would let the entry age.
                if confirm {
                    self.ask_for_neighbour(ifindex, next_hop);
                }
                mac
            }
            waits @ (Resolution::Unknown | Resolution::Pending) => {
                let is_unknown = waits == Resolution::Unknown;
                return self.wait_for_neighbour(packet, ifindex, next_hop, is_unknown);
            }
            Resolution::Failed => {
                self.ask_for_neighbour(ifindex, next_hop);
                return self.drop_packet(packet, DropReason::NeighbourFailed);
            }
        };
        let Some(ether_type) = ether_type(&packet) else {
            return self.drop_packet(packet, DropReason::MalformedIp);
        };
        let Some(start) = packet.span.start.checked_sub(HEADER_LEN) else {
            return self.drop_packet(packet, DropReason::OutNoRoom);
        };
        packet.span = Span { start, len: packet.span.len + HEADER_LEN };
        if emit_untagged(packet.data_mut(), neighbour, mac, ether_type).is_err() {
            return self.drop_packet(packet, DropReason::OutNoRoom);
        }
        self.enqueue(slot, packet);
    }

    /// Holds a packet. The first asks for the neighbour at once; the others, as often as the limit
    /// allows, while Linux shows no sign of having heard.
    fn wait_for_neighbour(
        &mut self,
        packet: Packet,
        ifindex: u32,
        next_hop: IpAddr,
        is_unknown: bool,
    ) {
        match self.held_for_neighbour.push((ifindex, next_hop), packet, self.now.ns) {
            Ok(place) => {
                self.counters.count(Outcome::Held, 1);
                if place == Held::First {
                    self.events.send(Event::Resolve { ifindex, ip: next_hop });
                } else if is_unknown {
                    self.ask_for_neighbour(ifindex, next_hop);
                }
            }
            Err(refused) => self.drop_packet(refused.into_packet(), DropReason::HoldQueueFull),
        }
    }

    /// Asks Linux to look after a neighbour, not too often.
    fn ask_for_neighbour(&mut self, ifindex: u32, next_hop: IpAddr) {
        if self.confirmations.allow(self.now.ns) {
            self.events.send(Event::Resolve { ifindex, ip: next_hop });
        }
    }

    /// Cuts a packet into fragments of at most `mtu` bytes and hands each on. An IPv6 packet must
    /// be one that this host sends itself.
    pub(crate) fn fragment(
        &mut self,
        packet: Packet,
        h: &Headers,
        mtu: usize,
        mut hand_on: impl FnMut(&mut Worker, Packet, &Headers),
    ) {
        let mut ident = [0; 4];
        if h.family() == Family::V6 {
            self.ivs.fill(&mut ident);
        }
        let Some(plan) = Cut::new(h, packet.data(), mtu, u32::from_ne_bytes(ident)) else {
            return self.drop_packet(packet, DropReason::OutTooBig);
        };
        self.counters.work.fragmented.add(1);
        // The packet ends as its first fragment; the others are new.
        let pieces = plan.count();
        self.counters.generated.add(pieces.saturating_sub(1) as u64);
        for n in 0..pieces {
            let Some(frame) = self.pool.take() else {
                self.counters.count(Outcome::Dropped(DropReason::NoFrames), 1);
                continue;
            };
            let start = frame.headroom();
            let mut piece = Packet { frame, span: Span { start, len: 0 } };
            let room = piece.frame.bytes_mut().get_mut(start..).unwrap_or(&mut []);
            match plan.write(n, room) {
                Ok(len) => {
                    piece.span.len = len;
                    match wire::parse_ip(piece.data()) {
                        Ok(h) => hand_on(self, piece, &h),
                        Err(error) => self.drop_packet(piece, error.into()),
                    }
                }
                Err(_) => self.drop_packet(piece, DropReason::OutNoRoom),
            }
        }
        self.pool.put_packet(packet);
    }
}

/// A plan of fragments, of either family.
enum Cut<'a> {
    V4(fragment::Plan<'a>),
    V6(fragment_v6::Plan<'a>),
}

impl<'a> Cut<'a> {
    fn new(h: &Headers, packet: &'a [u8], mtu: usize, ident: u32) -> Option<Cut<'a>> {
        match h.family() {
            Family::V4 => fragment::plan(h, packet, mtu).ok().map(Cut::V4),
            Family::V6 => fragment_v6::plan(h, packet, mtu, ident).ok().map(Cut::V6),
        }
    }

    fn count(&self) -> usize {
        match self {
            Cut::V4(plan) => plan.count(),
            Cut::V6(plan) => plan.count(),
        }
    }

    fn write(&self, n: usize, out: &mut [u8]) -> Result<usize, wire::NoRoom> {
        match self {
            Cut::V4(plan) => plan.write(n, out),
            Cut::V6(plan) => plan.write(n, out),
        }
    }
}

/// The EtherType by the packet's version field.
fn ether_type(packet: &Packet) -> Option<EtherType> {
    match packet.data().first()? >> 4 {
        4 => Some(EtherType::IPV4),
        6 => Some(EtherType::IPV6),
        _ => None,
    }
}
