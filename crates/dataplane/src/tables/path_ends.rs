//! Ends of paths that are measured: which packets for this host are probes of others, or replies to its own.

use core::net::{IpAddr, SocketAddr};
use std::collections::HashSet;

use crate::tables::replication::CopyRemoval;
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
    /// Set if this host removes second copies.
    pub removal: Option<CopyRemoval>,
    /// Packets that come in clear: replies to probes of uplinks, and probes of others.
    pub clear: ClearEnds,
}

/// Sessions whose probes leave in clear, and whose replies come in clear; and the reflector in clear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClearEnds {
    /// Sessions of STAMP: this host's end, and the far end.
    pub sessions: HashSet<(SocketAddr, SocketAddr), ahash::RandomState>,
    /// Sessions of echoes: this host's address, and the far end's.
    pub echoes: HashSet<(IpAddr, IpAddr), ahash::RandomState>,
    /// Addresses and UDP port at which the reflector answers in clear.
    pub reflectors: HashSet<SocketAddr, ahash::RandomState>,
}

impl PathEnds {
    /// True if nothing is measured.
    pub fn is_empty(&self) -> bool {
        let is_none_protected = self.sessions.is_empty() && self.echoes.is_empty();
        self.reflector.is_none() && is_none_protected && !self.is_any_clear()
    }

    /// True if a decrypted packet for this host may be a probe or a reply.
    pub(crate) fn may_take(&self, h: &Headers) -> bool {
        match ReplyEnds::of(h) {
            Some(ReplyEnds::Udp(own, far)) => {
                self.reflector == Some(own.port()) || self.sessions.contains(&(own, far))
            }
            Some(ReplyEnds::Echo(own, far)) => self.echoes.contains(&(own, far)),
            None => false,
        }
    }

    /// True if uplinks are measured, or probes in clear are answered.
    pub(crate) fn is_any_clear(&self) -> bool {
        let ClearEnds { sessions, echoes, reflectors } = &self.clear;
        !sessions.is_empty() || !echoes.is_empty() || !reflectors.is_empty()
    }

    /// True if a packet for this host that came in clear may be a reply, or a probe.
    pub(crate) fn may_take_in_clear(&self, h: &Headers) -> bool {
        match ReplyEnds::of(h) {
            Some(ReplyEnds::Udp(own, far)) => {
                self.clear.reflectors.contains(&own) || self.clear.sessions.contains(&(own, far))
            }
            Some(ReplyEnds::Echo(own, far)) => self.clear.echoes.contains(&(own, far)),
            None => false,
        }
    }
}

/// Ends of a datagram or of a reply to an echo: this host's, and the far end's.
enum ReplyEnds {
    Udp(SocketAddr, SocketAddr),
    Echo(IpAddr, IpAddr),
}

impl ReplyEnds {
    fn of(h: &Headers) -> Option<ReplyEnds> {
        if h.fragment != Fragment::Whole {
            return None;
        }
        match h.protocol {
            protocol::UDP => {
                let far = SocketAddr::new(h.src, h.src_port);
                Some(ReplyEnds::Udp(SocketAddr::new(h.dst, h.dst_port), far))
            }
            protocol::ICMP | protocol::ICMPV6 => {
                let is_reply = h.src_port == u16::from(echo_reply(h.family()));
                is_reply.then_some(ReplyEnds::Echo(h.dst, h.src))
            }
            _ => None,
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
