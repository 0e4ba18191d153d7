//! `[[limit]]` with `mode = "shape"`: what there are no tokens for waits.

use limit::{Bounds, Settings, Treatment, Unit, units};
use serde::Deserialize;

use super::limit_values::{Burst, Rate};

/// Treatment of packets for which there are no tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// They are red.
    #[default]
    Police,
    /// They wait in a queue.
    Shape,
}

/// Settings of packets that wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) mode: Mode,
    pub(super) rate: Rate,
    pub(super) queue: Option<Burst>,
    pub(super) packets: Option<u32>,
}

impl Shape {
    /// Bounds of what waits, at each worker. `None` where nothing does.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        let usual = match self.rate.1 {
            Unit::Bits => (self.rate.0 / 80).clamp(LEAST_BYTES, MOST_BYTES),
            Unit::Packets => MOST_BYTES,
        };
        let bytes = self.queue.map_or(usual, |queue| queue.0);
        // Both are checked.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let packets = self.packets.unwrap_or(PACKETS);
        (self.mode == Mode::Shape).then_some(Bounds { packets, bytes })
    }

    /// The first value that cannot be with the entry's settings: its key, itself, and what is allowed.
    pub(super) fn problem(
        &self,
        settings: &Settings,
        is_each: bool,
        mtu: u32,
    ) -> Option<(&'static str, String, &'static str)> {
        let queue = self.queue.map(|queue| units::show_burst(queue.tokens(), queue.1));
        let packets = self.packets.map(|packets| packets.to_string());
        if self.mode == Mode::Police {
            let allowed = "leave it out, or say mode = \"shape\"";
            let queue = queue.map(|queue| ("queue", queue, allowed));
            return queue.or_else(|| packets.map(|packets| ("queue_packets", packets, allowed)));
        }
        let shape = |allowed| Some(("mode", "shape".to_owned(), allowed));
        if settings.second().is_some() || settings.is_aware {
            return shape("\"police\" where there are three colours: packets wait for one bucket");
        }
        if settings.treatments.0.last() != Some(&Treatment::Drop) {
            return shape("\"police\" where red packets pass: with \"shape\" they wait");
        }
        if is_each {
            return shape("\"police\" where each flow or tunnel has buckets: a queue is a limit's");
        }
        if let (Some(of), Some(queue)) = (self.queue, queue)
            && (of.1 != Unit::Bits || !(u64::from(mtu)..=MOST_BYTES).contains(&of.0))
        {
            return Some(("queue", queue, "bytes: at least tun.mtu (1500B), at most 64MB"));
        }
        let is_wrong = self.packets.is_some_and(|n| !(1..=MOST_PACKETS).contains(&n));
        packets.filter(|_| is_wrong).map(|packets| ("queue_packets", packets, "1 to 65536"))
    }
}

/// Least and greatest size of the queue, in bytes.
const LEAST_BYTES: u64 = 15_000;
const MOST_BYTES: u64 = 64_000_000;

/// Packets that wait at most unless told otherwise.
const PACKETS: u32 = 1000;

/// And at all; the frames of a worker are fewer.
const MOST_PACKETS: u32 = 65_536;
