//! Crypto offload behind [`crypto::Engine`]: jobs of offloaded SAs go through their device's queue, all others, and what a
//! device does not take, to the software engine.
//!
//! 1. Packets of offloaded SAs are copied into buffers of the queue's, with an outer header in front, and submitted.
//! 2. Software works on the other jobs meanwhile.
//! 3. The queue is polled until the device has given these packets back, for a bounded number of times.
//! 4. Software works on what the device did not: it was busy, has been reset, has lost the SA, or has
//!    not answered. The job's own bytes are untouched until then, and its number and IV are the same, so the
//!    packet is the one that the device would have made.
//!
//! A wrong ICV is a result, and no reason to try again.

use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use crypto::{Engine, Job, JobStatus, Op, Session};
use esp::SaParams;
use outcome::DropReason;
use wire::Span;

use crate::capabilities::Capabilities;
use crate::device::SaHandle;
use crate::queue::{
    BURST_LEN, Buffer, Burst, Completion, CryptoWork, NoRoom, Queue, Request, Status, Work,
};

/// The session of an SA that a device has.
pub struct Offloaded {
    /// Which of the engine's lanes.
    lane: usize,
    device: Arc<str>,
    sa: SaHandle,
    /// The same keys for the software engine.
    software: Session,
    /// The outer header, with a length of 0.
    head: Vec<u8>,
}

impl Offloaded {
    /// A session for an SA that the device of a lane has taken. `software` is one of its keys, for the software
    /// engine.
    pub fn session(
        (lane, device): (usize, Arc<str>),
        sa: SaHandle,
        software: Session,
        params: &SaParams,
    ) -> Session {
        let head = head(params.src, params.dst);
        let suite = software.suite();
        Session::new(suite, Box::new(Offloaded { lane, device, sa, software, head }))
    }

    /// The device's name.
    pub fn device(&self) -> &str {
        &self.device
    }
}

/// A packet's memory in a queue, and whose it is.
pub struct Bounce {
    bytes: Vec<u8>,
    head_len: usize,
    /// The run of the engine that it was submitted in.
    turn: u64,
    /// The job's place in that run.
    at: usize,
}

impl Buffer for Bounce {
    fn packet(&self) -> &[u8] {
        &self.bytes
    }

    fn packet_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn set_packet(&mut self, packet: &[u8]) -> Result<(), NoRoom> {
        if packet.len() > self.bytes.capacity() {
            return Err(NoRoom);
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(packet);
        Ok(())
    }
}

/// A device's queue as one engine has it.
pub struct Lane {
    queue: Box<dyn Queue<Bounce>>,
    capabilities: Capabilities,
    spare: Vec<Bounce>,
    requests: Burst<Request<Bounce>>,
    completions: Burst<Completion<Bounce>>,
    /// Packets of the device's SAs that software has worked on.
    in_software: Arc<AtomicU64>,
}

impl Lane {
    /// A lane for one engine. `in_software` counts packets of the device's SAs that software has worked on.
    pub fn new(
        queue: Box<dyn Queue<Bounce>>,
        capabilities: Capabilities,
        in_software: Arc<AtomicU64>,
    ) -> Lane {
        let most = capabilities.most_packet_len;
        let bounce = || Bounce { bytes: Vec::with_capacity(most), head_len: 0, turn: 0, at: 0 };
        let spare = (0..queue.depth().min(BURST_LEN)).map(|_| bounce()).collect();
        let (requests, completions) = (Burst::new(), Burst::new());
        Lane { queue, capabilities, spare, requests, completions, in_software }
    }

    /// Copies a job's packet for the device; false if it does not take it.
    fn take(&mut self, sa: &Offloaded, job: &Job<'_>, (turn, at): (u64, usize)) -> bool {
        let len = sa.head.len() + job.packet.len();
        if job.layout().is_none() || len > self.capabilities.most_packet_len {
            return false;
        }
        let Some(mut bounce) = self.spare.pop() else { return false };
        (bounce.head_len, bounce.turn, bounce.at) = (sa.head.len(), turn, at);
        bounce.bytes.clear();
        bounce.bytes.extend_from_slice(&sa.head);
        bounce.bytes.extend_from_slice(job.packet);
        fill_len(&mut bounce.bytes);
        if !self.capabilities.offload_ok(&bounce.bytes) || self.requests.is_full() {
            self.spare.push(bounce);
            return false;
        }
        let esp = Span { start: sa.head.len(), len: job.packet.len() };
        let work = CryptoWork { sa: sa.sa, esp, seq_hi: job.seq_hi };
        let work = match job.op {
            Op::Seal => Work::Seal(work),
            Op::Open => Work::Open(work),
        };
        // There is room.
        let _ = self.requests.try_push(Request { buffer: bounce, work });
        true
    }

    /// Gives the device what was taken; places of jobs that it has no room for.
    fn submit(&mut self) -> u64 {
        self.queue.submit(&mut self.requests);
        let mut left = 0;
        for Request { buffer, .. } in self.requests.drain(..) {
            left |= 1 << buffer.at;
            self.spare.push(buffer);
        }
        left
    }

