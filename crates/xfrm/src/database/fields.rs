//! Values of a request's single attributes.

use super::sad::SaOptions;
use crate::backend::{Counters, Replay};
use crate::codec::{Attributes, Encap, LifetimeCurrent, MarkAttribute, Offload, ReplayState, attr};

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

/// The options of a request's SA. Its encapsulation and its device are checked before.
pub(super) fn options_of(
    a: &Attributes<'_>,
    direction: Option<u8>,
    encap: Option<Box<Encap>>,
    offload: Option<Box<Offload>>,
) -> SaOptions {
    let number = |kind| a.value::<u32>(kind);
    SaOptions {
        extra_flags: number(attr::SA_EXTRA_FLAGS).unwrap_or(0),
        care_of: a.value(attr::COADDR).map(Box::new),
        encap,
        tfc_pad_len: number(attr::TFCPAD).unwrap_or(0),
        mark: mark_of(a),
        set_mark: set_mark_of(a),
        if_id: if_id_of(a),
        direction,
        offload,
        cpu: number(attr::SA_PCPU),
        iptfs: None,
        mapping_max_age_s: number(attr::MTIMER_THRESH).unwrap_or(0),
        replay_threshold: number(attr::REPLAY_THRESH).unwrap_or(DEFAULT_REPLAY_THRESHOLD),
        timer_threshold: number(attr::ETIMER_THRESH).unwrap_or(DEFAULT_TIMER_THRESHOLD),
    }
}

/// Linux's default for replay events, in packets.
const DEFAULT_REPLAY_THRESHOLD: u32 = 2;
/// Linux's default for replay events, in tenths of a second.
const DEFAULT_TIMER_THRESHOLD: u32 = 10;
