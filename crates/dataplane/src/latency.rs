//! How long packets are here: from when a worker takes one from a port to when it gives it to a port, for one packet
//! in [`EVERY`].
//!
//! It is paid for by the burst: a subtraction where one is received, and a comparison where one is sent. The packet
//! that is measured is told by its frame, which it keeps from port to port, so nothing is written into packets or
//! beside them. Its clock is read twice.
//!
//! The time includes what a packet waits for: its burst, the cipher, helpers, and, for those that are held, an SA or a
//! neighbour. The time of a frame in a ring, before the worker comes to it or after it is handed to the device, is
//! not. Packets that end here are not in it, nor those that another worker sends.

use io::Packet;

use crate::model::Counter;

/// One packet in so many is measured. A prime, so that over time each place in a burst has its turn.
pub const EVERY: usize = 1021;

/// How many ranges of times are told apart, the one without an end included.
pub const BUCKETS: usize = BOUNDS_NS.len() + 1;

/// The longest time of each range but the last, in nanoseconds.
pub const BOUNDS_NS: [u64; 21] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
];

/// Measurements of one worker, the only writer.
#[derive(Debug, Default)]
pub struct Latency {
    buckets: [Counter; BUCKETS],
    sum_ns: Counter,
}

impl Latency {
    /// Counts a packet that was here for so long.
    pub fn observe(&self, ns: u64) {
        let place = BOUNDS_NS.iter().take_while(|bound| **bound < ns).count();
        if let Some(bucket) = self.buckets.get(place) {
            bucket.add(1);
        }
        self.sum_ns.add(ns);
    }

    /// The measurements so far.
    pub fn times(&self) -> Times {
        Times { buckets: self.buckets.each_ref().map(Counter::value), sum_ns: self.sum_ns.value() }
    }
}

/// Measured times, of one worker or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Packets in each range: up to the bound of [`BOUNDS_NS`] in the same place, and longer than the one before.
    pub buckets: [u64; BUCKETS],
    /// All times together.
    pub sum_ns: u64,
}

impl core::ops::AddAssign for Times {
    fn add_assign(&mut self, other: Times) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += more;
        }
        self.sum_ns += other.sum_ns;
    }
}

impl Times {
    /// Packets that were measured.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The time that so many of a thousand packets were here for at most, as if those of a range were spread evenly
    /// over it; of the last range its beginning. None without packets.
    pub fn quantile_ns(&self, permille: u64) -> Option<u64> {
        let rank = (self.count() * permille).div_ceil(1000).max(1);
        let (mut before, mut from_ns) = (0, 0);
        for (count, to_ns) in self.buckets.iter().zip(BOUNDS_NS) {
            if before + count >= rank {
                let part = u128::from(to_ns - from_ns) * u128::from(rank - before);
                return Some(from_ns + (part / u128::from(*count)) as u64);
            }
            (before, from_ns) = (before + count, to_ns);
        }
        (self.count() > 0).then_some(from_ns)
    }
}

/// Chooses packets, and tells when they leave.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// How many packets come before the next one that is measured.
    left: usize,
    /// The sample that is on its way.
    sample: Option<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Where its frame lies.
    frame: usize,
    came_ns: u64,
}

impl Sampler {
    /// A burst has come; `now_ns` reads the clock.
    #[inline]
    pub(crate) fn arrived(&mut self, burst: &[Packet], now_ns: impl FnOnce() -> u64) {
        if self.sample.is_some() {
            self.lose(burst);
        }
        match self.left.checked_sub(burst.len()) {
            Some(left) => self.left = left,
            None => self.choose(burst, now_ns()),
        }
    }

    /// True if a measured packet is on its way.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.sample.is_some()
    }

    /// Arrival time of the measured packet, if it is among these, which are about to leave.
    #[cold]
    pub(crate) fn leaving(&mut self, queue: &[Packet]) -> Option<u64> {
        let sample = self.sample?;
        queue.iter().any(|packet| place(packet) == sample.frame).then(|| {
            self.sample = None;
            sample.came_ns
        })
    }

    /// A packet has ended here.
    #[inline]
    pub(crate) fn ended(&mut self, packet: &Packet) {
        if self.sample.is_some_and(|sample| sample.frame == place(packet)) {
            self.sample = None;
        }
    }

    #[cold]
    #[inline(never)]
    fn choose(&mut self, burst: &[Packet], now_ns: u64) {
        if let Some(packet) = burst.get(self.left) {
            self.sample = Some(Sample { frame: place(packet), came_ns: now_ns });
        }
        self.left = (self.left + EVERY).saturating_sub(burst.len());
    }

    /// A frame that comes again has been free meanwhile: its packet ended in a way that nobody told.
    #[cold]
    #[inline(never)]
    fn lose(&mut self, burst: &[Packet]) {
        burst.iter().for_each(|packet| self.ended(packet));
    }
}

