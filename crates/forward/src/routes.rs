//! The writer of routing tables: takes changes of routes and rules, and makes a [`Fib`] of them.
//!
//! Rules that apply to every packet and look into a table, and that follow each other, make one
//! *view*: one trie that answers for all their tables. A host with Linux's three rules has one
//! view and so one look-up. A rule with conditions stands between views.

use core::net::IpAddr;
use std::collections::BTreeMap;

use wire::Family;

use crate::address::Address;
use crate::fib::{FamilyFib, Fib, Rule, Step};
use crate::flat::{Layer, Prefixes};
use crate::grow::Growing;
use crate::route::{RouteEntry, RuleAction, RuleEntry, Subnet};
use crate::route_result::RouteResult;
use crate::targets::Targets;
use crate::trie::HOLE;

/// All routes and rules, to be changed one by one. A [`Fib`] shares the memory of its tries.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    v4: Tables<u32>,
    v6: Tables<u128>,
    targets: Targets,
    skip_table: Option<u32>,
}

/// New routes of one prefix of one table.
#[derive(Clone, Debug)]
pub struct RouteChange {
    /// The table's number.
    pub table: u32,
    /// Destinations of the routes.
    pub dst: Subnet,
    /// All routes that there are now; the best of them counts.
    pub routes: Vec<RouteEntry>,
}

/// The tables of one family.
#[derive(Clone, Debug)]
struct Tables<A> {
    /// No table is empty.
    tables: BTreeMap<u32, Prefixes<A>>,
    rules: Vec<RuleEntry>,
    steps: Box<[Rule]>,
    views: Vec<View>,
    /// Tables that are looked into by their numbers.
    pinned: Vec<u32>,
    /// The views of those that have routes.
    pinned_at: Box<[(u32, usize)]>,
}

impl<A> Default for Tables<A> {
    fn default() -> Self {
        Self {
            tables: BTreeMap::new(),
            rules: Vec::new(),
            steps: Box::default(),
            views: Vec::new(),
            pinned: Vec::new(),
            pinned_at: Box::default(),
        }
    }
}

/// Tables that are looked into one after the other whatever the packet.
#[derive(Clone, Debug)]
struct View {
    layers: Vec<ViewLayer>,
    growing: Growing,
}

/// A table, and the longest prefix that does not count in it.
type ViewLayer = (u32, Option<u8>);

/// A change of one route costs about as much as building this many.
const BUILD_PER_CHANGE: usize = 256;

impl Routes {
    /// From all routes and rules.
    ///
    /// `skip_table` leaves out one table and the rules that lead to it: the one whose routes
    /// bring local traffic to the data path, which must not send it back to itself.
    pub fn new(
        routes: impl IntoIterator<Item = RouteEntry>,
        rules: impl IntoIterator<Item = RuleEntry>,
        skip_table: Option<u32>,
    ) -> Self {
        let mut new = Self { skip_table, ..Self::default() };
        let mut routes: Vec<RouteEntry> =
            routes.into_iter().filter(|r| Some(r.table) != skip_table).collect();
        // Of several routes to one prefix the first counts.
        routes.sort_by_key(|r| r.priority);
        let (mut v4, mut v6) = (Found::new(), Found::new());
        for route in routes {
            let (table, dst) = (route.table, route.dst);
            let Some(value) = new.targets.take(route) else { continue };
            match dst.addr {
                IpAddr::V4(a) => note(&mut v4, table, a.to_bits(), dst.len, value),
                IpAddr::V6(a) => note(&mut v6, table, a.to_bits(), dst.len, value),
            }
        }
        new.v4.tables = best_of_each(v4, &mut new.targets);
        new.v6.tables = best_of_each(v6, &mut new.targets);
        new.set_rules(rules);
        new
    }

    /// Replaces all rules. Only what they look up otherwise than before is built anew.
    pub fn set_rules(&mut self, rules: impl IntoIterator<Item = RuleEntry>) {
        let skipped = self.skip_table.map(RuleAction::Table);
        let rules = rules.into_iter().filter(|r| Some(r.action) != skipped);
        let (v4, v6) = rules.partition(|r| r.family == Family::V4);
        self.v4.set_rules(v4);
        self.v6.set_rules(v6);
    }

    /// The tables that are looked into by their numbers, whatever the rules say, in the place of those before.
    pub fn pin(&mut self, tables: &[u32]) {
        self.v4.pin(tables);
        self.v6.pin(tables);
    }

    /// Takes over what has become of some prefixes.
    pub fn change(&mut self, changes: impl IntoIterator<Item = RouteChange>) {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for change in changes.into_iter().filter(|c| Some(c.table) != self.skip_table) {
            let usable = change.routes.into_iter().filter(RouteEntry::is_usable);
            let best = usable.min_by_key(|r| r.priority).and_then(|r| self.targets.take(r));
            match change.dst.addr {
                IpAddr::V4(a) => v4.push((change.table, a.to_bits(), change.dst.len, best)),
                IpAddr::V6(a) => v6.push((change.table, a.to_bits(), change.dst.len, best)),
            }
        }
        self.v4.change(v4, &mut self.targets);
        self.v6.change(v6, &mut self.targets);
    }

