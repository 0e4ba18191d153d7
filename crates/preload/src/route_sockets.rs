//! Which descriptors are rtnetlink sockets, on which culvert's routes and rules are hidden.
//!
//! One bit for each descriptor, set by `socket` and copied by `dup` and its kin. It is a hint: a
//! descriptor may have been closed and given out anew without this library seeing it. Before
//! anything is changed, the kernel is asked what the descriptor is.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::hidden::{self, Left};
use crate::sys;
use crate::table::LIMIT;

static BITS: [AtomicU64; LIMIT / 64] = [const { AtomicU64::new(0) }; LIMIT / 64];

fn word(fd: i32) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((BITS.get(fd / 64)?, 1 << (fd % 64)))
}

/// Notes whether `fd`, which has just been opened, is such a socket.
pub(crate) fn set(fd: i32, is_one: bool) {
    let Some((word, bit)) = word(fd) else { return };
    if is_one {
        word.fetch_or(bit, Relaxed);
    } else {
        word.fetch_and(!bit, Relaxed);
    }
}

/// True if `fd` may be such a socket.
pub(crate) fn is_likely(fd: i32) -> bool {
    word(fd).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
}

/// Takes culvert's routes and rules out of what was received on `fd`.
pub(crate) fn hide(fd: i32, datagram: &mut [u8]) -> Left {
    if !hidden::has_hidden(datagram) || !sys::is_rtnetlink(fd) {
        return Left::All;
    }
    match sys::netlink_port_id(fd) {
        Some(port_id) => hidden::hide(datagram, port_id),
        None => Left::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_of_one_descriptor_each() {
        for fd in [-1, i32::MIN, i32::MAX, LIMIT as i32] {
            set(fd, true);
            assert!(!is_likely(fd));
        }
        set(61_000, true);
        assert!(is_likely(61_000));
        assert!(!is_likely(61_001) && !is_likely(60_999));
        set(61_000, false);
        assert!(!is_likely(61_000));
    }
}
