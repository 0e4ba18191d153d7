//! Fragments: the part of a packet that one is.

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
