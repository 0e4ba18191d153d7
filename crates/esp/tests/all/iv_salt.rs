//! The IVs of counter modes: the number under a salt of the SA, so that two SAs of one key have none
//! in common.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::common::{Bench, NATT, all_suites, inner, keys, own, params, sa, sa_with, tcp};
use esp::{LiveNumbers, Mode, Sa, SaParams};
use mem::StableWords;
use proptest::prelude::*;

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

/// The IVs of the next packets of an SA, which its peer opens.
fn ivs(bench: &mut Bench, tx: &Sa, count: usize) -> Vec<u64> {
    let p = tx.params().clone();
    let (v4, rx) = (p.dst.is_ipv4(), sa(p.clone()));
    let at = if v4 { 20 } else { 40 } + if p.encap.is_some() { 8 } else { 0 } + 8;
    (0..count)
        .map(|len| {
            let packet = match p.mode {
                Mode::Transport => own(&p, 6, &tcp(&vec![7; len])),
                _ => inner(v4, 0, true, len),
            };
            let sealed = bench.seal(tx, &packet).unwrap();
            let number = tx.live().sent().load(Relaxed);
            rx.replay().restore(number - 1, |_| true);
            assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet)), "{}", p.suite);
            u64::from_be_bytes(sealed[at..at + 8].try_into().unwrap())
        })
        .collect()
}

/// SAs of every suite whose IV is a counter's, as they can be configured.
fn counter_sas() -> impl Strategy<Value = SaParams> {
    let suites: Vec<_> = all_suites().filter(|suite| suite.has_counter_iv()).collect();
    let suite = prop::sample::select(suites);
    (suite, any::<[bool; 4]>(), prop::sample::select(&[0_u32, 1300][..])).prop_map(
        |(suite, [v4, udp, esn, is_tunnel], tfc_pad_len)| SaParams {
            mode: if is_tunnel { Mode::Tunnel } else { Mode::Transport },
            encap: NATT.filter(|_| udp),
            esn,
            tfc_pad_len: if is_tunnel { tfc_pad_len } else { 0 },
            ..params(suite, v4)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_iv_is_the_number_under_the_salt(
        p in counter_sas(),
        sent in prop_oneof![0..3_u64, 0xffff_fff0..0xffff_fff8_u64, any::<u64>()],
    ) {
        let last = if p.esn { u64::MAX } else { u64::from(u32::MAX) };
        let sent = sent.min(last - 3);
        let tx = sa(p);
        tx.live().sent().store(sent, Relaxed);
        let salt = tx.live().iv_salt().unwrap();
        let expected: Vec<u64> = (1..=3).map(|n| (sent + n) ^ salt).collect();
        prop_assert_eq!(ivs(&mut Bench::new(), &tx, 3), expected);
    }

    /// Both directions of a tunnel, or any other SAs, that somebody gave one key.
    #[test]
    fn two_sas_of_one_key_have_no_iv_in_common(p in counter_sas()) {
        let mut bench = Bench::new();
        let mut seen = HashSet::new();
        for tx in [sa(p.clone()), sa(SaParams { src: p.dst, dst: p.src, ..p })] {
            for iv in ivs(&mut bench, &tx, 20) {
                prop_assert!(seen.insert(iv), "IV {iv:#x} of {} twice", tx.params().suite);
            }
        }
    }

    /// The same keys come again: after a reboot the live numbers are new, after a crash they are the
    /// same, and so is the salt.
    #[test]
    fn no_iv_comes_again_after_a_crash_or_a_reboot(
        p in counter_sas(),
        starts in prop::collection::vec(any::<bool>(), 1..8),
    ) {
        let mut bench = Bench::new();
        let mut seen = HashSet::new();
        let mut numbers = memory(p.replay_window);
        for is_reboot in starts {
            let before = life(&p, &numbers).live().iv_salt().unwrap();
            if is_reboot {
                numbers = memory(p.replay_window);
            }
            let tx = life(&p, &numbers);
            prop_assert_eq!(tx.live().iv_salt().unwrap() != before, is_reboot);
            for iv in ivs(&mut bench, &tx, 5) {
                prop_assert!(seen.insert(iv), "IV {iv:#x} twice");
            }
        }
    }
}

/// CBC's IV is random anyway, and NULL has none.
#[test]
fn a_salt_is_drawn_for_counter_modes_alone() {
    for suite in all_suites() {
        let numbers = memory(64);
        life(&params(suite, true), &numbers);
        let is_drawn = numbers.words().iter().any(|word| word.load(Relaxed) != 0);
        assert_eq!(is_drawn, suite.has_counter_iv(), "{suite}");
    }
}
