//! Values of a request's single attributes.

use crate::backend::{Counters, Replay};
use crate::codec::{Attributes, LifetimeCurrent, MarkAttribute, ReplayState, attr};

/// The mark of a request, zero where there is none. Bits outside its mask do not count: not where something is
/// stored, as in Linux, and not where it is named (Linux then finds nothing), so that an owner can name what it
/// has stored by the same words.
pub(super) fn mark_of(attributes: &Attributes<'_>) -> MarkAttribute {
    attributes.value::<MarkAttribute>(attr::MARK).unwrap_or_default().cut()
}

/// The interface id of a request.
pub(super) fn if_id_of(attributes: &Attributes<'_>) -> u32 {
    attributes.value(attr::IF_ID).unwrap_or(0)
}

/// The mark that a request's SA sets, zero where there is none.
pub(super) fn set_mark_of(a: &Attributes<'_>) -> MarkAttribute {
    let mask = || a.value(attr::SET_MARK_MASK).unwrap_or(u32::MAX);
    let value = a.value::<u32>(attr::SET_MARK);
    value.map_or_else(MarkAttribute::default, |value| MarkAttribute { value, mask: mask() })
}

/// The counters of a lifetime attribute.
pub(super) fn counters(l: &LifetimeCurrent) -> Counters {
    Counters { bytes: l.bytes, packets: l.packets, first_use_s: l.use_time_s }
}

/// The numbers of a short replay state.
pub(super) fn short_replay(s: &ReplayState) -> Replay {
    Replay { sent: s.oseq.into(), edge: s.seq.into(), received: vec![s.bitmap.into()] }
}
