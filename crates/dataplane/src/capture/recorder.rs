//! One tap in one worker: records packets, and tells its reader.
//!
//! A packet is recorded when it comes to a place, and what became of it is noted when it leaves the worker or goes
//! on to another place; it is told by its frame meanwhile. What is known of neither at the end of a round waits
//! somewhere. So the reader gets whole records, in the order in which the packets came.
//!
//! The buffers go round: the worker fills one, hands it to the reader, and takes another that the reader has given
//! back. When there is none, packets are not recorded, and counted as lost.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use io::Packet;
use wire::{Span, Summary};

use super::filter::Filter;
use super::record::{Buffer, OfSa, Place, Record, Verdict};
use crate::model::{Explanation, Now, Step};

/// Filter and limits of a capture.
#[derive(Clone, Debug)]
pub struct TapConfig {
    /// Packets to be recorded.
    pub filter: Filter,
    /// Bytes that are kept of each packet at most.
    pub snap_len: usize,
    /// Packets after which each worker ends; none: it does not.
    pub limit: Option<u64>,
    /// True if decisions are explained: of a trace.
    pub explains: bool,
}

/// A tap's end in a worker.
pub struct Recorder {
    pub(super) config: TapConfig,
    worker: usize,
    /// Wall clock at 0 of the worker's clock, in nanoseconds. Known with the first packet.
    since_ns: Option<u64>,
    time_ns: u64,
    filling: Option<Box<Buffer>>,
    /// Records before this one are done with.
    settled: usize,
    /// Records of packets that are here, by frame.
    open: HashMap<u32, usize, ahash::RandomState>,
    /// Packets that are being sealed, by frame: whether their flow is asked for, and the policy that decided.
    sealing: Vec<(u32, bool, Option<u32>)>,
    /// Packets in clear that a device has to seal, by frame.
    given: HashMap<u32, Given, ahash::RandomState>,
    recorded: u64,
    full: SyncSender<Box<Buffer>>,
    free: Receiver<Box<Buffer>>,
    shared: Arc<Shared>,
}

/// State that both ends share.
#[derive(Debug, Default)]
struct Shared {
    /// Nobody reads any more.
    is_over: AtomicBool,
    /// Packets that were not recorded for lack of a buffer, by place.
    lost: [AtomicU64; Place::ALL.len()],
    /// Buffers that wait for the reader, or are read.
    waiting: AtomicU64,
}

/// A tap's end at its reader. The tap ends with it.
#[derive(Debug)]
pub struct TapReader {
    full: Receiver<Box<Buffer>>,
    free: Vec<SyncSender<Box<Buffer>>>,
    shared: Arc<Shared>,
}

/// Buffers of each worker: 1 MiB each, for what comes while the reader writes.
const BUFFERS: usize = 8;

/// Frames that may be on their way through a worker at a time, about.
const OPEN: usize = 1024;

/// A tap for so many workers: one recorder for each, in their order. All its memory is allocated here.
pub fn tap(config: &TapConfig, workers: usize) -> (Vec<Recorder>, TapReader) {
    let shared = Arc::new(Shared::default());
    let (full, told) = sync_channel(BUFFERS * workers.max(1));
    let mut free = Vec::new();
    let recorder = |worker| {
        let (give, free_here) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            // There is room.
            let _ = give.try_send(Box::new(Buffer::new(worker)));
        }
        free.push(give);
        Recorder {
            config: config.clone(),
            worker,
            since_ns: None,
            time_ns: 0,
            filling: None,
            settled: 0,
            open: HashMap::with_capacity_and_hasher(OPEN, ahash::RandomState::new()),
            sealing: Vec::with_capacity(io::BURST_LEN),
            given: HashMap::with_capacity_and_hasher(OPEN, ahash::RandomState::new()),
            recorded: 0,
            full: full.clone(),
            free: free_here,
            shared: Arc::clone(&shared),
        }
    };
    let recorders = (0..workers).map(recorder).collect();
    (recorders, TapReader { full: told, free, shared })
}

impl TapReader {
    /// The next buffer, to be [given back](TapReader::give_back); none if none comes for so long.
    ///
    /// # Errors
    /// Nothing comes any more: the recorders are gone.
    pub fn next(&self, patience: Duration) -> Result<Option<Box<Buffer>>, Gone> {
        match self.full.recv_timeout(patience) {
            Ok(buffer) => Ok(Some(buffer)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Gone),
        }
    }

    /// Gives a buffer back to its worker.
    pub fn give_back(&self, mut buffer: Box<Buffer>) {
        buffer.clear();
        self.shared.waiting.fetch_sub(1, Relaxed);
        if let Some(free) = self.free.get(buffer.worker) {
            // A worker that is gone needs none.
            let _ = free.try_send(buffer);
        }
    }

