//! Packets of a burst for captures, each with its fate.

use esp::Sa;
use io::Packet;
use outcome::Outcome;
use policy::SaEntry;

use crate::burst::Path;
use crate::capture::{Taps, of_sa};
use crate::crypt::open_batch::OpenWork;
use crate::explain::explain_arrival;
use crate::model::{Explanation, Meta, PortKind, Source};
use crate::resolve::Entry;

impl Path {
    /// Records a burst that was received.
    #[cold]
    #[inline(never)]
    pub(crate) fn tap_burst(&mut self, packets: &[Packet], metas: &[Meta], source: Source) {
        let Some(mut taps) = self.exec.out.taps.take() else { return };
        for (packet, meta) in packets.iter().zip(metas) {
            match meta.end {
                Some(Outcome::Dropped(reason)) if source.kind == PortKind::Ethernet => {
                    taps.refused(packet, source, reason);
                }
                Some(_) => {}
                None => self.tap_arrived(&mut taps, packet, meta, None),
            }
        }
        self.exec.out.taps = Some(taps);
    }

    /// Records what another worker has handed over.
    #[cold]
    #[inline(never)]
    pub(crate) fn tap_handed(&mut self, packet: &Packet, meta: &Meta, held: Option<&SaEntry<Sa>>) {
        let Some(mut taps) = self.exec.out.taps.take() else { return };
        if meta.end.is_none() {
            self.tap_arrived(&mut taps, packet, meta, held);
        }
        self.exec.out.taps = Some(taps);
    }

    fn tap_arrived(
        &self,
        taps: &mut Taps,
        packet: &Packet,
        meta: &Meta,
        held: Option<&SaEntry<Sa>>,
    ) {
        taps.arrived(&self.view, packet, meta, &|| self.explained(packet, meta, held));
    }

    /// Records what has been decrypted.
    #[cold]
    #[inline(never)]
    pub(crate) fn tap_opened(&mut self, packets: &[Packet], works: &[OpenWork], metas: &[Meta]) {
        let Some(mut taps) = self.exec.out.taps.take() else { return };
        let each = packets.iter().zip(works).zip(metas);
        for ((packet, work), meta) in each.filter(|(_, meta)| meta.end.is_none()) {
            let sa = of_sa(&self.view, work.sa);
            taps.opened(packet, meta, sa, &|| self.explained(packet, meta, None));
        }
        self.exec.out.taps = Some(taps);
    }

    /// Records a packet that was in a payload of IP-TFS.
    #[cold]
    #[inline(never)]
    pub(crate) fn tap_inner(&mut self, packet: &Packet, meta: &Meta) {
        let Some(mut taps) = self.exec.out.taps.take() else { return };
        if let Some(via) = meta.ingress.via().filter(|_| meta.end.is_none()) {
            let sa = of_sa(&self.view, via);
            taps.opened(packet, meta, sa, &|| self.explained(packet, meta, None));
        }
        self.exec.out.taps = Some(taps);
    }

    /// Explanation of the packet's fate, without an effect.
    fn explained(
        &self,
        packet: &Packet,
        meta: &Meta,
        held: Option<&SaEntry<Sa>>,
    ) -> Option<Explanation> {
        let h = wire::parse_ip(packet.data()).ok()?;
        let entry = Entry::of(&self.view, meta, held);
        Some(explain_arrival(&self.view, packet.data(), &h, entry, meta.ingress.mark))
    }
}
