//! The whole of what is mirrored, and how notifications and dumps change it.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::BTreeMap;

use crate::decode::Message;
use crate::l2tp::with_headroom;
use crate::model::{
    Address, Family, Forwarding, Link, Neighbour, NeighbourState, Prefix, Route, RouteKey, Rule,
};
use crate::overlay::Overlay;

/// A change of Linux's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A link is new or different.
    Link(Link),
    /// A link is gone.
    LinkRemoved(Link),
    /// An address is new or different.
    Address(Address),
    /// An address is gone.
    AddressRemoved(Address),
    /// A rule is new.
    Rule(Rule),
    /// A rule is gone.
    RuleRemoved(Rule),
    /// A route is new or different.
    Route(Route),
    /// A route is gone, or has been replaced by one that follows.
    RouteRemoved(Route),
    /// A neighbour's entry is new or different.
    Neighbour(Neighbour),
    /// A neighbour's entry is gone.
    NeighbourRemoved(Neighbour),
    /// A forwarding entry of an overlay is new or different.
    Forwarding(Forwarding),
    /// A forwarding entry of an overlay is gone.
    ForwardingRemoved(Forwarding),
}

/// The parts of a snapshot that are dumped one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Links,
    Addresses,
    Rules,
    Routes4,
    Routes6,
    Neighbours,
    Forwarding,
    /// Sessions of L2TPv3.
    Sessions,
}

impl Part {
    pub(crate) const ALL: [Part; 8] = [
        Part::Links,
        Part::Addresses,
        Part::Rules,
        Part::Routes4,
        Part::Routes6,
        Part::Neighbours,
        Part::Forwarding,
        Part::Sessions,
    ];

    const fn routes(family: Family) -> Part {
        match family {
            Family::V4 => Part::Routes4,
            Family::V6 => Part::Routes6,
        }
    }
}

/// The parts that notifications alone do not keep right, and that have to be dumped again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stale(u16);

impl Stale {
    pub(crate) const fn all() -> Stale {
        Stale((1 << Part::ALL.len()) - 1)
    }

    pub(crate) const fn mark(&mut self, part: Part) {
        self.0 |= 1 << part as u8;
    }

    pub(crate) const fn clear(&mut self, part: Part) {
        self.0 &= !(1 << part as u8);
    }

    pub(crate) const fn contains(self, part: Part) -> bool {
        self.0 & 1 << part as u8 != 0
    }
}

/// Links, addresses, rules, routes and neighbours of a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    links: BTreeMap<u32, Link>,
    /// Addresses of each interface in Linux's order; no list is empty.
    addresses: BTreeMap<u32, Vec<Address>>,
    /// In Linux's order: by priority, among equals the older first.
    rules: Vec<Rule>,
    /// Routes of each key in Linux's order; no list is empty.
    routes: BTreeMap<RouteKey, Vec<Route>>,
    neighbours: BTreeMap<(u32, IpAddr), Neighbour>,
    forwarding: BTreeMap<(u32, [u8; 6], IpAddr), Forwarding>,
    /// Sessions of L2TPv3, by the names of their interfaces. Links have them as their overlays.
    sessions: BTreeMap<String, Overlay>,
}

