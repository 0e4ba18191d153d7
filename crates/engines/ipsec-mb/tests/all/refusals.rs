//! Jobs that engines must refuse, and the packet that must be left.

use crypto::{Integrity, Job, JobStatus, Keys, Op, Session, Suite};

use crate::common::{Random, all, keys, packet, pair, run, suites};

/// A sealed packet with 32 bytes of text.
fn sealed(
    engine: &mut dyn crypto::Engine,
    session: &Session,
    seq_hi: Option<u32>,
) -> (Vec<u8>, Vec<u8>) {
    let suite = session.suite();
    let mut random = Random(77);
    let len = 8 + suite.iv_len_bytes() + 32 + suite.icv_len_bytes();
    let plain = random.bytes(len);
    let mut work = plain.clone();
    assert_eq!(run(engine, session, Op::Seal, &mut work, 8, seq_hi), JobStatus::Done);
    (plain, work)
}

#[test]
fn every_flipped_bit_is_noticed_and_no_plaintext_left() {
    for provider in all() {
        let mut engine = provider.engine().unwrap();
        for suite in suites(&*provider) {
            let session = provider.session(suite, &keys(suite, 1)).unwrap();
            for seq_hi in [None, Some(0x8000_0001)] {
                let (_, good) = sealed(&mut *engine, &session, seq_hi);
                let text = 8 + suite.iv_len_bytes()..good.len() - suite.icv_len_bytes();
                let mut forged: Vec<Vec<u8>> = (0..good.len() * 8)
                    .map(|bit| {
                        let mut packet = good.clone();
                        packet[bit / 8] ^= 1 << (bit % 8);
                        packet
                    })
                    .collect();
                let received = forged.clone();
                let mut jobs: Vec<Job<'_>> = forged
                    .iter_mut()
                    .map(|packet| Job::esp(&session, Op::Open, packet, seq_hi))
                    .collect();
                engine.run(&mut jobs);
                let label = format!("{} {suite}", provider.name());
                assert!(jobs.iter().all(|job| job.status == JobStatus::BadIcv), "{label}");
                for (forged, received) in forged.iter().zip(&received) {
                    let left = &forged[text.clone()];
                    let zero = left.iter().all(|byte| *byte == 0);
                    let as_received = left == &received[text.clone()];
                    let null = !suite.is_confidential();
                    assert!(zero || as_received && !null, "{label}");
                }
                for bit in 0..32 {
                    let mut work = good.clone();
                    let wrong = seq_hi.map(|hi| hi ^ 1 << bit);
                    let status = run(&mut *engine, &session, Op::Open, &mut work, 8, wrong);
                    let want = if seq_hi.is_some() { JobStatus::BadIcv } else { JobStatus::Done };
                    assert_eq!(status, want, "{label}");
                }
            }
        }
    }
}

#[test]
fn lengths_that_do_not_fit_fail_and_touch_nothing() {
    for provider in all() {
        let mut engine = provider.engine().unwrap();
        for suite in suites(&*provider) {
            let session = provider.session(suite, &keys(suite, 2)).unwrap();
            let least = 8 + suite.iv_len_bytes() + suite.icv_len_bytes();
            for len in 0..least + 40 {
                for op in [Op::Seal, Op::Open] {
                    let before = Random(len as u64).bytes(len);
                    let mut work = before.clone();
                    let job = Job::esp(&session, op, &mut work, Some(1));
                    let fits = job.layout().is_some();
                    let status = run(&mut *engine, &session, op, &mut work, 8, Some(1));
                    let label = format!("{} {suite} {op:?} {len}", provider.name());
                    let want = match op {
                        _ if !fits => JobStatus::Failed,
                        Op::Seal => JobStatus::Done,
                        Op::Open => JobStatus::BadIcv,
                    };
                    assert_eq!(status, want, "{label}");
                    if !fits {
                        assert_eq!(work, before, "{label}");
                    }
                }
            }
            for header_len in [usize::MAX, usize::MAX / 2, 1000] {
                let mut work = vec![3; 100];
                let status = run(&mut *engine, &session, Op::Seal, &mut work, header_len, None);
                assert_eq!(status, JobStatus::Failed, "{suite}");
            }
        }
    }
}

