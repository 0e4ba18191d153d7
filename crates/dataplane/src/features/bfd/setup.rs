//! Sessions by the control thread, and what the worker that has them tells.

use core::net::IpAddr;

use bfd::{Refused, Settings, Standing};

/// A session to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BfdSession {
    /// Settings of the session. Its discriminator is its identity.
    pub settings: Settings,
    /// Address of this host.
    pub local: IpAddr,
    /// Address of the peer.
    pub far: IpAddr,
    /// True if the peer may be several hops away.
    pub is_multi_hop: bool,
    /// Lowest TTL of packets of the peer.
    pub min_ttl: u8,
    /// UDP port that packets come from, in host byte order.
    pub source_port: u16,
    /// Index of the interface that packets of the peer come in by; 0 for any. By a tunnel interface packets leave as well, and
    /// those to a link-local peer by whatever interface it is; else policies and routes lead them.
    pub ifindex: u32,
    /// Time before the first packet, in nanoseconds.
    pub hold_ns: u64,
}

/// A change of the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BfdChange {
    /// A session begins, or has other settings from here on.
    Set(BfdSession),
    /// The session of a discriminator ends; its peer is told that it is switched off.
    End(u32),
    /// All sessions end without a word: their owner has gone, or runs them itself.
    EndAll,
}

/// Sessions that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BfdAsked {
    /// The one of a discriminator.
    One(u32),
    /// All from a slot on, some at once.
    From(usize),
}

/// Some sessions as they stand.
#[derive(Clone, Debug, Default)]
pub struct BfdReports {
    /// Sessions in the order of their slots.
    pub sessions: Vec<Standing>,
    /// The slot to ask from next; none if these were the last.
    pub next: Option<usize>,
    /// Packets that were refused.
    pub refusals: BfdRefusals,
}

/// Packets between the ends of a session that were refused, by their kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BfdRefusals {
    /// A TTL below the lowest: not from a neighbour (RFC 5881 §5), or from too far away.
    pub ttl: u64,
    /// No session has the discriminator that the packet is for (RFC 5880 §6.8.6).
    pub session: u64,
    /// An echo packet where the session takes none, or more of them at once than are sent back.
    pub echo: u64,
    /// By the rules that a packet breaks, in the order of [`Refused::ALL`].
    pub rules: [u64; Refused::ALL.len()],
}

impl BfdRefusals {
    /// Counts, by the names of the kinds.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let rules = Refused::ALL.iter().map(|rule| rule.name()).zip(self.rules);
        let own = [("ttl", self.ttl), ("session", self.session), ("echo", self.echo)];
        own.into_iter().chain(rules)
    }

    /// Counts a packet that breaks a rule.
    pub(super) fn count(&mut self, rule: Refused) {
        let all = Refused::ALL.iter().zip(&mut self.rules);
        all.filter(|(of, _)| **of == rule).for_each(|(_, count)| *count += 1);
    }
}
