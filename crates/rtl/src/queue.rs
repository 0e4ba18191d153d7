//! The gateway's queue: many packets inside at once.
//!
//! A completion with [`Status::Done`] has whichever packet came out next, in whichever buffer of its direction is the
//! oldest; a dropped packet is known by the gateway's counters alone. The simulation's clock runs while
//! a queue is polled.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offload::{Buffer, Burst, Completion, Queue, Request, Status, Work};
use outcome::DropReason;

use crate::convert::drop_reason;
use crate::registers::{Counters, DROPS, Drop};
use crate::simulation::{Side, Simulation};

/// A simulated gateway, shared by the device, its queues, and a test that looks on.
pub type SharedSimulation = Arc<Mutex<Simulation>>;

/// Both directions of the gateway.
pub(crate) struct GatewayQueue<B> {
    gateway: SharedSimulation,
    halves: [Half<B>; 2],
    /// Requests that come back as they are: crypto offload, which the gateway does not do, and
    /// packets that a reset has taken.
    back: VecDeque<Completion<B>>,
    /// Resets of the gateway that the queue knows of.
    resets: u64,
}

impl<B> GatewayQueue<B> {
    pub(crate) fn new(gateway: SharedSimulation) -> GatewayQueue<B> {
        let half = |inbound| {
            let buffers = VecDeque::with_capacity(DEPTH);
            Half { buffers, told: drops(&mut lock(&gateway), inbound) }
        };
        let halves = [half(false), half(true)];
        let resets = lock(&gateway).resets();
        GatewayQueue { gateway, halves, back: VecDeque::with_capacity(3 * DEPTH), resets }
    }
}

/// Requests and results of one direction.
struct Half<B> {
    /// Of packets that are inside, the oldest first.
    buffers: VecDeque<B>,
    /// Dropped packets that were told, by reason.
    told: [u64; DROPS],
}

impl<B: Buffer> Queue<B> for GatewayQueue<B> {
    fn submit(&mut self, requests: &mut Burst<Request<B>>) -> usize {
        let mut gateway = lock(&self.gateway);
        follow_resets(&mut self.resets, &gateway, &mut self.halves, &mut self.back);
        let before = requests.len();
        while let Some(request) = requests.first() {
            let (half, side) = match request.work {
                Work::Outbound => (&mut self.halves[0], Side::Protected),
                Work::Inbound => (&mut self.halves[1], Side::Unprotected),
                Work::Seal(_) | Work::Open(_) if self.back.len() < DEPTH => {
                    let status = Status::Dropped(DropReason::OutUnsupported);
                    let refused = requests.pop_at(0);
                    let back = |Request { buffer, work }| Completion { buffer, work, status };
                    self.back.extend(refused.map(back));
                    continue;
                }
                Work::Seal(_) | Work::Open(_) => break,
            };
            if half.buffers.len() >= DEPTH || gateway.queued(side) >= RING {
                break;
            }
            let Some(Request { buffer, .. }) = requests.pop_at(0) else { break };
            gateway.push(side, buffer.packet());
            half.buffers.push_back(buffer);
        }
        before - requests.len()
    }

    fn poll(&mut self, completions: &mut Burst<Completion<B>>) -> usize {
        let before = completions.len();
        let mut gateway = lock(&self.gateway);
        follow_resets(&mut self.resets, &gateway, &mut self.halves, &mut self.back);
        let count = self.back.len().min(completions.remaining_capacity());
        completions.extend(self.back.drain(..count));
        gateway.tick(POLL_CYCLES);
        let [outbound, inbound] = &mut self.halves;
        outbound.poll(&mut gateway, Work::Outbound, completions);
        inbound.poll(&mut gateway, Work::Inbound, completions);
        completions.len() - before
    }

    fn in_flight(&self) -> usize {
        self.halves.iter().map(|half| half.buffers.len()).sum::<usize>() + self.back.len()
    }

    fn depth(&self) -> usize {
        3 * DEPTH
    }
}

impl<B: Buffer> Half<B> {
    fn poll(
        &mut self,
        gateway: &mut Simulation,
        work: Work,
        completions: &mut Burst<Completion<B>>,
    ) {
        let inbound = work == Work::Inbound;
        let side = if inbound { Side::Protected } else { Side::Unprotected };
        let before = completions.len();
        while !completions.is_full()
            && !self.buffers.is_empty()
            && let Some(packet) = gateway.pull(side)
            && let Some(mut buffer) = self.buffers.pop_front()
        {
            let status = match buffer.set_packet(&packet) {
                Ok(()) => Status::Done,
                Err(_) => Status::Dropped(DropReason::OutNoRoom),
            };
            completions.push(Completion { buffer, work, status });
        }
        // Reading the counters takes hundreds of cycles: only while nothing comes out.
        if completions.len() > before || self.buffers.is_empty() {
            return;
        }
        let now = Counters::read(gateway, inbound);
        for reason in Drop::ALL {
            let told = &mut self.told[reason as usize];
            while *told < now.dropped(reason)
                && !completions.is_full()
                && let Some(buffer) = self.buffers.pop_front()
            {
                *told += 1;
                let status = Status::Dropped(drop_reason(reason, inbound));
                completions.push(Completion { buffer, work, status });
            }
        }
    }
}

/// Gives up the packets that were inside when the gateway was reset, as soon as it is known: what is submitted from then
/// on comes out.
fn follow_resets<B>(
    known: &mut u64,
    gateway: &Simulation,
    halves: &mut [Half<B>; 2],
    back: &mut VecDeque<Completion<B>>,
) {
    if core::mem::replace(known, gateway.resets()) == gateway.resets() {
        return;
    }
    for (half, work) in halves.iter_mut().zip([Work::Outbound, Work::Inbound]) {
        half.told = [0; DROPS];
        let lost = |buffer| Completion { buffer, work, status: Status::Lost };
        back.extend(half.buffers.drain(..).map(lost));
    }
}

/// Packets of one direction that are inside at most: fewer than any replay window has.
const DEPTH: usize = 64;

/// Packets that wait at an input at most.
const RING: usize = 8;

/// Clock cycles of one poll.
const POLL_CYCLES: u64 = 50;

pub(crate) fn lock(gateway: &SharedSimulation) -> MutexGuard<'_, Simulation> {
    gateway.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Packets dropped so far, by reason.
pub(crate) fn drops(gateway: &mut Simulation, inbound: bool) -> [u64; DROPS] {
    let counters = Counters::read(gateway, inbound);
    let mut drops = [0; DROPS];
    Drop::ALL.iter().for_each(|reason| drops[*reason as usize] = counters.dropped(*reason));
    drops
}
