//! Linux's NAT, as it has decided about the connection of a packet.

use conntrack::{Found, Rewrite, Tuple};
use wire::Headers;

use super::entry::Entry;
use crate::view::View;

/// Decision of Linux about the packet's connection.
pub(super) enum Nat {
    /// Nobody is asked.
    Off,
    /// Linux has not decided yet.
    Unknown,
    /// Linux knows the connection, and has to see the packet.
    Linuxs,
    /// The packet's connection may be carried.
    Of(Box<Connection>),
}

/// A connection that may be carried.
pub(super) struct Connection {
    pub(super) found: Found,
    pub(super) rewrite: Option<Rewrite>,
    /// The packet's headers once it is translated.
    pub(super) onward: Headers,
}

impl Nat {
    /// True if the packet is translated: it may be forwarded though it is addressed to this host,
    /// or the other way round.
    pub(super) fn is_translated(&self) -> bool {
        matches!(self, Nat::Of(connection) if connection.rewrite.is_some())
    }

    /// True if Linux knows the packet's connection, and has to see it.
    pub(super) fn is_for_conntrack(&self) -> bool {
        matches!(self, Nat::Linuxs)
    }

    /// Of a packet that arrives.
    #[inline]
    pub(super) fn of(view: &View, packet: &[u8], h: &Headers, entry: &Entry<'_>) -> Nat {
        let Some(bindings) = &view.nat else { return Nat::Off };
        let ifindex = match entry {
            // An application's, by an address that is this host's own: no rule for what is forwarded is about it.
            Entry::Port { ifindex, .. } if view.topology.gtpu.is_source(h.src, *ifindex) => {
                return Nat::Off;
            }
            Entry::Port { ifindex, .. } | Entry::Decrypted { ifindex, .. } => *ifindex,
            // What was inside of an overlay's comes in by that interface.
            Entry::Stepped { index, .. }
                if let Some(link) = view.topology.overlays.link(*index) =>
            {
                link.ifindex
            }
            // Linux's own, which it has translated; what leaves a step it has not seen.
            Entry::Stepped { .. } | Entry::Outbound(_) => return Nat::Off,
        };
        let tuple = Tuple::of(packet, h);
        let Some(found) = tuple.and_then(|tuple| bindings.find(&tuple)) else {
            return if bindings.asks(h.src) { Nat::Unknown } else { Nat::Off };
        };
        if !found.may_be_carried() || !conntrack::may_go(packet, h.into()) {
            return Nat::Linuxs;
        }
        let rewrite = found.binding.rewrite(found.direction);
        let onward = rewrite.map_or(*h, |to| translated(h, &to));
        if rewrite.is_some() && view.is_local(&onward, ifindex) {
            return Nat::Linuxs;
        }
        Nat::Of(Box::new(Connection { found, rewrite, onward }))
    }
}

/// A packet's headers once it is translated.
fn translated(h: &Headers, to: &Rewrite) -> Headers {
    let (src_port, dst_port) = match wire::protocol::is_icmp(h.protocol) {
        // Type and code.
        true => (h.src_port, h.dst_port),
        false => (to.src_port, to.dst_port),
    };
    Headers { src: to.src, dst: to.dst, src_port, dst_port, ..*h }
}