    /// The tables as they are now. Costs a reference to each page of memory.
    pub fn fib(&self) -> Fib {
        Fib::of_parts(self.v4.fib(), self.v6.fib(), self.targets.shared(), self.len())
    }

    /// How many prefixes have a route, in all tables that are not skipped.
    pub fn len(&self) -> usize {
        let v4 = self.v4.tables.values().map(BTreeMap::len).sum::<usize>();
        v4 + self.v6.tables.values().map(BTreeMap::len).sum::<usize>()
    }

    /// True if there are no routes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Fib {
    /// Builds from all routes and rules. Who has to follow changes keeps [`Routes`] instead.
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
        Routes::new(routes, rules, skip_table).fib()
    }
}

/// Prefixes as they come, with their values.
type List<A> = Vec<((A, u8), u32)>;

/// Routes of each table.
type Found<A> = BTreeMap<u32, List<A>>;

fn note<A: Address>(all: &mut Found<A>, table: u32, address: A, len: u8, value: u32) {
    let len = len.min(A::BITS as u8);
    all.entry(table).or_default().push(((address.first(len), len), value));
}

fn best_of_each<A: Address>(all: Found<A>, targets: &mut Targets) -> BTreeMap<u32, Prefixes<A>> {
    let best = |(table, mut prefixes): (u32, List<A>)| {
        // The sort is stable: the first given stays the first.
        prefixes.sort_by_key(|(prefix, _)| *prefix);
        prefixes.dedup_by(|(later, value), (earlier, _)| {
            let is_same = later == earlier;
            if is_same {
                targets.give_back(*value);
            }
            is_same
        });
        (table, prefixes.into_iter().collect())
    };
    all.into_iter().map(best).collect()
}

impl<A: Address> Tables<A> {
    fn set_rules(&mut self, mut rules: Vec<RuleEntry>) {
        rules.sort_by_key(|r| r.priority);
        self.rules = rules;
        self.compile();
    }

    fn pin(&mut self, tables: &[u32]) {
        if self.pinned != tables {
            self.pinned = tables.to_vec();
            self.compile();
        }
    }

    /// Makes steps of the rules, and the views that they want.
    fn compile(&mut self) {
        let (steps, mut wanted) = compile(&self.rules, |table| self.tables.contains_key(&table));
        self.steps = steps;
        let there = self.pinned.iter().filter(|table| self.tables.contains_key(table));
        let pinned = there.map(|table| {
            let layers = vec![(*table, None)];
            let known = wanted.iter().position(|other| *other == layers);
            let at = known.unwrap_or_else(|| {
                wanted.push(layers);
                wanted.len() - 1
            });
            (*table, at)
        });
        self.pinned_at = pinned.collect();
        let mut old = std::mem::take(&mut self.views);
        for layers in wanted {
            let kept = old.iter().position(|view| view.layers == layers);
            let view = kept.map(|at| old.swap_remove(at));
            let view = view.unwrap_or_else(|| {
                let growing = Growing::new(&with_prefixes(&self.tables, &layers));
                View { layers, growing }
            });
            self.views.push(view);
        }
    }

    fn change(&mut self, changes: Vec<(u32, A, u8, Option<u32>)>, targets: &mut Targets) {
        let routes: usize = self.tables.values().map(BTreeMap::len).sum();
        let is_small = changes.len() * BUILD_PER_CHANGE <= routes;
        let mut touched: Vec<u32> = changes.iter().map(|(table, ..)| *table).collect();
        let mut is_new_set = false;
        for (table, address, len, value) in changes {
            let len = len.min(A::BITS as u8);
            let first = address.first(len);
            let had_table = self.tables.contains_key(&table);
            let prefixes = self.tables.entry(table).or_default();
            let old = match value {
                Some(value) => prefixes.insert((first, len), value),
                None => prefixes.remove(&(first, len)),
            };
            let is_empty = prefixes.is_empty();
            if is_empty {
                self.tables.remove(&table);
            }
            if had_table == is_empty {
                is_new_set = true;
                // Views of a table that is gone would be built anew in any case.
                self.views.retain(|view| !view.holds(table));
            }
            if is_small && old != value {
                for view in self.views.iter_mut().filter(|view| view.holds(table)) {
                    let layers = with_prefixes(&self.tables, &view.layers);
                    let is_of = |n| view.layers.get(n).is_some_and(|(of, _)| *of == table);
                    view.growing.change(&layers, is_of, first, len);
                }
            }
            if let Some(old) = old.filter(|old| *old != HOLE) {
                targets.give_back(old);
            }
        }
        if !is_small {
            touched.sort_unstable();
            touched.dedup();
            self.views.retain(|view| !touched.iter().any(|table| view.holds(*table)));
        }
        if is_new_set || !is_small {
            self.compile();
        }
    }

