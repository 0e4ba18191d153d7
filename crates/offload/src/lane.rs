//! A device's queue as one engine has it.

use std::sync::Arc;

use crypto::{Job, JobStatus, Op};
use outcome::DropReason;
use wire::Span;

use crate::bounce::{Bounce, fill_len};
use crate::capabilities::Capabilities;
use crate::doubt::{Doubt, is_suspect};
use crate::offloaded::Offloaded;
use crate::queue::{BURST_LEN, Burst, Completion, CryptoWork, Queue, Request, Status, Work};
use crate::watch::{Trouble, Watch};

/// A device's queue as one engine has it.
pub struct Lane {
    queue: Box<dyn Queue<Bounce>>,
    capabilities: Capabilities,
    spare: Vec<Bounce>,
    requests: Burst<Request<Bounce>>,
    completions: Burst<Completion<Bounce>>,
    /// Packets that software is to check in this run.
    doubts: Burst<Doubt>,
    pub(crate) watch: Arc<Watch>,
    /// Runs since the device last gave something back in which it was late.
    late: u8,
    /// Packets taken, to check one of many.
    taken: u8,
}

impl Lane {
    /// A lane for one engine. All lanes of a device have one `watch`.
    pub fn new(
        queue: Box<dyn Queue<Bounce>>,
        capabilities: Capabilities,
        watch: Arc<Watch>,
    ) -> Lane {
        let most = capabilities.most_packet_len;
        let spare = (0..queue.depth().min(BURST_LEN)).map(|_| Bounce::with_capacity(most));
        Lane {
            spare: spare.collect(),
            queue,
            capabilities,
            requests: Burst::new(),
            completions: Burst::new(),
            doubts: Burst::new(),
            watch,
            late: 0,
            taken: 0,
        }
    }

    /// Copies a job's packet for the device; false if it does not take it.
    pub(crate) fn take(&mut self, sa: &Offloaded, job: &Job<'_>, (turn, at): (u64, usize)) -> bool {
        let len = sa.head.len() + job.packet.len();
        let is_known = job.layout().is_some() && sa.is_ok(&self.capabilities, len);
        if !is_known || self.requests.is_full() || self.watch.trouble().is_some() {
            return false;
        }
        let Some(mut bounce) = self.spare.pop() else { return false };
        (bounce.head_len, bounce.turn, bounce.at) = (sa.head.len(), turn, at);
        bounce.bytes.clear();
        bounce.bytes.extend_from_slice(&sa.head);
        bounce.bytes.extend_from_slice(job.packet);
        fill_len(&mut bounce.bytes);
        self.taken = self.taken.wrapping_add(1);
        bounce.is_checked = sa.is_unproven() || self.taken == 0;
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
    pub(crate) fn submit(&mut self) -> u64 {
        self.queue.submit(&mut self.requests);
        let mut left = 0;
        for Request { buffer, .. } in self.requests.drain(..) {
            left |= 1 << buffer.at;
            self.spare.push(buffer);
        }
        left
    }

    /// Takes back what is done: the places of jobs that came back, of those that software has to do, and of
    /// those that it has to check.
    pub(crate) fn poll(&mut self, jobs: &mut [Job<'_>], turn: u64) -> (u64, u64, u64) {
        let (mut back, mut again, mut doubtful) = (0, 0, 0);
        if self.queue.poll(&mut self.completions) > 0 {
            self.late = 0;
        }
        for Completion { buffer, status, .. } in self.completions.drain(..) {
            // Those of an earlier turn came too late.
            if buffer.turn == turn
                && let Some(job) = jobs.get_mut(buffer.at)
            {
                let bit = 1 << buffer.at;
                back |= bit;
                match settle(job, &buffer, status) {
                    Settled::Done => {}
                    Settled::NotDone => again |= bit,
                    Settled::Doubtful(claim) => {
                        doubtful |= bit;
                        self.doubts.push(Doubt { buffer, claim });
                        continue;
                    }
                }
            }
            self.spare.push(buffer);
        }
        (back, again, doubtful)
    }

    /// Takes back what came too late for an earlier run.
    pub(crate) fn collect(&mut self, turn: u64) {
        if self.queue.in_flight() > 0 {
            self.poll(&mut [], turn);
        }
    }

    /// Packets have not come back in time.
    pub(crate) fn note_late(&mut self) {
        if self.queue.in_flight() > 0 {
            self.late = self.late.saturating_add(1);
            if self.late >= MOST_LATE {
                self.watch.report(Trouble::Silent);
            }
        }
    }

    /// Compares what software has made of the jobs in doubt.
    pub(crate) fn judge(&mut self, jobs: &[Job<'_>]) {
        for doubt in self.doubts.drain(..) {
            if jobs.get(doubt.buffer.at).is_some_and(|job| !doubt.is_confirmed(job)) {
                self.watch.report(Trouble::Wrong);
            }
            self.spare.push(doubt.buffer);
        }
    }
}

/// Trust in the device's result.
enum Settled {
    /// The job is done.
    Done,
    /// The device has not worked on it.
    NotDone,
    /// Result of the device that software has to check.
    Doubtful(JobStatus),
}

/// Ends a job by what the device says, unless that is in doubt.
fn settle(job: &mut Job<'_>, buffer: &Bounce, status: Status) -> Settled {
    match (status, job.op) {
        (Status::Done, _) => {
            let esp = buffer.esp();
            if esp.len() != job.packet.len() {
                return Settled::NotDone;
            }
            if buffer.is_checked || is_suspect(job, esp) {
                return Settled::Doubtful(JobStatus::Done);
            }
            job.packet.copy_from_slice(esp);
            job.status = JobStatus::Done;
            Settled::Done
        }
        (Status::Dropped(DropReason::InIntegrity), Op::Open) => {
            Settled::Doubtful(JobStatus::BadIcv)
        }
        _ => Settled::NotDone,
    }
}

/// Runs in which a device may be late, without anything from it in between.
const MOST_LATE: u8 = 2;