impl Snapshot {
    /// All links, by index.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.values()
    }

    /// The link of this index.
    pub fn link(&self, index: u32) -> Option<&Link> {
        self.links.get(&index)
    }

    /// The link of this name.
    pub fn link_by_name(&self, name: &str) -> Option<&Link> {
        self.links.values().find(|link| link.name == name)
    }

    /// All addresses, by interface.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.addresses.values().flatten()
    }

    /// The addresses of one interface, in the order in which Linux looks at them.
    pub fn addresses_of(&self, ifindex: u32) -> impl Iterator<Item = &Address> {
        self.addresses.get(&ifindex).into_iter().flatten()
    }

    /// The rules of a family in the order in which they apply.
    pub fn rules(&self, family: Family) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.family == family)
    }

    /// All routes: by table, destination, metric; of one key in the order in which they apply.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.values().flatten()
    }

    /// The routes of one table.
    pub fn routes_of(&self, table: u32) -> impl Iterator<Item = &Route> {
        let dst = Prefix::of(Family::V4.unspecified(), 0);
        let first = RouteKey { table, dst, metric: 0, tos: 0, src: None };
        self.routes
            .range(first..)
            .take_while(move |(key, _)| key.table == table)
            .flat_map(|(_, l)| l)
    }

    /// The routes of one table to one destination, in the order in which they apply.
    pub fn routes_to(&self, table: u32, dst: Prefix) -> impl Iterator<Item = &Route> {
        let first = RouteKey { table, dst, metric: 0, tos: 0, src: None };
        let of_dst = move |key: &RouteKey| (key.table, key.dst) == (table, dst);
        self.routes
            .range(first..)
            .take_while(move |(key, _)| of_dst(key))
            .flat_map(|(_, list)| list)
    }

    /// The routes of one table to a prefix and to those around it, the longest first; of one
    /// destination in the order in which they apply.
    pub fn routes_around(&self, table: u32, dst: Prefix) -> impl Iterator<Item = &Route> {
        let first = RouteKey {
            table,
            dst: Prefix::of(Family::of(dst.addr).unspecified(), 0),
            metric: 0,
            tos: 0,
            src: None,
        };
        let mut most = Some(dst.len);
        let around = std::iter::from_fn(move || {
            loop {
                // The first of the next prefix, where that is not beyond all.
                let end = RouteKey { dst: Prefix::of(dst.addr, most?), metric: u32::MAX, ..first };
                let end = RouteKey { tos: u8::MAX, src: Some(LAST), ..end };
                let found = self.routes.range(first..=end).next_back()?.0.dst;
                // What is between the two has more bits in common with the destination.
                let common = found.common_len(dst.addr)?;
                let is_around = common == found.len;
                most = if is_around { found.len.checked_sub(1) } else { Some(common) };
                if is_around {
                    return Some(found);
                }
            }
        });
        around.flat_map(move |found| self.routes_to(table, found))
    }

    /// The routes of one table to destinations inside a prefix, itself left out.
    pub fn routes_within(&self, table: u32, prefix: Prefix) -> impl Iterator<Item = &Route> {
        let first = RouteKey { table, dst: prefix, metric: 0, tos: 0, src: None };
        let is_inside = move |dst: Prefix| dst.len > prefix.len && prefix.contains(dst.addr);
        self.routes
            .range(first..)
            .take_while(move |(key, _)| key.table == table && prefix.contains(key.dst.addr))
            .filter(move |(key, _)| is_inside(key.dst))
            .flat_map(|(_, list)| list)
    }

    /// All neighbours, by interface.
    pub fn neighbours(&self) -> impl Iterator<Item = &Neighbour> {
        self.neighbours.values()
    }

    /// The neighbours on one interface.
    pub fn neighbours_on(&self, ifindex: u32) -> impl Iterator<Item = &Neighbour> {
        let first = (ifindex, Family::V4.unspecified());
        self.neighbours
            .range(first..)
            .take_while(move |(key, _)| key.0 == ifindex)
            .map(|(_, neighbour)| neighbour)
    }

    /// The forwarding entries of an overlay's interface, by station.
    pub fn forwarding_of(&self, ifindex: u32) -> impl Iterator<Item = &Forwarding> {
        let first = (ifindex, [0; 6], Family::V4.unspecified());
        self.forwarding
            .range(first..)
            .take_while(move |(key, _)| key.0 == ifindex)
            .map(|(_, entry)| entry)
    }

    /// A neighbour's entry.
    pub fn neighbour(&self, ifindex: u32, ip: IpAddr) -> Option<&Neighbour> {
        self.neighbours.get(&(ifindex, ip))
    }

    /// Change of a stale neighbour when it is used.
    pub(crate) fn used(&mut self, ifindex: u32, ip: IpAddr) -> Option<Change> {
        let neighbour = self.neighbours.get_mut(&(ifindex, ip))?;
        if neighbour.state != NeighbourState::Stale {
            return None;
        }
        neighbour.state = NeighbourState::Delay;
        Some(Change::Neighbour(*neighbour))
    }

    /// Applies a notification. What it leaves open is marked stale: Linux says nothing about the
    /// IPv4 routes that go with a link or an address, nor about next hops that die or recover, and
    /// several routes of one key cannot be told apart by a message about one of them.
    pub(crate) fn apply(&mut self, message: Message, changes: &mut Vec<Change>, stale: &mut Stale) {
        match message {
            Message::Link(link) => {
                let link = self.with_session(link);
                let old = self.links.insert(link.index, link.clone());
                if old.as_ref() == Some(&link) {
                    return;
                }
                if old.is_none_or(|old| (old.up, old.running) != (link.up, link.running)) {
                    stale.mark(Part::Routes4);
                    stale.mark(Part::Routes6);
                }
                changes.push(Change::Link(link));
            }
            Message::LinkGone(index) => {
                if let Some(link) = self.links.remove(&index) {
                    // Of sessions that end with their tunnel nothing is said.
                    if link.overlay.as_ref().is_some_and(|overlay| overlay.session.is_some()) {
                        stale.mark(Part::Sessions);
                    }
                    changes.push(Change::LinkRemoved(link));
                }
                self.forget_interface(index, changes);
                stale.mark(Part::Routes4);
                stale.mark(Part::Routes6);
            }
            Message::Address(address) => {
                let list = self.addresses.entry(address.ifindex).or_default();
                match list.iter_mut().find(|a| address_key(a) == address_key(&address)) {
                    Some(old) if *old == address => return,
                    Some(old) => *old = address,
                    None => {
                        // Linux sorts them by scope and age, each family in a way of its own.
                        if !list.is_empty() {
                            stale.mark(Part::Addresses);
                        }
                        list.push(address);
                    }
                }
                changes.push(Change::Address(address));
            }
            Message::AddressGone(address) => {
                if let Some(list) = self.addresses.get_mut(&address.ifindex) {
                    let gone = |a: &mut Address| address_key(a) == address_key(&address);
                    changes.extend(list.extract_if(.., gone).map(Change::AddressRemoved));
                    if list.is_empty() {
                        self.addresses.remove(&address.ifindex);
                    }
                }
                stale.mark(Part::routes(address.family()));
            }
            Message::Rule(rule) => {
                if !self.rules.contains(&rule) {
                    let at = self.rules.partition_point(|r| r.priority <= rule.priority);
                    self.rules.insert(at, rule.clone());
                    changes.push(Change::Rule(rule));
                }
            }
            Message::RuleGone(rule) => {
                if let Some(at) = self.rules.iter().position(|r| *r == rule) {
                    changes.push(Change::RuleRemoved(self.rules.remove(at)));
                }
            }
            Message::Route { route, replaces } => {
                self.add_route(route, replaces, changes, stale);
            }
            Message::RouteGone(route) => self.remove_route(&route, changes, stale),
            Message::Neighbour(neighbour) => {
                let key = neighbour_key(&neighbour);
                put(&mut self.neighbours, key, neighbour, changes, Change::Neighbour);
            }
            Message::NeighbourGone(neighbour) => {
                if let Some(neighbour) = self.neighbours.remove(&neighbour_key(&neighbour)) {
                    changes.push(Change::NeighbourRemoved(neighbour));
                }
            }
            Message::Forwarding(entry) => {
                let key = forwarding_key(&entry);
                put(&mut self.forwarding, key, entry, changes, Change::Forwarding);
            }
            Message::ForwardingGone(entry) => {
                if let Some(entry) = self.forwarding.remove(&forwarding_key(&entry)) {
                    changes.push(Change::ForwardingRemoved(entry));
                }
            }
            Message::Overrun => *stale = Stale::all(),
            Message::Other => {}
        }
    }

    fn add_route(
        &mut self,
        route: Route,
        replaces: bool,
        changes: &mut Vec<Change>,
        stale: &mut Stale,
    ) {
        let list = self.routes.entry(route.key()).or_default();
        match list.as_mut_slice() {
            [] => list.push(route.clone()),
            [old] if *old == route => return,
            [old] if replaces => *old = route.clone(),
            _ => return stale.mark(Part::routes(route.family())),
        }
        changes.push(Change::Route(route));
    }

    fn remove_route(&mut self, gone: &Route, changes: &mut Vec<Change>, stale: &mut Stale) {
        let key = gone.key();
        let Some(list) = self.routes.get(&key) else { return };
        let is_all = |route: &Route| {
            route.next_hops.iter().all(|hop| {
                gone.next_hops.iter().any(|g| (g.ifindex, g.gateway) == (hop.ifindex, hop.gateway))
            })
        };
        match list.as_slice() {
            [only] if is_all(only) => {
                changes.extend(
                    self.routes.remove(&key).into_iter().flatten().map(Change::RouteRemoved),
                );
            }
            _ => stale.mark(Part::routes(gone.family())),
        }
    }

    /// Removes all that an interface takes with it, and adds these changes.
    fn forget_interface(&mut self, index: u32, changes: &mut Vec<Change>) {
        let addresses = self.addresses.remove(&index).into_iter().flatten();
        changes.extend(addresses.map(Change::AddressRemoved));
        let neighbours = self.neighbours.extract_if(.., |key, _| key.0 == index);
        changes.extend(neighbours.map(|(_, neighbour)| Change::NeighbourRemoved(neighbour)));
        let entries = self.forwarding.extract_if(.., |key, _| key.0 == index);
        changes.extend(entries.map(|(_, entry)| Change::ForwardingRemoved(entry)));
    }

    /// Replaces a part by what a dump brought, and reports the differences.
    pub(crate) fn replace(&mut self, part: Part, dump: Vec<Message>, changes: &mut Vec<Change>) {
        let mut new = Snapshot { sessions: self.sessions.clone(), ..Snapshot::default() };
        for message in dump {
            match message {
                Message::Route { route, .. } => {
                    new.routes.entry(route.key()).or_default().push(route);
                }
                Message::Rule(rule) => new.rules.push(rule),
                other => new.apply(other, &mut Vec::new(), &mut Stale::default()),
            }
        }
        match part {
            Part::Links => {
                let gone: Vec<u32> = self
                    .links
                    .keys()
                    .filter(|index| !new.links.contains_key(index))
                    .copied()
                    .collect();
                replace_map(&mut self.links, new.links, changes, Change::Link, Change::LinkRemoved);
                for index in gone {
                    self.forget_interface(index, changes);
                }
            }
            Part::Addresses => {
                let (old, new) = (std::mem::take(&mut self.addresses), new.addresses);
                let by_key = |all: &BTreeMap<u32, Vec<Address>>| {
                    all.values().flatten().map(|a| (address_key(a), *a)).collect::<BTreeMap<_, _>>()
                };
                let (gone, came) = (Change::AddressRemoved, Change::Address);
                replace_map(&mut by_key(&old), by_key(&new), changes, came, gone);
                self.addresses = new;
            }
            Part::Neighbours => replace_map(
                &mut self.neighbours,
                new.neighbours,
                changes,
                Change::Neighbour,
                Change::NeighbourRemoved,
            ),
            Part::Forwarding => replace_map(
                &mut self.forwarding,
                new.forwarding,
                changes,
                Change::Forwarding,
                Change::ForwardingRemoved,
            ),
            Part::Rules => {
                // A dump goes family by family; each is in order. The sort keeps that order.
                new.rules.sort_by_key(|rule| rule.priority);
                differences(&self.rules, &new.rules, changes, Change::Rule, Change::RuleRemoved);
                self.rules = new.rules;
            }
            Part::Routes4 => self.replace_routes(Family::V4, new.routes, changes),
            Part::Routes6 => self.replace_routes(Family::V6, new.routes, changes),
            // They come by other messages.
            Part::Sessions => {}
        }
    }

    /// Replaces the sessions of L2TPv3, and reports the links that differ by it.
    pub(crate) fn replace_sessions(
        &mut self,
        sessions: BTreeMap<String, Overlay>,
        changes: &mut Vec<Change>,
    ) {
        self.sessions = sessions;
        let without = |link: &Link| {
            let overlay = link.overlay.clone().filter(|overlay| overlay.session.is_none());
            Link { overlay, ..link.clone() }
        };
        let links = self.links.values().map(|link| self.with_session(without(link)));
        for link in links.collect::<Vec<_>>() {
            put(&mut self.links, link.index, link, changes, Change::Link);
        }
    }

    /// A link with the overlay of the session that names it. Only links without a kind are of L2TP.
    fn with_session(&self, link: Link) -> Link {
        if link.kind.is_some() || link.mac.is_none() || link.overlay.is_some() {
            return link;
        }
        let session = self.sessions.get(&link.name);
        let overlay = session.map(|session| Box::new(with_headroom(session, link.headroom)));
        Link { overlay, ..link }
    }

    fn replace_routes(
        &mut self,
        family: Family,
        new: BTreeMap<RouteKey, Vec<Route>>,
        changes: &mut Vec<Change>,
    ) {
        let is_meant = |key: &RouteKey| Family::of(key.dst.addr) == family;
        let gone = self.routes.extract_if(.., |key, _| is_meant(key) && !new.contains_key(key));
        changes.extend(gone.flat_map(|(_, list)| list).map(Change::RouteRemoved));
        for (key, list) in new {
            let old = self.routes.entry(key).or_default();
            differences(old, &list, changes, Change::Route, Change::RouteRemoved);
            *old = list;
        }
    }
}

