//! Ports that are full, gone or slow, and memory that runs out.

use std::sync::mpsc::channel;

use dataplane::{Command, Event, PortKind, slots};
use outcome::DropReason;

use crate::packets::Ip;
use crate::support::{Gateway, LAN, Pair, Side, Sizes, Spec, WAN, ethernet, ip, route};

fn a_to_b() -> Ip {
    Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10))
}

#[test]
fn a_full_transmit_queue_drops_the_rest() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    g.wan.lock().set_limit(10);
    for n in 0..64 {
        g.put_lan(&a_to_b().sized(100, n));
    }
    g.run();
    assert_eq!(g.drops(), [(DropReason::TransmitFull, 54)]);
    assert_eq!(g.wan_out().len(), 10);
    assert_eq!(g.counters.totals().transmitted, 10);
}

#[test]
fn a_full_private_interface_drops_the_rest() {
    let mut g = Gateway::new(Side::A);
    g.linux.lock().set_limit(3);
    for n in 0..5 {
        g.put_lan(&a_to_b().sized(100, n));
    }
    g.run();
    assert_eq!(g.drops(), [(DropReason::LinuxFull, 2)]);
    assert_eq!(g.counters.totals().to_linux, 3);
    g.linux_out();
}

#[test]
fn a_port_that_goes_while_packets_come() {
    for is_sender in [false, true] {
        let mut g = Gateway::new(Side::A);
        g.protect(&Spec::default());
        for n in 0..100 {
            g.put_lan(&a_to_b().sized(100, n));
        }
        let (ifindex, port) = if is_sender { (LAN, g.lan.clone()) } else { (WAN, g.wan.clone()) };
        assert_eq!(g.worker.round_at(g.now), 64);
        g.check();
        port.lock().unplug();
        g.run();
        assert!(g.events().contains(&Event::PortGone { ifindex }), "{ifindex}");
        let lost = g.dropped(DropReason::TransmitDown);
        assert_eq!(lost, if is_sender { 0 } else { 36 });
        assert_eq!(g.wan_out().len(), 64);
        // It comes back under the same index and works again.
        let again = io::MemoryHandle::new("again", 512);
        let slot = if is_sender { 0 } else { 1 };
        let (done, told) = channel();
        let port = again.port();
        let add = Command::AddPort { slot, ifindex, port, kind: PortKind::Ethernet, done };
        g.commands.send(add).expect("worker");
        if is_sender {
            let frame = ethernet(Side::A.mac(LAN), Side::A.host_mac(10), &a_to_b().sized(100, 1));
            // What the old port held is still in its queue, outside the worker.
            let old = core::mem::replace(&mut g.lan, again);
            drain(&mut g, &old);
            let lan = g.lan.clone();
            g.put(&lan, &frame);
        } else {
            let old = core::mem::replace(&mut g.wan, again);
            drain(&mut g, &old);
            g.put_lan(&a_to_b().sized(100, 1));
        }
        g.run();
        assert_eq!(told.try_recv(), Ok(()));
        assert_eq!(g.wan_out().len(), 1);
    }
}

