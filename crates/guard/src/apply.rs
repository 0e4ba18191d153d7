//! Carries out what is wanted: in the kernel's XFRM, by `nft`, and in the list.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crate::barrier::{Barrier, Effect};
use crate::kernel::{Listing, NO_ENTRY};
use crate::list::{List, Step};
use crate::netfilter::{Failure, impossible};
use crate::nft::NftError;
use crate::refusals::Refusal;
use crate::threshold::{Chooser, Threshold, choose};
use crate::{Guard, GuardError, RETRY_INTERVAL};

/// Findings of one pass, for the passes after it.
#[derive(Debug)]
struct Course {
    /// Time of the pass.
    now: Instant,
    first_error: Option<GuardError>,
    /// Removed, or not wanted any more: to be struck from the list.
    gone: Vec<Barrier>,
    /// Identities of refused barriers that are tried again.
    retried: HashSet<Barrier>,
    /// nft's answers for classes of refused barriers, each checked by itself.
    trials: HashMap<Barrier, Result<(), String>>,
    /// True if nft takes anything at all, where it did not before.
    frame: Option<bool>,
    /// To be removed once something stands in the place of what was refused.
    later: Vec<Barrier>,
    /// The kernel did not have what was to be removed, so it may have something else.
    is_puzzled: bool,
}

impl Course {
    fn new(now: Instant) -> Course {
        Course {
            now,
            first_error: None,
            gone: Vec::new(),
            retried: HashSet::new(),
            trials: HashMap::new(),
            frame: None,
            later: Vec::new(),
            is_puzzled: false,
        }
    }

    fn note(&mut self, result: Result<(), GuardError>) {
        if let (Err(error), None) = (result, &self.first_error) {
            self.first_error = Some(error);
        }
    }
}

impl Guard {
    /// Compares every barrier with what the kernel has. Where it `sweeps`, policies of this instance that are in no
    /// list are removed.
    pub(crate) fn enforce(&mut self, now: Instant, sweeps: bool) -> Result<(), GuardError> {
        self.touched.extend(self.wanted.keys().copied());
        self.touched.extend(self.refusals.all().map(|refusal| refusal.barrier.identity()));
        self.touched.extend(self.standing.all().map(Barrier::identity));
        self.kept.clear();
        self.retry_at = None;
        self.apply(now, true, sweeps)
    }

    /// Marks refused and unremoved barriers, to be tried again.
    pub(crate) fn retry(&mut self) {
        self.retry_at = None;
        self.touched.extend(self.kept.drain());
        self.touched.extend(self.refusals.all().map(|refusal| refusal.barrier.identity()));
    }

    /// Forgets all that was wanted, but for what stands in the place of refused barriers: once for each of these, as
    /// several may share it. What is not refused any more, or not wanted, is found out later.
    pub(crate) fn forget_wanted(&mut self) {
        self.wanted.clear();
        let mut instead: Vec<Barrier> = self.refusals.all().filter_map(|r| r.instead).collect();
        if self.lets_discovery_pass {
            instead.extend(Barrier::of_discovery());
        }
        instead.into_iter().for_each(|barrier| self.want(barrier));
    }

    /// Carries out all touched barriers, and the consequences of refusals.
    pub(crate) fn apply(
        &mut self,
        now: Instant,
        again: bool,
        sweeps: bool,
    ) -> Result<(), GuardError> {
        let mut course = Course::new(now);
        let refused = self.refusals.all().map(|refusal| refusal.barrier.identity());
        course.retried = refused.filter(|identity| self.touched.contains(identity)).collect();
        for _ in 0..PASSES {
            self.pass(again, &mut course);
            if self.touched.is_empty() && course.later.is_empty() && !self.netfilter.is_owed() {
                break;
            }
        }
        self.touched.extend(course.later.iter().map(Barrier::identity));
        if sweeps || course.is_puzzled {
            self.sweep(&mut course);
        }
        self.conclude(&mut course);
        course.first_error.map_or(Ok(()), Err)
    }

