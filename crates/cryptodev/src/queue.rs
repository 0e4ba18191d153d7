//! A worker's queue: a queue pair, and the buffers of the packets in it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use crypto::Op;
use offload::{
    BURST_LEN, Buffer, Burst, Completion, CryptoWork, Queue, Request, SaHandle, Status, Work,
};
use outcome::DropReason;

use crate::packet::parts;
use crate::sa::Entry;
use crate::shared::{DEPTH, Shared};
use crate::sys::{Done, Outcome, Packet};

/// A worker's queue pair of the device.
pub struct CryptoQueue<B> {
    shared: Arc<Shared>,
    pair: usize,
    /// The resets that it has seen.
    resets: u64,
    /// Requests in the device, by the numbers that they have there.
    inside: Vec<Option<Request<B>>>,
    /// Numbers that are free.
    free: Vec<u32>,
    /// Requests that the device cannot do, or not any more. They come back with the next poll.
    refused: VecDeque<Completion<B>>,
}

impl<B: Buffer> CryptoQueue<B> {
    /// A queue of a pair that nobody has, with memory; `None` if there is none of either.
    pub fn new(shared: &Arc<Shared>) -> Option<CryptoQueue<B>> {
        let pair = shared.take_pair()?;
        let mut queue = CryptoQueue {
            shared: Arc::clone(shared),
            pair,
            resets: 0,
            inside: (0..DEPTH).map(|_| None).collect(),
            free: (0..DEPTH as u32).collect(),
            refused: VecDeque::with_capacity(DEPTH),
        };
        // On failure `queue` gives the pair back.
        let mut state = shared.lock(pair)?;
        if state.pair.is_none() {
            state.pair = Some(shared.new_pair(pair)?);
        }
        queue.resets = state.resets;
        drop(state);
        Some(queue)
    }
}

impl<B: Buffer> Queue<B> for CryptoQueue<B> {
    /// 1. Finds each request's SA and lays its packet out; what cannot be is refused.
    /// 2. Gives the device what it takes.
    /// 3. Takes from the front all that it took, and what was refused on the way there.
    fn submit(&mut self, requests: &mut Burst<Request<B>>) -> usize {
        let Some(mut state) = self.shared.try_lock(self.pair) else { return 0 };
        if state.resets != self.resets {
            return 0;
        }
        // 1.
        let has_pair = state.pair.is_some();
        let room = self.free.len().saturating_sub(self.refused.len());
        let entries: ArrayVec<Option<Arc<Entry>>, BURST_LEN> =
            requests.iter().take(room).map(|r| self.shared.table.find(sa_of(r.work)?)).collect();
        let mut numbers = self.free.iter().rev();
        let mut packets = ArrayVec::<(_, u32, Packet<'_>), BURST_LEN>::new();
        let mut is_packet = ArrayVec::<bool, BURST_LEN>::new();
        for (request, entry) in requests.iter().zip(&entries) {
            let entry = entry.as_ref().filter(|_| has_pair);
            let parts = entry.and_then(|e| laid_out(e, request.work, request.buffer.packet()));
            is_packet.push(parts.is_some());
            // A number is taken for a packet alone: below they are popped in the same order.
            if let Some((session, packet)) = parts
                && let Some(number) = numbers.next()
            {
                packets.push((session, *number, packet));
            }
        }
        // 2.
        let mut taken = 0;
        if let Some(pair) = state.pair.as_mut().filter(|_| !packets.is_empty()) {
            taken = pair.submit(&packets);
            // An idle device that does not take a packet never will.
            if taken == 0
                && pair.outside() == 0
                && let Some(first) = is_packet.iter_mut().find(|is_packet| **is_packet)
            {
                *first = false;
            }
        }
        drop(packets);
        drop(state);
        // 3.
        let mut count = 0;
        for is_packet in is_packet.iter().copied() {
            match (is_packet, taken) {
                (true, 0) => break,
                (true, _) => taken -= 1,
                (false, _) => {}
            }
            count += 1;
        }
        for (request, is_packet) in requests.drain(..count).zip(is_packet) {
            let number = if is_packet { self.free.pop() } else { None };
            match number.and_then(|number| self.inside.get_mut(number as usize)) {
                Some(place) => *place = Some(request),
                None => self.refuse(request),
            }
        }
        count
    }

    fn poll(&mut self, completions: &mut Burst<Completion<B>>) -> usize {
        let shared = &*self.shared;
        let Some(mut state) = shared.try_lock(self.pair) else { return 0 };
        if state.resets != self.resets {
            let resets = state.resets;
            drop(state);
            self.resets = resets;
            self.lose();
            return self.poll(completions);
        }
        let before = completions.len();
        while !completions.is_full()
            && let Some(refused) = self.refused.pop_front()
        {
            completions.push(refused);
        }
        let room = completions.remaining_capacity();
        if let Some(pair) = state.pair.as_mut().filter(|pair| room > 0 && pair.outside() > 0) {
            pair.poll(room, |done| {
                let place = self.inside.get_mut(done.index as usize);
                let Some(Request { mut buffer, work }) = place.and_then(Option::take) else {
                    return;
                };
                self.free.push(done.index);
                let status = settle(shared, buffer.packet_mut(), work, &done);
                completions.push(Completion { buffer, work, status });
            });
        }
        completions.len() - before
    }

    fn in_flight(&self) -> usize {
        DEPTH - self.free.len() + self.refused.len()
    }

    fn depth(&self) -> usize {
        DEPTH
    }
}

impl<B> CryptoQueue<B> {
    /// Gives back as dropped what was in the device before a reset.
    fn lose(&mut self) {
        for number in 0..self.inside.len() {
            if let Some(request) = self.inside.get_mut(number).and_then(Option::take) {
                self.free.push(number as u32);
                self.refuse(request);
            }
        }
    }

