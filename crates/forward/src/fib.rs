//! Routing: rules choose tables, tables choose routes by the longest prefix.
//!
//! A [`Fib`] is built from all rules and routes at once and never changes; a change of either
//! makes a new one. Workers share it and look up without locks or allocation.

use core::net::IpAddr;
use std::collections::BTreeMap;

use outcome::DropReason;
use wire::{Family, Headers};

use crate::icmp_error::IcmpCause;
use crate::intervals::Intervals;
use crate::route::{Hop, RouteEntry, RouteKind, RuleAction, RuleEntry};

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteResult {
    /// To this host.
    Local,
    /// Out of an interface.
    Unicast {
        /// The interface.
        ifindex: u32,
        /// The router, or `None` where the destination is on the link.
        gateway: Option<IpAddr>,
        /// The route's own MTU, in bytes.
        mtu: Option<u32>,
        /// The route's preferred source address.
        src: Option<IpAddr>,
    },
    /// Nowhere, without a word. Also for addresses that no router may forward (RFC 1812 §5.3.7).
    Blackhole,
    /// Nowhere, with an ICMP error.
    Unreachable,
    /// Nowhere, with an ICMP error that says prohibited.
    Prohibit,
    /// A rule matched that only Linux can judge: the packet is Linux's.
    Linux,
    /// No rule led to a route.
    None,
}

impl RouteResult {
    /// Which neighbour the packet goes to: interface and address of the router or, on the link,
    /// of the destination. `None` unless unicast.
    pub fn neighbour(&self, dst: IpAddr) -> Option<(u32, IpAddr)> {
        match *self {
            Self::Unicast { ifindex, gateway, .. } => Some((ifindex, gateway.unwrap_or(dst))),
            _ => None,
        }
    }

    /// The reason to count, where the packet goes nowhere.
    pub const fn drop_reason(&self) -> Option<DropReason> {
        match self {
            Self::Blackhole | Self::Unreachable | Self::Prohibit => {
                Some(DropReason::RouteProhibited)
            }
            Self::None => Some(DropReason::NoRoute),
            Self::Local | Self::Unicast { .. } | Self::Linux => None,
        }
    }

    /// The ICMP error to send, where the packet goes nowhere and its sender is told, as Linux
    /// chooses it.
    pub const fn icmp_cause(&self, family: Family) -> Option<IcmpCause> {
        match (self, family) {
            (Self::None, _) | (Self::Unreachable, Family::V6) => Some(IcmpCause::NoRoute),
            (Self::Unreachable, Family::V4) => Some(IcmpCause::HostUnreachable),
            (Self::Prohibit, _) => Some(IcmpCause::Prohibited),
            _ => None,
        }
    }
}

/// Rules and tables of both families.
#[derive(Clone, Debug, Default)]
pub struct Fib {
    v4: FamilyFib<u32>,
    v6: FamilyFib<u128>,
    routes: Box<[Route]>,
    hops: Box<[Hop]>,
}

#[derive(Clone, Debug)]
struct FamilyFib<A> {
    rules: Box<[Rule]>,
    tables: Box<[Intervals<A>]>,
}

impl<A> Default for FamilyFib<A> {
    fn default() -> Self {
        Self { rules: Box::default(), tables: Box::default() }
    }
}

/// A rule, ready to be followed.
#[derive(Clone, Debug)]
struct Rule {
    entry: RuleEntry,
    step: Step,
}

/// What the rules and tables say.
enum Found<'f> {
    Certain(RouteResult),
    Unicast(&'f Route),
}

/// How strictly a packet's source is checked (`net.ipv4.conf.*.rp_filter`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceCheck {
    /// Not at all: 0.
    #[default]
    Off,
    /// The way back must lead out of the interface that the packet came in by: 1.
    Strict,
    /// There must be a way back: 2.
    Loose,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Looks into the table at this place.
    Table(usize),
    /// Goes on at this rule, which is further on.
    Goto(usize),
    /// The result is certain.
    Stop(RouteResult),
}

/// A route's part that the look-up needs; `hops` are `len` from `first` on in [`Fib::hops`].
#[derive(Clone, Copy, Debug)]
struct Route {
    kind: RouteKind,
    prefix_len: u8,
    mtu: Option<u32>,
    src: Option<IpAddr>,
    first: u32,
    len: u32,
    total_weight: u32,
}