    /// Additions, in order; then removals.
    fn pass(&mut self, again: bool, course: &mut Course) {
        let (mut up, mut down) = self.plan(again, course);
        let mut dangerous = Vec::new();
        up.sort_by_key(Barrier::rank);
        let fail = |list: &List, source| GuardError::List { path: list.path().into(), source };
        let fresh: Vec<Barrier> = up.iter().filter(|b| !self.standing.has(b)).copied().collect();
        let listed = self.list.append(Step::Up, &fresh);
        course.note(listed.map_err(|e| fail(&self.list, e)));
        self.follow_threshold(&fresh);
        // Without a listing every policy is written again.
        let there = match again {
            true => self.kernel.listing().unwrap_or_else(|_| Listing::new(self.tag)),
            false => Listing::new(self.tag),
        };
        let (rules, policies): (Vec<_>, Vec<_>) = up.into_iter().partition(Barrier::is_netfilter);
        let (there, missing): (Vec<_>, Vec<_>) = policies.into_iter().partition(|b| there.has(b));
        let results = self.kernel.put(&missing);
        let mut done: Vec<Barrier> = there;
        for (barrier, result) in missing.into_iter().zip(results) {
            match result {
                Ok(()) => done.push(barrier),
                Err(source) => dangerous.extend(self.refuse(barrier, source.to_string(), false)),
            }
        }
        for barrier in rules {
            match impossible(&barrier) {
                None => {
                    self.netfilter.up(barrier);
                    done.push(barrier);
                }
                Some(why) => dangerous.extend(self.refuse(barrier, why, false)),
            }
        }
        for barrier in done {
            let old = self.standing.insert(barrier);
            course.gone.extend(old.filter(|old| *old != barrier));
            // It is not refused any more.
            if !barrier.is_netfilter() {
                self.forgive(&barrier.identity());
            }
        }
        // Nothing goes before what comes in the place of something refused.
        match self.touched.is_empty() {
            true => {
                down.append(&mut course.later);
                down.retain(|b| self.first_wanted(&b.identity()).is_none());
            }
            false => course.later.append(&mut down),
        }
        down.extend(dangerous);
        self.take_down(down, course);
        self.follow_netfilter(again, course);
        self.follow_discovery();
    }

    /// Barriers to be put up, and those to be removed, of all that was touched.
    fn plan(&mut self, again: bool, course: &mut Course) -> (Vec<Barrier>, Vec<Barrier>) {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for identity in std::mem::take(&mut self.touched) {
            let wanted = self.first_wanted(&identity);
            let has = self.standing.get(&identity).copied();
            let refused = self.refusals.get(&identity).map(|refusal| refusal.barrier);
            if refused.is_some() && refused != wanted {
                course.gone.extend(self.forgive(&identity));
            }
            match (has, wanted) {
                (_, Some(wanted)) if refused == Some(wanted) => {
                    if course.retried.remove(&identity) && self.may_succeed(&wanted, course) {
                        up.push(wanted);
                    }
                }
                (Some(has), Some(wanted)) if has == wanted && !again => {}
                (_, Some(wanted)) => up.push(wanted),
                (Some(has), None) => down.push(has),
                (None, None) => {}
            }
        }
        (up, down)
    }

    /// True if a refused barrier is worth a try. One of nftables costs the whole table, so it is
    /// checked by itself, a few classes of them at a time; where nothing could be installed, the
    /// check is if anything can.
    fn may_succeed(&mut self, refused: &Barrier, course: &mut Course) -> bool {
        if !refused.is_netfilter() {
            return true;
        }
        if impossible(refused).is_some() {
            return false;
        }
        if self.no_nft.is_some() {
            return *course.frame.get_or_insert_with(|| self.netfilter.check(&[]).is_ok());
        }
        let class = refused.class();
        if !course.trials.contains_key(&class) && course.trials.len() >= TRIALS {
            return false;
        }
        let trial = course.trials.entry(class);
        let check = || self.netfilter.check(&[class]).map_err(|said| format!("nft: {said}"));
        match trial.or_insert_with(check) {
            Ok(()) => true,
            Err(why) => {
                self.refusals.say(&refused.identity(), why);
                false
            }
        }
    }

    fn take_down(&mut self, down: Vec<Barrier>, course: &mut Course) {
        let (rules, policies): (Vec<_>, Vec<_>) = down.into_iter().partition(Barrier::is_netfilter);
        for barrier in rules {
            self.netfilter.down(barrier);
            self.standing.remove(&barrier.identity());
        }
        let results = self.kernel.remove(&policies);
        let mut unknown = Vec::new();
        for (barrier, result) in policies.into_iter().zip(results) {
            match result {
                Ok(()) => {}
                Err(source) if source.raw_os_error() == Some(NO_ENTRY) => unknown.push(barrier),
                Err(source) => {
                    self.kept.insert(barrier.identity());
                    course.note(Err(GuardError::Kept { barrier, source }));
                    continue;
                }
            }
            course.gone.push(barrier);
            self.standing.remove(&barrier.identity());
        }
        if let Some(first) = unknown.first() {
            tracing::warn!(
                count = unknown.len(),
                "the kernel does not have a barrier that was put up: `{first}`; somebody has removed it, or it stands \
                 in another form, which is looked for"
            );
            course.is_puzzled = true;
        }
    }