    /// Takes back what is done: the places of jobs that came back, and of those that software has to do.
    fn poll(&mut self, jobs: &mut [Job<'_>], turn: u64) -> (u64, u64) {
        let (mut back, mut again) = (0, 0);
        self.queue.poll(&mut self.completions);
        for Completion { buffer, status, .. } in self.completions.drain(..) {
            // Those of an earlier turn came too late.
            if buffer.turn == turn
                && let Some(job) = jobs.get_mut(buffer.at)
            {
                back |= 1 << buffer.at;
                if !settle(job, &buffer, status) {
                    again |= 1 << buffer.at;
                }
            }
            self.spare.push(buffer);
        }
        (back, again)
    }
}

/// Ends a job by what the device says; false if it has not worked on it.
fn settle(job: &mut Job<'_>, buffer: &Bounce, status: Status) -> bool {
    match (status, job.op) {
        (Status::Done, _) => {
            let Some(esp) = buffer.bytes.get(buffer.head_len..) else { return false };
            if esp.len() != job.packet.len() {
                return false;
            }
            job.packet.copy_from_slice(esp);
            job.status = JobStatus::Done;
        }
        (Status::Dropped(DropReason::InIntegrity), Op::Open) => job.status = JobStatus::BadIcv,
        _ => return false,
    }
    true
}

/// An engine with devices.
pub struct OffloadEngine {
    software: Box<dyn Engine>,
    lanes: Vec<Lane>,
    /// Whether any SA was ever offloaded: until then nobody looks for one. What hands a session to another thread
    /// makes this seen there, too.
    is_used: Arc<AtomicBool>,
    turn: u64,
}

impl OffloadEngine {
    /// `software` with the devices of these lanes, which sessions name by their places.
    pub fn new(
        software: Box<dyn Engine>,
        lanes: Vec<Lane>,
        is_used: Arc<AtomicBool>,
    ) -> OffloadEngine {
        OffloadEngine { software, lanes, is_used, turn: 0 }
    }

    fn run_burst(&mut self, jobs: &mut [Job<'_>]) {
        self.turn += 1;
        let turn = self.turn;
        let mut on_device = 0_u64;
        for (at, job) in jobs.iter_mut().enumerate() {
            let session = job.session;
            let Some(sa) = session.state::<Offloaded>() else { continue };
            let lane = self.lanes.get_mut(sa.lane);
            if lane.is_some_and(|lane| lane.take(sa, job, (turn, at))) {
                on_device |= 1 << at;
            } else {
                self.to_software(job);
            }
        }
        let left = self.lanes.iter_mut().fold(0, |left, lane| left | lane.submit());
        on_device &= !left;
        each(jobs, left, |job| self.to_software(job));
        self.run_software(jobs, !on_device);
        let mut again = 0;
        for _ in 0..MOST_POLLS {
            if on_device == 0 {
                break;
            }
            for lane in &mut self.lanes {
                let (back, not_done) = lane.poll(jobs, turn);
                on_device &= !back;
                again |= not_done;
            }
        }
        again |= on_device;
        if again != 0 {
            each(jobs, again, |job| self.to_software(job));
            self.run_software(jobs, again);
        }
    }

    /// Has the software engine's keys be used.
    fn to_software(&self, job: &mut Job<'_>) {
        let session = job.session;
        let Some(sa) = session.state::<Offloaded>() else { return };
        job.session = &sa.software;
        if let Some(lane) = self.lanes.get(sa.lane) {
            lane.in_software.fetch_add(1, Relaxed);
        }
    }

    /// Runs the jobs at these places, neighbours together.
    fn run_software(&mut self, jobs: &mut [Job<'_>], places: u64) {
        let is_in = |at: usize| places >> at & 1 == 1;
        let mut start = 0;
        while start < jobs.len() {
            let run = (start..jobs.len()).take_while(|at| is_in(*at)).count();
            if let Some(jobs) = jobs.get_mut(start..start + run).filter(|jobs| !jobs.is_empty()) {
                self.software.run(jobs);
            }
            start += run.max(1);
        }
    }
}

impl Engine for OffloadEngine {
    fn run(&mut self, jobs: &mut [Job<'_>]) {
        if !self.is_used.load(Relaxed) {
            return self.software.run(jobs);
        }
        jobs.chunks_mut(BURST_LEN).for_each(|jobs| self.run_burst(jobs));
    }
}

/// The jobs at these places.
fn each<'j>(jobs: &mut [Job<'j>], places: u64, mut run: impl FnMut(&mut Job<'j>)) {
    for (at, job) in jobs.iter_mut().enumerate() {
        if places >> at & 1 == 1 {
            run(job);
        }
    }
}

/// An outer header without options, as a device reads it to find the SA.
fn head(src: IpAddr, dst: IpAddr) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut head = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, TTL, ESP, 0, 0];
            head.extend(src.octets());
            head.extend(dst.octets());
            head
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut head = vec![0x60, 0, 0, 0, 0, 0, ESP, TTL];
            head.extend(src.octets());
            head.extend(dst.octets());
            head
        }
        // No device has such SAs.
        _ => Vec::new(),
    }
}

/// Writes the length of a packet into its header.
fn fill_len(packet: &mut [u8]) {
    let len = packet.len();
    let (at, len) = match packet.first() {
        Some(0x45) => (2, len),
        _ => (4, len.saturating_sub(40)),
    };
    if let Some(field) = packet.get_mut(at..at + 2) {
        field.copy_from_slice(&u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes());
    }
    if at == 2
        && let Some(header) = packet.get_mut(..20)
    {
        if let Some(checksum) = header.get_mut(10..12) {
            checksum.fill(0);
        }
        wire::ipv4::fill_checksum(header);
    }
}

const TTL: u8 = 64;
const ESP: u8 = 50;

/// Polls of one burst before a device is passed over: milliseconds.
const MOST_POLLS: usize = 100_000;
