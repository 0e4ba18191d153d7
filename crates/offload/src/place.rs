//! Which SAs an automatic device has: the busiest ones.
//!
//! A decision and no action: [`Placer::round`] is told what was counted and what the time is, and says what
//! is to move. The caller moves it, and says in the next round what is in the device.
//!
//! 1. Packets or bytes since the round before give each SA's rate; the mean of the new one and the mean before counts.
//! 2. Where there is room, the busiest that fit come in, if they are busy at all.
//! 3. Where there is none, one comes in for the least busy one inside, if it is busier by a margin.
//! 4. An SA that has moved stays for a while. Only what is over the room leaves at once: an SA whose owner asks
//!    for the device comes first.
//!
//! An SA inside that is idle stays, until a busier one needs its place.

use core::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use crate::handle::SaDirection;

/// How it is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long an SA stays where it has moved, in milliseconds.
    pub stay_ms: u64,
    /// By how many percent an SA has to be busier than the one whose place it takes.
    pub margin_percent: u64,
    /// Rate at which an SA comes into the device, in packets or bytes a second.
    pub least_rate: u64,
    /// Most SAs that come in in one round.
    pub most_moves: usize,
}

/// Present rate and place of an SA.
#[derive(Clone, Copy, Debug)]
pub struct Sample<K> {
    /// Identity of the SA.
    pub sa: K,
    /// Which table it needs.
    pub direction: SaDirection,
    /// Packets or bytes since it was added.
    pub count: u64,
    /// True if it is in the device.
    pub is_inside: bool,
    /// The device takes such SAs.
    pub fits: bool,
}

/// An SA to be moved into the device, or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move<K> {
    /// Into the device.
    In(K),
    /// Out of it. Those that make room come before those that need it.
    Out(K),
}

/// Measurements of an SA.
#[derive(Clone, Copy, Debug)]
struct Measured {
    count: u64,
    rate: u64,
    moved_ms: Option<u64>,
}

/// Decides for one device.
#[derive(Clone, Debug)]
pub struct Placer<K> {
    rules: Rules,
    measured: HashMap<K, Measured>,
    last_ms: Option<u64>,
}

impl<K: Copy + Eq + Hash> Placer<K> {
    /// Nothing is known yet.
    pub fn new(rules: Rules) -> Placer<K> {
        Placer { rules, measured: HashMap::new(), last_ms: None }
    }

    /// An SA's rate, in packets or bytes a second.
    pub fn rate(&self, sa: &K) -> u64 {
        self.measured.get(sa).map_or(0, |measured| measured.rate)
    }

    /// Moves by these samples, of all SAs that may be in the device. `room` is the number of SAs
    /// of a direction that it holds.
    pub fn round(
        &mut self,
        now_ms: u64,
        samples: &[Sample<K>],
        room: impl Fn(SaDirection) -> usize,
    ) -> Vec<Move<K>> {
        self.measure(now_ms, samples);
        let mut moves = Vec::new();
        for direction in [SaDirection::Outbound, SaDirection::Inbound] {
            let samples = || samples.iter().filter(|sample| sample.direction == direction);
            self.decide(now_ms, samples, room(direction), &mut moves);
        }
        for Move::In(sa) | Move::Out(sa) in &moves {
            if let Some(measured) = self.measured.get_mut(sa) {
                measured.moved_ms = Some(now_ms);
            }
        }
        moves
    }

    fn measure(&mut self, now_ms: u64, samples: &[Sample<K>]) {
        let passed_ms = self.last_ms.map_or(0, |last_ms| now_ms.saturating_sub(last_ms)).max(1);
        self.last_ms = Some(now_ms);
        let mut measured = HashMap::with_capacity(samples.len());
        for Sample { sa, count, .. } in samples {
            let next = match self.measured.get(sa) {
                // Counts of an earlier life of the SA say nothing.
                None => Measured { count: *count, rate: 0, moved_ms: None },
                Some(before) => {
                    let more = u128::from(count.saturating_sub(before.count)) * 1000;
                    let rate = u64::try_from(more / u128::from(passed_ms)).unwrap_or(u64::MAX);
                    let rate = before.rate / 2 + rate / 2 + (before.rate & rate & 1);
                    Measured { count: *count, rate, moved_ms: before.moved_ms }
                }
            };
            measured.insert(*sa, next);
        }
        self.measured = measured;
    }