    /// Has nftables follow, and finds something else for what it refuses.
    fn follow_netfilter(&mut self, again: bool, course: &mut Course) {
        let is_refused_before = self.no_nft.is_some();
        if is_refused_before && !self.netfilter.owes() {
            return;
        }
        let rules = self.standing.all().filter(|b| b.is_netfilter());
        match self.netfilter.follow(rules, course.now, again) {
            Ok(gone) => {
                course.gone.extend(gone);
                self.no_nft = None;
                let refused = self.refusals.all().map(|refusal| refusal.barrier);
                let stand = |b: &Barrier| b.is_netfilter() && self.standing.has(b);
                for barrier in refused.filter(stand).collect::<Vec<_>>() {
                    self.forgive(&barrier.identity());
                }
            }
            Err(Failure::Refused(refused)) => {
                for (class, said) in refused {
                    let of_class: Vec<Barrier> =
                        self.rules().filter(|b| b.class() == class).collect();
                    for barrier in of_class {
                        self.refuse(barrier, format!("nft: {said}"), false);
                    }
                }
            }
            Err(Failure::Unusable(error)) => {
                for barrier in self.rules().collect::<Vec<_>>() {
                    self.refuse(barrier, unusable(&error), true);
                }
                self.netfilter.give_up();
                self.no_nft = Some(error);
            }
        }
    }

    fn rules(&self) -> impl Iterator<Item = Barrier> {
        self.standing.all().copied().filter(Barrier::is_netfilter)
    }

    /// Something else stands in a barrier's place from now on. Returns what stood under its identity and would let
    /// pass what the barrier is to block.
    fn refuse(&mut self, barrier: Barrier, why: String, is_for_all: bool) -> Option<Barrier> {
        let identity = barrier.identity();
        if self.standing.has(&barrier) {
            // By the list of an earlier process, or of one that has just tried.
            self.standing.remove(&identity);
        }
        let old = self.refusals.get(&identity).filter(|refusal| refusal.barrier == barrier);
        let is_new = old.is_none_or(|old| {
            let was_for_all = old.instead.is_some() && old.instead == barrier.as_policy();
            was_for_all != is_for_all
        });
        if is_new {
            self.forgive(&identity);
            let by_policy = is_for_all.then(|| barrier.as_policy()).flatten();
            let last = || barrier.as_policy().filter(|_| barrier.effect() == Effect::Block);
            let instead = by_policy.or_else(|| barrier.wider()).or_else(last);
            if let Some(instead) = instead {
                self.want(instead);
            }
            let refusal = Refusal { barrier, why, instead };
            if !is_for_all {
                tracing::warn!("guard: {refusal}");
            }
            self.refusals.insert(refusal);
        }
        self.standing.get(&identity).copied().filter(|old| old.effect() == Effect::Pass)
    }

    /// A barrier is refused no more: what stood in its place goes. Returns it if it was refused.
    fn forgive(&mut self, identity: &Barrier) -> Option<Barrier> {
        let refusal = self.refusals.remove(identity)?;
        if let Some(instead) = refusal.instead {
            self.unwant(instead);
        }
        Some(refusal.barrier)
    }

    /// Neighbour discovery passes where kernel policies block IPv6.
    fn follow_discovery(&mut self) {
        let is_needed = self.refusals.is_by_policy();
        if std::mem::replace(&mut self.lets_discovery_pass, is_needed) == is_needed {
            return;
        }
        for barrier in Barrier::of_discovery() {
            match is_needed {
                true => self.want(barrier),
                false => self.unwant(barrier),
            }
        }
    }

    /// Removes what stands in the kernel under our name and is not known here.
    fn sweep(&mut self, course: &mut Course) {
        let stale = match self.kernel.listing() {
            Ok(listing) => listing.stale(self.standing.all().filter(|b| !b.is_netfilter())),
            Err(error) => return course.note(Err(GuardError::Socket(error))),
        };
        if let Some(first) = stale.first() {
            let results = self.kernel.remove_found(&stale);
            let removed = results.iter().filter(|result| result.is_ok()).count();
            tracing::warn!(
                removed,
                left = stale.len() - removed,
                "stale barriers of this instance stood in the kernel, in no list; the first was `{first}`"
            );
        }
        if self.rules().next().is_none() && !self.netfilter.owes() && self.netfilter.is_there() {
            match self.netfilter.remove_table() {
                Ok(()) => tracing::warn!(
                    "a stale table of this instance stood in nftables; it is removed"
                ),
                // It is tried again.
                Err(error) => {
                    self.netfilter.give_up();
                    self.no_nft = Some(error);
                }
            }
        }
    }

