//! The TUN against Linux's own TCP and UDP.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::common::{again, in_namespace, ip, wait_for};
use io::{Burst, ChunkSize, Packet, Port, Tun, TunConfig, Umem, UmemConfig};

fn open(name: &str, mtu: u32) -> Tun {
    let config = TunConfig { name: name.to_owned(), mtu };
    Tun::open(&config).expect("a TUN")
}

pub(crate) fn region(chunks: u32) -> (Umem, io::FramePool) {
    Umem::new(UmemConfig { chunks, chunk_size: ChunkSize::Bytes2048, populate: false })
        .expect("memory")
}

/// A TUN `name` in the calling thread's namespace, up, with both addresses and a default route.
pub(crate) fn host(name: &str, number: u8, mtu: u32) -> Tun {
    let tun = open(name, mtu);
    ip(&format!("link set {name} addrgenmode none"));
    tun.bring_up().expect("up");
    ip(&format!("addr add 10.9.0.{number}/24 dev {name}"));
    ip(&format!("addr add fd09::{number}/64 dev {name} nodad"));
    tun
}

/// The forwarder's count: packets, the longest, those joined on writing, those refused.
pub(crate) struct Seen {
    pub(crate) packets: u64,
    pub(crate) longest: usize,
    pub(crate) joined: u64,
    pub(crate) refused: u64,
}

/// Runs `near` here and `far` in another namespace, with a forwarder between their TUNs that has
/// `chunks` frames.
pub(crate) fn between(
    mtu: u32,
    chunks: u32,
    near: impl FnOnce() + Send + 'static,
    far: impl FnOnce() + Send + 'static,
) -> Seen {
    let one = host("cvio0", 1, mtu);
    let (to_forwarder, from_far) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let far = std::thread::spawn(move || {
        in_namespace(move || {
            to_forwarder.send(host("cvio1", 2, mtu)).expect("forwarder");
            gone.recv().expect("go");
            far();
        });
    });
    let two = from_far.recv().expect("the other host");
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let forwarder = std::thread::spawn(move || forward(one, two, chunks, &stopped));
    go.send(()).expect("go");
    near();
    far.join().expect("the far host");
    stop.store(true, Ordering::Release);
    forwarder.join().expect("the forwarder")
}

