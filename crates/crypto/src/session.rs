//! One SA's keys as an engine wants them.
//!
//! An engine's own state comes in one of two forms:
//! - a [`KeyBlock`]: cache lines of bytes that only the engine understands, one allocation, reached
//!   from a job by one pointer. The engine knows its own blocks by its [`Maker`];
//! - any type, found again by its type ([`Session::state`]): convenient, and a call dearer.

use core::any::Any;
use core::fmt;
use core::sync::atomic::{AtomicU16, Ordering};
use std::sync::Arc;

use mem::Cache;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::suite::Suite;

/// One SA's keyed state in an engine: expanded keys, in both directions.
///
/// Shared between workers; engines only read it. A clone shares the keys; they are zeroised when
/// the last one is dropped.
#[derive(Clone)]
pub struct Session(Repr);

/// One enum and no struct around it, so that all small fields share eight bytes.
#[derive(Clone)]
enum Repr {
    Keys { suite: Suite, maker: Maker, keys: KeyBlock },
    State { suite: Suite, state: Arc<dyn Any + Send + Sync> },
}

const _: () = assert!(size_of::<Session>() == 24);

impl Session {
    /// Wraps an engine's own state.
    pub fn new(suite: Suite, state: Box<dyn Any + Send + Sync>) -> Session {
        Session(Repr::State { suite, state: state.into() })
    }

    /// The session of an SA that no engine works for.
    pub fn none() -> Session {
        Session::new(Suite::None, Box::new(()))
    }

    /// Wraps keys that `maker`'s engines understand.
    pub fn with_keys(suite: Suite, maker: Maker, keys: KeyBlock) -> Session {
        Session(Repr::Keys { suite, maker, keys })
    }

    /// The suite that the session is for.
    #[inline]
    pub fn suite(&self) -> Suite {
        match self.0 {
            Repr::Keys { suite, .. } | Repr::State { suite, .. } => suite,
        }
    }

    /// The keys and their suite, if they were wrapped with the same `maker`.
    #[inline]
    pub fn keys(&self, maker: Maker) -> Option<(Suite, &[KeyLine])> {
        match &self.0 {
            Repr::Keys { suite, maker: made_by, keys, .. } if *made_by == maker => {
                Some((*suite, keys.lines()))
            }
            _ => None,
        }
    }

    /// The engine's own state, if it is of that type.
    pub fn state<T: 'static>(&self) -> Option<&T> {
        match &self.0 {
            Repr::State { state, .. } => state.downcast_ref(),
            Repr::Keys { .. } => None,
        }
    }

    /// Asks the processor to bring the last line of the keys near; waits for nothing. Engines ask for
    /// the rest, which costs less when the processor knows the page that it is on.
    #[inline]
    pub fn prefetch_end(&self, cache: Cache) {
        match &self.0 {
            Repr::Keys { keys, .. } => {
                keys.lines().last().into_iter().for_each(|line| mem::prefetch_into(cache, line));
            }
            Repr::State { state, .. } => mem::prefetch_into(cache, &**state),
        }
    }

    /// Bytes on the heap that the session's keys occupy, the allocator's own need not counted;
    /// `None` for a state that does not say.
    pub fn heap_len(&self) -> Option<usize> {
        match &self.0 {
            // The two reference counts lie before the lines and fill one.
            Repr::Keys { keys, .. } => Some(size_of::<KeyLine>() + size_of_val(keys.lines())),
            Repr::State { .. } => None,
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", self.suite())
    }
}

/// Identity of the engine that made a session's keys: a number that is unique in this process.
///
/// An engine keeps its maker to itself. Then every [`Session`] that answers to it holds what the
/// engine itself has put there, and the engine may hand the lines to code that cannot check them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maker(u16);

impl Maker {
    /// A new number; `None` when all 65,535 are given away.
    pub fn new() -> Option<Maker> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| next.checked_add(1))
            .ok()
            .map(Maker)
    }
}

/// A cache line of key material; zeroised when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
pub struct KeyLine([u8; mem::LINE_LEN]);

impl KeyLine {
    const ZERO: KeyLine = KeyLine([0; mem::LINE_LEN]);
}

/// Zero-initialised cache lines for key material: one allocation, which never moves.
///
/// Only its maker can write to it, until it is cloned or wrapped by a [`Session`].
#[derive(Clone)]
pub struct KeyBlock {
    lines: Arc<[KeyLine]>,
}

impl KeyBlock {
    /// At least `len` bytes, and at least one line.
    pub fn new(len: usize) -> KeyBlock {
        let count = len.div_ceil(mem::LINE_LEN).max(1);
        KeyBlock { lines: (0..count).map(|_| KeyLine::ZERO).collect() }
    }

    /// The cache lines, in order.
    #[inline]
    pub fn lines(&self) -> &[KeyLine] {
        &self.lines
    }

    /// The lines for writing; `None` once the block is shared.
    pub fn lines_mut(&mut self) -> Option<&mut [KeyLine]> {
        Arc::get_mut(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn makers() -> [Maker; 2] {
        [Maker::new().unwrap(), Maker::new().unwrap()]
    }

    #[test]
    fn keys_are_given_to_their_maker_alone() {
        let [mine, other] = makers();
        let suite = Suite::ChaCha20Poly1305;
        let session = Session::with_keys(suite, mine, KeyBlock::new(36));
        let (found, lines) = session.keys(mine).unwrap();
        assert_eq!((found, lines.len(), session.suite()), (suite, 1, suite));
        assert!(session.keys(other).is_none());
        assert!(session.state::<KeyBlock>().is_none());
        assert!(Session::new(suite, Box::new(KeyBlock::new(1))).keys(mine).is_none());
    }

    #[test]
    fn a_state_is_found_by_its_type() {
        let session = Session::new(Suite::ChaCha20Poly1305, Box::new(7_u32));
        assert_eq!(session.state::<u32>(), Some(&7));
        assert_eq!(session.state::<i32>(), None);
        assert_eq!(session.heap_len(), None);
        session.prefetch_end(Cache::Second);
    }

    #[test]
    fn blocks_are_whole_lines_and_zero() {
        for (len, want) in [(0, 1), (1, 1), (64, 1), (65, 2), (1012, 16)] {
            let mut block = KeyBlock::new(len);
            assert_eq!(block.lines().len(), want);
            assert_eq!(block.lines().as_ptr().addr() % mem::LINE_LEN, 0);
            assert!(block.lines().iter().all(|line| line.0 == [0; mem::LINE_LEN]));
            assert_eq!(block.lines_mut().unwrap().len(), want);
        }
    }

    #[test]
    fn a_shared_block_is_not_written() {
        let mut block = KeyBlock::new(1);
        let shared = block.clone();
        assert!(block.lines_mut().is_none());
        drop(shared);
        assert!(block.lines_mut().is_some());
    }

    #[test]
    fn the_keys_say_how_much_memory_they_take() {
        let [maker, _] = makers();
        let session = Session::with_keys(Suite::ChaCha20Poly1305, maker, KeyBlock::new(9));
        session.prefetch_end(Cache::Second);
        assert_eq!(session.heap_len(), Some(128));
    }
}
