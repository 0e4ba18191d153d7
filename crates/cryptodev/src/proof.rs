//! Known answers: a device is asked for each suite that its driver names, before an SA's packets are.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crypto::{Engine, EngineError, Job, JobStatus, Keys, Op, Provider, Session, Suite, self_test};
use offload::{Burst, CryptoWork, Queue, Request, SaHandle, Status, Work};
use outcome::DropReason;
use wire::Span;

use crate::queue::CryptoQueue;
use crate::sa::Entry;
use crate::shared::Shared;

/// True if the device gives the known answers of a suite.
pub fn holds(shared: &Arc<Shared>, suite: Suite) -> bool {
    let last = Mutex::new(SaHandle(0));
    self_test(&Tried { shared: Arc::clone(shared), suite, last }).is_ok()
}

/// The device as an engine of one suite.
struct Tried {
    shared: Arc<Shared>,
    suite: Suite,
    last: Mutex<SaHandle>,
}

/// An SA of both directions in the device, while the session lives.
struct Both {
    shared: Arc<Shared>,
    seal: SaHandle,
    open: SaHandle,
}

impl Drop for Both {
    fn drop(&mut self) {
        for sa in [self.seal, self.open] {
            drop(self.shared.table.take(sa));
        }
    }
}

impl Tried {
    fn put(&self, op: Op, keys: &Keys) -> Option<SaHandle> {
        let shared = &self.shared;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = shared.table.next_handle(*last)?;
        shared.table.put(Entry::new(&shared.adapter, handle, self.suite, op, keys)?);
        *last = handle;
        Some(handle)
    }

    fn unsupported(&self) -> EngineError {
        EngineError::Unsupported { engine: self.name(), suite: self.suite }
    }
}

impl Provider for Tried {
    fn name(&self) -> &'static str {
        "cryptodev"
    }

    fn description(&self) -> String {
        self.shared.adapter.driver().to_owned()
    }

    fn supports(&self, suite: Suite) -> bool {
        suite == self.suite
    }

    fn session(&self, suite: Suite, keys: &Keys) -> Result<Session, EngineError> {
        let seal = self.put(Op::Seal, keys).ok_or_else(|| self.unsupported())?;
        let mut both = Both { shared: Arc::clone(&self.shared), seal, open: seal };
        both.open = self.put(Op::Open, keys).ok_or_else(|| self.unsupported())?;
        Ok(Session::new(suite, Box::new(both)))
    }

    fn engine(&self) -> Result<Box<dyn Engine>, EngineError> {
        let queue = CryptoQueue::new(&self.shared).ok_or_else(|| self.unsupported())?;
        Ok(Box::new(Tries { queue }))
    }
}

/// One packet after the other.
struct Tries {
    queue: CryptoQueue<Vec<u8>>,
}

impl Engine for Tries {
    fn run(&mut self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            let session = job.session;
            let sa = session.state::<Both>().map(|both| match job.op {
                Op::Seal => both.seal,
                Op::Open => both.open,
            });
            job.status = sa.and_then(|sa| self.run_one(sa, job)).unwrap_or(JobStatus::Failed);
        }
    }
}

impl Tries {
    fn run_one(&mut self, sa: SaHandle, job: &mut Job<'_>) -> Option<JobStatus> {
        let esp = Span { start: 0, len: job.packet.len() };
        let of = CryptoWork { sa, esp, seq_hi: job.seq_hi };
        let work = match job.op {
            Op::Seal => Work::Seal(of),
            Op::Open => Work::Open(of),
        };
        let mut requests: Burst<_> =
            [Request { buffer: job.packet.to_vec(), work }].into_iter().collect();
        let mut completions = Burst::new();
        let until = Instant::now() + PATIENCE;
        while completions.is_empty() && Instant::now() < until {
            self.queue.submit(&mut requests);
            self.queue.poll(&mut completions);
        }
        let done = completions.pop()?;
        job.packet.copy_from_slice(&done.buffer);
        Some(match done.status {
            Status::Done => JobStatus::Done,
            Status::Dropped(DropReason::InIntegrity) => JobStatus::BadIcv,
            _ => JobStatus::Failed,
        })
    }
}

/// For one packet: any device is done by then.
const PATIENCE: Duration = Duration::from_secs(1);
