//! Real frames: packet socket, veth, XDP, AF_XDP, and back.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::common::{Raw, again, ifindex, in_namespace, ip, nothing_comes, veth, wait_for};
use io::{
    Burst, ChunkSize, FramePool, HEADROOM, Packet, Port, Umem, UmemConfig, XskConfig, XskMode,
    XskQueue, XskRegion, XskTransfer,
};
use steer::device::{Device, Finding};
use steer::{Attached, Mode, Prefix, Steer, SteerConfig, SteerError, Verdict};
use wire::{EtherType, VlanTags};

fn region(chunks: u32) -> (XskRegion, FramePool) {
    let config = UmemConfig { chunks, chunk_size: ChunkSize::Bytes2048, populate: false };
    let (umem, pool) = Umem::new(config).expect("memory");
    (XskRegion::new(&umem), pool)
}

const SMALL: XskConfig = XskConfig { fill: 64, ready: 64, rx: 64, tx: 64, mode: XskMode::Auto };

fn open(region: &XskRegion, name: &str, queue: u32) -> XskQueue {
    let (port, transfer) = again(|| XskQueue::new(region, ifindex(name), queue, &SMALL));
    assert_eq!(transfer, XskTransfer::Copy, "veth has no zero copy");
    port
}

fn attach(name: &str, mode: Mode) -> Steer {
    let config = SteerConfig { mode, ..SteerConfig::default() };
    let (mut steer, attached) = again(|| Steer::load_and_attach(name, &config));
    let expected = if mode == Mode::Generic { Attached::Generic } else { Attached::Native };
    assert_eq!(attached, expected);
    let ten = Prefix::new(IpAddr::from([10, 0, 0, 0]), 8).expect("valid");
    steer.set_protected([ten]).expect("set");
    steer
}

