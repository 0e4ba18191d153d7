//! ESP that arrives: SAD, replay check, decryption, and whether policy allows what came out.

use core::net::IpAddr;

use esp::Sa;
use io::Packet;
use mem::Cache;
use outcome::DropReason;
use policy::{Direction, Flow, SaEntry, SaHandle, SaId};
use wire::{Digest, Fragment, Headers, Span, protocol};

use crate::event::Event;
use crate::guess::Guess;
use crate::ingress::Head;
use crate::plan::{Action, Lesson};
use crate::worker::{Origin, Worker};

impl Worker {
    /// Whether a packet is ESP, bare, from a port, to an address that is this host's for every
    /// packet: then it needs no plan.
    #[inline(always)]
    pub(crate) fn is_own_esp(&self, head: &Head) -> bool {
        head.digest.brief.protocol() == protocol::ESP
            && head.has_flow
            && head.ingress.ifindex != 0
            && head.ingress.via.is_none()
            && self.own.has(head.digest.flow.dst_words())
    }

    /// An ESP packet for this host; `from` is where it came from, if it is encapsulated in UDP.
    ///
    /// 1. Fragments cannot be opened.
    /// 2. (destination, SPI) finds the SA, which must be usable. Whether UDP encapsulation is as
    ///    the SA has it is seen when the packet has been opened.
    /// 3. Lengths and the replay window are checked.
    /// 4. The packet joins the burst; [`Worker::open_gathered`] does the rest.
    #[inline(never)]
    pub(crate) fn esp(&mut self, packet: Packet, head: &Head, from: Option<(IpAddr, u16)>) {
        self.esp_here(packet, head, from);
    }

    /// [`Worker::esp`], for where most of it comes by.
    #[inline(always)]
    pub(crate) fn esp_here(&mut self, packet: Packet, head: &Head, from: Option<(IpAddr, u16)>) {
        let Digest { flow, brief } = &head.digest;
        if brief.fragment() != Fragment::Whole {
            return self.drop_packet(packet, DropReason::EspFragment);
        }
        let udp_len = if from.is_some() { wire::udp::HEADER_LEN } else { 0 };
        let offset = usize::from(brief.header_len()) + udp_len;
        let Some((spi, _)) = packet.data().get(offset..).and_then(|esp| esp.split_first_chunk())
        else {
            return self.drop_packet(packet, DropReason::MalformedEsp);
        };
        let spi = u32::from_be_bytes(*spi);
        let found_at = head.sa.filter(|_| head.is_own_esp);
        let found = match found_at {
            Some(spot) => self.reader.inbound_sa_at(spot, (flow.dst(), spi, protocol::ESP), 0),
            None => None,
        };
        let found = found.or_else(|| self.inbound_sas.find(flow, spi, &self.reader));
        let Some(handle) = found else {
            return self.drop_packet(packet, DropReason::InNoState);
        };
        let Some(sa) = self.reader.sa(handle) else {
            return self.drop_packet(packet, DropReason::InNoState);
        };
        if !sa.state().is_usable() {
            return self.drop_packet(packet, DropReason::InStateExpired);
        }
        let Span { start, len } = packet.span;
        let esp = Span { start: start + offset, len: len - offset };
        let edge = self.edge_seen.filter(|(of, _)| *of == handle).map(|(_, edge)| edge);
        match sa.esp.open_look(packet.frame.bytes(), esp, edge) {
            Err(_) if self.is_apart => self.doubt(packet),
            Err(reason) => {
                sa.esp.count_refused(reason);
                self.drop_packet(packet, reason);
            }
            Ok(opening) => {
                if self.is_spread {
                    sa.esp.replay().prefetch(opening.seq);
                }
                if self.opening.is_full() {
                    self.open_gathered();
                }
                let guess = self.guess(handle, found_at.is_some());
                let sa = (handle, guess);
                if let Err(packet) = self.opening.push(packet, head, sa, opening, from) {
                    self.drop_packet(packet, DropReason::InCrypto);
                }
            }
        }
    }

    /// The flow that an SA's next packet may be of; brings its plan near, unless that was asked for
    /// ahead.
    #[inline(always)]
    fn guess(&self, sa: SaHandle, is_asked_for: bool) -> Guess {
        // With few SAs everything is near.
        if !self.is_spread {
            return Guess::NONE;
        }
        let guess = Guess::from_note(self.reader.note(sa));
        if let Some(place) = guess.place().filter(|_| !is_asked_for) {
            self.flows.prefetch_at(Cache::First, place);
        }
        guess
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
        if !self.is_possible_source(h.src, is_local) {
            return self.drop_packet(packet, DropReason::MartianSource);
        }
        let Some(sa) = held.or_else(|| self.reader.sa(via)) else {
            return self.drop_packet(packet, DropReason::InStateExpired);
        };
        let direction = if is_local { Direction::In } else { Direction::Forward };
        let flow = Flow::new(h, self.leads_to(h, ifindex));
        let policy = match self.reader.verify(direction, &flow, Some(sa)) {
            Ok(policy) => policy,
            Err(reason) => return self.drop_packet(packet, reason),
        };
        self.count_policy(policy, h);
        let policy = policy.map(|policy| &**policy);
        lesson.allowed_by(policy, self.reader.stamp(direction, &flow, policy));
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
