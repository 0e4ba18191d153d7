//! Packets of peers.

use core::net::IpAddr;

use io::Packet;
use wire::udp::UdpHeader;
use wire::{Headers, L4Checksum, parse_ip, verify_l4_checksum};

use super::sessions::{Carried, DSCP, Sessions};
use crate::features::crafted::{Outside, Upper, made};
use crate::features::hands::Hands;
use crate::features::reception::Reception;
use crate::model::Meta;
use crate::view::View;

/// Longest echo packet that is sent back, in bytes of its UDP payload. What is in it is its sender's matter.
const LONGEST_ECHO: usize = 1200;

impl Sessions {
    /// Takes a packet of a peer, if it is between the ends of a session (RFC 5880 §6.8.6, RFC 5881 §5, RFC 5883 §4).
    pub(super) fn take(
        &mut self,
        hands: &mut Hands<'_>,
        packet: &Packet,
        meta: &Meta,
    ) -> Reception {
        let bytes = packet.data();
        let Ok(h) = parse_ip(bytes) else { return Reception::Other };
        let above = bytes.get(usize::from(h.header_len)..h.total_len.into());
        let datagram = above.and_then(|above| UdpHeader::parse(above).ok());
        let Some(datagram) = datagram else { return Reception::Other };
        if verify_l4_checksum(bytes, &h) == L4Checksum::Invalid {
            return Reception::Other;
        }
        let is_multi_hop = h.dst_port == bfd::MULTI_HOP_PORT;
        let ifindex = came_in_by(hands.view, meta);
        let Some(by_ends) = self.of_ends((h.dst, h.src, is_multi_hop), ifindex) else {
            return Reception::Other;
        };
        if h.dst_port == bfd::ECHO_PORT {
            return self.send_back(hands, &h, datagram.payload(), by_ends);
        }
        let min_ttl = self.carried(by_ends).map_or(bfd::TTL, |carried| carried.setup.min_ttl);
        if h.ttl < min_ttl {
            self.refusals.ttl += 1;
            return Reception::Refused;
        }
        let packet = match bfd::Packet::parse(datagram.payload()) {
            Ok(packet) => packet,
            Err(rule) => {
                self.refusals.count(rule);
                return Reception::Refused;
            }
        };
        // Sessions have their own ends each, so a discriminator is one of theirs or of none.
        let known = self.by_discr.get(&packet.your_discr).copied();
        let is_for = packet.your_discr == 0 || known == Some(by_ends);
        let now_ns = hands.out.reports.clock_ns();
        let Some(Some(carried)) = self.slots.get_mut(by_ends as usize).filter(|_| is_for) else {
            self.refusals.session += 1;
            return Reception::Refused;
        };
        carried.session.receive(&packet, now_ns);
        hands.out.counters.work.bfd_received.add(1);
        carried.tell(hands.out);
        let due_ns = carried.due_ns(now_ns);
        self.agenda.set(by_ends, due_ns);
        Reception::Taken
    }

    /// Sends an echo packet back to the peer of a session (RFC 5881 §4). Only what no hop has touched: so two ends that
    /// both send back do not do so for ever.
    fn send_back(
        &mut self,
        hands: &mut Hands<'_>,
        h: &Headers,
        payload: &[u8],
        slot: u32,
    ) -> Reception {
        if h.ttl < bfd::TTL {
            self.refusals.ttl += 1;
            return Reception::Refused;
        }
        let takes_echo = |it: &&Carried| it.session.settings().min_echo_rx > 0;
        let room = !self.echoes.is_full() && payload.len() <= LONGEST_ECHO;
        let carried = self.carried(slot).filter(takes_echo).filter(|_| room);
        let Some(origin) = carried.and_then(|carried| carried.origin(hands.view)) else {
            self.refusals.echo += 1;
            return Reception::Refused;
        };
        let ends = Outside { src: h.dst, dst: h.src, dscp: DSCP, ttl: bfd::TTL - 1 };
        let upper = Upper::Udp(h.dst_port, h.src_port);
        let Some((packet, h)) = made(hands.out, ends, upper, payload) else {
            self.refusals.echo += 1;
            return Reception::Refused;
        };
        hands.out.counters.work.bfd_echoed.add(1);
        // There is room: it was looked at before.
        let _ = self.echoes.try_push((packet, h, origin));
        Reception::Taken
    }

    /// Slot of the session between two addresses: the one of the interface, or else of any.
    fn of_ends(&self, ends: (IpAddr, IpAddr, bool), ifindex: u32) -> Option<u32> {
        let (local, far, is_multi_hop) = ends;
        let of = |ifindex| self.by_ends.get(&(local, far, is_multi_hop, ifindex)).copied();
        of(ifindex).or_else(|| of(0))
    }

    fn carried(&self, slot: u32) -> Option<&Carried> {
        self.slots.get(slot as usize)?.as_ref()
    }
}

/// Index of the interface that a packet counts as received by.
fn came_in_by(view: &View, meta: &Meta) -> u32 {
    let sa = meta.ingress.via().and_then(|via| view.reader.sa(via));
    let tunnel = sa.and_then(|sa| view.topology.tunnels.of_sa(&sa.config));
    let ifindex = meta.ingress.ifindex;
    match (tunnel, view.topology.overlays.link(ifindex)) {
        // What was inside of an overlay is the overlay's, whatever was around that.
        (_, Some(link)) => link.ifindex,
        (Some((_, tunnel)), None) => tunnel.ifindex,
        (None, None) => ifindex,
    }
}
