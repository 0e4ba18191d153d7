//! Sizes around the widths of lanes and bursts, and sessions shared by threads.

use crypto::{Job, JobStatus, Op};

use crate::common::{Random, all, keys, pair, shared, suites};
use crate::differential::{Bench, Spec, What};

const SIZES: [usize; 15] = [1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129];

fn spec(random: &mut Random, suite: usize) -> Spec {
    Spec {
        suite,
        session: random.below(3),
        text_len: random.below(300),
        seq_hi: (random.below(2) == 0).then(|| random.next() as u32),
        what: match random.below(8) {
            0..3 => What::Seal,
            3..6 => What::Open,
            6 => What::Forged(random.next()),
            _ => What::Short,
        },
        seed: random.next(),
    }
}

#[test]
fn one_suite_at_every_size() {
    let (mut bench, mut random) = (Bench::new(), Random(11));
    for suite in 0..shared(&pair()).len() {
        for size in SIZES {
            let specs: Vec<Spec> = (0..size).map(|_| spec(&mut random, suite)).collect();
            bench.check(&specs);
        }
    }
}

#[test]
fn all_suites_mixed_at_every_size() {
    let (mut bench, mut random) = (Bench::new(), Random(12));
    for size in SIZES.into_iter().chain([255, 256, 257, 400]) {
        let suites = shared(&pair()).len();
        let specs: Vec<Spec> = (0..size)
            .map(|_| {
                let suite = random.below(suites);
                spec(&mut random, suite)
            })
            .collect();
        bench.check(&specs);
    }
}

#[test]
fn every_text_length_from_nothing() {
    let (mut bench, mut random) = (Bench::new(), Random(13));
    for suite in 0..shared(&pair()).len() {
        for what in [What::Seal, What::Open, What::Forged(random.next())] {
            let specs: Vec<Spec> = (0..300)
                .map(|text_len| Spec { text_len, what, ..spec(&mut random, suite) })
                .collect();
            bench.check(&specs);
        }
    }
}

#[test]
fn threads_share_sessions() {
    for provider in all() {
        let sessions: Vec<_> = suites(&*provider)
            .map(|suite| provider.session(suite, &keys(suite, 9)).unwrap())
            .collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let mut engine = provider.engine().unwrap();
                let sessions = &sessions;
                scope.spawn(move || {
                    let mut random = Random(thread);
                    for _ in 0..50 {
                        let plain: Vec<Vec<u8>> = sessions
                            .iter()
                            .map(|session| {
                                let suite = session.suite();
                                let around = 8 + suite.iv_len_bytes() + suite.icv_len_bytes();
                                random.bytes(around + 160)
                            })
                            .collect();
                        let mut work = plain.clone();
                        for op in [Op::Seal, Op::Open] {
                            let mut jobs: Vec<Job<'_>> = sessions
                                .iter()
                                .zip(&mut work)
                                .map(|(session, packet)| Job::esp(session, op, packet, Some(3)))
                                .collect();
                            engine.run(&mut jobs);
                            assert!(jobs.iter().all(|job| job.status == JobStatus::Done));
                        }
                        for (session, (work, plain)) in sessions.iter().zip(work.iter().zip(&plain))
                        {
                            let end = plain.len() - session.suite().icv_len_bytes();
                            assert_eq!(work[..end], plain[..end], "{}", session.suite());
                        }
                    }
                });
            }
        });
    }
}
