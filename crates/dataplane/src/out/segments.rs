//! SRv6: packets that get segments, and those that take the step of one.

use forward::IcmpCause;
use io::Packet;
use outcome::DropReason;
use srv6::{Done, Icmp, Inner, Next, Refusal};
use wire::Fields;
use wire::ethernet::HEADER_LEN;

use crate::model::{FIRST_SEGMENTS, INSIDE, Ingress, Meta, RefusedStep};
use crate::out::dressed::{keep_wrapped, make_room, wrap};
use crate::out::{AnyOut, Out};
use crate::tables::segments::Function;
use crate::view::View;

impl Out {
    /// Puts the segments of a headend, by its number, on an IP packet with fields `h`. Returns the fields of what it
    /// is then; none where its outer headers are not the headend's alone, or where it is too long for a packet.
    ///
    /// # Errors
    /// It does not get them.
    #[inline]
    pub(crate) fn put_segments(
        &mut self,
        number: usize,
        packet: &mut Packet,
        h: Fields,
    ) -> Result<Option<Fields>, DropReason> {
        // The route is gone with the tables that it was found in.
        let headend = self.dress.segments.headend(FIRST_SEGMENTS | number as u32);
        let headend = headend.ok_or(DropReason::NoRoute)?;
        wrap(packet, headend)?;
        self.counters.work.srv6_encapsulated.add(1);
        let (Some(kind), Some(start)) =
            (headend.mode().around(h.family()), packet.data().first_chunk())
        else {
            return Ok(None);
        };
        let outer = Fields::of_v6(*start, headend.overhead() as u16, kind);
        debug_assert_eq!(outer, wire::parse_ip(packet.data()).ok().map(|h| Fields::from(&h)));
        Ok(outer)
    }

    /// Has a packet take the step of the segment or headend that an index stands for.
    pub(crate) fn step(&mut self, view: &View, index: u32, mut packet: Packet, meta: &Meta) {
        let sid = match view.topology.segments.get(index).map(|route| &route.function) {
            Some(Function::Sid(sid)) => sid,
            Some(Function::Headend(headend)) => {
                // A whole frame: its header stands in front of the packet yet.
                let Some(start) = packet.span.start.checked_sub(HEADER_LEN) else {
                    return self.drop(packet, DropReason::OutNoRoom);
                };
                packet.span.len += HEADER_LEN;
                packet.span.start = start;
                let wrapped = wrap(&mut packet, headend);
                return keep_wrapped(self, packet, wrapped, Ingress::of_port(index));
            }
            None => return self.drop(packet, DropReason::NoRoute),
        };
        let room = sid.overhead();
        make_room(&mut packet, room);
        let Some(start) = packet.span.start.checked_sub(room) else {
            return self.drop(packet, DropReason::OutNoRoom);
        };
        packet.span.start = start;
        packet.span.len += room;
        let (cut, inner) = match sid.process(packet.data_mut()) {
            Ok(Done::Onward { cut }) => (cut, None),
            Ok(Done::Inside { cut, inner }) => (cut, Some(inner)),
            Ok(Done::Here { cut }) => {
                packet.span.start += cut;
                packet.span.len -= cut;
                self.counters.work.srv6_steps.add(1);
                return self.give_to_linux(packet);
            }
            Err(refusal) => {
                packet.span.start += room;
                packet.span.len -= room;
                let ingress = meta.ingress;
                return self.between.refused.push(RefusedStep { packet, ingress, refusal });
            }
        };
        packet.span.start += cut;
        packet.span.len -= cut;
        let counters = &self.counters.work;
        match inner {
            None => counters.srv6_steps.add(1),
            Some(_) => counters.srv6_decapsulated.add(1),
        }
        match (inner, sid.next()) {
            (Some(Inner::Ethernet), Next::Interface(ifindex)) => {
                let port = view.topology.interfaces.get(&ifindex).filter(|i| i.up);
                match port.and_then(|interface| interface.port) {
                    // An Ethernet header at least.
                    Some(slot) if packet.span.len >= HEADER_LEN => self.send(slot, packet),
                    Some(_) => self.drop(packet, DropReason::MalformedEthernet),
                    None => self.drop(packet, DropReason::TransmitDown),
                }
            }
            _ => {
                let flag = if inner.is_some() { INSIDE } else { 0 };
                let ingress = meta.ingress.within(index | flag);
                self.between.push(packet, ingress);
            }
        }
    }
}

/// ICMP error for the sender, if it gets one.
pub(crate) fn cause(refusal: &Refusal) -> Option<IcmpCause> {
    Some(match refusal.icmp()? {
        Icmp::TimeExceeded => IcmpCause::TimeExceeded,
        Icmp::Parameter { code, pointer } => IcmpCause::Parameter { code, pointer },
    })
}