#[test]
fn a_session_of_another_engine_fails_and_touches_nothing() {
    let [a, b] = pair();
    if a.name() == b.name() {
        return; // One engine only: its sessions are not foreign to itself.
    }
    for (mine, other) in [(&a, &b), (&b, &a)] {
        let mut engine = mine.engine().unwrap();
        for suite in suites(&**other) {
            let session = other.session(suite, &keys(suite, 3)).unwrap();
            for op in [Op::Seal, Op::Open] {
                let mut work = vec![1; 128 + 8 + suite.iv_len_bytes() + suite.icv_len_bytes()];
                let before = work.clone();
                let status = run(&mut *engine, &session, op, &mut work, 8, None);
                assert_eq!(status, JobStatus::Failed, "{} {suite}", mine.name());
                assert_eq!(work, before, "{} {suite}", mine.name());
            }
        }
    }
}

/// Keys that look like the engine's own, from a maker that is not: they must not be read, however
/// many or few lines they have.
#[test]
fn keys_of_another_maker_fail_and_touch_nothing() {
    let other = crypto::Maker::new().unwrap();
    for provider in all() {
        let mut engine = provider.engine().unwrap();
        for suite in suites(&*provider) {
            let good = provider.session(suite, &keys(suite, 3)).unwrap();
            for len in [1, 4096] {
                let block = crypto::KeyBlock::new(len);
                let forged = crypto::Session::with_keys(suite, other, block);
                for op in [Op::Seal, Op::Open] {
                    let around = 8 + suite.iv_len_bytes() + suite.icv_len_bytes();
                    let before: [Vec<u8>; 3] = [1, 2, 3].map(|byte| vec![byte; 64 + around]);
                    let mut work = before.clone();
                    let mut jobs: Vec<Job<'_>> = [&good, &forged, &good]
                        .into_iter()
                        .zip(&mut work)
                        .map(|(session, packet)| Job::esp(session, op, packet, None))
                        .collect();
                    engine.run(&mut jobs);
                    let statuses: Vec<_> = jobs.iter().map(|job| job.status).collect();
                    let fine = if op == Op::Seal { JobStatus::Done } else { JobStatus::BadIcv };
                    let label = format!("{} {suite} {op:?}", provider.name());
                    assert_eq!(statuses, [fine, JobStatus::Failed, fine], "{label}");
                    assert_eq!(work[1], before[1], "{label}");
                }
            }
        }
    }
}

/// A bad packet anywhere in a long run costs nobody else anything, whatever is around it.
#[test]
fn bad_packets_at_every_place_of_a_run() {
    const LEN: usize = 70;
    let patterns: Vec<Box<dyn Fn(usize) -> bool>> = vec![
        Box::new(|_| false),
        Box::new(|_| true),
        Box::new(|at| at == 0),
        Box::new(|at| at == LEN - 1),
        Box::new(|at| at == 63),
        Box::new(|at| at % 2 == 0),
        Box::new(|at| at % 7 < 3),
        Box::new(|at| at != 31),
    ];
    for provider in all() {
        let mut engine = provider.engine().unwrap();
        for suite in suites(&*provider) {
            let session = provider.session(suite, &keys(suite, 5)).unwrap();
            let (plain, sealed) = sealed(&mut *engine, &session, None);
            let text = 8 + suite.iv_len_bytes()..plain.len() - suite.icv_len_bytes();
            for (number, bad) in patterns.iter().enumerate() {
                // A forged text, a packet that is cut short, and an empty one take turns.
                let mut work: Vec<Vec<u8>> = (0..LEN)
                    .map(|at| {
                        let mut packet = sealed.clone();
                        match (bad(at), at % 3) {
                            (false, _) => {}
                            (true, 0) => packet[text.start] ^= 0x80,
                            (true, 1) => packet.truncate(text.start),
                            (true, _) => packet.clear(),
                        }
                        packet
                    })
                    .collect();
                let received = work.clone();
                let mut jobs: Vec<Job<'_>> = work
                    .iter_mut()
                    .map(|packet| Job::esp(&session, Op::Open, packet, None))
                    .collect();
                engine.run(&mut jobs);
                let statuses: Vec<_> = jobs.iter().map(|job| job.status).collect();
                for (at, status) in statuses.into_iter().enumerate() {
                    let label = format!("{} {suite} {number} {at}", provider.name());
                    let want = match (bad(at), at % 3) {
                        (false, _) => JobStatus::Done,
                        (true, 0) => JobStatus::BadIcv,
                        (true, _) => JobStatus::Failed,
                    };
                    assert_eq!(status, want, "{label}");
                    match want {
                        JobStatus::Done => {
                            assert_eq!(work[at][..text.end], plain[..text.end], "{label}");
                        }
                        JobStatus::Failed => assert_eq!(work[at], received[at], "{label}"),
                        _ => assert_ne!(work[at][text.clone()], plain[text.clone()], "{label}"),
                    }
                }
            }
        }
    }
}

