//! Which routes are wanted in culvert's table: decisions only, from policies and from Linux's routes,
//! rules and addresses.
//!
//! | destination | in the table |
//! | --- | --- |
//! | of a policy that protects | a route to the private interface, with the source address that Linux itself would take, or the best that the policies for this destination take |
//! | inside such a one, and Linux has a route of its own for it from another address | a route to the private interface with that address |
//! | inside such a one, of a policy that lets everything pass, or leaves it to Linux, which Linux itself would send there | `throw`: Linux's own tables decide |
//! | inside such a one, multicast, broadcast or link-local | `throw` |
//! | of a route by which Linux would send to an XFRM interface whose SAs are culvert's | a route to the private interface, with the source address that Linux itself would take |
//! | inside such a one, and Linux would send it elsewhere | `throw` |
//!
//! A route that says the same as the one around it is left out. A change costs what it touches: a
//! destination, and what lies inside of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mirror::Prefix;
use policy::{Action, Direction, PolicyConfig};

use super::linux_way::Linux;

/// The route to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// To the private interface, with this source address where Linux has one.
    Culvert(Option<IpAddr>),
    /// The look-up goes on as if culvert were not there.
    Throw,
}

/// Most routes with sources of their own inside one protected destination.
const MOST_INSIDE: usize = 256;

/// Most of Linux's routes inside a protected destination that are looked at when it changes.
const MOST_LOOKED_AT: usize = 4096;

/// Destinations that no IPsec peer has: they are Linux's.
const LINUX_ALONE: [Prefix; 4] = [
    Prefix { addr: IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), len: 4 },
    Prefix { addr: IpAddr::V4(Ipv4Addr::BROADCAST), len: 32 },
    Prefix { addr: IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), len: 10 },
    Prefix { addr: IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), len: 8 },
];

/// Everything of both families.
const EVERYTHING: [Prefix; 2] = [
    Prefix { addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED), len: 0 },
    Prefix { addr: IpAddr::V6(Ipv6Addr::UNSPECIFIED), len: 0 },
];

/// The table as wanted.
#[derive(Debug, Default)]
pub struct OwnTable {
    /// True if it is for packets with a mark.
    is_for_marks: bool,
    /// Outbound policies by destination.
    policies: BTreeMap<Prefix, OfDestination>,
    /// Destinations of policies that let everything pass.
    passed: BTreeSet<Prefix>,
    entries: BTreeMap<Prefix, Entry>,
    /// The entries that no policy protects, each with the protected destination around it if it has
    /// a source of its own.
    loose: BTreeMap<Prefix, Option<Prefix>>,
    /// How many sources of their own are inside each protected destination.
    inside: BTreeMap<Prefix, usize>,
    /// Protected destinations inside of which Linux has too many routes.
    crowded: BTreeSet<Prefix>,
    /// Destinations that Linux would send to an XFRM interface.
    led: BTreeMap<Prefix, ()>,
}

/// The policies for one destination.
#[derive(Debug, Default)]
struct OfDestination {
    /// How many of them protect.
    protecting: usize,
    by_source: BTreeMap<Prefix, OfSource>,
}

/// Policies with one source selector.
#[derive(Debug, Default)]
struct OfSource {
    protecting: usize,
    held: BTreeSet<Held>,
}

/// A policy: lower priorities come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    priority: u32,
    index: u32,
    effect: Effect,
}

/// Effect of a policy, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    Protect,
    Block,
    /// Lets every packet between its prefixes pass.
    PassAll,
    /// Lets some pass.
    PassSome,
}

impl OwnTable {
    /// An empty table, for packets without a mark or for those with one.
    pub fn new(is_for_marks: bool) -> OwnTable {
        OwnTable { is_for_marks, ..OwnTable::default() }
    }

