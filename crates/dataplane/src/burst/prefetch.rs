//! Many SAs: what a burst will touch is prefetched, a level at a time.
//!
//! With a few SAs everything about them is in the first-level cache. With a hundred thousand
//! nothing is: a packet then touches some twenty lines that lie in memory, each found by way of the
//! one before (flow, SA, numbers, keys). One packet alone would wait for each; here all packets of
//! the burst wait for a level together.
//!
//! All of that does not stay in the first-level cache while the burst before is encrypted, so it is
//! prefetched into the second-level cache, and before each pass what that reads is prefetched again
//! into the first, a few packets ahead.
//!
//! The passes cost a few cycles a packet, so they are taken only while bursts are spread over many
//! SAs.

use core::net::IpAddr;

use esp::Sa;
use io::Packet;
use mem::Cache;
use policy::{SaEntry, SaIndex};
use wire::{Summary, protocol};

use crate::burst::Path;
use crate::crypt::open_batch::OpenWork;
use crate::features::Thread;
use crate::model::{Action, FlowHint, Meta, Metas};

impl<O: Thread> Path<O> {
    /// The cache that a whole burst's lines are prefetched into.
    #[inline(always)]
    pub(crate) fn bulk_cache(&self) -> Cache {
        if self.exec.crypt.is_spread { Cache::Second } else { Cache::First }
    }

    /// Prefetches what the third pass will touch.
    #[inline(never)]
    pub(crate) fn prefetch_burst(&self, packets: &[Packet], metas: &mut Metas) {
        let reader = &self.view.reader;
        // 1. By the flow's plan: policies and the SA's slot. ESP: the index's entry.
        for (packet, meta) in packets.iter().zip(metas.iter_mut()) {
            (meta.tag, meta.sa) = (None, None);
            if meta.end.is_some() {
                continue;
            }
            if !meta.is_own_esp {
                meta.sa = meta.place.and_then(|place| self.prefetch_by_plan(Cache::Second, place));
            } else if let Some((dst, spi)) = own_esp_ends(packet, meta) {
                let tag = reader.inbound_tag(dst, spi, protocol::ESP);
                reader.prefetch_inbound(Cache::Second, tag);
                meta.tag = Some(tag);
            }
        }
        // 2. ESP: the SA's slot.
        for meta in metas.iter_mut() {
            let Some(tag) = meta.tag else { continue };
            meta.sa = reader.inbound_index(tag);
            if let Some(sa_index) = meta.sa {
                reader.prefetch_sa_slot(Cache::Second, sa_index);
            }
        }
        // 3. The SA. ESP: the plan of the flow that the packet is probably of.
        self.each_sa(metas, |meta, sa_index, sa| {
            sa.prefetch(Cache::Second);
            match meta.is_own_esp {
                true => {
                    sa.esp.prefetch_to_open(Cache::Second);
                    if let Some(place) = FlowHint::from_note(reader.note_at(sa_index)).place() {
                        self.flows.prefetch_at(Cache::Second, place);
                    }
                }
                false => sa.esp.prefetch_to_seal(Cache::Second),
            }
        });
        // 4. Its numbers, and the page that its keys are on. The engine prefetches the keys.
        self.each_sa(metas, |_, _, sa| {
            sa.esp.prefetch_numbers(Cache::Second);
            sa.esp.session().prefetch_end(Cache::Second);
        });
    }

    /// Prefetches once more, just before it is needed, a packet's plan and SA.
    #[inline(always)]
    pub(crate) fn prefetch_again(&self, meta: &Meta) {
        if let Some(place) = meta.place.filter(|_| !meta.is_own_esp) {
            self.flows.prefetch_at(Cache::First, place);
        }
        if let Some(sa) = meta.sa.and_then(|sa_index| self.view.reader.sa_at(sa_index)) {
            sa.prefetch(Cache::First);
            sa.esp.prefetch_numbers(Cache::First);
        }
    }

    /// The same for the counters of the plan's policies, once the plan itself is near.
    #[inline(always)]
    pub(crate) fn prefetch_counters(&self, meta: &Meta) {
        if let Some(plan) = meta.place.and_then(|place| self.flows.peek(place)) {
            plan.counters().for_each(|counters| counters.prefetch(Cache::First));
            if let Action::Limit(slot) = plan.action {
                self.exec.rooms.rates.prefetch_lane(Cache::First, slot);
            }
        }
    }

    /// The same for what a packet that was decrypted is accepted by.
    #[inline(always)]
    pub(crate) fn prefetch_accept(&self, work: &OpenWork) {
        if let Some(place) = work.hint.place() {
            self.flows.prefetch_at(Cache::First, place);
        }
        if let Some(sa) = self.view.reader.sa(work.sa) {
            sa.prefetch(Cache::First);
            sa.esp.prefetch_numbers(Cache::First);
            sa.esp.replay().prefetch(work.opening.seq);
        }
    }

    /// Prefetches the policies' counters of the plans that were found, and notes the flows for the
    /// SAs' next packets.
    pub(crate) fn note_hints(&self, metas: &Metas, works: &[OpenWork]) {
        for (meta, work) in metas.iter().zip(works) {
            let Some(place) = meta.place.filter(|_| meta.end.is_none()) else { continue };
            if meta.is_sought {
                self.prefetch_by_plan(Cache::First, place);
            }
            let hint = work.hint.learn(place);
            if hint != work.hint {
                self.view.reader.set_note(work.sa, hint.note());
            }
        }
    }

    /// Prefetches the policies' counters of the plan at a place, and the slot of the SA that seals
    /// the flow's packets.
    #[inline]
    pub(crate) fn prefetch_by_plan(&self, cache: Cache, place: u32) -> Option<SaIndex> {
        let plan = self.flows.peek(place)?;
        plan.counters().for_each(|counters| counters.prefetch(cache));
        let seal = match &plan.action {
            Action::Seal(seal) => seal,
            Action::Limit(slot) => {
                self.exec.rooms.rates.prefetch(cache, *slot);
                return None;
            }
            _ => return None,
        };
        let sa_index = seal.sa.index();
        self.view.reader.prefetch_sa_slot(cache, sa_index);
        Some(sa_index)
    }

    fn each_sa(&self, metas: &Metas, prefetch: impl Fn(&Meta, SaIndex, &SaEntry<Sa>)) {
        for meta in metas.iter() {
            if let Some(sa_index) = meta.sa
                && let Some(sa) = self.view.reader.sa_at(sa_index)
            {
                prefetch(meta, sa_index, sa);
            }
        }
    }
}

/// Destination and SPI of a packet of bare ESP.
#[inline]
fn own_esp_ends(packet: &Packet, meta: &Meta) -> Option<(IpAddr, u32)> {
    let Summary { flow, fields } = &meta.summary;
    let spi = packet.data().get(usize::from(fields.header_len())..)?.first_chunk()?;
    Some((flow.dst(), u32::from_be_bytes(*spi)))
}
