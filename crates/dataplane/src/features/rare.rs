//! Rare kinds of actions, each described by its feature.
//!
//! The common kinds (open, seal, forward, to Linux) are matched where they are carried out, with no call in between.
//! All that others know of a rare one it says here, in its feature's room; [`crate::features`] has the list of them.
//! A helper leaves packets of a rare kind to the worker that it serves. They count in the flow cache and with their policies where they are carried out.

use esp::Sa;
use io::Packet;
use policy::Reader;
use wire::Fields;

use crate::features::hands::Hands;
use crate::model::{Action, Fate, Meta};

/// A rare kind of action, as the flow's plan has it.
pub(crate) trait Rare {
    /// State of the feature, for all flows of one thread.
    type Kept;

    /// Compares the plan with this packet. Changes nothing.
    fn holds<'k>(&'k self, kept: &'k Self::Kept, asked: &Subject<'_>) -> Held<'k>;

    /// Does it to a packet. Returns what is done to the packet next, if it goes on by another action.
    fn apply(
        &self,
        kept: &mut Self::Kept,
        hands: &mut Hands<'_>,
        packet: Packet,
        meta: &Meta,
    ) -> Option<Next>;

    /// Fate of a packet for `culvert why`. `cut`: the longest fragment, if it is fragmented before.
    fn explains(&self, cut: Option<usize>) -> Fate;
}

/// A packet that a plan is held against.
pub(crate) struct Subject<'a> {
    pub(crate) reader: &'a Reader<Sa>,
    pub(crate) packet: &'a Packet,
    pub(crate) h: Fields,
}

/// Result of a plan's comparison with a packet.
pub(crate) enum Held<'k> {
    /// It is resolved anew.
    No,
    Yes,
    /// If the action does that is carried out next.
    If(&'k Action),
}

impl From<bool> for Held<'_> {
    fn from(holds: bool) -> Self {
        if holds { Held::Yes } else { Held::No }
    }
}

/// A packet that goes on by another action.
pub(crate) struct Next {
    pub(crate) action: Action,
    pub(crate) packet: Packet,
    /// Its headers, where they have changed in what actions look at.
    pub(crate) fields: Option<Fields>,
}