    /// Has the recorders end: they tell what they have, within a worker's sleep, and go.
    pub fn end(&self) {
        self.shared.is_over.store(true, Relaxed);
    }

    /// Packets that were not recorded for lack of a buffer.
    pub fn lost(&self, place: Place) -> u64 {
        self.shared.lost.get(place as usize).map_or(0, |lost| lost.load(Relaxed))
    }
}

impl Drop for TapReader {
    fn drop(&mut self) {
        self.end();
    }
}

/// The recorders of a tap are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Notes about a packet when it comes to a place.
#[derive(Clone, Copy)]
pub(super) struct Coming<'p> {
    pub(super) place: Place,
    pub(super) is_outbound: bool,
    pub(super) ifindex: u32,
    pub(super) sa: Option<OfSa>,
    pub(super) policy: Option<u32>,
    pub(super) is_match: bool,
    /// The frame's number.
    pub(super) frame: u32,
    pub(super) bytes: &'p [u8],
}

/// Notes about a packet in a device that seals it.
#[derive(Clone, Copy, Default)]
pub(super) struct Given {
    /// True if the filter matches.
    pub(super) is_match: bool,
    /// The policy that decided.
    pub(super) policy: Option<u32>,
    /// The SA that protects it.
    pub(super) sa: Option<OfSa>,
}

impl Recorder {
    /// Packets are recorded at this time.
    pub(super) fn set_time(&mut self, now: Now) {
        let since_ns = *self.since_ns.get_or_insert_with(|| {
            let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            (wall.as_nanos() as u64).saturating_sub(now.ns)
        });
        self.time_ns = since_ns + now.ns;
    }

    /// True if a packet's flow is in the filter.
    pub(super) fn is_match(&self, packet: &Summary) -> bool {
        self.config.filter.flow.matches(packet)
    }

    /// Begins a record.
    pub(super) fn begin(&mut self, coming: Coming<'_>) -> Option<&mut Record> {
        let Coming { place, is_outbound, ifindex, sa, policy, is_match, frame, bytes } = coming;
        // What was recorded of the frame before, if anything was, waits somewhere.
        self.settle(frame, Verdict::Held);
        let kept = bytes.get(..self.config.snap_len).unwrap_or(bytes);
        if self.filling.as_ref().is_some_and(|buffer| !buffer.has_room(kept.len())) {
            self.publish(Verdict::Unknown);
            if self.filling.as_ref().is_some_and(|buffer| !buffer.has_room(kept.len())) {
                self.tell();
            }
        }
        if self.filling.is_none() {
            self.filling = self.free.try_recv().ok();
        }
        if self.filling.is_none() {
            self.lose(&coming);
            return None;
        }
        let buffer = self.filling.as_mut()?;
        let at = (buffer.bytes.len(), kept.len());
        buffer.bytes.extend_from_slice(kept);
        self.open.insert(frame, buffer.records.len());
        buffer.records.push(Record {
            place,
            is_outbound,
            time_ns: self.time_ns,
            ifindex,
            len: bytes.len() as u32,
            sa,
            policy,
            path: None,
            verdict: Verdict::Held,
            worker: self.worker,
            explanation: None,
            at,
            is_match,
        });
        buffer.records.last_mut()
    }

    /// There is no buffer for a packet.
    #[cold]
    fn lose(&mut self, coming: &Coming<'_>) {
        self.pass(coming.frame);
        let wanted = self.config.filter.place;
        if coming.is_match
            && wanted.is_none_or(|wanted| wanted == coming.place)
            && let Some(lost) = self.shared.lost.get(coming.place as usize)
        {
            lost.fetch_add(1, Relaxed);
        }
    }

    /// True if a frame's packet is recorded, or known not to be.
    pub(super) fn has(&self, frame: u32) -> bool {
        self.open.contains_key(&frame)
    }

    /// A frame's packet is recorded elsewhere, or cannot be.
    pub(super) fn pass(&mut self, frame: u32) {
        self.open.insert(frame, usize::MAX);
    }

    /// Adds to the record of a frame that is here.
    pub(super) fn open(&mut self, frame: u32) -> Option<&mut Record> {
        let at = *self.open.get(&frame)?;
        self.filling.as_mut()?.records.get_mut(at)
    }

    /// Notes what became of a frame; returns its record, if it had one.
    pub(super) fn settle(&mut self, frame: u32, verdict: Verdict) -> Option<&mut Record> {
        let at = self.open.remove(&frame)?;
        let record = self.filling.as_mut()?.records.get_mut(at)?;
        record.verdict = verdict;
        Some(record)
    }