    fn fib(&self) -> FamilyFib<A> {
        let tries = self.views.iter().map(|view| view.growing.trie());
        FamilyFib::new(self.steps.clone(), tries.collect(), self.pinned_at.clone())
    }
}

impl View {
    fn holds(&self, table: u32) -> bool {
        self.layers.iter().any(|(t, _)| *t == table)
    }
}

fn with_prefixes<'t, A>(
    tables: &'t BTreeMap<u32, Prefixes<A>>,
    layers: &[ViewLayer],
) -> Vec<Layer<'t, A>> {
    let layer = |(table, suppress): &ViewLayer| {
        let prefixes = tables.get(table)?;
        Some(Layer::new(prefixes, *suppress))
    };
    layers.iter().filter_map(layer).collect()
}

/// The steps for rules that are in order, and the views that they look into.
///
/// Rules that can do nothing (without a chance to match, for a table without routes, a jump to
/// nowhere) are left out. Rules that apply to every packet are looked into together, up to one
/// that something jumps to.
fn compile(
    rules: &[RuleEntry],
    has_routes: impl Fn(u32) -> bool,
) -> (Box<[Rule]>, Vec<Vec<ViewLayer>>) {
    let jump = |at: usize, priority: u32| {
        let target = rules.iter().position(|r| r.priority == priority);
        target.filter(|target| *target > at)
    };
    let does_something = |at: usize, rule: &RuleEntry| match rule.action {
        RuleAction::Table(table) => has_routes(table),
        RuleAction::Goto(priority) => jump(at, priority).is_some(),
        _ => true,
    };
    let kept: Vec<usize> = rules
        .iter()
        .enumerate()
        .filter(|(at, rule)| !rule.never_matches() && does_something(*at, rule))
        .map(|(at, _)| at)
        .collect();
    // Where among those kept a jump to a rule ends.
    let lands = |target: usize| kept.partition_point(|at| *at < target);
    let mut is_landing = vec![false; kept.len() + 1];
    for at in &kept {
        if let Some(RuleAction::Goto(priority)) = rules.get(*at).map(|r| r.action)
            && let Some(target) = jump(*at, priority)
            && let Some(landing) = is_landing.get_mut(lands(target))
        {
            *landing = true;
        }
    }

    let mut steps: Vec<Rule> = Vec::new();
    let mut views: Vec<Vec<ViewLayer>> = Vec::new();
    // The step that each rule kept became part of.
    let mut step_of: Vec<usize> = Vec::new();
    let mut jumps: Vec<(usize, usize)> = Vec::new();
    let mut open: Option<Vec<ViewLayer>> = None;
    for (number, at) in kept.iter().enumerate() {
        let Some(rule) = rules.get(*at) else { continue };
        let condition = (!rule.always_matches()).then(|| Box::new(rule.clone()));
        let layer = match rule.action {
            RuleAction::Table(table) => Some((table, rule.suppress_prefix_len)),
            _ => None,
        };
        let is_landing = is_landing.get(number).copied().unwrap_or(false);
        if let (Some(layers), Some(layer), None, false) = (&mut open, layer, &condition, is_landing)
        {
            layers.push(layer);
            step_of.push(steps.len() - 1);
            continue;
        }
        close_view(&mut open, &mut steps, &mut views);
        let step = match (rule.action, layer) {
            (_, Some(layer)) => {
                open = Some(vec![layer]);
                Step::View(usize::MAX)
            }
            (RuleAction::Goto(priority), _) => {
                jumps.push((steps.len(), jump(*at, priority).map_or(kept.len(), lands)));
                Step::Goto(usize::MAX)
            }
            (RuleAction::Blackhole, _) => Step::Stop(RouteResult::Blackhole),
            (RuleAction::Unreachable, _) => Step::Stop(RouteResult::Unreachable),
            (RuleAction::Prohibit, _) => Step::Stop(RouteResult::Prohibit),
            (RuleAction::Opaque | RuleAction::Table(_), _) => Step::Stop(RouteResult::Linux),
        };
        step_of.push(steps.len());
        let is_open_end = condition.is_none();
        steps.push(Rule { condition, step });
        if !is_open_end {
            close_view(&mut open, &mut steps, &mut views);
        }
    }
    close_view(&mut open, &mut steps, &mut views);
    for (from, to) in jumps {
        let to = step_of.get(to).copied().unwrap_or(steps.len());
        if let Some(rule) = steps.get_mut(from) {
            rule.step = Step::Goto(to);
        }
    }
    (steps.into(), views)
}

/// Lets the last step look into the view that is open, if one is.
fn close_view(
    open: &mut Option<Vec<ViewLayer>>,
    steps: &mut [Rule],
    views: &mut Vec<Vec<ViewLayer>>,
) {
    let (Some(layers), Some(last)) = (open.take(), steps.last_mut()) else { return };
    let known = views.iter().position(|view| *view == layers);
    last.step = Step::View(known.unwrap_or_else(|| {
        views.push(layers);
        views.len() - 1
    }));
}
