//! Several workers: each SA has one home, packets are handed over to it, and nothing else changes.

use core::sync::atomic::Ordering::Relaxed;

use dataplane::{Command, MAX_WORKERS, Team, Waker};
use policy::VolumeLimits;

use crate::packets::Ip;
use crate::support::{Gateway, LAN, Side, Sizes, Spec, ethernet};

const SIZES: Sizes = Sizes { chunks: 16384, stock: 8192, port_limit: 2048 };

fn gateway(side: Side, workers: usize, spec: &Spec) -> Gateway {
    let mut gateway = Gateway::with_workers(side, SIZES, 1024, workers);
    gateway.protect(spec);
    gateway
}

/// A host's packet of one of many flows, told by its source port; its first bytes number it.
fn packet(from: Side, flow: u16, number: u16) -> Vec<u8> {
    let header = Ip::new(from.lan(false, 10), from.other().lan(false, 10));
    header.udp(1000 + flow, 2000, &[&number.to_be_bytes()[..], &[7; 40]].concat())
}

fn number(esp: &[u8]) -> u32 {
    u32::from_be_bytes(esp[24..28].try_into().expect("four"))
}

/// The order within each flow, and how many packets there were.
fn order_in_flows(packets: &[Vec<u8>], flows: u16) -> usize {
    for flow in 0..flows {
        let of = |p: &&Vec<u8>| u16::from_be_bytes([p[20], p[21]]) == 1000 + flow;
        let numbers = packets.iter().filter(of).map(|p| u16::from_be_bytes([p[28], p[29]]));
        assert!(numbers.is_sorted(), "flow {flow}");
    }
    packets.len()
}

#[test]
fn one_sa_has_one_home_whatever_worker_receives() {
    for workers in [2, 4] {
        let spec = Spec { replay_window: 32, ..Spec::default() };
        let (mut a, mut b) = (gateway(Side::A, workers, &spec), gateway(Side::B, workers, &spec));
        let mut sent = 0;
        for round in 0..40_u16 {
            for n in 0..200 {
                a.put_lan(&packet(Side::A, n % 16, round * 200 + n));
            }
            a.run();
            let carried = a.wan_out();
            // In the order of their numbers, without a gap: the home alone gave them.
            let numbers: Vec<u32> = carried.iter().map(|p| number(p)).collect();
            assert_eq!(numbers, (sent + 1..=sent + 200).collect::<Vec<_>>());
            sent += 200;
            carried.iter().for_each(|p| b.put_wan(p));
            b.run();
            assert_eq!(order_in_flows(&b.lan_out(), 16), 200);
        }
        assert_eq!((a.drops(), b.drops()), (vec![], vec![]));
        let home = a.sa(Side::A, &spec).home().at();
        assert!(home < workers, "{home}");
        let handed: u64 = a.all_counters().map(|c| c.totals().handed_over).sum();
        assert!(handed > 1000, "other workers received most of it: {handed}");
        let [out, back] = [&a, &b].map(|g| g.sa(Side::A, &spec));
        for sa in [out, back] {
            let bytes = 70 * u64::from(sent);
            assert_eq!(sa.esp.live().packets().load(Relaxed), u64::from(sent));
            assert_eq!(sa.esp.live().bytes().load(Relaxed), bytes);
        }
        // Policies count each packet once, where it was resolved.
        let counted = a.db.policies().find(|p| p.config.index == 11).expect("out").packets();
        assert_eq!(counted, u64::from(sent));
    }
}

#[test]
fn a_limit_in_packets_is_exact() {
    let limits = VolumeLimits { soft_packets: 150, hard_packets: 333, ..VolumeLimits::NONE };
    let spec = Spec { limits, ..Spec::default() };
    let mut a = gateway(Side::A, 4, &spec);
    for n in 0..1000 {
        a.put_lan(&packet(Side::A, n % 64, n));
    }
    a.run();
    assert_eq!(a.wan_out().len(), 333);
    let events: Vec<String> = a.events().iter().map(|event| format!("{event:?}")).collect();
    let told = |hard: &str| events.iter().filter(|e| e.contains(hard)).count();
    assert_eq!((told("hard: false"), told("hard: true")), (1, 1), "{events:?}");
}

