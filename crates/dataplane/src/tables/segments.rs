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
//! packets of a family is one flow: its plan is found without a look ([`crate::features::segments::headends`]).

use core::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use forward::RouteResult;
use srv6::{Behaviour, Headend, Sid};
use wire::{Family, protocol};

use crate::model::{
    FIRST_SEGMENTS, FIRST_SEGMENTS_SLOT, INSIDE, Ingress, MAX_SEGMENT_ROUTES, Made, Meta,
};

/// Effect of a segment route on packets.
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
    /// Effect on the packets.
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
    /// True if there are no segment routes.
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

    /// True if an interface is inside the domain.
    pub(crate) fn is_inside(&self, ifindex: u32) -> bool {
        self.domain.contains(&ifindex)
    }

    /// True if decrypted packets are inside the domain, by any SA.
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

/// Where a packet goes on that left a step.
pub(crate) enum Onward {
    /// By this route.
    Route(RouteResult),
    /// To this next hop; out of this interface, if it is known there alone.
    Via {
        /// The next hop.
        via: IpAddr,
        /// Index of the interface.
        ifindex: u32,
    },
}

/// The outer addresses of what a headend makes.
pub(crate) fn ends(headend: &Headend) -> (Ipv6Addr, Ipv6Addr) {
    (headend.source(), headend.first())
}
