//! Packets on their way during a reset and a removal.

mod common;

use common::{Bench, Software, config, keys, named, packet, tested, wait, work};
use crypto::Op;
use offload::{Attribute, Burst, Live, NewSa, PutError, Request, SaDirection, Status};
use outcome::DropReason;

#[test]
fn a_reset_puts_the_sas_in_again() {
    for driver in ["crypto_openssl", "crypto_aesni_mb", "crypto_scheduler"] {
        let mut bench = Bench::new("reset", driver);
        let suite = named("aes256gcm16");
        let [outbound, inbound] = bench.put(suite, 1);
        let plain = packet(suite, 20, 64);
        let expected = Software::new().run(suite, Op::Seal, &plain[20..], None);
        let seal = work(Op::Seal, outbound, 20, plain.len(), None);
        for resets in 1..=3 {
            // One is inside.
            let mut requests: Burst<_> =
                [Request { buffer: plain.clone(), work: seal }].into_iter().collect();
            assert_eq!(bench.queue.submit(&mut requests), 1);
            tested(&mut bench.device).reset().unwrap();
            let mut next: Burst<_> =
                [Request { buffer: plain.clone(), work: seal }].into_iter().collect();
            assert_eq!(bench.queue.submit(&mut next), 0, "those from before come back first");
            let back = wait(&mut *bench.queue, 1).pop().unwrap();
            assert_eq!(back.status, Status::Dropped(DropReason::OutCrypto), "{driver}");
            assert_eq!(back.buffer, plain, "left alone");
            assert_eq!(bench.queue.in_flight(), 0);
            let (sealed, status) = bench.run(seal, &plain);
            assert_eq!((status, &sealed[20..]), (Status::Done, &expected[..]), "{driver}");
            let open = work(Op::Open, inbound, 20, plain.len(), None);
            assert_eq!(bench.run(open, &sealed).1, Status::Done);
            assert_eq!(tested(&mut bench.device).counters().resets, resets);
        }
        assert_eq!(tested(&mut bench.device).check(), Ok(()));
    }
}

#[test]
fn a_removal_lets_nothing_out() {
    for driver in ["crypto_aesni_gcm", "crypto_aesni_mb"] {
        let mut bench = Bench::new("removal", driver);
        let suite = named("aes128gcm16");
        let [outbound, _] = bench.put(suite, 1);
        let plain = packet(suite, 20, 64);
        let seal = work(Op::Seal, outbound, 20, plain.len(), None);
        let request = || Request { buffer: plain.clone(), work: seal };
        let mut requests: Burst<_> = (0..10).map(|_| request()).collect();
        assert_eq!(bench.queue.submit(&mut requests), 10);
        tested(&mut bench.device).remove_sa(outbound).unwrap();
        for back in wait(&mut *bench.queue, 10) {
            assert_eq!(back.status, Status::Dropped(DropReason::OutCrypto), "{driver}");
            assert_eq!(back.buffer, plain, "left alone");
        }
        // The place is used again, by another handle.
        let [next, _] = bench.put(named("aes256gcm16"), 2);
        assert_ne!(next, outbound);
        assert_eq!(bench.run(seal, &plain).1, Status::Dropped(DropReason::OutCrypto));
    }
}

/// A chain was tried with the RFC's key length; a driver may have others.
#[test]
fn an_integrity_key_of_another_length_is_taken_or_refused_by_name() {
    let mut bench = Bench::new("threads", "crypto_openssl");
    let suite = named("aes128-sha256");
    for len in [1, 16, 64, 65, 128] {
        let mut keys = keys(suite);
        keys.auth = vec![7; len];
        let (config, start) = (config(suite, len as u32), Live::default());
        let new =
            NewSa { direction: SaDirection::Outbound, config: &config, keys: &keys, start: &start };
        match tested(&mut bench.device).put_sa(new) {
            Ok(_) => assert!(len <= 64, "{len}"),
            Err(error) => assert_eq!(error, PutError::Unsupported(Attribute::AuthKey(len))),
        }
    }
}
