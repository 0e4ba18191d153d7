//! SRv6: packets that get segments, and packets at a segment of this node.

pub(crate) mod headends;
mod wrap;

use io::Packet;

use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::model::{Fate, Meta, StepTo, SteppedScratch};

/// State of the steps of one thread.
#[derive(Default)]
pub(crate) struct Steps {
    /// Memory for packets between two steps, since there were some.
    pub(crate) scratch: Option<Box<SteppedScratch>>,
}

impl Rare for StepTo {
    type Kept = Steps;

    fn holds<'k>(&'k self, _steps: &'k Steps, asked: &Subject<'_>) -> Held<'k> {
        (asked.h.total_len() <= self.longest).into()
    }

    fn apply(
        &self,
        _steps: &mut Steps,
        hands: &mut Hands<'_>,
        packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        hands.out.step(hands.view, self.index, packet, meta);
        None
    }

    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::Stepped
    }
}
