//! Tells Linux which connections are alive: it sees no packet of those that the fast path carries.
//!
//! Some of the connections are looked at every quarter of a second. One that has carried packets since Linux was told
//! last is given its whole time again once a third of that is over. So a connection that falls silent is kept
//! for the whole of the time that Linux would keep it, and for a third more at most.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use conntrack::{Bindings, Entry, Status, message};

use super::timeouts::Timeouts;
use crate::clock::Now;

/// How often some are looked at.
const INTERVAL: Duration = Duration::from_millis(250);

/// Each is looked at so many times within the shortest time that Linux keeps one, at least; but no more often than
/// once a second.
const LOOKS: u32 = 6;

/// Which connections were looked at last, and when.
#[derive(Default)]
pub struct Upkeep {
    looked_at: Option<Instant>,
    part: usize,
}

impl Upkeep {
    /// The clock of [`conntrack::bindings::Upkeep::told_ms`].
    pub fn now_ms(now: Now) -> u64 {
        now.at_ns / 1_000_000
    }

    /// How long the next look may be put off.
    pub fn due_in(&self, now: Now) -> Duration {
        self.looked_at.map_or(Duration::ZERO, |at| INTERVAL.saturating_sub(now.since(at)))
    }

    /// Appends what Linux is to be told, and counts that. `is_unsure` while events were lost, and a dump has not told yet how
    /// far connections are: each may have been answered, or be another one that began since.
    pub fn tell(
        &mut self,
        now: Now,
        bindings: &Bindings,
        is_unsure: bool,
        requests: &mut Vec<u8>,
        told: &mut u64,
    ) {
        if bindings.is_empty() || self.due_in(now) > Duration::ZERO {
            return;
        }
        self.looked_at = Some(now.at);
        let timeouts = Timeouts::read();
        let cycle_s = (timeouts.shortest_s() / LOOKS).clamp(1, 30);
        let parts = (cycle_s * 4) as usize;
        let now_ms = Upkeep::now_ms(now);
        self.part = (self.part + 1) % parts;
        bindings.each(self.part, parts, |binding| {
            let (upkeep, packets) = (&binding.upkeep, binding.packets());
            if !binding.is_live() || upkeep.told_packets.load(Relaxed) == packets {
                return;
            }
            let status = Status(upkeep.status.load(Relaxed));
            let protocol = binding.entry.original.protocol;
            // The shortest time that it may have left, and the longest that it may be kept.
            let (least, most) = match is_unsure {
                true => (Status::default(), status.with(Status::SEEN_REPLY)),
                false => (status, status),
            };
            let since_ms = now_ms.saturating_sub(upkeep.told_ms.load(Relaxed));
            if since_ms < u64::from(timeouts.running(protocol, least)) * 1000 / 3 {
                return;
            }
            upkeep.told_packets.store(packets, Relaxed);
            upkeep.told_ms.store(now_ms, Relaxed);
            let entry = Entry { status, ..binding.entry };
            // As Linux does with what is answered for more than two seconds.
            let set = match status.has(Status::SEEN_REPLY) {
                true => Status::ASSURED,
                false => Status::default(),
            };
            message::refresh(&entry, timeouts.of(protocol, most), set, requests);
            *told += 1;
        });
    }
}
