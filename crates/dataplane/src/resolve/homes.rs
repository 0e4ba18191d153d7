//! The homes of SAs that are one inside the other.
//!
//! The first worker that meets a bundle finds homes for those of its SAs that have none: that of the outermost
//! one, which it becomes itself if nobody is. So the SAs of bundles that share the outermost have one home. An
//! SA that is of another bundle too may have come to another worker with that; then each home seals for its own
//! SAs, from the innermost outwards, and hands the packet on.
//!
//! ```text
//!   homes, innermost first
//!   - - -   become 1 1 1, of the worker at hand
//!   - - 2   become 2 2 2
//!   1 - 2   become 1 2 2: 1 seals with the first, and hands on to 2
//! ```
//!
//! A packet goes to the home of the innermost SA first, from any worker that received it, so packets of a flow take one way.

use dispatch::Home;
use policy::SaHandle;

use crate::view::View;

/// The home of the innermost of these SAs, if it has one and that is another worker: it gets the packet.
pub(crate) fn other(view: &View, sas: &[SaHandle]) -> Option<usize> {
    let home = view.reader.sa(*sas.first()?)?.home().at();
    (home != view.worker.get() && home != Home::WORKERS).then_some(home)
}

/// Finds homes for those of the SAs that have none. Returns how many have this worker, up to the first that has
/// another.
///
/// # Errors
/// The packet is for another worker.
pub(crate) fn claim(view: &View, sas: &[SaHandle]) -> Result<usize, usize> {
    let me = view.worker.get();
    // An SA that is gone has no state to be written.
    let claim = |sa: &SaHandle, to| view.reader.sa(*sa).map_or(to, |sa| sa.home().claim(to));
    let outermost = sas.last().map_or(me, |sa| claim(sa, me));
    let mut homes = sas.iter().map(|sa| claim(sa, outermost));
    match homes.next() {
        Some(home) if home != me => Err(home),
        _ => Ok(1 + homes.take_while(|home| *home == me).count()),
    }
}
