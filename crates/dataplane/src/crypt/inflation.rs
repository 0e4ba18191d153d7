//! How much IPComp may make of the packets of one burst.

/// How much decompression may make of the packets of one burst.
///
/// A packet of 1500 bytes may become 65,535, and a burst of them four million: milliseconds in which nobody else's
/// packets go on. So of what becomes longer than a packet of a usual link only so much is decompressed; what stays
/// short costs no more than other packets do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inflation {
    /// Bytes beyond [`USUAL_LEN`] that are left.
    left: usize,
}

/// Bytes that any packet may become.
const USUAL_LEN: usize = 2048;

/// Bytes beyond those for all packets of a burst: two of the longest, or fourteen of 9000 bytes.
const LONG_BYTES: usize = 128 * 1024;

impl Inflation {
    /// Limits of a new burst.
    pub(crate) const WHOLE: Inflation = Inflation { left: LONG_BYTES };

    /// The most bytes that the next packet may become.
    pub(crate) fn most(self) -> usize {
        USUAL_LEN + self.left
    }

    /// True if the longest packet fits.
    pub(crate) fn is_whole(self) -> bool {
        self.most() >= usize::from(u16::MAX)
    }

    /// A packet has become so long.
    pub(crate) fn count(&mut self, len: usize) {
        self.left = self.left.saturating_sub(len.saturating_sub(USUAL_LEN));
    }
}
