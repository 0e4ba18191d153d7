//! Wycheproof's vectors of AES-GCM, ChaCha20-Poly1305 and AES-CCM: nonce = salt and IV, additional data =
//! header.

use crypto::{AesKey, IcvLen, JobStatus, Keys, Op, Suite};
use wycheproof::aead::{Test, TestName, TestSet};

use crate::common::{Tally, packet, run, with};

const NONCE: &str = "ESP's nonce has another length";
const TAG: &str = "ESP does not offer the tag's length";

/// Runs a set on every engine that has such suites; all of them must run and skip the same vectors.
fn check_set(
    name: TestName,
    salt_len: usize,
    suite: impl Fn(usize, usize) -> Option<Suite>,
) -> Tally {
    let mut tallies: Vec<Tally> = Vec::new();
    for provider in
        with(|other| suite(other.cipher_key_len_bytes(), other.icv_len_bytes()) == Some(*other))
    {
        let mut tally = Tally::default();
        let mut engine = provider.engine().unwrap();
        for group in TestSet::load(name).unwrap().test_groups {
            for test in &group.tests {
                let label = format!("{} {name:?} {}", provider.name(), test.tc_id);
                if test.nonce.len() != salt_len + 8 {
                    tally.skip(NONCE);
                    continue;
                }
                let Some(suite) = suite(group.key_size / 8, group.tag_size / 8) else {
                    tally.skip(TAG);
                    continue;
                };
                let (salt, _) = test.nonce.split_at(salt_len);
                let cipher = test.key.to_vec();
                let keys = Keys { cipher, salt: salt.to_vec(), auth: vec![] };
                let session = provider.session(suite, &keys).unwrap();
                check(test, salt_len, &label, |op, work| {
                    run(&mut *engine, &session, op, work, test.aad.len(), None)
                });
                tally.ran += 1;
            }
        }
        tallies.push(tally);
    }
    let first = tallies.swap_remove(0);
    assert!(tallies.iter().all(|tally| *tally == first));
    first
}

fn check(
    test: &Test,
    salt_len: usize,
    label: &str,
    mut run: impl FnMut(Op, &mut [u8]) -> JobStatus,
) {
    let iv = &test.nonce[salt_len..];
    let plain = packet(&[&test.aad, iv, &test.pt, &vec![0; test.tag.len()]]);
    let sealed = packet(&[&test.aad, iv, &test.ct, &test.tag]);
    let text = test.aad.len() + iv.len()..sealed.len() - test.tag.len();

    let mut work = sealed.clone();
    let status = run(Op::Open, &mut work);
    if test.result.must_fail() {
        assert_eq!(status, JobStatus::BadIcv, "{label}");
        let left = &work[text];
        assert!(left == &test.ct[..] || left.iter().all(|byte| *byte == 0), "{label}");
    } else {
        assert_eq!(status, JobStatus::Done, "{label}");
        assert_eq!(work[..text.end], plain[..text.end], "{label}");
    }

    let mut work = plain;
    assert_eq!(run(Op::Seal, &mut work), JobStatus::Done, "{label}");
    assert_eq!(work == sealed, !test.result.must_fail(), "{label}");
}

#[test]
fn aes_gcm() {
    let tally = check_set(TestName::AesGcm, 4, |key, tag| {
        let key = AesKey::from_len_bytes(key)?;
        Some(Suite::AesGcm { key, icv: IcvLen::from_len_bytes(tag)? })
    });
    tally.assert(197, &[(NONCE, 119)]);
}

#[test]
fn sm4_gcm() {
    let tally = check_set(TestName::Sm4Gcm, 4, |_, tag| {
        Some(Suite::Sm4Gcm { icv: IcvLen::from_len_bytes(tag)? })
    });
    tally.assert(65, &[(NONCE, 39)]);
}

#[test]
fn chacha20_poly1305() {
    let tally = check_set(TestName::ChaCha20Poly1305, 4, |_, tag| {
        (tag == 16).then_some(Suite::ChaCha20Poly1305)
    });
    tally.assert(316, &[(NONCE, 9)]);
}

#[test]
fn aes_ccm() {
    let tally = check_set(TestName::AesCcm, 3, |key, tag| {
        let key = AesKey::from_len_bytes(key)?;
        Some(Suite::AesCcm { key, icv: IcvLen::from_len_bytes(tag)? })
    });
    tally.assert(18, &[(NONCE, 534)]);
}