    /// Logs the steps left undone, and when they are tried again; strikes removed barriers from the list.
    fn conclude(&mut self, course: &mut Course) {
        if !self.refusals.is_by_policy() && !self.netfilter.owes() {
            // There is nothing that it would be needed for.
            self.no_nft = None;
        }
        if let Some(error) = &self.no_nft {
            course.note(Err(GuardError::Netfilter(error.again())));
        }
        if self.refusals.leave_a_gap() {
            let gap = self.refusals.named().into_iter().find(Refusal::leaves_a_gap);
            let error = gap.map(|gap| GuardError::Refused { barrier: gap.barrier, why: gap.why });
            course.note(error.map_or(Ok(()), Err));
        }
        let is_open = !self.refusals.is_empty()
            || self.no_nft.is_some()
            || !self.kept.is_empty()
            || !self.touched.is_empty();
        let next = || self.retry_at.unwrap_or_else(|| course.now + RETRY_INTERVAL);
        self.retry_at = is_open.then(next);
        let known = |b: &Barrier| self.standing.has(b) || self.refusals.has(b);
        course.gone.retain(|b| !known(b));
        let listed = self.list.append(Step::Down, &course.gone);
        // Pending barriers may be known from the list alone, so it is kept whole.
        let is_settled = self.kept.is_empty() && !self.netfilter.owes();
        let listed = listed.and_then(|()| match is_settled {
            true if self.refusals.is_empty() => self.list.tidy(self.standing.all()),
            true => {
                let refused = self.refusals.all().map(|refusal| &refusal.barrier);
                let all: Vec<&Barrier> = self.standing.all().chain(refused).collect();
                self.list.tidy(all.into_iter())
            }
            false => Ok(()),
        });
        let path = self.list.path().into();
        course.note(listed.map_err(|source| GuardError::List { path, source }));
        if self.standing.policies() == 0 {
            self.set_threshold(self.threshold.0);
            self.chooser = Chooser::default();
        }
    }

    /// Adapts the kernel's hash threshold to the policies before these are added.
    fn follow_threshold(&mut self, fresh: &[Barrier]) {
        let count = self.standing.policies() + fresh.iter().filter(|b| !b.is_netfilter()).count();
        if self.chooser.is_due(count) {
            let next = choose(self.standing.all().chain(fresh), self.threshold.1);
            self.set_threshold(next);
        }
    }

    fn set_threshold(&mut self, next: Threshold) {
        if next == self.threshold.1 {
            return;
        }
        match self.kernel.set_threshold(next) {
            Ok(()) => {
                tracing::debug!(?next, "the kernel hashes policies from these lengths on");
                self.threshold.1 = next;
            }
            // Only time is lost.
            Err(error) => tracing::debug!(%error, "the kernel's policies stay in lists"),
        }
    }
}

/// Why a barrier of IPv6 is no rule.
fn unusable(error: &NftError) -> String {
    format!("nft {error}")
}

/// Classes of refused barriers that are checked at a time.
const TRIALS: usize = 16;

/// The most passes of one call: a barrier is refused, a wider one, one of its family, that as a policy, and then
/// neighbour discovery.
const PASSES: usize = 8;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use policy::Direction;

    use super::*;
    use crate::cases::protecting;
    use crate::fakes::{FakeKernel, FakeNft, Packet, World};
    use crate::kernel::Tag;
    use crate::netfilter::Netfilter;

    #[test]
    fn what_stands_for_two_stays_until_neither_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (world, tag) = (World::new(), Tag::of("test"));
        let list = List::open(directory.path().join("guard.json")).unwrap();
        let netfilter = Netfilter::new("test", "culvert0", Box::new(FakeNft(world.clone())));
        let kernel = Box::new(FakeKernel(world.clone(), tag));
        let mut guard = Guard::with(list, kernel, tag, netfilter);
        let passes = |src: [u8; 4]| {
            let src = IpAddr::V4(Ipv4Addr::from(src));
            let dst = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1));
            let ports = (4000, 4000);
            world.passes(&Packet {
                direction: 0,
                src,
                dst,
                protocol: 17,
                ports,
                ifindex: 0,
                mark: 0,
            })
        };
        // Both are refused, and what blocks the whole family stands for both.
        let policies =
            ["10.2.0.0/16", "10.3.0.0/16"].map(|src| protecting(src, "10.1.0.0/16", Direction::In));
        world.set_moods(|moods| _ = moods.priorities.insert(policies[0].priority));
        let start = Instant::now();
        guard.set(&policies, &[], start).unwrap();
        guard.set(&policies, &[], start).unwrap();
        assert!(!passes([10, 2, 0, 1]) && !passes([10, 3, 0, 1]));
        guard.change(Some(&policies[0]), None);
        guard.settle(start).unwrap();
        assert!(!passes([10, 3, 0, 1]), "it is open");
        // Taken back, and put up.
        world.set_moods(|moods| moods.priorities.clear());
        guard.settle(start + Duration::from_secs(60)).unwrap();
        assert!(passes([10, 2, 0, 1]) && !passes([10, 3, 0, 1]));
        assert!(guard.is_complete() && guard.refusals().is_empty());
    }
}
