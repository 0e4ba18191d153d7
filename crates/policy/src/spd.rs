//! The writer's half of the SPD: the groups that policies are in, and their places there.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::feed::{Change, PolicyChange, PolicySlots};
use crate::groups::{Cover, Ends, Group, Groups, Shape, V4, V6};
use crate::hash::{Seeds, Tag};
use crate::model::{Direction, PolicyConfig};
use crate::policy_entry::{PolicyEntry, Rank, Treatment};
use crate::publisher::Publisher;
use crate::reclaim::Reclaim;
use crate::slots::Slots;
use crate::stamp::Spot;
use crate::table::{Index, Links, NONE};

/// A policy as the writer keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) entry: Arc<PolicyEntry>,
    slots: PolicySlots,
}

/// One slot that a group has to forget.
#[derive(Debug)]
struct Leaving {
    slot: u32,
    tag: Tag,
    direction: Direction,
    is_v4: bool,
    /// Number of the group.
    group: u64,
}

/// Groups and slots of all policies.
pub(crate) struct Spd {
    /// IPv4's policies, indexed by direction.
    v4: [Side<V4>; 3],
    v6: [Side<V6>; 3],
    reclaim: Reclaim<Leaving>,
    /// Number of the last group.
    last_group: u64,
}

impl Spd {
    pub(crate) fn new() -> Spd {
        Spd {
            v4: Default::default(),
            v6: Default::default(),
            reclaim: Reclaim::new(),
            last_group: 0,
        }
    }

    /// Puts a policy in, takes one out, or both, as one change for readers.
    pub(crate) fn change<S>(
        &mut self,
        out: &mut Publisher<S>,
        old: Option<&Placed>,
        new: Option<&Arc<PolicyEntry>>,
    ) -> Option<Placed> {
        self.collect(out);
        // The entries that lead to the new one are there before it.
        let placed = new.map(|entry| {
            let main = self.link(out, entry, false);
            let later = if needs_later(entry) { self.link(out, entry, true) } else { NONE };
            Placed { entry: Arc::clone(entry), slots: PolicySlots { main, later } }
        });
        let seeds = out.view().seeds;
        let spot = |entry: &PolicyEntry| Spot::of_policy(&seeds, &entry.config);
        let remove = old.map(|old| (old.slots, spot(&old.entry)));
        out.publish(|| {
            let insert = placed.as_ref().map(|p| (p.slots, spot(&p.entry), Arc::clone(&p.entry)));
            Change::Policy(PolicyChange { remove, insert })
        });
        if let Some(old) = old {
            self.leave(out, &old.entry, old.slots.main, false);
            if old.slots.later != NONE {
                self.leave(out, &old.entry, old.slots.later, true);
            }
        }
        placed
    }

    /// Gives a policy a place in its group, or in the one for later fragments.
    fn link<S>(&mut self, out: &mut Publisher<S>, entry: &PolicyEntry, is_later: bool) -> u32 {
        let slot = self.reclaim.take();
        if slot as usize >= out.view().policies.len() {
            out.publish(|| Change::PolicyRoom(Slots::piece()));
        }
        self.last_group += 1;
        let view = out.view();
        view.policy_links.reserve(slot);
        let goes_before = |other: u32| {
            let other = view.policies.get(other)?.as_ref()?;
            Some(other.rank < entry.rank)
        };
        let place = Place { slot, is_later, group: self.last_group };
        let direction = entry.config.direction;
        let at = direction as usize;
        let (links, seeds) = (&view.policy_links, &view.seeds);
        if is_v4(&entry.config) {
            let groups = self.v4[at].link(links, seeds, entry, place, goes_before);
            publish_v4(out, direction, groups);
        } else {
            let groups = self.v6[at].link(links, seeds, entry, place, goes_before);
            publish_v6(out, direction, groups);
        }
        slot
    }

    /// The last change has removed a policy.
    fn leave<S>(&mut self, out: &mut Publisher<S>, entry: &PolicyEntry, slot: u32, is_later: bool) {
        let direction = entry.config.direction;
        let at = direction as usize;
        let removed_by = out.next() - 1;
        let seeds = out.view().seeds;
        let is_v4 = is_v4(&entry.config);
        let (group, tag) = if is_v4 {
            let (group, tag, groups) = self.v4[at].leave(&seeds, entry, is_later);
            publish_v4(out, direction, groups);
            (group, tag)
        } else {
            let (group, tag, groups) = self.v6[at].leave(&seeds, entry, is_later);
            publish_v6(out, direction, groups);
            (group, tag)
        };
        self.reclaim.leave(removed_by, Leaving { slot, tag, direction, is_v4, group });
    }

    /// Forgets what no reader's view holds any more.
    fn collect<S>(&mut self, out: &mut Publisher<S>) {
        if !self.reclaim.is_waiting() {
            return;
        }
        let (taken, next) = (out.taken(), out.next());
        let links = &out.view().policy_links;
        self.reclaim.settle(taken);
        for _ in 0..AT_ONCE {
            let Some(gone) = self.reclaim.left(taken) else { break };
            let at = gone.direction as usize;
            // A group that is gone itself has nothing to forget.
            let index = match gone.is_v4 {
                true => self.v4[at].index(gone.group),
                false => self.v6[at].index(gone.group),
            };
            if let Some(index) = index {
                index.unlink(links, gone.tag, gone.slot);
            }
            self.reclaim.rest(next, gone.slot);
        }
    }
}

