//! How several SAs protect flows, one inside the other: what their plans have no room for.
//!
//! A plan says where it stands here ([`BundleSlot`]). Flows under the same SAs share an entry. Each bundle has
//! one place; who comes later takes it, and plans that lead there find nothing, and are made anew.

use core::sync::atomic::Ordering::Relaxed;

use arrayvec::ArrayVec;
use esp::{Deflate, Sa};
use io::Packet;
use outcome::DropReason;
use policy::{MAX_BUNDLE, Reader, SaEntry, SaState, Stamp};
use wire::{Fields, Fragment};

use crate::crypt::{Exit, Lengths};
use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::features::seal::{seal_gathered, send_onward};
use crate::model::{BundleSlot, Fate, Meta, SealAll, Turn};
use crate::out::AnyOut;

/// An entry of the table.
struct FlowBundle {
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
    places: Vec<Option<FlowBundle>>,
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
                *place = Some(FlowBundle { serial: self.serial, seal: *seal, states, stamps });
                self.serial
            }
        };
        Some(BundleSlot { place: at as u32, serial })
    }

    fn kept(&self, slot: BundleSlot) -> Option<&FlowBundle> {
        let kept = self.places.get(slot.place as usize)?.as_ref()?;
        (kept.serial == slot.serial).then_some(kept)
    }
}

/// A thousand bundles of two SAs each, for what is forwarded and for the host's own.
const PLACES: usize = 4096;

impl FlowBundle {
    fn holds(&self, reader: &Reader<Sa>, packet: &Packet, h: Fields) -> bool {
        let FlowBundle { seal, states, stamps, .. } = self;
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

impl Rare for BundleSlot {
    type Kept = Bundles;

    /// The SAs are there, as they were, and below their limits, the packet is whole and short enough, and its TTL does
    /// not end here.
    #[inline(never)]
    fn holds<'k>(&'k self, bundles: &'k Bundles, asked: &Subject<'_>) -> Held<'k> {
        let Subject { reader, packet, h } = asked;
        bundles.kept(*self).is_some_and(|kept| kept.holds(reader, packet, *h)).into()
    }

    fn apply(
        &self,
        bundles: &mut Bundles,
        hands: &mut Hands<'_>,
        packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        match bundles.kept(*self) {
            Some(kept) => seal_all(hands, &kept.seal, packet, meta.summary.fields),
            None => hands.out.drop(packet, DropReason::OutStateExpired),
        }
        None
    }

    fn explains(&self, cut: Option<usize>) -> Fate {
        Fate::Protected { cut }
    }
}

/// Adds a packet to the burst that is sealed, for several SAs, one after the other. One of IPComp, which
/// comes first, compresses it here: what the others have to do hangs on what comes out.
#[inline(never)]
pub(crate) fn seal_all(hands: &mut Hands<'_>, seal: &SealAll, mut packet: Packet, mut h: Fields) {
    if hands.crypt.seals.is_full() {
        seal_gathered(hands.view, hands.turn, hands.crypt, hands.out);
    }
    let Hands { view, turn, crypt, out } = hands;
    let mut sas: ArrayVec<&SaEntry<Sa>, MAX_BUNDLE> = ArrayVec::new();
    for handle in seal.sas.as_slice() {
        match view.reader.sa(*handle) {
            // As many as a bundle has.
            Some(sa) => drop(sas.try_push(sa)),
            None => return out.drop(packet, DropReason::OutStateExpired),
        }
    }
    if seal.is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
        return out.drop(packet, DropReason::MalformedIp);
    }
    let mut handles = seal.sas.as_slice();
    let onward = seal.onward();
    sas.truncate(seal.own.into());
    if let Some(first) = sas.first().filter(|sa| sa.esp.is_ipcomp()) {
        let (deflate, _) = crypt.deflate();
        match compress(&first.esp, &mut packet, h, deflate, (view.now.wall_s, *turn)) {
            Ok(fields) => h = fields,
            Err(reason) => return out.drop(packet, reason),
        }
        sas.remove(0);
        handles = handles.get(1..).unwrap_or_default();
    }
    let of_packets: ArrayVec<&Sa, MAX_BUNDLE> = sas.iter().map(|sa| &sa.esp).collect();
    let payloads: ArrayVec<usize, MAX_BUNDLE> = match Lengths::of(&of_packets, packet.data(), h) {
        Ok(lengths) => lengths.payloads().collect(),
        Err(reason) => return out.drop(packet, reason),
    };
    // What goes on to another home has no frame yet.
    let known = seal.adjacency.as_ref().filter(|_| onward.is_none());
    let exit = known.map_or(Exit::To(&seal.to), Exit::Ready);
    let (mtu, at) = (seal.to.mtu, (view.now.wall_s, *turn));
    let mut each = handles.iter().copied().zip(sas).zip(payloads);
    let seals = &mut crypt.seals;
    match (each.next(), onward) {
        (Some((first, _)), onward) => {
            match seals.gather(packet, h, first, mtu, exit, at) {
                Ok(()) => each.for_each(|(sa, len)| seals.gather_further(sa, len, at)),
                Err((packet, reason)) => return out.drop(packet, reason),
            }
            onward.into_iter().for_each(|onward| seals.note_onward(onward));
        }
        // It is compressed, and that was all.
        (None, Some(onward)) => send_onward(view, *out, packet, onward),
        (None, None) => out.drop(packet, DropReason::OutStateExpired),
    }
}

/// Counts a packet with an SA of IPComp, and compresses it. Returns the new headers.
fn compress(
    sa: &Sa,
    packet: &mut Packet,
    h: Fields,
    deflate: &mut Deflate,
    (now_s, _turn): (u64, Turn<'_>),
) -> Result<Fields, DropReason> {
    let len = sa.payload_len(packet.data(), h)?;
    packet.span = sa.compress(packet.frame.bytes_mut(), packet.span, h, deflate)?;
    sa.live().count(len as u64, now_s);
    Ok(Fields::from(&wire::parse_ip(packet.data())?))
}