/// The last ports, and the last queue of each, are as good as the first ones.
#[test]
fn as_many_ports_as_there_may_be() {
    const FIRST: usize = 100;
    const LAST_TURN: usize = slots::QUEUES_PER_WORKER - 1;
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    // The gateway has three of its own in the first slots.
    let numbers = 3..slots::MAX_PORTS;
    for number in numbers.clone() {
        for turn in [0, LAST_TURN] {
            let queue = io::MemoryHandle::new(&format!("p{number}.{turn}"), 64);
            let slot = slots::of_turn(slots::of_port(number), turn).expect("a slot");
            let ifindex = (FIRST + number) as u32;
            g.worker.add_port(slot, ifindex, queue.port(), PortKind::Ethernet);
            g.more.push(queue);
        }
    }
    let net = |number: usize, len| {
        let host = if len == 32 { 2 } else { 0 };
        forward::Subnet { addr: ip(&format!("198.19.{number}.{host}")), len }
    };
    let (main, kind) = (forward::table::MAIN, forward::RouteKind::Unicast);
    let to = |number| route(main, net(number, 24), kind, Some((FIRST + number) as u32), None);
    g.set_topology_but(numbers.clone().map(to).collect(), |topology| {
        let like = topology.interfaces[&LAN].clone();
        for number in numbers.clone() {
            let port = Some(slots::of_port(number));
            topology
                .interfaces
                .insert((FIRST + number) as u32, dataplane::Interface { port, ..like.clone() });
        }
    });
    let mut neighbours = forward::Neighbours::clone(&g.tables.neighbours.load());
    for number in numbers.clone() {
        neighbours.insert(forward::NeighbourEntry {
            ifindex: (FIRST + number) as u32,
            addr: net(number, 32).addr,
            mac: Some(Side::A.host_mac(10)),
            state: forward::NeighbourState::Reachable,
        });
    }
    g.tables.neighbours.store(std::sync::Arc::new(neighbours));
    let queues = g.more.clone();
    let protected = ethernet(Side::A.mac(LAN), Side::A.host_mac(10), &a_to_b().sized(100, 1));
    for _ in 0..2 {
        // Each queue receives; to each port is sent, by its first queue.
        queues.iter().for_each(|queue| g.put_into(queue, &protected, io::HEADROOM));
        for number in numbers.clone() {
            g.put_linux(&Ip::new(Side::A.lan(false, 1), net(number, 32).addr).sized(100, 1));
        }
        g.run();
        assert_eq!(g.wan_out().len(), queues.len());
        for (at, queue) in queues.iter().enumerate() {
            assert_eq!(g.take(queue).len(), usize::from(at % 2 == 0), "{at}");
        }
        assert_eq!(g.drops(), []);
    }
    // All of them sleep and go with the worker.
    let stats = || {
        let (answer, stats) = channel();
        (Command::PortStats(answer), stats)
    };
    let (command, all) = stats();
    g.commands.send(command).expect("worker");
    g.commands.send(Command::RemovePorts { ifindex: (FIRST + 40) as u32 }).expect("worker");
    let (command, rest) = stats();
    g.commands.send(command).expect("worker");
    g.run();
    let [all, rest] = [all, rest].map(|stats| stats.recv().expect("answer").len());
    assert_eq!((all, rest), (3 + queues.len(), 3 + queues.len() - 2));
    g.put_into(&queues[0], &protected, io::HEADROOM);
    g.put_into(&queues[queues.len() - 1], &protected, io::HEADROOM);
    g.run();
    assert_eq!(g.wan_out().len(), 2);
}

/// Takes back what was to be received by a port that is gone.
fn drain(g: &mut Gateway, port: &io::MemoryHandle) {
    let (_umem, mut pool) = io::Umem::new(io::UmemConfig {
        chunks: 1,
        chunk_size: io::ChunkSize::Bytes2048,
        populate: false,
    })
    .expect("memory");
    // The port refuses to work, but a fresh one that gets its packets does not.
    let mut burst = io::Burst::new();
    assert!(io::Port::rx(&mut port.clone(), &mut pool, &mut burst).is_err());
    while let Some(packet) = port.lock().take_back() {
        g.stock.push(packet.frame);
    }
}

#[test]
fn the_private_interface_may_be_missing() {
    let mut g = Gateway::new(Side::A);
    g.commands.send(Command::RemovePorts { ifindex: crate::support::TUN }).expect("worker");
    g.put_lan(&a_to_b().sized(100, 1));
    g.run();
    assert_eq!(g.drops(), [(DropReason::LinuxFull, 1)]);
}