/// Packets wait where they came, and go on in the order of each flow when the SA is there.
#[test]
fn held_packets_find_the_home() {
    let spec = Spec::default();
    let mut a = Gateway::with_workers(Side::A, SIZES, 1024, 4);
    a.add_policies(&spec);
    for n in 0..160 {
        a.put_lan(&packet(Side::A, n % 32, n));
    }
    a.run();
    let held: u64 = a.all_counters().map(|c| c.totals().held).sum();
    assert_eq!(held, 160);
    a.add_sas(&spec);
    a.run();
    let carried = a.wan_out();
    assert_eq!(carried.len(), 160);
    let mut b = gateway(Side::B, 1, &spec);
    carried.iter().for_each(|p| b.put_wan(p));
    b.run();
    assert_eq!(order_in_flows(&b.lan_out(), 32), 160);
    assert_eq!(a.drops(), vec![]);
}

/// All workers together hold as much as one alone may.
/// Ports whose packets are all for a worker that is behind wait for it; their own worker's never do.
#[test]
fn ports_wait_for_a_worker_that_is_behind() {
    let spec = Spec::default();
    let rounds = |a: &mut Gateway, count: usize| {
        for _ in 0..count {
            a.worker.round_at(a.now);
        }
    };
    let behind = || {
        let a = gateway(Side::A, 2, &spec);
        // Its home does not come to take anything over.
        assert_eq!(a.sa(Side::A, &spec).home().claim(1), 1);
        let lan = a.lan.clone();
        let put = move |a: &mut Gateway, packet: &[u8]| {
            let frame = ethernet(Side::A.mac(LAN), Side::A.host_mac(10), packet);
            a.put_into(&lan, &frame, io::HEADROOM);
        };
        (a, put)
    };
    let (mut a, put) = behind();
    (0..2048).for_each(|n| put(&mut a, &packet(Side::A, n % 16, n)));
    rounds(&mut a, 100);
    let half = a.counters.totals().handed_over;
    assert!((1025..1025 + 64).contains(&half), "half of the queue: {half}");
    a.now.ns += 60_000;
    rounds(&mut a, 2);
    assert!(a.counters.totals().handed_over > half, "but not for long");
    a.run();

    // With one packet in a burst for the worker itself, or for Linux, nothing waits.
    let (mut a, put) = behind();
    let local = Ip::new(Side::A.lan(false, 10), Side::A.lan(false, 1)).udp(1, 2, &[0; 40]);
    for n in 0..2000 {
        let carried = packet(Side::A, n % 16, n);
        put(&mut a, if n % 32 == 0 { &local } else { &carried });
    }
    rounds(&mut a, 2000 / 64 + 1);
    let totals = a.counters.totals();
    assert_eq!((totals.received, totals.to_linux, totals.dropped), (2000, 63, 0));
    a.run();
}

#[test]
fn limits_do_not_multiply() {
    for workers in [1, 4] {
        let mut a = Gateway::with_workers(Side::A, SIZES, 1024, workers);
        a.add_policies(&Spec::default());
        for n in 0..4000_u16 {
            a.put_lan(&packet(Side::A, n, n));
            if n % 500 == 499 {
                a.run();
            }
        }
        a.run();
        let held: u64 = a.all_counters().map(|c| c.totals().held).sum();
        // For one SA.
        assert!((200..=1024).contains(&held), "{workers} workers hold {held}");
        // Errors: a burst of 50, of all workers together.
        let mut b = gateway(Side::B, workers, &Spec::default());
        for n in 0..400 {
            let late = Ip { ttl: 1, ..Ip::new(Side::B.lan(false, 10), Side::A.lan(false, 10)) };
            b.put_lan(&late.udp(1000 + n, 2000, &[7; 40]));
        }
        b.run();
        let errors: u64 = b.all_counters().map(|c| c.work.icmp_errors.value()).sum();
        assert_eq!(errors, 50, "{workers} workers");
    }
}

