//! Packets that have waited for tokens of a limit, on their way.

use core::slice;

use arrayvec::ArrayVec;
use io::Packet;

use super::Slow;
use super::again::resolve_again;
use super::fragments::move_on_fragment;
use super::handed::take_over;
use super::miss::resolve_miss;
use crate::burst::classify::meta_of_packet;
use crate::burst::{Misses, Path};
use crate::features::Holds;
use crate::features::limit::Grant;
use crate::features::limit::queues::Dequeued;
use crate::model::{Action, Again, Arrived, Handed, Meta, RateSlot};
use crate::out::AnyOut;

/// Moves on what has tokens now, and ends what has waited too long; some of it at once.
pub(super) fn move_on_waited(slow: &mut Slow, path: &mut Path) {
    for _ in 0..AT_ONCE {
        let Some(next) = path.exec.rooms.rates.next_waited(path.view.now.ns) else { break };
        path.exec.out.released(1);
        match next {
            Dequeued::On(handed, grant) => go_on(slow, path, handed, grant),
            Dequeued::Drop(handed, reason) => path.exec.out.drop(handed.into_packet(), reason),
        }
    }
}

/// Moves a packet on as what holds now says, with the tokens that it has got.
pub(super) fn go_on(slow: &mut Slow, path: &mut Path, handed: Handed, grant: Grant) {
    let arrived = match handed {
        Handed::Arrived(arrived @ Arrived { ports: None, .. }) => arrived,
        Handed::Arrived(Arrived { ports, .. })
        | Handed::Again(Again { ports: ports @ Some(_), .. }) => {
            return move_on_fragment(slow, path, handed, (ports, Some(grant)));
        }
        Handed::Again(Again { packet, origin, is_of_other, .. }) => {
            let from = (origin, is_of_other);
            return match wire::parse_ip(packet.data()) {
                Ok(h) => resolve_again(slow, path, packet, &h, from, Some(grant)),
                Err(error) => path.exec.out.drop(packet, error.into()),
            };
        }
        // Those are under no limit.
        Handed::Sealed(..) | Handed::Frame(..) => {
            return take_over(slow, path, &mut ArrayVec::from_iter([handed]));
        }
    };
    let Arrived { packet, ingress, has_flow, outers, held, .. } = arrived;
    let mut meta = Meta::default();
    if let Err(reason) = meta_of_packet(&packet, &mut meta) {
        return path.exec.out.drop(packet, reason);
    }
    meta.enter(ingress, has_flow);
    outers.into_iter().for_each(|outers| meta.set_outers(outers));
    path.look_for(slice::from_mut(&mut meta));
    if path.exec.out.taps.is_some() {
        path.tap_handed(&packet, &meta, held.as_deref());
    }
    match limited_by_plan(path, &packet, &meta) {
        Some(slot) => {
            path.exec.apply_granted(&path.view, slow.turn(), (slot, grant), packet, &meta);
        }
        None => resolve_miss(slow, path, (packet, Some(grant)), &meta, held.as_deref()),
    }
}

/// The place of the limit in a packet's plan, if that holds.
fn limited_by_plan(path: &mut Path, packet: &Packet, meta: &Meta) -> Option<RateSlot> {
    let Path { view, flows, exec, .. } = path;
    let place = meta.place.filter(|_| meta.has_flow)?;
    let plan = flows.at(place, &meta.key(), view)?;
    let Action::Limit(slot) = plan.action else { return None };
    let holds = exec.rooms.judge(&plan.action, &view.reader, packet, meta.summary.fields);
    matches!(holds, Holds::Yes).then_some(slot)
}

/// Packets that go on in one round.
const AT_ONCE: usize = 256;