    fn decide<'s, S>(
        &self,
        now_ms: u64,
        samples: impl Fn() -> S,
        room: usize,
        moves: &mut Vec<Move<K>>,
    ) where
        K: 's,
        S: Iterator<Item = &'s Sample<K>>,
    {
        let may_move = |sa: &K| {
            let moved_ms = self.measured.get(sa).and_then(|measured| measured.moved_ms);
            moved_ms.is_none_or(|at| now_ms.saturating_sub(at) >= self.rules.stay_ms)
        };
        let rated = |sample: &Sample<K>| (self.rate(&sample.sa), sample.sa);
        // The least busy first.
        let mut inside: Vec<_> = samples().filter(|s| s.is_inside).map(rated).collect();
        inside.sort_by_key(|(rate, _)| *rate);
        let over = inside.len().saturating_sub(room);
        moves.extend(inside.drain(..over).map(|(_, sa)| Move::Out(sa)));
        let mut free = room - inside.len();
        let mut leaving = inside.into_iter().filter(|(_, sa)| may_move(sa));
        // The busiest first.
        let mut outside: Vec<_> = samples()
            .filter(|s| !s.is_inside && s.fits && may_move(&s.sa))
            .map(rated)
            .filter(|(rate, _)| *rate >= self.rules.least_rate.max(1))
            .collect();
        outside.sort_by_key(|(rate, _)| Reverse(*rate));
        for (rate, sa) in outside.into_iter().take(self.rules.most_moves) {
            if free > 0 {
                free -= 1;
            } else {
                let Some((least, other)) = leaving.next() else { break };
                let needed = u128::from(least) * u128::from(100 + self.rules.margin_percent) / 100;
                if u128::from(rate) <= needed {
                    break;
                }
                moves.push(Move::Out(other));
            }
            moves.push(Move::In(sa));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const RULES: Rules =
        Rules { stay_ms: 10_000, margin_percent: 25, least_rate: 10, most_moves: 16 };
    const ROUND_MS: u64 = 2000;

    /// SAs with their counters, a device, and a clock.
    struct World {
        placer: Placer<u32>,
        now_ms: u64,
        room: usize,
        counts: BTreeMap<u32, u64>,
        inside: Vec<u32>,
        moved_ms: BTreeMap<u32, u64>,
    }

    impl World {
        fn new(room: usize) -> World {
            World {
                placer: Placer::new(RULES),
                now_ms: 1,
                room,
                counts: BTreeMap::new(),
                inside: Vec::new(),
                moved_ms: BTreeMap::new(),
            }
        }

        /// One round with these loads, in packets a second; how many moves there were.
        fn round(&mut self, loads: &[u64]) -> usize {
            self.now_ms += ROUND_MS;
            let room_before = self.room;
            let samples = (0..).zip(loads).map(|(sa, load)| {
                let count = self.counts.entry(sa).or_default();
                *count += load * ROUND_MS / 1000;
                let is_inside = self.inside.contains(&sa);
                // Each seventh is of a kind that the device does not take.
                let direction = SaDirection::Outbound;
                Sample { sa, direction, count: *count, is_inside, fits: sa % 7 != 6 }
            });
            let samples: Vec<_> = samples.collect();
            let moves = self.placer.round(self.now_ms, &samples, |_| room_before);
            for step in &moves {
                match step {
                    Move::In(sa) => {
                        assert!(!self.inside.contains(sa) && sa % 7 != 6);
                        self.inside.push(*sa);
                        assert!(self.inside.len() <= self.room, "room is made before it is needed");
                    }
                    Move::Out(sa) => {
                        let at = self.inside.iter().position(|other| other == sa).unwrap();
                        self.inside.remove(at);
                    }
                }
                let (Move::In(sa) | Move::Out(sa)) = step;
                let before = self.moved_ms.insert(*sa, self.now_ms);
                assert!(before.is_none_or(|at| self.now_ms - at >= RULES.stay_ms), "it flaps");
            }
            moves.len()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn steady_loads_come_to_rest_with_the_busiest_inside(
            loads in prop::collection::vec(0..1000_u64, 1..40),
            first in prop::collection::vec(0..1000_u64, 40),
            room in 0..12_usize,
        ) {
            let mut world = World::new(room);
            for _ in 0..5 {
                world.round(&first[..loads.len()]);
            }
            for _ in 0..60 {
                world.round(&loads);
            }
            prop_assert_eq!((0..20).map(|_| world.round(&loads)).sum::<usize>(), 0);
            let inside = |sa: &u32| world.inside.contains(sa);
            let sas: Vec<u32> = (0..loads.len() as u32).collect();
            let load = |sa: &u32| loads[*sa as usize];
            let least = sas.iter().filter(|sa| inside(sa)).map(load).min();
            for sa in sas.iter().filter(|sa| !inside(sa) && **sa % 7 != 6) {
                let load = load(sa);
                if world.inside.len() < room {
                    // The mean comes to its load but for one.
                    prop_assert!(load <= RULES.least_rate + 1);
                } else if let Some(least) = least {
                    prop_assert!(load * 100 <= (least + 2) * 125 + 200 || load < RULES.least_rate);
                }
            }
        }

        #[test]
        fn loads_that_vary_by_less_than_the_margin_move_nothing(
            base in prop::collection::vec(100..1000_u64, 2..20),
            noise in prop::collection::vec(0..10_u64, 600),
            room in 1..8_usize,
        ) {
            // All about as busy as one another.
            let base: Vec<u64> = base.iter().map(|_| base[0]).collect();
            let mut world = World::new(room);
            let mut noise = noise.into_iter().cycle();
            let mut noisy = || base.iter().map(|b| b + b * noise.next().unwrap() / 100).collect::<Vec<_>>();
            for _ in 0..10 {
                let loads = noisy();
                world.round(&loads);
            }
            for _ in 0..50 {
                let loads = noisy();
                prop_assert_eq!(world.round(&loads), 0);
            }
        }

        #[test]
        fn whatever_happens_nobody_flaps_and_the_room_is_kept(
            rounds in prop::collection::vec(prop::collection::vec(0..100_000_u64, 25), 1..60),
            room in 0..10_usize,
        ) {
            let mut world = World::new(room);
            for loads in &rounds {
                world.round(loads);
            }
        }
    }

    #[test]
    fn a_busier_one_takes_the_place_of_the_least_busy() {
        let mut world = World::new(2);
        for _ in 0..8 {
            world.round(&[100, 200, 0]);
        }
        assert_eq!(world.inside, [1, 0]);
        for _ in 0..8 {
            world.round(&[100, 200, 5000]);
        }
        assert_eq!(world.inside, [1, 2]);
    }

    #[test]
    fn what_is_over_the_room_leaves_at_once() {
        let mut world = World::new(3);
        for _ in 0..2 {
            world.round(&[100, 200, 300]);
        }
        assert_eq!(world.inside.len(), 3);
        // An owner has asked for two places.
        world.room = 1;
        world.moved_ms.clear();
        assert_eq!(world.round(&[100, 200, 300]), 2);
        assert_eq!(world.inside, [2]);
    }

    #[test]
    fn directions_have_tables_of_their_own() {
        let mut placer = Placer::new(RULES);
        let sample =
            |sa, direction, count| Sample { sa, direction, count, is_inside: false, fits: true };
        let (out, inbound) = (SaDirection::Outbound, SaDirection::Inbound);
        placer.round(0, &[sample(1, out, 0), sample(2, inbound, 0)], |_| 1);
        let moves = placer.round(1000, &[sample(1, out, 900), sample(2, inbound, 100)], |_| 1);
        assert_eq!(moves, [Move::In(1), Move::In(2)]);
    }
}
