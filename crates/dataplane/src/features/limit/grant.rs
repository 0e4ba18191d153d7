//! Tokens of one packet that has waited for them, here or at the home of its limiters.

use limit::Passed;

use crate::model::Judging;

/// Tokens that a packet goes on with. They are good for it alone, and once; policies have counted it before it waited.
pub(crate) struct Grant {
    /// Tokens of the limiter with this number. `None`: the limit is gone, and those that there are now have to be passed.
    tokens: Option<(usize, Passed)>,
    /// How they were granted, if the limiter's home has done so.
    judging: Option<Judging>,
}

impl Grant {
    /// Tokens of a limiter, by its number.
    pub(crate) fn paid(id: usize, passed: Passed) -> Grant {
        Grant { tokens: Some((id, passed)), judging: None }
    }

    /// No tokens: the limit that the packet has waited for is gone.
    pub(crate) fn free() -> Grant {
        Grant { tokens: None, judging: None }
    }

    /// Tokens that the home of the limiters has granted.
    pub(crate) fn judged(judging: Judging) -> Grant {
        let tokens = judging.visit.id().zip(judging.passed);
        Grant { tokens, judging: Some(judging) }
    }

    /// Tokens of the limiter with this number.
    pub(crate) fn of(self, id: usize) -> Option<Passed> {
        self.tokens.filter(|(of, _)| *of == id).map(|(_, passed)| passed)
    }

    /// The home's grant, to travel on with the packet to another worker.
    pub(crate) fn into_judging(self) -> Option<Judging> {
        self.judging.filter(|_| self.tokens.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_one_limiter() {
        let passed = Passed { dscp: Some(10), ..Passed::default() };
        assert_eq!(Grant::paid(7, passed).of(7), Some(passed));
        assert_eq!(Grant::paid(7, passed).of(8), None);
        assert_eq!(Grant::free().of(7), None);
        assert!(Grant::paid(7, passed).into_judging().is_none());
    }
}
