//! Wycheproof's vectors of HMAC and AES-CMAC, as NULL-encrypted packets whose header is the message's start.

use crypto::{Integrity, JobStatus, Keys, Op, Suite};
use wycheproof::mac::{TestName, TestSet};

use crate::common::{Tally, packet, run, with};

const EMPTY: &str = "ESP authenticates at least its header";
const BEYOND: &str = "the tag is wrong only behind ESP's truncation";
const KEY: &str = "the RFC has no key of that length";

fn check_set(name: TestName, integrity: Integrity) -> Tally {
    let mut tallies: Vec<Tally> = Vec::new();
    let suite = Suite::integrity_only(integrity);
    let icv_len = suite.icv_len_bytes();
    for provider in with(|other| *other == suite) {
        let mut tally = Tally::default();
        let mut engine = provider.engine().unwrap();
        for test in TestSet::load(name).unwrap().test_groups.iter().flat_map(|group| &group.tests) {
            let label = format!("{} {name:?} {}", provider.name(), test.tc_id);
            let keys = Keys { cipher: vec![], salt: vec![], auth: test.key.to_vec() };
            if !integrity.takes_key_len(test.key.len()) {
                assert!(provider.session(suite, &keys).is_err(), "{label}");
                tally.skip(KEY);
                continue;
            }
            let session = provider.session(suite, &keys).unwrap();
            let header_len = test.msg.len().min(8);
            let mut work = packet(&[&test.msg, &vec![0; icv_len]]);
            let status = run(&mut *engine, &session, Op::Seal, &mut work, header_len, None);
            if test.msg.is_empty() {
                assert_eq!(status, JobStatus::Failed, "{label}");
                tally.skip(EMPTY);
                continue;
            }
            assert_eq!(status, JobStatus::Done, "{label}");
            let common = icv_len.min(test.tag.len());
            let same = work[test.msg.len()..][..common] == test.tag[..common];
            if test.result.must_fail() && same {
                assert!(test.tag.len() > icv_len, "{label}");
                tally.skip(BEYOND);
                continue;
            }
            assert_eq!(same, !test.result.must_fail(), "{label}");
            if common == icv_len {
                let mut work = packet(&[&test.msg, &test.tag[..icv_len]]);
                let status = run(&mut *engine, &session, Op::Open, &mut work, header_len, None);
                let want =
                    if test.result.must_fail() { JobStatus::BadIcv } else { JobStatus::Done };
                assert_eq!(status, want, "{label}");
            }
            tally.ran += 1;
        }
        tallies.push(tally);
    }
    let first = tallies.swap_remove(0);
    assert!(tallies.iter().all(|tally| *tally == first));
    first
}

#[test]
fn hmac_sha1() {
    check_set(TestName::HmacSha1, Integrity::Sha1_96).assert(105, &[(EMPTY, 58), (BEYOND, 7)]);
    check_set(TestName::HmacSha1, Integrity::Sha1_160).assert(112, &[(EMPTY, 58)]);
}

#[test]
fn hmac_sha256() {
    check_set(TestName::HmacSha256, Integrity::Sha256_96).assert(100, &[(EMPTY, 60), (BEYOND, 14)]);
    check_set(TestName::HmacSha256, Integrity::Sha256_128).assert(110, &[(EMPTY, 60), (BEYOND, 4)]);
}

#[test]
fn hmac_sha384() {
    check_set(TestName::HmacSha384, Integrity::Sha384_192).assert(110, &[(EMPTY, 60), (BEYOND, 4)]);
}

#[test]
fn hmac_sha512() {
    check_set(TestName::HmacSha512, Integrity::Sha512_256).assert(110, &[(EMPTY, 60), (BEYOND, 4)]);
}

#[test]
fn hmac_sm3() {
    check_set(TestName::HmacSm3, Integrity::Sm3_96).assert(100, &[(EMPTY, 60), (BEYOND, 14)]);
    check_set(TestName::HmacSm3, Integrity::Sm3_128).assert(110, &[(EMPTY, 60), (BEYOND, 4)]);
    check_set(TestName::HmacSm3, Integrity::Sm3_256).assert(114, &[(EMPTY, 60)]);
}

#[test]
fn aes_cmac() {
    check_set(TestName::AesCmac, Integrity::AesCmac96)
        .assert(60, &[(EMPTY, 28), (BEYOND, 14), (KEY, 209)]);
}
