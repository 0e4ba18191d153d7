//! An SA with ESN whose peer has sent 2^32 packets and more that never came (RFC 4303 appendix A3).

use core::sync::atomic::Ordering::Relaxed;

use crypto::{Cipher, Integrity, Suite};
use esp::Mode;
use outcome::DropReason;

use crate::packets::{Ip, hopped};
use crate::pool::pooled;
use crate::support::{GCM, Gateway, Pair, Side, Sizes, Spec};

const SUBSPACE: u64 = 1 << 32;

/// Failures from which on later numbers are tried, and the least time between two tries.
const RUN: u64 = 16;
const EVERY_NS: u64 = 100_000_000;

fn esn(suite: Suite) -> Spec {
    Spec { esn: true, suite, ..Spec::default() }
}

fn cbc() -> Suite {
    let is = |suite: &Suite| {
        matches!(suite, Suite::Separate { cipher, integrity: Integrity::Sha256_128 }
            if *cipher != Cipher::Null)
    };
    Suite::all().find(is).expect("a suite")
}

fn work(pair: &Pair, name: &str) -> u64 {
    pair.b.counters.work.iter().find(|(is, _)| *is == name).expect("a counter").1
}

/// The sender's next number is so much farther than it was.
fn jump(pair: &Pair, spec: &Spec, by: u64) {
    let sent = pair.a.sa(Side::A, spec);
    let sent = sent.esp.live().sent();
    sent.store(sent.load(Relaxed) + by, Relaxed);
}

/// A pair whose B gets more packets that it drops than others do: their frames are not the wire's again.
fn flooded(spec: &Spec) -> Pair {
    let mut pair = Pair::new(spec);
    let sizes = Sizes { chunks: 8192, stock: 7000, port_limit: 512 };
    pair.b = Gateway::with_sizes(Side::B, sizes);
    pair.b.protect(spec);
    pair
}

/// Sends packets from A, and returns how many arrived behind B.
fn send(pair: &mut Pair, spec: &Spec, n: u16) -> usize {
    let flow = match spec.mode {
        Mode::Tunnel | Mode::Iptfs => Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)),
        Mode::Transport => Ip::new(Side::A.wan(false), Side::B.wan(false)),
    };
    let sent: Vec<_> = (0..n).map(|n| flow.sized(100, n)).collect();
    for packet in &sent {
        match spec.mode {
            Mode::Tunnel | Mode::Iptfs => pair.a.put_lan(packet),
            Mode::Transport => pair.a.put_linux(packet),
        }
    }
    pair.a.run();
    pair.carry(Side::A);
    let arrived = match spec.mode {
        Mode::Tunnel | Mode::Iptfs => pair.b.lan_out(),
        Mode::Transport => pair.b.linux_out(),
    };
    let hops = if spec.mode == Mode::Tunnel { 2 } else { 0 };
    let last = sent.get(sent.len() - arrived.len()..).expect("no more than were sent");
    assert!(arrived.iter().eq(last.iter().map(|p| hopped(p, hops)).collect::<Vec<_>>().iter()));
    arrived.len()
}

#[test]
fn an_sa_goes_on_whose_peer_is_subspaces_ahead() {
    let kinds = [
        esn(GCM),
        esn(cbc()),
        esn(Suite::ChaCha20Poly1305),
        Spec { encap: true, ..esn(GCM) },
        Spec { outer_v6: true, ..esn(GCM) },
        Spec { mode: Mode::Transport, ..esn(GCM) },
        Spec { replay_window: 0, ..esn(GCM) },
        Spec { replay_window: 4096, ..esn(GCM) },
    ];
    for spec in kinds {
        for (threads, by) in [(0, SUBSPACE), (0, 16 * SUBSPACE), (2, 3 * SUBSPACE + 12_345)] {
            let mut pair = Pair::new(&spec);
            let helpers = match threads {
                0 => Vec::new(),
                n => pooled(&mut pair.b, n),
            };
            assert_eq!(send(&mut pair, &spec, 40), 40);
            jump(&pair, &spec, by);
            // One burst for the run; what is behind it is found.
            pair.b.now.ns += EVERY_NS;
            assert_eq!(send(&mut pair, &spec, RUN as u16), 0, "{spec:?}, {by}");
            pair.b.now.ns += EVERY_NS;
            // The threads may have several bursts at hand before one of them tries.
            let mut arrived = 0;
            for _ in 0..8 {
                pair.b.now.ns += EVERY_NS;
                arrived += send(&mut pair, &spec, 40);
            }
            let lost = 320 - arrived;
            assert!(lost == 0 || threads > 0 && lost <= 80, "{spec:?}, {by}: {lost} lost");
            let (from, to) = (pair.a.sa(Side::A, &spec), pair.b.sa(Side::A, &spec));
            assert_eq!(to.esp.replay().edge(), from.esp.live().sent().load(Relaxed));
            assert_eq!(pair.b.drops(), vec![(DropReason::InIntegrity, RUN + lost as u64)]);
            assert!(work(&pair, "esn-resyncs") == 1 && work(&pair, "esn-resync-tries") >= 1);
            drop(pair);
            helpers.into_iter().for_each(|helper| helper.join().expect("no panic"));
        }
    }
}

