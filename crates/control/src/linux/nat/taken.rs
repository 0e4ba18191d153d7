//! Translated connections in the tables of the steering programs.

use std::sync::Arc;

use conntrack::{Bindings, Direction, Tuple};
use steer::{Flow, SteerError};
use tracing::warn;

use super::FlowStep;
use crate::ports::program::Program;

/// Packets that ports take of translated connections.
#[derive(Default)]
pub struct TakenFlows {
    bindings: Option<Arc<Bindings>>,
    /// Directions that the tables have room for.
    pub room: u32,
    /// There was no room, and that was told.
    is_full_told: bool,
}

impl TakenFlows {
    pub fn new(bindings: Option<Arc<Bindings>>, room: u32) -> TakenFlows {
        TakenFlows { bindings, room, is_full_told: false }
    }

    /// Has a program that is new take all.
    pub fn fill(&mut self, steer: &mut dyn Program) {
        let mut steps = Vec::new();
        if let Some(bindings) = &self.bindings {
            bindings.each(0, 1, |binding| {
                if binding.is_live() && binding.is_translated() {
                    let directions = [Direction::Original, Direction::Reply];
                    let tuples = directions.map(|direction| *binding.tuple(direction)).into_iter();
                    steps.extend(tuples.map(|tuple| FlowStep { tuple, is_taken: true }));
                }
            });
        }
        steps.iter().for_each(|step| self.follow(steer, step));
    }

    /// Has a program follow a step. What it has no room for is Linux's, as if it were not known.
    pub fn follow(&mut self, steer: &mut dyn Program, step: &FlowStep) {
        match steer.set_flow(&flow(&step.tuple), step.is_taken) {
            Ok(()) => {}
            Err(SteerError::Full { .. }) if self.is_full_told => {}
            Err(error) => {
                self.is_full_told = true;
                warn!(
                    port = steer.interface(),
                    %error,
                    "translated connections beyond nat.flows stay with Linux"
                );
            }
        }
    }
}

const fn flow(tuple: &Tuple) -> Flow {
    let Tuple { src, dst, protocol, src_port, dst_port } = *tuple;
    Flow { src, dst, protocol, src_port, dst_port }
}
