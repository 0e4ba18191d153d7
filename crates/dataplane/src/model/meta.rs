//! Packet metadata: what classification finds out about a packet.

use core::ops::{Deref, DerefMut};

use io::BURST_LEN;
use outcome::Outcome;
use policy::{SaIndex, SaTag};
use wire::{Headers, MacAddr, Summary};

use crate::model::{Ingress, Key, Newcomers, Outers, PortKind};

/// Where a burst came from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Source {
    pub(crate) ifindex: u32,
    pub(crate) kind: PortKind,
    /// The port's own address, where it is known.
    pub(crate) mac: Option<MacAddr>,
    /// How many packets of flows that are not known are resolved.
    pub(crate) newcomers: Newcomers,
}

/// Result of the first pass for a packet. The packet itself stays where it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meta {
    pub(crate) summary: Summary,
    pub(crate) ingress: Ingress,
    /// Hash of the flow's key.
    pub(crate) hash: u64,
    /// Index of the flow cache's entry that may hold the flow's plan.
    pub(crate) place: Option<u32>,
    /// Bare ESP to this host, as the destination alone tells: it needs no plan.
    pub(crate) is_own_esp: bool,
    /// True if the flow cache is searched by the hash.
    pub(crate) is_sought: bool,
    /// True if the flow may have a plan: the action depends on the key alone. A decrypted packet
    /// has none if it came through several SAs.
    pub(crate) has_flow: bool,
    /// How the packet ends here, if it does; the other fields are meaningless then.
    pub(crate) end: Option<Outcome>,
    /// SAD hash tag of ESP to this host.
    pub(crate) tag: Option<SaTag>,
    /// The SA's slot, found ahead while bursts are spread over many SAs.
    pub(crate) sa: Option<SaIndex>,
    /// The SAs that the packet came through before the last: of one that was decrypted and has no flow,
    /// else of an earlier burst.
    pub(crate) outers_before: Outers,
}

impl Meta {
    /// A packet's metadata once it may have another DSCP.
    #[cold]
    pub(crate) fn with_headers(&self, h: &Headers) -> Meta {
        let mut meta = self.clone();
        meta.summary.fields = h.into();
        meta
    }

    /// The flow's key in the flow cache.
    #[inline(always)]
    pub(crate) fn key(&self) -> Key {
        Key { flow: self.summary.flow, ingress: self.ingress }
    }

    /// Completes metadata whose summary is there, all but the place of the flow.
    #[inline(always)]
    pub(crate) fn enter(&mut self, ingress: Ingress, has_flow: bool) {
        self.ingress = ingress;
        self.has_flow = has_flow;
        self.end = None;
    }

    /// Notes that a decrypted packet came through other SAs before the last.
    pub(crate) fn set_outers(&mut self, outers: Outers) {
        self.outers_before = outers;
        self.has_flow = false;
    }

    /// The SAs that the packet came through before the last, if there are any.
    pub(crate) fn outers(&self) -> Option<&Outers> {
        (self.ingress.via().is_some() && !self.has_flow).then_some(&self.outers_before)
    }
}

/// One for each packet of a burst, in their order.
///
/// Written in place: a record that is moved whole goes through memory.
pub(crate) struct Metas {
    all: [Meta; BURST_LEN],
    len: usize,
}

impl Default for Metas {
    fn default() -> Metas {
        Metas { all: core::array::from_fn(|_| Meta::default()), len: 0 }
    }
}

impl Metas {
    /// The first `len`, to be written.
    #[inline]
    pub(crate) fn places(&mut self, len: usize) -> &mut [Meta] {
        self.len = len.min(BURST_LEN);
        self
    }
}

impl Deref for Metas {
    type Target = [Meta];

    #[inline]
    fn deref(&self) -> &[Meta] {
        self.all.get(..self.len).unwrap_or(&self.all)
    }
}

impl DerefMut for Metas {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Meta] {
        match self.all.get_mut(..self.len) {
            Some(metas) => metas,
            None => &mut [],
        }
    }
}
