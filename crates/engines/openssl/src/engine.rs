//! Runs jobs, one after the other.
//!
//! For each job:
//! 1. find the session's state and the packet's parts, else the job has failed;
//! 2. `Seal`: encrypt, then authenticate;
//! 3. `Open`: separate algorithms verify first and decrypt only what verified; combined modes decrypt and
//!    verify in one pass, and what did not verify is zeroised.

use crypto::{Engine, Job, JobStatus};
use openssl::error::ErrorStack;

use crate::mac::Tools;
use crate::state::State;

/// One worker's engine.
pub(crate) struct OpensslEngine {
    tools: Tools,
}

impl OpensslEngine {
    /// Makes every context that a job may need.
    pub(crate) fn new() -> Result<OpensslEngine, ErrorStack> {
        Ok(OpensslEngine { tools: Tools::new()? })
    }

    /// Runs them in a frame of its own, so that nothing of them is in the caller's.
    #[inline(never)]
    fn all(&mut self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            job.status = self.one(job);
        }
    }

    fn one(&mut self, job: &mut Job<'_>) -> JobStatus {
        let (session, op, seq_hi) = (job.session, job.op, job.seq_hi);
        let Some(state) = session.state::<State>() else {
            return JobStatus::Failed;
        };
        // EVP counts in C's int.
        if i32::try_from(job.packet.len()).is_err() {
            return JobStatus::Failed;
        }
        let Some(parts) = job.parts() else {
            return JobStatus::Failed;
        };
        match state {
            State::Aead(aead) => aead.run(&mut self.tools.contexts, op, parts, seq_hi),
            State::Separate(separate) => separate.run(&mut self.tools, op, parts, seq_hi),
        }
    }
}

impl Engine for OpensslEngine {
    fn run(&mut self, jobs: &mut [Job<'_>]) {
        self.all(jobs);
        self.tools.contexts.forget_keys();
        // Copies of HMAC's keyed states, which hashes take and return by value.
        mem::wipe_stack::<STACK_LEN>();
    }
}

/// Bytes of stack that a job may use, OpenSSL's own functions included.
const STACK_LEN: usize = 8 << 10;
