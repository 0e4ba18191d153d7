//! The first pass: what each packet of a burst is.

mod addresses;
mod ethernet;

use io::Burst;
use wire::{FlowKey, protocol};

use crate::burst::Path;
use crate::model::{Meta, Metas, PortKind, Source, prefetch_headers};
use addresses::KnownAddresses;

/// Distance of the first pass's prefetch, in packets.
const AHEAD: usize = 8;

/// Addresses of packets lately, whose classification is remembered for an epoch of the tables.
pub(crate) struct Addresses {
    /// Addresses of this host, whatever rule applies, that ESP comes to.
    own: KnownAddresses,
    /// Addresses that packets to this host may come from.
    sources: KnownAddresses,
}

impl Addresses {
    pub(crate) const fn new() -> Addresses {
        Addresses { own: KnownAddresses::new(), sources: KnownAddresses::new() }
    }

    /// Routes or addresses have changed.
    pub(crate) fn forget(&mut self) {
        self.own.forget();
        self.sources.forget();
    }

    /// Notes that ESP to the flow's destination is this host's, whatever rule applies.
    pub(crate) fn learn_own(&mut self, flow: &FlowKey) {
        self.own.learn(flow.dst_words());
    }

    /// True if a packet is ESP, bare, from a port, to an address that is this host's for every
    /// packet. It needs no plan.
    #[inline(always)]
    pub(crate) fn is_own_esp(&self, meta: &Meta) -> bool {
        meta.summary.fields.protocol() == protocol::ESP
            && meta.has_flow
            && meta.ingress.ifindex != 0
            && !meta.ingress.is_decrypted()
            && self.own.has(meta.summary.flow.dst_words())
    }
}

impl Path {
    /// Classifies each packet of a burst; its span is then the IP packet.
    #[inline(always)]
    pub(crate) fn classify(&mut self, burst: &mut Burst, metas: &mut Metas, source: Source) {
        let Source { ifindex, kind, mac, .. } = source;
        let cache = self.bulk_cache();
        burst.iter().take(AHEAD).for_each(|packet| prefetch_headers(cache, packet));
        let has_rules = kind == PortKind::Ethernet && !self.view.topology.mark_rules.is_empty();
        let metas = metas.places(burst.len());
        for at in 0..burst.len() {
            if let Some(next) = burst.get(at + AHEAD) {
                prefetch_headers(cache, next);
            }
            let (Some(packet), Some(meta)) = (burst.get_mut(at), metas.get_mut(at)) else { break };
            let found = match kind {
                PortKind::Ethernet => self.meta_from_port(packet, meta, ifindex, mac),
                PortKind::Private => self.meta_from_linux(packet, meta, 0),
                PortKind::Tunnel => self.meta_from_linux(packet, meta, ifindex),
            };
            match found {
                Ok(()) => {
                    if has_rules {
                        let ifindex = meta.ingress.ifindex;
                        meta.ingress.mark = self.view.topology.mark(ifindex, &meta.summary);
                    }
                    let is_own_esp = self.addresses.is_own_esp(meta);
                    meta.is_own_esp = is_own_esp;
                    match is_own_esp {
                        false => self.flows.seek(meta),
                        true => (meta.is_sought, meta.sa) = (false, None),
                    }
                }
                Err(reason) => meta.end = Some(reason.into()),
            }
        }
    }

    /// True if a packet to this host may have its source, answered from memory where it can be.
    #[inline(always)]
    pub(crate) fn is_known_source(&mut self, flow: &FlowKey) -> bool {
        self.addresses.sources.has(flow.src_words()) || self.learn_source(flow)
    }

    #[inline(never)]
    fn learn_source(&mut self, flow: &FlowKey) -> bool {
        let is_possible = self.view.is_possible_source(flow.src(), true);
        if is_possible {
            self.addresses.sources.learn(flow.src_words());
        }
        is_possible
    }
}

/// Classifies an IP packet that no port received: one that was held, or made by the worker.
pub(crate) fn meta_of(h: &wire::Headers) -> Meta {
    Meta { summary: h.into(), ..Meta::default() }
}
