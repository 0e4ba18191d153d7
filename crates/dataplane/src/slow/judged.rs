//! Packets under limits that one worker has at a time ([`limit::Place`]): at the home of these, and back.
//!
//! ```text
//!   the worker that resolves it                     the home of its limiters
//!   policies count it, and the limit is found
//!   ask ------------------- length, DSCP ---------> takes tokens, or drops it
//!   goes on by what holds then  <---- passed ------ hands it back
//! ```
//!
//! The home reads nothing of the packet, and decides nothing else about it. One that was decrypted has been through the replay
//! window of its SA, and is held against policies where it came from, both before it goes and when it is back. Its
//! [`Visit`](limit::Visit) keeps the home where it is, so that packets of a flow all go this way until the last is back.

use arrayvec::ArrayVec;
use io::BURST_LEN;
use outcome::DropReason;

use super::Slow;
use super::waited::go_on;
use crate::burst::Path;
use crate::burst::classify::meta_of_packet;
use crate::features::limit::Grant;
use crate::model::{Arrived, Handed, Judging, Meta, Parcel};
use crate::out::AnyOut;

/// Takes packets out that are judged here, or were where they have been, and moves them on; what is left is in its order.
pub(super) fn take_judged(
    slow: &mut Slow,
    path: &mut Path,
    parcels: ArrayVec<Parcel, BURST_LEN>,
) -> ArrayVec<Handed, BURST_LEN> {
    let mut left = ArrayVec::new();
    for Parcel { handed, judging } in parcels {
        match judging {
            // As many as came.
            None => drop(left.try_push(handed)),
            Some(judging) if judging.passed.is_none() => judge(path, handed, judging),
            Some(judging) => go_on(slow, path, handed, Grant::judged(judging)),
        }
    }
    left
}

/// Judges a packet of another worker, as the home of its limiters.
#[inline(never)]
fn judge(path: &mut Path, handed: Handed, judging: Judging) {
    let Judging { len, dscp, from, .. } = judging;
    match judging.visit.pass((len.into(), dscp), path.view.now.ns) {
        Ok(passed) => {
            let judging = Some(Judging { passed: Some(passed), ..judging });
            path.exec.out.send_parcel(from.into(), Parcel { handed, judging });
        }
        Err(_) => {
            if path.exec.out.taps.is_some() {
                tap_refused(path, &handed);
            }
            path.exec.out.drop(handed.into_packet(), DropReason::RateLimit);
        }
    }
}

/// Records a packet that is dropped here.
#[cold]
fn tap_refused(path: &mut Path, handed: &Handed) {
    let Handed::Arrived(Arrived { packet, ingress, has_flow, outers, held, .. }) = handed else {
        return;
    };
    let mut meta = Meta::default();
    if meta_of_packet(packet, &mut meta).is_ok() {
        meta.enter(ingress.of_other(), *has_flow);
        outers.iter().for_each(|outers| meta.set_outers(outers.clone()));
        path.tap_handed(packet, &meta, held.as_deref());
    }
}