fn forward(mut one: Tun, mut two: Tun, chunks: u32, stop: &AtomicBool) -> Seen {
    let (umem, mut pool) = region(chunks);
    let mut longest = 0;
    while !stop.load(Ordering::Acquire) {
        let mut idle = true;
        for turn in 0..2 {
            let (from, to) = if turn == 0 { (&mut one, &mut two) } else { (&mut two, &mut one) };
            let mut burst = Burst::new();
            if from.rx(&mut pool, &mut burst).expect("rx") == 0 {
                continue;
            }
            idle = false;
            longest = burst.iter().map(|packet| packet.span.len).max().unwrap_or(0).max(longest);
            assert!(umem.accounting(&pool, 0, burst.len()).balances());
            let count = burst.len();
            assert_eq!(to.tx(&mut burst, &mut pool).expect("tx"), count);
        }
        if idle {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    let (first, second) = (one.stats(), two.stats());
    Seen {
        packets: first.rx_packets + second.rx_packets,
        longest,
        joined: one.joined() + two.joined(),
        refused: first.rx_refused + second.rx_refused + first.tx_refused + second.tx_refused,
    }
}

/// Bytes that can be told apart anywhere in the stream.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn transfer(v6: bool, mtu: u32, chunks: u32, len: usize) -> Seen {
    let near: IpAddr =
        if v6 { "fd09::1".parse().expect("address") } else { IpAddr::from([10, 9, 0, 1]) };
    let (ready, listening) = mpsc::channel();
    between(
        mtu,
        chunks,
        move || {
            let listener = TcpListener::bind((near, 4000)).expect("bind");
            ready.send(()).expect("far");
            let (mut stream, _) = listener.accept().expect("accept");
            let mut got = Vec::new();
            stream.read_to_end(&mut got).expect("read");
            assert!(got == pattern(len), "{} of {len} bytes, or damaged", got.len());
            stream.write_all(&got[..len / 2]).expect("write");
        },
        move || {
            listening.recv().expect("near");
            let mut stream = TcpStream::connect((near, 4000)).expect("connect");
            stream.write_all(&pattern(len)).expect("write");
            stream.shutdown(std::net::Shutdown::Write).expect("shutdown");
            let mut back = Vec::new();
            stream.read_to_end(&mut back).expect("read");
            assert!(back == pattern(len)[..len / 2], "{} bytes, or damaged", back.len());
        },
    )
}

#[test]
fn tcp_crosses_cut_and_joined() {
    for v6 in [false, true] {
        in_namespace(move || {
            let len = 20_000_000;
            let seen = transfer(v6, 1500, 2048, len);
            assert!(seen.longest <= 1500, "{}", seen.longest);
            assert!(seen.packets as usize > len / 1460, "cut: {} packets", seen.packets);
            assert!(seen.joined as usize > len / 1460 / 2, "joined: {}", seen.joined);
            assert_eq!(seen.refused, 0);
        });
    }
}

#[test]
fn tcp_crosses_with_hardly_any_frames() {
    // Fewer frames than a super-packet has segments: cutting goes on in later calls.
    in_namespace(|| {
        let seen = transfer(false, 1400, 7, 2_000_000);
        assert!(seen.longest <= 1400, "{}", seen.longest);
        assert_eq!(seen.refused, 0);
    });
}

#[test]
fn udp_super_packets_come_as_datagrams() {
    in_namespace(|| {
        let tun = host("cvio0", 1, 1500);
        let offered = tun.offloads().udp;
        let mut tun = tun;
        let socket = UdpSocket::bind("10.9.0.1:0").expect("bind");
        let size: libc::c_int = 1000;
        // SAFETY: the pointer and the length describe `size`.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_SEGMENT,
                core::ptr::from_ref(&size).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        assert_eq!(result, 0, "UDP_SEGMENT");
        let sent = pattern(9500);
        socket.send_to(&sent, "10.9.0.2:9").expect("send");
        let (_umem, mut pool) = region(64);
        let mut burst = Burst::new();
        wait_for("datagrams", || {
            tun.rx(&mut pool, &mut burst).expect("rx");
            (burst.len() >= 10).then_some(())
        });
        assert!(offered, "this kernel has USO");
        let lens: Vec<_> = burst.iter().map(|packet| packet.span.len).collect();
        assert_eq!(lens, [[1028; 9].as_slice(), &[528]].concat());
        let got: Vec<u8> = burst.iter().flat_map(|packet| packet.data()[28..].to_vec()).collect();
        assert_eq!(got, sent);
    });
}

/// Swaps the addresses of an IPv4 packet, whose checksums stay right.
fn turn_round(packet: &mut Packet) {
    let (src, dst) = packet.data_mut()[12..20].split_at_mut(4);
    src.swap_with_slice(dst);
}

#[test]
fn datagrams_of_every_length_are_complete_both_ways() {
    in_namespace(|| {
        let mut tun = host("cvio0", 1, 1500);
        let socket = UdpSocket::bind("10.9.0.1:4000").expect("bind");
        socket.set_nonblocking(true).expect("set");
        let (umem, mut pool) = region(64);
        let peer: SocketAddr = "10.9.0.2:4000".parse().expect("address");
        for len in (0..1472).step_by(7).chain([1471, 1472]) {
            socket.send_to(&pattern(len), peer).expect("send");
            let mut burst = Burst::new();
            wait_for("datagram", || {
                tun.rx(&mut pool, &mut burst).expect("rx");
                (!burst.is_empty()).then_some(())
            });
            assert_eq!(burst[0].span.len, 28 + len);
            // The kernel checks the checksum that was completed here when the datagram comes back.
            turn_round(&mut burst[0]);
            tun.tx(&mut burst, &mut pool).expect("tx");
            let mut buffer = vec![0; 2000];
            let got = wait_for("datagram back", || socket.recv(&mut buffer).ok());
            assert!(buffer[..got] == pattern(len), "{got} bytes back of {len}");
        }
        assert!(umem.accounting(&pool, 0, 0).balances());
    });
}

#[test]
fn the_interface_goes_with_its_port() {
    in_namespace(|| {
        let tun = open("cvio0", 1400);
        assert_eq!(tun.ifindex(), crate::common::ifindex("cvio0"));
        let same = TunConfig { name: "cvio0".to_owned(), mtu: 1500 };
        let error = Tun::open(&same).expect_err("taken");
        assert!(error.to_string().contains("another culvert"), "{error}");
        drop(tun);
        drop(again(|| Tun::open(&same)));
        for name in ["", "a-name-of-16-byte"] {
            let config = TunConfig { name: name.to_owned(), ..same.clone() };
            let error = Tun::open(&config).expect_err("impossible");
            assert!(error.to_string().contains("1 to 15 bytes"), "{error}");
        }
        let short = TunConfig { name: "cvio1".to_owned(), mtu: 20 };
        let error = Tun::open(&short).expect_err("impossible");
        assert!(error.to_string().contains("68 to 65535"), "{error}");
    });
}

#[test]
fn a_deleted_or_silent_interface_is_not_a_panic() {
    in_namespace(|| {
        let mut tun = open("cvio0", 1500);
        let (umem, mut pool) = region(8);
        let mut burst = Burst::new();
        let packet = |pool: &mut io::FramePool, bytes: &[u8]| {
            let mut frame = pool.take().expect("frame");
            let span = wire::Span { start: io::HEADROOM, len: bytes.len() };
            frame.bytes_mut()[span.range()].copy_from_slice(bytes);
            Packet { frame, span }
        };
        // Down: refused, counted, recycled.
        burst.push(packet(&mut pool, &[0x45; 40]));
        assert_eq!(tun.tx(&mut burst, &mut pool).expect("tx"), 1);
        assert_eq!(tun.stats().tx_refused, 1);
        tun.bring_up().expect("up");
        // Not IP: refused; an empty span too.
        burst.push(packet(&mut pool, &[0x15; 40]));
        burst.push(packet(&mut pool, &[]));
        assert_eq!(tun.tx(&mut burst, &mut pool).expect("tx"), 2);
        assert_eq!(tun.stats().tx_refused, 3);
        assert_eq!(pool.available(), 8);
        ip("link del cvio0");
        assert!(tun.rx(&mut pool, &mut burst).expect_err("gone").is_gone());
        burst.push(packet(&mut pool, &[0x45; 40]));
        assert!(tun.tx(&mut burst, &mut pool).expect_err("gone").is_gone());
        assert_eq!(burst.len(), 1, "what was not sent stays");
        assert!(tun.check().expect_err("gone").is_gone());
        assert!(umem.accounting(&pool, 0, burst.len()).balances());
    });
}

#[test]
fn one_that_is_moved_to_another_namespace_works_on() {
    in_namespace(|| {
        let mut tun = open("cvio0", 1500);
        let (tell, told) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            in_namespace(move || {
                let own = std::fs::read_link("/proc/thread-self").expect("procfs");
                tell.send(own.file_name().expect("a thread").to_owned()).expect("this side");
                gone.recv().expect("moved");
                ip("addr add 10.9.0.2/24 dev cvio0");
                ip("link set cvio0 up");
                let socket = UdpSocket::bind("10.9.0.2:9").expect("bind");
                socket.send_to(b"from elsewhere", "10.9.0.1:9").expect("send");
            });
        });
        let thread = told.recv().expect("the other side");
        ip(&format!("link set cvio0 netns {}", thread.display()));
        tun.check().expect("moved is not gone");
        go.send(()).expect("go");
        let (_umem, mut pool) = region(8);
        let mut burst = Burst::new();
        wait_for("its packet", || {
            tun.rx(&mut pool, &mut burst).expect("rx");
            let is_it = burst.iter().any(|packet| packet.data().ends_with(b"from elsewhere"));
            is_it.then_some(())
        });
        other.join().expect("the other side");
        // It went with its namespace, in Linux's own time.
        wait_for("its end", || tun.check().is_err_and(|error| error.is_gone()).then_some(()));
    });
}

