//! A list of providers of which the first lacks suites: it is one engine, and does what each alone does.

use std::sync::Arc;

use crypto::{
    AesKey, Engine, EngineError, IcvLen, Job, JobStatus, Keys, Op, Provider, Providers, Session,
    Suite,
};

use crate::common::{Random, keys, pair};

/// A provider without some of its suites.
struct Only(Box<dyn Provider>, fn(Suite) -> bool);

impl Provider for Only {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn description(&self) -> String {
        self.0.description()
    }

    fn supports(&self, suite: Suite) -> bool {
        self.1(suite) && self.0.supports(suite)
    }

    fn session(&self, suite: Suite, keys: &Keys) -> Result<Session, EngineError> {
        self.0.session(suite, keys)
    }

    fn engine(&self) -> Result<Box<dyn Engine>, EngineError> {
        self.0.engine()
    }
}

/// Only AES-GCM of the fast provider, and all of OpenSSL's but ChaCha20-Poly1305.
fn providers() -> Providers {
    let [openssl, fast] = pair();
    let mut providers =
        Providers::new(Arc::new(Only(fast, |suite| matches!(suite, Suite::AesGcm { .. }))));
    providers.push(Arc::new(Only(openssl, |suite| suite != Suite::ChaCha20Poly1305)));
    providers
}

fn statuses(engine: &mut dyn Engine, jobs: &mut [Job<'_>]) -> Vec<JobStatus> {
    engine.run(jobs);
    jobs.iter().map(|job| job.status).collect()
}

#[test]
fn bursts_of_all_suites_come_out_as_from_one_provider() {
    let providers = providers();
    let [reference, _] = pair();
    let (mut engine, mut alone) = (providers.engine().unwrap(), reference.engine().unwrap());
    let served: Vec<Suite> = Suite::all().filter(|s| providers.serving(*s).is_ok()).collect();
    let known = Suite::all().filter(|suite| reference.supports(*suite)).count();
    assert_eq!(served.len(), known - 1);
    let session = |suite| {
        let keys = keys(suite, 5);
        (providers.session(suite, &keys).unwrap(), reference.session(suite, &keys).unwrap())
    };
    let sessions: Vec<_> = served.iter().map(|suite| session(*suite)).collect();
    let mut random = Random(71);
    for count in [1, 2, 7, 64, 130] {
        let order: Vec<usize> = (0..count).map(|_| random.below(sessions.len())).collect();
        let plain: Vec<Vec<u8>> = order
            .iter()
            .map(|at| {
                let suite = served[*at];
                let around = 8 + suite.iv_len_bytes() + suite.icv_len_bytes();
                let text_len = 16 * random.below(90);
                random.bytes(around + text_len)
            })
            .collect();
        let (mut ours, mut theirs) = (plain.clone(), plain.clone());
        for op in [Op::Seal, Op::Open] {
            let mut jobs: Vec<Job<'_>> = order
                .iter()
                .zip(&mut ours)
                .map(|(at, packet)| Job::esp(&sessions[*at].0, op, packet, Some(9)))
                .collect();
            let done = statuses(&mut *engine, &mut jobs);
            assert_eq!(done, vec![JobStatus::Done; count], "{op:?}");
            if op == Op::Seal {
                let mut jobs: Vec<Job<'_>> = order
                    .iter()
                    .zip(&mut theirs)
                    .map(|(at, packet)| Job::esp(&sessions[*at].1, op, packet, Some(9)))
                    .collect();
                assert_eq!(statuses(&mut *alone, &mut jobs), done);
                assert!(ours == theirs, "sealed alike");
            }
        }
        for ((at, packet), plain) in order.iter().zip(&ours).zip(&plain) {
            let end = plain.len() - served[*at].icv_len_bytes();
            assert_eq!(packet[..end], plain[..end], "{}", served[*at]);
        }
    }
}

#[test]
fn sessions_are_of_the_first_that_has_the_suite() {
    let providers = providers();
    let [openssl, fast] = pair();
    let gcm = Suite::AesGcm { key: AesKey::Aes256, icv: IcvLen::Icv12 };
    assert_eq!(providers.serving(gcm).unwrap().name(), fast.name());
    for suite in Suite::all().filter(|suite| !matches!(suite, Suite::AesGcm { .. })) {
        match providers.serving(suite) {
            Ok(provider) => assert_eq!(provider.name(), openssl.name(), "{suite}"),
            Err(error) => {
                let asked = vec![fast.name(), openssl.name()];
                assert_eq!(error, EngineError::NoProvider { suite, asked });
                assert_eq!(providers.session(suite, &keys(suite, 1)).unwrap_err(), error);
            }
        }
    }
}
