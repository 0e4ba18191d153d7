//! Policies for look-up: tuple space search.
//!
//! The policies of one direction and family are grouped by *shape*: which bits of a packet they
//! compare for equality (the two prefixes, the mark's mask, whether the protocol, which bits of the
//! ports). Under a shape the values of these bits, and the XFRM interface, are the key of a hash
//! table, whose value is the chain of policies with that key in their order. A look-up probes one
//! table per shape, best group first, and stops as soon as no later group can hold a better policy.
//! Real databases have a handful of shapes, whatever their size. A group that a packet cannot be
//! in, because all its policies agree in some bit that the packet has not, is passed by at the cost
//! of a comparison ([`Cover`]).
//!
//! Nanoseconds for a look-up at random, policies of [`crate::workload`], on one core at about 4 GHz
//! with a second-level cache of 1 MiB (`examples/figures.rs`): policy found; none found, or only a
//! broad one; policy and SA found.
//!
//! | tunnels | 1 | 1000 | 100 000 |
//! | --- | --- | --- | --- |
//! | clients of a gateway, 1 shape | 12, 4, 22 | 18, 4, 39 | 72, 4, 299 |
//! | sites of a hub, 1 shape | 13, 4, 23 | 20, 4, 39 | 80, 4, 321 |
//! | mixed, 26 shapes | 20, 14, 23 | 35, 28, 55 | 127, 28, 316 |
//!
//! The worst: each policy of another shape, and all of them wide. That costs about 1 ns for each
//! shape that is tried: 0.4 us at 1000 of them, 4 us at 10 000, and 9 us if none matches. Many ports
//! of one pair of networks are one shape: 29 ns at 10 000.
//!
//! A later fragment has no ports. A policy that names ports, and protects or blocks, decides about
//! it nevertheless (see [`Flow::is_selected`]), so it is in a second group, which disregards the
//! ports and which only later fragments look at.

use core::net::IpAddr;
use std::sync::Arc;

use wire::Fragment;

use crate::flow::Flow;
use crate::hash::{Seeds, Tag};
use crate::model::PolicyConfig;
use crate::policy_entry::{PolicyEntry, Rank};
use crate::selector::Prefix;
use crate::slots::Slots;
use crate::table::{Links, NONE, Table};

/// Source and destination address, or a mask of them, of one family.
pub(crate) trait Ends: Copy + PartialEq {
    /// Key of a packet.
    fn of(src: IpAddr, dst: IpAddr) -> Self;
    /// The bits that two prefixes compare.
    fn masks(src: &Prefix, dst: &Prefix) -> Self;
    /// The bits under a mask.
    fn under(self, mask: Self) -> Self;
    /// The bits of a mask in which this and another are the same.
    fn common(self, other: Self, mask: Self) -> Self;
    /// The tag of a key.
    fn tag(self, seeds: &Seeds, scope: u64, upper: u64) -> Tag;
}

/// IPv4: source in the upper half, destination in the lower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct V4(u64);

/// IPv6: source, destination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct V6(u128, u128);

impl Ends for V4 {
    #[inline]
    fn of(src: IpAddr, dst: IpAddr) -> V4 {
        let bits = |addr| match addr {
            IpAddr::V4(addr) => u64::from(addr.to_bits()),
            IpAddr::V6(_) => 0,
        };
        V4(bits(src) << 32 | bits(dst))
    }

    fn masks(src: &Prefix, dst: &Prefix) -> V4 {
        let mask = |len: u8| u64::from(u32::MAX) & u64::MAX << (32 - len.min(32));
        V4(mask(src.len) << 32 | mask(dst.len))
    }

    #[inline]
    fn under(self, mask: V4) -> V4 {
        V4(self.0 & mask.0)
    }

    #[inline]
    fn common(self, other: V4, mask: V4) -> V4 {
        V4(mask.0 & !(self.0 ^ other.0))
    }

    #[inline]
    fn tag(self, seeds: &Seeds, scope: u64, upper: u64) -> Tag {
        seeds.policy_v4(self.0, scope, upper)
    }
}

impl Ends for V6 {
    #[inline]
    fn of(src: IpAddr, dst: IpAddr) -> V6 {
        let bits = |addr| match addr {
            IpAddr::V4(_) => 0,
            IpAddr::V6(addr) => addr.to_bits(),
        };
        V6(bits(src), bits(dst))
    }

    fn masks(src: &Prefix, dst: &Prefix) -> V6 {
        // A shift by the whole width leaves nothing: prefix length 0.
        let mask = |len: u8| u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0);
        V6(mask(src.len), mask(dst.len))
    }

    #[inline]
    fn under(self, mask: V6) -> V6 {
        V6(self.0 & mask.0, self.1 & mask.1)
    }

    #[inline]
    fn common(self, other: V6, mask: V6) -> V6 {
        V6(mask.0 & !(self.0 ^ other.0), mask.1 & !(self.1 ^ other.1))
    }

    #[inline]
    fn tag(self, seeds: &Seeds, scope: u64, upper: u64) -> Tag {
        seeds.policy_v6(self.0, self.1, scope, upper)
    }
}

/// All that policies compare for equality, of a packet, or a mask of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bits<A> {
    ends: A,
    /// The mark above, the XFRM interface below.
    scope: u64,
    /// The protocol in bits 32 to 39, the source port in 16 to 31, the destination port below.
    upper: u64,
}

impl<A: Ends> Bits<A> {
    #[inline]
    fn of_packet(flow: &Flow<'_>) -> Bits<A> {
        let h = flow.headers;
        Bits {
            ends: A::of(h.src, h.dst),
            scope: scope(flow.mark, flow.if_id),
            upper: upper(h.protocol, h.src_port, h.dst_port),
        }
    }

