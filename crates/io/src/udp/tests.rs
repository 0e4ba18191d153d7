//! A port of one socket, and a plain socket as its peer, over the loopback interface.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

use super::headers::{UDP_LEN, headers_len};
use super::*;
use crate::packet::socket::set;
use crate::umem::{ChunkSize, Packet, Umem, UmemConfig};
use wire::Span;

fn pool() -> (Umem, FramePool) {
    let config = UmemConfig { chunks: 1024, chunk_size: ChunkSize::Bytes2048, populate: false };
    Umem::new(config).expect("memory")
}

/// A port at an address, and the peer, which knows it.
fn pair(address: &str) -> (EspSocket, UdpSocket) {
    let own = UdpSocket::bind((address, 0)).expect("a socket");
    let at = own.local_addr().expect("bound");
    let peer = UdpSocket::bind((address, 0)).expect("a socket");
    peer.connect(at).expect("an address");
    peer.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
    (EspSocket::new(own.into(), at.port()).expect("a UDP socket"), peer)
}

/// Receives until there are so many.
fn receive(port: &mut EspSocket, pool: &mut FramePool, count: usize) -> Burst {
    let mut burst = Burst::new();
    for _ in 0..1000 {
        port.rx(pool, &mut burst).expect("received");
        if burst.len() >= count {
            return burst;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{} of {count} came", burst.len());
}

/// Turns a frame round, as if its receiver answered.
fn answer(packet: &mut Packet) {
    let frame = packet.data_mut();
    let is_v4 = frame[HEADER] >> 4 == 4;
    let (addresses, len) = if is_v4 { (HEADER + 12, 4) } else { (HEADER + 8, 16) };
    let ports = headers_len(is_v4) - UDP_LEN;
    for at in 0..len {
        frame.swap(addresses + at, addresses + len + at);
    }
    frame.swap(ports, ports + 2);
    frame.swap(ports + 1, ports + 3);
}

const HEADER: usize = wire::ethernet::HEADER_LEN;

#[test]
fn what_comes_is_a_frame_and_goes_back_as_it_came() {
    for address in ["127.0.0.1", "::1"] {
        let (_umem, mut pool) = pool();
        let (mut port, peer) = pair(address);
        let sent: Vec<Vec<u8>> = (0..5).map(|n| vec![n + 1; 100 + usize::from(n / 4)]).collect();
        for payload in &sent {
            peer.send(payload).expect("sent");
        }
        let mut burst = receive(&mut port, &mut pool, 5);
        for (packet, payload) in burst.iter().zip(&sent) {
            let ip = &packet.data()[HEADER..];
            let h = wire::parse_ip(ip).expect("an IP packet");
            assert_eq!(usize::from(h.total_len), ip.len());
            let from = peer.local_addr().expect("bound");
            assert_eq!((h.src, h.src_port), (from.ip(), from.port()));
            assert_eq!((h.dst, h.dst_port), (port.local().ip(), port.local().port()));
            assert!(ip.ends_with(payload));
        }
        burst.iter_mut().for_each(answer);
        assert_eq!(port.tx(&mut burst, &mut pool).expect("sent"), 5);
        assert!(burst.is_empty() && port.joins());
        let mut buffer = [0; 2048];
        for payload in &sent {
            let len = peer.recv(&mut buffer).expect("an answer");
            assert_eq!(&buffer[..len], payload);
        }
        let stats = port.stats();
        assert_eq!((stats.rx_packets, stats.tx_packets), (5, 5));
        assert_eq!(stats.rx_bytes, stats.tx_bytes);
    }
}

#[test]
fn ike_and_what_has_no_room_are_refused() {
    let (_umem, mut pool) = pool();
    let (mut port, peer) = pair("127.0.0.1");
    peer.send(&[0, 0, 0, 0, 7]).expect("sent");
    peer.send(&[9; 3000]).expect("sent");
    peer.send(&[0xff]).expect("sent");
    let burst = receive(&mut port, &mut pool, 1);
    assert_eq!(burst.first().map(|packet| packet.data().len()), Some(headers_len(true) + 1));
    assert_eq!(port.stats().rx_refused, 2);
}

#[test]
fn what_cannot_be_sent_is_counted_and_what_is_behind_it_goes() {
    let (_umem, mut pool) = pool();
    let (mut port, peer) = pair("127.0.0.1");
    peer.send(&[1; 40]).expect("sent");
    peer.send(&[2; 40]).expect("sent");
    peer.send(&[3; 40]).expect("sent");
    let mut burst = receive(&mut port, &mut pool, 3);
    burst.iter_mut().for_each(answer);
    // No address of this host, so the kernel refuses it; and no datagram.
    if let Some(packet) = burst.get_mut(0) {
        packet.data_mut()[HEADER + 12..HEADER + 16].copy_from_slice(&[192, 0, 2, 1]);
    }
    if let Some(packet) = burst.get_mut(1) {
        packet.span = Span { len: 20, ..packet.span };
    }
    assert_eq!(port.tx(&mut burst, &mut pool).expect("sent"), 3);
    let stats = port.stats();
    assert_eq!((stats.tx_packets, stats.tx_refused), (1, 2));
    let mut buffer = [0; 2048];
    let len = peer.recv(&mut buffer).expect("an answer");
    assert_eq!(&buffer[..len], [3; 40]);
}

#[test]
fn only_udp_sockets_of_the_port_are_taken() {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    assert!(matches!(EspSocket::new(tcp.into(), 4500), Err(Unfit::NotUdp)));
    let (unix, _) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
    assert!(matches!(EspSocket::new(unix.into(), 4500), Err(Unfit::NotUdp)));
    let file = std::fs::File::open("/dev/null").expect("a file");
    assert!(matches!(EspSocket::new(file.into(), 4500), Err(Unfit::NotUdp)));
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = udp.local_addr().expect("bound").port();
    match EspSocket::new(udp.into(), port ^ 1) {
        Err(Unfit::Port(told)) => assert_eq!(told, port),
        other => panic!("{other:?}"),
    }
}

/// gotatun's panic, mended in its 0.7.2: a GRO datagram that is longer than the buffer it is received into. The kernel
/// hands over what it was sent in one go, and each datagram in that has no room in a frame of the pool.
#[test]
fn a_gro_datagram_longer_than_its_buffer_is_refused_and_counted() {
    for address in ["127.0.0.1", "::1"] {
        let (_umem, mut pool) = pool();
        let (mut port, peer) = pair(address);
        // So many of each length, and one more of what is left, which has room.
        for (segment, refused) in [(16_000, 3), (30_000, 2), (2001, 31)] {
            set(peer.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, segment).expect("Linux 4.18");
            let before = port.stats();
            peer.send(&vec![9; segment as usize * refused + 100]).expect("sent");
            set(peer.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, 0).expect("Linux 4.18");
            peer.send(&[8; 50]).expect("sent");
            let burst = receive(&mut port, &mut pool, 2);
            let headers = headers_len(address == "127.0.0.1");
            let lens: Vec<usize> = burst.iter().map(|packet| packet.data().len()).collect();
            assert_eq!(lens, [headers + 100, headers + 50], "{segment}");
            let stats = port.stats();
            assert_eq!(stats.rx_refused - before.rx_refused, refused as u64, "{segment}");
            burst.into_iter().for_each(|packet| pool.put(packet.frame));
        }
    }
}