/// Where a policy is about to be put.
struct Place {
    slot: u32,
    is_later: bool,
    /// The number of the group, should it be new.
    group: u64,
}

/// The groups of one direction and family.
struct Side<A> {
    groups: Vec<Kept<A>>,
}

/// A group as the writer keeps it.
struct Kept<A> {
    number: u64,
    shape: Shape<A>,
    cover: Cover<A>,
    index: Index,
    /// For each priority how many policies have it, and the age of the first of them.
    priorities: BTreeMap<u32, (usize, u64)>,
}

impl<A> Default for Side<A> {
    fn default() -> Side<A> {
        Side { groups: Vec::new() }
    }
}

impl<A> Kept<A> {
    /// No policy in the group comes before this.
    fn best(&self) -> Rank {
        let first = self.priorities.first_key_value();
        first.map_or(Rank::LAST, |(&priority, &(_, age))| Rank { priority, age })
    }
}

impl<A: Ends> Side<A> {
    /// Links a slot; the groups for readers if they have changed.
    fn link(
        &mut self,
        links: &Links,
        seeds: &Seeds,
        entry: &PolicyEntry,
        place: Place,
        goes_before: impl Fn(u32) -> Option<bool>,
    ) -> Option<Groups<A>> {
        let shape = shape_of::<A>(entry, place.is_later);
        let at = self.groups.iter().position(|g| g.shape == shape).unwrap_or_else(|| {
            let cover = Cover::of(&entry.config, &shape);
            let (number, index, priorities) = (place.group, Index::new(), BTreeMap::new());
            self.groups.push(Kept { number, shape, cover, index, priorities });
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        let before = (group.best(), group.cover);
        group.cover = group.cover.with(&entry.config);
        let Rank { priority, age } = entry.rank;
        let (count, first) = group.priorities.entry(priority).or_insert((0, age));
        *count += 1;
        // A policy that takes another's place is as old as that.
        *first = (*first).min(age);
        let tag = shape.tag_of(&entry.config, seeds);
        let is_new = group.index.link(links, tag, place.slot, goes_before);
        (is_new || (group.best(), group.cover) != before).then(|| self.publish())
    }

    /// Forgets a policy, but not yet its slot: number of the group, tag, and the groups for readers
    /// if they have changed.
    fn leave(
        &mut self,
        seeds: &Seeds,
        entry: &PolicyEntry,
        is_later: bool,
    ) -> (u64, Tag, Option<Groups<A>>) {
        let shape = shape_of::<A>(entry, is_later);
        let tag = shape.tag_of(&entry.config, seeds);
        let Some(at) = self.groups.iter().position(|g| g.shape == shape) else {
            return (0, tag, None);
        };
        let group = &mut self.groups[at];
        let (number, best) = (group.number, group.best());
        let priority = entry.rank.priority;
        if let Some((count, _)) = group.priorities.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                group.priorities.remove(&priority);
            }
        }
        let is_changed = group.best() != best;
        if group.priorities.is_empty() {
            self.groups.swap_remove(at);
        }
        (number, tag, is_changed.then(|| self.publish()))
    }

    fn index(&mut self, number: u64) -> Option<&mut Index> {
        self.groups.iter_mut().find(|g| g.number == number).map(|g| &mut g.index)
    }

    fn publish(&self) -> Groups<A> {
        let group = |g: &Kept<A>| Group {
            best: g.best(),
            shape: g.shape,
            cover: g.cover,
            table: Arc::clone(g.index.table()),
        };
        let mut groups: Vec<_> = self.groups.iter().map(group).collect();
        groups.sort_by_key(|g| g.best);
        groups.into()
    }
}

fn publish_v4<S>(out: &mut Publisher<S>, direction: Direction, groups: Option<Groups<V4>>) {
    if let Some(groups) = groups {
        out.publish(|| Change::GroupsV4(direction, Arc::clone(&groups)));
    }
}

fn publish_v6<S>(out: &mut Publisher<S>, direction: Direction, groups: Option<Groups<V6>>) {
    if let Some(groups) = groups {
        out.publish(|| Change::GroupsV6(direction, Arc::clone(&groups)));
    }
}

fn shape_of<A: Ends>(entry: &PolicyEntry, is_later: bool) -> Shape<A> {
    let shape = Shape::of(&entry.config);
    if is_later { shape.without_ports() } else { shape }
}

/// True if later fragments, which have no ports, must find the policy although it names some.
fn needs_later(entry: &PolicyEntry) -> bool {
    entry.treatment != Treatment::Bypass && entry.config.selector.names_ports()
}

fn is_v4(config: &PolicyConfig) -> bool {
    config.selector.src.addr.is_ipv4()
}

/// Slots that a change forgets at most: a change stays short, and more leave than come.
const AT_ONCE: usize = 8;
