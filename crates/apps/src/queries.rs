//! Questions that clients have asked, and wait for an answer to.
//!
//! An answer is believed once, from the server that was asked, to the port that asked, with the same id and the same spelling of
//! the question (RFC 5452 §9.1).

use std::collections::{HashMap, VecDeque};

use crate::dns::{Message, Question};
use crate::flow_id::End;

/// How long a question waits for its answer, in nanoseconds: longer than resolvers try.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Questions that wait at most. The oldest are given up.
const MOST: usize = 4096;

/// Identity of a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Asked {
    protocol: u8,
    client: End,
    server: End,
    id: u16,
    question: Question,
}

/// The questions that wait.
#[derive(Debug, Default)]
pub(crate) struct Queries {
    /// Each with the time when it was asked last.
    waiting: HashMap<Asked, u64, ahash::RandomState>,
    /// The same in the order in which they were asked.
    order: VecDeque<(Asked, u64)>,
}

impl Queries {
    /// Notes a question of a client.
    pub(crate) fn ask(
        &mut self,
        protocol: u8,
        client: End,
        server: End,
        query: &Message,
        now_ns: u64,
    ) {
        let Message { id, question, .. } = query.clone();
        let asked = Asked { protocol, client, server, id, question };
        while self.order.len() >= MOST
            || self.order.front().is_some_and(|(_, at)| now_ns.saturating_sub(*at) > PATIENCE_NS)
        {
            let Some((oldest, at)) = self.order.pop_front() else { break };
            // It may have been asked again since.
            if self.waiting.get(&oldest) == Some(&at) {
                self.waiting.remove(&oldest);
            }
        }
        self.waiting.insert(asked.clone(), now_ns);
        self.order.push_back((asked, now_ns));
    }

    /// True if an answer is to a question that waits; it waits no longer then.
    pub(crate) fn is_answer(
        &mut self,
        protocol: u8,
        client: End,
        server: End,
        response: &Message,
        now_ns: u64,
    ) -> bool {
        let Message { id, question, .. } = response.clone();
        let asked = self.waiting.remove(&Asked { protocol, client, server, id, question });
        asked.is_some_and(|at| now_ns.saturating_sub(at) <= PATIENCE_NS)
    }
}
