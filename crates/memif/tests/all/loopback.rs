//! Our client against our server, in one process.

use std::os::fd::AsFd;
use std::sync::Arc;

use io::{Burst, ChunkSize, FramePool, Packet, Port, PortCounters, Umem, UmemConfig};
use memif::message::{Name, Secret};
use memif::{
    Channel, ClientConfig, Faults, Link, LinkError, MemifPort, Parts, Queue, ServerConfig, Trust,
};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::Span;

fn server() -> ServerConfig {
    ServerConfig {
        id: 3,
        name: Name::new("server"),
        secret: None,
        queues: 2,
        log2_ring_size: 10,
        trust: Trust::Sealed,
        most_bytes: 16 << 20,
    }
}

fn client() -> ClientConfig {
    ClientConfig {
        id: 3,
        name: Name::new("client"),
        secret: None,
        queues: 1,
        log2_ring_size: 4,
        buffer_len: 2048,
    }
}

/// Both ends, once they have come to terms.
struct Pair {
    server: Link,
    client: Link,
    at_server: Vec<Queue>,
    at_client: Vec<Queue>,
    faults: Arc<Faults>,
}

impl Pair {
    /// The first queue of the sender and of the receiver.
    fn ends(&mut self, is_back: bool) -> (&mut Queue, &mut Queue) {
        let (one, other) = (&mut self.at_server[0], &mut self.at_client[0]);
        if is_back { (other, one) } else { (one, other) }
    }
}

fn connect(server: &ServerConfig, client: &ClientConfig) -> Result<Pair, Box<(LinkError, Link)>> {
    let faults = Faults::new();
    let (one, other) = Channel::pair().unwrap();
    let mut server = Link::serve(one, server, &faults).unwrap();
    let mut client = Link::join(other, client, &faults);
    let (mut at_server, mut at_client) = (None, None);
    for _ in 0..100 {
        match server.advance() {
            Ok(queues) => at_server = at_server.or(queues),
            Err(error) => return Err(Box::new((error, client))),
        }
        match client.advance() {
            Ok(queues) => at_client = at_client.or(queues),
            Err(error) => return Err(Box::new((error, server))),
        }
        if at_server.is_some() && at_client.is_some() {
            break;
        }
    }
    let (at_server, at_client) = (at_server.expect("rings"), at_client.expect("an answer"));
    Ok(Pair { server, client, at_server, at_client, faults })
}

/// Sends as many of these as there is room for; returns how many.
fn send(queue: &mut Queue, packets: &[Vec<u8>]) -> usize {
    let mut room = queue.transmitter.room();
    let sent = packets.iter().take_while(|p| queue.transmitter.packet(&mut room, p)).count();
    queue.transmitter.publish();
    sent
}

fn receive(queue: &mut Queue) -> Vec<Vec<u8>> {
    let (mut filled, mut got) = (queue.receiver.filled(), Vec::new());
    let mut buffer = [0; 4096];
    while filled > 0 {
        let len = queue.receiver.packet(&mut filled, &mut buffer).expect("a sound packet");
        got.push(buffer[..len].to_vec());
    }
    queue.receiver.release();
    got
}

fn packet(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number.wrapping_mul(31) + at) as u8).collect()
}

#[test]
fn both_know_the_others_name_and_the_smaller_numbers_hold() {
    let pair = connect(&server(), &ClientConfig { queues: 5, log2_ring_size: 14, ..client() })
        .ok()
        .unwrap();
    assert_eq!((pair.at_server.len(), pair.at_client.len()), (2, 2));
    assert!(pair.server.peer().to_string().starts_with("culvert "));
    assert_eq!(pair.at_server[1].transmitter.room(), 1024);
    assert_eq!(pair.at_client[1].transmitter.room(), 1024);
}

#[test]
fn indices_wrap() {
    let mut pair = connect(&server(), &client()).ok().unwrap();
    let (one, other) = (&mut pair.at_server[0], &mut pair.at_client[0]);
    for number in 0..9_000 {
        let packets: Vec<_> = (0..8).map(|n| packet(number + n, 60)).collect();
        assert_eq!(send(one, &packets), 8);
        assert_eq!(receive(other), packets);
        assert_eq!(send(other, &packets), 8);
        assert_eq!(receive(one), packets);
    }
    assert_eq!(pair.faults.sum(), 0);
}

#[test]
fn a_peer_that_does_not_read_fills_its_ring_and_no_more() {
    let mut pair = connect(&server(), &client()).ok().unwrap();
    let packets: Vec<_> = (0..100).map(|n| packet(n, 60)).collect();
    for is_back in [false, true] {
        let (from, to) = pair.ends(is_back);
        assert_eq!((send(from, &packets), send(from, &packets)), (16, 0));
        assert_eq!(receive(to), packets[..16]);
        assert_eq!(send(from, &packets), 16);
    }
}

#[test]
fn wrong_secrets_and_numbers_are_told() {
    let secret = Some(Secret::new("let me in"));
    for (asked, given, is_good) in [
        (None, None, true),
        (None, secret, true),
        (secret, secret, true),
        (secret, None, false),
        (secret, Some(Secret::new("let me im")), false),
    ] {
        let (config, other) = (
            ServerConfig { secret: asked, ..server() },
            ClientConfig { secret: given, ..client() },
        );
        match connect(&config, &other) {
            Ok(_) => assert!(is_good),
            Err(over) => {
                let (error, mut client) = *over;
                assert!(!is_good && error.to_string() == "wrong secret", "{error}");
                let told = client.advance().err().unwrap();
                assert_eq!(told.to_string(), "the peer disconnected: wrong secret");
            }
        }
    }
    let over = connect(&server(), &ClientConfig { id: 4, ..client() }).err().unwrap();
    let (error, _) = *over;
    assert_eq!(error.to_string(), "no interface with id 4 here");
}

