//! Packets that several SAs protect, one inside the other: as one SA does, of all of them.

use arrayvec::ArrayVec;
use core::net::IpAddr;
use esp::Sa;
use forward::IcmpCause;
use outcome::DropReason;
use policy::{MAX_BUNDLE, SaBundle, SaEntry};
use wire::{Fragment, Headers};

use super::fit::Fit;
use super::limits::{Limits, ends_here};
use super::route::{next_hop, onto, way_to};
use super::ways::{family_of, route, to_port};
use super::{Decision, Question, homes};
use crate::crypt::Lengths;
use crate::model::{Draft, Gather, LOOPBACK, NextHop, Notes, Origin, SealAll, Step};
use crate::view::View;

/// A packet that these SAs protect.
///
/// 1. The first SA's home; 2. their limits; 3. TTL, if it is forwarded; 4. where the outermost packet
///    goes; 5. whether it fits.
pub(super) fn protect_all<N: Notes>(
    question: &mut Question<'_, N>,
    origin: Origin,
    bundle: &SaBundle,
) -> Decision {
    let (view, h) = (question.view, question.h);
    let mut sas: ArrayVec<&SaEntry<Sa>, MAX_BUNDLE> = ArrayVec::new();
    for handle in bundle.as_slice() {
        match view.reader.sa(*handle) {
            // As many as a bundle has.
            Some(sa) => drop(sas.try_push(sa)),
            None => return Decision::Drop(DropReason::OutStateExpired),
        }
    }
    if sas.iter().any(|sa| sa.esp.is_iptfs()) {
        return Decision::Drop(DropReason::OutUnsupported);
    }
    for sa in &sas {
        question.tell(|| Step::Sa(sa.config.id()));
    }
    if let Some(home) = homes::other(view, bundle.as_slice()) {
        return Decision::Go(Draft::hand_over(home));
    }
    let limits = Limits::of(bundle.as_slice().iter().copied().zip(sas.iter().copied()));
    if let Some(end) = ends_here(question, origin, limits) {
        return end;
    }
    let is_hop = origin.is_hop();
    let is_first_transport = sas.first().is_some_and(|sa| !sa.esp.is_tunnel());
    if is_first_transport && h.fragment != Fragment::Whole {
        return Decision::Gather(Gather::Whole);
    }
    let (src, dst) = outer_ends(sas.iter().copied(), h);
    let to = match to_port(view, way_to(question, dst, src, LOOPBACK), (dst, src)) {
        Ok(to) => to,
        Err(reason) => return Decision::Drop(reason),
    };
    let has_tunnel = sas.iter().any(|sa| sa.esp.is_tunnel());
    let of_packets: ArrayVec<&Sa, MAX_BUNDLE> = sas.iter().map(|sa| &sa.esp).collect();
    let fit = match Lengths::of(&of_packets, question.packet, h.into()) {
        Ok(lengths) => {
            question.tell(|| Step::size(h, Some(lengths.sealed_len()), to.mtu));
            Fit::decide_all(&lengths, has_tunnel, h, to.mtu)
        }
        Err(reason) => return Decision::Drop(reason),
    };
    if let Fit::TooBig { mtu } = fit {
        let cause = IcmpCause::TooBig { mtu: mtu as u32 };
        return Decision::Error(cause, DropReason::OutTooBig, origin);
    }
    let to = onto(question, origin, to);
    let known = next_hop(question, to, family_of(dst)).filter(|_| fit == Fit::Whole);
    Decision::SealAll(SealAll {
        sas: *bundle,
        own: bundle.as_slice().len() as u8,
        adjacency: known,
        to,
        cut: if let Fit::CutBefore { mtu } = fit { Some(mtu) } else { None },
        is_hop,
    })
}

/// Where the outermost packet goes under the SAs that are left.
pub(crate) fn next_hop_of_all<'s>(
    view: &View,
    sas: impl DoubleEndedIterator<Item = &'s SaEntry<Sa>>,
    h: &Headers,
) -> Result<NextHop, DropReason> {
    let (src, dst) = outer_ends(sas, h);
    to_port(view, route(view, dst, src, LOOPBACK), (dst, src))
}

/// Source and destination of the outermost packet.
fn outer_ends<'s>(
    sas: impl DoubleEndedIterator<Item = &'s SaEntry<Sa>>,
    h: &Headers,
) -> (IpAddr, IpAddr) {
    let tunnel = sas.map(|sa| &sa.config.params).rfind(|params| params.mode.is_tunnel());
    tunnel.map_or((h.src, h.dst), |params| (params.src, params.dst))
}