    /// Has the record of a frame show the packet as it is now.
    pub(super) fn show(&mut self, frame: u32, packet: &[u8]) {
        let Some(at) = self.open.get(&frame) else { return };
        let Some(buffer) = &mut self.filling else { return };
        let Some((start, len)) = buffer.records.get(*at).map(|record| record.at) else { return };
        if let (Some(kept), Some(new)) =
            (buffer.bytes.get_mut(start..start + len), packet.get(..len))
        {
            kept.copy_from_slice(new);
        }
    }

    /// The packet of a frame is recorded elsewhere, as it is handed over.
    pub(super) fn forget(&mut self, frame: u32) {
        if let Some(record) = self.settle(frame, Verdict::Unknown) {
            record.is_match = false;
        }
    }

    /// Notes what is known of a packet that a device is to seal.
    pub(super) fn give(&mut self, frame: u32, given: Given) {
        self.given.insert(frame, given);
    }

    /// Takes the notes made when a device got the packet of this frame.
    pub(super) fn take_given(&mut self, frame: u32) -> Given {
        self.given.remove(&frame).unwrap_or_default()
    }

    /// Nothing is being sealed.
    pub(super) fn begin_sealing(&mut self) {
        self.sealing.clear();
    }

    /// A packet is being sealed.
    pub(super) fn note_sealing(&mut self, frame: u32, is_match: bool, policy: Option<u32>) {
        self.sealing.push((frame, is_match, policy));
    }

    /// The notes made when a packet was sealed.
    pub(super) fn sealing(&self, frame: u32) -> (bool, Option<u32>) {
        let noted = self.sealing.iter().find(|(sealing, ..)| *sealing == frame);
        noted.map_or((false, None), |(_, is_match, policy)| (*is_match, *policy))
    }

    /// A round is over: what has no end waits. False if the tap is at its end.
    pub(super) fn end_round(&mut self) -> bool {
        self.publish(Verdict::Held);
        let is_over = self.shared.is_over.load(Relaxed) || self.left() == Some(0);
        // At once, unless the reader has something to do.
        let is_to_tell = self.filling.as_ref().is_some_and(|buffer| {
            let is_awaited = self.shared.waiting.load(Relaxed) == 0;
            !buffer.records.is_empty() && (is_awaited || is_over || buffer.is_half_full())
        });
        if is_to_tell {
            self.tell();
        }
        !is_over
    }

    /// Tells all that is recorded, before the end.
    pub(super) fn end(&mut self) {
        self.publish(Verdict::Held);
        if self.filling.as_ref().is_some_and(|buffer| !buffer.records.is_empty()) {
            self.tell();
        }
    }

    fn left(&self) -> Option<u64> {
        self.config.limit.map(|limit| limit.saturating_sub(self.recorded))
    }

    /// Keeps of the new records those that are wanted; those without an end get this one.
    fn publish(&mut self, verdict: Verdict) {
        let Some(buffer) = &mut self.filling else { return self.open.clear() };
        for at in self.open.drain().map(|(_, at)| at) {
            if let Some(record) = buffer.records.get_mut(at) {
                record.verdict = verdict;
            }
        }
        if buffer.records.len() == self.settled {
            return;
        }
        let mut left = self.config.limit.map(|limit| limit.saturating_sub(self.recorded));
        let filter = &self.config.filter;
        buffer.retain(self.settled, |record| {
            let is_wanted = record.is_match && filter.wants(record) && left != Some(0);
            if is_wanted {
                left = left.map(|left| left - 1);
            }
            is_wanted
        });
        self.recorded += (buffer.records.len() - self.settled) as u64;
        self.settled = buffer.records.len();
    }

    /// Hands the buffer to the reader.
    fn tell(&mut self) {
        let Some(buffer) = self.filling.take() else { return };
        self.settled = 0;
        self.shared.waiting.fetch_add(1, Relaxed);
        // There is room for all of them; a reader that is gone needs none.
        let _ = self.full.try_send(buffer);
    }
}

/// The bytes of a span.
pub(super) fn bytes_of(packet: &Packet, span: Span) -> &[u8] {
    packet.frame.bytes().get(span.range()).unwrap_or_default()
}

/// The policy that decided last.
pub(super) fn policy_of(explanation: &Explanation) -> Option<u32> {
    explanation.steps.iter().rev().find_map(|step| match step {
        Step::Policy { index, .. } => *index,
        _ => None,
    })
}

/// Name of the path that was chosen last.
pub(super) fn path_of(explanation: &Explanation) -> Option<&Arc<str>> {
    let chosen = explanation.steps.iter().rev().find_map(|step| match step {
        Step::Path { path, .. } => Some(path),
        _ => None,
    });
    chosen.and_then(Option::as_ref)
}
