//! A second classifier, which is asked about flows whose content tells the first one nothing.
//!
//! Packets are kept as long as the first may still find a name, and a few of them. Once it has seen that a flow is of no protocol
//! that it reads, they go out as [`Question`]s, and those that follow with them. Answers come when they come, or never: a flow that
//! waits in vain is as one that nobody was asked about.

use std::collections::VecDeque;

use crate::flow_id::FlowId;

/// Flows that are asked about at a time, at most.
pub const MOST_ASKED: usize = 1024;

/// Packets of a flow that are kept before anybody is asked.
const MOST_KEPT: usize = 4;

/// Questions that wait to be taken, at most.
const MOST_QUESTIONS: usize = 64;

/// A packet of a flow, for a second classifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Number of the flow. Of numbers that are the same modulo [`MOST_ASKED`], the greater one is the flow that counts.
    pub flow: u32,
    /// True if no more packets of the flow are asked about.
    pub is_last: bool,
    /// Time of the packet, in nanoseconds of the packets' clock.
    pub now_ns: u64,
    /// IP packet, or its beginning.
    pub packet: Box<[u8]>,
}

/// How far others are asked about a flow.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Nobody was: the packets so far, with their times.
    Kept(Vec<(u64, Box<[u8]>)>),
    /// It has a number, and so many questions about it have no answer.
    Open { number: u32, unanswered: u8 },
    /// Nobody will be asked any more.
    Over,
}

/// Questions, and the flows that they are about.
#[derive(Debug, Default)]
pub(crate) struct Second {
    next: u32,
    /// Flows by their numbers modulo [`MOST_ASKED`].
    flows: Vec<(u32, FlowId)>,
    questions: VecDeque<Question>,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked::Kept(Vec::new())
    }
}

impl Asked {
    /// Memory that it takes, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        match self {
            Asked::Kept(kept) => kept.iter().map(|(_, packet)| 32 + packet.len()).sum(),
            Asked::Open { .. } | Asked::Over => 0,
        }
    }
}

impl Second {
    /// Takes the next packet of a flow: keeps it, or asks about it if the flow is strange to the first classifier, or was.
    pub(crate) fn packet(
        &mut self,
        (id, asked): (FlowId, &mut Asked),
        (now_ns, packet): (u64, &[u8]),
        is_strange: bool,
        is_last: bool,
    ) {
        if let Asked::Kept(kept) = asked {
            if !is_strange {
                if kept.len() < MOST_KEPT {
                    kept.push((now_ns, packet.into()));
                }
                return;
            }
            let kept = core::mem::take(kept);
            *asked = Asked::Open { number: self.begin(id), unanswered: 0 };
            for (now_ns, packet) in kept {
                self.ask(asked, now_ns, packet, false);
            }
        }
        self.ask(asked, now_ns, packet.into(), is_last);
    }

    /// Gives a flow a number, that of the oldest if there are too many.
    fn begin(&mut self, id: FlowId) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        match self.flows.get_mut(number as usize % MOST_ASKED) {
            Some(place) => *place = (number, id),
            None => self.flows.push((number, id)),
        }
        number
    }

    fn ask(&mut self, asked: &mut Asked, now_ns: u64, packet: Box<[u8]>, is_last: bool) {
        if let Asked::Open { number, unanswered } = asked
            && self.questions.len() < MOST_QUESTIONS
        {
            *unanswered = unanswered.saturating_add(1);
            self.questions.push_back(Question { flow: *number, is_last, now_ns, packet });
        }
    }

    /// The next question to ask.
    pub(crate) fn question(&mut self) -> Option<Question> {
        self.questions.pop_front()
    }

    /// The flow with a number, if it is not given to another.
    pub(crate) fn flow(&self, number: u32) -> Option<FlowId> {
        let place = self.flows.get(number as usize % MOST_ASKED);
        place.filter(|(taken, _)| *taken == number).map(|(_, id)| *id)
    }

    /// True if an answer about a flow may still come.
    pub(crate) fn may_answer(&self, asked: &Asked) -> bool {
        match asked {
            Asked::Open { number, unanswered } => *unanswered > 0 && self.flow(*number).is_some(),
            Asked::Kept(_) | Asked::Over => false,
        }
    }

    /// No answers come to what was asked so far. Returns the flows that were asked about.
    pub(crate) fn forget(&mut self) -> Vec<FlowId> {
        self.questions.clear();
        self.flows.iter().map(|(_, id)| *id).collect()
    }
}
