//! The known answers: good engines pass, faulty ones are refused.

use crypto::{Engine, EngineError, Job, JobStatus, Keys, Provider, Session, Suite, self_test};
use engine_openssl::OpensslProvider;

use crate::common::all;

#[test]
fn good_engines_pass() {
    for provider in all() {
        self_test(&*provider).unwrap();
    }
}

/// OpenSSL with a fault.
struct Faulty(OpensslProvider, Fault);

#[derive(Clone, Copy)]
enum Fault {
    /// One bit of the text is wrong.
    Text,
    /// Whatever arrives is accepted.
    Accept,
}

struct FaultyEngine(Box<dyn Engine>, Fault);

impl Provider for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }
    fn description(&self) -> String {
        String::new()
    }
    fn supports(&self, suite: Suite) -> bool {
        self.0.supports(suite)
    }
    fn session(&self, suite: Suite, keys: &Keys) -> Result<Session, EngineError> {
        self.0.session(suite, keys)
    }
    fn engine(&self) -> Result<Box<dyn Engine>, EngineError> {
        Ok(Box::new(FaultyEngine(self.0.engine()?, self.1)))
    }
}

impl Engine for FaultyEngine {
    fn run(&mut self, jobs: &mut [Job<'_>]) {
        self.0.run(jobs);
        for job in jobs {
            match self.1 {
                Fault::Text => job.packet[30] ^= 1,
                Fault::Accept => job.status = JobStatus::Done,
            }
        }
    }
}

#[test]
fn a_faulty_engine_is_refused() {
    for (fault, text) in [(Fault::Text, "wrong answer"), (Fault::Accept, "not refused")] {
        let error = self_test(&Faulty(OpensslProvider::new().unwrap(), fault)).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}
