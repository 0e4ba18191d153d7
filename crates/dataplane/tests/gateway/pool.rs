//! One SA on several threads: what comes out is what one thread would send, in its order.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use crypto::{Engine, Provider};
use dataplane::{Command, CryptoParts, CryptoWorker, Polling};
use esp::IvSource;
use outcome::DropReason;
use policy::VolumeLimits;

use crate::packets::{Ip, hopped, number};
use crate::srv6;
use crate::support::{Faulty, Gateway, PROVIDER, Pair, Side, Sizes, Spec, ip, make_sa, sa_config};

/// Gives a gateway this many helpers, whose threads do not run.
fn helpers(g: &mut Gateway, threads: usize) -> Vec<CryptoWorker> {
    let own = parts(g, PROVIDER.engine().expect("engine"));
    helpers_beside(g, own, threads)
}

fn helpers_beside(g: &mut Gateway, own: CryptoParts, threads: usize) -> Vec<CryptoWorker> {
    let engines = (0..threads).map(|_| parts(g, PROVIDER.engine().expect("engine"))).collect();
    g.worker.add_crypto_pool(own, engines).expect("eventfd")
}

/// Parts of one thread that works on bursts.
fn parts(g: &Gateway, engine: Box<dyn Engine>) -> CryptoParts {
    CryptoParts { engine, ivs: IvSource::new().expect("seed"), reader: g.db.reader() }
}

/// Gives a gateway this many crypto threads.
pub fn pooled(g: &mut Gateway, threads: usize) -> Vec<JoinHandle<()>> {
    spawn(helpers(g, threads))
}

fn spawn(helpers: Vec<CryptoWorker>) -> Vec<JoinHandle<()>> {
    let threads = helpers.into_iter();
    threads.map(|helper| std::thread::spawn(move || helper.run(Polling::default()))).collect()
}

fn pooled_pair(spec: &Spec, threads: usize) -> (Pair, Vec<JoinHandle<()>>) {
    with_pools(Pair::new(spec), threads)
}

fn with_pools(mut pair: Pair, threads: usize) -> (Pair, Vec<JoinHandle<()>>) {
    let mut all = pooled(&mut pair.a, threads);
    all.extend(pooled(&mut pair.b, threads));
    (pair, all)
}

fn end(pair: Pair, threads: Vec<JoinHandle<()>>) {
    drop(pair);
    for thread in threads {
        thread.join().expect("no panic");
    }
}

/// Numbers of ESP packets over IPv4.
fn numbers(packets: &[Vec<u8>]) -> Vec<u32> {
    packets.iter().map(|p| u32::from_be_bytes([p[24], p[25], p[26], p[27]])).collect()
}

#[test]
fn packets_leave_and_arrive_in_order() {
    // A window of 64 forgives no more than 63 places.
    for (threads, replay_window) in [(1, 64), (2, 64), (3, 32)] {
        let spec = Spec { replay_window, ..Spec::default() };
        let (mut pair, all) = pooled_pair(&spec, threads);
        let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        let mut next = 1;
        for round in 0..40_u16 {
            let sent: Vec<_> = (0..400).map(|n| flow.sized(60 + usize::from(n), n)).collect();
            sent.iter().for_each(|p| pair.a.put_lan(p));
            pair.a.run();
            let carried = pair.carry(Side::A);
            assert_eq!(numbers(&carried), (next..next + 400).collect::<Vec<_>>(), "{round}");
            next += 400;
            let arrived = pair.b.lan_out();
            let expected: Vec<_> = sent.iter().map(|p| hopped(p, 2)).collect();
            assert_eq!(arrived, expected);
        }
        assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
        let sa = pair.b.sa(Side::A, &spec);
        assert_eq!(sa.esp.live().packets().load(Relaxed), 16_000);
        end(pair, all);
    }
}

