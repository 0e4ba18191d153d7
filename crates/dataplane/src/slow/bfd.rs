//! Packets of BFD, and echo packets that go back: packets of this host, which are resolved like any other.

use arrayvec::ArrayVec;
use io::BURST_LEN;

use super::Slow;
use super::again::resolve_again;
use crate::burst::Path;
use crate::features::Executor;
use crate::features::crafted::Crafted;

/// Sends echo packets back, and the packets that are due.
#[cold]
#[inline(never)]
pub(super) fn send_bfd(slow: &mut Slow, path: &mut Path) {
    let Some(mut sessions) = path.exec.rooms.bfd.take() else { return };
    while let Some((packet, h, origin)) = sessions.next_echo() {
        resolve_again(slow, path, packet, &h, (origin, false), None);
    }
    let mut due: ArrayVec<Crafted, BURST_LEN> = ArrayVec::new();
    let Path { view, exec: Executor { crypt, out, .. }, .. } = &mut *path;
    // A burst has room for the packets of a round.
    sessions.make(view, out, crypt.ivs.random(), |crafted| drop(due.try_push(crafted)));
    path.exec.rooms.bfd = Some(sessions);
    for (packet, h, origin) in due {
        resolve_again(slow, path, packet, &h, (origin, false), None);
    }
}
