//! Frames where the kernel takes no super-packet, by a socket that behaves as such an interface.

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use wire::Span;

use super::*;
use crate::tun::layout::set_ipv4_checksum;
use crate::tun::vnet::Gso;
use crate::tun::{VNET_HEADER_LEN, VnetHeader};
use crate::umem::{ChunkSize, Packet, Umem, UmemConfig};

/// Payload of a frame: one alone fits what the socket takes, several together do not.
const PAYLOAD: usize = 60;
const FRAME: usize = 14 + 20 + 8 + PAYLOAD;

/// A socket that takes short messages, and refuses long ones by EINVAL, as an old kernel does what it has no word for:
/// one that would be cut into more pieces than there may be.
fn short_of_breath() -> (PacketSocket, UdpSocket) {
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let own = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    own.connect(peer.local_addr().expect("bound")).expect("an address");
    socket::set(own.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, 2).expect("Linux 4.18");
    let port = PacketSocket {
        name: "short".into(),
        socket: own.into(),
        receiver: Receiver::new(),
        joins: true,
        joined: 0,
        counters: PortCounters::new(),
    };
    (port, peer)
}

/// A frame with ESP in UDP.
fn frame(pool: &mut FramePool) -> Packet {
    let mut frame = pool.take().expect("a frame");
    let start = frame.headroom();
    let bytes = &mut frame.bytes_mut()[start..start + FRAME];
    bytes.fill(7);
    bytes[12..14].copy_from_slice(&[8, 0]);
    let total = (FRAME - 14) as u16;
    bytes[14..34]
        .copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    bytes[16..18].copy_from_slice(&total.to_be_bytes());
    set_ipv4_checksum(&mut bytes[14..34]);
    let ports = 4500_u16.to_be_bytes();
    bytes[34..36].copy_from_slice(&ports);
    bytes[36..38].copy_from_slice(&ports);
    bytes[38..40].copy_from_slice(&(total - 20).to_be_bytes());
    bytes[40..42].copy_from_slice(&[0, 0]);
    Packet { frame, span: Span { start, len: FRAME } }
}

#[test]
fn where_no_super_packet_is_taken_frames_go_one_by_one() {
    let config = UmemConfig { chunks: 256, chunk_size: ChunkSize::Bytes2048, populate: false };
    let (_umem, mut pool) = Umem::new(config).expect("memory");
    let (mut port, _peer) = short_of_breath();
    let mut burst = Burst::new();
    (0..5).for_each(|_| burst.push(frame(&mut pool)));
    assert_eq!(port.tx(&mut burst, &mut pool).expect("no error"), 0);
    assert_eq!((port.joins(), burst.len()), (false, 5), "nothing is lost by the attempt");
    assert_eq!(port.tx(&mut burst, &mut pool).expect("sent"), 5);
    let stats = port.stats();
    assert_eq!((stats.tx_packets, stats.tx_refused, port.joined()), (5, 0, 0));
    // From then on at once.
    (0..5).for_each(|_| burst.push(frame(&mut pool)));
    assert_eq!(port.tx(&mut burst, &mut pool).expect("sent"), 5);
    assert!(burst.is_empty());
}

#[test]
fn what_the_kernel_says_of_super_packets_is_no_loss() {
    for code in [libc::EIO, libc::EINVAL, libc::EOPNOTSUPP] {
        assert!(tx::says_no_super(code), "{code}");
    }
    for code in [libc::EAGAIN, libc::ENOBUFS, libc::EMSGSIZE, libc::ENETDOWN] {
        assert!(!tx::says_no_super(code), "{code}");
    }
}

/// A port whose socket's messages are what the other end writes, and that end.
fn written_to() -> (PacketSocket, UnixDatagram) {
    let (own, kernel) = UnixDatagram::pair().expect("sockets");
    let port = PacketSocket {
        name: "written".into(),
        socket: own.into(),
        receiver: Receiver::new(),
        joins: true,
        joined: 0,
        counters: PortCounters::new(),
    };
    (port, kernel)
}

fn message(vnet: &VnetHeader, frame: &[u8]) -> Vec<u8> {
    [&vnet.emit()[..], frame].concat()
}

/// UDP datagrams of one peer in one frame.
fn super_frame(payload: usize) -> Vec<u8> {
    let config = UmemConfig { chunks: 64, chunk_size: ChunkSize::Bytes2048, populate: false };
    let (_umem, mut pool) = Umem::new(config).expect("memory");
    let mut bytes = frame(&mut pool).data()[..42].to_vec();
    bytes.resize(42 + payload, 9);
    let total = (20 + 8 + payload) as u16;
    bytes[16..18].copy_from_slice(&total.to_be_bytes());
    set_ipv4_checksum(&mut bytes[14..34]);
    bytes[38..40].copy_from_slice(&(total - 20).to_be_bytes());
    bytes
}

