//! Linux's NAT, as it has decided about the connection of a packet.

use core::net::IpAddr;

use conntrack::{Found, Rewrite, Tuple};
use wire::Headers;

use super::entry::Entry;
use crate::view::View;

/// Decision of Linux about the packet's connection.
pub(super) enum Nat {
    /// Nobody is asked.
    Off,
    /// Linux has not decided yet.
    Unknown {
        /// True if the packet says which connection it is of: it is no fragment, and no ICMP error.
        has_tuple: bool,
    },
    /// Linux knows the connection, and has to see the packet.
    Linuxs {
        /// The packet's source once it is translated, if it is.
        translated: Option<IpAddr>,
    },
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

    /// True if Linux may know the packet's connection already, and has to see it.
    pub(super) fn is_for_conntrack(&self) -> bool {
        matches!(self, Nat::Linuxs { .. })
    }

    /// True if Linux knows the packet's connection, and the packet's source once it is translated, if it is.
    pub(super) fn known_source(&self) -> (bool, Option<IpAddr>) {
        match self {
            Nat::Off => (false, None),
            // It may be of any.
            Nat::Unknown { has_tuple } => (!has_tuple, None),
            Nat::Linuxs { translated } => (true, *translated),
            Nat::Of(connection) => (true, connection.rewrite.map(|to| to.src)),
        }
    }

    /// Headers of a packet before it was translated, from those of one that is.
    pub(super) fn arrived(&self, h: &Headers) -> Headers {
        let Nat::Of(connection) = self else { return *h };
        let tuple = connection.found.binding.tuple(connection.found.direction);
        let (src_port, dst_port) = match wire::protocol::is_icmp(h.protocol) {
            true => (h.src_port, h.dst_port),
            false => (tuple.src_port, tuple.dst_port),
        };
        Headers { src: tuple.src, dst: tuple.dst, src_port, dst_port, ..*h }
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
        let Some(found) = tuple.as_ref().and_then(|tuple| bindings.find(tuple)) else {
            let unknown = Nat::Unknown { has_tuple: tuple.is_some() };
            return if bindings.asks(h.src) { unknown } else { Nat::Off };
        };
        let rewrite = found.binding.rewrite(found.direction);
        let linuxs = Nat::Linuxs { translated: rewrite.map(|to| to.src) };
        if !found.may_be_carried() || !conntrack::may_go(packet, h.into()) {
            return linuxs;
        }
        let onward = rewrite.map_or(*h, |to| translated(h, &to));
        if rewrite.is_some() && view.is_local(&onward, ifindex) {
            return linuxs;
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
