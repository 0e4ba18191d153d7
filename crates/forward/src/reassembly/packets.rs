//! The packets of which fragments wait: found by key, and in the order of their first arrival.

use core::net::IpAddr;
use std::collections::HashMap;

use super::piece::{FragmentKey, Unjoined};
use super::slots::Chain;

/// Treatment of a packet's fragments.
#[derive(Clone, Copy, Debug)]
pub(super) enum State<M> {
    /// They wait for the others.
    Waiting,
    /// They go on as they come.
    Passing(M),
    /// They are given up as they come.
    Discarded(Unjoined),
}

/// One packet, of which fragments wait or have passed.
pub(super) struct Packet<M> {
    pub(super) key: FragmentKey,
    pub(super) state: State<M>,
    deadline_ns: u64,
    /// Chain of the fragments that wait.
    pub(super) chain: Chain,
    /// How many they are.
    pub(super) count: usize,
    /// Bytes of all that came.
    pub(super) bytes: usize,
    /// Where the farthest of them ends.
    pub(super) reach: usize,
    /// Where the packet ends, once that is known.
    pub(super) end: Option<usize>,
    /// Length of the first fragment; 0 until it has come.
    pub(super) first_len: usize,
    /// Length of the first fragment's headers, in bytes.
    pub(super) head_len: usize,
    is_used: bool,
    older: Option<usize>,
    /// The next by arrival, or the next free place.
    newer: Option<usize>,
    /// Neighbours among the packets of the same source.
    pub(super) older_of_source: Option<usize>,
    pub(super) newer_of_source: Option<usize>,
}

/// All packets of which something waits or is remembered.
pub(super) struct Packets<M> {
    packets: Vec<Packet<M>>,
    free: Option<usize>,
    oldest: Option<usize>,
    newest: Option<usize>,
    by_key: HashMap<FragmentKey, usize, ahash::RandomState>,
}

impl<M> Packets<M> {
    pub(super) fn new(count: usize) -> Packets<M> {
        let packets = (0..count).map(|at| Packet::free(Some(at + 1).filter(|n| *n < count)));
        Packets {
            packets: packets.collect(),
            free: Some(0).filter(|_| count > 0),
            oldest: None,
            newest: None,
            by_key: HashMap::with_capacity_and_hasher(
                count.saturating_mul(2),
                ahash::RandomState::new(),
            ),
        }
    }

    pub(super) fn find(&self, key: &FragmentKey) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    pub(super) const fn is_full(&self) -> bool {
        self.free.is_none()
    }

    pub(super) fn is_used(&self, at: usize) -> bool {
        self.packets.get(at).is_some_and(|packet| packet.is_used)
    }

    /// A packet whose number came from here and which was not removed since.
    pub(super) fn at(&self, at: usize) -> &Packet<M> {
        &self.packets[at]
    }

    /// The packet at a place, to be changed.
    pub(super) fn at_mut(&mut self, at: usize) -> &mut Packet<M> {
        &mut self.packets[at]
    }

    pub(super) const fn oldest(&self) -> Option<usize> {
        self.oldest
    }

    /// The next by arrival.
    pub(super) fn newer(&self, at: usize) -> Option<usize> {
        self.at(at).newer
    }

    /// True if a packet's time is up.
    pub(super) fn is_over(&self, at: usize, now_ns: u64) -> bool {
        self.at(at).deadline_ns <= now_ns
    }

    /// A new packet, unless there is no place.
    pub(super) fn insert(&mut self, key: FragmentKey, deadline_ns: u64) -> Option<usize> {
        let at = self.free?;
        self.free = self.at(at).newer;
        let older = self.newest;
        *self.at_mut(at) = Packet { key, deadline_ns, is_used: true, older, ..Packet::free(None) };
        match older {
            Some(older) => self.at_mut(older).newer = Some(at),
            None => self.oldest = Some(at),
        }
        self.newest = Some(at);
        self.by_key.insert(key, at);
        Some(at)
    }

    pub(super) fn remove(&mut self, at: usize) {
        let free = self.free;
        let packet = self.at_mut(at);
        let (key, older, newer) = (packet.key, packet.older, packet.newer);
        *packet = Packet::free(free);
        self.free = Some(at);
        match older {
            Some(older) => self.at_mut(older).newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.at_mut(newer).older = older,
            None => self.newest = older,
        }
        self.by_key.remove(&key);
    }
}

impl<M> Packet<M> {
    /// A free place, and the next one.
    const fn free(next: Option<usize>) -> Packet<M> {
        let nowhere = IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
        Packet {
            key: FragmentKey { src: nowhere, dst: nowhere, protocol: 0, ident: 0, scope: 0 },
            state: State::Waiting,
            deadline_ns: 0,
            chain: Chain::EMPTY,
            count: 0,
            bytes: 0,
            reach: 0,
            end: None,
            first_len: 0,
            head_len: 0,
            is_used: false,
            older: None,
            newer: next,
            older_of_source: None,
            newer_of_source: None,
        }
    }
}
