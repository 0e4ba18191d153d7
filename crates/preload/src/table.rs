//! Which descriptors are ours: read on every interposed call, so lock-free and without memory
//! management.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Owner of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The program's, or nobody's.
    Foreign,
    /// The library's own, which the program knows nothing of.
    Internal,
    /// The program's epoll descriptor, with a socket of ours in it.
    Epoll,
    /// The program's UDP socket, whose ESP is culvert's.
    Given,
    /// A socket of ours: its number in the state.
    Socket(u32),
}

/// Descriptors from here on cannot be ours; `socket` fails with EMFILE rather than return one.
pub(crate) const LIMIT: usize = 1 << 16;

/// 0 is foreign, [`INTERNAL`], [`EPOLL`] and [`GIVEN`] say it, everything else is a socket's number plus one.
static OWNERS: [AtomicU32; LIMIT] = [const { AtomicU32::new(0) }; LIMIT];

/// The highest number that was ever ours: bounds the search for a socket's descriptors.
static HIGHEST: AtomicU32 = AtomicU32::new(0);

const INTERNAL: u32 = u32::MAX;
const EPOLL: u32 = u32::MAX - 1;
const GIVEN: u32 = u32::MAX - 2;

fn entry(fd: i32) -> Option<&'static AtomicU32> {
    OWNERS.get(usize::try_from(fd).ok()?)
}

/// The owner of `fd`.
pub(crate) fn owner(fd: i32) -> Owner {
    match entry(fd).map_or(0, |e| e.load(Acquire)) {
        0 => Owner::Foreign,
        INTERNAL => Owner::Internal,
        EPOLL => Owner::Epoll,
        GIVEN => Owner::Given,
        number => Owner::Socket(number - 1),
    }
}

/// True if `fd` is not ours: closing it, or putting something else behind it, needs no step here.
pub(crate) fn is_foreign(fd: i32) -> bool {
    owner(fd) == Owner::Foreign
}

/// True if `fd` is a socket of ours.
pub(crate) fn is_socket(fd: i32) -> bool {
    matches!(owner(fd), Owner::Socket(_))
}

/// Changes whose `fd` is; the caller holds the state's lock. False if `fd` is beyond [`LIMIT`].
pub(crate) fn set(fd: i32, owner: Owner) -> bool {
    let Some(entry) = entry(fd) else { return owner == Owner::Foreign };
    let value = match owner {
        Owner::Foreign => 0,
        Owner::Internal => INTERNAL,
        Owner::Epoll => EPOLL,
        Owner::Given => GIVEN,
        Owner::Socket(number) => number + 1,
    };
    if value != 0 {
        HIGHEST.fetch_max(fd as u32, Relaxed);
    }
    entry.store(value, Release);
    true
}

/// The descriptors in `range` that are not foreign.
pub(crate) fn ours(range: RangeInclusive<u32>) -> impl Iterator<Item = (i32, Owner)> {
    let last = HIGHEST.load(Relaxed).min(*range.end());
    (*range.start()..=last)
        .map(|fd| (fd as i32, owner(fd as i32)))
        .filter(|(_, owner)| *owner != Owner::Foreign)
}

/// The descriptors of one socket.
pub(crate) fn descriptors(socket: u32) -> impl Iterator<Item = i32> {
    ours(0..=u32::MAX).filter(move |(_, o)| *o == Owner::Socket(socket)).map(|(fd, _)| fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_cannot_be_ours_are_foreign() {
        for fd in [-1, i32::MIN, i32::MAX, LIMIT as i32] {
            assert!(is_foreign(fd));
            assert!(!set(fd, Owner::Socket(0)));
            assert!(set(fd, Owner::Foreign));
            assert!(is_foreign(fd));
        }
    }

    #[test]
    fn a_socket_has_all_descriptors_set_for_it() {
        for fd in [60_000, 60_007, 60_003] {
            assert!(set(fd, Owner::Socket(900)));
        }
        assert!(set(60_004, Owner::Internal));
        assert_eq!(descriptors(900).collect::<Vec<_>>(), [60_000, 60_003, 60_007]);
        assert_eq!(owner(60_004), Owner::Internal);
        assert_eq!(ours(60_001..=60_004).count(), 2);
        for fd in [60_000, 60_003, 60_004, 60_007] {
            set(fd, Owner::Foreign);
        }
        assert_eq!(descriptors(900).count(), 0);
    }
}
