//! Where a packet goes first: from a port, or from Linux.

use core::net::IpAddr;

use forward::RouteResult;
use io::Packet;
use outcome::DropReason;
use policy::{Direction, Ends, Flow};
use wire::ethernet::{EtherType, EthernetHeader, MacAddr};
use wire::natt::{self, NattPayload};
use wire::{Family, Headers, Span, protocol};

use crate::worker::{Origin, Worker};

impl Worker {
    /// A frame from an Ethernet port: ESP for us is opened; the rest was taken because a policy
    /// may speak of it. `mac` is the port's own address, where it is known.
    ///
    /// A VLAN's frames belong to an interface of their own, which no port stands for: they are not
    /// taken for the parent's. A tag of VLAN 0 only carries a priority (IEEE 802.1Q §6.9).
    pub(crate) fn enter_from_port(
        &mut self,
        mut packet: Packet,
        ifindex: u32,
        mac: Option<MacAddr>,
    ) {
        let header = match EthernetHeader::parse(packet.data()) {
            Ok(header) => header,
            Err(error) => return self.drop_packet(packet, error.into()),
        };
        let is_ours = header.dst.is_multicast() || mac.is_none_or(|mac| mac == header.dst);
        if !is_ours {
            return self.drop_packet(packet, DropReason::OtherHost);
        }
        let family = match header.ether_type {
            EtherType::IPV4 => Family::V4,
            EtherType::IPV6 => Family::V6,
            _ => return self.drop_packet(packet, DropReason::UnexpectedProtocol),
        };
        if header.tags.iter().flatten().any(|tag| tag.vlan_id() != 0) {
            return self.drop_packet(packet, DropReason::UnexpectedProtocol);
        }
        let payload = header.payload_offset;
        packet.span = Span { start: packet.span.start + payload, len: packet.span.len - payload };
        let Some((mut packet, h)) = self.parsed(packet) else { return };
        if h.family() != family {
            return self.drop_packet(packet, DropReason::MalformedIp);
        }
        // A veth peer leaves TCP and UDP checksums to a device that is not there.
        if wire::complete_partial(packet.data_mut(), &h) {
            self.counters.work.checksums_completed.add(1);
        }
        let is_local = self.is_local(&h, ifindex);
        if !header.dst.is_multicast() && !self.is_possible_source(&h, is_local) {
            return self.drop_packet(packet, DropReason::MartianSource);
        }
        if !is_local {
            // What was sent to all stations is not for routers (RFC 1812 §5.3.4).
            if header.dst.is_multicast() {
                return self.drop_packet(packet, DropReason::OtherHost);
            }
            return self.cleartext(packet, &h, ifindex, Direction::Forward);
        }
        match h.protocol {
            protocol::ESP => self.esp(packet, &h, ifindex, None),
            protocol::UDP if self.topology.is_natt_port(h.dst_port) => {
                self.udp_encapsulated(packet, &h, ifindex);
            }
            _ => self.cleartext(packet, &h, ifindex, Direction::In),
        }
    }

    /// A packet to a NAT traversal port of ours (RFC 3948 §2).
    fn udp_encapsulated(&mut self, packet: Packet, h: &Headers, ifindex: u32) {
        let payload = packet.data().get(usize::from(h.header_len) + wire::udp::HEADER_LEN..);
        match payload.map(natt::classify) {
            Some(NattPayload::Esp) => {
                let ports = (h.src_port, h.dst_port);
                self.esp(packet, h, ifindex, Some(ports));
            }
            // Steering leaves both to Linux; if one comes here all the same, Linux gets it.
            Some(NattPayload::NonEspMarker) => self.give_to_linux(packet),
            Some(NattPayload::Keepalive) => self.consume(packet),
            Some(NattPayload::TooShort) | None => {
                self.drop_packet(packet, DropReason::MalformedEsp);
            }
        }
    }

    /// A packet that arrived in clear: policy must allow that.
    ///
    /// So must Linux's reverse path filter, which cannot see what it is spared: a forged source on
    /// the outside would go into a tunnel.
    fn cleartext(&mut self, packet: Packet, h: &Headers, ifindex: u32, direction: Direction) {
        let ends = match direction {
            Direction::Forward => Ends::Forwarded,
            Direction::In | Direction::Out => Ends::Local,
        };
        if !policy::always_bypass(h, ends, false) {
            match self.reader.verify(direction, &Flow::new(h, ifindex), None) {
                Ok(Some(policy)) => policy.count(1, u64::from(h.total_len), self.now.wall_s),
                Ok(None) => {}
                Err(reason) => return self.drop_packet(packet, reason),
            }
        }
        let check = self.topology.interfaces.get(&ifindex).map(|i| i.source_check);
        let check = check.unwrap_or_default();
        if !self.topology.fib.is_way_back(h, 0, ifindex, check) {
            return self.drop_packet(packet, DropReason::ReversePath);
        }
        match direction {
            Direction::In => self.give_to_linux(packet),
            Direction::Forward | Direction::Out => {
                self.outbound(packet, h, Origin::Port { ifindex });
            }
        }
    }

    /// A packet from Linux: made by a program of this machine, or forwarded by Linux from an
    /// interface that is not a port.
    pub(crate) fn enter_from_linux(&mut self, packet: Packet) {
        let Some((packet, h)) = self.parsed(packet) else { return };
        self.outbound(packet, &h, Origin::Linux);
    }

    /// Whether a packet is for this host.
    pub(crate) fn is_local(&self, h: &Headers, ifindex: u32) -> bool {
        let route = self.topology.fib.lookup(h.dst, h.src, 0, ifindex);
        matches!(route, RouteResult::Local)
    }

    /// Whether a packet to one host may come from where it says (RFC 1812 §5.3.7, RFC 4291 §2.5).
    ///
    /// Linux asks the same of what it receives, but the private interface has to take packets with
    /// addresses of this host.
    pub(crate) fn is_possible_source(&self, h: &Headers, is_local: bool) -> bool {
        let is_martian = match h.src {
            IpAddr::V4(src) => {
                let [first, ..] = src.octets();
                first == 0 || first == 127 || src.is_multicast() || src.is_broadcast()
            }
            IpAddr::V6(src) => {
                src.is_unspecified()
                    || src.is_loopback()
                    || src.is_multicast()
                    || !is_local && src.is_unicast_link_local()
            }
        };
        !is_martian && !self.topology.is_local_addr(h.src)
    }

    /// Hands an IP packet to Linux, through the private interface.
    pub(crate) fn give_to_linux(&mut self, packet: Packet) {
        match self.linux {
            Some(slot) => self.enqueue(slot, packet),
            None => self.drop_packet(packet, DropReason::LinuxFull),
        }
    }

    /// Puts a packet into a port's queue, and sends the queue if it is full.
    pub(crate) fn enqueue(&mut self, slot: usize, packet: Packet) {
        if self.ports.get(slot).and_then(Option::as_ref).is_some_and(|p| p.queue.is_full()) {
            self.transmit(slot);
        }
        match self.ports.get_mut(slot) {
            Some(Some(place)) => {
                if let Err(full) = place.queue.try_push(packet) {
                    self.drop_packet(full.element(), DropReason::TransmitFull);
                }
            }
            _ => self.drop_packet(packet, DropReason::TransmitDown),
        }
    }
}
