//! Longest packets that fit the path to a far end of an overlay.

use esp::Mode;
use forward::RouteResult;
use outcome::DropReason;
use policy::{Direction, Marks, Outbound, Stamp};
use wire::{Family, ipv6};

use super::View;
use crate::model::LOOPBACK;
use crate::tables::overlays::FarEnd;

/// Overlays behind each other: headers of the last one have room in front of any packet.
const DEEPEST: usize = 4;

impl View {
    /// The longest packet of a family that fits a far end's path once it has its headers, in bytes. `note` hears of the
    /// answers of the policies that it follows from.
    ///
    /// # Errors
    /// Overlays lead into one another without end, or too deep.
    pub(crate) fn fits_far_end(
        &self,
        end: &FarEnd,
        family: Family,
        mut note: impl FnMut(Stamp),
    ) -> Result<usize, DropReason> {
        let (mut end, mut overhead, mut least) = (end, 0, usize::from(u16::MAX));
        for _ in 0..DEEPEST {
            // The interface's own MTU is for packets without its headers.
            let own = self.topology.interfaces.get(&end.ifindex).map(|i| i.mtu as usize);
            least = least.min(own.unwrap_or(least).saturating_sub(overhead));
            overhead += end.encap.overhead();
            let h = end.outer_headers();
            let flow = self.flow(&h, LOOPBACK, Marks::of_mark(0), self.owner(false));
            let outbound = self.reader.outbound(&flow);
            note(self.reader.stamp(Direction::Out, &flow, outbound.policy()));
            let sa = match outbound {
                Outbound::Protect(_, sa) => self.reader.sa(sa),
                _ => None,
            };
            let (dst, src) = match sa.map(|sa| &sa.config.params) {
                Some(params) if params.mode != Mode::Transport => (params.dst, params.src),
                _ => (h.dst, h.src),
            };
            let fits_sa = |link: usize| sa.map_or(link, |sa| sa.esp.max_inner_len(link));
            let RouteResult::Unicast { ifindex, gateway, mtu, .. } =
                self.topology.fib.lookup(dst, src, 0, LOOPBACK)
            else {
                return Ok(least);
            };
            let next = self.topology.overlays.towards(ifindex, gateway.unwrap_or(dst));
            if let Some(next) = next.and_then(|index| self.topology.overlays.far_end(index)) {
                // What an SA adds is no more than it adds to the longest packet.
                let longest = usize::from(u16::MAX);
                overhead += longest - fits_sa(longest);
                end = next;
                continue;
            }
            let Some(interface) = self.topology.interfaces.get(&ifindex) else { return Ok(least) };
            let link = mtu.unwrap_or(interface.mtu).min(interface.mtu) as usize;
            let path = fits_sa(self.path_mtus.of(dst, link)).saturating_sub(overhead);
            let path = match family {
                Family::V4 => path,
                // No sender goes below that (RFC 2473 §7.1).
                Family::V6 => path.max(link.saturating_sub(overhead).min(ipv6::MIN_MTU.into())),
            };
            return Ok(least.min(path));
        }
        Err(DropReason::OverlayLoop)
    }
}
