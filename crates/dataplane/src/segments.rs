//! SRv6: routes with segments, the segments of this node, and packets between two steps.
//!
//! ```text
//!   route with segments ── a slot as of a port ── wrap ──┬─> what is done to all of this headend
//!                                                        └─┐
//!   destination is a segment of this node ── step ─────────┼─> resumed ─ classify ─ flows ─> ...
//!                                                          └─> refused ─ ICMP error
//! ```
//!
//! In the FIB such a route leads out of an interface that no link is: an index from [`FIRST_SEGMENTS`] on, which
//! says where its function stands in [`Segments`]. A headend has a slot behind those of ports and VLANs: what is
//! sent there, forwarded or sealed, gets its segments. What leaves a step is a packet of its own, which came in by
//! that index: it is looked for in the flow cache, judged and routed as any other. All that one headend makes of
//! packets of a family is one flow: its plan is found without a look ([`crate::flows::headends`]).

use core::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use forward::{IcmpCause, RouteResult};
use io::{MIN_HEADROOM, Packet};
use outcome::DropReason;
use srv6::{Behaviour, Done, Fault, Headend, Icmp, Inner, Next, Refusal, Sid};
use wire::ethernet::HEADER_LEN;
use wire::{Family, Fields, ipv6, protocol};

use crate::model::{
    FIRST_SEGMENTS, FIRST_SEGMENTS_SLOT, INSIDE, Ingress, LOOPBACK, MAX_SEGMENT_ROUTES, Made, Meta,
    Refused, TAILROOM,
};
use crate::out::Out;
use crate::tables::Topology;
use crate::view::View;

/// What a route does with packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Function {
    /// They get segments.
    Headend(Headend),
    /// They are at a segment of this node.
    Sid(Sid),
}

/// A route with segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRoute {
    /// What it does with packets.
    pub function: Function,
    /// The interface that Linux has for it.
    pub ifindex: u32,
}

/// The functions of routes, by their indices less [`FIRST_SEGMENTS`].
#[derive(Clone, Debug, Default)]
pub struct Segments {
    routes: Arc<[Option<SegmentRoute>]>,
    /// Interfaces inside the domain.
    domain: Arc<[u32]>,
    /// Decrypted packets are inside the domain, whatever their SA.
    trusts_sas: bool,
}

impl FromIterator<Option<SegmentRoute>> for Segments {
    fn from_iter<T: IntoIterator<Item = Option<SegmentRoute>>>(routes: T) -> Segments {
        let routes = routes.into_iter().take(MAX_SEGMENT_ROUTES).collect();
        Segments { routes, ..Segments::default() }
    }
}

impl Segments {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// With these interfaces inside the domain. Packets of all others may not be for a segment (RFC 8754 §5.1).
    #[must_use]
    pub fn with_domain(self, domain: impl IntoIterator<Item = u32>) -> Segments {
        Segments { domain: domain.into_iter().collect(), ..self }
    }

    /// With all that SAs decrypt inside the domain, or with none of it but that of tunnel interfaces.
    #[must_use]
    pub fn with_sas(self, trusts_sas: bool) -> Segments {
        Segments { trusts_sas, ..self }
    }

    /// Whether an interface is inside the domain.
    pub(crate) fn is_inside(&self, ifindex: u32) -> bool {
        self.domain.contains(&ifindex)
    }

    /// Whether decrypted packets are inside the domain, whatever their SA.
    pub(crate) fn trusts_sas(&self) -> bool {
        self.trusts_sas
    }

    /// The route that an index stands for.
    pub fn get(&self, index: u32) -> Option<&SegmentRoute> {
        let at = index.checked_sub(FIRST_SEGMENTS)? & !INSIDE;
        self.routes.get(at as usize)?.as_ref()
    }

    /// The segment of this node that an index stands for.
    pub(crate) fn sid(&self, index: u32) -> Option<&Sid> {
        match &self.get(index)?.function {
            Function::Sid(sid) => Some(sid),
            Function::Headend(_) => None,
        }
    }

