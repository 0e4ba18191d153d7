//! A gateway whose daemon hangs: what Linux sends to the private interface goes on by Linux's own routes.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::mpsc;

use crate::common::{Raw, in_namespace, ip, nothing_comes, run, veth, wait_for};
use io::{Burst, ChunkSize, FramePool, Port, Tun, TunConfig, Umem, UmemConfig};
use steer::{Detour, GiveBack, SendMarks};

/// Destinations that are led to the private interface.
const PROTECTED: [&str; 2] = ["10.2.0.7", "fd02::7"];

/// Addresses of this host.
const HERE: [&str; 2] = ["192.0.2.1", "fd00::1"];

const MARK: u32 = 0x1000_0000;

const HOUR_NS: u64 = 3_600_000_000_000;

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The private interface, with all programs on it, a way out by `wan`, and a LAN behind `lan`.
struct Gateway {
    tun: Tun,
    _umem: Umem,
    pool: FramePool,
    /// Packets that were read, with those that were returned.
    read: VecDeque<Vec<u8>>,
    detour: Detour,
    _send_marks: SendMarks,
    _give_back: GiveBack,
}

impl Gateway {
    /// The daemon is alive.
    fn set_up() -> Self {
        veth("wan", "far", 1);
        veth("lan", "client", 1);
        ip("link set lan address 02:00:00:00:00:01");
        for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            set(setting, 1);
        }
        let tun = Tun::open(&TunConfig { name: "culvert0".into(), mtu: 1500 }).expect("a TUN");
        ip("link set culvert0 addrgenmode none");
        // As the daemon has it.
        for (setting, value) in
            [("disable_xfrm", 1), ("disable_policy", 1), ("rp_filter", 0), ("accept_local", 1)]
        {
            set(&format!("ipv4/conf/culvert0/{setting}"), value);
        }
        set("ipv6/conf/culvert0/disable_policy", 1);
        tun.bring_up().expect("up");
        ip("addr add 192.0.2.1/24 dev wan");
        ip("addr add fd00::1/64 dev wan nodad");
        ip("addr add 10.1.0.1/24 dev lan");
        ip("addr add fd01::1/64 dev lan nodad");
        let landing = [("-4", "10.2.0.0/16", "192.0.2.2"), ("-6", "fd02::/64", "fd00::2")];
        for (family, protected, router) in landing {
            ip(&format!("neigh add {router} lladdr 02:00:00:00:00:02 dev wan"));
            ip(&format!("{family} route add {protected} via {router}"));
            ip(&format!("{family} route add {protected} dev culvert0 table 219"));
            ip(&format!("{family} rule add pref 209 fwmark {MARK}/{MARK} goto 211"));
            ip(&format!("{family} rule add pref 210 not iif culvert0 lookup 219"));
            ip(&format!("{family} rule add pref 211 nop"));
        }
        let config = UmemConfig { chunks: 1024, chunk_size: ChunkSize::Bytes2048, populate: false };
        let (umem, pool) = Umem::new(config).expect("memory");
        let give_back = GiveBack::load_and_attach("culvert0", MARK).expect("loads");
        let send_marks = SendMarks::load_and_attach("culvert0").expect("loads");
        let alive = now_ns() + HOUR_NS;
        let detour = Detour::load_and_attach("culvert0", MARK, alive).expect("loads");
        Self {
            tun,
            _umem: umem,
            pool,
            read: VecDeque::new(),
            detour,
            _send_marks: send_marks,
            _give_back: give_back,
        }
    }

    fn hang(&mut self) {
        self.detour.beat(now_ns()).expect("set");
        // Noticed in the next jiffy, and by a packet, which the daemon is still given.
        std::thread::sleep(std::time::Duration::from_millis(20));
        send(&socket(0, 0), 0, "in doubt");
        self.expect_read("in doubt");
        std::thread::sleep(std::time::Duration::from_millis(220));
    }

    fn wake(&mut self) {
        self.detour.beat(now_ns() + HOUR_NS).expect("set");
    }

    /// The daemon's next packet, if there is one; no neighbour discovery.
    fn read(&mut self) -> Option<Vec<u8>> {
        let mut burst = Burst::new();
        self.tun.rx(&mut self.pool, &mut burst).expect("rx");
        for packet in burst.drain(..) {
            // Behind the marks, which have no version of IP in front.
            let ip = packet.data().strip_prefix(&[0xf0]).map_or(packet.data(), |rest| &rest[15..]);
            let is_multicast = matches!(ip, [0x60, ..]) && ip[24] == 0xff;
            if !is_multicast {
                self.read.push_back(packet.data().to_vec());
            }
            self.pool.put(packet.frame);
        }
        self.read.pop_front()
    }

    fn expect_read(&mut self, text: &str) -> Vec<u8> {
        wait_for(text, || self.read().filter(|packet| packet.ends_with(text.as_bytes())))
    }
}

fn set(setting: &str, value: u32) {
    // By a process, which has the namespace of this thread.
    run("sysctl", &format!("-qw net.{}={value}", setting.replace('/', ".")));
}

