//! Packets that a helper has left to its worker.

use arrayvec::ArrayVec;
use io::BURST_LEN;

use super::Slow;
use crate::burst::Path;
use crate::model::Left;

/// Moves on the packets that a helper has left.
#[cold]
#[inline(never)]
pub(super) fn move_on_left(slow: &mut Slow, path: &mut Path, left: &mut ArrayVec<Left, BURST_LEN>) {
    if path.exec.crypt.opens.room() < left.len() {
        path.open_gathered(slow);
    }
    for Left { packet, mut meta, held } in left.drain(..) {
        // By what this thread knows, not the one that left it.
        path.look_for(core::slice::from_mut(&mut meta));
        path.enter_any(slow, packet, &meta, held.as_deref());
        path.unwrap_last(slow);
    }
    path.finish(slow);
}