    /// Starts anew with these policies; returns every destination that there was or is.
    pub fn set<'a>(
        &mut self,
        policies: impl IntoIterator<Item = &'a PolicyConfig>,
        linux: &Linux<'_>,
    ) -> BTreeSet<Prefix> {
        let fresh = OwnTable::new(self.is_for_marks);
        let old = std::mem::replace(self, fresh);
        for policy in policies {
            self.hold(policy);
        }
        for family in EVERYTHING {
            self.follow_led(family, linux);
        }
        let mut changed: BTreeSet<Prefix> = old.entries.into_keys().collect();
        for family in EVERYTHING {
            changed.extend(self.redo(family, true, linux));
        }
        changed
    }

    /// Follows a policy that was added, removed or replaced. Returns the destinations whose entries
    /// changed.
    pub fn change(
        &mut self,
        old: Option<&PolicyConfig>,
        new: Option<&PolicyConfig>,
        linux: &Linux<'_>,
    ) -> BTreeSet<Prefix> {
        let mut touched = BTreeMap::<Prefix, bool>::new();
        let mut note = |at: Option<(Prefix, bool)>| {
            if let Some((dst, is_new)) = at {
                *touched.entry(dst).or_default() |= is_new;
            }
        };
        note(old.and_then(|policy| self.let_go(policy)));
        note(new.and_then(|policy| self.hold(policy)));
        let of_ours = |p: &PolicyConfig| linux.has_address_in(masked(p.selector.src));
        let is_ours = new.into_iter().chain(old).any(of_ours);
        let mut changed = BTreeSet::new();
        for (dst, is_new) in touched {
            // Which of this host's addresses are sources for it has not changed, nor what passes.
            if is_new || is_ours {
                changed.extend(self.redo(dst, false, linux));
            }
        }
        changed
    }

    /// Linux's routes to some destinations changed.
    pub fn routes_changed(
        &mut self,
        destinations: impl IntoIterator<Item = Prefix>,
        linux: &Linux<'_>,
    ) -> BTreeSet<Prefix> {
        let mut changed = BTreeSet::new();
        for dst in destinations {
            self.follow_led(dst, linux);
            changed.extend(self.redo(dst, true, linux));
        }
        changed
    }

    /// Finds out anew which destinations in a region lead to an XFRM interface. Interfaces know no marks of
    /// culvert's: what has one is led by the other table.
    fn follow_led(&mut self, region: Prefix, linux: &Linux<'_>) {
        if self.is_for_marks {
            return;
        }
        let before: Vec<Prefix> = within(&self.led, region).map(|(dst, ())| *dst).collect();
        before.iter().for_each(|dst| _ = self.led.remove(dst));
        self.led.extend(linux.led_within(region).map(|dst| (dst, ())));
    }

    /// The entry wanted for a destination.
    pub fn entry(&self, dst: Prefix) -> Option<Entry> {
        self.entries.get(&dst).copied()
    }

    /// The protected destination that a destination's route is for.
    pub fn owner_of(&self, dst: Prefix) -> Option<Prefix> {
        match self.protected(dst) {
            Some(_) => Some(dst),
            None => self.loose.get(&dst).copied().flatten(),
        }
    }

    /// Destinations whose routes are for a protected one.
    pub fn owned_by(&self, owner: Prefix) -> impl Iterator<Item = Prefix> {
        let inside = within(&self.loose, owner).filter(move |(_, of)| **of == Some(owner));
        inside.map(|(dst, _)| *dst).chain([owner])
    }

    /// All wanted entries.
    pub fn entries(&self) -> impl Iterator<Item = (Prefix, Entry)> {
        self.entries.iter().map(|(dst, entry)| (*dst, *entry))
    }

    /// Protected destinations inside of which Linux has more routes than are followed; each is
    /// returned once.
    pub fn take_crowded(&mut self) -> BTreeSet<Prefix> {
        std::mem::take(&mut self.crowded)
    }

    /// Adds a policy. Returns its destination if it matters, and whether that is now protected and was
    /// not before.
    fn hold(&mut self, policy: &PolicyConfig) -> Option<(Prefix, bool)> {
        let (dst, src, held) = held(policy, self.is_for_marks)?;
        let of = self.policies.entry(dst).or_default();
        let of_source = of.by_source.entry(src).or_default();
        if !of_source.held.insert(held) {
            return None;
        }
        let is_protecting = usize::from(held.effect == Effect::Protect);
        of_source.protecting += is_protecting;
        of.protecting += is_protecting;
        if held.effect == Effect::PassAll {
            self.passed.insert(dst);
        }
        Some((dst, is_protecting == 1 && of.protecting == 1))
    }

    /// Removes a policy; the opposite of [`hold`](Self::hold).
    fn let_go(&mut self, policy: &PolicyConfig) -> Option<(Prefix, bool)> {
        let (dst, src, held) = held(policy, self.is_for_marks)?;
        let of = self.policies.get_mut(&dst)?;
        let of_source = of.by_source.get_mut(&src)?;
        if !of_source.held.remove(&held) {
            return None;
        }
        let is_protecting = usize::from(held.effect == Effect::Protect);
        of_source.protecting -= is_protecting;
        of.protecting -= is_protecting;
        let was_last = is_protecting == 1 && of.protecting == 0;
        if of_source.held.is_empty() {
            of.by_source.remove(&src);
        }
        if of.by_source.is_empty() {
            self.policies.remove(&dst);
        }
        if held.effect == Effect::PassAll && !self.passes(dst) {
            self.passed.remove(&dst);
        }
        Some((dst, was_last))
    }

    fn passes(&self, dst: Prefix) -> bool {
        let of = self.policies.get(&dst);
        let mut all = of.into_iter().flat_map(|of| of.by_source.values()).flat_map(|s| &s.held);
        all.any(|held| held.effect == Effect::PassAll)
    }

    fn protected(&self, dst: Prefix) -> Option<&OfDestination> {
        self.policies.get(&dst).filter(|of| of.protecting > 0)
    }

    /// Decides again about a destination and those inside of it: the ones that no policy protects, and
    /// if `deeply` protected ones too. Returns those that changed.
    fn redo(&mut self, region: Prefix, deeply: bool, linux: &Linux<'_>) -> BTreeSet<Prefix> {
        let owner = match self.protected(region) {
            Some(_) => Some(region),
            None => self.owner(region),
        };
        // The wider first: those inside depend on it.
        let mut todo = BTreeSet::from([(region.len, region)]);
        let mut whole = Vec::new();
        todo.extend(within(&self.loose, region).map(|(dst, _)| (dst.len, *dst)));
        let passed = self.passed.range(region..).take_while(|dst| region.contains(dst.addr));
        todo.extend(passed.map(|dst| (dst.len, *dst)));
        if owner.is_some() {
            whole.push(region);
        }
        for (dst, ()) in within(&self.led, region) {
            todo.insert((dst.len, *dst));
            whole.push(*dst);
        }
        if deeply {
            let all = within(&self.policies, region).filter(|(_, of)| of.protecting > 0);
            for (dst, _) in all.filter(|(dst, _)| **dst != region) {
                todo.insert((dst.len, *dst));
                whole.push(*dst);
            }
        }
        for around in whole {
            let alone = LINUX_ALONE.into_iter();
            let alone = alone.filter(|dst| dst.len > around.len && around.contains(dst.addr));
            todo.extend(alone.map(|dst| (dst.len, dst)));
            let mut named = linux.named_within(around);
            todo.extend(named.by_ref().take(MOST_LOOKED_AT).map(|dst| (dst.len, dst)));
            if named.next().is_some() {
                self.crowded.insert(around);
            }
        }
        let mut changed = BTreeSet::new();
        for (_, dst) in todo {
            if self.settle(dst, linux) {
                changed.insert(dst);
            }
        }
        changed
    }

    /// Decides about one destination; what is around it is settled. True if its entry changed.
    fn settle(&mut self, dst: Prefix, linux: &Linux<'_>) -> bool {
        let was_inside = self.loose.remove(&dst).flatten();
        if let Some(owner) = was_inside
            && let Some(count) = self.inside.get_mut(&owner)
        {
            *count -= 1;
            if *count == 0 {
                self.inside.remove(&owner);
            }
        }
        let entry = match self.protected(dst) {
            // What is from another address leads to an XFRM interface.
            Some(of) if self.led.contains_key(&dst) => {
                let own = linux.own_source(dst);
                let takes = |a| of.takes(a) || own == Some(a);
                Some(Entry::Culvert(linux.source_among(dst, takes)))
            }
            Some(of) => Some(Entry::Culvert(linux.source_among(dst, |a| of.takes(a)))),
            None => self.loose_entry(dst, linux),
        };
        match entry {
            Some(entry) => self.entries.insert(dst, entry) != Some(entry),
            None => self.entries.remove(&dst).is_some(),
        }
    }

    /// The entry of a destination that no policy protects.
    fn loose_entry(&mut self, dst: Prefix, linux: &Linux<'_>) -> Option<Entry> {
        let (owner, around) = (self.owner(dst), self.around(dst));
        let is_led = self.led.contains_key(&dst);
        if owner.is_none() && !is_led && self.led_around(dst).is_none() {
            return None;
        }
        // Routes to interfaces come after policies that let pass.
        if LINUX_ALONE.contains(&dst) || !is_led && self.is_passed(dst, linux) {
            return self.loosely(dst, around, Entry::Throw);
        }
        if is_led {
            return self.loosely(dst, around, Entry::Culvert(linux.own_source(dst)));
        }
        let Some(owner) = owner else {
            if !linux.names(dst) {
                return None;
            }
            return self.loosely(
                dst,
                around,
                match linux.leads_to_interface(dst) {
                    true => Entry::Culvert(linux.own_source(dst)),
                    false => Entry::Throw,
                },
            );
        };
        if around == Some(Entry::Throw) || !linux.names(dst) {
            return None;
        }
        let of = self.protected(owner)?;
        let entry = Entry::Culvert(linux.source_among(dst, |a| of.takes(a)));
        if around == Some(entry) {
            return None;
        }
        let count = self.inside.get(&owner).copied().unwrap_or(0);
        if count >= MOST_INSIDE {
            self.crowded.insert(owner);
            return None;
        }
        self.inside.insert(owner, count + 1);
        self.loose.insert(dst, Some(owner));
        Some(entry)
    }

    /// An entry that is left out where the one around says the same.
    fn loosely(&mut self, dst: Prefix, around: Option<Entry>, entry: Entry) -> Option<Entry> {
        (around != Some(entry)).then(|| {
            self.loose.insert(dst, None);
            entry
        })
    }

    /// The narrowest destination around one that leads to an XFRM interface.
    fn led_around(&self, dst: Prefix) -> Option<Prefix> {
        around(&self.led, dst).next().map(|(around, ())| around)
    }

    /// True if Linux's own traffic to a destination passes: the address that Linux would take has
    /// a policy that lets it pass, and none that does otherwise comes first.
    fn is_passed(&self, dst: Prefix, linux: &Linux<'_>) -> bool {
        if !self.passed.contains(&dst) {
            return false;
        }
        let Some(source) = linux.own_source(dst) else {
            return false;
        };
        let passes = |held: &&Held| held.effect == Effect::PassAll;
        let of = self.policies.get(&dst);
        let first = of.and_then(|of| of.of(source).filter(passes).map(|h| h.priority).min());
        let Some(first) = first else { return false };
        // What is wider than the destination decides about it too. What is narrower and protects
        // has an entry of its own.
        let mut others = (0..=dst.len).filter_map(|len| {
            let of = self.policies.get(&Prefix::of(dst.addr, len))?;
            let mut all = of.of(source);
            all.find(|h| h.priority <= first && matches!(h.effect, Effect::Protect | Effect::Block))
        });
        others.next().is_none()
    }

    /// The narrowest protected destination around one.
    fn owner(&self, dst: Prefix) -> Option<Prefix> {
        around(&self.policies, dst).find(|(_, of)| of.protecting > 0).map(|(around, _)| around)
    }

    /// The entry that counts for a destination without one of its own.
    fn around(&self, dst: Prefix) -> Option<Entry> {
        around(&self.entries, dst).next().map(|(_, entry)| *entry)
    }
}

