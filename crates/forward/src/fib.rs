//! Routing: rules choose tables, tables choose routes by the longest prefix.
//!
//! A [`Fib`] never changes; a change of rules or routes makes a new one, which shares what is the
//! same ([`Routes`](crate::Routes)). Workers look up without locks or allocation.

use core::net::IpAddr;
use std::sync::Arc;

use wire::Headers;

use crate::address::Address;
use crate::route::RuleEntry;
use crate::route_result::RouteResult;
use crate::targets::Target;
use crate::trie::{NOTHING, Trie, UNKNOWN};

/// Rules and tables of both families.
#[derive(Clone, Debug, Default)]
pub struct Fib {
    v4: FamilyFib<u32>,
    v6: FamilyFib<u128>,
    targets: Arc<Vec<Target>>,
    len: usize,
}

/// Rules and tables of one family.
#[derive(Clone, Debug)]
pub(crate) struct FamilyFib<A> {
    steps: Box<[Rule]>,
    tries: Box<[Trie<A>]>,
    /// Tables that are looked into by their numbers, and the trie of each.
    pinned: Box<[(u32, usize)]>,
}

impl<A> FamilyFib<A> {
    pub(crate) const fn new(
        steps: Box<[Rule]>,
        tries: Box<[Trie<A>]>,
        pinned: Box<[(u32, usize)]>,
    ) -> Self {
        Self { steps, tries, pinned }
    }
}

impl<A: Address> FamilyFib<A> {
    /// The value of an address in a pinned table.
    fn find_in(&self, table: u32, key: A) -> Option<u32> {
        let (_, at) = self.pinned.iter().find(|(pinned, _)| *pinned == table)?;
        Some(self.tries.get(*at)?.find(key)).filter(|value| *value != NOTHING && *value != UNKNOWN)
    }
}

impl<A> Default for FamilyFib<A> {
    fn default() -> Self {
        Self { steps: Box::default(), tries: Box::default(), pinned: Box::default() }
    }
}

/// A rule or several, ready to be followed.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The rule whose conditions count; `None` for every packet.
    pub(crate) condition: Option<Box<RuleEntry>>,
    pub(crate) step: Step,
}

/// Answer of the rules and tables.
enum Found<'f> {
    Certain(RouteResult),
    Target(&'f Target),
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
pub(crate) enum Step {
    /// Looks into the trie at this place.
    View(usize),
    /// Goes on at this step, which is further on.
    Goto(usize),
    /// The result is certain.
    Stop(RouteResult),
}

impl Fib {
    pub(crate) const fn of_parts(
        v4: FamilyFib<u32>,
        v6: FamilyFib<u128>,
        targets: Arc<Vec<Target>>,
        len: usize,
    ) -> Self {
        Self { v4, v6, targets, len }
    }

    /// How many prefixes have a route, in all tables that were not skipped.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there are no routes at all.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory that look-ups use. Part of it may be shared with earlier tables.
    pub fn memory_bytes(&self) -> usize {
        let v4: usize = self.v4.tries.iter().map(Trie::memory_bytes).sum();
        let v6: usize = self.v6.tries.iter().map(Trie::memory_bytes).sum();
        v4 + v6 + self.targets.len() * size_of::<Target>()
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

    /// Where one table leads a packet, whatever the rules say. Only tables that were pinned are known
    /// ([`Routes::pin`](crate::Routes::pin)).
    pub fn lookup_in(&self, table: u32, dst: IpAddr, src: IpAddr) -> RouteResult {
        let found = match (dst, src) {
            (IpAddr::V4(d), IpAddr::V4(_)) if d.is_multicast() || d.is_broadcast() => {
                return RouteResult::Blackhole;
            }
            (IpAddr::V6(d), IpAddr::V6(s))
                if d.is_multicast()
                    || d.is_unicast_link_local()
                    || d.is_loopback()
                    || s.is_unicast_link_local() =>
            {
                return RouteResult::Blackhole;
            }
            (IpAddr::V4(d), IpAddr::V4(_)) => self.v4.find_in(table, d.to_bits()),
            (IpAddr::V6(d), IpAddr::V6(_)) => self.v6.find_in(table, d.to_bits()),
            _ => None,
        };
        let target = found.and_then(|value| self.targets.get(value as usize - 1));
        target.map_or(RouteResult::None, |target| target.choose(dst, src))
    }

    /// True if every packet to an address is this host's, whatever its source, mark and interface:
    /// the rule that says so comes before all that have conditions. False for addresses that are
    /// never routed. Sources that no packet may have are not compared.
    pub fn is_local_to_all(&self, dst: IpAddr) -> bool {
        match dst {
            IpAddr::V4(d) => {
                let [first, ..] = d.octets();
                let is_routed = !d.is_multicast() && !d.is_broadcast() && !matches!(first, 0 | 127);
                is_routed && self.is_local_by(&self.v4, d.to_bits())
            }
            IpAddr::V6(d) => {
                let is_routed = !d.is_multicast()
                    && !d.is_unicast_link_local()
                    && !d.is_unspecified()
                    && !d.is_loopback();
                is_routed && self.is_local_by(&self.v6, d.to_bits())
            }
        }
    }

    fn is_local_by<A: Address>(&self, family: &FamilyFib<A>, key: A) -> bool {
        let mut at = 0;
        while let Some(Rule { condition: None, step }) = family.steps.get(at) {
            at += 1;
            match *step {
                Step::View(view) => {
                    let value = family.tries.get(view).map_or(UNKNOWN, |trie| trie.find(key));
                    if value == NOTHING {
                        continue;
                    }
                    let target = self.targets.get(value as usize - 1);
                    return matches!(target, Some(Target::Fixed(RouteResult::Local)));
                }
                Step::Goto(to) => at = at.max(to),
                Step::Stop(result) => return result == RouteResult::Local,
            }
        }
        false
    }

    /// True if an IPv4 packet passes Linux's reverse path filter (RFC 3704 §2): the way back to its
    /// source is a unicast route, and for a strict check one that leads out of the interface that
    /// the packet came in by, over any of its next hops.
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
            Found::Target(target) => {
                target.leaves_by(iif).is_some_and(|is_same| is_same || !strict)
            }
        }
    }

    fn follow<A: Address>(
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
            Found::Target(target) => target.choose(dst, src),
        }
    }

    fn find<A: Address>(
        &self,
        family: &FamilyFib<A>,
        key: A,
        dst: IpAddr,
        src: IpAddr,
        mark: u32,
        iif: u32,
    ) -> Found<'_> {
        let mut at = 0;
        while let Some(rule) = family.steps.get(at) {
            at += 1;
            if rule.condition.as_ref().is_some_and(|c| !c.matches(dst, src, mark, iif)) {
                continue;
            }
            match rule.step {
                Step::View(view) => {
                    let value = family.tries.get(view).map_or(UNKNOWN, |trie| trie.find(key));
                    if value == NOTHING {
                        continue;
                    }
                    let target = self.targets.get(value as usize - 1);
                    return target.map_or(Found::Certain(RouteResult::Linux), Found::Target);
                }
                Step::Goto(to) => at = at.max(to),
                Step::Stop(result) => return Found::Certain(result),
            }
        }
        Found::Certain(RouteResult::None)
    }
}
