//! Which flow a packet will turn out to be of, while it is still encrypted.
//!
//! An SA's packets are often of the flow that its last one was of. While bursts are spread over
//! many SAs that is worth a prediction: the plan is prefetched before the packet is decrypted, and if its key
//! is the packet's afterwards, neither hash nor tag is needed, and nothing is waited for. The hint
//! lies beside the SA ([`policy::Reader::set_note`]), where it costs no line of its own.
//!
//! A hint is never trusted: the plan at the place is held against the packet as one that was found by
//! its tag. Wrong hints cost two lines that nobody reads, so a hint is made only where the last ones
//! would have been right.

/// A place in the flow cache, and how often it was right lately.
///
/// ```text
///   bits  0             30        32
///         place         trust
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowHint(u32);

impl FlowHint {
    /// None is made.
    pub(crate) const NONE: FlowHint = FlowHint(0);

    /// As it was noted.
    #[inline(always)]
    pub(crate) const fn from_note(note: u32) -> FlowHint {
        FlowHint(note)
    }

    /// To be noted.
    #[inline(always)]
    pub(crate) const fn note(self) -> u32 {
        self.0
    }

    /// Where the flow's plan is, if there is a hint.
    #[inline(always)]
    pub(crate) fn place(self) -> Option<u32> {
        (self.0 >= 1 << PLACE_BITS).then_some(self.0 & PLACE)
    }

    /// The next hint, after a packet whose flow's plan was at `place`.
    #[inline(always)]
    pub(crate) const fn learn(self, place: u32) -> FlowHint {
        let (old, trust) = (self.0 & PLACE, self.0 >> PLACE_BITS);
        match trust {
            // A cache of so many flows is one without hints.
            _ if place > PLACE => FlowHint::NONE,
            MOST if old == place => self,
            _ if old == place => FlowHint(self.0 + (1 << PLACE_BITS)),
            0 => FlowHint(place),
            _ => FlowHint(self.0 - (1 << PLACE_BITS)),
        }
    }
}

const PLACE_BITS: u32 = 30;
const PLACE: u32 = (1 << PLACE_BITS) - 1;
/// The most trust.
const MOST: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn after(places: &[u32]) -> FlowHint {
        places.iter().fold(FlowHint::NONE, |hint, place| hint.learn(*place))
    }

    #[test]
    fn a_flow_is_guessed_when_it_came_twice_in_turn() {
        assert_eq!(after(&[]).place(), None);
        assert_eq!(after(&[7]).place(), None);
        assert_eq!(after(&[7, 7]).place(), Some(7));
        assert_eq!(after(&[7, 7, 7, 7, 7, 7]).place(), Some(7));
        assert_eq!(after(&[5, 7, 7]).place(), Some(7));
        assert_eq!(after(&[PLACE, PLACE]).place(), Some(PLACE));
    }

    #[test]
    fn trust_wears_off() {
        let long = [7; 100];
        assert_eq!(after(&[&long[..], &[8]].concat()).place(), Some(7));
        assert_eq!(after(&[&long[..], &[8, 9]].concat()).place(), Some(7));
        assert_eq!(after(&[&long[..], &[8, 9, 8]].concat()).place(), None);
        assert_eq!(after(&[&long[..], &[8, 9, 8, 8, 8]].concat()).place(), Some(8));
    }

    #[test]
    fn flows_that_take_turns_are_not_guessed() {
        let mut hint = FlowHint::NONE;
        for n in 0..1000 {
            hint = hint.learn(1 + n % 3);
            assert_eq!(hint.place(), None, "{n}");
        }
    }

    #[test]
    fn places_beyond_what_a_note_holds_are_not_guessed() {
        let far = PLACE + 1;
        assert_eq!(after(&[far, far, far]), FlowHint::NONE);
        assert_eq!(after(&[7, 7, far]), FlowHint::NONE);
        let hint = after(&[7, 7]);
        assert_eq!(FlowHint::from_note(hint.note()), hint);
    }
}
