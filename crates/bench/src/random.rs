//! Numbers that look random and are the same in each run.

/// A small generator (SplitMix64: a counter through a finaliser).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub(crate) const fn below(&mut self, n: usize) -> usize {
        ((self.next() as u128 * n as u128) >> 64) as usize
    }

    /// A number from 0 to 1, 1 excluded.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// Draws numbers below `n` by Zipf's law with exponent 1: the k-th most frequent one comes 1/k as
/// often as the most frequent. Which ones are frequent is random, so that they lie apart.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    /// Sums of the weights up to each rank.
    sums: Vec<f64>,
    /// The number at each rank.
    numbers: Vec<u32>,
}

impl Zipf {
    pub(crate) fn new(n: usize, random: &mut Random) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=n)
            .map(|k| {
                sum += 1.0 / k as f64;
                sum
            })
            .collect();
        let mut numbers: Vec<u32> = (0..n as u32).collect();
        random.shuffle(&mut numbers);
        Zipf { sums, numbers }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit() * self.sums.last().copied().unwrap_or(0.0);
        let rank = self.sums.partition_point(|sum| *sum <= at);
        self.numbers.get(rank).map_or(0, |number| *number as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_reaches_all_and_no_more() {
        let mut random = Random::new(1);
        let mut seen = [0; 7];
        for _ in 0..7000 {
            seen[random.below(7)] += 1;
        }
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
    }

    #[test]
    fn zipf_halves_the_second_and_never_leaves_its_range() {
        let mut random = Random::new(2);
        let zipf = Zipf::new(100, &mut random);
        let mut seen = vec![0_u32; 100];
        for _ in 0..100_000 {
            seen[zipf.draw(&mut random)] += 1;
        }
        seen.sort_unstable_by(|a, b| b.cmp(a));
        // The sum of 1/k to 100 is 5.187.
        assert!((18_500..20_100).contains(&seen[0]), "{seen:?}");
        assert!((9_000..10_300).contains(&seen[1]), "{seen:?}");
        assert!(seen[99] > 100);
    }

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut items: Vec<u32> = (0..1000).collect();
        Random::new(3).shuffle(&mut items);
        assert_ne!(items[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        items.sort_unstable();
        assert!(items.iter().enumerate().all(|(i, n)| i as u32 == *n));
    }
}
