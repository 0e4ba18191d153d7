//! Packets of a burst for captures, each with its fate.

use esp::Sa;
use io::Packet;
use outcome::Outcome;
use policy::SaEntry;

use crate::burst::Path;
use crate::capture::{Taps, of_sa};
use crate::crypt::open_batch::OpenWork;
use crate::explain::explain_arrival;
use crate::features::Thread;
use crate::model::{Explanation, Meta, PortKind, Source};
use crate::resolve::Entry;
use crate::view::View;

impl<O: Thread> Path<O> {
    /// Records a burst that was received.
    #[cold]
    #[inline(never)]
    pub(crate) fn tap_burst(&mut self, packets: &[Packet], metas: &[Meta], source: Source) {
        let Path { view, exec, .. } = self;
        let Some(taps) = exec.out.taps() else { return };
        for (packet, meta) in packets.iter().zip(metas) {
            match meta.end {
                Some(Outcome::Dropped(reason)) if source.kind == PortKind::Ethernet => {
                    taps.refused(packet, source, reason);
                }
                Some(_) => {}
                None => tap_arrived(taps, view, packet, meta, None),
            }
        }
    }

    /// Records what another worker has handed over.
    #[cold]
    #[inline(never)]
    pub(crate) fn tap_handed(&mut self, packet: &Packet, meta: &Meta, held: Option<&SaEntry<Sa>>) {
        let Path { view, exec, .. } = self;
        if let Some(taps) = exec.out.taps().filter(|_| meta.end.is_none()) {
            tap_arrived(taps, view, packet, meta, held);
        }
    }

    /// Records what has been decrypted.
    #[cold]
    #[inline(never)]
    pub(crate) fn tap_opened(&mut self, packets: &[Packet], works: &[OpenWork], metas: &[Meta]) {
        let Path { view, exec, .. } = self;
        let Some(taps) = exec.out.taps() else { return };
        let each = packets.iter().zip(works).zip(metas);
        for ((packet, work), meta) in each.filter(|(_, meta)| meta.end.is_none()) {
            let sa = of_sa(view, work.sa);
            taps.opened(packet, meta, sa, &|| explained(view, packet, meta, None));
        }
    }

    /// Records a packet that was in a payload of IP-TFS.
    #[cold]
    #[inline(never)]
    pub(crate) fn tap_inner(&mut self, packet: &Packet, meta: &Meta) {
        let Path { view, exec, .. } = self;
        let Some(taps) = exec.out.taps() else { return };
        if let Some(via) = meta.ingress.via().filter(|_| meta.end.is_none()) {
            let sa = of_sa(view, via);
            taps.opened(packet, meta, sa, &|| explained(view, packet, meta, None));
        }
    }
}

fn tap_arrived(
    taps: &mut Taps,
    view: &View,
    packet: &Packet,
    meta: &Meta,
    held: Option<&SaEntry<Sa>>,
) {
    taps.arrived(view, packet, meta, &|| explained(view, packet, meta, held));
}

/// Explanation of the packet's fate, without an effect.
fn explained(
    view: &View,
    packet: &Packet,
    meta: &Meta,
    held: Option<&SaEntry<Sa>>,
) -> Option<Explanation> {
    let h = wire::parse_ip(packet.data()).ok()?;
    let entry = (Entry::of(view, meta, held), view.owner(meta.ingress.is_of_other()));
    Some(explain_arrival(view, packet.data(), &h, entry, meta.ingress.mark))
}