    /// The headend that an index stands for.
    pub(crate) fn headend(&self, index: u32) -> Option<&Headend> {
        match &self.get(index)?.function {
            Function::Headend(headend) => Some(headend),
            Function::Sid(_) => None,
        }
    }

    /// All headends, those of binding segments among them.
    pub fn headends(&self) -> impl Iterator<Item = &Headend> {
        self.routes.iter().flatten().filter_map(|route| match &route.function {
            Function::Headend(headend) => Some(headend),
            Function::Sid(Sid { behaviour: Behaviour::EndB6Encaps(headend), .. }) => Some(headend),
            Function::Sid(_) => None,
        })
    }

    /// Which headend has made a packet, if all that it makes of one family are one flow.
    pub(crate) fn made(&self, meta: &Meta) -> Option<Made> {
        let index = meta.ingress.ifindex;
        let mode = self.headend(index)?.mode();
        let inner = match meta.summary.fields.protocol() {
            protocol::IPV4 => Family::V4,
            protocol::IPV6 => Family::V6,
            _ => return None,
        };
        let is_one = mode.around(inner).is_some() && meta.ingress == Ingress::of_port(index);
        is_one.then_some(Made { number: (index & !FIRST_SEGMENTS) as usize, inner })
    }

    /// The slot to which packets for a headend are sent.
    pub(crate) fn slot(&self, index: u32) -> Option<u16> {
        self.headend(index).filter(|headend| !headend.mode().is_layer2())?;
        u16::try_from((index - FIRST_SEGMENTS) as usize + FIRST_SEGMENTS_SLOT).ok()
    }
}