#[test]
fn an_interface_that_is_there_is_an_error_and_stays() {
    in_namespace(|| {
        let config = TunConfig { name: "cvio0".to_owned(), mtu: 1400 };
        for kind in ["", " multi_queue"] {
            // As a daemon of another kind might have left it.
            ip(&format!("tuntap add dev cvio0 mode tun{kind}"));
            for queues in [1, 2] {
                let error = Tun::open_queues(&config, queues).expect_err("taken").to_string();
                assert!(error.contains("another culvert"), "{error}");
            }
            let link = std::process::Command::new("ip").args(["link", "show", "cvio0"]).output();
            let link = String::from_utf8(link.expect("iproute2").stdout).expect("text");
            assert!(link.contains("mtu 1500"), "untouched: {link}");
            ip("link del cvio0");
        }
        let queues = again(|| Tun::open_queues(&config, 3));
        let error = Tun::open_queues(&config, 3).expect_err("taken").to_string();
        assert!(error.contains("another culvert"), "{error}");
        drop(queues);
        let error = again(|| match Tun::open_queues(&config, 257) {
            Err(error) if error.to_string().contains("256") => Ok(error),
            Err(error) => Err(error.to_string()),
            Ok(_) => panic!("257 queues"),
        });
        assert_eq!(error.source.raw_os_error(), Some(libc::E2BIG));
        drop(again(|| Tun::open(&config)));
        assert!(Tun::open_queues(&config, 0).expect("nothing").is_empty());
    });
}