impl Fib {
    /// Builds from all routes and rules.
    ///
    /// `skip_table` leaves out one table and the rules that lead to it: the one whose routes
    /// bring local traffic to the data path, which must not send it back to itself. Without rules
    /// for a family nothing of that family is routed; [`RuleEntry::defaults`] has those that a
    /// host begins with.
    pub fn new(
        routes: impl IntoIterator<Item = RouteEntry>,
        rules: impl IntoIterator<Item = RuleEntry>,
        skip_table: Option<u32>,
    ) -> Self {
        let mut routes: Vec<RouteEntry> = routes
            .into_iter()
            .filter(|r| Some(r.table) != skip_table)
            .filter(|r| r.kind != RouteKind::Unicast || !r.hops.is_empty())
            .collect();
        // Of several routes to one prefix the interval table takes the first.
        routes.sort_by_key(|r| r.priority);

        let mut fib = Self::default();
        let mut compiled = Vec::with_capacity(routes.len());
        let mut hops = Vec::new();
        let mut v4: BTreeMap<u32, Vec<(u32, u8, u32)>> = BTreeMap::new();
        let mut v6: BTreeMap<u32, Vec<(u128, u8, u32)>> = BTreeMap::new();
        for route in routes {
            let index = compiled.len() as u32;
            let prefix_len = route.dst.len;
            match route.dst.addr {
                IpAddr::V4(a) => {
                    v4.entry(route.table).or_default().push((a.to_bits(), prefix_len, index));
                }
                IpAddr::V6(a) => {
                    v6.entry(route.table).or_default().push((a.to_bits(), prefix_len, index));
                }
            }
            compiled.push(Route {
                kind: route.kind,
                prefix_len,
                mtu: route.mtu,
                src: route.src,
                first: hops.len() as u32,
                len: route.hops.len() as u32,
                total_weight: route.hops.iter().map(|h| u32::from(h.weight.max(1))).sum(),
            });
            hops.extend(route.hops);
        }
        fib.routes = compiled.into();
        fib.hops = hops.into();

        let mut rules: Vec<RuleEntry> = rules
            .into_iter()
            .filter(|r| skip_table.is_none_or(|t| r.action != RuleAction::Table(t)))
            .collect();
        rules.sort_by_key(|r| r.priority);
        let (rules4, rules6): (Vec<_>, Vec<_>) =
            rules.into_iter().partition(|r| r.family == Family::V4);
        fib.v4.rules = compile(rules4, v4.keys());
        fib.v6.rules = compile(rules6, v6.keys());
        fib.v4.tables = v4.into_values().map(Intervals::new).collect();
        fib.v6.tables = v6.into_values().map(Intervals::new).collect();
        fib
    }

    /// How many routes there are, in all tables that were not skipped.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there are no routes at all.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Where a packet goes that came in by interface `iif` (the loopback's index for packets of
    /// this host) with this mark.
    ///
    /// Both addresses are of one family; otherwise nothing is found. Of several next hops, flows
    /// are spread by source and destination address (Linux's default, `fib_multipath_hash_policy`
    /// 0). Destinations that are never routed (multicast, limited broadcast, IPv6 link-local) are
    /// local: Linux knows what to do with them.
    pub fn lookup(&self, dst: IpAddr, src: IpAddr, mark: u32, iif: u32) -> RouteResult {
        match (dst, src) {
            (IpAddr::V4(d), IpAddr::V4(s)) => {
                if d.is_multicast() || d.is_broadcast() {
                    return RouteResult::Local;
                }
                let [first, ..] = d.octets();
                let [from, ..] = s.octets();
                if matches!(first, 0 | 127)
                    || matches!(from, 0 | 127)
                    || s.is_multicast()
                    || s.is_broadcast()
                {
                    return RouteResult::Blackhole;
                }
                self.follow(&self.v4, d.to_bits(), dst, src, mark, iif)
            }
            (IpAddr::V6(d), IpAddr::V6(s)) => {
                if d.is_multicast() || d.is_unicast_link_local() {
                    return RouteResult::Local;
                }
                if d.is_unspecified() || d.is_loopback() || s.is_loopback() || s.is_multicast() {
                    return RouteResult::Blackhole;
                }
                match self.follow(&self.v6, d.to_bits(), dst, src, mark, iif) {
                    // Such sources reach this link at most (RFC 4291 §2.5.2, §2.5.6).
                    RouteResult::Unicast { .. }
                        if s.is_unspecified() || s.is_unicast_link_local() =>
                    {
                        RouteResult::Blackhole
                    }
                    result => result,
                }
            }
            _ => RouteResult::None,
        }
    }

    /// Whether an IPv4 packet passes Linux's reverse path filter (RFC 3704 §2): whether the way
    /// back to its source is a unicast route, and for a strict check one that leads out of the
    /// interface that the packet came in by, over any of its next hops.
    ///
    /// IPv6 packets pass: Linux filters them by netfilter rules only.
    pub fn is_way_back(&self, h: &Headers, mark: u32, iif: u32, check: SourceCheck) -> bool {
        let (IpAddr::V4(src), strict) = (h.src, check == SourceCheck::Strict) else { return true };
        if check == SourceCheck::Off {
            return true;
        }
        match self.find(&self.v4, src.to_bits(), h.src, h.dst, mark, iif) {
            // Only Linux can say.
            Found::Certain(result) => result == RouteResult::Linux,
            Found::Unicast(_) if !strict => true,
            Found::Unicast(route) => {
                let first = route.first as usize;
                let hops = self.hops.get(first..first + route.len as usize);
                hops.is_some_and(|hops| hops.iter().any(|hop| hop.ifindex == iif))
            }
        }
    }

