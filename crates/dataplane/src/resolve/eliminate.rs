//! Copies that are decrypted: the worker of their stream takes them.

use outcome::DropReason;
use preof::Content;
use wire::{Fragment, protocol};

use super::Decision;
use super::question::Context;
use crate::model::{Action, Draft, Eliminate};
use crate::tables::replication::home_of;

/// Decision for a decrypted packet of this host that may be a copy. `linux` is the decision for one that is none.
pub(super) fn eliminated(context: &Context<'_>, linux: Decision) -> Decision {
    let h = context.h;
    let is_copy = h.protocol == protocol::UDP
        && h.fragment == Fragment::Whole
        && h.dst_port == preof::PORT
        && context.view.topology.path_ends.removal.is_some();
    if !is_copy || !matches!(linux, Decision::Go(Draft { action: Action::ToLinux(_), .. })) {
        return linux;
    }
    let payload = context.packet.get(h.header_len.into()..).unwrap_or_default();
    let Ok(content) = Content::parse(payload) else {
        return Decision::Drop(DropReason::CopyMalformed);
    };
    match home_of(content.label(), context.view.workers) {
        home if home == context.view.worker.get() => {
            Decision::Go(Draft::of_flow(Action::Eliminate(Eliminate)))
        }
        home => Decision::Go(Draft::hand_over(home)),
    }
}
