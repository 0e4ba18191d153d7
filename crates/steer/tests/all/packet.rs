//! Ports of packet sockets on real interfaces: what they get, what Linux gets, and super-packets both ways.

use std::net::{IpAddr, UdpSocket};

use crate::common::{Raw, ifindex, in_namespace, ip, nothing_comes, veth, wait_for};
use io::{Burst, ChunkSize, FramePool, Packet, PacketConfig, PacketSocket, Port, Umem, UmemConfig};
use steer::{Attached, Hook, Prefix, Steer, SteerConfig, Verdict};
use wire::{EtherType, VlanTags};

const PROTECTED: [u8; 4] = [10, 1, 2, 3];
const OTHER: [u8; 4] = [198, 51, 100, 9];

fn pool() -> (Umem, FramePool) {
    let config = UmemConfig { chunks: 512, chunk_size: ChunkSize::Bytes2048, populate: false };
    Umem::new(config).expect("memory")
}

/// Ports on an interface, and the program, which takes nothing yet.
fn open(name: &str, count: usize) -> (Steer, Vec<PacketSocket>) {
    let config = SteerConfig { hook: Hook::Packet, ..SteerConfig::default() };
    let mut steer = Steer::load(&steer::Loader::new(), name, &config).expect("loads");
    let ten = Prefix::new(IpAddr::from([10, 0, 0, 0]), 8).expect("valid");
    steer.set_protected([ten]).expect("set");
    let filter = steer.filter().expect("loaded");
    let config = PacketConfig { interface: name, ifindex: ifindex(name), filter };
    let ports = PacketSocket::open_several(&config, count).expect("sockets");
    (steer, ports)
}

/// A UDP datagram to `dst` with a number in its payload, `len` bytes in all.
fn frame(dst: [u8; 4], number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0]);
    frame.extend(((len - 14) as u16).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0, 203, 0, 113, 7]);
    frame.extend(dst);
    frame.extend([0, number as u8, 0, 9]);
    frame.extend(((len - 34) as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(len, 0xab);
    frame
}

fn receive(port: &mut PacketSocket, pool: &mut FramePool) -> Option<Burst> {
    let mut burst = Burst::new();
    port.rx(pool, &mut burst).expect("rx");
    (!burst.is_empty()).then_some(burst)
}

#[test]
fn what_is_taken_does_not_reach_linux_and_the_rest_no_socket() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        // To whom the frames are: Linux does not count those of others.
        ip("link set a0 address 02:00:00:00:00:01");
        let (_umem, mut pool) = pool();
        let (mut steer, mut ports) = open("a0", 1);
        let port = &mut ports[0];
        let outside = Raw::open("a1");
        let received = |name: &str| {
            let path = "/proc/thread-self/net/snmp";
            let text = std::fs::read_to_string(path).expect(name);
            let line = text.lines().filter(|line| line.starts_with("Ip: ")).nth(1).expect("values");
            line.split(' ').nth(3).and_then(|n| n.parse::<u64>().ok()).expect("InReceives")
        };
        // Not open yet: Linux has it all.
        let before = received("before");
        outside.send(&frame(PROTECTED, 1, 100));
        wait_for("Linux's", || (received("snmp") > before).then_some(()));
        assert!(nothing_comes(|| receive(port, &mut pool)));
        assert_eq!(steer.attach(steer::Mode::Auto).expect("attached"), Attached::Tcx);
        let before = received("before");
        for (number, len) in [60, 61, 1000, 1514].into_iter().enumerate() {
            let sent = frame(PROTECTED, number as u32, len);
            outside.send(&sent);
            let mut burst = wait_for("packet", || receive(port, &mut pool));
            assert_eq!(burst[0].data(), sent);
            pool.put_burst(&mut burst);
        }
        assert_eq!(received("after"), before, "ended at tc ingress");
        outside.send(&frame(OTHER, 9, 100));
        wait_for("Linux's", || (received("snmp") > before).then_some(()));
        assert!(nothing_comes(|| receive(port, &mut pool)));
        let stats = steer.stats().expect("counters");
        assert_eq!(stats.count(Verdict::TakeTransit), 4);
        assert_eq!(stats.count(Verdict::PassTransit), 1);
        assert_eq!((port.stats().rx_packets, port.stats().rx_bytes), (4, 60 + 61 + 1000 + 1514));
        // The program goes, and the socket gets nothing that Linux has.
        let before = received("before");
        drop(steer);
        outside.send(&frame(PROTECTED, 1, 100));
        wait_for("Linux's", || (received("snmp") > before).then_some(()));
        assert!(nothing_comes(|| receive(port, &mut pool)));
    });
}