/// A UDP datagram to `dst` with a number in its payload, `len` bytes in all.
fn frame(dst: [u8; 4], port: u16, number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0]);
    frame.extend(((len - 14) as u16).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0, 203, 0, 113, 7]);
    frame.extend(dst);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 9]);
    frame.extend(((len - 34) as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(len, 0xab);
    frame
}

const PROTECTED: [u8; 4] = [10, 1, 2, 3];
const OTHER: [u8; 4] = [198, 51, 100, 9];

/// Waits for packets on a port, until there are `count`.
fn receive(port: &mut XskQueue, pool: &mut FramePool, count: usize) -> Burst {
    let mut burst = Burst::new();
    wait_for("packets", || {
        port.rx(pool, &mut burst).expect("rx");
        (burst.len() >= count).then_some(())
    });
    burst
}

fn fill(port: &mut XskQueue, pool: &mut FramePool) {
    assert_eq!(port.rx(pool, &mut Burst::new()).expect("rx"), 0);
}

/// Waits until the kernel has given back all that a port sent; it holds nothing else.
fn all_sent(port: &mut XskQueue, pool: &mut FramePool) {
    wait_for("completions", || {
        port.reclaim(pool).expect("reclaim");
        (port.frames_held() == 0).then_some(())
    });
}

fn packet(pool: &mut FramePool, bytes: &[u8]) -> Packet {
    let mut frame = pool.take().expect("frame");
    let span = wire::Span { start: HEADROOM, len: bytes.len() };
    frame.bytes_mut()[span.range()].copy_from_slice(bytes);
    Packet { frame, span }
}

#[test]
fn frames_cross_from_one_interface_to_another() {
    for mode in [Mode::Native, Mode::Generic] {
        in_namespace(move || {
            veth("a0", "a1", 1);
            veth("b0", "b1", 1);
            let (region, mut pool) = region(512);
            let (mut from, mut to) = (open(&region, "a0", 0), open(&region, "b0", 0));
            let mut steer = attach("a0", mode);
            steer.set_socket(0, from.socket()).expect("set");
            fill(&mut from, &mut pool);
            let (outside, beyond, stack) = (Raw::open("a1"), Raw::open("b1"), Raw::open("a0"));
            for (number, len) in [60, 61, 1000, 1514].into_iter().enumerate() {
                let sent = frame(PROTECTED, 5, number as u32, len);
                outside.send(&sent);
                let mut burst = receive(&mut from, &mut pool, 1);
                assert_eq!(burst[0].data(), sent);
                assert_eq!(burst[0].span.start, HEADROOM, "room for outer headers");
                assert!(
                    region
                        .umem()
                        .accounting(&pool, from.frames_held() + to.frames_held(), 1)
                        .balances()
                );
                assert_eq!(to.tx(&mut burst, &mut pool).expect("tx"), 1);
                beyond.expect("frame", |frame| frame == sent);
                assert!(nothing_comes(|| stack.receive()), "taken, so the stack sees nothing");
            }
            // What is not protected reaches the stack and no socket.
            let other = frame(OTHER, 5, 9, 100);
            outside.send(&other);
            stack.expect("passed frame", |frame| frame == other);
            assert!(nothing_comes(|| {
                let mut burst = Burst::new();
                (from.rx(&mut pool, &mut burst).expect("rx") > 0).then_some(())
            }));
            let stats = steer.stats().expect("counters");
            assert_eq!(stats.count(Verdict::TakeTransit), 4);
            assert_eq!(stats.count(Verdict::PassTransit), 1);
            assert_eq!(stats.count(Verdict::NoSocket), 0);
            assert_eq!((from.stats().rx_packets, to.stats().tx_packets), (4, 4));
            assert_eq!(to.stats().tx_bytes, 60 + 61 + 1000 + 1514);
            let kernel = from.statistics().expect("statistics");
            assert_eq!((kernel.rx_dropped, kernel.rx_invalid_descs), (0, 0));
            all_sent(&mut to, &mut pool);
            assert!(region.umem().accounting(&pool, from.frames_held(), 0).balances());
        });
    }
}

/// Tags are in the frame on its way in and on its way out.
#[test]
fn frames_of_a_vlan_keep_their_tags() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        let (region, mut pool) = region(256);
        let mut port = open(&region, "a0", 0);
        let mut steer = attach("a0", Mode::Native);
        let outer = VlanTags::NONE.with(EtherType::SERVICE_VLAN, 7).expect("a VLAN");
        let stacked = outer.with(EtherType::VLAN, 100).expect("a VLAN");
        steer.set_vlans([stacked]).expect("set");
        steer.set_socket(0, port.socket()).expect("set");
        fill(&mut port, &mut pool);
        let (outside, stack) = (Raw::open("a1"), Raw::open("a0"));
        let tagged = |number, tags: &[u8]| {
            let mut sent = frame(PROTECTED, 5, number, 100);
            sent.splice(12..12, tags.iter().copied());
            sent
        };
        let sent = tagged(1, &[0x88, 0xa8, 0xa0, 7, 0x81, 0, 0xa0, 100]);
        outside.send(&sent);
        let mut burst = receive(&mut port, &mut pool, 1);
        assert_eq!(burst[0].data(), sent);
        assert_eq!(port.tx(&mut burst, &mut pool).expect("tx"), 1);
        // Linux shows the inner tag in the frame, and the outer one beside it.
        let behind = &sent[16..];
        outside.expect("the frame", |frame| frame.ends_with(behind));
        // Another VLAN's are Linux's.
        outside.send(&tagged(2, &[0x81, 0, 0, 9]));
        let passed = frame(PROTECTED, 5, 2, 100);
        stack.expect("passed frame", |frame| frame.ends_with(&passed[14..]));
        let stats = steer.stats().expect("counters");
        assert_eq!([Verdict::TakeTransit, Verdict::PassVlan].map(|v| stats.count(v)), [1, 1]);
    });
}

#[test]
fn what_waits_in_the_receive_ring_is_not_asked_for_twice() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        let (region, mut pool) = region(256);
        let mut port = open(&region, "a0", 0);
        let mut steer = attach("a0", Mode::Native);
        steer.set_socket(0, port.socket()).expect("set");
        fill(&mut port, &mut pool);
        let outside = Raw::open("a1");
        let mut came = 0;
        for number in 0..50_u32 {
            outside.send(&frame(PROTECTED, 5, number, 100));
        }
        wait_for("all packets", || {
            // Room for ten at a time, so that the rest has to wait.
            let mut burst = Burst::new();
            while burst.len() < 54 {
                burst.push(packet(&mut pool, &[]));
            }
            came += port.rx(&mut pool, &mut burst).expect("rx");
            assert!(port.frames_held() <= SMALL.fill as usize, "{}", port.frames_held());
            assert!(region.umem().accounting(&pool, port.frames_held(), burst.len()).balances());
            pool.put_burst(&mut burst);
            (came == 50).then_some(())
        });
        // And nothing less is there for what comes later.
        fill(&mut port, &mut pool);
        assert_eq!(port.frames_held(), SMALL.fill as usize);
    });
}

