//! The bare library does the same work as an engine, so that a comparison means something.

use crypto::{Bare, Engine, Job, JobStatus, Op, Provider, Suite};

use crate::common::{Random, keys, providers, suites};

/// Every provider's bare form of a suite, with an engine of the same provider and keys.
fn bare(provider: &dyn Provider, suite: Suite) -> Option<Box<dyn Bare>> {
    let bare = provider.bare(suite, &keys(suite, 1));
    // Its calls for one suite alone: AES-GCM, ChaCha20-Poly1305, and what the two bursts do.
    let has_icv_of_its_rfc = match suite.integrity() {
        Some(integrity) => {
            use crypto::Integrity::{Sha1_96, Sha256_128, Sha384_192, Sha512_256};
            matches!(integrity, Sha1_96 | Sha256_128 | Sha384_192 | Sha512_256)
        }
        None => !matches!(suite, Suite::AesCcm { .. } | Suite::AesGmac { .. }),
    };
    let is_counter = matches!(suite, Suite::Separate { cipher: crypto::Cipher::AesCtr(_), .. });
    let has = provider.name() == "ipsec-mb" && has_icv_of_its_rfc && !is_counter;
    assert_eq!(bare.is_some(), has, "{suite}");
    bare
}

fn slices(packets: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    packets.iter_mut().map(Vec::as_mut_slice).collect()
}

fn engine(
    provider: &dyn Provider,
    suite: Suite,
    op: Op,
    packets: &mut [Vec<u8>],
) -> Vec<JobStatus> {
    let session = provider.session(suite, &keys(suite, 1)).unwrap();
    let mut jobs: Vec<Job<'_>> =
        packets.iter_mut().map(|packet| Job::esp(&session, op, packet, None)).collect();
    let mut engine: Box<dyn Engine> = provider.engine().unwrap();
    engine.run(&mut jobs);
    jobs.iter().map(|job| job.status).collect()
}

#[test]
fn bare_and_engine_agree() {
    let mut random = Random(31);
    for provider in providers() {
        for suite in suites(&*provider) {
            let Some(mut bare) = bare(&*provider, suite) else { continue };
            for count in [1, 2, 16, 63, 64, 65, 130] {
                let around = 8 + suite.iv_len_bytes() + suite.icv_len_bytes();
                let plain: Vec<Vec<u8>> = (0..count)
                    .map(|_| {
                        let text_len = 16 * (1 + random.below(90));
                        random.bytes(around + text_len)
                    })
                    .collect();
                let (mut a, mut b) = (plain.clone(), plain.clone());
                assert_eq!(bare.run(Op::Seal, &mut slices(&mut a)), count, "{suite}");
                let statuses = engine(&*provider, suite, Op::Seal, &mut b);
                assert!(statuses.iter().all(|status| *status == JobStatus::Done));
                assert!(a == b, "{suite}");
                // One is forged, and only that one is not counted.
                a[count / 2][9 + suite.iv_len_bytes()] ^= 1;
                assert_eq!(bare.run(Op::Open, &mut slices(&mut a)), count - 1, "{suite}");
                for (at, (opened, plain)) in a.iter().zip(&plain).enumerate() {
                    let end = plain.len() - suite.icv_len_bytes();
                    assert_eq!(opened[..end] == plain[..end], at != count / 2, "{suite}");
                }
            }
        }
    }
}

#[test]
fn bare_leaves_alone_what_does_not_fit() {
    for provider in providers() {
        for suite in suites(&*provider) {
            let Some(mut bare) = bare(&*provider, suite) else { continue };
            let least = 8 + suite.iv_len_bytes() + suite.icv_len_bytes();
            let mut packets: Vec<Vec<u8>> = (0..=least).map(|len| vec![5; len]).collect();
            packets.push(vec![5; 70000]);
            if suite.block_bytes() > 1 {
                packets.push(vec![5; least + suite.block_bytes() - 1]);
            } else {
                // One byte of text is enough for the others.
                packets.remove(least);
            }
            let before = packets.clone();
            for op in [Op::Seal, Op::Open] {
                assert_eq!(bare.run(op, &mut slices(&mut packets)), 0, "{suite}");
                assert!(packets == before, "{suite}");
            }
            assert_eq!(bare.run(Op::Seal, &mut []), 0);
        }
    }
}
