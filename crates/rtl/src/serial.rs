//! The gateway's queue for a worker of the daemon: one packet inside at a time, of all workers together.
//!
//! The gateway puts packets out in any order and says of a drop only that it happened. With one packet inside both are
//! its own: the packet that comes out is the one that went in, and the counter that moves is its reason.
//!
//! [`Queue::submit`] turns the gateway's clock until the packet has left, so it blocks, for the lock too: a simulation
//! takes milliseconds where hardware takes microseconds, and its results are there when it returns. A worker has all
//! of a burst back with the next poll.

use core::net::IpAddr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use offload::{Buffer, Burst, Completion, Queue, Request, SaHandle, Status, Work};
use outcome::DropReason;
use policy::SaConfig;

use crate::convert::drop_reason;
use crate::queue::{SharedSimulation, drops, lock};
use crate::registers::{DROPS, Drop};
use crate::simulation::{Side, Simulation};

/// State that the device and its queues share. Locked after the gateway, where both are.
#[derive(Default)]
pub(crate) struct Shared {
    known: Mutex<Known>,
    /// How often control waits for the gateway: a worker that has it packet after packet would leave it none.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct Known {
    /// Dropped packets that were told, by reason; outbound and inbound.
    told: [[u64; DROPS]; 2],
    /// Inbound SAs by destination and SPI.
    inbound: HashMap<(IpAddr, u32), SaHandle>,
}

impl Shared {
    fn known<T>(&self, with: impl FnOnce(&mut Known) -> T) -> T {
        with(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the gateway for control: no worker takes it meanwhile.
    pub(crate) fn ahead<T>(&self, take: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Relaxed);
        let taken = take();
        self.waiting.fetch_sub(1, Relaxed);
        taken
    }

    /// An inbound SA is in the gateway.
    pub(crate) fn add(&self, config: &SaConfig, sa: SaHandle) {
        let key = (config.params.dst, config.params.spi);
        self.known(|known| known.inbound.insert(key, sa));
    }

    /// An SA is no more.
    pub(crate) fn remove(&self, sa: SaHandle) {
        self.known(|known| known.inbound.retain(|_, other| *other != sa));
    }

    /// A reset clears the gateway's counters.
    pub(crate) fn forget_drops(&self) {
        self.known(|known| known.told = Default::default());
    }

    /// The SA of an ESP packet.
    fn sa_of(&self, packet: &[u8]) -> Option<SaHandle> {
        let headers = wire::parse_ip(packet).ok()?;
        let at = usize::from(headers.header_len);
        let spi = packet.get(at..at + 4)?.try_into().ok()?;
        let key = (headers.dst, u32::from_be_bytes(spi));
        self.known(|known| known.inbound.get(&key).copied())
    }

    /// Why the gateway has dropped a packet since it was last asked, if it has.
    fn dropped(&self, gateway: &mut Simulation, is_inbound: bool) -> Option<DropReason> {
        let now = drops(gateway, is_inbound);
        let told =
            |known: &mut Known| core::mem::replace(&mut known.told[usize::from(is_inbound)], now);
        let before = self.known(told);
        let moved = Drop::ALL.into_iter().find(|r| now[*r as usize] > before[*r as usize])?;
        Some(drop_reason(moved, is_inbound))
    }
}

/// A queue with one packet inside at a time.
pub(crate) struct SerialQueue<B> {
    gateway: SharedSimulation,
    shared: Arc<Shared>,
    done: VecDeque<Completion<B>>,
}

impl<B: Buffer> SerialQueue<B> {
    pub(crate) fn new(gateway: SharedSimulation, shared: Arc<Shared>) -> SerialQueue<B> {
        SerialQueue { gateway, shared, done: VecDeque::with_capacity(DEPTH) }
    }

    /// Sends one packet through the gateway, and puts what comes out into its buffer.
    fn send(&self, buffer: &mut B, work: Work) -> Status {
        let is_inbound = match work {
            Work::Outbound => false,
            Work::Inbound => true,
            Work::Seal(_) | Work::Open(_) => return Status::Dropped(DropReason::OutUnsupported),
        };
        let sides = [Side::Protected, Side::Unprotected];
        let (from, to) = (sides[usize::from(is_inbound)], sides[usize::from(!is_inbound)]);
        let sa = if is_inbound { self.shared.sa_of(buffer.packet()) } else { None };
        // For this packet alone: control comes in between two of them.
        while self.shared.waiting.load(Relaxed) > 0 {
            std::thread::yield_now();
        }
        let mut gateway = lock(&self.gateway);
        let out = gateway.traffic(to).packets_out;
        gateway.push(from, buffer.packet());
        let mut next_look = FIRST_LOOK + 2 * buffer.packet().len() as u64;
        let mut cycles = 0;
        while cycles < MOST_CYCLES {
            gateway.tick(STEP);
            cycles += STEP;
            if gateway.traffic(to).packets_out != out {
                let packet = gateway.pull(to).unwrap_or_default();
                return match (buffer.set_packet(&packet), sa) {
                    (Ok(()), Some(sa)) => Status::Opened(sa),
                    (Ok(()), None) => Status::Done,
                    (Err(_), _) => Status::Dropped(DropReason::OutNoRoom),
                };
            }
            // Reading the counters takes hundreds of cycles: only when the packet should have left.
            if cycles >= next_look {
                if let Some(reason) = self.shared.dropped(&mut gateway, is_inbound) {
                    return Status::Dropped(reason);
                }
                next_look = 2 * cycles;
            }
        }
        Status::Lost
    }
}

impl<B: Buffer> Queue<B> for SerialQueue<B> {
    fn submit(&mut self, requests: &mut Burst<Request<B>>) -> usize {
        let room = DEPTH.saturating_sub(self.done.len()).min(requests.len());
        for Request { mut buffer, work } in requests.drain(..room) {
            let status = self.send(&mut buffer, work);
            self.done.push_back(Completion { buffer, work, status });
        }
        room
    }

    fn poll(&mut self, completions: &mut Burst<Completion<B>>) -> usize {
        let count = self.done.len().min(completions.remaining_capacity());
        completions.extend(self.done.drain(..count));
        count
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn depth(&self) -> usize {
        DEPTH
    }
}

/// Packets that wait to be polled for at most.
const DEPTH: usize = 128;

/// Clock cycles between two looks at the outputs.
const STEP: u64 = 16;

/// Clock cycles, beside two for each byte, before a packet may have been dropped.
const FIRST_LOOK: u64 = 400;

/// Clock cycles after which the gateway is not going to answer: the longest packet takes 20 000.
const MOST_CYCLES: u64 = 200_000;