/// A worker without a queue of the interface, or of the private one, has the first worker send.
#[test]
fn the_first_worker_sends_for_those_without_a_queue() {
    let spec = Spec::default();
    let (mut a, mut b) = (gateway(Side::A, 2, &spec), gateway(Side::B, 2, &spec));
    let (wan, tun) = (crate::support::WAN, crate::support::TUN);
    for ifindex in [wan, tun] {
        a.others[0].commands.send(Command::RemovePorts { ifindex }).expect("it listens");
    }
    // That worker is the home.
    assert_eq!(a.sa(Side::A, &spec).home().claim(1), 1);
    for n in 0..100 {
        a.put_lan(&packet(Side::A, n, n));
    }
    a.run();
    let carried = a.wan_out();
    assert_eq!(carried.len(), 100);
    carried.iter().for_each(|p| b.put_wan(p));
    b.run();
    assert_eq!(b.lan_out().len(), 100);
    // Cleartext for Linux, by the worker that cannot give it.
    let lan = a.others[0].ports[0].clone();
    let clear = Ip::new(Side::A.lan(false, 10), Side::A.lan(false, 1)).sized(80, 1);
    let frame =
        crate::support::ethernet(Side::A.mac(crate::support::LAN), Side::A.host_mac(10), &clear);
    a.put_into(&lan, &frame, io::HEADROOM);
    a.run();
    assert_eq!(a.linux_out(), [clear]);
    assert_eq!(a.drops(), vec![]);
}

/// Four workers become two, one, three: packets that wait and packets on their way come through, numbers
/// go on, and flows are decided anew.
#[test]
fn workers_come_and_go() {
    let spec = Spec { replay_window: 32, ..Spec::default() };
    let (mut a, mut b) = (gateway(Side::A, 4, &spec), gateway(Side::B, 1, &spec));
    let mut sent = 0;
    for workers in [4, 2, 1, 3, 4] {
        a.set_workers(workers);
        for n in 0..200 {
            a.put_lan(&packet(Side::A, n % 16, n));
        }
        a.run();
        let carried = a.wan_out();
        let numbers: Vec<u32> = carried.iter().map(|p| number(p)).collect();
        assert_eq!(numbers, (sent + 1..=sent + 200).collect::<Vec<_>>(), "{workers} workers");
        sent += 200;
        carried.iter().for_each(|p| b.put_wan(p));
        b.run();
        assert_eq!(order_in_flows(&b.lan_out(), 16), 200);
        assert!(a.sa(Side::A, &spec).home().at() < workers);
    }
    assert_eq!((a.drops(), b.drops()), (vec![], vec![]));
}

/// Held packets of a worker that goes are another's, and still wait.
#[test]
fn what_waits_survives_the_worker() {
    let spec = Spec::default();
    let mut a = Gateway::with_workers(Side::A, SIZES, 1024, 4);
    a.add_policies(&spec);
    for n in 0..160 {
        a.put_lan(&packet(Side::A, n % 32, n));
    }
    a.run();
    a.set_workers(1);
    assert_eq!(a.all_counters().map(|c| c.totals().held).sum::<u64>(), 160);
    a.add_sas(&spec);
    a.run();
    assert_eq!(a.wan_out().len(), 160);
    assert_eq!(a.drops(), vec![]);
}

/// Four real threads, more than most test machines have cores.
#[test]
fn four_threads_keep_order_and_numbers() {
    let spec = Spec { replay_window: 32, ..Spec::default() };
    let (mut a, mut b) = (gateway(Side::A, 4, &spec), gateway(Side::B, 1, &spec));
    let mut last = 0;
    for round in 0..20_u16 {
        for n in 0..300 {
            a.put_lan(&packet(Side::A, n % 24, round * 300 + n));
        }
        a.run_threads(u64::from(round + 1) * 300);
        let carried = a.wan_out();
        let numbers: Vec<u32> = carried.iter().map(|p| number(p)).collect();
        assert_eq!(numbers, (last + 1..=last + 300).collect::<Vec<_>>());
        last += 300;
        carried.iter().for_each(|p| b.put_wan(p));
        b.run();
        assert_eq!(order_in_flows(&b.lan_out(), 24), 300);
    }
    assert_eq!((a.drops(), b.drops()), (vec![], vec![]));
}

#[test]
fn a_set_has_a_limit() {
    let wakers: Vec<Waker> = (0..MAX_WORKERS + 5).map(|_| Waker::new().expect("eventfd")).collect();
    assert_eq!(Team::of(&wakers).len(), MAX_WORKERS);
    assert_eq!(Team::alone().number(), 0);
}
