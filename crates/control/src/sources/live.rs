//! An SA's live numbers, in the words of its owner.

use std::sync::atomic::Ordering::Relaxed;

use esp::{LiveNumbers, Sa};
use xfrm::{Counters, Replay};

/// True if a number of a window was received.
pub fn has(replay: &Replay, number: u64) -> bool {
    let back = replay.edge - number;
    replay.received.get((back / 64) as usize).is_some_and(|word| word >> (back % 64) & 1 == 1)
}

/// An SA's numbers now.
pub fn replay_of(sa: &Sa) -> Replay {
    let window = sa.replay();
    let edge = window.edge();
    let mut received = vec![0u64; (window.size() as usize).div_ceil(64)];
    for back in 0..u64::from(window.size()).min(edge) {
        if window.seen(edge - back)
            && let Some(word) = received.get_mut((back / 64) as usize)
        {
            *word |= 1 << (back % 64);
        }
    }
    Replay { sent: sa.live().sent().load(Relaxed), edge, received }
}

/// An SA's counters now.
pub fn counters_of(live: &LiveNumbers) -> Counters {
    Counters {
        bytes: live.bytes().load(Relaxed),
        packets: live.packets().load(Relaxed),
        first_use_s: live.first_use().load(Relaxed),
    }
}

/// Sets an SA's counters.
pub fn set_counters(live: &LiveNumbers, counters: &Counters) {
    live.bytes().store(counters.bytes, Relaxed);
    live.packets().store(counters.packets, Relaxed);
    live.first_use().store(counters.first_use_s, Relaxed);
}

/// Sets which inbound numbers were received, while no worker uses the SA.
pub fn set_received(sa: &Sa, replay: &Replay) {
    sa.replay().restore(replay.edge, |number| has(replay, number));
}