/// New flows all the time, packets that have to be cut, and every kind of SA: what is left to the worker gets
/// its number and leaves where it stood.
#[test]
fn packets_that_are_left_leave_in_order_too() {
    let kinds = [
        Spec { replay_window: 32, ..Spec::default() },
        Spec { replay_window: 32, encap: true, ..Spec::default() },
        Spec { replay_window: 64, esn: true, ..Spec::default() },
    ];
    for (threads, spec) in [1, 2, 3].into_iter().zip(kinds) {
        let (mut pair, all) = pooled_pair(&spec, threads);
        let number_at = if spec.encap { 32 } else { 24 };
        let mut seen = 0;
        for round in 0..60_u16 {
            for n in 0..400_u16 {
                let (host, len) = if n % 97 == 96 { (11, 1400) } else { (10, 40) };
                let flow = Ip::new(Side::A.lan(false, host), Side::B.lan(false, 10));
                let port = if n % 50 < 40 { 1 } else { 1000 + round };
                let body: Vec<u8> = n.to_be_bytes().into_iter().chain(vec![0; len]).collect();
                pair.a.put_lan(&flow.udp(port, 1 + n % 3, &body));
            }
            pair.a.run();
            let carried = pair.carry(Side::A);
            for packet in &carried {
                let number = u32::from_be_bytes(packet[number_at..][..4].try_into().expect("four"));
                seen += 1;
                assert_eq!(number, seen, "round {round}");
            }
            let arrived: Vec<_> = pair.b.lan_out();
            assert_eq!(arrived.len(), 400);
            // Within a flow nothing has overtaken anything.
            for flow in 0..3 {
                for old in [true, false] {
                    let of = |p: &&Vec<u8>| {
                        let port = u16::from_be_bytes([p[20], p[21]]);
                        u16::from_be_bytes([p[22], p[23]]) == 1 + flow && (port == 1) == old
                    };
                    let order: Vec<u16> = arrived
                        .iter()
                        .filter(of)
                        .map(|p| u16::from_be_bytes([p[28], p[29]]))
                        .collect();
                    assert!(order.is_sorted(), "{order:?}");
                }
            }
        }
        assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
        end(pair, all);
    }
}

#[test]
fn a_pool_without_threads_is_the_worker_alone() {
    let (mut pair, all) = pooled_pair(&Spec::default(), 0);
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    // More bursts at once than the queue holds.
    (0..500).for_each(|n| pair.a.put_lan(&flow.sized(1400, n)));
    pair.a.run();
    assert_eq!(pair.carry(Side::A).len(), 500);
    assert_eq!(
        pair.b.lan_out().iter().map(|p| number(p)).collect::<Vec<_>>(),
        (0..500).collect::<Vec<_>>()
    );
    end(pair, all);
}

#[test]
fn limits_and_replays_are_exact() {
    let limits = VolumeLimits { hard_packets: 100, ..VolumeLimits::NONE };
    let spec = Spec { limits, ..Spec::default() };
    let (mut pair, all) = pooled_pair(&spec, 2);
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    (0..150).for_each(|n| pair.a.put_lan(&flow.sized(100, n)));
    pair.a.run();
    let packets = pair.a.wan_out();
    assert_eq!(packets.len(), 100, "a limit of n packets lets n through");
    // Each packet twice, the copies in the same burst and in later ones.
    for packet in packets.iter().take(90) {
        pair.b.put_wan(packet);
        pair.b.put_wan(packet);
    }
    pair.b.run();
    packets.iter().take(50).for_each(|p| pair.b.put_wan(p));
    pair.b.run();
    assert_eq!(pair.b.lan_out().len(), 90);
    assert_eq!(pair.b.dropped(DropReason::InReplayDuplicate), 90 + 50);
    assert_eq!(pair.b.sa(Side::A, &spec).esp.live().replays().load(Relaxed), 140);
    end(pair, all);
}

#[test]
fn nothing_accepted_is_lost_by_a_rekey() {
    let spec = Spec::default();
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    for rekeyed in [Side::A, Side::B] {
        let (mut pair, all) = pooled_pair(&spec, 2);
        for turn in 0..50_u64 {
            let mut config = sa_config(&spec, Side::A);
            config.generation = turn + 2;
            let sa = make_sa(&config.params);
            (0..200).for_each(|n| pair.a.put_lan(&flow.sized(100, n)));
            if rekeyed == Side::A {
                // One round: bursts are with the pool when the SA is replaced.
                pair.a.worker.round_at(pair.a.now);
                pair.a.db.replace_sa(config, sa);
                pair.a.run();
                assert_eq!(pair.a.wan_out().len(), 200);
                continue;
            }
            pair.a.run();
            pair.a.wan_out().iter().for_each(|p| pair.b.put_wan(p));
            pair.b.worker.round_at(pair.b.now);
            pair.b.db.replace_sa(config, sa);
            pair.b.run();
            assert_eq!(pair.b.lan_out().len(), 200);
        }
        assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
        end(pair, all);
    }
}

