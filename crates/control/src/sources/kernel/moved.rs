//! SAs that go on with other ends: by `MIGRATE` and `MIGRATE_STATE`, or deleted and added again with their
//! numbers, as IKE daemons do for MOBIKE.
//!
//! The kernel then has what it was told last, up to [`INTERVAL`](super::timing::INTERVAL) before. What the fast path
//! has received since would be received again if somebody replays it. So it is kept for a moment when an SA
//! goes, and added when one with its SPI and keys comes.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use xfrm::{Counters, LearntSa, Replay};

/// How long is waited for an SA with other ends. Its keys are in memory until then.
const MOMENT: Duration = Duration::from_secs(2);

/// SAs of the fast path that went lately.
#[derive(Default)]
pub struct Departed {
    by_spi: HashMap<u32, (Instant, LearntSa, Inherited)>,
    /// In the order in which they went.
    order: VecDeque<(Instant, u32)>,
}

/// State of an SA from the one that it was before.
pub struct Inherited {
    /// Window of the received numbers.
    pub replay: Replay,
    /// Counts that the kernel was not told.
    pub untold: Counters,
    /// Packets that the kernel knew of.
    told_packets: u64,
}

impl Inherited {
    /// State of an SA of the fast path, and the part of it that the kernel was told.
    pub fn new(replay: Replay, counted: &Counters, told: &Counters) -> Inherited {
        let untold = Counters {
            bytes: counted.bytes.saturating_sub(told.bytes),
            packets: counted.packets.saturating_sub(told.packets),
            first_use_s: 0,
        };
        Inherited { replay, untold, told_packets: told.packets }
    }
}

impl Departed {
    /// An SA of the fast path went.
    pub fn put(&mut self, learnt: LearntSa, inherited: Inherited, now: Instant) {
        let spi = learnt.id.spi;
        self.by_spi.insert(spi, (now, learnt, inherited));
        self.order.push_back((now, spi));
    }

    /// State of a new SA from one that was deleted. `None` if there was none with its SPI and
    /// keys, or if it comes at the same place: its owner has added it anew, and the kernel begins
    /// with the state that it was given.
    pub fn take(&mut self, new: &LearntSa) -> Option<Inherited> {
        let (_, old, _) = self.by_spi.get(&new.id.spi)?;
        let (Ok((config, keys)), Ok((old_config, old_keys))) = (&new.carried, &old.carried) else {
            return None;
        };
        let is_same = new.id.protocol == old.id.protocol
            && config.params.suite == old_config.params.suite
            && keys == old_keys;
        let is_moved = (new.id, new.src, new.if_id) != (old.id, old.src, old.if_id)
            || config.params.encap != old_config.params.encap;
        let (_, _, mut inherited) =
            (is_same && is_moved).then(|| self.by_spi.remove(&new.id.spi)).flatten()?;
        // One that was added anew counts from zero.
        if new.numbers.counters.packets < inherited.told_packets {
            inherited.untold = Counters::default();
        }
        Some(inherited)
    }

    /// Forgets those that nobody has gone on with.
    pub fn forget(&mut self, now: Instant) {
        while let Some((at, spi)) = self.order.front().copied()
            && now.duration_since(at) > MOMENT
        {
            self.order.pop_front();
            // It may have gone a second time since.
            if self.by_spi.get(&spi).is_some_and(|(last, ..)| *last == at) {
                self.by_spi.remove(&spi);
            }
        }
    }

    /// When the next is to be forgotten.
    pub fn due_at(&self) -> Option<Instant> {
        self.order.front().map(|(at, _)| *at + MOMENT)
    }
}

#[cfg(test)]
mod tests {
    use esp::UdpEncap;

    use super::super::testing::{HERE, THERE, sa};
    use super::*;

    fn inherited(told_packets: u64) -> Inherited {
        let replay = Replay { sent: 0, edge: 7, received: vec![0b101] };
        let untold = Counters { bytes: 300, packets: 3, first_use_s: 0 };
        Inherited { replay, untold, told_packets }
    }

    fn departed(told_packets: u64, now: Instant) -> Departed {
        let mut departed = Departed::default();
        departed.put(sa(9, (THERE, HERE), 1), inherited(told_packets), now);
        departed
    }

    /// As it comes with another end, and with what the kernel has counted.
    fn moved(packets: u64) -> LearntSa {
        let mut new = sa(9, (THERE, THERE), 1);
        new.numbers.counters.packets = packets;
        new
    }

    #[test]
    fn one_with_other_ends_inherits_once() {
        let mut departed = departed(10, Instant::now());
        let before = departed.take(&moved(12)).expect("the same SA");
        assert_eq!((before.replay.edge, before.untold.packets), (7, 3));
        assert!(departed.take(&moved(12)).is_none());
    }

    #[test]
    fn one_that_counts_from_zero_inherits_no_counters() {
        let before = departed(10, Instant::now()).take(&moved(0)).expect("the same SA");
        assert_eq!((before.replay.edge, before.untold), (7, Counters::default()));
    }

    #[test]
    fn one_that_is_added_anew_inherits_nothing() {
        let mut departed = departed(0, Instant::now());
        assert!(departed.take(&sa(9, (THERE, HERE), 1)).is_none());
        // Behind a NAT now.
        let mut encapsulated = sa(9, (THERE, HERE), 1);
        if let Ok((config, _)) = &mut encapsulated.carried {
            config.params.encap = Some(UdpEncap { src_port: 4500, dst_port: 4500 });
        }
        assert!(departed.take(&encapsulated).is_some());
    }

    #[test]
    fn another_sa_inherits_nothing() {
        let mut departed = departed(0, Instant::now());
        assert!(departed.take(&sa(8, (THERE, THERE), 1)).is_none());
        let mut other_keys = moved(0);
        if let Ok((_, keys)) = &mut other_keys.carried {
            keys.cipher = vec![3; 16];
        }
        assert!(departed.take(&other_keys).is_none());
        assert!(departed.take(&moved(0)).is_some());
    }

    #[test]
    fn nothing_is_kept_longer_than_a_moment() {
        let start = Instant::now();
        let mut departed = departed(0, start);
        let again = start + MOMENT / 2;
        departed.put(sa(9, (THERE, HERE), 1), inherited(0), again);
        departed.forget(start + MOMENT + MOMENT / 4);
        assert_eq!(departed.due_at(), Some(again + MOMENT));
        assert_eq!(departed.by_spi.len(), 1);
        departed.forget(again + MOMENT * 2);
        assert!(departed.by_spi.is_empty() && departed.due_at().is_none());
    }
}
