//! Path selection: which of several paths a flow takes, and when it moves.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Quality`] | the measured quality of a path, for one class of traffic |
//! | [`Bounds`] | the worst quality that a rule's traffic bears |
//! | [`Rule`] | paths in order of preference, bounds, and the choice where no path is within them |
//! | [`Selector`] | the state of one rule: which paths are good, and since when |
//! | [`Choice`] | the answer, as packets meet it |
//!
//! # When a flow moves
//!
//! A path that dies, or leaves the bounds, loses its flows at once. It gets none back until it has been within the bounds by a
//! margin for [`Rule::return_after`]: 10 % of each bound, and 1 ms of bounds of time. One spike of a path therefore moves its
//! flows once, and a path at the edge of the bounds does not make them flap. Then they go back, all of them, so that
//! none stays on an expensive path.
//!
//! Where no path is within the bounds the least bad one takes the flows, and keeps them until another is better by
//! 10 %. Where all are dead they stay where they are: nothing is gained by taking a flow's last path away.
//!
//! The crate does no I/O, and time is an argument: a duration on any clock that never goes back.

#![forbid(unsafe_code)]

mod bounds;
mod choice;
mod quality;
mod rule;
mod selector;
mod standing;

pub use bounds::Bounds;
pub use choice::Choice;
pub use quality::Quality;
pub use rule::{Candidate, Fallback, MAX_CANDIDATES, Rule, Spread};
pub use selector::Selector;
pub use standing::Standing;