impl OfDestination {
    /// True if a policy that protects takes this source.
    fn takes(&self, source: IpAddr) -> bool {
        let of = |len| self.by_source.get(&Prefix::of(source, len));
        (0..=width(source)).filter_map(of).any(|of| of.protecting > 0)
    }

    /// The policies for this source.
    fn of(&self, source: IpAddr) -> impl Iterator<Item = &Held> {
        let of = move |len| self.by_source.get(&Prefix::of(source, len));
        (0..=width(source)).filter_map(of).flat_map(|of| &of.held)
    }
}

const fn width(addr: IpAddr) -> u8 {
    match addr {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Entries of a map for a prefix and those inside it.
fn within<V>(map: &BTreeMap<Prefix, V>, region: Prefix) -> impl Iterator<Item = (&Prefix, &V)> {
    let all = map.range(region..).take_while(move |(dst, _)| region.contains(dst.addr));
    all.filter(move |(dst, _)| dst.len >= region.len)
}

/// Entries of a map for the prefixes around one, the narrowest first.
fn around<V>(map: &BTreeMap<Prefix, V>, dst: Prefix) -> impl Iterator<Item = (Prefix, &V)> {
    let mut most = dst.len.checked_sub(1);
    std::iter::from_fn(move || {
        loop {
            let (found, value) = map.range(..=Prefix::of(dst.addr, most?)).next_back()?;
            // What is between the two has more bits in common with the destination.
            let common = found.common_len(dst.addr)?;
            let is_around = common == found.len;
            most = if is_around { found.len.checked_sub(1) } else { Some(common) };
            if is_around {
                return Some((*found, value));
            }
        }
    })
}

/// An outbound policy: destination, source, and the rest of it.
fn held(policy: &PolicyConfig, is_for_marks: bool) -> Option<(Prefix, Prefix, Held)> {
    // What is for a tunnel interface is routed to that.
    let has_mark = !policy.mark.matches(0);
    if policy.direction != Direction::Out || policy.if_id != 0 || has_mark != is_for_marks {
        return None;
    }
    let s = &policy.selector;
    let is_for_all =
        s.protocol == 0 && s.src_port.mask == 0 && s.dst_port.mask == 0 && s.ifindex == 0;
    let effect = match (policy.action, policy.templates.is_empty()) {
        (Action::Block, _) => Effect::Block,
        // Also on its way between Linux and the data path.
        (Action::Allow | Action::Leave, false) => Effect::Protect,
        (Action::Allow | Action::Leave, true) if is_for_all => Effect::PassAll,
        (Action::Allow | Action::Leave, true) => Effect::PassSome,
    };
    let held = Held { priority: policy.priority, index: policy.index, effect };
    Some((masked(s.dst), masked(s.src), held))
}

/// Without the host bits, which routes do not have.
fn masked(prefix: policy::Prefix) -> Prefix {
    Prefix::of(prefix.addr, prefix.len)
}
