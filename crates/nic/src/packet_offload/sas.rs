//! The table of SAs, and what each counts.

use core::net::IpAddr;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::{BTreeSet, HashMap, VecDeque};

use esp::{NumbersLeft, Sa};
use offload::{Event, Live, PolicyHandle, SaDirection, SaHandle};
use policy::SaConfig;

use crate::packet_offload::sa_index::SaIndex;

/// An SA in the hardware.
pub(crate) struct Placed {
    pub direction: SaDirection,
    pub config: SaConfig,
    pub sa: Sa,
    /// Outbound policies that lead to it.
    pub users: BTreeSet<PolicyHandle>,
    told: Told,
}

/// Events that were given.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    soft: bool,
    hard: bool,
    low: bool,
    exhausted: bool,
}

impl Placed {
    pub fn new(direction: SaDirection, config: SaConfig, sa: Sa) -> Placed {
        Placed { direction, config, sa, users: BTreeSet::new(), told: Told::default() }
    }

    /// True if it may carry no more packets.
    pub fn is_over(&self) -> bool {
        let l = &self.config.limits;
        let (bytes, packets) = self.counts();
        bytes >= l.hard_bytes || packets >= l.hard_packets
    }

    /// Counts a packet.
    pub fn count(&self, bytes: usize) {
        self.sa.live().count(bytes as u64, 0);
    }

    fn counts(&self) -> (u64, u64) {
        let live = self.sa.live();
        (live.bytes().load(Relaxed), live.packets().load(Relaxed))
    }

    /// Tells of limits that were reached.
    pub fn tell_limits(&mut self, handle: SaHandle, events: &mut VecDeque<Event>) {
        let (bytes, packets) = self.counts();
        let l = self.config.limits;
        let told = &mut self.told;
        if bytes >= l.soft_bytes || packets >= l.soft_packets {
            tell(&mut told.soft, Event::SoftLimit(handle), events);
        }
        if bytes >= l.hard_bytes || packets >= l.hard_packets {
            tell(&mut told.hard, Event::HardLimit(handle), events);
        }
        let is_outbound = self.direction == SaDirection::Outbound;
        if is_outbound && self.sa.numbers_left() != NumbersLeft::Ample {
            tell(&mut told.low, Event::NumbersLow(handle), events);
        }
    }

    /// Tells that there is no number left.
    pub fn tell_exhausted(&mut self, handle: SaHandle, events: &mut VecDeque<Event>) {
        tell(&mut self.told.exhausted, Event::NumbersExhausted(handle), events);
    }

    /// Takes over what the SA did in another place.
    pub fn start(&self, start: &Live) {
        match self.direction {
            SaDirection::Outbound => self.sa.live().sent().store(start.number, Relaxed),
            SaDirection::Inbound => self.sa.replay().restore(start.number, |number| {
                let back = start.number - number;
                // What is not known was received.
                let word = start.received.get((back / 64) as usize).unwrap_or(&u64::MAX);
                word >> (back % 64) & 1 == 1
            }),
        }
        self.sa.live().bytes().store(start.bytes, Relaxed);
        self.sa.live().packets().store(start.packets, Relaxed);
    }

    /// The SA's numbers.
    pub fn live(&self) -> Live {
        let (bytes, packets) = self.counts();
        if self.direction == SaDirection::Outbound {
            let number = self.sa.live().sent().load(Relaxed);
            return Live { number, received: Vec::new(), bytes, packets };
        }
        let window = self.sa.replay();
        let edge = window.edge();
        let mut received = vec![0_u64; window.size().div_ceil(64) as usize];
        for back in 0..u64::from(window.size()).min(edge) {
            if window.seen(edge - back)
                && let Some(word) = received.get_mut((back / 64) as usize)
            {
                *word |= 1 << (back % 64);
            }
        }
        Live { number: edge, received, bytes, packets }
    }
}

fn tell(told: &mut bool, event: Event, events: &mut VecDeque<Event>) {
    if !core::mem::replace(told, true) {
        events.push_back(event);
    }
}

/// SAs of the NIC, by direction.
#[derive(Default)]
pub(crate) struct Sas {
    all: HashMap<SaHandle, Placed>,
    inbound: SaIndex,
    outbound: usize,
}

impl Sas {
    pub fn count(&self, direction: SaDirection) -> usize {
        match direction {
            SaDirection::Inbound => self.inbound.len(),
            SaDirection::Outbound => self.outbound,
        }
    }

    pub fn inbound(&self, dst: IpAddr, spi: u32) -> Option<SaHandle> {
        self.inbound.find(dst, spi)
    }

    pub fn get(&self, handle: SaHandle) -> Option<&Placed> {
        self.all.get(&handle)
    }

    pub fn get_mut(&mut self, handle: SaHandle) -> Option<&mut Placed> {
        self.all.get_mut(&handle)
    }

    pub fn insert(&mut self, handle: SaHandle, placed: Placed) {
        let params = &placed.config.params;
        match placed.direction {
            SaDirection::Inbound => self.inbound.add(params.dst, params.spi, handle),
            SaDirection::Outbound => self.outbound += 1,
        }
        self.all.insert(handle, placed);
    }

    pub fn remove(&mut self, handle: SaHandle) -> Option<Placed> {
        let placed = self.all.remove(&handle)?;
        let params = &placed.config.params;
        match placed.direction {
            SaDirection::Inbound => self.inbound.remove(params.dst, params.spi),
            SaDirection::Outbound => self.outbound -= 1,
        }
        Some(placed)
    }
}