#[test]
fn no_jobs_are_no_trouble() {
    for provider in all() {
        provider.engine().unwrap().run(&mut []);
    }
}

/// IP's longest packets pass; what is longer may be refused by an engine, but never half done.
#[test]
fn the_longest_packets() {
    // The slowest has the same code about it as the others.
    for provider in all().into_iter().filter(|provider| provider.description() != "portable") {
        let mut engine = provider.engine().unwrap();
        for suite in suites(&*provider) {
            let session = provider.session(suite, &keys(suite, 4)).unwrap();
            let around = 8 + suite.iv_len_bytes() + suite.icv_len_bytes();
            for (most, must) in [(65515, true), (65530, true), (70000, false)] {
                let text_len = (most - around) / 16 * 16;
                let plain = Random(5).bytes(around + text_len);
                let mut work = plain.clone();
                let label = format!("{} {suite} {}", provider.name(), plain.len());
                let status = run(&mut *engine, &session, Op::Seal, &mut work, 8, Some(6));
                if status == JobStatus::Failed && !must {
                    assert_eq!(work, plain, "{label}");
                    continue;
                }
                assert_eq!(status, JobStatus::Done, "{label}");
                let status = run(&mut *engine, &session, Op::Open, &mut work, 8, Some(6));
                assert_eq!(status, JobStatus::Done, "{label}");
                let end = plain.len() - suite.icv_len_bytes();
                assert_eq!(work[..end], plain[..end], "{label}");
            }
        }
    }
}

#[test]
fn integrity_keys_of_every_length() {
    let pair = pair();
    for suite in Integrity::ALL.map(Suite::integrity_only) {
        let integrity = suite.integrity().unwrap();
        // Where one of them does not have it, the other is held against itself.
        let pair = [0, 1].map(|i| if pair[i].supports(suite) { &pair[i] } else { &pair[0] });
        let mut engines = pair.map(|provider| provider.engine().unwrap());
        let mut seen = std::collections::HashSet::new();
        for len in (1..=128).filter(|len| integrity.takes_key_len(*len)) {
            let auth = Random(len as u64).bytes(len);
            let tags: Vec<Vec<u8>> = [0, 1]
                .map(|i| {
                    let keys = Keys { cipher: vec![], salt: vec![], auth: auth.clone() };
                    let session = pair[i].session(suite, &keys).unwrap();
                    let mut work = packet(&[&[8; 100], &vec![0; suite.icv_len_bytes()]]);
                    let status = run(&mut *engines[i], &session, Op::Seal, &mut work, 8, None);
                    assert_eq!(status, JobStatus::Done);
                    work.split_off(100)
                })
                .to_vec();
            assert_eq!(tags[0], tags[1], "{suite} key of {len} bytes");
            assert!(seen.insert(tags[0].clone()), "each key has its own tag");
        }
        for len in (0..150).filter(|len| !integrity.takes_key_len(*len)) {
            let keys = Keys { cipher: vec![], salt: vec![], auth: vec![1; len] };
            assert!(pair.iter().all(|provider| provider.session(suite, &keys).is_err()));
        }
    }
}