/// gotatun's panic, mended in its 0.7.2: a GRO datagram that is longer than the buffer it is received into. Whole ones,
/// and each of the datagrams in one.
#[test]
fn a_gro_datagram_longer_than_its_buffer_is_refused_and_counted() {
    let config = UmemConfig { chunks: 1024, chunk_size: ChunkSize::Bytes2048, populate: false };
    let (_umem, mut pool) = Umem::new(config).expect("memory");
    let (mut port, kernel) = written_to();
    let udp = VnetHeader { gso: Gso::Udp, gso_size: 1000, ..VnetHeader::PLAIN };
    let mut send = |vnet: &VnetHeader, frame: &[u8]| {
        kernel.send(&message(vnet, frame)).expect("sent");
        let (mut burst, before) = (Burst::new(), port.stats());
        // Until nothing is left to be cut.
        while port.rx(&mut pool, &mut burst).expect("no error") > 0 {
            burst.drain(..).for_each(|packet| pool.put(packet.frame));
        }
        let now = port.stats();
        (now.rx_packets - before.rx_packets, now.rx_refused - before.rx_refused)
    };
    // Longer than any message that there is room for: the kernel cuts it off.
    assert_eq!(send(&udp, &vec![7; 100_000]), (0, 1));
    assert_eq!(send(&VnetHeader::PLAIN, &vec![7; 100_000]), (0, 1));
    // One of them alone has no room in a frame of the pool.
    for len in [2001, 4000, 60_000] {
        let gso_size = (len / 2).max(2001) as u16;
        assert_eq!(send(&VnetHeader { gso_size, ..udp }, &super_frame(len)), (0, 1), "{len}");
        assert_eq!(send(&VnetHeader::PLAIN, &super_frame(len)), (0, 1), "{len}");
    }
    // What fits comes, and the last of it may be shorter.
    assert_eq!(send(&udp, &super_frame(60_500)), (61, 0));
}

/// Whatever a vnet header says of a frame, the frame is taken, cut or refused, and counted as that; and the next one
/// comes.
#[test]
fn a_vnet_header_that_makes_no_sense_is_refused_and_counted() {
    let config = UmemConfig { chunks: 1024, chunk_size: ChunkSize::Bytes2048, populate: false };
    let (_umem, mut pool) = Umem::new(config).expect("memory");
    let (mut port, kernel) = written_to();
    let kinds = [Gso::None, Gso::TcpV4, Gso::TcpV6, Gso::Udp, Gso::Unknown(0x7f)];
    let ends = [0, 1, 13, 41, 42, 1500, u16::MAX];
    let frames = [0, 1, 13, 14, 33, 34, 41, 42, 43, 102, 5000].map(|len| {
        let whole = super_frame(4958);
        whole[..len].to_vec()
    });
    let mut sent = 0;
    for (gso, frame) in kinds.into_iter().flat_map(|gso| frames.iter().map(move |f| (gso, f))) {
        for (gso_size, odd) in ends.into_iter().flat_map(|size| ends.map(|odd| (size, odd))) {
            for needs_csum in [false, true] {
                let vnet = VnetHeader {
                    needs_csum,
                    gso,
                    hdr_len: odd,
                    gso_size,
                    csum_start: odd,
                    csum_offset: gso_size,
                    tunnel: None,
                };
                kernel.send(&message(&vnet, frame)).expect("sent");
                sent += 1;
                let (before, mut burst) = (port.stats(), Burst::new());
                while port.rx(&mut pool, &mut burst).expect("no error") > 0 {
                    assert!(burst.iter().all(|packet| packet.data().len() <= 2048));
                    burst.drain(..).for_each(|packet| pool.put(packet.frame));
                }
                let now = port.stats();
                let ended = now.rx_packets + now.rx_refused - before.rx_packets - before.rx_refused;
                assert!(ended > 0, "{vnet:?}, {} bytes", frame.len());
            }
        }
    }
    // No whole header.
    for len in 0..VNET_HEADER_LEN {
        let before = port.stats().rx_refused;
        kernel.send(&vec![1; len]).expect("sent");
        assert_eq!(port.rx(&mut pool, &mut Burst::new()).expect("no error"), 0);
        assert_eq!(port.stats().rx_refused, before + 1, "{len}");
    }
    let refused = port.stats().rx_refused;
    assert!(refused > sent / 2, "{refused} of {sent}");
    kernel.send(&message(&VnetHeader::PLAIN, &super_frame(60))).expect("sent");
    assert_eq!(port.rx(&mut pool, &mut Burst::new()).expect("no error"), 1);
}