#[test]
fn an_end_in_the_middle_loses_no_frame() {
    let sizes = Sizes { chunks: 2048, stock: 1000, port_limit: 1000 };
    for _ in 0..20 {
        let mut g = Gateway::with_sizes(Side::A, Sizes { ..sizes });
        g.protect(&Spec::default());
        let threads = pooled(&mut g, 2);
        let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        (0..900).for_each(|n| g.put_lan(&flow.sized(1000, n)));
        g.worker.round_at(g.now);
        g.commands.send(Command::Stop).expect("listens");
        g.worker.run();
        assert_eq!(g.counters.totals().balance(), 0);
        assert_eq!(g.counters.totals().held, 0);
        drop(g);
        for thread in threads {
            thread.join().expect("no panic");
        }
    }
}

#[test]
fn an_engine_that_fails_costs_its_packets_and_no_others() {
    // The helper's engine works, that of the worker as one of them does not: what it helps with is dropped, counted.
    let mut pair = Pair::new(&Spec::default());
    let fails = Arc::new(AtomicBool::new(true));
    let engine = Faulty(PROVIDER.engine().expect("engine"), fails);
    let own = parts(&pair.a, Box::new(engine));
    let all = spawn(helpers_beside(&mut pair.a, own, 1));
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    (0..500).for_each(|n| pair.a.put_lan(&flow.sized(200, n)));
    pair.a.run();
    let sent = pair.a.wan_out();
    assert_eq!(sent.len() as u64 + pair.a.dropped(DropReason::OutCrypto), 500);
    assert!(numbers(&sent).is_sorted());
    for packet in &sent {
        assert_eq!(packet[9], 50, "never in clear");
    }
    end(pair, all);
}

#[test]
fn nothing_is_under_way_when_there_is_nothing_to_do() {
    let sizes = Sizes { chunks: 10_000, stock: 9000, port_limit: 9000 };
    for turn in 0..5 {
        let mut g = Gateway::with_sizes(Side::A, Sizes { ..sizes });
        g.protect(&Spec::default());
        let threads = pooled(&mut g, 1);
        let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        for _ in 0..4 {
            (0..8192).for_each(|n| g.put_lan(&flow.sized(1400, n)));
            // As a worker that sleeps when a round returns 0.
            while g.worker.round_at(g.now) > 0 {}
            assert_eq!(g.counters.totals().held, 0, "turn {turn}");
            assert_eq!(g.wan_out().len(), 8192, "turn {turn}: {:?}", g.counters.totals());
        }
        drop(g);
        for thread in threads {
            thread.join().expect("no panic");
        }
    }
}

#[test]
fn helpers_get_packets_while_there_are_routes_with_segments() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    srv6::publish(&g, 1500, false);
    g.run();
    let asleep = helpers(&mut g, 1);
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    (0..60).for_each(|n| g.put_lan(&flow.sized(100, n)));
    g.worker.round_at(g.now);
    assert_eq!((g.counters.totals().held, g.wan_out().len()), (60, 0));
    // The worker does what they do not come to.
    g.run();
    assert_eq!((g.counters.totals().held, g.wan_out().len()), (0, 60));
    drop(asleep);
}

/// Packets of sets of flows that get segments, go through IPsec, or both: each packet's number stands behind its
/// headers. One in fifty is of another length, and perhaps has to be cut, and one flow in each round is new.
fn mixed((to, longest): (&[&str], usize), round: u16) -> Vec<Vec<u8>> {
    let packet = |n: u16| {
        let at = usize::from(n) % to.len();
        let flow = Ip::new(Side::A.lan(false, 10), ip(to[at]));
        let len = if n % 50 == 49 { longest } else { 40 };
        let body: Vec<u8> = n.to_be_bytes().into_iter().chain(vec![0; len]).collect();
        let port = if n % 7 == 6 { 1000 + round } else { 1 };
        flow.udp(port, 1 + n % 3, &body)
    };
    (0..400).map(packet).collect()
}

/// Packets by flow.
type Flows = BTreeMap<(Vec<u8>, Vec<u8>), Vec<Vec<u8>>>;

/// Whole packets of a flow, by destination and ports, in their order: the number of each, or of fragments all bytes.
fn by_flow(packets: Vec<Vec<u8>>) -> Flows {
    let mut flows = Flows::new();
    for mut packet in packets {
        let is_piece = packet[6] & 0x3f != 0 || packet[7] != 0;
        let ports = if is_piece { Vec::new() } else { packet[20..24].to_vec() };
        // The identification of what was cut is random, and so is the checksum then.
        if is_piece {
            packet[4..6].fill(0);
            packet[10..12].fill(0);
        }
        flows.entry((packet[16..20].to_vec(), ports)).or_default().push(packet);
    }
    flows
}