#[test]
fn an_end_is_noticed_and_what_is_left_does_no_harm() {
    let mut pair = connect(&server(), &client()).ok().unwrap();
    drop(pair.client);
    drop(pair.at_client);
    assert!(matches!(pair.server.advance(), Err(LinkError::Channel(_))));
    assert_eq!(send(&mut pair.at_server[0], &[packet(0, 60)]), 1);
    assert!(receive(&mut pair.at_server[0]).is_empty());
    let pair = connect(&server(), &client()).ok().unwrap();
    pair.client.disconnect("enough");
    let mut server = pair.server;
    assert_eq!(server.advance().err().unwrap().to_string(), "the peer disconnected: enough");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever the lengths of packets, buffers, rings and bursts: all arrive, in order, each as it was.
    #[test]
    fn all_arrive(
        lens in prop::collection::vec(1_usize..700, 1..120),
        log2_ring_size in 2_u8..7,
        buffer_len in 60_u32..800,
        burst in 1_usize..20,
    ) {
        let config = ClientConfig { log2_ring_size, buffer_len, ..client() };
        let mut pair = connect(&server(), &config).ok().unwrap();
        // What fits at all.
        let most = (buffer_len as usize) << log2_ring_size.min(4);
        let packets: Vec<_> =
            lens.iter().enumerate().map(|(n, len)| packet(n, *len.min(&most))).collect();
        for is_back in [false, true] {
        let (from, to) = pair.ends(is_back);
            let (mut sent, mut got) = (0, Vec::new());
            while got.len() < packets.len() {
                let end = packets.len().min(sent + burst);
                sent += send(from, &packets[sent..end]);
                got.extend(receive(to));
            }
            prop_assert_eq!(&got, &packets);
        }
        prop_assert_eq!(pair.faults.sum(), 0);
    }
}

fn port(queue: Queue) -> MemifPort {
    MemifPort::new(Parts {
        name: "m0".into(),
        queue,
        tap: None,
        max_frame_len: 1518,
        counters: PortCounters::new(),
        linux: Arc::default(),
    })
    .unwrap()
}

fn is_readable(port: &MemifPort, within_s: i64) -> bool {
    let fd = port.fd().unwrap();
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: within_s, tv_nsec: 0 })).unwrap() > 0
}

fn fill(burst: &mut Burst, pool: &mut FramePool, lens: &[usize]) {
    for len in lens {
        let mut frame = pool.take().unwrap();
        let start = frame.headroom();
        frame.bytes_mut()[start..start + len].copy_from_slice(&packet(0, *len));
        burst.push(Packet { frame, span: Span { start, len: *len } });
    }
}

#[test]
fn ports_move_frames_and_wake_each_other() {
    let (umem, mut pool) =
        Umem::new(UmemConfig { chunks: 128, chunk_size: ChunkSize::Bytes2048, populate: false })
            .unwrap();
    let mut pair = connect(&server(), &client()).ok().unwrap();
    let mut at_server = port(pair.at_server.remove(0));
    let mut at_client = port(pair.at_client.remove(0));
    for _ in 0..3 {
        for is_back in [false, true] {
            let (from, to) = match is_back {
                false => (&mut at_server, &mut at_client),
                true => (&mut at_client, &mut at_server),
            };
            let (mut burst, mut out) = (Burst::new(), Burst::new());
            assert_eq!(to.rx(&mut pool, &mut out).unwrap(), 0);
            assert!(!is_readable(to, 0), "idle");
            // One is too short, one too long; 16 others fill the ring, and the last stays.
            fill(&mut burst, &mut pool, &[13, 1519]);
            fill(&mut burst, &mut pool, &[60; 17]);
            let headed = burst.iter_mut().map(Packet::data_mut);
            headed.filter_map(|p| p.first_chunk_mut()).for_each(|header| *header = *HEADER);
            let before = from.stats();
            assert_eq!(from.tx(&mut burst, &mut pool).unwrap(), 18);
            assert!(is_readable(to, 20), "woken");
            assert_eq!(from.tx(&mut burst, &mut pool).unwrap(), 0, "full");
            assert_eq!(to.rx(&mut pool, &mut out).unwrap(), 16);
            assert_eq!(out[15].data()[14..], packet(0, 60)[14..]);
            assert_eq!(from.tx(&mut burst, &mut pool).unwrap(), 1);
            out.drain(..).for_each(|packet| pool.put_packet(packet));
            assert_eq!(to.rx(&mut pool, &mut out).unwrap(), 1);
            out.drain(..).for_each(|packet| pool.put_packet(packet));
            let now = from.stats();
            assert_eq!(
                (now.tx_packets - before.tx_packets, now.tx_refused - before.tx_refused),
                (17, 2)
            );
            assert_eq!(to.rx(&mut pool, &mut out).unwrap(), 0);
            assert!(!is_readable(to, 0), "what woke it is over");
        }
    }
    assert!(umem.accounting(&pool, 0, 0).balances());
}

const HEADER: &[u8; 14] = &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
