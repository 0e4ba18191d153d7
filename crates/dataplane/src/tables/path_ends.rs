//! Ends of paths that are measured: which packets for this host are probes of others, or replies to its own.

use core::net::{IpAddr, SocketAddr};
use std::collections::HashSet;

use wire::{Family, Fragment, Headers, icmpv4, icmpv6, protocol};

/// The worker that sends probes and takes their replies, and sends those of others back.
pub(crate) const PATHS_HOME: usize = 0;

/// Packets that may be probes or replies. What turns out to be none is Linux's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathEnds {
    /// UDP port of the reflector, if there is one.
    pub reflector: Option<u16>,
    /// Sessions of STAMP: this host's end, and the far end.
    pub sessions: HashSet<(SocketAddr, SocketAddr), ahash::RandomState>,
    /// Sessions of echoes: this host's address, and the far end's.
    pub echoes: HashSet<(IpAddr, IpAddr), ahash::RandomState>,
}

impl PathEnds {
    /// True if nothing is measured.
    pub fn is_empty(&self) -> bool {
        self.reflector.is_none() && self.sessions.is_empty() && self.echoes.is_empty()
    }

    /// True if a packet for this host may be a probe or a reply.
    pub(crate) fn may_take(&self, h: &Headers) -> bool {
        if h.fragment != Fragment::Whole {
            return false;
        }
        match h.protocol {
            protocol::UDP => {
                let ends = (SocketAddr::new(h.dst, h.dst_port), SocketAddr::new(h.src, h.src_port));
                self.reflector == Some(h.dst_port) || self.sessions.contains(&ends)
            }
            protocol::ICMP | protocol::ICMPV6 => {
                h.src_port == u16::from(echo_reply(h.family()))
                    && self.echoes.contains(&(h.dst, h.src))
            }
            _ => false,
        }
    }
}

/// ICMP type of replies to echoes.
const fn echo_reply(family: Family) -> u8 {
    match family {
        Family::V4 => icmpv4::kind::ECHO_REPLY,
        Family::V6 => icmpv6::kind::ECHO_REPLY,
    }
}
