//! Leave to write what an SA counts by: its numbers, its replay window, its counters.

use core::marker::PhantomData;

/// The turn of a thread: no other writes SAs' numbers, windows and counters while there is one.
///
/// A function that writes them takes it as an argument, so that it compiles only for callers that have it. It has no size.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'t>(PhantomData<&'t ()>);

/// A value that exists only while its thread has the turn, or is the only one that knows the SAs in question.
///
/// All such values are found by the lines that implement this.
pub(crate) trait TurnHolder {}

impl<'t> Turn<'t> {
    /// The turn, for as long as its holder is borrowed.
    #[inline(always)]
    pub(crate) fn of(_holder: &'t impl TurnHolder) -> Turn<'t> {
        Turn(PhantomData)
    }
}

/// The turn of a burst that goes through helpers.
impl TurnHolder for dispatch::ordered::Turn<'_> {}
