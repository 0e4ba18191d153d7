//! Plans for the packets that headends make (SRv6): the same for all of one headend and one family inside.
//!
//! Their outer addresses and protocol are the headend's, and so they are one flow, whose plan stands here beside the
//! flow cache: who puts the headers on finds it without looking at them. It is as good as the cache's: of an epoch,
//! with stamps that are held against the databases when these have changed.

use io::Packet;
use wire::{Family, Fields};

use crate::features::forward::{self, forward};
use crate::features::hands::Hands;
use crate::features::seal::{self, seal};
use crate::flows::plan::{Plan, Stamps};
use crate::model::{Action, Made};
use crate::view::View;

impl Made {
    const fn place(self) -> usize {
        let inner = match self.inner {
            Family::V4 => 0,
            Family::V6 => 1,
        };
        2 * self.number + inner
    }
}

/// An entry of the table.
struct HeadendPlan {
    epoch: u32,
    /// The state of the databases that the plan is known to be good in.
    generation: u32,
    plan: Plan,
    stamps: Stamps,
}

/// The entries of one thread. They take memory with the first one.
#[derive(Default)]
pub(crate) struct Headends {
    places: Vec<Option<Box<HeadendPlan>>>,
    epoch: u32,
    generation: u32,
}

impl Headends {
    /// Routes, neighbours or interfaces have changed: no plan holds any more.
    pub(crate) fn begin_epoch(&mut self) {
        match self.epoch.checked_add(1) {
            Some(next) => self.epoch = next,
            None => self.places.clear(),
        }
    }

    /// The databases have changed: plans have to prove that they still hold.
    pub(crate) fn begin_generation(&mut self) {
        match self.generation.checked_add(1) {
            Some(next) => self.generation = next,
            None => self.places.clear(),
        }
    }

    /// Keeps a plan: of packets that are forwarded, or that one SA protects. Others are found in the flow cache.
    pub(crate) fn keep(&mut self, made: Made, plan: &Plan, stamps: &Stamps) {
        let place = made.place();
        if !matches!(plan.action, Action::Forward(_) | Action::Seal(_)) {
            return self.forget(place);
        }
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        let (epoch, generation) = (self.epoch, self.generation);
        if let Some(kept) = self.places.get_mut(place) {
            let (plan, stamps) = (plan.clone(), stamps.clone());
            *kept = Some(Box::new(HeadendPlan { epoch, generation, plan, stamps }));
        }
    }

    fn forget(&mut self, place: usize) {
        if let Some(kept) = self.places.get_mut(place) {
            *kept = None;
        }
    }

    /// Forwards or seals a packet that has got its headers, if there is a plan that holds for it. Returns the packet if
    /// there is none.
    #[inline]
    pub(crate) fn go_on(
        &mut self,
        hands: &mut Hands<'_>,
        made: Made,
        packet: Packet,
        h: Fields,
    ) -> Option<Packet> {
        let (view, out) = (hands.view, &mut *hands.out);
        if !self.has(made, view) {
            return Some(packet);
        }
        let Some(plan) = self.plan(made) else { return Some(packet) };
        match &plan.action {
            Action::Forward(by) if forward::holds(by, &packet, h) => {
                out.counters.work.flow_hits.add(1);
                plan.count(view.worker, h, view.now.wall_s);
                forward(view, out, (by, None), packet, h);
                None
            }
            Action::Seal(by)
                if let Some(sa) = view.reader.sa(by.sa)
                    && seal::holds(sa, by, &packet, h) =>
            {
                out.counters.work.flow_hits.add(1);
                plan.count(view.worker, h, view.now.wall_s);
                seal(hands, by, (sa, None), packet, h);
                None
            }
            _ => Some(packet),
        }
    }

    /// True if there is a plan that holds.
    #[inline]
    fn has(&mut self, made: Made, view: &View) -> bool {
        let Some(Some(kept)) = self.places.get_mut(made.place()) else { return false };
        kept.epoch == self.epoch
            && (kept.generation == self.generation || renew(kept, self.generation, view))
    }

    /// The plan, whether or not it holds.
    #[inline]
    fn plan(&self, made: Made) -> Option<&Plan> {
        self.places.get(made.place())?.as_ref().map(|kept| &kept.plan)
    }
}

/// Compares a plan with a new state of the databases. If it holds there too, the entry's
/// generation is renewed.
#[cold]
#[inline(never)]
fn renew(kept: &mut HeadendPlan, generation: u32, view: &View) -> bool {
    let does_hold = kept.stamps.hold(view);
    if does_hold {
        kept.generation = generation;
    }
    does_hold
}
