//! Questions that were asked, and not answered so far.

use std::collections::VecDeque;

/// Questions that wait for an answer at a time, at most.
const MOST_WAITING: usize = 64;

/// How long an answer may take, in nanoseconds. The slowest of the library's take some milliseconds.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Questions in the order in which they are to be answered.
#[derive(Debug, Default)]
pub struct Questions {
    next: u32,
    /// Flow of each, and when it was asked.
    waiting: VecDeque<(u32, u64)>,
}

/// The answer is to no question: who gives it is not to be believed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer to question {0}, which was not the next one to be answered")]
pub struct Lost(u32);

impl Questions {
    /// Notes a question about a flow. Returns its number; none if too many wait.
    pub fn ask(&mut self, flow: u32, now_ns: u64) -> Option<u32> {
        if self.waiting.len() >= MOST_WAITING {
            return None;
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.waiting.push_back((flow, now_ns));
        Some(number)
    }

    /// Takes the question back that was asked last: it could not be sent.
    pub fn take_back(&mut self) {
        if self.waiting.pop_back().is_some() {
            self.next = self.next.wrapping_sub(1);
        }
    }

    /// Flow of a question that is answered.
    ///
    /// # Errors
    /// It is not the question that has waited for the longest.
    pub fn answered(&mut self, number: u32) -> Result<u32, Lost> {
        let oldest = self.next.wrapping_sub(self.waiting.len() as u32);
        match self.waiting.pop_front() {
            Some((flow, _)) if number == oldest => Ok(flow),
            _ => Err(Lost(number)),
        }
    }

    /// True if a question waits for an answer.
    pub fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// True if one has waited for too long.
    pub fn are_ignored(&self, now_ns: u64) -> bool {
        let asked = self.waiting.front();
        asked.is_some_and(|(_, asked_ns)| now_ns.saturating_sub(*asked_ns) > PATIENCE_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_questions() {
        let mut asked = Questions { next: u32::MAX, ..Questions::default() };
        assert_eq!([7, 8, 9].map(|flow| asked.ask(flow, 0)), [Some(u32::MAX), Some(0), Some(1)]);
        assert_eq!((asked.answered(u32::MAX), asked.answered(0)), (Ok(7), Ok(8)));
        assert_eq!(asked.answered(0), Err(Lost(0)), "twice");
        assert_eq!(asked.answered(2), Err(Lost(2)), "one that was not asked");
        assert!(!asked.are_waiting());
    }

    #[test]
    fn a_bounded_number_waits_for_a_bounded_time() {
        let mut asked = Questions::default();
        let taken = (0..1000).filter(|flow| asked.ask(*flow, 5).is_some()).count();
        assert_eq!(taken, MOST_WAITING);
        asked.take_back();
        assert_eq!(asked.ask(1, 6), Some(MOST_WAITING as u32 - 1));
        assert!(!asked.are_ignored(PATIENCE_NS) && asked.are_ignored(PATIENCE_NS + 6));
    }
}