#[test]
fn an_interface_that_is_down_or_no_port() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    // The route to the peer leads over an interface that is not a port.
    let peer = forward::Subnet { addr: Side::B.wan(false), len: 32 };
    let kind = forward::RouteKind::Unicast;
    let main = forward::table::MAIN;
    let other = crate::support::route(main, peer, kind, Some(crate::support::OTHER), None);
    g.set_topology(1500, vec![other]);
    g.put_lan(&a_to_b().sized(100, 1));
    g.run();
    assert_eq!(g.drops(), [(DropReason::EgressNotPort, 1)]);
    assert!(g.linux_out().is_empty());
    g.set_topology_with(1500, Vec::new(), Vec::new(), false);
    g.put_lan(&a_to_b().sized(100, 1));
    g.run();
    assert_eq!(g.dropped(DropReason::TransmitDown), 1);
}

#[test]
fn what_happens_only_once_is_told_when_there_is_room_again() {
    let mut g = Gateway::new(Side::A);
    let filler = Event::PortGone { ifindex: 99 };
    while g.event_sender.send(filler) {}
    g.lan.lock().unplug();
    g.run();
    assert!(g.events().iter().all(|event| *event == filler));
    g.run();
    assert_eq!(g.events(), [Event::PortGone { ifindex: LAN }]);
}

#[test]
fn without_free_frames_fragments_are_lost_and_counted() {
    let sizes = Sizes { chunks: 64, stock: 62, port_limit: 64 };
    let mut g = Gateway::with_sizes(Side::A, sizes);
    g.protect(&Spec::default());
    for n in 0..10 {
        g.put_lan(&a_to_b().sized(1500, n));
    }
    g.run();
    let lost = g.dropped(DropReason::NoFrames);
    assert!(lost > 0);
    assert_eq!(g.wan_out().len() as u64 + lost, 20);
}

#[test]
fn too_little_room_in_front() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let lan = g.lan.clone();
    let frame = ethernet(Side::A.mac(LAN), Side::A.host_mac(10), &a_to_b().sized(100, 1));
    g.put_at(&lan, &frame, 0);
    // Exactly as much as the headers need: 20 + 8 + 8, and Ethernet's is there.
    g.put_at(&lan, &frame, 36);
    g.put_at(&lan, &frame, 35);
    g.run();
    assert_eq!(g.drops(), [(DropReason::OutNoRoom, 2)]);
    assert_eq!(g.wan_out().len(), 1);
}

/// Runs as the daemon runs it: asleep when idle, woken by a command.
#[test]
fn an_idle_worker_sleeps_and_is_woken() {
    let mut g = Gateway::new(Side::A);
    let counters = std::sync::Arc::clone(&g.counters);
    let (commands, waker) = (g.commands.clone(), g.waker.clone());
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| g.worker.run());
        while counters.work.sleeps.value() < 2 {
            std::thread::yield_now();
        }
        commands.send(Command::Stop).expect("worker");
        waker.wake();
        worker.join().expect("an orderly end");
    });
}

#[test]
fn commands_are_obeyed_and_the_end_is_orderly() {
    let mut pair = Pair::new(&Spec::default());
    let g = &mut pair.a;
    g.put_lan(&a_to_b().sized(100, 1));
    g.run();
    let (answer, stats) = channel();
    g.commands.send(Command::PortStats(answer)).expect("worker");
    g.run();
    let stats = stats.recv().expect("answer");
    let of = |ifindex| stats.iter().find(|s| s.0 == ifindex).expect("port").1;
    assert_eq!((of(LAN).rx_packets, of(WAN).tx_packets), (1, 1));
    // One packet that waits when the worker ends is dropped, not forgotten.
    g.set_neighbours(forward::NeighbourState::Incomplete);
    g.put_lan(&a_to_b().sized(100, 2));
    g.run();
    assert_eq!(g.counters.totals().held, 1);
    g.commands.send(Command::Stop).expect("worker");
    g.worker.run();
    assert_eq!(g.counters.totals().held, 0);
    assert_eq!(g.dropped(DropReason::TransmitDown), 1);
    g.wan_out();
}
