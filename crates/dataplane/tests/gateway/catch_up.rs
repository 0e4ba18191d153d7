//! Questions of the control thread to a worker that has followed the databases: windows to be merged, and if
//! all that was removed is out of use.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;

use dataplane::Command;
use outcome::DropReason;
use policy::{Direction, Prefix, SaId, Selector};

use crate::packets::Ip;
use crate::pool::pooled;
use crate::support::{
    Gateway, Side, Sizes, Spec, WAN, craft_esp, esp_text, ethernet, ip, policy, sa_config,
};

const SIZES: Sizes = Sizes { chunks: 8192, stock: 4096, port_limit: 2048 };

fn forth(n: u16) -> Vec<u8> {
    Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, n)
}

/// More changes than one round takes over.
fn change_much(g: &mut Gateway) {
    for n in 0..3000_u32 {
        let net = Prefix { addr: ip(&format!("172.16.{}.{}", n / 250, n % 250)), len: 32 };
        let selector = Selector::between(net, net);
        g.db.put_policy(policy(1000 + n, Direction::Out, selector, vec![]));
    }
}

/// Rounds until all workers have answered; packets come meanwhile.
fn catch_up(g: &mut Gateway) {
    let (done, is_done) = channel();
    let all = core::iter::once(&g.commands).chain(g.others.iter().map(|other| &other.commands));
    all.for_each(|commands| commands.send(Command::CatchUp(done.clone())).expect("listens"));
    let mut answers = 0;
    for _ in 0..1000 {
        (0..20).for_each(|n| g.put_lan(&forth(n)));
        let now = g.now;
        g.worker.round_at(now);
        g.others.iter_mut().for_each(|other| {
            other.worker.round_at(now);
        });
        g.wan_out();
        answers += is_done.try_iter().count();
        if answers == 1 + g.others.len() {
            return;
        }
    }
    panic!("{answers} answers");
}

/// Whatever thread had or gets a packet: none is numbered by an SA that was removed before the question.
#[test]
fn no_number_is_taken_of_what_was_removed_before() {
    for (workers, threads) in [(1, 0), (1, 1), (1, 3), (3, 0)] {
        for _ in 0..10 {
            let mut g = Gateway::with_workers(Side::A, SIZES, 1024, workers);
            let spec = Spec::default();
            g.protect(&spec);
            let threads = pooled(&mut g, threads);
            (0..100).for_each(|n| g.put_lan(&forth(n)));
            g.run();
            assert_eq!(g.wan_out().len(), 100);
            (0..500).for_each(|n| g.put_lan(&forth(n)));
            // Some bursts are with the helpers.
            g.worker.round_at(g.now);
            change_much(&mut g);
            let gone = g.db.remove_sa(&sa_config(&spec, Side::A).id()).expect("it was added");
            catch_up(&mut g);
            let sent = || gone.esp.live().sent().load(Relaxed);
            let last = sent();
            assert!(last >= 100, "{last}");
            g.wan_out();
            (0..500).for_each(|n| g.put_lan(&forth(n)));
            g.run();
            assert_eq!((sent(), g.wan_out().len()), (last, 0), "{workers} workers");
            assert!(g.counters.totals().held > 0 || workers > 1, "they wait for another SA");
            drop(g);
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        }
    }
}

/// Asks all workers to merge a window; who has done it.
fn merge(g: &mut Gateway, sa: SaId, edge: u64, received: &[u64]) -> Vec<bool> {
    let all = core::iter::once(&g.commands).chain(g.others.iter().map(|other| &other.commands));
    let answers: Vec<_> = all
        .map(|commands| {
            let (done, answer) = channel();
            let received = received.to_vec();
            commands.send(Command::MergeWindow { sa, edge, received, done }).expect("listens");
            answer
        })
        .collect();
    g.run();
    answers.iter().map(|answer| answer.try_recv().expect("answered")).collect()
}

