//! Length that fits a headend's path once it has put its segments on a packet.

use core::net::IpAddr;

use forward::RouteResult;
use srv6::Headend;
use wire::{Family, ipv6};

use super::View;
use crate::model::LOOPBACK;

/// Headends behind each other that are looked through for an MTU.
const DEEPEST: usize = 3;

impl View {
    /// The longest packet of a family that fits once a headend has put its segments on it, in bytes; `outer` says
    /// what fits of packets that policy protects.
    ///
    /// The path MTU that routers have reported counts. Of IPv6 it does not go below 1280 bytes, which no sender goes
    /// below either (RFC 2473 §7.1): a report would be the end of all longer packets, and anybody's may be forged.
    pub(crate) fn fits_headend(
        &self,
        headend: &Headend,
        family: Family,
        outer: impl Fn(&View, &Headend) -> Option<usize>,
    ) -> usize {
        let mut overhead = headend.overhead();
        let mut last = headend;
        for _ in 0..DEEPEST {
            let (dst, src) = (IpAddr::V6(last.first()), IpAddr::V6(last.source()));
            let route = self.topology.fib.lookup(dst, src, 0, LOOPBACK);
            let RouteResult::Unicast { ifindex, mtu, .. } = route else { break };
            if let Some(next) = self.topology.segments.headend(ifindex) {
                overhead += next.overhead();
                last = next;
                continue;
            }
            let Some(interface) = self.topology.interfaces.get(&ifindex) else { break };
            let link = mtu.unwrap_or(interface.mtu).min(interface.mtu) as usize;
            let link = outer(self, last).unwrap_or_else(|| self.path_mtus.of(dst, link));
            let (segments, list_len) = (last.segments(), last.srh_len());
            let through = self.path_mtus.through(segments, list_len, |at| last.ends_at(at), link);
            // The errors about what is put into packets are for the senders of those.
            let path = if last.mode().is_inline() { link } else { through };
            let fits = path.saturating_sub(overhead);
            return match family {
                Family::V4 => fits,
                Family::V6 => fits.max(link.saturating_sub(overhead).min(ipv6::MIN_MTU.into())),
            };
        }
        usize::from(u16::MAX).saturating_sub(overhead)
    }
}
