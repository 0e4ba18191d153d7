//! Resynchronisation (RFC 4303 appendix A3): the number of a packet is found if it is less than
//! seventeen subspaces ahead of what its low half was taken for, and never another.

use std::sync::atomic::Ordering::Relaxed;

use crate::common::{Bench, GCM, inner, params, sa, udp};
use crypto::{Cipher, Engine, Provider, Suite};
use engine_openssl::OpensslProvider;
use esp::{Mode, Opening, Protocol, RESYNC_TRIES, Sa, SaParams};
use outcome::DropReason;
use proptest::prelude::*;
use wire::{Fields, Span, parse_ip};

const SUBSPACE: u64 = 1 << 32;

/// ESP with a combined mode and with separate algorithms, AH, both families and modes.
fn kinds() -> Vec<SaParams> {
    let is_hmac = |suite: &Suite, null: bool| {
        matches!(*suite, Suite::Separate { cipher, integrity: crypto::Integrity::Sha256_128 }
            if (cipher == Cipher::Null) == null)
    };
    let null = Suite::all().find(|suite| is_hmac(suite, true)).expect("a suite");
    let cbc = Suite::all().find(|suite| is_hmac(suite, false)).expect("a suite");
    let esn =
        |suite, v4, mode, protocol| SaParams { esn: true, mode, protocol, ..params(suite, v4) };
    vec![
        esn(GCM, true, Mode::Tunnel, Protocol::Esp),
        esn(cbc, false, Mode::Tunnel, Protocol::Esp),
        esn(Suite::ChaCha20Poly1305, true, Mode::Transport, Protocol::Esp),
        esn(null, true, Mode::Tunnel, Protocol::Ah),
        esn(null, false, Mode::Tunnel, Protocol::Ah),
    ]
}

/// A packet in a larger buffer, and how the receiver would open it.
fn look(rx: &Sa, sealed: &[u8]) -> Result<(Vec<u8>, Fields, Opening), DropReason> {
    let h = parse_ip(sealed).expect("a packet");
    let mut buf = vec![0x5a; 33];
    buf.extend_from_slice(sealed);
    buf.extend([0x5a; 200]);
    let len = usize::from(h.total_len);
    let opening = match rx.is_ah() {
        true => rx.open_ah(&buf, Span { start: 33, len }, (&h).into())?,
        false => {
            let at = usize::from(h.header_len);
            rx.open_look(&buf, Span { start: 33 + at, len: len - at })?
        }
    };
    Ok((buf, (&h).into(), opening))
}

fn resynchronise(rx: &Sa, sealed: &[u8], engine: &mut dyn Engine) -> Option<Opening> {
    let (buf, outer, opening) = look(rx, sealed).expect("not a replay");
    let mut scratch = vec![0; 4096];
    let before = buf.clone();
    let found = rx.resynchronise(&buf, outer, &opening, engine, &mut scratch);
    assert_eq!(buf, before, "the packet stays as it is");
    assert!(scratch.iter().all(|byte| *byte == 0), "nothing of it stays anywhere else");
    found
}

fn packet(params: &SaParams) -> Vec<u8> {
    match params.mode {
        Mode::Tunnel | Mode::Iptfs => inner(params.src.is_ipv4(), 0, true, 100),
        Mode::Transport => {
            crate::common::ip(params.src, params.dst, 0, true, 17, &udp(7, 9, &[3; 100]))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The model: of all numbers with the packet's low half the receiver takes the first that is not
    /// older than its window. Those of the next sixteen subspaces can be found.
    #[test]
    fn finds_what_the_model_says(
        kind in 0..kinds().len(),
        edge in prop_oneof![0u64..200, SUBSPACE - 200..SUBSPACE + 200, any::<u64>().prop_map(|n| n / 2)],
        subspaces in 0u64..20,
        offset in 1u64..SUBSPACE,
    ) {
        let params = kinds().swap_remove(kind);
        let size = u64::from(params.replay_window);
        let (tx, rx) = (sa(params.clone()), sa(params.clone()));
        rx.replay().restore(edge, |_| true);
        let sent = edge + subspaces * SUBSPACE + offset;
        tx.live().sent().store(sent - 1, Relaxed);
        let mut bench = Bench::new();
        let sealed = bench.seal(&tx, &packet(&params)).expect("sealed");

        let lowest = edge.saturating_sub(size - 1);
        let inferred = lowest + (sent - lowest) % SUBSPACE;
        let ahead = (sent - inferred) / SUBSPACE;
        // Taken for one that was received already, or for number 0: not tried.
        let is_looked_at = inferred > edge;
        match look(&rx, &sealed) {
            Ok((_, _, opening)) => prop_assert_eq!((true, opening.seq), (is_looked_at, inferred)),
            Err(_) => prop_assert!(!is_looked_at),
        }
        if is_looked_at {
            let mut engine = OpensslProvider::new().expect("openssl").engine().expect("engine");
            let found = resynchronise(&rx, &sealed, &mut *engine).map(|opening| opening.seq);
            let can_be = (1..=u64::from(RESYNC_TRIES)).contains(&ahead);
            prop_assert_eq!(found, can_be.then_some(sent), "{} subspaces ahead", ahead);
            prop_assert_eq!(rx.replay().edge(), edge, "nothing is accepted by looking");
            if let Some(number) = found {
                // The next one, which the window alone would still take for another.
                let next = bench.seal(&tx, &packet(&params)).expect("sealed");
                if let Ok((_, _, opening)) = look(&rx, &next) {
                    prop_assert_eq!(rx.open_after(number, &opening).seq, sent + 1);
                }
            }
        }
    }
}

#[test]
fn a_forged_packet_fits_nowhere() {
    let mut engine = OpensslProvider::new().expect("openssl").engine().expect("engine");
    for params in kinds() {
        let (tx, rx) = (sa(params.clone()), sa(params.clone()));
        tx.live().sent().store(3 * SUBSPACE, Relaxed);
        let good = Bench::new().seal(&tx, &packet(&params)).expect("sealed");
        assert!(resynchronise(&rx, &good, &mut *engine).is_some());
        for at in [1, good.len() / 2] {
            let mut bad = good.clone();
            let last = bad.len() - at;
            bad[last] ^= 1;
            assert_eq!(resynchronise(&rx, &bad, &mut *engine), None);
        }
    }
}

#[test]
fn what_has_no_high_half_or_no_room_is_not_tried() {
    let mut engine = OpensslProvider::new().expect("openssl").engine().expect("engine");
    let (tx, rx) = (sa(params(GCM, true)), sa(params(GCM, true)));
    let sealed = Bench::new().seal(&tx, &packet(&params(GCM, true))).expect("sealed");
    assert_eq!(resynchronise(&rx, &sealed, &mut *engine), None);
    let esn = SaParams { esn: true, ..params(GCM, true) };
    let (tx, rx) = (sa(esn.clone()), sa(esn.clone()));
    tx.live().sent().store(SUBSPACE, Relaxed);
    let sealed = Bench::new().seal(&tx, &packet(&esn)).expect("sealed");
    let (buf, outer, opening) = look(&rx, &sealed).expect("not a replay");
    let mut small = vec![0; opening.esp.len];
    assert_eq!(rx.resynchronise(&buf, outer, &opening, &mut *engine, &mut small), None);
}
