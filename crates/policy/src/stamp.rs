//! Stamps, which tell in a few loads if what was found out about a flow still holds.

use core::net::IpAddr;

use crate::flow::Flow;
use crate::hash::{Seeds, Tag};
use crate::model::{Direction, PolicyConfig};

/// State of the databases when a flow was resolved, as far as it matters to this flow.
///
/// Made by [`Reader::stamp`](crate::Reader::stamp), asked by
/// [`Reader::holds`](crate::Reader::holds). Good for the reader that made it only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Of the pieces' counts and the broad count.
    sum: u32,
    era: u16,
    pieces: [u16; 3],
}

const _: () = assert!(size_of::<Stamp>() == 12);

/// Where a change of a policy is felt: by the flows of one piece, or by all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot(u16);

impl Spot {
    const BROAD: Spot = Spot(u16::MAX);

    /// Where a policy is felt. By the longer of its two prefixes, if that is long enough: only
    /// flows with an end in the same network can meet it. ICMP errors come from anywhere.
    pub(crate) fn of_policy(seeds: &Seeds, config: &PolicyConfig) -> Spot {
        let PolicyConfig { direction, selector, flags, .. } = config;
        let is_dst = selector.dst.len >= selector.src.len;
        let prefix = if is_dst { selector.dst } else { selector.src };
        let enough = if prefix.addr.is_ipv4() { V4_LEN } else { V6_LEN };
        if prefix.len < enough || flags.icmp {
            return Spot::BROAD;
        }
        Spot(piece(seeds, *direction, prefix.addr, is_dst))
    }
}

/// How often the pieces of the databases have changed: a reader's own.
///
/// A flow depends on three pieces: that of its source network, that of its destination network,
/// and that of the SAs for its template. Each change adds one to the piece that it belongs to, so
/// the sum of a flow's pieces grows when any of them changes.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    counts: Box<[u32; PIECES]>,
    /// Changes that every flow feels.
    broad: u32,
    /// Counts down to the next era.
    left: u32,
    /// Within an era no sum can come round to what it was.
    era: u16,
}

impl Versions {
    pub(crate) fn new() -> Versions {
        Versions { counts: Box::new([0; PIECES]), broad: 0, left: ERA_LEN, era: 0 }
    }

    fn count(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.left = ERA_LEN;
            self.era = self.era.wrapping_add(1);
        }
    }

    /// A policy changed.
    pub(crate) fn policy_changed(&mut self, spot: Spot) {
        self.count();
        let count = match spot {
            Spot::BROAD => &mut self.broad,
            Spot(piece) => &mut self.counts[usize::from(piece) % PIECES],
        };
        *count = count.wrapping_add(1);
    }

    /// An SA changed; the tag is that of its outbound key.
    pub(crate) fn sa_changed(&mut self, tag: Tag) {
        self.policy_changed(Spot(sa_piece(tag)));
    }

    /// Moves the version that every flow depends on.
    pub(crate) fn all_changed(&mut self) {
        self.policy_changed(Spot::BROAD);
    }

    pub(crate) fn stamp(
        &self,
        seeds: &Seeds,
        direction: Direction,
        flow: &Flow<'_>,
        sa: Option<Tag>,
    ) -> Stamp {
        let src = piece(seeds, direction, flow.headers.src, false);
        let dst = piece(seeds, direction, flow.headers.dst, true);
        let pieces = [src, dst, sa.map_or(dst, sa_piece)];
        Stamp { sum: self.sum(pieces), era: self.era, pieces }
    }

    /// A stamp of the SAs with one outbound key alone.
    pub(crate) fn stamp_of_sas(&self, tag: Tag) -> Stamp {
        let pieces = [sa_piece(tag); 3];
        Stamp { sum: self.sum(pieces), era: self.era, pieces }
    }

    #[inline]
    pub(crate) fn holds(&self, stamp: Stamp) -> bool {
        self.era == stamp.era && self.sum(stamp.pieces) == stamp.sum
    }

    #[inline]
    fn sum(&self, pieces: [u16; 3]) -> u32 {
        let count = |piece: u16| self.counts[usize::from(piece) % PIECES];
        let [a, b, c] = pieces.map(count);
        self.broad.wrapping_add(a).wrapping_add(b).wrapping_add(c)
    }
}

/// The piece of the network that an address is in.
fn piece(seeds: &Seeds, direction: Direction, addr: IpAddr, is_dst: bool) -> u16 {
    let bits = match addr {
        IpAddr::V4(addr) => u64::from(addr.to_bits() >> (32 - V4_LEN)),
        IpAddr::V6(addr) => (addr.to_bits() >> (128 - V6_LEN)) as u64,
    };
    let place = (direction as u64) << 2 | u64::from(is_dst) << 1 | u64::from(addr.is_ipv6());
    (seeds.network(bits, place).get() >> 16) as u16 % PIECES as u16
}

fn sa_piece(tag: Tag) -> u16 {
    tag.get() as u16 % PIECES as u16
}

/// Pieces that changes are told apart by; 16 KiB for each reader.
const PIECES: usize = 4096;
/// Changes in an era. Each adds at most one to at most three of the four numbers in a sum, so no
/// sum grows by 2^32 within one; eras repeat after 2^46 changes.
const ERA_LEN: u32 = 1 << 30;
/// Bits of an IPv4 network that has a piece of its own; a shorter prefix is broad.
const V4_LEN: u8 = 24;
/// Bits of an IPv6 network that has a piece of its own.
const V6_LEN: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_era_ends_all_stamps() {
        let mut versions = Versions::new();
        let stamp = Stamp { sum: versions.sum([1, 2, 3]), era: versions.era, pieces: [1, 2, 3] };
        assert!(versions.holds(stamp));
        versions.left = 2;
        versions.policy_changed(Spot(4));
        assert!(versions.holds(stamp), "a change elsewhere");
        versions.policy_changed(Spot(4));
        assert!(!versions.holds(stamp), "another era");
    }

    #[test]
    fn each_piece_and_the_broad_count_are_felt() {
        let mut versions = Versions::new();
        let stamp = |v: &Versions| Stamp { sum: v.sum([1, 2, 3]), era: v.era, pieces: [1, 2, 3] };
        for spot in [Spot(1), Spot(2), Spot(3), Spot::BROAD] {
            let before = stamp(&versions);
            versions.policy_changed(spot);
            assert!(!versions.holds(before), "{spot:?}");
            assert!(versions.holds(stamp(&versions)));
        }
    }
}
