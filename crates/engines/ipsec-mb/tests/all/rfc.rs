//! Vectors of RFCs and drafts, from `tests/vectors`.

use crypto::{AesKey, Cipher, IcvLen, Integrity, JobStatus, Keys, Op, Provider, Suite};

use crate::common::{Case, Tally, all, cases, packet, providers, run, with};

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

/// Seals and opens a case that gives a cipher's key, IV and text, with every integrity algorithm that the provider
/// has beside it.
fn check_cipher(provider: &dyn Provider, cipher: Cipher, case: &Case) {
    let suites = Integrity::ALL.map(|integrity| Suite::Separate { cipher, integrity });
    for suite in suites.into_iter().filter(|suite| provider.supports(*suite)) {
        let label = format!("{} {suite} case {}", provider.name(), case.text("case"));
        let auth = vec![7; suite.auth_key_len_bytes()];
        let salt = if case.has("nonce") { case.hex("nonce") } else { vec![] };
        let keys = Keys { cipher: case.hex("key"), salt, auth };
        let session = provider.session(suite, &keys).unwrap();
        let mut engine = provider.engine().unwrap();
        let header = if case.has("header") { case.hex("header") } else { vec![0; 8] };
        let iv = case.hex("iv");
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

#[test]
fn cbc_blocks_and_esp_packets() {
    for provider in providers() {
        let cases = cases(include_str!("../vectors/rfc3602.txt"));
        assert_eq!(cases.len(), 8);
        for case in cases {
            check_cipher(&*provider, Cipher::AesCbc(AesKey::Aes128), &case);
        }
    }
}

#[test]
fn ctr_texts() {
    for provider in providers() {
        let cases = cases(include_str!("../vectors/rfc3686.txt"));
        assert_eq!(cases.len(), 9);
        for case in cases {
            let key = AesKey::from_len_bytes(case.hex("key").len()).unwrap();
            check_cipher(&*provider, Cipher::AesCtr(key), &case);
        }
    }
}

#[test]
fn other_block_ciphers() {
    for provider in all() {
        let cases = cases(include_str!("../vectors/block-ciphers.txt"));
        assert_eq!(cases.len(), 8);
        for case in cases {
            let cipher = Cipher::all().find(|cipher| cipher.to_string() == case.text("cipher"));
            check_cipher(&*provider, cipher.unwrap(), &case);
        }
    }
}

/// AES-GMAC's ICV is that of AES-GCM over header, IV and text as additional data, and no text (RFC 4543 §2).
#[test]
fn gmac_is_gcm_without_a_text() {
    let gcms = providers();
    for provider in with(|suite| matches!(suite, Suite::AesGmac { .. })) {
        for (gcm, key) in gcms.iter().flat_map(|gcm| AesKey::ALL.map(|key| (gcm, key))) {
            let keys =
                Keys { cipher: vec![3; key.len_bytes()], salt: vec![1, 2, 3, 4], auth: vec![] };
            let gmac = provider.session(Suite::AesGmac { key }, &keys).unwrap();
            let icv = IcvLen::Icv16;
            let session = gcm.session(Suite::AesGcm { key, icv }, &keys).unwrap();
            let (mut engine, mut gcm) = (provider.engine().unwrap(), gcm.engine().unwrap());
            for text_len in (0..80).chain([1000]) {
                let iv = [9; 8];
                let covered = packet(&[&[1; 8], &iv, &vec![0x5a; text_len]]);
                let mut work = packet(&[&covered, &[0; 16]]);
                let status = run(&mut *engine, &gmac, Op::Seal, &mut work, 8, None);
                assert_eq!(status, JobStatus::Done);
                assert_eq!(work[..covered.len()], covered, "nothing is encrypted");
                let mut reference = packet(&[&covered, &iv, &[0; 16]]);
                let header_len = covered.len();
                let status = run(&mut *gcm, &session, Op::Seal, &mut reference, header_len, None);
                assert_eq!(status, JobStatus::Done);
                assert_eq!(work[covered.len()..], reference[covered.len() + 8..], "{text_len}");
            }
        }
    }
}

/// Checks a file of vectors of integrity algorithms as NULL-encrypted packets whose header is the data's start.
fn integrity_file(file: &str) -> Tally {
    let mut tally = Tally::default();
    for provider in providers() {
        let mut own = Tally::default();
        let mut engine = provider.engine().unwrap();
        for case in cases(file) {
            let name = case.text("hash");
            let all = Integrity::ALL.into_iter();
            for integrity in
                all.filter(|integrity| integrity.name().split('_').next() == Some(name))
            {
                let suite = Suite::integrity_only(integrity);
                if !provider.supports(suite) {
                    assert_eq!(provider.name(), "ipsec-mb");
                    continue;
                }
                let label = format!("{} {suite} case {}", provider.name(), case.text("case"));
                let keys = Keys { cipher: vec![], salt: vec![], auth: case.hex("key") };
                if keys.auth.len() > 128 {
                    assert!(provider.session(suite, &keys).is_err(), "{label}");
                    own.skip("keys end at 128 bytes");
                    continue;
                }
                let session = provider.session(suite, &keys).unwrap();
                let (data, tag) = (case.hex("data"), case.hex("tag"));
                let mut work = packet(&[&data, &vec![0; suite.icv_len_bytes()]]);
                let header_len = data.len().min(8);
                let status = run(&mut *engine, &session, Op::Seal, &mut work, header_len, None);
                assert_eq!(status, JobStatus::Done, "{label}");
                let common = tag.len().min(suite.icv_len_bytes());
                assert_eq!(work[data.len()..data.len() + common], tag[..common], "{label}");
                own.ran += 1;
            }
        }
        if provider.name() == "openssl" {
            tally = own;
        }
    }
    tally
}

#[test]
fn hmac_md5() {
    integrity_file(include_str!("../vectors/rfc2202-md5.txt")).assert(2 * 7, &[]);
}

#[test]
fn hmac_sha1() {
    integrity_file(include_str!("../vectors/rfc2202.txt")).assert(2 * 7, &[]);
}

#[test]
fn hmac_sha2() {
    let file = include_str!("../vectors/rfc4231.txt");
    // SHA-256 has two truncations.
    integrity_file(file).assert(15 + 5, &[("keys end at 128 bytes", 6 + 2)]);
}

#[test]
fn hmac_sha2_truncated_as_esp_does() {
    integrity_file(include_str!("../vectors/rfc4868.txt")).assert(12 + 4, &[]);
}

#[test]
fn aes_xcbc() {
    integrity_file(include_str!("../vectors/rfc3566.txt")).assert(6, &[]);
}

#[test]
fn aes_cmac() {
    integrity_file(include_str!("../vectors/rfc4494.txt")).assert(3, &[]);
}