#[test]
fn frames_grow_at_the_front_without_a_copy() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        let (region, mut pool) = region(128);
        let mut port = open(&region, "a0", 0);
        let mut steer = attach("a0", Mode::Native);
        steer.set_socket(0, port.socket()).expect("set");
        fill(&mut port, &mut pool);
        let outside = Raw::open("a1");
        outside.send(&frame(PROTECTED, 5, 1, 200));
        let mut burst = receive(&mut port, &mut pool, 1);
        let inner = burst[0].data().to_vec();
        let packet = &mut burst[0];
        packet.span = wire::Span { start: packet.span.start - 100, len: packet.span.len + 150 };
        packet.data_mut()[..100].fill(0x33);
        packet.data_mut()[300..].fill(0x44);
        assert_eq!(port.tx(&mut burst, &mut pool).expect("tx"), 1);
        let got = outside.expect("grown frame", |frame| frame.len() == 350);
        assert_eq!(got, [vec![0x33; 100], inner, vec![0x44; 50]].concat());
    });
}

#[test]
fn every_queue_has_its_own_socket() {
    in_namespace(|| {
        veth("a0", "a1", 2);
        let (region, mut pool) = region(512);
        let mut queues = [open(&region, "a0", 0), open(&region, "a0", 1)];
        let mut steer = attach("a0", Mode::Native);
        for (number, queue) in queues.iter_mut().enumerate() {
            steer.set_socket(number as u32, queue.socket()).expect("set");
            fill(queue, &mut pool);
        }
        let device = Device::look("a0").expect("exists");
        assert_eq!((device.driver.as_str(), device.rx_queues, device.tx_queues), ("veth", 2, 2));
        let outside = Raw::open("a1");
        let mut got = [0; 2];
        // The peer spreads flows over its queues by hash.
        for number in 0..64 {
            outside.send(&frame(PROTECTED, 1000 + number as u16, number, 100));
        }
        wait_for("frames on both queues", || {
            for (queue, got) in queues.iter_mut().zip(&mut got) {
                let mut burst = Burst::new();
                *got += queue.rx(&mut pool, &mut burst).expect("rx");
                pool.put_burst(&mut burst);
            }
            (got[0] + got[1] == 64).then_some(())
        });
        assert!(got[0] > 0 && got[1] > 0, "{got:?}");
        let held = queues.iter().map(|queue| queue.frames_held()).sum();
        assert!(region.umem().accounting(&pool, held, 0).balances());
    });
}

#[test]
fn of_frames_on_several_cpus_one_is_the_sample() {
    for mode in [Mode::Native, Mode::Generic] {
        in_namespace(move || {
            const AT_ONCE: u64 = 8;
            veth("a0", "a1", 1);
            let mut steer = attach("a0", mode);
            // The first four bytes behind the IP header are the SPI.
            let mut esp = frame(OTHER, 5, 0, 100);
            esp[23] = 50;
            let (dst, spi) = (IpAddr::from(OTHER), 5 << 16 | 9);
            steer.set_local([dst]).expect("set");
            steer.add_sa(dst, spi).expect("set");
            let senders = [Raw::open("a1"), Raw::open("a1")];
            for round in 1..=200 {
                assert!(steer.sample_sa(dst, spi).expect("set"));
                let start = std::sync::Barrier::new(senders.len());
                std::thread::scope(|scope| {
                    for sender in &senders {
                        scope.spawn(|| {
                            start.wait();
                            (0..AT_ONCE).for_each(|_| sender.send(&esp));
                        });
                    }
                });
                let seen = wait_for("all frames", || {
                    let stats = steer.stats().expect("counters");
                    let seen = [Verdict::PassSample, Verdict::TakeEsp].map(|v| stats.count(v));
                    (seen.iter().sum::<u64>() >= round * AT_ONCE * 2).then_some(seen)
                });
                assert_eq!(seen, [round, round * (AT_ONCE * 2 - 1)]);
            }
        });
    }
}

