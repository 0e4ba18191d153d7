//! The SAs that a packet came through before the last.

use arrayvec::ArrayVec;
use policy::{MAX_BUNDLE, SaHandle};

/// SAs that a packet came through before the last one, the outermost first: of a packet that was
/// protected by several SAs, one inside the other.
///
/// Beside the last one, which tells flows apart. A packet that has any is resolved for itself: plans are
/// of packets that one SA protects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outers(ArrayVec<SaHandle, { MAX_BUNDLE - 1 }>);

impl Outers {
    /// These SAs and one more. `None` if no policy asks for so many.
    pub(crate) fn with(&self, last: SaHandle) -> Option<Outers> {
        let mut outers = self.clone();
        outers.0.try_push(last).is_ok().then_some(outers)
    }

    /// The SAs, in the order in which they have opened the packet.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SaHandle> {
        self.0.iter().copied()
    }
}
