//! The last few probes of a session: loss that is no chance, seen long before a window is full of it.
//!
//! A scan statistic: loss is certain when [`LEAST_LOST`] of the last [`PROBES`] probes are lost. Of a path that loses one probe in
//! a thousand by chance that is the case once in 512 000 probes: once in 7 hours at 20 probes a second, once in 85 minutes at
//! 100; of one that loses one in ten thousand, a thousand times more rarely. The bound is that of the union over the pairs that complete a
//! third loss: `p^3 * C(63, 2)` for each probe.
//!
//! | loss | certain after, half of the time | within 100 probes |
//! | --- | --- | --- |
//! | 2 % | 198 probes | 26 % |
//! | 5 % | 53 probes | 83 % |
//! | 10 % | 27 probes | 99.5 % |
//! | 30 % | 9 probes | all |

/// Probes that are looked at.
pub const PROBES: u32 = 64;

/// Lost probes among them that are no chance.
pub const LEAST_LOST: u32 = 3;

/// Outcomes of the last probes, the latest in the lowest bit: 1 is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recent(u64);

impl Recent {
    /// The outcome of the next probe.
    pub(crate) fn push(&mut self, is_lost: bool) {
        self.0 = self.0 << 1 | u64::from(is_lost);
    }

    /// A probe was answered after all; `back` probes have come after it.
    pub(crate) fn found(&mut self, back: u32) {
        self.0 &= !1_u64.checked_shl(back).unwrap_or(0);
    }

    /// How many of them are lost.
    pub(crate) const fn lost(self) -> u32 {
        self.0.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are even between 0 and 1 (SplitMix64).
    struct Chance(u64);

    impl Chance {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    /// Probes until loss is certain, at most so many.
    fn until_certain(chance: &mut Chance, loss: f64, most: u32) -> Option<u32> {
        let mut recent = Recent::default();
        (1..=most).find(|_| {
            recent.push(chance.next() < loss);
            recent.lost() >= LEAST_LOST
        })
    }

    #[test]
    fn chance_is_rarely_taken_for_loss() {
        let mut chance = Chance(1);
        let (mut recent, mut alarms, mut was) = (Recent::default(), 0, false);
        for _ in 0..10_000_000 {
            recent.push(chance.next() < 0.001);
            let is = recent.lost() >= LEAST_LOST;
            alarms += u32::from(is && !was);
            was = is;
        }
        // One in 512 000 by the bound: 19.5.
        assert!((8..=32).contains(&alarms), "{alarms}");
    }

    #[test]
    fn loss_is_certain_after_as_many_probes_as_it_says_above() {
        let mut chance = Chance(2);
        for (loss, half, within_100) in
            [(0.02, 198, 0.26), (0.05, 53, 0.83), (0.1, 27, 0.995), (0.3, 9, 1.0)]
        {
            let mut after: Vec<u32> = (0..4000)
                .map(|_| until_certain(&mut chance, loss, 10_000).expect("certain"))
                .collect();
            after.sort_unstable();
            let median = after[after.len() / 2];
            assert!(median.abs_diff(half) <= half / 20 + 1, "{loss}: {median}");
            let within = after.iter().filter(|n| **n <= 100).count() as f64 / after.len() as f64;
            assert!((within - within_100).abs() < 0.02, "{loss}: {within}");
        }
    }

    #[test]
    fn a_probe_that_was_late_is_not_lost() {
        let mut recent = Recent::default();
        [true, false, true, true].into_iter().for_each(|is_lost| recent.push(is_lost));
        assert_eq!(recent.lost(), 3);
        recent.found(3);
        recent.found(2);
        recent.found(70);
        assert_eq!(recent.lost(), 2);
        (0..PROBES).for_each(|_| recent.push(false));
        assert_eq!(recent.lost(), 0);
    }
}
