//! Packets that have waited as fragments: whole ones, or each with the ports of its packet's first fragment.
//!
//! A packet that was put together goes on as one that another worker has handed over: it is classified, and
//! its flow may have a plan. Fragments that only waited for the first one are resolved by its ports, each
//! for itself, and no plan is made of that.

use arrayvec::ArrayVec;
use forward::reassembly::Fate;
use outcome::DropReason;

use super::Slow;
use super::fragments::move_on_fragment;
use super::handed::take_over;
use super::payloads::move_on_payloads;
use super::stepped::move_on_stepped;
use crate::burst::Path;
use crate::features::device::is_for_device;
use crate::out::AnyOut;

/// Moves on what is done with, and what payloads of IP-TFS hold. No other stage is at work.
#[cold]
#[inline(never)]
pub(super) fn move_on_gathered(slow: &mut Slow, path: &mut Path) {
    if path.exec.rooms.aggfrag.has_arrived() {
        move_on_payloads(slow, path);
    }
    move_on_stepped(slow, path);
    while let Some(mut done) = path.exec.rooms.fragments.as_mut().and_then(|f| f.next_done()) {
        let ports = match done.fate {
            Fate::Join { head_len, len } => {
                match path.exec.join(done, (head_len, len)) {
                    Some(whole)
                        if whole.is_outer() && is_for_device(&path.view, whole.packet().data()) =>
                    {
                        let reason = DropReason::InDeviceFragment;
                        path.exec.out.drop(whole.into_packet(), reason);
                    }
                    Some(whole) if whole.is_outer() => {
                        take_over(slow, path, &mut ArrayVec::from_iter([whole]));
                    }
                    Some(whole) => move_on_fragment(slow, path, whole, (None, None)),
                    None => {}
                }
                continue;
            }
            Fate::Pass(ports) => ports,
        };
        while let Some(handed) =
            path.exec.rooms.fragments.as_mut().and_then(|f| f.pop_piece(&mut done))
        {
            path.exec.out.released(1);
            move_on_fragment(slow, path, handed, (Some(ports), None));
        }
    }
}
