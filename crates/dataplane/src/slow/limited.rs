//! Packets that are resolved, and are under a rate limit.

use io::Packet;
use outcome::DropReason;
use wire::Headers;

use super::entered::{Resolved, handed};
use crate::burst::Path;
use crate::features::Executor;
use crate::features::limit::Grant;
use crate::features::limit::rates::Stop;
use crate::features::limit::{Rates, marked, wait_for};
use crate::model::{Judging, RateLimit};
use crate::out::AnyOut;
use crate::view::View;

/// Has a packet pass its limit, with the tokens that it has already. Returns its headers, which may have another DSCP then.
///
/// # Errors
/// It does not pass, or has to wait.
#[cold]
pub(super) fn pass(
    (rates, view): (&mut Rates, &View),
    limit: &RateLimit,
    (packet, grant): (&mut Packet, Option<Grant>),
    h: &Headers,
) -> Result<Headers, Stop> {
    let passed = rates.pass(limit, h.into(), view.now.ns, grant)?;
    let traffic_class = marked(packet, passed, h.into()).traffic_class();
    Ok(Headers { traffic_class, ..*h })
}

/// Drops a packet that does not pass here, or has it wait, or go where it is judged.
#[cold]
pub(super) fn stop(path: &mut Path, cause: Stop, limit: Option<&RateLimit>, of: Resolved<'_>) {
    let Resolved { packet, h, entered, .. } = of;
    let Path { view, exec, .. } = path;
    let Executor { out, rooms, .. } = exec;
    match (cause, limit) {
        (Stop::Until(ns), Some(limit)) => {
            let handed = handed(&view.reader, packet, entered);
            wait_for(&mut rooms.rates, (view, out), (limit, ns), handed, h.into());
        }
        (Stop::Elsewhere(home, visit), _) => {
            let handed = handed(&view.reader, packet, entered);
            out.ask(home, handed, Judging::of(visit, view.worker, h.into()));
        }
        _ => out.drop(packet, DropReason::RateLimit),
    }
}