#[test]
fn a_tag_that_the_kernel_takes_out_is_put_back() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        let (_umem, mut pool) = pool();
        let (mut steer, mut ports) = open("a0", 1);
        steer.attach(steer::Mode::Auto).expect("attached");
        let seven = VlanTags::NONE.with(EtherType::VLAN, 7).expect("a VLAN");
        let untagged = frame(PROTECTED, 1, 100);
        let tagged = [&untagged[..12], &[0x81, 0, 0x20, 7], &untagged[12..]].concat();
        let outside = Raw::open("a1");
        outside.send(&tagged);
        assert!(nothing_comes(|| receive(&mut ports[0], &mut pool)), "a VLAN that nobody knows");
        steer.set_vlans([seven]).expect("set");
        outside.send(&tagged);
        let mut burst = wait_for("packet", || receive(&mut ports[0], &mut pool));
        assert_eq!(burst[0].data(), tagged);
        // And it goes out as it stands there.
        assert_eq!(ports[0].tx(&mut burst, &mut pool).expect("tx"), 1);
        let back =
            wait_for("frame", || outside.receive().filter(|frame| frame[..6] == tagged[..6]));
        // The outside's socket has it taken out too.
        assert_eq!(back, untagged);
    });
}

fn set_mark(socket: &UdpSocket, mark: u32) {
    // SAFETY: the pointer and the length describe `mark`, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            std::os::fd::AsRawFd::as_raw_fd(socket),
            libc::SOL_SOCKET,
            libc::SO_MARK,
            (&raw const mark).cast(),
            4,
        )
    };
    assert_eq!(result, 0, "SO_MARK");
}

#[test]
fn what_was_given_back_passes() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        let (_umem, mut pool) = pool();
        let (mut steer, mut ports) = open("a0", 1);
        steer.set_given_back(77).expect("set");
        steer.attach(steer::Mode::Auto).expect("attached");
        // The same network namespace: the mark crosses the pair.
        ip("addr add 192.0.2.1/24 dev a1");
        ip("route add 10.0.0.0/8 via 192.0.2.2");
        ip("neigh add 192.0.2.2 dev a1 lladdr 02:00:00:00:00:99");
        let socket = UdpSocket::bind("192.0.2.1:0").expect("a socket");
        for (mark, comes) in [(77, false), (!77, false), (78, true), (0, true)] {
            set_mark(&socket, mark);
            socket.send_to(b"x", (IpAddr::from(PROTECTED), 9)).expect("sent");
            match comes {
                true => drop(wait_for("packet", || receive(&mut ports[0], &mut pool))),
                false => assert!(nothing_comes(|| receive(&mut ports[0], &mut pool)), "{mark}"),
            }
        }
    });
}

#[test]
fn sockets_share_what_comes_by_flows() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        let (_umem, mut pool) = pool();
        let (mut steer, mut ports) = open("a0", 3);
        steer.attach(steer::Mode::Auto).expect("attached");
        let outside = Raw::open("a1");
        (0..30).for_each(|flow| outside.send(&frame(PROTECTED, flow, 100)));
        (0..30).for_each(|flow| outside.send(&frame(PROTECTED, flow, 100)));
        let mut by_port = [const { Vec::new() }; 3];
        wait_for("all packets", || {
            for (port, got) in ports.iter_mut().zip(&mut by_port) {
                let mut burst = Burst::new();
                port.rx(&mut pool, &mut burst).expect("rx");
                got.extend(burst.iter().map(|packet| packet.data()[35]));
                pool.put_burst(&mut burst);
            }
            (by_port.iter().map(Vec::len).sum::<usize>() == 60).then_some(())
        });
        for got in &by_port {
            assert!(!got.is_empty(), "{by_port:?}");
            let mut flows = got.clone();
            flows.sort_unstable();
            assert!(flows.chunks(2).all(|two| two[0] == two[1]), "a flow is at one port");
        }
    });
}

