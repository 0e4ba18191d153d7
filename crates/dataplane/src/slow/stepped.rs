//! SRv6: packets that have left a step go on, and the senders of those that were refused are told.

use io::BURST_LEN;

use super::Slow;
use crate::burst::Path;
use crate::burst::classify::meta_of_packet;
use crate::model::{Between, Ingress, Metas, Origin, RefusedStep, is_function};
use crate::out::AnyOut;
use crate::out::dressed::reason;
use crate::out::segments::cause;

/// Moves on what bursts have left between two steps. No other stage is at work.
#[inline(never)]
pub(crate) fn move_on_stepped(slow: &mut Slow, path: &mut Path) {
    // Each step spends a hop, or room in front of the packet.
    while !path.exec.out.between.is_empty() {
        let mut scratch = path.exec.rooms.steps.scratch.take().unwrap_or_default();
        path.exec.out.between.swap(&mut scratch.between);
        for refused in scratch.between.refused.drain(..) {
            tell_refused(slow, path, refused);
        }
        while !scratch.between.on.is_empty() {
            enter_stepped(slow, path, &mut scratch.between, &mut scratch.metas);
        }
        path.exec.rooms.steps.scratch = Some(scratch);
    }
}

#[cold]
fn tell_refused(slow: &mut Slow, path: &mut Path, refused: RefusedStep) {
    let RefusedStep { packet, ingress, refusal } = refused;
    if let Ok(h) = wire::parse_ip(packet.data())
        && let Some(cause) = cause(&refusal)
    {
        let Ingress { ifindex, mark, .. } = ingress;
        let origin = match ingress.is_decrypted() {
            true => Origin::Decrypted { ifindex, mark },
            false => Origin::Port { ifindex, mark, is_barred: false },
        };
        slow.errors.make((&path.view, &mut path.exec.out), &packet, &h, (origin, cause));
    }
    path.exec.out.drop(packet, reason(refusal.fault));
}

/// Passes 1 to 3 of the first of such packets, as many as a burst has.
fn enter_stepped(slow: &mut Slow, path: &mut Path, between: &mut Between, metas: &mut Metas) {
    let len = between.on.len().min(BURST_LEN);
    let topology = &path.view.topology;
    let has_rules = !topology.mark_rules.is_empty();
    let packets = between.on.iter_mut().zip(between.came.drain(..len));
    for ((packet, ingress), meta) in packets.zip(metas.places(len)) {
        match meta_of_packet(packet, meta) {
            Ok(()) => {
                // What was inside of another may be shorter than that.
                packet.span.len = usize::from(meta.summary.fields.total_len());
                meta.enter(ingress, true);
                if has_rules && ingress.is_decrypted() && !is_function(ingress.ifindex) {
                    meta.ingress.mark = topology.mark(ingress.ifindex, &meta.summary);
                }
            }
            Err(reason) => meta.end = Some(reason.into()),
        }
    }
    path.look_for(metas);
    if path.exec.crypt.opens.room() < len {
        path.open_gathered(slow);
    }
    let packets = between.on.drain(..len).zip(between.held.drain(..len));
    for ((packet, held), meta) in packets.zip(metas.iter()) {
        path.enter_any(slow, packet, meta, held.as_deref());
    }
}