impl Out {
    /// Puts the segments of a headend on a packet that was sent to its slot: its span is that of a frame.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_to_segments(&mut self, slot: usize, mut packet: Packet) {
        packet.span.start += HEADER_LEN;
        packet.span.len = packet.span.len.saturating_sub(HEADER_LEN);
        let number = slot.saturating_sub(FIRST_SEGMENTS_SLOT);
        let index = FIRST_SEGMENTS | number as u32;
        let wrapped = match self.segments.headend(index) {
            Some(headend) => wrap(&mut packet, headend),
            // The route is gone with the tables that it was found in.
            None => Err(DropReason::NoRoute),
        };
        self.wrapped(packet, wrapped, Ingress::of_port(index));
    }

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
        let headend = self.segments.headend(FIRST_SEGMENTS | number as u32);
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

    /// A packet that has got segments, or why it has not.
    fn wrapped(&mut self, packet: Packet, wrapped: Result<(), DropReason>, ingress: Ingress) {
        match wrapped {
            Ok(()) => {
                self.counters.work.srv6_encapsulated.add(1);
                match &mut self.batch {
                    Some(batch) => batch.step(packet, ingress),
                    None => self.between.push_wrapped(packet, ingress),
                }
            }
            Err(reason) => self.drop(packet, reason),
        }
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
                return self.wrapped(packet, wrapped, Ingress::of_port(index));
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
                return self.between.refused.push(Refused { packet, ingress, refusal });
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

/// Sees to room for headers in front of a packet, and for IPsec around them, where its frame has as much.
#[inline]
fn make_room(packet: &mut Packet, overhead: usize) {
    packet.make_room(overhead + MIN_HEADROOM, TAILROOM);
}

/// Puts segments on a packet.
fn wrap(packet: &mut Packet, headend: &Headend) -> Result<(), DropReason> {
    let overhead = headend.overhead();
    make_room(packet, overhead);
    packet.span.start = packet.span.start.checked_sub(overhead).ok_or(DropReason::OutNoRoom)?;
    packet.span.len += overhead;
    headend.apply(packet.data_mut()).map_err(|refusal| reason(refusal.fault))
}

/// The reason for which a packet is dropped.
pub(crate) const fn reason(fault: Fault) -> DropReason {
    match fault {
        Fault::Malformed => DropReason::Srv6Malformed,
        Fault::SegmentsLeft => DropReason::Srv6SegmentsLeft,
        Fault::UpperLayer => DropReason::Srv6UpperLayer,
        Fault::HopLimit => DropReason::TtlExceeded,
        Fault::Hmac => DropReason::Srv6Hmac,
        Fault::Fragment => DropReason::Srv6Fragment,
        Fault::NoRoom => DropReason::OutNoRoom,
    }
}

/// What its sender is told.
pub(crate) fn cause(refusal: &Refusal) -> Option<IcmpCause> {
    Some(match refusal.icmp()? {
        Icmp::TimeExceeded => IcmpCause::TimeExceeded,
        Icmp::Parameter { code, pointer } => IcmpCause::Parameter { code, pointer },
    })
}

/// Headends behind each other that are looked through for an MTU.
const DEEPEST: usize = 3;

impl View {
    /// The longest packet of a family that fits once a headend has put its segments on it, in bytes; `outer` says
    /// what fits of packets that policy protects.
    ///
    /// What routers have reported of the path counts. Of IPv6 it does not go below 1280 bytes, which no sender goes
    /// below either (RFC 2473 §7.1): a report would be the end of all longer packets, and anybody's may be forged.
    pub(crate) fn fits_headend(
        &self,
        headend: &Headend,
        family: Family,
        outer: impl Fn(&View, &Headend) -> Option<usize>,
    ) -> usize {
        let mut overhead = headend.overhead();
        let mut last = headend;
        for _ in 0..DEEPEST {
            let (dst, src) = (IpAddr::V6(last.first()), IpAddr::V6(last.source()));
            let route = self.topology.fib.lookup(dst, src, 0, LOOPBACK);
            let RouteResult::Unicast { ifindex, mtu, .. } = route else { break };
            if let Some(next) = self.topology.segments.headend(ifindex) {
                overhead += next.overhead();
                last = next;
                continue;
            }
            let Some(interface) = self.topology.interfaces.get(&ifindex) else { break };
            let link = mtu.unwrap_or(interface.mtu).min(interface.mtu) as usize;
            let link = outer(self, last).unwrap_or_else(|| self.path_mtus.of(dst, link));
            let (segments, list_len) = (last.segments(), last.srh_len());
            let through = self.path_mtus.through(segments, list_len, |at| last.ends_at(at), link);
            // The errors about what is put into packets are for the senders of those.
            let path = if last.mode().is_inline() { link } else { through };
            let fits = path.saturating_sub(overhead);
            return match family {
                Family::V4 => fits,
                Family::V6 => fits.max(link.saturating_sub(overhead).min(ipv6::MIN_MTU.into())),
            };
        }
        usize::from(u16::MAX).saturating_sub(overhead)
    }
}

impl Topology {
    /// Where a packet goes on that left a step, as its segment says; none if as the rules say.
    pub(crate) fn lookup_stepped(&self, index: u32, dst: IpAddr, src: IpAddr) -> Option<Onward> {
        let route = self.segments.get(index)?;
        let Function::Sid(sid) = &route.function else { return None };
        match sid.next() {
            Next::Lookup | Next::Interface(_) => None,
            Next::Table(table) => Some(Onward::Route(self.fib.lookup_in(table, dst, src))),
            Next::Via(via) => Some(Onward::Via { via, ifindex: route.ifindex }),
        }
    }
}

/// Where a packet goes on that left a step.
pub(crate) enum Onward {
    /// By this route.
    Route(RouteResult),
    /// To this next hop; out of this interface, if it is known there alone.
    Via {
        /// The next hop.
        via: IpAddr,
        /// The interface.
        ifindex: u32,
    },
}

/// The outer addresses of what a headend makes.
pub(crate) fn ends(headend: &Headend) -> (Ipv6Addr, Ipv6Addr) {
    (headend.source(), headend.first())
}
