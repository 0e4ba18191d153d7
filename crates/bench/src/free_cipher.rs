//! Of the bench `offload`: hardware for crypto offload, which seals and opens with the engine of software.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use arrayvec::ArrayVec;
use crypto::{Engine, Job, JobStatus, Op, Session, Suite};
use offload::{
    BURST_LEN, Bounce, Buffer, Burst, Capabilities, Completion, CryptoWork, Queue, Request,
    SaHandle, Status, Work,
};
use outcome::DropReason;

/// The hardware, as all its queues have it.
#[derive(Clone, Default)]
pub(crate) struct Cipher {
    /// The keys, by the numbers of their SAs.
    sessions: Arc<Mutex<Vec<Session>>>,
    done: Arc<AtomicU64>,
}

impl Cipher {
    /// Capabilities of the cipher for this suite.
    pub(crate) fn capabilities(suite: Suite) -> Capabilities {
        Capabilities { most_packet_len: MOST_PACKET_LEN, ..Capabilities::crypto(vec![suite]) }
    }

    /// Puts an SA in.
    pub(crate) fn put_sa(&self, keys: &Session) -> SaHandle {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.push(keys.clone());
        SaHandle(sessions.len() as u32 - 1)
    }

    /// A queue, whose packets this engine works on.
    pub(crate) fn queue(&self, engine: Box<dyn Engine>) -> CipherQueue {
        CipherQueue { hardware: self.clone(), engine, inside: VecDeque::with_capacity(DEPTH) }
    }

    /// Packets sealed and opened so far.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }
}

/// A queue of the hardware.
pub(crate) struct CipherQueue {
    hardware: Cipher,
    engine: Box<dyn Engine>,
    inside: VecDeque<Request<Bounce>>,
}

impl Queue<Bounce> for CipherQueue {
    fn submit(&mut self, requests: &mut Burst<Request<Bounce>>) -> usize {
        let count = requests.len().min(DEPTH - self.inside.len());
        self.inside.extend(requests.drain(..count));
        count
    }

    fn poll(&mut self, completions: &mut Burst<Completion<Bounce>>) -> usize {
        let count = completions.remaining_capacity().min(self.inside.len());
        let mut requests: Burst<Request<Bounce>> = self.inside.drain(..count).collect();
        let sessions = self.hardware.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = requests.iter_mut().map(|request| job(&sessions, request));
        let mut jobs: ArrayVec<Option<Job<'_>>, BURST_LEN> = jobs.collect();
        let mut runnable: ArrayVec<Job<'_>, BURST_LEN> =
            jobs.iter_mut().filter_map(Option::take).collect();
        // One that is no job's would be a mistake of the caller's, and is told so.
        let is_whole = runnable.len() == count;
        self.engine.run(&mut runnable);
        let statuses: ArrayVec<JobStatus, BURST_LEN> =
            runnable.iter().map(|job| job.status).collect();
        drop((runnable, jobs));
        for (at, Request { buffer, work }) in requests.into_iter().enumerate() {
            let status = match statuses.get(at).filter(|_| is_whole) {
                Some(JobStatus::Done) => Status::Done,
                Some(JobStatus::BadIcv) => Status::Dropped(DropReason::InIntegrity),
                _ => Status::Dropped(DropReason::OutCrypto),
            };
            self.hardware.done.fetch_add(u64::from(status == Status::Done), Relaxed);
            completions.push(Completion { buffer, work, status });
        }
        count
    }

    fn in_flight(&self) -> usize {
        self.inside.len()
    }

    fn depth(&self) -> usize {
        DEPTH
    }
}

/// The engine's job for a request.
fn job<'r>(sessions: &'r [Session], request: &'r mut Request<Bounce>) -> Option<Job<'r>> {
    let (op, CryptoWork { sa, esp, seq_hi }) = match request.work {
        Work::Seal(of) => (Op::Seal, of),
        Work::Open(of) => (Op::Open, of),
        Work::Outbound | Work::Inbound => return None,
    };
    let session = sessions.get(sa.0 as usize)?;
    let packet = request.buffer.packet_mut().get_mut(esp.range())?;
    Some(Job::esp(session, op, packet, seq_hi))
}

/// Packets that are inside at most.
const DEPTH: usize = 64;
/// With the outer header.
const MOST_PACKET_LEN: usize = 2048;
