//! Probes of paths, and reflections: packets of this host, which are resolved like any other.

use arrayvec::ArrayVec;
use io::BURST_LEN;

use super::Slow;
use super::again::resolve_again;
use crate::burst::Path;
use crate::features::Executor;
use crate::features::crafted::Crafted;

/// Sends reflections that wait, and probes that are due.
#[cold]
#[inline(never)]
pub(super) fn send_probes(slow: &mut Slow, path: &mut Path) {
    let Some(mut paths) = path.exec.rooms.paths.take() else { return };
    for (packet, h, origin) in paths.take_answers() {
        resolve_again(slow, path, packet, &h, (origin, false), None);
    }
    let mut probes: ArrayVec<Crafted, BURST_LEN> = ArrayVec::new();
    let Path { view, exec: Executor { crypt, out, .. }, .. } = &mut *path;
    // A burst has room for the probes of a round.
    paths.make(view, out, crypt.ivs.random(), |probe| drop(probes.try_push(probe)));
    path.exec.rooms.paths = Some(paths);
    for (packet, h, origin) in probes {
        resolve_again(slow, path, packet, &h, (origin, false), None);
    }
}
