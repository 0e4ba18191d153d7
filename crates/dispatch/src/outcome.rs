//! Refusals and statistics of a queue.

use core::fmt;

/// An item that a queue did not take. It comes back: nothing is dropped for lack of room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refused<T> {
    /// There is no room now.
    Full(T),
    /// Nobody is left to take it, and nobody will come.
    Closed(T),
}

impl<T> Refused<T> {
    /// The item that was not taken.
    pub fn into_item(self) -> T {
        match self {
            Self::Full(item) | Self::Closed(item) => item,
        }
    }
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full",
            Self::Closed(_) => "Closed",
        })
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the queue is full",
            Self::Closed(_) => "nobody takes from the queue any more",
        })
    }
}

impl<T> core::error::Error for Refused<T> {}

/// A queue at one moment. Under way the numbers are as exact as reading one after the other allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Items in the queue; of an ordered queue those that are not released yet.
    pub depth: usize,
    /// Items that it holds at most.
    pub capacity: usize,
    /// How often a put, of one item or of many, did not find room for all.
    pub full: u64,
}
