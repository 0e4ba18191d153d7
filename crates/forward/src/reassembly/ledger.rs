//! Memory that each source takes here, so that one of them cannot take the others' place.

use core::net::IpAddr;
use std::collections::HashMap;

use super::packets::Packets;

/// One source's account.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// Packets and fragments.
    charge: usize,
    oldest: usize,
    newest: usize,
}

/// The accounts of all sources of which a packet is here.
pub(super) struct Ledger(HashMap<IpAddr, Account, ahash::RandomState>);

impl Ledger {
    pub(super) fn new(packets: usize) -> Ledger {
        let capacity = packets.saturating_mul(2);
        Ledger(HashMap::with_capacity_and_hasher(capacity, ahash::RandomState::new()))
    }

    /// Packets and fragments of a source.
    #[inline]
    pub(super) fn charge(&self, src: IpAddr) -> usize {
        self.0.get(&src).map_or(0, |account| account.charge)
    }

    /// A source's oldest packet.
    #[inline]
    pub(super) fn oldest(&self, src: IpAddr) -> Option<usize> {
        self.0.get(&src).map(|account| account.oldest)
    }

    /// So many fragments more.
    #[inline]
    pub(super) fn add(&mut self, src: IpAddr, count: usize) {
        if let Some(account) = self.0.get_mut(&src) {
            account.charge += count;
        }
    }

    /// So many fragments less.
    #[inline]
    pub(super) fn take(&mut self, src: IpAddr, count: usize) {
        if let Some(account) = self.0.get_mut(&src) {
            account.charge -= count;
        }
    }

    /// A new packet.
    #[inline]
    pub(super) fn enter<M>(&mut self, src: IpAddr, at: usize, packets: &mut Packets<M>) {
        let Some(account) = self.0.get_mut(&src) else {
            self.0.insert(src, Account { charge: 1, oldest: at, newest: at });
            return;
        };
        account.charge += 1;
        packets.at_mut(account.newest).newer_of_source = Some(at);
        packets.at_mut(at).older_of_source = Some(account.newest);
        account.newest = at;
    }

    /// A packet that goes.
    #[inline]
    pub(super) fn leave<M>(&mut self, src: IpAddr, at: usize, packets: &mut Packets<M>) {
        let packet = packets.at(at);
        let (older, newer) = (packet.older_of_source, packet.newer_of_source);
        if let Some(older) = older {
            packets.at_mut(older).newer_of_source = newer;
        }
        if let Some(newer) = newer {
            packets.at_mut(newer).older_of_source = older;
        }
        let Some(account) = self.0.get_mut(&src) else { return };
        account.charge -= 1;
        match (older, newer) {
            (None, None) => {
                self.0.remove(&src);
            }
            (None, Some(newer)) => account.oldest = newer,
            (Some(older), None) => account.newest = older,
            (Some(_), Some(_)) => {}
        }
    }
}