/// From what is new or different, in order; what says that something is gone is taken as that too.
impl FromIterator<Change> for Snapshot {
    fn from_iter<T: IntoIterator<Item = Change>>(changes: T) -> Self {
        let mut snapshot = Snapshot::default();
        for change in changes {
            let message = match change {
                Change::Link(link) => Message::Link(link),
                Change::LinkRemoved(link) => Message::LinkGone(link.index),
                Change::Address(address) => Message::Address(address),
                Change::AddressRemoved(address) => Message::AddressGone(address),
                Change::Rule(rule) => Message::Rule(rule),
                Change::RuleRemoved(rule) => Message::RuleGone(rule),
                Change::Route(route) => Message::Route { route, replaces: true },
                Change::RouteRemoved(route) => Message::RouteGone(route),
                Change::Neighbour(neighbour) => Message::Neighbour(neighbour),
                Change::NeighbourRemoved(neighbour) => Message::NeighbourGone(neighbour),
                Change::Forwarding(entry) => Message::Forwarding(entry),
                Change::ForwardingRemoved(entry) => Message::ForwardingGone(entry),
            };
            snapshot.apply(message, &mut Vec::new(), &mut Stale::default());
        }
        snapshot
    }
}

/// No prefix is behind this one.
const LAST: Prefix = Prefix { addr: IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)), len: u8::MAX };