#[test]
fn a_closed_socket_lets_frames_pass() {
    for mode in [Mode::Native, Mode::Generic] {
        in_namespace(move || {
            veth("a0", "a1", 1);
            let (region, mut pool) = region(128);
            let mut port = open(&region, "a0", 0);
            let mut steer = attach("a0", mode);
            steer.set_socket(0, port.socket()).expect("set");
            fill(&mut port, &mut pool);
            let (outside, stack) = (Raw::open("a1"), Raw::open("a0"));
            outside.send(&frame(PROTECTED, 5, 1, 100));
            let mut burst = receive(&mut port, &mut pool, 1);
            pool.put_burst(&mut burst);
            drop(port);
            let now = region.umem().accounting(&pool, 0, 0);
            assert!(now.balances() && now.quarantined == 0, "{now:?}");
            let sent = frame(PROTECTED, 5, 2, 100);
            // Another test's thread may be between fork and exec: its child then holds the closed
            // socket for a moment more, and the frames that come meanwhile are lost in it.
            let mut attempts = 0;
            wait_for("passed frame", || {
                outside.send(&sent);
                attempts += 1;
                (0..20).find_map(|_| {
                    std::thread::sleep(Duration::from_millis(1));
                    stack.receive().filter(|frame| *frame == sent)
                })
            });
            let passed = steer.stats().expect("counters").count(Verdict::NoSocket);
            assert!((1..=attempts).contains(&passed), "{passed} of {attempts}");
            // The queue can be opened again, and frames are taken again.
            let mut port = open(&region, "a0", 0);
            steer.set_socket(0, port.socket()).expect("set");
            fill(&mut port, &mut pool);
            outside.send(&frame(PROTECTED, 5, 3, 100));
            let mut burst = receive(&mut port, &mut pool, 1);
            pool.put_burst(&mut burst);
            // Taken out of the table by hand, too.
            steer.clear_socket(0).expect("clear");
            steer.clear_socket(0).expect("again");
            let sent = frame(PROTECTED, 5, 4, 100);
            outside.send(&sent);
            stack.expect("passed frame", |frame| frame == sent);
        });
    }
}

#[test]
fn a_deleted_interface_is_an_error_and_loses_no_frame() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        veth("b0", "b1", 1);
        let (region, mut pool) = region(512);
        let (mut port, mut other) = (open(&region, "a0", 0), open(&region, "b0", 0));
        let mut steer = attach("a0", Mode::Native);
        steer.set_socket(0, port.socket()).expect("set");
        fill(&mut port, &mut pool);
        fill(&mut other, &mut pool);
        port.check().expect("all is well");
        ip("link del a0");
        let error = wait_for("error", || port.check().err());
        assert!(error.is_gone(), "{error}");
        assert!(error.to_string().starts_with("a0 queue 0: the interface is gone"), "{error}");
        port.rx(&mut pool, &mut Burst::new()).ok();
        let mut burst = Burst::new();
        burst.push(packet(&mut pool, &frame(OTHER, 5, 1, 100)));
        let error = port.tx(&mut burst, &mut pool).expect_err("nowhere to send");
        assert!(error.is_gone(), "{error}");
        drop(port);
        let now = region.umem().accounting(&pool, other.frames_held(), burst.len());
        assert!(now.balances() && now.quarantined == 0, "{now:?}");
        steer.stats().expect("the tables are still there");
        drop(steer);
        // It was the socket that registered the region; the other one goes on, and so do new ones.
        let beyond = Raw::open("b1");
        let sent = frame(OTHER, 5, 2, 100);
        burst.clear();
        burst.push(packet(&mut pool, &sent));
        assert_eq!(other.tx(&mut burst, &mut pool).expect("tx"), 1);
        beyond.expect("frame", |frame| frame == sent);
        veth("a0", "a1", 1);
        let mut again = open(&region, "a0", 0);
        let outside = Raw::open("a1");
        burst.push(packet(&mut pool, &sent));
        assert_eq!(again.tx(&mut burst, &mut pool).expect("tx"), 1);
        outside.expect("frame", |frame| frame == sent);
    });
}

#[test]
fn a_link_that_is_down_keeps_packets_until_it_is_up() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        let (region, mut pool) = region(128);
        let mut port = open(&region, "a0", 0);
        let outside = Raw::open("a1");
        ip("link set a0 down");
        let mut burst = Burst::new();
        let sent = frame(OTHER, 5, 1, 100);
        burst.push(packet(&mut pool, &sent));
        assert_eq!(port.tx(&mut burst, &mut pool).expect("not an error"), 1);
        assert_eq!(port.frames_held(), 1);
        assert!(port.wakeups_refused() > 0);
        port.check().expect("down is not gone");
        ip("link set a0 up");
        port.reclaim(&mut pool).expect("reclaim");
        outside.expect("frame", |frame| frame == sent);
        all_sent(&mut port, &mut pool);
        // Down again with packets in the ring: the drop gets them back.
        ip("link set a0 down");
        for number in 0..10 {
            burst.push(packet(&mut pool, &frame(OTHER, 5, number, 100)));
        }
        assert_eq!(port.tx(&mut burst, &mut pool).expect("not an error"), 10);
        drop(port);
        let now = region.umem().accounting(&pool, 0, 0);
        assert!(now.balances() && now.quarantined == 0, "{now:?}");
    });
}