/// A datagram or TCP segment with the checksums right, as the `number`th of its flow.
fn part(is_tcp: bool, number: u16, payload_len: usize) -> Vec<u8> {
    let header_len = if is_tcp { 20 } else { 8 };
    let len = header_len + payload_len;
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, if is_tcp { 6 } else { 17 }, 0, 0];
    ip[2..4].copy_from_slice(&(20 + len as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&(100 + number).to_be_bytes());
    ip.extend([203, 0, 113, 7]);
    ip.extend(PROTECTED);
    let sum = |bytes: &[u8]| io::checksum::Sum::default().bytes(bytes);
    let checksum = sum(&ip).checksum();
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let mut transport = vec![0, 5, 0, 9];
    if is_tcp {
        transport.extend((1000 + u32::from(number) * 1400).to_be_bytes());
        transport.extend([0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    } else {
        transport.extend((len as u16).to_be_bytes());
        transport.extend([0, 0]);
    }
    transport.extend((0..payload_len).map(|at| (at as u16 * 7 + number) as u8));
    let pseudo = io::checksum::pseudo_header(&ip[12..20], ip[9]).word(len as u16).folded();
    let checksum = sum(&transport).word(pseudo).checksum();
    let at = if is_tcp { 16 } else { 6 };
    transport[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip, &transport].concat()
}

#[test]
fn bursts_cross_in_super_packets_and_come_as_they_were() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        let (umem, mut pool) = pool();
        let (mut near, mut from) = open("a0", 1);
        let (mut far, mut to) = open("a1", 1);
        near.attach(steer::Mode::Auto).expect("attached");
        far.attach(steer::Mode::Auto).expect("attached");
        let (from, to) = (&mut from[0], &mut to[0]);
        let wire = Raw::open("a1");
        for is_tcp in [true, false] {
            let len = |number| if number == 29 { 300 } else { 1400 };
            let frames: Vec<_> = (0..30).map(|number| part(is_tcp, number, len(number))).collect();
            let mut burst = Burst::new();
            for frame in &frames {
                let mut place = pool.take().expect("frame");
                let span = wire::Span { start: place.headroom(), len: frame.len() };
                place.bytes_mut()[span.range()].copy_from_slice(frame);
                burst.push(Packet { frame: place, span });
            }
            assert_eq!(from.tx(&mut burst, &mut pool).expect("tx"), 30);
            wire.expect("one super-packet", |frame| frame.len() > 29 * 1400);
            let mut got = wait_for("packets", || receive(to, &mut pool));
            assert_eq!(got.len(), 30);
            for (packet, frame) in got.iter().zip(&frames) {
                assert!(packet.data() == frame, "is TCP: {is_tcp}");
            }
            pool.put_burst(&mut got);
        }
        assert_eq!((from.joined(), from.joins()), (60, true));
        assert_eq!((from.stats().tx_packets, to.stats().rx_packets), (60, 60));
        assert_eq!(from.stats().tx_bytes, to.stats().rx_bytes);
        assert!(umem.accounting(&pool, 0, 0).balances());
    });
}

#[test]
fn what_does_not_fit_a_burst_whole_begins_the_next() {
    in_namespace(|| {
        veth("a0", "a1", 1);
        let (_umem, mut pool) = pool();
        let (_near, mut from) = open("a0", 1);
        let (mut far, mut to) = open("a1", 1);
        far.attach(steer::Mode::Auto).expect("attached");
        for first in [0, 40] {
            let mut burst = Burst::new();
            for number in first..first + 40 {
                let mut place = pool.take().expect("frame");
                let bytes = part(true, number, 1400);
                let span = wire::Span { start: place.headroom(), len: bytes.len() };
                place.bytes_mut()[span.range()].copy_from_slice(&bytes);
                burst.push(Packet { frame: place, span });
            }
            assert_eq!(from[0].tx(&mut burst, &mut pool).expect("tx"), 40);
        }
        // Both are there.
        std::thread::sleep(std::time::Duration::from_millis(20));
        for _ in 0..2 {
            let mut burst = wait_for("packets", || receive(&mut to[0], &mut pool));
            assert_eq!(burst.len(), 40);
            pool.put_burst(&mut burst);
        }
    });
}