fn address_key(address: &Address) -> (u32, IpAddr, u8) {
    (address.ifindex, address.addr, address.prefix_len)
}

fn neighbour_key(neighbour: &Neighbour) -> (u32, IpAddr) {
    (neighbour.ifindex, neighbour.ip)
}

fn forwarding_key(entry: &Forwarding) -> (u32, [u8; 6], IpAddr) {
    (entry.ifindex, entry.mac, entry.far_end)
}

/// Inserts a value, and reports it if it is new or different.
fn put<K: Ord, V: Clone + PartialEq>(
    map: &mut BTreeMap<K, V>,
    key: K,
    value: V,
    changes: &mut Vec<Change>,
    change: fn(V) -> Change,
) {
    let old = map.insert(key, value.clone());
    if old.as_ref() != Some(&value) {
        changes.push(change(value));
    }
}

/// Replaces a map, and reports the differences.
fn replace_map<K: Ord, V: Clone + PartialEq>(
    map: &mut BTreeMap<K, V>,
    new: BTreeMap<K, V>,
    changes: &mut Vec<Change>,
    change: fn(V) -> Change,
    removed: fn(V) -> Change,
) {
    let gone = map.extract_if(.., |key, _| !new.contains_key(key));
    changes.extend(gone.map(|(_, value)| removed(value)));
    for (key, value) in new {
        put(map, key, value, changes, change);
    }
}

