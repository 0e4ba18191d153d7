//! ESP that arrives: SAD, replay check, decryption, and whether policy allows what came out.

use core::net::IpAddr;

use esp::Sa;
use io::Packet;
use outcome::DropReason;
use policy::{Direction, Flow, SaEntry, SaHandle, SaId};
use wire::{Fragment, Headers, Span, protocol};

use crate::event::Event;
use crate::ingress::Head;
use crate::opening::Opening;
use crate::plan::{Action, Lesson};
use crate::worker::{Origin, Worker};

impl Worker {
    /// Whether a packet is ESP, bare, from a port, to an address that is this host's for every
    /// packet: then it needs no plan.
    #[inline(always)]
    pub(crate) fn is_own_esp(&self, head: &Head) -> bool {
        let ingress = &head.key.ingress;
        head.h.protocol == protocol::ESP
            && head.has_flow
            && ingress.ifindex != 0
            && ingress.via.is_none()
            && self.own.has(head.h.dst)
    }

    /// An ESP packet for this host, with the UDP ports that it was encapsulated in, if any.
    ///
    /// 1. Fragments cannot be opened.
    /// 2. (destination, SPI) finds the SA, which must be usable. Whether UDP encapsulation is as
    ///    the SA has it is seen when the packet has been opened.
    /// 3. Lengths and the replay window are checked.
    /// 4. The packet joins the burst; [`Worker::open_gathered`] does the rest.
    pub(crate) fn esp(
        &mut self,
        packet: Packet,
        outer: &Headers,
        ifindex: u32,
        ports: Option<(u16, u16)>,
    ) {
        if outer.fragment != Fragment::Whole {
            return self.drop_packet(packet, DropReason::EspFragment);
        }
        let offset =
            usize::from(outer.header_len) + if ports.is_some() { wire::udp::HEADER_LEN } else { 0 };
        let Some(len) = packet.span.len.checked_sub(offset) else {
            return self.drop_packet(packet, DropReason::MalformedEsp);
        };
        let esp = Span { start: packet.span.start + offset, len };
        let Some(spi) = packet.data().get(offset..offset + 4).and_then(|b| b.try_into().ok())
        else {
            return self.drop_packet(packet, DropReason::MalformedEsp);
        };
        let spi = u32::from_be_bytes(spi);
        let handle = self.reader.inbound_sa(outer.dst, spi, wire::protocol::ESP, 0);
        let Some((handle, sa)) = handle.and_then(|h| Some((h, self.reader.sa(h)?))) else {
            return self.drop_packet(packet, DropReason::InNoState);
        };
        if !sa.state().is_usable() {
            return self.drop_packet(packet, DropReason::InStateExpired);
        }
        match sa.esp.open_prepare(packet.frame.bytes(), esp) {
            Err(reason) => self.drop_packet(packet, reason),
            Ok(opening) => {
                if self.opening.items.is_full() {
                    self.open_gathered();
                }
                let opening = Opening::new(packet, outer, handle, opening, ports, ifindex);
                self.opening.items.push(opening);
            }
        }
    }

    /// A decrypted packet whose flow has no plan: policy must allow it (RFC 4301 §5.2).
    pub(crate) fn enter_decrypted(
        &mut self,
        packet: Packet,
        h: &Headers,
        (via, held): (SaHandle, Option<&SaEntry<Sa>>),
        ifindex: u32,
        lesson: &mut Lesson,
    ) {
        let is_local = self.is_local(h, ifindex);
        if !self.is_possible_source(h, is_local) {
            return self.drop_packet(packet, DropReason::MartianSource);
        }
        let Some(sa) = held.or_else(|| self.reader.sa(via)) else {
            return self.drop_packet(packet, DropReason::InStateExpired);
        };
        let direction = if is_local { Direction::In } else { Direction::Forward };
        let flow = Flow::new(h, ifindex);
        let policy = match self.reader.verify(direction, &flow, Some(sa)) {
            Ok(policy) => policy,
            Err(reason) => return self.drop_packet(packet, reason),
        };
        self.count_policy(policy, h);
        lesson.allowed_by(policy, self.reader.stamp(direction, &flow, policy.map(|p| &**p)));
        if is_local {
            lesson.conclude(Action::ToLinux);
            self.give_to_linux(packet);
        } else {
            self.outbound(packet, h, Origin::Decrypted { ifindex }, lesson);
        }
    }

    /// The peer's address or port behind a NAT may change under way (RFC 3948 §3.3); whoever owns
    /// the SA decides what follows.
    #[cold]
    pub(crate) fn tell_mapping(&mut self, sa: SaId, src: IpAddr, src_port: u16) {
        // Every packet tells until the owner has acted: a few are enough.
        if self.mappings.allow(self.now.ns) {
            self.events.send(Event::MappingChanged { sa, src, src_port });
        }
    }
}