#[test]
fn an_interface_takes_another_queue_while_it_is_there() {
    in_namespace(|| {
        let config = TunConfig { name: "cvio0".to_owned(), mtu: 1500 };
        let mut queues = again(|| Tun::open_queues(&config, 1));
        let ifindex = queues[0].ifindex();
        ip("link set cvio0 addrgenmode none");
        queues[0].bring_up().expect("up");
        ip("addr add 10.9.0.1/24 dev cvio0");
        let sockets: Vec<UdpSocket> =
            (0..32).map(|_| UdpSocket::bind("10.9.0.1:0").expect("a socket")).collect();
        let (umem, mut pool) = region(1024);
        let mut came = |queue: &mut Tun| {
            let (mut burst, mut came) = (Burst::new(), 0);
            while queue.rx(&mut pool, &mut burst).expect("rx") > 0 {
                came += burst.len();
                pool.put_burst(&mut burst);
            }
            came
        };
        let send = || {
            for socket in &sockets {
                socket.send_to(&[0], "10.9.0.2:9").expect("sent");
            }
        };
        send();
        queues.push(Tun::add_queue(&config, ifindex).expect("a second queue"));
        assert_eq!(queues[1].ifindex(), ifindex);
        assert_eq!([came(&mut queues[0]), came(&mut queues[1])], [32, 0], "what was there stays");
        send();
        let spread = [came(&mut queues[0]), came(&mut queues[1])];
        assert!(spread.iter().sum::<usize>() == 32 && !spread.contains(&0), "{spread:?}");
        drop((queues, umem));
        let error = again(|| match Tun::add_queue(&config, ifindex) {
            Err(error) if error.to_string().contains("deleted") => Ok(error),
            other => Err(format!("{:?}", other.err())),
        });
        assert_eq!(error.source.raw_os_error(), Some(libc::ENODEV));
    });
}

#[test]
fn each_flow_keeps_its_queue_and_any_queue_sends() {
    const QUEUES: usize = 3;
    const FLOWS: u16 = 32;
    in_namespace(|| {
        let config = TunConfig { name: "cvio0".to_owned(), mtu: 1500 };
        let mut queues = Tun::open_queues(&config, QUEUES).expect("queues");
        ip("link set cvio0 addrgenmode none");
        queues[0].bring_up().expect("up");
        ip("addr add 10.9.0.1/24 dev cvio0");
        let sockets: Vec<UdpSocket> =
            (0..FLOWS).map(|_| UdpSocket::bind("10.9.0.1:0").expect("a socket")).collect();
        for round in 0..4_u8 {
            for socket in &sockets {
                socket.send_to(&[round], "10.9.0.2:9").expect("sent");
            }
        }
        // Each queue on the thread of a worker, which answers what it gets.
        let (umem, pool) = region(1024);
        drop(pool);
        let by_queue: Vec<Vec<(u16, u8)>> = std::thread::scope(|scope| {
            let workers: Vec<_> = queues
                .iter_mut()
                .map(|queue| {
                    let mut pool = umem.pool();
                    scope.spawn(move || {
                        let mut seen = Vec::new();
                        let mut burst = Burst::new();
                        while queue.rx(&mut pool, &mut burst).expect("rx") > 0 {
                            for packet in &mut burst {
                                let bytes = packet.data_mut();
                                seen.push((u16::from_be_bytes([bytes[20], bytes[21]]), bytes[28]));
                                // Addresses and ports change places; the sums stay right.
                                let (source, rest) = bytes[12..].split_at_mut(4);
                                source.swap_with_slice(&mut rest[..4]);
                                let (source, rest) = bytes[20..].split_at_mut(2);
                                source.swap_with_slice(&mut rest[..2]);
                            }
                            queue.tx(&mut burst, &mut pool).expect("tx");
                            assert!(burst.is_empty());
                        }
                        seen
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().expect("a worker")).collect()
        });
        let used = by_queue.iter().filter(|seen| !seen.is_empty()).count();
        assert!(used > 1, "{by_queue:?}");
        for socket in &sockets {
            let port = socket.local_addr().expect("bound").port();
            let of_port = |seen: &Vec<(u16, u8)>| -> Vec<u8> {
                seen.iter().filter(|(from, _)| *from == port).map(|(_, round)| *round).collect()
            };
            let rounds: Vec<Vec<u8>> = by_queue.iter().map(of_port).collect();
            let whole = rounds.iter().filter(|rounds| **rounds == [0, 1, 2, 3]).count();
            assert_eq!(whole, 1, "one queue, in order: {rounds:?}");
            assert!(rounds.iter().all(|rounds| rounds.is_empty() || rounds.len() == 4));
            socket.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
            for round in 0..4 {
                let mut answer = [0; 8];
                let (len, _) = socket.recv_from(&mut answer).expect("an answer");
                assert_eq!((len, answer[0]), (1, round));
            }
        }
    });
}
