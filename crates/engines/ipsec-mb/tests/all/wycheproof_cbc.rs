//! Wycheproof's AES-CBC-PKCS5 and CAMELLIA-CBC-PKCS5 vectors, through CBC with HMAC; the padding is done here, since
//! ESP has its own.

use crypto::{AesKey, Cipher, Integrity, JobStatus, Keys, Op, Suite};
use wycheproof::cipher::{TestName, TestSet};

use crate::common::{Tally, packet, run, with};

const HMAC: Integrity = Integrity::Sha256_128;

fn pad(text: &[u8]) -> Vec<u8> {
    let pad = 16 - text.len() % 16;
    packet(&[text, &vec![pad as u8; pad]])
}

fn unpad(text: &[u8]) -> Option<&[u8]> {
    let pad = usize::from(*text.last()?);
    let (text, padding) = text.split_at(text.len().checked_sub(pad)?);
    let good = (1..=16).contains(&pad) && padding.iter().all(|byte| usize::from(*byte) == pad);
    good.then_some(text)
}

fn check_set(name: TestName, of: fn(AesKey) -> Cipher) -> Tally {
    let suite = |key| Suite::Separate { cipher: of(key), integrity: HMAC };
    let mut tally = Tally::default();
    let has = |other: &Suite| AesKey::ALL.into_iter().any(|key| suite(key) == *other);
    for provider in with(has) {
        tally = Tally::default();
        let mut engine = provider.engine().unwrap();
        for group in TestSet::load(name).unwrap().test_groups {
            let key = AesKey::from_len_bytes(group.key_size / 8).unwrap();
            let suite = suite(key);
            for test in &group.tests {
                let label = format!("{} {}", provider.name(), test.tc_id);
                let keys = Keys { cipher: test.key.to_vec(), salt: vec![], auth: vec![5; 32] };
                let session = provider.session(suite, &keys).unwrap();
                let header = [9; 8];

                let mut work = packet(&[&header, &test.nonce, &pad(&test.pt), &[0; 16]]);
                let status = run(&mut *engine, &session, Op::Seal, &mut work, 8, None);
                assert_eq!(status, JobStatus::Done, "{label}");
                let text = &work[24..work.len() - 16];
                assert_eq!(text == &test.ct[..], !test.result.must_fail(), "{label}");

                // The vector's own ciphertext, authenticated by the same HMAC key under NULL.
                let keys = Keys { cipher: vec![], salt: vec![], auth: vec![5; 32] };
                let null = provider.session(Suite::integrity_only(HMAC), &keys).unwrap();
                let mut work = packet(&[&header, &test.nonce, &test.ct, &[0; 16]]);
                let status = run(&mut *engine, &null, Op::Seal, &mut work, 8, None);
                assert_eq!(status, JobStatus::Done, "{label}");
                let status = run(&mut *engine, &session, Op::Open, &mut work, 8, None);
                if test.ct.len() % 16 == 0 {
                    assert_eq!(status, JobStatus::Done, "{label}");
                    let text = unpad(&work[24..work.len() - 16]);
                    let want = (!test.result.must_fail()).then_some(&test.pt[..]);
                    assert_eq!(text, want, "{label}");
                } else {
                    assert_eq!(status, JobStatus::Failed, "{label}");
                    assert!(test.result.must_fail(), "{label}");
                }
                tally.ran += 1;
            }
        }
    }
    tally
}

#[test]
fn aes_cbc_pkcs5() {
    check_set(TestName::AesCbcPkcs5, Cipher::AesCbc).assert(216, &[]);
}

#[test]
fn camellia_cbc_pkcs5() {
    check_set(TestName::CamelliaCbcPkcs5, Cipher::CamelliaCbc).assert(216, &[]);
}
