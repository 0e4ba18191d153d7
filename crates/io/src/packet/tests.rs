//! What becomes of frames where the kernel takes no super-packet, by a socket that behaves as such an interface.

use std::net::UdpSocket;

use wire::Span;

use super::*;
use crate::tun::layout::set_ipv4_checksum;
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