/// A's packets as B gets them, in three rounds, with helpers at both.
fn through(pair: Pair, what: (&[&str], usize), threads: usize) -> (Vec<usize>, Vec<Vec<u8>>) {
    let (mut pair, all) = with_pools(pair, threads);
    let (mut sent, mut arrived) = (Vec::new(), Vec::new());
    for round in 0..3 {
        mixed(what, round).iter().for_each(|packet| pair.a.put_lan(packet));
        pair.a.run();
        sent.push(pair.carry(Side::A).len());
        arrived.extend(pair.b.lan_out());
        for gateway in [&pair.a, &pair.b] {
            assert_eq!(gateway.counters.totals().held, 0);
            assert_eq!(gateway.counters.totals().balance(), 0);
            assert_eq!(gateway.drops(), []);
        }
    }
    let work = [&pair.a, &pair.b].map(|g| {
        let work = &g.counters.work;
        [&work.encrypted, &work.decrypted, &work.srv6_encapsulated, &work.srv6_decapsulated]
            .map(|counter| counter.value() as usize)
    });
    sent.extend(work.into_iter().flatten());
    end(pair, all);
    (sent, arrived)
}

/// Holds what helpers do against what the worker does alone.
fn as_one_thread(pair: impl Fn() -> Pair, what: (&[&str], usize)) {
    let (counts, alone) = through(pair(), what, 0);
    let is_cut = what.1 > 1400;
    assert!(counts[..3].iter().all(|sent| (*sent > 400) == is_cut), "{counts:?}");
    assert!(counts[3..].iter().filter(|count| **count > 0).count() >= 4, "{counts:?}");
    let alone = by_flow(alone);
    for threads in [1, 2, 3] {
        let (with_helpers, arrived) = through(pair(), what, threads);
        assert_eq!(with_helpers, counts, "{threads}");
        assert!(by_flow(arrived) == alone, "{threads} helpers, to {what:?}");
    }
}

/// Segments through IPsec, IPsec through segments, and each beside what has none: as one thread does it, and each flow
/// in its order.
#[test]
fn segments_and_ipsec_are_those_of_one_thread() {
    let behind_segments = || {
        let pair = Pair::new(&Spec { replay_window: 32, ..Spec::default() });
        for gateway in [&pair.a, &pair.b] {
            srv6::publish(gateway, 1500, true);
        }
        pair
    };
    let through_ipsec =
        || srv6::through_ipsec(&Spec { outer_v6: true, replay_window: 32, ..Spec::default() });
    let behind = ["10.2.0.10", "10.78.0.1", "10.2.0.11"];
    let inside = ["10.78.0.1", "10.78.5.1", "10.78.0.2"];
    as_one_thread(behind_segments, (&behind, 1455));
    as_one_thread(through_ipsec, (&inside, 900));
}

/// Numbers of ESP behind the segments, and the order of what was inside.
#[test]
fn what_helpers_have_sealed_gets_segments_in_order() {
    for threads in [1, 2, 3] {
        let spec = Spec { replay_window: 32, ..Spec::default() };
        let pair = Pair::new(&spec);
        for gateway in [&pair.a, &pair.b] {
            srv6::publish(gateway, 1500, true);
        }
        let (mut pair, all) = with_pools(pair, threads);
        let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        let mut next = 1;
        for round in 0..20_u16 {
            // Also fewer than are worth a hand-over.
            let count = if round % 4 == 3 { 5 } else { 400 };
            let sent: Vec<_> = (0..count).map(|n| flow.sized(60 + usize::from(n), n)).collect();
            sent.iter().for_each(|packet| pair.a.put_lan(packet));
            pair.a.run();
            let carried: Vec<_> =
                pair.carry(Side::A).iter().map(|packet| packet[40..].to_vec()).collect();
            assert_eq!(numbers(&carried), (next..next + u32::from(count)).collect::<Vec<_>>());
            next += u32::from(count);
            let expected: Vec<_> = sent.iter().map(|packet| hopped(packet, 2)).collect();
            assert!(pair.b.lan_out() == expected, "round {round}");
        }
        assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
        end(pair, all);
    }
}
