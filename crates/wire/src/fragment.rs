//! Whether and how a packet is a fragment.

/// Place of a packet among the fragments of a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// The whole packet.
    Whole,
    /// The first fragment: the upper-layer header is there.
    First,
    /// A later fragment: no upper-layer header.
    Later,
}