    fn refuse(&mut self, Request { buffer, work }: Request<B>) {
        self.shared.counters.refused.fetch_add(1, Relaxed);
        self.refused.push_back(Completion { buffer, work, status: Status::Dropped(reason(work)) });
    }
}

/// Waits for what is inside, and gives the pair back. A pair that does not become empty stays away.
impl<B> Drop for CryptoQueue<B> {
    fn drop(&mut self) {
        let until = Instant::now() + DRAIN;
        let is_empty = match self.shared.lock(self.pair) {
            Some(mut state) => state.pair.as_mut().is_none_or(|pair| {
                while pair.outside() > 0 && Instant::now() < until {
                    pair.poll(BURST_LEN, |_| ());
                }
                pair.outside() == 0
            }),
            None => false,
        };
        if is_empty {
            self.shared.give_pair(self.pair);
        }
    }
}

/// The SA of work that a device for crypto offload does.
fn sa_of(work: Work) -> Option<SaHandle> {
    match work {
        Work::Seal(of) | Work::Open(of) => Some(of.sa),
        Work::Outbound | Work::Inbound => None,
    }
}

/// A request's packet and the session for it, if the SA's direction and the packet's lengths fit.
fn laid_out<'p>(
    entry: &'p Entry,
    work: Work,
    packet: &'p [u8],
) -> Option<(&'p Arc<crate::sys::Session>, Packet<'p>)> {
    let (op, CryptoWork { esp, seq_hi, .. }) = match work {
        Work::Seal(of) => (Op::Seal, of),
        Work::Open(of) => (Op::Open, of),
        Work::Outbound | Work::Inbound => return None,
    };
    let esp = packet.get(esp.start..esp.start.checked_add(esp.len)?)?;
    if entry.op != op || packet.len() > crate::shared::MOST_PACKET_LEN {
        return None;
    }
    let packet = parts(entry.suite, op, &entry.salt, esp, seq_hi)?;
    Some((entry.session(seq_hi.is_some())?, packet))
}

/// Writes a result into the caller's buffer and says what became of the packet. What failed leaves the buffer alone.
fn settle(shared: &Shared, packet: &mut [u8], work: Work, done: &Done<'_>) -> Status {
    let counters = &shared.counters;
    let count = |counter: &AtomicU64| counter.fetch_add(1, Relaxed);
    let (of, is_seal) = match work {
        Work::Seal(of) => (of, true),
        Work::Open(of) => (of, false),
        Work::Outbound | Work::Inbound => return Status::Dropped(reason(work)),
    };
    let is_done = match done.outcome {
        Outcome::WrongIcv if !is_seal => {
            count(&counters.wrong_icv);
            return Status::Dropped(DropReason::InIntegrity);
        }
        Outcome::Done => {
            // Of an SA that has gone meanwhile nothing comes out.
            shared.table.find(of.sa).is_some() && write(packet, of, is_seal, done).is_some()
        }
        _ => false,
    };
    if !is_done {
        count(&counters.refused);
        return Status::Dropped(reason(work));
    }
    count(if is_seal { &counters.sealed } else { &counters.opened });
    Status::Done
}

fn write(packet: &mut [u8], of: CryptoWork, is_seal: bool, done: &Done<'_>) -> Option<()> {
    let esp = packet.get_mut(of.esp.start..)?.get_mut(..of.esp.len)?;
    let (body, icv) = esp.get_mut(HEADER_LEN..)?.split_at_mut_checked(done.body.len())?;
    if icv.len() != done.icv.len() {
        return None;
    }
    body.copy_from_slice(done.body);
    if is_seal {
        icv.copy_from_slice(done.icv);
    }
    Some(())
}

fn reason(work: Work) -> DropReason {
    match work {
        Work::Seal(_) => DropReason::OutCrypto,
        Work::Open(_) => DropReason::InCrypto,
        Work::Outbound | Work::Inbound => DropReason::OutUnsupported,
    }
}

/// Length of SPI and sequence number, which the device leaves alone.
const HEADER_LEN: usize = 8;

/// How long a queue that goes waits for its packets.
const DRAIN: Duration = Duration::from_millis(10);
