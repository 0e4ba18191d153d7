//! The writer's half of the SAD: which slot an SA gets, and the two indexes that lead to it.

use std::sync::Arc;

use crate::feed::{Change, SaChange};
use crate::hash::{Seeds, Tag};
use crate::model::SaConfig;
use crate::publisher::Publisher;
use crate::reclaim::Reclaim;
use crate::sa_entry::SaEntry;
use crate::sa_slot::SaSlot;
use crate::slots::Slots;
use crate::table::Index;
use crate::view::SaHandle;

/// An SA that the indexes have to forget.
#[derive(Debug)]
struct Leaving {
    slot: u32,
    inbound: Tag,
    outbound: Tag,
}

/// Indexes and slots of all SAs.
pub(crate) struct Sad {
    inbound: Index,
    outbound: Index,
    reclaim: Reclaim<Leaving>,
    /// Generation of the last use of a slot.
    generation: u32,
    count: usize,
}

impl Sad {
    pub(crate) fn new() -> Sad {
        Sad {
            inbound: Index::new(),
            outbound: Index::new(),
            reclaim: Reclaim::new(),
            generation: 0,
            count: 0,
        }
    }

    pub(crate) fn inbound(&self) -> &Index {
        &self.inbound
    }

    pub(crate) fn outbound(&self) -> &Index {
        &self.outbound
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Puts an SA in, in the place of `old`, if that is given. One change for readers.
    pub(crate) fn put<S>(
        &mut self,
        out: &mut Publisher<S>,
        old: Option<(SaHandle, &SaEntry<S>)>,
        entry: &Arc<SaEntry<S>>,
    ) {
        self.collect(out);
        self.generation = self.generation.wrapping_add(1);
        let new = SaSlot::new(Arc::clone(entry), self.generation);
        let outbound = outbound_tag(&out.view().seeds, &entry.config);
        if let Some((handle, old)) = old {
            let is_same_place = age(&old.config) == age(&entry.config)
                && outbound_tag(&out.view().seeds, &old.config) == outbound;
            if is_same_place {
                let insert = Some((handle.slot(), outbound, new));
                return out
                    .publish(|| Change::Sa(SaChange { remove: None, insert: insert.clone() }));
            }
        } else {
            self.count += 1;
        }
        let slot = self.reclaim.take();
        if slot as usize >= out.view().sas.len() {
            out.publish(|| Change::SaRoom(Slots::piece()));
        }
        let view = out.view();
        let inbound = inbound_tag(&view.seeds, &entry.config);
        // Youngest first; of the same age the one that came last.
        let goes_before = |other: u32| {
            let other = view.sas.get(other)?.entry.as_ref()?;
            Some(age(&other.config) > age(&entry.config))
        };
        view.inbound_links.reserve(slot);
        view.outbound_links.reserve(slot);
        let is_new_inbound = self.inbound.link(&view.inbound_links, inbound, slot, goes_before);
        let is_new_outbound = self.outbound.link(&view.outbound_links, outbound, slot, goes_before);
        if is_new_inbound {
            out.publish(|| Change::Inbound(Arc::clone(self.inbound.table())));
        }
        if is_new_outbound {
            out.publish(|| Change::Outbound(Arc::clone(self.outbound.table())));
        }
        let remove = old.map(|(handle, old)| self.leaving(out, handle, old));
        let insert = Some((slot, outbound, new));
        out.publish(|| Change::Sa(SaChange { remove, insert: insert.clone() }));
    }

    /// Takes an SA out.
    pub(crate) fn remove<S>(&mut self, out: &mut Publisher<S>, handle: SaHandle, old: &SaEntry<S>) {
        self.collect(out);
        self.count -= 1;
        let remove = Some(self.leaving(out, handle, old));
        out.publish(|| Change::Sa(SaChange { remove, insert: None }));
    }

    /// Notes an SA that the next change removes.
    fn leaving<S>(&mut self, out: &Publisher<S>, handle: SaHandle, old: &SaEntry<S>) -> (u32, Tag) {
        let seeds = &out.view().seeds;
        let slot = handle.slot();
        let outbound = outbound_tag(seeds, &old.config);
        let inbound = inbound_tag(seeds, &old.config);
        self.reclaim.leave(out.next(), Leaving { slot, inbound, outbound });
        (slot, outbound)
    }

    /// Forgets what no reader's view holds any more.
    fn collect<S>(&mut self, out: &mut Publisher<S>) {
        if !self.reclaim.is_waiting() {
            return;
        }
        let (taken, next) = (out.taken(), out.next());
        let view = out.view();
        self.reclaim.settle(taken);
        for _ in 0..AT_ONCE {
            let Some(Leaving { slot, inbound, outbound }) = self.reclaim.left(taken) else { break };
            self.inbound.unlink(&view.inbound_links, inbound, slot);
            self.outbound.unlink(&view.outbound_links, outbound, slot);
            self.reclaim.rest(next, slot);
        }
    }
}

fn inbound_tag(seeds: &Seeds, config: &SaConfig) -> Tag {
    let id = config.id();
    seeds.inbound(id.dst, id.spi, id.protocol)
}

fn outbound_tag(seeds: &Seeds, config: &SaConfig) -> Tag {
    seeds.outbound(config.params.dst, config.reqid, config.if_id)
}

fn age(config: &SaConfig) -> (u64, u64) {
    (config.added_s, config.generation)
}

/// SAs that a change forgets at most: a change stays short, and more leave than come.
const AT_ONCE: usize = 4;