fn place(packet: &Packet) -> usize {
    packet.frame.bytes().as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::{BURST_LEN, ChunkSize, Umem, UmemConfig};
    use wire::Span;

    fn times(all: &[u64]) -> Times {
        let latency = Latency::default();
        all.iter().for_each(|ns| latency.observe(*ns));
        latency.times()
    }

    #[test]
    fn each_time_is_counted_in_its_range() {
        assert_eq!(times(&[]), Times::default());
        for (place, bound) in BOUNDS_NS.into_iter().enumerate() {
            let seen = times(&[bound, bound + 1]);
            assert_eq!((seen.buckets[place], seen.buckets[place + 1]), (1, 1), "{bound}");
            assert_eq!((seen.count(), seen.sum_ns), (2, 2 * bound + 1));
        }
        assert_eq!(times(&[0]).buckets[0], 1);
        assert_eq!(times(&[1 << 62]).buckets[BUCKETS - 1], 1);
        assert!(BOUNDS_NS.is_sorted());
    }

    #[test]
    fn quantiles_lie_in_the_range_of_their_packet() {
        assert_eq!(times(&[]).quantile_ns(500), None);
        // One in the range from 10 to 20 us: nothing more is known of it.
        assert_eq!(times(&[15_000]).quantile_ns(500), Some(20_000));
        let mut all = times(&[3_000; 98]);
        all += times(&[70_000; 2]);
        assert_eq!(all.count(), 100);
        let half = all.quantile_ns(500).unwrap();
        assert!((2_001..=5_000).contains(&half), "{half}");
        let most = all.quantile_ns(990).unwrap();
        assert_eq!(most, 75_000);
        assert_eq!(all.quantile_ns(1000), Some(100_000));
        // Of what has no bound the least is told.
        assert_eq!(times(&[1 << 40]).quantile_ns(990), Some(5_000_000_000));
    }

    fn packets(count: usize) -> Vec<Packet> {
        let config = UmemConfig { chunks: 256, chunk_size: ChunkSize::Bytes2048, populate: false };
        let mut pool = Umem::new(config).unwrap().0.pool();
        let packet = |_| Packet { frame: pool.take().unwrap(), span: Span { start: 256, len: 60 } };
        (0..count).map(packet).collect()
    }

    #[test]
    fn one_in_so_many_is_measured_wherever_it_lies() {
        for len in [1, 7, BURST_LEN] {
            let burst = packets(len);
            let (mut sampler, latency) = (Sampler::default(), Latency::default());
            let (mut chosen, rounds) = (std::collections::BTreeSet::new(), 70 * EVERY / len);
            for round in 0..rounds as u64 {
                sampler.arrived(&burst, || round);
                if let Some(sample) = sampler.sample {
                    chosen.insert(sample.frame);
                }
                if sampler.is_waiting() {
                    let came = sampler.leaving(&burst).expect("it is there");
                    latency.observe(round + 1_500 - came);
                }
            }
            let seen = latency.times();
            assert_eq!(seen.count(), (rounds * len).div_ceil(EVERY) as u64, "{len}");
            assert_eq!(seen.buckets[1], seen.count(), "all took 1.5 us");
            assert_eq!(chosen.len(), len, "each place has had its turn");
        }
    }

    #[test]
    fn a_packet_that_does_not_leave_is_not_measured() {
        let burst = packets(BURST_LEN);
        let (first, others) = burst.split_first().unwrap();
        // It leaves in another burst than it came in.
        let mut sampler = Sampler::default();
        sampler.arrived(&burst, || 100);
        assert_eq!(sampler.leaving(others), None);
        assert_eq!(sampler.leaving(&burst), Some(100));
        assert_eq!(sampler.leaving(&burst), None, "once");
        // It ends.
        let mut sampler = Sampler::default();
        sampler.arrived(&burst, || 100);
        others.iter().for_each(|packet| sampler.ended(packet));
        assert!(sampler.is_waiting());
        sampler.ended(first);
        assert_eq!(sampler.leaving(&burst), None);
        // Its frame comes with another packet.
        let mut sampler = Sampler::default();
        sampler.arrived(&burst, || 100);
        sampler.arrived(others, || 200);
        assert!(sampler.is_waiting());
        sampler.arrived(&burst[..1], || 300);
        assert_eq!(sampler.leaving(&burst), None);
    }
}
