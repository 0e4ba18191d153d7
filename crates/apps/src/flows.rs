//! The flows that are looked at: a table of fixed size, in which a newcomer takes the place of the oldest.

use std::collections::HashMap;

use crate::flow::{Flow, Stage};
use crate::flow_id::FlowId;

/// Flows by their identity.
#[derive(Debug)]
pub(crate) struct Flows {
    places: Vec<Flow>,
    by_id: HashMap<FlowId, usize, ahash::RandomState>,
    most: usize,
    /// The place that the next newcomer takes once all are taken.
    turn: usize,
    /// Memory of flows that are not decided, in bytes.
    footprint: usize,
}

impl Flows {
    /// Room for so many flows, at least one. It is taken as flows come.
    pub(crate) fn new(most: usize) -> Flows {
        let (places, by_id) = (Vec::new(), HashMap::default());
        Flows { places, by_id, most: most.max(1), turn: 0, footprint: 0 }
    }

    pub(crate) fn find(&self, id: &FlowId) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut Flow> {
        self.places.get_mut(place)
    }

    /// Adds a flow. Returns its place, and the flow that had it before.
    pub(crate) fn insert(&mut self, flow: Flow) -> (usize, Option<Flow>) {
        let (id, new) = (flow.id, footprint(&flow));
        let (place, old) = match self.places.len() < self.most {
            true => {
                self.places.push(flow);
                (self.places.len() - 1, None)
            }
            false => {
                let place = self.turn;
                self.turn = (self.turn + 1) % self.places.len();
                let old = self.places.get_mut(place).map(|old| core::mem::replace(old, flow));
                (place, old)
            }
        };
        if let Some(old) = &old {
            self.by_id.remove(&old.id);
            self.footprint -= footprint(old);
        }
        self.footprint += new;
        self.by_id.insert(id, place);
        (place, old)
    }

    /// Works on a flow, whose memory may change by it.
    pub(crate) fn with<T>(&mut self, place: usize, work: impl FnOnce(&mut Flow) -> T) -> Option<T> {
        let flow = self.places.get_mut(place)?;
        let before = footprint(flow);
        let result = work(flow);
        self.footprint = self.footprint - before + footprint(flow);
        Some(result)
    }

    /// The flow that has been looked at for the longest, if flows take more memory than `most` bytes.
    pub(crate) fn oldest_beyond(&self, most: usize) -> Option<usize> {
        if self.footprint <= most {
            return None;
        }
        let from = if self.places.len() < self.most { 0 } else { self.turn };
        let places = (from..self.places.len()).chain(0..from);
        let mut looking =
            places.filter(|at| matches!(self.places.get(*at), Some(flow) if footprint(flow) > 0));
        looking.next()
    }

    /// Flows, and the memory of those that are not decided, in bytes.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.places.len(), self.footprint)
    }
}

fn footprint(flow: &Flow) -> usize {
    match &flow.stage {
        Stage::Looking(looking) => looking.footprint() + flow.asked.footprint(),
        Stage::Decided(_) => 0,
    }
}
