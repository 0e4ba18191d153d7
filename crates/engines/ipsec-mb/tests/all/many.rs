//! Many SAs: sessions that an engine comes back to after many others.

use crypto::{Engine, Job, JobStatus, Op, Session};

use crate::common::{Random, keys, pair, shared};

/// Sessions of each suite.
const SESSIONS: u64 = 200;

/// Packets of one run.
const RUN: usize = 150;

/// One engine's way with some packets: statuses, and what became of the bytes.
fn run(
    engine: &mut dyn Engine,
    op: Op,
    packets: &[(&Session, Vec<u8>, Option<u32>)],
) -> Vec<(JobStatus, Vec<u8>)> {
    let mut bytes: Vec<Vec<u8>> = packets.iter().map(|(_, bytes, _)| bytes.clone()).collect();
    let mut jobs: Vec<Job<'_>> = packets
        .iter()
        .zip(&mut bytes)
        .map(|((session, _, seq_hi), bytes)| Job::esp(session, op, bytes, *seq_hi))
        .collect();
    engine.run(&mut jobs);
    let statuses: Vec<JobStatus> = jobs.iter().map(|job| job.status).collect();
    statuses.into_iter().zip(bytes).collect()
}

#[test]
fn engines_agree_about_keys_that_are_seldom_used() {
    let pair = pair();
    let suites = shared(&pair);
    let [openssl, other] = pair;
    let mut random = Random(21);
    let (mut engine, mut other_engine) = (openssl.engine().unwrap(), other.engine().unwrap());
    for suite in suites {
        let made = |provider: &dyn crypto::Provider| -> Vec<Session> {
            let session = |seed| provider.session(suite, &keys(suite, seed)).unwrap();
            (0..SESSIONS).map(session).collect()
        };
        let (sessions, others) = (made(&*openssl), made(&*other));
        for round in 0..12 {
            // Each session once or twice in a run, then, in odd rounds, some again and again.
            let few = if round % 2 == 0 { sessions.len() } else { 3 };
            let mut packets = Vec::new();
            let mut theirs = Vec::new();
            for _ in 0..RUN {
                let at = random.below(few);
                let text_len = random.below(1700).next_multiple_of(16);
                let len = 8 + suite.iv_len_bytes() + text_len + suite.icv_len_bytes();
                let seq_hi = (random.below(2) == 0).then(|| random.next() as u32);
                packets.push((&sessions[at], random.bytes(len), seq_hi));
                theirs.push(&others[at]);
            }
            let sealed = run(&mut *engine, Op::Seal, &packets);
            let mut same: Vec<(&Session, Vec<u8>, Option<u32>)> = theirs
                .into_iter()
                .zip(&packets)
                .map(|(session, (_, bytes, seq_hi))| (session, bytes.clone(), *seq_hi))
                .collect();
            assert_eq!(run(&mut *other_engine, Op::Seal, &same), sealed, "{suite}");

            // What was sealed arrives, every third packet forged in one bit.
            for (at, (packet, (_, bytes))) in same.iter_mut().zip(sealed).enumerate() {
                packet.1 = bytes;
                if at % 3 == 0 {
                    let byte = random.below(packet.1.len());
                    packet.1[byte] ^= 1 << random.below(8);
                }
            }
            let opened = run(&mut *other_engine, Op::Open, &same);
            for (at, (status, bytes)) in opened.iter().enumerate() {
                if at % 3 == 0 {
                    assert_eq!(*status, JobStatus::BadIcv, "{suite}");
                    continue;
                }
                assert_eq!(*status, JobStatus::Done, "{suite}");
                let text = 8 + suite.iv_len_bytes()..bytes.len() - suite.icv_len_bytes();
                assert_eq!(bytes[text.clone()], packets[at].1[text], "{suite}");
            }
        }
    }
}