    fn follow<A: crate::intervals::Address>(
        &self,
        family: &FamilyFib<A>,
        key: A,
        dst: IpAddr,
        src: IpAddr,
        mark: u32,
        iif: u32,
    ) -> RouteResult {
        match self.find(family, key, dst, src, mark, iif) {
            Found::Certain(result) => result,
            Found::Unicast(route) => self.unicast(route, dst, src),
        }
    }

    fn find<'f, A: crate::intervals::Address>(
        &'f self,
        family: &FamilyFib<A>,
        key: A,
        dst: IpAddr,
        src: IpAddr,
        mark: u32,
        iif: u32,
    ) -> Found<'f> {
        let mut at = 0;
        while let Some(rule) = family.rules.get(at) {
            at += 1;
            if !rule.entry.matches(dst, src, mark, iif) {
                continue;
            }
            let table = match rule.step {
                Step::Table(table) => table,
                Step::Goto(to) => {
                    at = at.max(to);
                    continue;
                }
                Step::Stop(result) => return Found::Certain(result),
            };
            let found = family.tables.get(table).and_then(|t| t.find(key));
            let Some(route) = found.and_then(|i| self.routes.get(i as usize)) else { continue };
            if rule.entry.suppress_prefix_len.is_some_and(|len| route.prefix_len <= len) {
                continue;
            }
            return Found::Certain(match route.kind {
                RouteKind::Throw => continue,
                RouteKind::Local => RouteResult::Local,
                RouteKind::Blackhole => RouteResult::Blackhole,
                RouteKind::Unreachable => RouteResult::Unreachable,
                RouteKind::Prohibit => RouteResult::Prohibit,
                RouteKind::Unicast => return Found::Unicast(route),
            });
        }
        Found::Certain(RouteResult::None)
    }

    fn unicast(&self, route: &Route, dst: IpAddr, src: IpAddr) -> RouteResult {
        let first = route.first as usize;
        let hops = self.hops.get(first..first + route.len as usize).unwrap_or_default();
        let hop = match hops {
            [] => return RouteResult::None,
            [only] => only,
            [first, ..] => {
                // The hash's place in 0..total_weight, without a division.
                let place = (u64::from(flow_hash(dst, src)) * u64::from(route.total_weight)) >> 32;
                let mut upto = 0u64;
                let chosen = hops.iter().find(|hop| {
                    upto += u64::from(hop.weight.max(1));
                    place < upto
                });
                chosen.unwrap_or(first)
            }
        };
        RouteResult::Unicast {
            ifindex: hop.ifindex,
            gateway: hop.gateway,
            mtu: route.mtu,
            src: route.src,
        }
    }
}

/// Resolves tables and jumps to places; `tables` are in the order of the interval tables. Rules
/// that can do nothing (a table without routes, a jump to nowhere) are made to fall through.
fn compile<'a>(rules: Vec<RuleEntry>, tables: impl Iterator<Item = &'a u32>) -> Box<[Rule]> {
    let tables: Vec<u32> = tables.copied().collect();
    let priorities: Vec<u32> = rules.iter().map(|r| r.priority).collect();
    let mut out = Vec::with_capacity(rules.len());
    for (at, entry) in rules.into_iter().enumerate() {
        let step = match entry.action {
            RuleAction::Table(table) => {
                // usize::MAX is no place, so an empty table finds nothing.
                Step::Table(tables.binary_search(&table).unwrap_or(usize::MAX))
            }
            RuleAction::Goto(priority) => {
                let target = priorities.iter().position(|p| *p == priority);
                Step::Goto(target.filter(|t| *t > at).unwrap_or(at + 1))
            }
            RuleAction::Blackhole => Step::Stop(RouteResult::Blackhole),
            RuleAction::Unreachable => Step::Stop(RouteResult::Unreachable),
            RuleAction::Prohibit => Step::Stop(RouteResult::Prohibit),
            RuleAction::Opaque => Step::Stop(RouteResult::Linux),
        };
        out.push(Rule { entry, step });
    }
    out.into()
}

/// A hash of the two addresses: even, the same for every packet of a flow, not keyed (a sender
/// who picks addresses can pick the hop; nothing but balance hangs on it).
fn flow_hash(dst: IpAddr, src: IpAddr) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = 0u64;
    let mut mix = |word: u64| {
        state = (state ^ word).wrapping_mul(ODD);
        state ^= state >> 29;
    };
    for addr in [dst, src] {
        match addr {
            IpAddr::V4(a) => mix(a.to_bits().into()),
            IpAddr::V6(a) => {
                let bits = a.to_bits();
                mix(bits as u64);
                mix((bits >> 64) as u64);
            }
        }
    }
    (state.wrapping_mul(ODD) >> 32) as u32
}