#[test]
fn seventeen_subspaces_are_too_many() {
    let spec = esn(GCM);
    let mut pair = Pair::new(&spec);
    assert_eq!(send(&mut pair, &spec, 40), 40);
    jump(&pair, &spec, 18 * SUBSPACE);
    for _ in 0..10 {
        pair.b.now.ns += EVERY_NS;
        assert_eq!(send(&mut pair, &spec, 40), 0);
    }
    assert_eq!(work(&pair, "esn-resyncs"), 0);
    assert_eq!(pair.b.sa(Side::A, &spec).esp.replay().edge(), 40);
}

/// Forgeries, five thousand of them in two seconds: 20 packets are tried at most, and a peer that sends with
/// the keys is heard all the time.
#[test]
fn a_flood_of_forgeries_costs_no_more_than_is_said() {
    let spec = esn(GCM);
    let mut pair = flooded(&spec);
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    pair.a.put_lan(&flow.sized(100, 0));
    pair.a.run();
    let mut forged = pair.a.wan_out().remove(0);
    let mut number = 1_000_000_u32;
    let mut flood = |pair: &mut Pair, n: usize| {
        for _ in 0..n {
            // Ahead of the window, as a copy of what was received is not even looked at.
            number += 1;
            forged[24..28].copy_from_slice(&number.to_be_bytes());
            pair.b.put_wan(&forged);
        }
        pair.b.run();
    };
    let started = pair.b.now.ns;
    for _ in 0..100 {
        pair.b.now.ns += 20_000_000;
        flood(&mut pair, 50);
    }
    let seconds = (pair.b.now.ns - started) / 1_000_000_000;
    let (tries, most) = (work(&pair, "esn-resync-tries"), seconds * 1_000_000_000 / EVERY_NS);
    assert!((most / 2..=most).contains(&tries), "{tries} packets tried, {most} is the bound");
    assert_eq!(pair.b.dropped(DropReason::InIntegrity), 5_000);
    assert_eq!(send(&mut pair, &spec, 40), 40, "nothing has moved");

    // Between packets that are accepted no run begins.
    let before = work(&pair, "esn-resync-tries");
    for _ in 0..50 {
        pair.b.now.ns += EVERY_NS;
        flood(&mut pair, RUN as usize - 1);
        assert_eq!(send(&mut pair, &spec, 1), 1);
    }
    assert_eq!((work(&pair, "esn-resync-tries"), work(&pair, "esn-resyncs")), (before, 0));
}

#[test]
fn without_esn_nothing_is_tried() {
    let spec = Spec::default();
    let mut pair = flooded(&spec);
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    pair.a.put_lan(&flow.sized(100, 0));
    pair.a.run();
    let mut forged = pair.a.wan_out().remove(0);
    forged[40] ^= 1;
    for _ in 0..10 {
        pair.b.now.ns += EVERY_NS;
        (0..64).for_each(|_| pair.b.put_wan(&forged));
        pair.b.run();
    }
    assert_eq!(pair.b.dropped(DropReason::InIntegrity), 640);
    assert_eq!(work(&pair, "esn-resync-tries"), 0);
}