/// A socket of this host's, whose packets have a mark.
fn socket(family: usize, mark: u32) -> UdpSocket {
    let socket = UdpSocket::bind((HERE[family], 0)).expect("bind");
    set_option(&socket, libc::SOL_SOCKET, libc::SO_MARK, mark as i32);
    socket
}

fn set_option(socket: &impl AsRawFd, level: i32, name: i32, value: i32) {
    // SAFETY: the pointer and the length describe the value.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            core::ptr::from_ref(&value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "setsockopt: {}", std::io::Error::last_os_error());
}

fn send(socket: &UdpSocket, family: usize, text: &str) {
    socket.send_to(text.as_bytes(), (PROTECTED[family], 5000)).expect("send");
}

/// A frame of a client's to a protected destination.
fn client_frame(family: usize, text: &str) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
    let udp_len = (8 + text.len()) as u16;
    let udp = [[0x30, 0x39, 0x13, 0x88].as_slice(), &udp_len.to_be_bytes(), &[0, 0]].concat();
    let address = |text: &str| match text.parse().expect("address") {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    if family == 0 {
        let mut header = vec![0x45, 0];
        header.extend((20 + udp_len).to_be_bytes());
        header.extend([0, 1, 0, 0, 64, 17, 0, 0]);
        header.extend(address("10.1.0.9"));
        header.extend(address(PROTECTED[0]));
        let sum = wire::checksum::checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend([8, 0]);
        frame.extend(header);
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(udp_len.to_be_bytes());
        frame.extend([17, 64]);
        frame.extend(address("fd01::9"));
        frame.extend(address(PROTECTED[1]));
    }
    frame.extend(udp);
    frame.extend(text.as_bytes());
    frame
}

/// The IP packet with this text that the next hop gets, if one comes.
fn arrives(far: &Raw, text: &str) -> Option<Vec<u8>> {
    let frame = far.receive().filter(|frame| frame.ends_with(text.as_bytes()))?;
    Some(frame[14..].to_vec())
}

fn hops(packet: &[u8]) -> u8 {
    if packet[0] >> 4 == 4 { packet[8] } else { packet[7] }
}

#[test]
fn packets_pass_a_daemon_that_hangs() {
    in_namespace(|| {
        let mut gateway = Gateway::set_up();
        let (far, client) = (Raw::open("far"), Raw::open("client"));
        for round in ["first", "second"] {
            for family in [0, 1] {
                let text = |what: &str| format!("{round} {what} {family} packet");
                let (own, marked) = (socket(family, 0), socket(family, 5));
                let (own_text, marked_text) = (text("own"), text("marked"));
                let transit_text = text("transit");

                send(&own, family, &own_text);
                let read = gateway.expect_read(&own_text);
                assert_eq!(hops(&read), 64);
                send(&marked, family, &marked_text);
                let read = gateway.expect_read(&marked_text);
                assert_eq!(read[..8], [0xf0, 0, 0, 0, 0, 0, 0, 5], "the mark is told");
                client.send(&client_frame(family, &transit_text));
                let read = gateway.expect_read(&transit_text);
                assert_eq!(hops(&read), 63);
                assert!(nothing_comes(|| arrives(&far, "packet")), "nothing passes the daemon");

                gateway.hang();
                send(&own, family, &own_text);
                let packet = wait_for(&own_text, || arrives(&far, &own_text));
                assert_eq!(hops(&packet), 63, "Linux forwards it");
                send(&marked, family, &marked_text);
                wait_for(&marked_text, || arrives(&far, &marked_text));
                client.send(&client_frame(family, &transit_text));
                let packet = wait_for(&transit_text, || arrives(&far, &transit_text));
                assert_eq!(hops(&packet), 62);
                // Linux itself says something to routers and multicast listeners now and then.
                let ours = || gateway.read().filter(|packet| packet.ends_with(b"packet"));
                assert!(nothing_comes(ours), "nothing is for the daemon");
                gateway.wake();
            }
        }
    });
}

/// How many packets Linux's policies for what leaves have stopped.
fn blocked() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/net/xfrm_stat").expect("statistics");
    let line = stat.lines().find(|line| line.starts_with("XfrmOutPolBlock")).expect("the line");
    line.split_whitespace().nth(1).and_then(|count| count.parse().ok()).expect("a number")
}

#[test]
fn linux_s_policies_are_applied_to_what_passes() {
    in_namespace(|| {
        let mut gateway = Gateway::set_up();
        let far = Raw::open("far");
        // A packet's own mark still chooses the policy.
        ip("xfrm policy add dir out src 192.0.2.1 dst 10.2.0.0/16 mark 5 mask 0xff action block");
        // What passes was not received: nothing is to be checked.
        ip("xfrm policy add dir fwd src 0.0.0.0/0 dst 0.0.0.0/0 action block");
        let (own, marked) = (socket(0, 0), socket(0, 5));
        send(&marked, 0, "read packet");
        gateway.expect_read("read packet");
        assert_eq!(blocked(), 0);
        gateway.hang();
        send(&marked, 0, "stopped packet");
        wait_for("the packet to be stopped", || (blocked() == 1).then_some(()));
        send(&own, 0, "other packet");
        wait_for("other packet", || arrives(&far, "other packet"));
        assert!(nothing_comes(|| arrives(&far, "packet")));
        assert_eq!(blocked(), 1);
    });
}