#[test]
fn overload_drops_packets_and_never_frames() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        veth("b0", "b1", 1);
        let (region, mut pool) = region(200);
        let (mut from, mut to) = (open(&region, "a0", 0), open(&region, "b0", 0));
        let mut steer = attach("a0", Mode::Native);
        steer.set_socket(0, from.socket()).expect("set");
        fill(&mut from, &mut pool);
        let outside = Raw::open("a1");
        let mut burst = Burst::new();
        for number in 0..3000_u32 {
            outside.send(&frame(PROTECTED, 5, number, 60 + number as usize % 1400));
            if number % 100 == 99 {
                // Not more at once than Linux queues between the ends of a veth.
                wait_for("the program to see them", || {
                    let seen = steer.stats().expect("counters").count(Verdict::TakeTransit);
                    (seen == u64::from(number) + 1).then_some(())
                });
                from.rx(&mut pool, &mut burst).expect("rx");
                to.tx(&mut burst, &mut pool).expect("tx");
                let held = from.frames_held() + to.frames_held();
                assert!(region.umem().accounting(&pool, held, burst.len()).balances());
            }
        }
        let lost = from.statistics().expect("statistics");
        assert!(lost.rx_ring_full + lost.rx_fill_ring_empty > 0, "{lost:?}");
        assert_eq!((lost.rx_invalid_descs, lost.tx_invalid_descs), (0, 0));
        let stats = steer.stats().expect("counters");
        assert_eq!(stats.count(Verdict::TakeTransit), 3000);
        drop((from, burst));
        all_sent(&mut to, &mut pool);
        drop(to);
        let now = region.umem().accounting(&pool, 0, 0);
        assert!(now.balances() && now.quarantined == 0, "{now:?}");
    });
}

#[test]
fn bad_packets_leave_the_burst_without_being_sent() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        let ((region, mut pool), (_other, mut foreign)) = (region(128), region(4));
        let mut port = open(&region, "a0", 0);
        let outside = Raw::open("a1");
        let good = frame(OTHER, 5, 1, 100);
        let mut burst = Burst::new();
        for span in [(HEADROOM, 13), (2000, 60), (usize::MAX, 60), (0, 0), (5000, 60)] {
            let mut bad = packet(&mut pool, &good);
            bad.span = wire::Span { start: span.0, len: span.1 };
            burst.push(bad);
        }
        // A good one in a frame of another region is sent as a copy.
        burst.push(packet(&mut foreign, &good));
        burst.push(packet(&mut pool, &good));
        assert_eq!(port.tx(&mut burst, &mut pool).expect("tx"), 7);
        outside.expect("the copy", |frame| frame == good);
        outside.expect("the good one", |frame| frame == good);
        assert_eq!((port.stats().tx_refused, port.stats().tx_packets), (5, 2));
        assert!(region.umem().accounting(&pool, port.frames_held(), 0).balances());
        assert_eq!(port.statistics().expect("statistics").tx_invalid_descs, 0);
    });
}

#[test]
fn errors_say_where_and_what_to_do() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        let (region, _pool) = region(128);
        let index = ifindex("a0");
        let open = |index, queue, config: XskConfig| {
            XskQueue::new(&region, index, queue, &config).expect_err("impossible").to_string()
        };
        let text = open(index, 0, XskConfig { mode: XskMode::ZeroCopy, ..SMALL });
        assert!(
            text.starts_with("a0 queue 0: bind failed") && text.contains("copy mode"),
            "{text}"
        );
        let text = open(index, 7, SMALL);
        assert!(
            text.starts_with("a0 queue 7: bind failed") && text.contains("ethtool -l"),
            "{text}"
        );
        let text = open(9999, 0, SMALL);
        assert!(text.contains("9999") && text.contains("ip link"), "{text}");
        let text = open(index, 0, XskConfig { rx: 100, ..SMALL });
        assert!(text.contains("XDP_RX_RING") && text.contains("powers of two"), "{text}");
        let first = XskQueue::new(&region, index, 0, &SMALL).expect("a queue");
        let text = open(index, 0, SMALL);
        assert!(text.contains("another program"), "{text}");
        drop(first);
        drop(again(|| XskQueue::new(&region, index, 0, &SMALL)));

        let first = attach("a0", Mode::Native);
        for mode in [Mode::Auto, Mode::Native, Mode::Generic] {
            let config = SteerConfig { mode, ..SteerConfig::default() };
            let error = Steer::load_and_attach("a0", &config).expect_err("taken");
            assert!(matches!(error, SteerError::Foreign { .. }), "{error}");
        }
        drop(first);
        drop(attach("a0", Mode::Generic));
        let error = Steer::load_and_attach("nope", &SteerConfig::default()).expect_err("none");
        assert!(error.to_string().contains("ip link"), "{error}");
        let mut steer = attach("a0", Mode::Native);
        let none = std::fs::File::open("/dev/null").expect("exists");
        assert!(matches!(
            steer.set_socket(0, none.as_fd()),
            Err(SteerError::Table { table: "xsks", .. })
        ));
        assert!(matches!(
            steer.set_socket(64, none.as_fd()),
            Err(SteerError::Table { table: "xsks", .. })
        ));
    });
}