/// A packet that the kernel has received is not received again, whichever of the two had it.
#[test]
fn a_merged_window_refuses_what_another_has_received() {
    for threads in [None, Some(2)] {
        let mut g = Gateway::with_sizes(Side::B, SIZES);
        let threads = threads.map_or_else(Vec::new, |threads| pooled(&mut g, threads));
        let spec = Spec::default();
        let id = sa_config(&spec, Side::A).id();
        assert_eq!(merge(&mut g, id, 5, &[1]), [false], "there is none");
        g.protect(&spec);
        let inner = forth(1);
        let arrives = |g: &mut Gateway, numbers: &[u32]| {
            for number in numbers {
                g.put_wan(&craft_esp(Side::A, *number, &esp_text(&inner, 4), 0));
            }
            g.run();
            g.lan_out().len()
        };
        // In the same round as the SA is taken over.
        assert_eq!(merge(&mut g, id, 3, &[1]), [true]);
        assert_eq!(arrives(&mut g, &[1, 2, 3, 40]), 3);
        // 100, 99 and 41 were received there.
        assert_eq!(merge(&mut g, id, 100, &[0b11 | 1 << 59]), [true]);
        assert_eq!(arrives(&mut g, &[100, 99, 41, 40, 2]), 0);
        assert_eq!(g.drops(), [(DropReason::InReplayDuplicate, 6)]);
        assert_eq!(arrives(&mut g, &[98, 42, 39, 101]), 4);
        // A lower edge moves nothing; with numbers of a second word.
        assert_eq!(merge(&mut g, id, 90, &[0, 1]), [true]);
        assert_eq!(arrives(&mut g, &[26, 25]), 1, "26 was received there");
        // Everything has left the window that is 128 below.
        assert_eq!(merge(&mut g, id, 1000, &[0; 2]), [true]);
        assert_eq!(arrives(&mut g, &[872, 873, 1000]), 2);
        assert_eq!(g.dropped(DropReason::InReplayOld), 1);
        drop(g);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

/// A packet that another has received may have come behind packets that wait here: these are received first.
#[test]
fn a_window_is_merged_behind_what_waits() {
    for threads in [None, Some(2)] {
        let mut g = Gateway::with_sizes(Side::B, SIZES);
        let threads = threads.map_or_else(Vec::new, |threads| pooled(&mut g, threads));
        let spec = Spec::default();
        let id = sa_config(&spec, Side::A).id();
        g.protect(&spec);
        let inner = forth(1);
        let put = |g: &mut Gateway, number| {
            g.put_wan(&craft_esp(Side::A, number, &esp_text(&inner, 4), 0));
        };
        // More than one round, and more than the window; the last one went elsewhere.
        (1..600).for_each(|number| put(&mut g, number));
        assert_eq!(merge(&mut g, id, 600, &[1]), [true]);
        assert_eq!((g.drops(), g.lan_out().len()), (vec![], 599));
        put(&mut g, 600);
        put(&mut g, 601);
        g.run();
        assert_eq!((g.drops(), g.lan_out().len()), (vec![(DropReason::InReplayDuplicate, 1)], 1));
        drop(g);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

/// Who asks whether all has been taken from the ports hears of it when it has.
#[test]
fn ports_are_drained() {
    for threads in [None, Some(2)] {
        let mut g = Gateway::with_sizes(Side::A, SIZES);
        let threads = threads.map_or_else(Vec::new, |threads| pooled(&mut g, threads));
        g.protect(&Spec::default());
        (0..600).for_each(|n| g.put_lan(&forth(n)));
        let (done, is_done) = channel();
        g.commands.send(Command::Drain(done)).expect("listens");
        while is_done.try_recv().is_err() {
            g.worker.round_at(g.now);
        }
        assert_eq!(g.counters.totals().received, 600);
        drop(g);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

#[test]
fn the_home_alone_merges() {
    let mut g = Gateway::with_workers(Side::B, SIZES, 1024, 3);
    let spec = Spec::default();
    g.protect(&spec);
    let id = |from| sa_config(&spec, from).id();
    assert_eq!(g.sa(Side::A, &spec).home().claim(1), 1);
    assert_eq!(merge(&mut g, id(Side::A), 7, &[1]), [false, true, false]);
    // The first that is asked becomes the home, and stays it.
    for _ in 0..2 {
        assert_eq!(merge(&mut g, id(Side::B), 7, &[1]), [true, false, false]);
    }
    assert_eq!(g.sa(Side::B, &spec).home().at(), 0);
    assert_eq!(g.sa(Side::A, &spec).esp.replay().edge(), 7);
    // Another mark is another SA.
    let marked = SaId { mark: policy::Mark { value: 1, mask: !0 }, ..id(Side::A) };
    assert_eq!(merge(&mut g, marked, 9, &[1]), [false; 3]);
    // What another worker receives is handed over, and refused there.
    for n in 0..3 {
        let packet = craft_esp(Side::A, 7, &esp_text(&forth(n), 4), 0);
        let queue = [&g.wan, &g.others[0].ports[1], &g.others[1].ports[1]][usize::from(n)].clone();
        let frame = ethernet(g.side.mac(WAN), g.side.other().mac(WAN), &packet);
        g.put_into(&queue, &frame, io::HEADROOM);
    }
    g.run();
    assert_eq!(g.drops(), [(DropReason::InReplayDuplicate, 3)]);
}

/// Rounds until the worker knows of everything; what comes in by the tunnel is counted, in its order.
fn opened(g: &mut Gateway) -> Vec<u16> {
    let mut came = Vec::new();
    while g.worker.round_at(g.now) > 0 {
        g.check();
        came.extend(
            g.lan_out()
                .iter()
                .map(|packet| u16::from_be_bytes(packet[20..22].try_into().expect("two bytes"))),
        );
    }
    came
}

/// Puts a packet to the gateway under an SA of its peer, whose inner packet has this source port.
fn put_forth(g: &mut Gateway, number: u16) {
    let inner = Ip::new(Side::B.lan(false, 10), Side::A.lan(false, 10)).udp(number, 9, b"text");
    let packet = craft_esp(Side::B, u32::from(number), &esp_text(&inner, 4), 0);
    g.put_wan(&packet);
}

#[test]
fn a_packet_whose_sa_comes_behind_much_else_waits_for_it() {
    let mut g = Gateway::with_sizes(Side::A, SIZES);
    g.add_policies(&Spec::default());
    g.worker.round_at(g.now);
    change_much(&mut g);
    g.add_sas(&Spec::default());
    (1..=100).for_each(|number| put_forth(&mut g, number));
    assert_eq!(opened(&mut g), (1..=100).collect::<Vec<u16>>());
    assert_eq!(g.drops(), []);
}

#[test]
fn a_packet_of_no_sa_waits_no_longer_than_the_worker_is_behind_and_few_do() {
    let mut g = Gateway::with_sizes(Side::A, SIZES);
    g.add_policies(&Spec::default());
    g.worker.round_at(g.now);
    put_forth(&mut g, 1);
    assert_eq!(opened(&mut g), []);
    assert_eq!(g.drops(), [(DropReason::InNoState, 1)]);
    change_much(&mut g);
    (2..=1000).for_each(|number| put_forth(&mut g, number));
    let mut most = 0;
    while g.worker.round_at(g.now) > 0 {
        g.check();
        most = most.max(g.all_counters().map(|counters| counters.totals().held).sum());
    }
    assert_eq!(most, 256, "no more than that wait");
    assert_eq!(g.lan_out().len(), 0);
    assert_eq!(g.drops(), [(DropReason::InNoState, 1000)]);
}