    fn of_policy(config: &PolicyConfig) -> Bits<A> {
        let s = &config.selector;
        Bits {
            ends: A::of(s.src.addr, s.dst.addr),
            scope: scope(config.mark.value, config.if_id),
            upper: upper(s.protocol, s.src_port.value, s.dst_port.value),
        }
    }

    #[inline]
    fn under(&self, mask: &Bits<A>) -> Bits<A> {
        Bits {
            ends: self.ends.under(mask.ends),
            scope: self.scope & mask.scope,
            upper: self.upper & mask.upper,
        }
    }

    /// The bits of a mask in which this and another are the same.
    #[inline]
    fn common(&self, other: &Bits<A>, mask: &Bits<A>) -> Bits<A> {
        Bits {
            ends: self.ends.common(other.ends, mask.ends),
            scope: mask.scope & !(self.scope ^ other.scope),
            upper: mask.upper & !(self.upper ^ other.upper),
        }
    }

    #[inline]
    fn tag(&self, seeds: &Seeds) -> Tag {
        self.ends.tag(seeds, self.scope, self.upper)
    }
}

fn scope(mark: u32, if_id: u32) -> u64 {
    u64::from(mark) << 32 | u64::from(if_id)
}

fn upper(protocol: u8, src_port: u16, dst_port: u16) -> u64 {
    u64::from(protocol) << 32 | u64::from(src_port) << 16 | u64::from(dst_port)
}

/// Which packets look at a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// No ports are compared.
    Always,
    /// Ports are compared: packets that have them.
    WithPorts,
    /// Ports would have to be compared: packets that have none.
    LaterFragments,
}

/// The bits of a packet that are the key of a group: the same for all of its policies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape<A> {
    mask: Bits<A>,
    asked: Asked,
}

impl<A: Ends> Shape<A> {
    /// The shape of a policy.
    pub(crate) fn of(config: &PolicyConfig) -> Shape<A> {
        let s = &config.selector;
        let protocol = if s.protocol == 0 { 0 } else { u8::MAX };
        let mask = Bits {
            ends: A::masks(&s.src, &s.dst),
            scope: scope(config.mark.mask, u32::MAX),
            upper: upper(protocol, s.src_port.mask, s.dst_port.mask),
        };
        Shape { mask, asked: if s.names_ports() { Asked::WithPorts } else { Asked::Always } }
    }

    /// The shape under which later fragments find a policy of this shape.
    pub(crate) fn without_ports(&self) -> Shape<A> {
        let upper = self.mask.upper & upper(u8::MAX, 0, 0);
        Shape { mask: Bits { upper, ..self.mask }, asked: Asked::LaterFragments }
    }

    /// The tag of a policy of this shape.
    pub(crate) fn tag_of(&self, config: &PolicyConfig, seeds: &Seeds) -> Tag {
        let bits = Bits::of_policy(config);
        // Not masked: a mark with bits outside its mask would match no packet, as in `Mark::matches`.
        Bits { scope: bits.scope, ..bits.under(&self.mask) }.tag(seeds)
    }
}

/// The bits in which all policies of a group agree, so that most packets that have nothing to do
/// with a group pass it by without a look into its table. It never becomes narrower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cover<A> {
    value: Bits<A>,
    mask: Bits<A>,
}

impl<A: Ends> Cover<A> {
    /// Key of one policy.
    pub(crate) fn of(config: &PolicyConfig, shape: &Shape<A>) -> Cover<A> {
        Cover { value: Bits::of_policy(config), mask: shape.mask }
    }

    /// With one more policy.
    pub(crate) fn with(&self, config: &PolicyConfig) -> Cover<A> {
        let mask = self.value.common(&Bits::of_policy(config), &self.mask);
        Cover { value: self.value, mask }
    }

    #[inline]
    fn is_over(&self, packet: &Bits<A>) -> bool {
        self.value.common(packet, &self.mask) == self.mask
    }
}

/// The policies of one shape, as readers see them.
#[derive(Clone, Debug)]
pub(crate) struct Group<A> {
    /// No policy in the group comes before this.
    pub(crate) best: Rank,
    pub(crate) shape: Shape<A>,
    pub(crate) cover: Cover<A>,
    pub(crate) table: Arc<Table>,
}

/// The groups of one direction and family, in the order of their best policies.
pub(crate) type Groups<A> = Arc<[Group<A>]>;

/// The policy that decides about a packet.
#[inline]
pub(crate) fn find<'v, A: Ends>(
    groups: &[Group<A>],
    seeds: &Seeds,
    policies: &'v Slots<Option<Arc<PolicyEntry>>>,
    links: &Links,
    flow: &Flow<'_>,
) -> Option<&'v Arc<PolicyEntry>> {
    let packet = Bits::<A>::of_packet(flow);
    let is_later = flow.headers.fragment == Fragment::Later;
    let other = if is_later { Asked::WithPorts } else { Asked::LaterFragments };
    let mut found = None;
    let mut limit = Rank::LAST;
    for group in groups {
        if limit < group.best {
            break;
        }
        if group.shape.asked == other || !group.cover.is_over(&packet) {
            continue;
        }
        let tag = packet.under(&group.shape.mask).tag(seeds);
        let mut at = group.table.head(tag);
        // The chain is in order: its first match is its best.
        while at != NONE {
            if let Some(Some(policy)) = policies.get(at) {
                if limit < policy.rank {
                    break;
                }
                if policy.matches(flow) {
                    found = Some(policy);
                    limit = policy.rank;
                    break;
                }
            }
            at = links.next(at);
        }
    }
    found
}
