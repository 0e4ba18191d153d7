//! The process dies at any moment: no number is used twice, no packet is accepted twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::common::{Bench, GCM, all_suites, inner, keys, number, params, sa_with};
use crypto::Suite;
use esp::{IvSource, LiveNumbers, Sa, SaParams};
use mem::StableWords;
use outcome::DropReason;
use wire::{Span, parse_ip};

/// Memory that outlives an [`Sa`], as a mapped file outlives a process.
fn memory(window: u32) -> Arc<dyn StableWords> {
    let live: Box<[AtomicU64]> =
        (0..LiveNumbers::needed(window)).map(|_| AtomicU64::new(0)).collect();
    Arc::new(live)
}

fn life(p: &SaParams, memory: &Arc<dyn StableWords>) -> Sa {
    let live = LiveNumbers::in_memory(memory.clone(), p.replay_window).unwrap();
    sa_with(p.clone(), &keys(p.suite), live)
}

#[test]
fn no_number_or_iv_twice_across_crashes() {
    for suite in [GCM, Suite::ChaCha20Poly1305] {
        for esn in [false, true] {
            let p = SaParams { esn, ..params(suite, true) };
            let memory = memory(p.replay_window);
            let mut bench = Bench::new();
            let (mut seen, mut ivs) = (HashSet::new(), HashSet::new());
            for round in 0..50 {
                let tx = life(&p, &memory);
                for _ in 0..7 {
                    let sealed = bench.seal(&tx, &inner(true, 0, true, 9)).unwrap();
                    assert!(seen.insert(sealed[24..28].to_vec()), "number repeated");
                    assert!(ivs.insert(sealed[28..36].to_vec()), "IV repeated");
                }
                // Dies between the assignment and the encryption: that number is lost.
                let packet = inner(true, 0, true, round);
                let mut buf = vec![0; 400];
                buf[100..100 + packet.len()].copy_from_slice(&packet);
                let h = parse_ip(&packet).unwrap();
                let span = Span { start: 100, len: packet.len() };
                let mut source = IvSource::from_seed([0; 32]);
                let number = number(&tx).unwrap();
                let sealing =
                    tx.seal_prepare(&mut buf, span, &h, number, &mut source, 1500).unwrap();
                let esp = &buf[sealing.esp.range()];
                assert!(seen.insert(esp[4..8].to_vec()), "number repeated");
                assert!(ivs.insert(esp[8..16].to_vec()), "IV repeated");
            }
            assert_eq!((seen.len(), ivs.len()), (50 * 8, 50 * 8));
        }
    }
}

/// CBC's IVs are random: they neither repeat nor follow from each other or the number.
#[test]
fn cbc_ivs_are_unpredictable() {
    for suite in all_suites().filter(|s| s.needs_random_iv()) {
        let p = params(suite, true);
        let (tx, mut bench) = (life(&p, &memory(64)), Bench::new());
        let ivs: Vec<u128> = (0..50)
            .map(|_| bench.seal(&tx, &inner(true, 0, true, 9)).unwrap())
            .map(|sealed| u128::from_be_bytes(sealed[28..44].try_into().unwrap()))
            .collect();
        assert_eq!(ivs.iter().collect::<HashSet<_>>().len(), ivs.len(), "{suite}");
        let steps = ivs.windows(2).map(|w| w[1].wrapping_sub(w[0]));
        assert_eq!(steps.collect::<HashSet<_>>().len(), ivs.len() - 1, "{suite}");
        let bits = ivs.iter().fold(0, |bits, iv| bits | iv);
        assert_eq!(bits, u128::MAX, "{suite}: a bit that is never set");
    }
}

#[test]
fn the_window_survives() {
    let p = SaParams { replay_window: 1000, ..params(GCM, true) };
    let (tx_memory, rx_memory) = (memory(1000), memory(1000));
    let mut bench = Bench::new();
    let mut all = Vec::new();
    for round in 0..10 {
        let (tx, rx) = (life(&p, &tx_memory), life(&p, &rx_memory));
        for i in 0..60 {
            let sealed = bench.seal(&tx, &inner(true, 0, true, i)).unwrap();
            if i % 3 != 0 {
                assert!(bench.open(&rx, &sealed).is_ok());
            }
            all.push((sealed, i % 3 != 0));
        }
        // All that was accepted is refused, in this life and after the next start.
        let rx = if round % 2 == 0 { rx } else { life(&p, &rx_memory) };
        for (sealed, accepted) in &all {
            if *accepted {
                assert_eq!(bench.open(&rx, sealed), Err(DropReason::InReplayDuplicate));
            }
        }
    }
    // What was held back is still welcome.
    let rx = life(&p, &rx_memory);
    for (sealed, accepted) in &all {
        assert_eq!(bench.open(&rx, sealed).is_ok(), !accepted);
    }
}

/// ESN across 2^32, with packets out of order on both sides of it.
#[test]
fn extended_numbers_cross_32_bits() {
    let mut bench = Bench::new();
    for suite in all_suites() {
        for window in [0, 1, 64, 4096] {
            let p = SaParams { esn: true, replay_window: window, ..params(suite, true) };
            let (tx, rx) = (life(&p, &memory(window)), life(&p, &memory(window)));
            let start = (1u64 << 32) - 6;
            tx.live().sent().store(start, std::sync::atomic::Ordering::Relaxed);
            rx.replay().restore(start, |_| true);
            let mut sealed: Vec<_> =
                (0..12).map(|i| bench.seal(&tx, &inner(true, 0, true, i)).unwrap()).collect();
            if window > 1 {
                sealed.swap(0, 11);
                sealed.swap(3, 8);
            }
            for packet in &sealed {
                assert!(bench.open(&rx, packet).is_ok(), "{suite}, window {window}");
            }
            assert_eq!(rx.replay().edge(), start + 12);
            if window != 0 {
                assert!(sealed.iter().all(|p| bench.open(&rx, p).is_err()));
            }
        }
    }
}
