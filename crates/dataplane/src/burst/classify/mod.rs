//! The first pass: what each packet of a burst is.

mod addresses;
mod ethernet;

pub(crate) use addresses::Addresses;
pub(crate) use ethernet::meta_of_packet;
use ethernet::{meta_from_linux, meta_from_port};

use io::Burst;

use crate::burst::Path;
use crate::features::Thread;
use crate::model::{Meta, Metas, PortKind, Source, prefetch_headers};

/// Distance of the first pass's prefetch, in packets.
const AHEAD: usize = 8;

impl<O: Thread> Path<O> {
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
                PortKind::Ethernet => {
                    meta_from_port((&self.view, &self.exec.out), packet, meta, (ifindex, mac))
                }
                PortKind::Private => meta_from_linux(&self.view, packet, meta, 0),
                PortKind::Tunnel => meta_from_linux(&self.view, packet, meta, ifindex),
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
}

/// Classifies an IP packet that no port received: one that was held, or made by the worker.
pub(crate) fn meta_of(h: &wire::Headers) -> Meta {
    Meta { summary: h.into(), ..Meta::default() }
}
