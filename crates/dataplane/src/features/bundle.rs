//! How several SAs protect flows, one inside the other: what their plans have no room for.
//!
//! A plan says where it stands here ([`BundleSlot`]). Flows under the same SAs share an entry. Each bundle has
//! one place; who comes later takes it, and plans that lead there find nothing, and are made anew.

use core::sync::atomic::Ordering::Relaxed;

use arrayvec::ArrayVec;
use esp::Sa;
use io::Packet;
use policy::{MAX_BUNDLE, Reader, SaEntry, SaState, Stamp};
use wire::{Fields, Fragment};

use crate::crypt::Lengths;
use crate::model::{BundleSlot, SealAll};

/// An entry.
struct Kept {
    serial: u32,
    seal: SealAll,
    /// The SAs' states when they were chosen: in another one, others may be better.
    states: ArrayVec<SaState, MAX_BUNDLE>,
    /// Which others there were for the templates: the plan's own stamps cover the first template alone, which
    /// may be of IPComp that is left out.
    stamps: ArrayVec<Stamp, MAX_BUNDLE>,
}

/// The entries of one thread. They take memory with the first one.
#[derive(Default)]
pub(crate) struct Bundles {
    places: Vec<Option<Kept>>,
    serial: u32,
}

impl Bundles {
    /// Keeps a decision whose next hop is known; none if its SAs are gone.
    pub(crate) fn keep(&mut self, seal: &SealAll, reader: &Reader<Sa>) -> Option<BundleSlot> {
        let sas = seal.sas.as_slice();
        let found: ArrayVec<&SaEntry<Sa>, MAX_BUNDLE> =
            sas.iter().filter_map(|sa| reader.sa(*sa)).collect();
        let states: ArrayVec<SaState, MAX_BUNDLE> = found.iter().map(|sa| sa.state()).collect();
        let stamps: ArrayVec<Stamp, MAX_BUNDLE> =
            found.iter().map(|sa| reader.stamp_of_sa(sa)).collect();
        // One that goes on to another home is rare, and decided about anew each time.
        let is_whole = usize::from(seal.own) == sas.len();
        if states.len() != sas.len() || seal.adjacency.is_none() || seal.cut.is_some() || !is_whole
        {
            return None;
        }
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || None);
        }
        // SAs have their slots, in the upper half, one behind the other; forwarded flows another place than the host's.
        let slot = (sas.first()?.word().get() >> 32) as usize;
        let at = (2 * slot + usize::from(seal.is_hop)) % PLACES;
        let place = self.places.get_mut(at)?;
        let serial = match place {
            Some(kept) if kept.seal == *seal && kept.states == states && kept.stamps == stamps => {
                kept.serial
            }
            _ => {
                self.serial = self.serial.wrapping_add(1);
                *place = Some(Kept { serial: self.serial, seal: *seal, states, stamps });
                self.serial
            }
        };
        Some(BundleSlot { place: at as u32, serial })
    }

    fn kept(&self, slot: BundleSlot) -> Option<&Kept> {
        let kept = self.places.get(slot.place as usize)?.as_ref()?;
        (kept.serial == slot.serial).then_some(kept)
    }

    /// What is done to the packets of a plan that leads here.
    pub(crate) fn get(&self, slot: BundleSlot) -> Option<&SealAll> {
        self.kept(slot).map(|kept| &kept.seal)
    }

    /// Whether that holds for a packet: the SAs are there, as they were, and below their limits, the packet is
    /// whole and short enough, and its TTL does not end here.
    #[inline(never)]
    pub(crate) fn holds(
        &self,
        reader: &Reader<Sa>,
        slot: BundleSlot,
        packet: &Packet,
        h: Fields,
    ) -> bool {
        let Some(Kept { seal, states, stamps, .. }) = self.kept(slot) else { return false };
        let handles = seal.sas.as_slice();
        let found = handles.iter().filter_map(|sa| reader.sa(*sa));
        let sas: ArrayVec<&SaEntry<Sa>, MAX_BUNDLE> = found.collect();
        let are_good = sas.len() == states.len()
            && sas.iter().zip(states).all(|(sa, state)| {
                let live = sa.esp.live();
                sa.state() == *state
                    && sa.is_below_alarms(live.bytes().load(Relaxed), live.packets().load(Relaxed))
            });
        let are_best = stamps.iter().all(|stamp| reader.holds(*stamp));
        if !are_good || !are_best || h.fragment() != Fragment::Whole || seal.is_hop && h.ttl() <= 1
        {
            return false;
        }
        let of_packets: ArrayVec<&Sa, MAX_BUNDLE> = sas.iter().map(|sa| &sa.esp).collect();
        Lengths::of(&of_packets, packet.data(), h)
            .is_ok_and(|lengths| lengths.sealed_len() <= seal.to.mtu)
    }
}

/// A thousand bundles of two SAs each, for what is forwarded and for the host's own.
const PLACES: usize = 4096;
