//! `[[limit]]` with `mode = "shape"`: what there are no tokens for waits.

use limit::{Bounds, Treatment, Unit};
use serde::Deserialize;

use super::limit::LimitConfig;

/// What becomes of packets that there are no tokens for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// They are red.
    #[default]
    Police,
    /// They wait in a queue.
    Shape,
}

impl LimitConfig {
    /// What waits at most, at each worker; none where nothing does.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        let usual = match self.rate.1 {
            Unit::Bits => (self.rate.0 / 80).clamp(LEAST_BYTES, MOST_BYTES),
            Unit::Packets => MOST_BYTES,
        };
        let bytes = self.queue.map_or(usual, |queue| queue.0);
        // Both are checked.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let packets = self.queue_packets.unwrap_or(PACKETS);
        (self.mode == Mode::Shape).then_some(Bounds { packets, bytes })
    }
}

/// The first value about what waits that cannot be: its key, itself, and what is allowed.
pub(super) fn shape_problem(
    entry: &LimitConfig,
    mtu: u32,
) -> Option<(&'static str, String, &'static str)> {
    let queue = entry.queue.map(|queue| limit::units::show_burst(queue.tokens(), queue.1));
    if entry.mode == Mode::Police {
        let allowed = "leave it out, or say mode = \"shape\"";
        let packets = entry.queue_packets.map(|packets| packets.to_string());
        return match (queue, packets) {
            (Some(queue), _) => Some(("queue", queue, allowed)),
            (None, Some(packets)) => Some(("queue_packets", packets, allowed)),
            (None, None) => None,
        };
    }
    let shape = |allowed| Some(("mode", "shape".to_owned(), allowed));
    if entry.settings().second().is_some() || entry.aware {
        return shape(
            "\"police\" where there are three colours: packets wait for the tokens of one bucket",
        );
    }
    if entry.red.0 != Treatment::Drop {
        return shape("\"police\" where red packets pass: with \"shape\" they wait");
    }
    if entry.each.is_some() {
        return shape("\"police\" where each flow or tunnel has buckets: a queue is of a limit");
    }
    if let (Some(of), Some(queue)) = (entry.queue, queue)
        && (of.1 != Unit::Bits || !(u64::from(mtu)..=MOST_BYTES).contains(&of.0))
    {
        return Some(("queue", queue, "bytes: at least tun.mtu (1500B), at most 64MB"));
    }
    if let Some(packets) = entry.queue_packets.filter(|n| !(1..=MOST_PACKETS).contains(n)) {
        return Some(("queue_packets", packets.to_string(), "1 to 65536"));
    }
    None
}

/// What waits at least and at most, in bytes.
const LEAST_BYTES: u64 = 15_000;
const MOST_BYTES: u64 = 64_000_000;

/// Packets that wait at most unless told otherwise.
const PACKETS: u32 = 1000;

/// And at all; the frames of a worker are fewer.
const MOST_PACKETS: u32 = 65_536;
