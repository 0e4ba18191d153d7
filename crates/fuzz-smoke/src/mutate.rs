//! Inputs made from inputs, the same ones for the same seed.

/// A source of mutated inputs.
#[derive(Clone, Debug)]
pub struct Mutator {
    state: u64,
}

/// Mutated inputs are cut to this many bytes.
const MAX_LEN: usize = 4096;

/// Bytes at which lengths and counters break.
const EDGES: [u8; 8] = [0, 1, 4, 0x0f, 0x10, 0x7f, 0x80, 0xff];

impl Mutator {
    /// The source for a seed.
    pub fn new(seed: u64) -> Mutator {
        Mutator { state: seed }
    }

    /// The next 64 bits: SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// One of the inputs, changed in one to eight places; noise if there are none.
    pub fn input(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = match inputs.get(self.below(inputs.len())) {
            Some(input) => input.clone(),
            None => (0..self.below(64)).map(|_| self.next() as u8).collect(),
        };
        for _ in 0..=self.below(8) {
            self.change(&mut bytes, inputs);
        }
        bytes.truncate(MAX_LEN);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let value = self.next() as u8;
        match (self.below(8), bytes.get_mut(at)) {
            (0, Some(byte)) => *byte = value,
            (1, Some(byte)) => *byte ^= 1 << (value & 7),
            (2, Some(byte)) => *byte = EDGES[usize::from(value & 7)],
            (3, Some(byte)) => *byte = byte.wrapping_add(value % 9).wrapping_sub(4),
            (4, _) => bytes.truncate(at),
            (5, _) => bytes.insert(at, value),
            (6, _) => {
                let end = (at + self.below(16)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.extend(copy);
            }
            // The end of another input behind the front of this one.
            _ => {
                if let Some(other) = inputs.get(self.below(inputs.len())) {
                    let from = self.below(other.len() + 1);
                    bytes.truncate(at);
                    bytes.extend(&other[from..]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_inputs_and_they_differ() {
        let inputs = [vec![1, 2, 3, 4], vec![5; 40]];
        let made = |seed| {
            let mut m = Mutator::new(seed);
            (0..200).map(|_| m.input(&inputs)).collect::<Vec<_>>()
        };
        assert_eq!(made(7), made(7));
        assert_ne!(made(7), made(8));
        let mut unique = made(7);
        unique.sort();
        unique.dedup();
        assert!(unique.len() > 150, "{}", unique.len());
        assert!(unique.iter().all(|i| i.len() <= MAX_LEN));
    }

    #[test]
    fn without_inputs_there_is_noise() {
        let mut m = Mutator::new(1);
        assert!((0..20).any(|_| m.input(&[]).len() > 8));
    }
}