/// Reports the differences of two lists; where only the order differs, all of it.
fn differences<V: Clone + PartialEq>(
    old: &[V],
    new: &[V],
    changes: &mut Vec<Change>,
    change: fn(V) -> Change,
    removed: fn(V) -> Change,
) {
    if old == new {
        return;
    }
    let before = changes.len();
    changes.extend(old.iter().filter(|v| !new.contains(v)).cloned().map(removed));
    changes.extend(new.iter().filter(|v| !old.contains(v)).cloned().map(change));
    if changes.len() == before {
        changes.extend(new.iter().cloned().map(change));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NextHop, Prefix};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn route() -> impl Strategy<Value = Route> {
        (0..4u8, 0..2u32, 1..4u32, prop::option::of(1000..1003u32)).prop_map(
            |(net, metric, ifindex, mtu)| {
                let dst = Prefix { addr: [10, net, 0, 0].into(), len: 16 };
                Route { metric, mtu, ..Route::new(dst, NextHop::new(ifindex, None)) }
            },
        )
    }

    fn rule() -> impl Strategy<Value = Rule> {
        (0..5u32, 1..4u32).prop_map(|(priority, table)| Rule::new(Family::V4, priority, table))
    }

    /// A dump has no value twice.
    fn distinct<V: Clone + PartialEq>(list: Vec<V>) -> Vec<V> {
        list.iter().fold(Vec::new(), |mut all, v| {
            if !all.contains(v) {
                all.push(v.clone());
            }
            all
        })
    }

    fn as_messages(routes: Vec<Route>) -> Vec<Message> {
        routes.into_iter().map(|route| Message::Route { route, replaces: false }).collect()
    }

    proptest! {
        /// The changes of two dumps, applied to an empty set, give the state of the second dump.
        #[test]
        fn changes_lead_from_dump_to_dump(
            first in vec(route(), 0..20).prop_map(distinct),
            second in vec(route(), 0..20).prop_map(distinct),
        ) {
            let mut snapshot = Snapshot::default();
            let mut changes = Vec::new();
            snapshot.replace(Part::Routes4, as_messages(first), &mut changes);
            snapshot.replace(Part::Routes4, as_messages(second.clone()), &mut changes);
            let mut set: Vec<Route> = Vec::new();
            for change in changes {
                match change {
                    Change::Route(route) if set.contains(&route) => {}
                    Change::Route(route) => set.push(route),
                    Change::RouteRemoved(route) => {
                        let before = set.len();
                        set.retain(|r| *r != route);
                        prop_assert_eq!(set.len() + 1, before, "removed what was not there");
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            prop_assert_eq!(set.len(), second.len());
            prop_assert!(second.iter().all(|route| set.contains(route)));
            prop_assert_eq!(snapshot.routes().count(), second.len());
            for wanted in &second {
                let same = |r: &&Route| (r.table, r.dst) == (wanted.table, wanted.dst);
                let to: Vec<&Route> = snapshot.routes_to(wanted.table, wanted.dst).collect();
                prop_assert_eq!(to, snapshot.routes().filter(same).collect::<Vec<_>>());
            }
            // The same again changes nothing.
            let mut changes = Vec::new();
            snapshot.replace(Part::Routes4, as_messages(second), &mut changes);
            prop_assert_eq!(changes, vec![]);
        }

        /// Notifications either give what a dump would, or say that they do not.
        #[test]
        fn notifications_are_right_or_marked_stale(
            steps in vec((any::<bool>(), route()), 0..30),
        ) {
            let mut snapshot = Snapshot::default();
            let mut stale = Stale::default();
            // What Linux has: an added route of a key that exists goes behind it.
            let mut linux: Vec<Route> = Vec::new();
            for (add, route) in steps {
                let message = if add {
                    if linux.contains(&route) {
                        continue;
                    }
                    linux.push(route.clone());
                    Message::Route { route, replaces: false }
                } else {
                    let Some(at) = linux.iter().position(|r| *r == route) else { continue };
                    linux.remove(at);
                    Message::RouteGone(route)
                };
                snapshot.apply(message, &mut Vec::new(), &mut stale);
                if stale.contains(Part::Routes4) {
                    stale.clear(Part::Routes4);
                    snapshot.replace(Part::Routes4, as_messages(linux.clone()), &mut Vec::new());
                }
                let mut dump = Snapshot::default();
                dump.replace(Part::Routes4, as_messages(linux.clone()), &mut Vec::new());
                prop_assert_eq!(&snapshot, &dump);
            }
        }

        #[test]
        fn rules_stay_in_order(steps in vec((any::<bool>(), rule()), 0..30)) {
            let mut snapshot = Snapshot::default();
            let mut stale = Stale::default();
            let mut linux: Vec<Rule> = Vec::new();
            for (add, rule) in steps {
                let at = linux.iter().position(|r| *r == rule);
                let message = match (add, at) {
                    (true, None) => {
                        linux.push(rule.clone());
                        // Stable: behind those of the same priority.
                        linux.sort_by_key(|r| r.priority);
                        Message::Rule(rule)
                    }
                    (false, Some(at)) => {
                        linux.remove(at);
                        Message::RuleGone(rule)
                    }
                    _ => continue,
                };
                snapshot.apply(message, &mut Vec::new(), &mut stale);
                prop_assert!(snapshot.rules(Family::V4).eq(&linux));
            }
            prop_assert_eq!(stale, Stale::default());
        }
    }

    #[test]
    fn an_overrun_makes_everything_stale() {
        let mut stale = Stale::default();
        Snapshot::default().apply(Message::Overrun, &mut Vec::new(), &mut stale);
        assert!(Part::ALL.into_iter().all(|part| stale.contains(part)));
        stale.clear(Part::Rules);
        assert!(!stale.contains(Part::Rules) && stale.contains(Part::Links));
    }

    #[test]
    fn an_ipv6_routes_next_hops_go_one_by_one() {
        let dst = Prefix { addr: "2001:db8::".parse().unwrap(), len: 32 };
        let hop = |n: u32| NextHop::new(n, None);
        let both = Route { next_hops: vec![hop(1), hop(2)], ..Route::new(dst, hop(1)) };
        let mut snapshot = Snapshot::default();
        let (mut changes, mut stale) = (Vec::new(), Stale::default());
        let new = Message::Route { route: both.clone(), replaces: false };
        snapshot.apply(new, &mut changes, &mut stale);
        assert_eq!(stale, Stale::default());
        // One of the two: the message does not say what is left.
        let one = Message::RouteGone(Route::new(dst, hop(1)));
        snapshot.apply(one, &mut changes, &mut stale);
        assert!(stale.contains(Part::Routes6) && !stale.contains(Part::Routes4));
        stale = Stale::default();
        snapshot.apply(Message::RouteGone(both), &mut changes, &mut stale);
        assert_eq!(stale, Stale::default());
        assert_eq!(snapshot.routes().count(), 0);
    }
}