#[test]
fn nothing_is_sent_in_a_circle() {
    in_namespace(|| {
        let mut gateway = Gateway::set_up();
        let client = Raw::open("client");
        // Linux leads everything to the private interface, whatever its mark and where it came in by.
        for family in ["-4", "-6"] {
            ip(&format!("{family} rule add pref 100 lookup 219"));
        }
        gateway.hang();
        for family in [0, 1] {
            for mark in [0, 5] {
                send(&socket(family, mark), family, "own packet");
                // With what the program that tells marks puts in front of it, as it has one now.
                assert_eq!(hops(&gateway.expect_read("own packet")[16..]), 63);
                assert!(nothing_comes(|| gateway.read()));
            }
            send(&socket(family, MARK | 5), family, "its packet");
            assert_eq!(hops(&gateway.expect_read("its packet")[16..]), 64, "it stays");
            client.send(&client_frame(family, "transit packet"));
            assert_eq!(hops(&gateway.expect_read("transit packet")[16..]), 62);
            assert!(nothing_comes(|| gateway.read()));
        }
    });
}

/// A firewall that clears marks: what Linux leads back stays, and is not sent in a circle.
#[test]
fn without_its_mark_nothing_is_sent_in_a_circle() {
    in_namespace(|| {
        let mut gateway = Gateway::set_up();
        run("nft", "add table inet t");
        run("nft", "add chain inet t c { type filter hook prerouting priority -150 ; }");
        run("nft", "add rule inet t c meta mark set 0");
        for family in ["-4", "-6"] {
            ip(&format!("{family} rule add pref 100 lookup 219"));
        }
        gateway.hang();
        for family in [0, 1] {
            send(&socket(family, 0), family, "own packet");
            assert_eq!(hops(&gateway.expect_read("own packet")), 63);
            assert!(nothing_comes(|| gateway.read()));
        }
    });
}

#[test]
fn without_a_mark_nothing_passes() {
    in_namespace(|| {
        let mut gateway = Gateway::set_up();
        gateway.detour = Detour::load_and_attach("culvert0", 0, now_ns()).expect("loads");
        send(&socket(0, 0), 0, "own packet");
        gateway.expect_read("own packet");
    });
}

/// Bytes that can be told apart anywhere in the stream.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

#[test]
fn super_packets_pass_whole() {
    in_namespace(|| {
        let mut gateway = Gateway::set_up();
        let far = Raw::open("wan");
        gateway.hang();
        let (number, peer) = mpsc::channel();
        let (ready, listening) = mpsc::channel();
        let (moved, there) = mpsc::channel::<()>();
        let peer_thread = std::thread::spawn(move || {
            in_namespace(move || {
                // SAFETY: takes no arguments.
                number.send(unsafe { libc::gettid() }).expect("the gateway");
                there.recv().expect("the gateway");
                ip("link set far address 02:00:00:00:00:02");
                ip("link set far up");
                ip("addr add 192.0.2.2/24 dev far");
                ip("addr add fd00::2/64 dev far nodad");
                let listeners: Vec<_> = PROTECTED
                    .iter()
                    .map(|address| {
                        // Without `nodad` an address is not there yet when the command ends.
                        let how = if address.contains(':') { "nodad" } else { "" };
                        ip(&format!("addr add {address} dev lo {how}"));
                        TcpListener::bind((*address, 5000)).expect("bind")
                    })
                    .collect();
                ready.send(()).expect("the gateway");
                for listener in listeners {
                    let (mut stream, _) = listener.accept().expect("accept");
                    let mut got = Vec::new();
                    stream.read_to_end(&mut got).expect("read");
                    assert!(got == pattern(4 << 20), "the stream is what was sent");
                    stream.write_all(b"got it").expect("write");
                }
            });
        });
        ip(&format!("link set far netns {}", peer.recv().expect("the peer")));
        moved.send(()).expect("the peer");
        listening.recv().expect("the peer");
        for address in PROTECTED {
            let to = SocketAddr::new(address.parse().expect("address"), 5000);
            let mut stream = TcpStream::connect(to).expect("connect");
            stream.write_all(&pattern(4 << 20)).expect("write");
            stream.shutdown(std::net::Shutdown::Write).expect("shutdown");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("read");
            assert_eq!(answer, b"got it");
            let longest = std::iter::from_fn(|| far.receive()).map(|frame| frame.len()).max();
            // TCP makes super-packets of two segments where it is in no hurry.
            assert!(longest > Some(1514), "{address}: {longest:?} is no more than a packet");
        }
        peer_thread.join().expect("the peer");
        assert_eq!(gateway.read(), None, "nothing is for the daemon");
    });
}
