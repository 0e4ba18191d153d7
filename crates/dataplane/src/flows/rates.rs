//! Rate limits of flows: what their plans have no room for, and what a worker has of limiters.
//!
//! A plan says where it stands here ([`RateSlot`]); each place of the flow cache has one. What is done to a packet that
//! passes stands there too.

use esp::Sa;
use io::Packet;
use limit::{Leases, Level, Meters, Passed, Path};
use policy::Reader;
use wire::Fields;

use crate::flows::Details;
use crate::flows::plan::Action;
use crate::rate_limit::RateRules;
use crate::resolve::RateLimit;

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateSlot {
    place: u32,
    serial: u32,
}

/// An entry.
struct Kept {
    serial: u32,
    beneath: Action,
    path: Path,
    key: u64,
}

/// The entries of one thread, and its side of the limiters. They take memory with the first one.
#[derive(Default)]
pub(crate) struct Rates {
    places: Vec<Option<Kept>>,
    serial: u32,
    state: State,
}

/// The worker's side of the limiters.
#[derive(Default)]
struct State {
    leases: Option<Leases>,
    /// Of limiters of which each flow, or each tunnel, has buckets of its own.
    meters: Vec<(Level, Meters)>,
}

impl Rates {
    /// Keeps what is done to the packets of the flow at a place of the flow cache, which has so many.
    pub(crate) fn keep(
        &mut self,
        (place, places): (usize, usize),
        beneath: Action,
        limit: &RateLimit,
    ) -> Option<RateSlot> {
        if self.places.is_empty() {
            self.places.resize_with(places, || None);
        }
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let RateLimit { path, key, .. } = limit;
        let kept = Kept { serial, beneath, path: path.clone(), key: *key };
        *self.places.get_mut(place)? = Some(kept);
        Some(RateSlot { place: place as u32, serial })
    }

    fn kept(&self, slot: RateSlot) -> Option<&Kept> {
        let kept = self.places.get(slot.place as usize)?.as_ref()?;
        (kept.serial == slot.serial).then_some(kept)
    }

    /// Has a packet pass by a plan, and says what is done to it then; none if it does not pass.
    pub(crate) fn pass_by_plan(
        &mut self,
        slot: RateSlot,
        h: Fields,
        now_ns: u64,
    ) -> Option<(Action, Passed)> {
        let kept = self.places.get(slot.place as usize)?.as_ref()?;
        if kept.serial != slot.serial {
            return None;
        }
        let passed = self.state.pass((&kept.path, kept.key), h, now_ns)?;
        Some((kept.beneath, passed))
    }

    /// Has a packet pass by a decision.
    pub(crate) fn pass(&mut self, limit: &RateLimit, h: Fields, now_ns: u64) -> Option<Passed> {
        self.state.pass((&limit.path, limit.key), h, now_ns)
    }

    /// Gives back what is leased: the worker has nothing to do.
    #[inline(always)]
    pub(crate) fn rest(&mut self) {
        if let Some(leases) = &mut self.state.leases {
            leases.give_back();
        }
    }

    /// There are other limiters.
    pub(crate) fn begin_epoch(&mut self, rules: &RateRules) {
        self.rest();
        self.state.meters.retain(|(level, _)| rules.has(level));
    }
}

impl State {
    fn pass(&mut self, (path, key): (&Path, u64), h: Fields, now_ns: u64) -> Option<Passed> {
        let (len, dscp) = (usize::from(h.total_len()), h.traffic_class() >> 2);
        let leases = self.leases.get_or_insert_default();
        let own = match path.leaf() {
            Some(leaf) if path.is_each() => {
                let at = self.meters.iter().position(|(level, _)| level.is_like(leaf));
                let at = at.unwrap_or_else(|| {
                    self.meters.push((leaf.clone(), Meters::new(MOST_METERS)));
                    self.meters.len() - 1
                });
                let (level, meters) = self.meters.get_mut(at)?;
                meters.of(key, level.settings(), now_ns)
            }
            _ => None,
        };
        path.pass(own, (len, dscp), now_ns, leases).ok()
    }
}

impl Details {
    /// Whether a plan with a limit holds for a packet.
    #[inline(never)]
    pub(crate) fn holds_beneath_limit(
        &self,
        reader: &Reader<Sa>,
        slot: RateSlot,
        packet: &Packet,
        h: Fields,
    ) -> bool {
        let kept = self.rates.kept(slot);
        kept.is_some_and(|kept| kept.beneath.holds(reader, self, packet, h))
    }
}

/// Flows, or tunnels, that have buckets of their own at a time, for each limiter and worker: 512 KiB.
const MOST_METERS: usize = 1 << 14;
