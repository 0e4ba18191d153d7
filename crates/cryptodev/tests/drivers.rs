//! DPDK's drivers that are software: against the contract of offload devices, and against the software engine byte for
//! byte.

mod common;

use std::thread;

use common::{Bench, DRIVERS, Software, named, open, packet, put, run, tested, try_open, work};
use crypto::{Op, Suite};
use cryptodev::OpenError;
use offload::{Device, PutError, Status};
use outcome::DropReason;

fn suites(device: &cryptodev::CryptoDevice) -> Vec<Suite> {
    Device::<Vec<u8>>::capabilities(device).suites.clone()
}

#[test]
fn every_driver_keeps_the_contract() {
    for driver in DRIVERS {
        let mut device = open("contract", driver);
        println!(
            "{driver}: {} suites, not as named: {:?}",
            suites(&device).len(),
            device.unproven()
        );
        offload::contract::check(&mut device);
    }
}

/// The suites of DPDK 22.11's drivers. Later ones may have more.
#[test]
fn drivers_have_the_suites_that_are_asked_for() {
    let rows: &[(&str, &[&str])] = &[
        (
            "crypto_openssl",
            &[
                "aes128gcm16",
                "aes256gcm16",
                "aes128gmac",
                "aes128-sha1",
                "aes256-sha256",
                "aes128ctr-sha512",
            ],
        ),
        (
            "crypto_aesni_mb",
            &[
                "aes128gcm16",
                "aes256gcm16",
                "chacha20poly1305",
                "aes128-sha256",
                "aes128-aesxcbc",
                "null-sha1",
            ],
        ),
        ("crypto_aesni_gcm", &["aes128gcm16", "aes192gcm16", "aes256gcm16"]),
        ("crypto_chacha20_poly1305", &["chacha20poly1305"]),
        ("crypto_scheduler", &["aes128gcm16", "aes256-sha256"]),
    ];
    for (driver, expected) in rows {
        let found = suites(&open("pairs", driver));
        for name in *expected {
            assert!(found.contains(&named(name)), "{driver}: {name}");
        }
        assert!(!found.iter().any(|suite| suite.to_string().contains("camellia")));
    }
}

#[test]
fn packets_are_those_of_software() {
    let mut software = Software::new();
    for driver in DRIVERS {
        let mut bench = Bench::new("packets", driver);
        for (n, suite) in suites(&bench.device).into_iter().enumerate() {
            let [outbound, inbound] = bench.put(suite, n as u32 + 1);
            // CBC takes whole blocks.
            for text in [16, 48, 64, 1408, 9008] {
                for seq_hi in [None, Some(0x0102_0304)] {
                    let plain = packet(suite, 20, text);
                    let len = plain.len();
                    let expected = software.run(suite, Op::Seal, &plain[20..], seq_hi);
                    let (sealed, status) =
                        bench.run(work(Op::Seal, outbound, 20, len, seq_hi), &plain);
                    assert_eq!(status, Status::Done, "{driver} {suite} {text}");
                    assert_eq!(sealed[..20], plain[..20]);
                    assert_eq!(sealed[20..], expected, "{driver} {suite} {text} {seq_hi:?}");
                    let open = work(Op::Open, inbound, 20, len, seq_hi);
                    let (opened, status) = bench.run(open, &sealed);
                    assert_eq!(status, Status::Done, "{driver} {suite} {text}");
                    let icv = len - suite.icv_len_bytes();
                    assert_eq!(opened[..icv], plain[..icv], "{driver} {suite} {text}");
                    // A bit of the text, of the header, and of the ICV.
                    for place in [icv - 1, 20, len - 1] {
                        let mut forged = sealed.clone();
                        forged[place] ^= 1;
                        let (left, status) = bench.run(open, &forged);
                        let wrong = Status::Dropped(DropReason::InIntegrity);
                        assert_eq!(status, wrong, "{driver} {suite} {text}");
                        assert_eq!(left, forged, "no plaintext");
                    }
                }
            }
            for sa in [outbound, inbound] {
                tested(&mut bench.device).remove_sa(sa).unwrap();
            }
        }
        let counters = tested(&mut bench.device).counters();
        assert_eq!((counters.sealed, counters.refused), (counters.opened, 0), "{driver}");
        assert_eq!(counters.wrong_icv, 3 * counters.opened, "{driver}");
    }
}

/// Crypto threads share the SA of one flow.
#[test]
fn threads_share_an_sa() {
    for driver in ["crypto_openssl", "crypto_aesni_mb"] {
        let mut device = open("threads", driver);
        for (n, name) in ["aes128gcm16", "aes256-sha256"].into_iter().enumerate() {
            let suite = named(name);
            let [outbound, inbound] = put(&mut device, suite, n as u32 + 1);
            let queues: Vec<_> = (0..4).map(|_| tested(&mut device).queue().unwrap()).collect();
            thread::scope(|scope| {
                for (n, mut queue) in queues.into_iter().enumerate() {
                    scope.spawn(move || {
                        let mut software = Software::new();
                        let mut plain = packet(suite, 20, 96);
                        plain[24..28].copy_from_slice(&(n as u32).to_be_bytes());
                        let expected = software.run(suite, Op::Seal, &plain[20..], None);
                        let len = plain.len();
                        for _ in 0..2000 {
                            let seal = work(Op::Seal, outbound, 20, len, None);
                            let (sealed, status) = run(&mut *queue, seal, &plain);
                            assert_eq!(
                                (status, &sealed[20..]),
                                (Status::Done, &expected[..]),
                                "{driver}"
                            );
                            let open = work(Op::Open, inbound, 20, len, None);
                            assert_eq!(run(&mut *queue, open, &sealed).1, Status::Done, "{driver}");
                        }
                    });
                }
            });
        }
    }
}

#[test]
fn a_driver_without_a_suite_of_esp_is_no_device() {
    let none = try_open("contract", "crypto_null").unwrap_err();
    assert_eq!(none, OpenError::NoSuite("crypto_null".into()));
    let none = try_open("contract", "crypto_absent").unwrap_err();
    assert_eq!(none, OpenError::NotThere("crypto_absent_contract".into()));
    // Each device has one owner.
    let _device = open("removal", "crypto_openssl");
    assert!(matches!(try_open("removal", "crypto_openssl"), Err(OpenError::NotThere(_))));
}

#[test]
fn queue_pairs_are_given_away_once_and_come_back() {
    let mut device = open("reset", "crypto_aesni_gcm");
    let device = tested(&mut device);
    let most = device.tables()[2].most;
    let mut queues: Vec<_> = (0..most).map(|_| device.queue().unwrap()).collect();
    let full = device.queue().err().unwrap();
    assert_eq!(full, PutError::Full { what: "queue pairs", most });
    drop(queues.pop());
    assert_eq!(device.tables()[2].used, most - 1);
    queues.push(device.queue().unwrap());
}
