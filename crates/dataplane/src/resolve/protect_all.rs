//! Packets that several SAs protect, one inside the other: as one SA does, of all of them.

use core::sync::atomic::Ordering::Relaxed;

use arrayvec::ArrayVec;
use dispatch::Home;
use esp::{Mode, Sa};
use forward::IcmpCause;
use outcome::DropReason;
use policy::{MAX_BUNDLE, SaBundle, SaEntry, Volume};
use wire::Fragment;

use super::fit::Fit;
use super::route::family_of;
use super::step::Step;
use super::{Decision, Draft, NextHop, Question, Route, SealAll};
use crate::crypt::Lengths;
use crate::fragments::Gather;
use crate::packets::Origin;
use crate::view::LOOPBACK;

impl Question<'_> {
    /// A packet that these SAs protect.
    ///
    /// 1. The SAs' home, one for all; 2. their limits; 3. TTL, if it is forwarded; 4. where the outermost
    ///    packet goes; 5. whether it fits.
    pub(super) fn protect_all(&mut self, origin: Origin, bundle: &SaBundle) -> Decision {
        let (view, h) = (self.view, self.h);
        let mut sas: ArrayVec<&SaEntry<Sa>, MAX_BUNDLE> = ArrayVec::new();
        for handle in bundle.as_slice() {
            match view.reader.sa(*handle) {
                // As many as a bundle has.
                Some(sa) => drop(sas.try_push(sa)),
                None => return Decision::Drop(DropReason::OutStateExpired),
            }
        }
        for sa in &sas {
            self.tell(|| Step::Sa(sa.config.id()));
        }
        let mut homes = sas.iter().map(|sa| sa.home().at()).filter(|home| *home != Home::WORKERS);
        if let Some(home) = homes.next() {
            // An SA that is of other bundles too may have come to another worker with one of those.
            if homes.any(|other| other != home) {
                return Decision::Drop(DropReason::OutHomes);
            }
            if home != view.worker.get() {
                return Decision::Go(Draft::hand_over(home));
            }
        }
        for (sa, handle) in sas.iter().zip(bundle.as_slice()) {
            let live = sa.esp.live();
            let volume = sa.volume(live.bytes().load(Relaxed), live.packets().load(Relaxed));
            if matches!(volume, Volume::SoftReached | Volume::HardReached) {
                self.at_limit.get_or_insert(*handle);
            }
            if matches!(volume, Volume::HardReached | Volume::Unusable) {
                return Decision::Drop(DropReason::OutStateExpired);
            }
        }
        let is_hop = origin.is_hop();
        if is_hop && h.ttl <= 1 {
            let cause = IcmpCause::TimeExceeded;
            return Decision::Error(cause, DropReason::TtlExceeded, origin);
        }
        let is_first_transport = sas.first().is_some_and(|sa| !sa.esp.is_tunnel());
        if is_first_transport && h.fragment != Fragment::Whole {
            return Decision::Gather(Gather::Whole);
        }
        let tunnel = sas.iter().map(|sa| &sa.config.params).rfind(|p| p.mode == Mode::Tunnel);
        let (src, dst) = tunnel.map_or((h.src, h.dst), |params| (params.src, params.dst));
        let to = match self.way(dst, src, LOOPBACK) {
            Route::Port(to) => NextHop { mtu: view.path_mtus.of(dst, to.mtu), ..to },
            // A peer behind a tunnel would be one tunnel in another, without end.
            Route::Linux | Route::Local | Route::Tunnel(_) => {
                return Decision::Drop(DropReason::EgressNotPort);
            }
            Route::Nowhere(reason, _) => return Decision::Drop(reason),
        };
        let of_packets: ArrayVec<&Sa, MAX_BUNDLE> = sas.iter().map(|sa| &sa.esp).collect();
        let fit = match Lengths::of(&of_packets, self.packet, h.into()) {
            Ok(lengths) => {
                self.tell(|| Step::size(h, Some(lengths.sealed_len()), to.mtu));
                Fit::decide_all(&lengths, tunnel.is_some(), h, to.mtu)
            }
            Err(reason) => return Decision::Drop(reason),
        };
        if let Fit::TooBig { mtu } = fit {
            let cause = IcmpCause::TooBig { mtu: mtu as u32 };
            return Decision::Error(cause, DropReason::OutTooBig, origin);
        }
        let known = self.next_hop(to, family_of(dst)).filter(|_| fit == Fit::Whole);
        Decision::SealAll(SealAll {
            sas: *bundle,
            adjacency: known.unwrap_or_default(),
            to: known.is_none().then_some(to),
            mtu: to.mtu,
            cut: if let Fit::CutBefore { mtu } = fit { Some(mtu) } else { None },
            is_hop,
        })
    }
}
