//! Vectors of RFCs and drafts, from `tests/vectors`.

use crypto::{AesKey, Hmac, IcvLen, JobStatus, Keys, Op, Provider, Suite};

use crate::common::{Case, Tally, cases, packet, providers, run};

/// Seals and opens a case that gives the whole packet.
fn check_aead(provider: &dyn Provider, suite: Suite, case: &Case) {
    let label = format!("{} {suite} case {}", provider.name(), case.text("case"));
    let keys = Keys { cipher: case.hex("key"), salt: case.hex("salt"), auth: vec![] };
    let session = provider.session(suite, &keys).unwrap();
    let mut engine = provider.engine().unwrap();
    let (header, iv, icv) = (case.hex("header"), case.hex("iv"), case.hex("icv"));
    let icv = &icv[..suite.icv_len_bytes()];
    let sealed = packet(&[&header, &iv, &case.hex("text"), icv]);
    let plain = packet(&[&header, &iv, &case.hex("plain")]);

    let mut work = plain.clone();
    work.resize(sealed.len(), 0);
    let status = run(&mut *engine, &session, Op::Seal, &mut work, 8, case.seq_hi());
    assert_eq!(status, JobStatus::Done, "{label}");
    assert_eq!(work, sealed, "{label}");

    let status = run(&mut *engine, &session, Op::Open, &mut work, 8, case.seq_hi());
    assert_eq!(status, JobStatus::Done, "{label}");
    assert_eq!(work[..plain.len()], plain, "{label}");

    if let Some(hi) = case.seq_hi() {
        for wrong in [None, Some(hi ^ 1)] {
            let mut work = sealed.clone();
            let status = run(&mut *engine, &session, Op::Open, &mut work, 8, wrong);
            assert_eq!(status, JobStatus::BadIcv, "{label}");
        }
    }
}

#[test]
fn gcm_esp_packets() {
    let file = include_str!("../vectors/draft-mcgrew-gcm-test-01.txt");
    for provider in providers() {
        let cases = cases(file);
        assert_eq!(cases.len(), 14);
        assert_eq!(cases.iter().filter(|case| case.has("seq_hi")).count(), 9);
        for case in cases {
            let key = AesKey::from_len_bytes(case.hex("key").len()).unwrap();
            // The shorter ICVs are the start of the longest (SP 800-38D §5.2.1.2).
            for icv in [IcvLen::Icv8, IcvLen::Icv12, IcvLen::Icv16] {
                check_aead(&*provider, Suite::AesGcm { key, icv }, &case);
            }
        }
    }
}

#[test]
fn chacha20_poly1305_esp_packet() {
    for provider in providers() {
        let cases = cases(include_str!("../vectors/rfc7634.txt"));
        assert_eq!(cases.len(), 1);
        check_aead(&*provider, Suite::ChaCha20Poly1305, &cases[0]);
    }
}

#[test]
fn cbc_blocks_and_esp_packets() {
    for provider in providers() {
        let cases = cases(include_str!("../vectors/rfc3602.txt"));
        assert_eq!(cases.len(), 8);
        for (case, hmac) in cases.iter().flat_map(|case| Hmac::ALL.map(|hmac| (case, hmac))) {
            let suite = Suite::AesCbcHmac { key: AesKey::Aes128, hmac };
            let label = format!("{} {suite} case {}", provider.name(), case.text("case"));
            let auth = vec![7; suite.auth_key_len_bytes()];
            let keys = Keys { cipher: case.hex("key"), salt: vec![], auth };
            let session = provider.session(suite, &keys).unwrap();
            let mut engine = provider.engine().unwrap();
            let (header, iv) = (case.hex("header"), case.hex("iv"));
            let plain = packet(&[&header, &iv, &case.hex("plain")]);
            let sealed = packet(&[&header, &iv, &case.hex("text")]);
            let mut work = packet(&[&plain, &vec![0; suite.icv_len_bytes()]]);
            let status = run(&mut *engine, &session, Op::Seal, &mut work, 8, None);
            assert_eq!(status, JobStatus::Done, "{label}");
            assert_eq!(work[..sealed.len()], sealed, "{label}");
            let status = run(&mut *engine, &session, Op::Open, &mut work, 8, None);
            assert_eq!(status, JobStatus::Done, "{label}");
            assert_eq!(work[..plain.len()], plain, "{label}");
        }
    }
}

/// Checks a file of HMAC vectors as NULL-encrypted packets whose header is the data's start.
fn hmac_file(file: &str) -> Tally {
    let mut tally = Tally::default();
    for provider in providers() {
        tally = Tally::default();
        let mut engine = provider.engine().unwrap();
        for case in cases(file) {
            let hmac = match case.text("hash") {
                "sha1" => Hmac::Sha1_96,
                "sha256" => Hmac::Sha256_128,
                "sha384" => Hmac::Sha384_192,
                "sha512" => Hmac::Sha512_256,
                other => panic!("{other}"),
            };
            let suite = Suite::NullHmac { hmac };
            let label = format!("{} {suite} case {}", provider.name(), case.text("case"));
            let keys = Keys { cipher: vec![], salt: vec![], auth: case.hex("key") };
            if keys.auth.len() > 128 {
                assert!(provider.session(suite, &keys).is_err(), "{label}");
                tally.skip("keys end at 128 bytes");
                continue;
            }
            let session = provider.session(suite, &keys).unwrap();
            let (data, tag) = (case.hex("data"), case.hex("tag"));
            let mut work = packet(&[&data, &vec![0; suite.icv_len_bytes()]]);
            let status = run(&mut *engine, &session, Op::Seal, &mut work, 8, None);
            assert_eq!(status, JobStatus::Done, "{label}");
            let common = tag.len().min(suite.icv_len_bytes());
            assert_eq!(work[data.len()..data.len() + common], tag[..common], "{label}");
            tally.ran += 1;
        }
    }
    tally
}

#[test]
fn hmac_sha1() {
    hmac_file(include_str!("../vectors/rfc2202.txt")).assert(7, &[]);
}

#[test]
fn hmac_sha2() {
    let file = include_str!("../vectors/rfc4231.txt");
    hmac_file(file).assert(15, &[("keys end at 128 bytes", 6)]);
}

#[test]
fn hmac_sha2_truncated_as_esp_does() {
    hmac_file(include_str!("../vectors/rfc4868.txt")).assert(12, &[]);
}
