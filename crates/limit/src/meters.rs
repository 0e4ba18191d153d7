//! Meters of flows or tunnels, found by a key.

use crate::{Meter, Settings};

/// Places that a key may stand in.
const WAYS: usize = 8;

/// A key, and its meter.
type Place = Option<(u64, Meter)>;

/// A fixed number of meters. One whose buckets are full is as a new one, so a newcomer may have its place; while
/// there is none of those, newcomers share one, and together get what one of them would.
#[derive(Debug)]
pub struct Meters {
    sets: Box<[[Place; WAYS]]>,
}

impl Meters {
    /// Room for so many, rounded up to a power of two.
    pub fn new(most: usize) -> Meters {
        let sets = most.div_ceil(WAYS).next_power_of_two();
        Meters { sets: vec![[None; WAYS]; sets].into() }
    }

    /// The meter of a key, which is a hash; a new one is full.
    pub fn of(&mut self, key: u64, settings: &Settings, now_ns: u64) -> Option<&mut Meter> {
        let last = self.sets.len() - 1;
        let set = self.sets.get_mut(key as usize & last)?;
        let is_its = |place: &Place| matches!(place, Some((k, _)) if *k == key);
        let is_free = |place: &Place| match place {
            Some((_, meter)) => meter.is_full(settings, now_ns),
            None => true,
        };
        let at = match set.iter().position(is_its) {
            Some(at) => at,
            None => match set.iter().position(is_free) {
                Some(at) => {
                    *set.get_mut(at)? = Some((key, Meter::full(settings, now_ns)));
                    at
                }
                // By other bits than the set's.
                None => (key >> 56) as usize % WAYS,
            },
        };
        set.get_mut(at)?.as_mut().map(|(_, meter)| meter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Colour;

    #[test]
    fn a_key_keeps_its_meter_until_it_is_full_again() {
        let settings = Settings::single(8_000_000, 1500);
        let mut meters = Meters::new(WAYS);
        let spend = |meters: &mut Meters, key, now_ns| {
            let meter = meters.of(key, &settings, now_ns).unwrap();
            meter.refill(&settings, now_ns);
            let cost = settings.cost(1500);
            let colour = meter.colour(&settings, cost, Colour::Green);
            meter.take(&settings, cost, colour);
            colour
        };
        let key = |n: u64| n << 56 | 1;
        for n in 0..WAYS as u64 {
            assert_eq!(spend(&mut meters, key(n), 0), Colour::Green);
            assert_eq!(spend(&mut meters, key(n), 0), Colour::Red);
        }
        // No place is free: a ninth one shares with another, and gets no burst of its own.
        assert_eq!(spend(&mut meters, key(8), 1), Colour::Red);
        // 1500 bytes at a byte a microsecond.
        assert_eq!(spend(&mut meters, key(8), 1_500_000), Colour::Green);
    }
}