/// Not a test of its own: what the next one starts and kills.
#[test]
fn helper_that_holds_an_interface() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    let (region, mut pool) = region(128);
    let mut port = open(&region, "a0", 0);
    let mut steer = attach("a0", Mode::Native);
    steer.set_socket(0, port.socket()).expect("set");
    fill(&mut port, &mut pool);
    std::thread::sleep(std::time::Duration::from_secs(20));
}

const HOLD: &str = "CULVERT_TEST_HOLDS_INTERFACE";

#[test]
fn a_killed_process_leaves_nothing_behind() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        let program = std::env::current_exe().expect("this program");
        let mut child = std::process::Command::new(program)
            .args(["--exact", "frames::helper_that_holds_an_interface"])
            .env(HOLD, "1")
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("a child");
        let (outside, stack) = (Raw::open("a1"), Raw::open("a0"));
        let sent = frame(PROTECTED, 5, 1, 100);
        wait_for("the child to take frames", || {
            outside.send(&sent);
            nothing_comes(|| stack.receive()).then_some(())
        });
        child.kill().expect("kill");
        child.wait().expect("wait");
        outside.send(&sent);
        stack.expect("passed frame", |frame| frame == sent);
        let steer = attach("a0", Mode::Native);
        assert_eq!(steer.stats().expect("counters").frames(), 0);
        let (region, _pool) = region(128);
        drop(open(&region, "a0", 0));
    });
}

#[test]
fn a_large_mtu_falls_back_or_takes_the_variant_for_fragments() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        ip("link set a0 mtu 9000");
        ip("link set a1 mtu 9000");
        let findings = Device::look("a0").expect("exists").findings(2048, false);
        assert!(matches!(
            findings[..2],
            [
                Finding::MtuTooLargeForNative { limit: 3506, .. },
                Finding::MtuTooLargeForChunk { .. }
            ]
        ));
        let native = SteerConfig { mode: Mode::Native, ..SteerConfig::default() };
        let error = Steer::load_and_attach("a0", &native).expect_err("too large");
        assert!(error.to_string().contains("MTU"), "{error}");
        let (steer, attached) =
            Steer::load_and_attach("a0", &SteerConfig::default()).expect("falls back");
        assert_eq!(attached, Attached::Generic);
        drop(steer);

        let frags = SteerConfig { frags: true, ..native };
        let (mut steer, attached) = again(|| Steer::load_and_attach("a0", &frags));
        assert_eq!(attached, Attached::Native);
        steer
            .set_protected([Prefix::new(IpAddr::from([10, 0, 0, 0]), 8).expect("valid")])
            .expect("set");
        let (region, mut pool) = region(128);
        let mut port = open(&region, "a0", 0);
        steer.set_socket(0, port.socket()).expect("set");
        fill(&mut port, &mut pool);
        let (outside, stack) = (Raw::open("a1"), Raw::open("a0"));
        let (short, long) = (frame(PROTECTED, 5, 1, 1000), frame(PROTECTED, 5, 2, 8000));
        outside.send(&long);
        outside.send(&short);
        let burst = receive(&mut port, &mut pool, 1);
        assert_eq!(burst[0].data(), short, "the long one was dropped");
        assert!(nothing_comes(|| stack.receive()), "and did not get by the policies");
        assert_eq!(steer.stats().expect("counters").count(Verdict::DropTooLong), 1);
        let other = frame(OTHER, 5, 3, 8000);
        outside.send(&other);
        stack.expect("long frame for others", |frame| frame == other);
    });
}
