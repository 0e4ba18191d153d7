//! Super-packets in VXLAN and GENEVE against Linux's own tunnels, and against its own cutting.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::mpsc;

use io::{Burst, Packet, Port, Tun};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wire::Span;

use crate::common::{in_namespace, ip, run, wait_for};
use crate::tun::{Seen, between, host, pattern, region};

/// Kinds of tunnels: for `ip link add`, without the far end.
const KINDS: [(&str, bool); 6] = [
    ("vxlan id 42 dstport 4789 noudpcsum", false),
    ("vxlan id 42 dstport 4789 udpcsum", false),
    ("vxlan id 42 dstport 4789", true),
    ("vxlan id 42 dstport 4789 udp6zerocsumtx udp6zerocsumrx", true),
    ("geneve id 43 noudpcsum", false),
    ("geneve id 43 udpcsum", true),
];

/// Those that this kernel has.
fn kinds() -> Vec<(&'static str, bool)> {
    KINDS
        .into_iter()
        .filter(|(kind, _)| {
            let kind = kind.split(' ').next().expect("a kind").to_owned();
            let (tell, told) = mpsc::channel();
            in_namespace(move || {
                let words =
                    ["link", "add", "kind", "type", &kind, "id", "1", "remote", "192.0.2.1"];
                let words = words
                    .into_iter()
                    .chain((kind == "vxlan").then_some(["dstport", "1"]).into_iter().flatten());
                let made = std::process::Command::new("ip").args(words).output().expect("ip");
                tell.send(made.status.success()).expect("told");
            });
            told.recv() == Ok(true)
        })
        .collect()
}

/// The tunnel of host `number` to host `other`.
fn tunnel((kind, v6): (&str, bool), number: u8, other: u8) {
    let remote = if v6 { format!("fd09::{other}") } else { format!("10.9.0.{other}") };
    ip(&format!("link add ov type {kind} remote {remote}"));
    ip("link set ov addrgenmode none");
    ip("link set ov up");
    ip(&format!("addr add 10.10.0.{number}/24 dev ov"));
    ip(&format!("addr add fd10::{number}/64 dev ov nodad"));
}

/// TCP one way, and half of it back.
fn transfer(kind: (&'static str, bool), near: IpAddr, len: usize) -> Seen {
    let (ready, listening) = mpsc::channel();
    between(
        1500,
        2048,
        move || {
            tunnel(kind, 1, 2);
            let listener = TcpListener::bind((near, 4000)).expect("bind");
            ready.send(()).expect("far");
            let (mut stream, _) = listener.accept().expect("accept");
            let mut got = Vec::new();
            stream.read_to_end(&mut got).expect("read");
            assert!(got == pattern(len), "{} of {len} bytes, or damaged", got.len());
            stream.write_all(&got[..len / 2]).expect("write");
        },
        move || {
            tunnel(kind, 2, 1);
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
fn tcp_crosses_in_tunnels_cut_and_joined() {
    let near = ["10.10.0.1", "fd10::1"].map(|text| text.parse::<IpAddr>().expect("address"));
    for (kind, near) in kinds().into_iter().flat_map(|kind| near.map(|near| (kind, near))) {
        in_namespace(move || {
            let takes = host("cvio9", 9, 1500).offloads().udp_tunnels;
            let len = 4_000_000;
            let seen = transfer(kind, near, len);
            assert!(seen.longest <= 1500, "{}", seen.longest);
            assert!(seen.packets as usize > len / 1460, "cut: {} packets", seen.packets);
            assert_eq!(seen.refused, 0, "{kind:?}");
            match takes {
                true => assert!(seen.joined as usize > len / 1460 / 2, "{kind:?}: {}", seen.joined),
                false => assert_eq!(seen.joined, 0, "the kernel takes none"),
            }
        });
    }
}

/// Sends `len` bytes in datagrams of `size` by one call.
fn send(socket: &UdpSocket, to: &str, size: usize, len: usize) {
    let size = size as libc::c_int;
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
    socket.send_to(&pattern(len), to).expect("send");
}

/// As many packets as there are to come; without short ones, by which the stack speaks for itself.
fn take(tun: &mut Tun, count: usize) -> Vec<Vec<u8>> {
    take_those(tun, count, |packet| packet.len() > 400)
}

/// As many packets in tunnels with TCP inside as there are to come.
fn take_all(tun: &mut Tun, count: usize) -> Vec<Vec<u8>> {
    take_those(tun, count, |packet| packet[if packet[0] >> 4 == 4 { 9 } else { 6 }] == 17)
}

fn take_those(tun: &mut Tun, count: usize, is_one: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let (_umem, mut pool) = region(256);
    let mut all = Vec::new();
    wait_for("packets", || {
        let mut burst = Burst::new();
        tun.rx(&mut pool, &mut burst).expect("rx");
        for packet in burst.drain(..) {
            let data = packet.data().to_vec();
            if is_one(&data) {
                all.push(data);
            }
            pool.put(packet.frame);
        }
        (all.len() >= count).then_some(())
    });
    all
}

fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Length of the IP header.
fn ip_len(packet: &[u8]) -> usize {
    if packet[0] >> 4 == 4 { 20 } else { 40 }
}

/// Takes out what the place in the sequence decides, and what depends on that: identifications, counted from those of
/// the first, and checksums, after looking at them.
fn comparable(packets: &[Vec<u8>], inside_at: usize) -> Vec<Vec<u8>> {
    let id = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at + 4], packet[at + 5]]);
    let mut all = Vec::new();
    for packet in packets {
        let mut bytes = packet.clone();
        for at in [0, inside_at] {
            let len = ip_len(&packet[at..]);
            let upper = &packet[at + len..];
            let (addresses, protocol) = match len {
                20 => (&packet[at + 12..at + 20], packet[at + 9]),
                _ => (&packet[at + 8..at + 40], packet[at + 6]),
            };
            let pseudo = [addresses, &[0, protocol], &(upper.len() as u16).to_be_bytes()].concat();
            let field = if protocol == 17 { 6 } else { 16 };
            if protocol != 17 || upper[6..8] != [0, 0] {
                assert_eq!(sum(&[pseudo.as_slice(), upper].concat()), 0xffff, "checksum at {at}");
                bytes[at + len + field..at + len + field + 2].fill(0xee);
            }
            if len == 20 {
                assert_eq!(sum(&packet[at..at + 20]), 0xffff, "IPv4 checksum at {at}");
                let number = id(packet, at).wrapping_sub(id(&packets[0], at));
                bytes[at + 4..at + 6].copy_from_slice(&number.to_be_bytes());
                bytes[at + 10..at + 12].fill(0);
            }
        }
        all.push(bytes);
    }
    all
}

#[test]
fn datagrams_in_tunnels_are_cut_as_linux_cuts_them() {
    for (kind, to) in
        kinds().into_iter().flat_map(|kind| ["10.10.0.2:9", "[fd10::2]:9"].map(|to| (kind, to)))
    {
        in_namespace(move || {
            let mut tun = host("cvio0", 1, 1500);
            if !tun.offloads().udp_tunnels {
                eprintln!("skipped: this kernel is older than 6.17");
                return;
            }
            tunnel(kind, 1, 2);
            for far in ["10.10.0.2", "fd10::2"] {
                ip(&format!("neigh add {far} lladdr 02:00:00:00:00:02 dev ov"));
            }
            let any = if to.starts_with('[') { "[::]:4000" } else { "0.0.0.0:4000" };
            let socket = UdpSocket::bind(any).expect("bind");
            let outer = if kind.1 { 40 } else { 20 };
            for (size, len) in [(1000, 9500), (1350, 1351), (500, 20_000), (400, 801)] {
                let count = len / size + 1 - usize::from(len % size == 0);
                // What is left shorter than that is not looked at.
                let count = count - usize::from(len % size > 0 && len % size < 300);
                run(
                    "ethtool",
                    "-K cvio0 tx-udp_tnl-segmentation on tx-udp_tnl-csum-segmentation on",
                );
                send(&socket, to, size, len);
                let ours = take(&mut tun, count);
                run(
                    "ethtool",
                    "-K cvio0 tx-udp_tnl-segmentation off tx-udp_tnl-csum-segmentation off",
                );
                send(&socket, to, size, len);
                let linuxs = take(&mut tun, count);
                let at = outer + 30;
                assert_eq!(comparable(&ours, at), comparable(&linuxs, at), "{kind:?} {to} {size}");
            }
        });
    }
}

/// A stream of TCP in VXLAN to an end of tunnels.
#[derive(Clone, Debug)]
struct Stream {
    v6_outside: bool,
    v6: bool,
    has_checksum: bool,
    /// Payload of each segment but the last, and of that.
    size: usize,
    last: usize,
    count: usize,
    /// Identification of the first packet outside and inside.
    id: u16,
}

fn streams() -> impl Strategy<Value = Stream> {
    let numbers = (100_usize..1300, 1_usize..1300, 2_usize..60, any::<u16>());
    (any::<[bool; 3]>(), numbers).prop_map(
        |([v6_outside, v6, has_checksum], (size, last, count, id))| Stream {
            v6_outside,
            v6,
            has_checksum,
            size,
            last: last.min(size),
            count,
            id,
        },
    )
}

/// An IP packet from host 2 of the addresses of tunnels or of what is inside to host 1, with complete checksums.
fn packet(v6: bool, net: u8, protocol: u8, id: u16, upper: &[u8], has_checksum: bool) -> Vec<u8> {
    let mut packet = match v6 {
        true => {
            let side = |host| [[0xfd, net].as_slice(), &[0; 13], &[host]].concat();
            let len = (upper.len() as u16).to_be_bytes();
            [[0x60, 0, 0, 0, len[0], len[1], protocol, 64].as_slice(), &side(2), &side(1)].concat()
        }
        false => {
            let (len, id) = ((upper.len() as u16 + 20).to_be_bytes(), id.to_be_bytes());
            let fixed = [0x45, 0, len[0], len[1], id[0], id[1], 0, 0, 64, protocol, 0, 0];
            [fixed.as_slice(), &[10, net, 0, 2, 10, net, 0, 1]].concat()
        }
    };
    let ip_len = packet.len();
    if !v6 {
        let checksum = !sum(&packet);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    packet.extend(upper);
    if has_checksum {
        let addresses = if v6 { 8..40 } else { 12..20 };
        let len = (upper.len() as u16).to_be_bytes();
        let pseudo = [&packet[addresses], &[0, protocol], &len].concat();
        let checksum = !sum(&[pseudo.as_slice(), upper].concat());
        let at = ip_len + if protocol == 17 { 6 } else { 16 };
        packet[at..at + 2].copy_from_slice(&checksum.max(u16::from(protocol == 17)).to_be_bytes());
    }
    packet
}

impl Stream {
    fn packets(&self) -> Vec<Vec<u8>> {
        (0..self.count)
            .map(|number| {
                let is_last = number + 1 == self.count;
                let payload = pattern(if is_last { self.last } else { self.size });
                let seq = (number * self.size) as u32;
                let flags = if is_last { 0x18 } else { 0x10 };
                let mut tcp = [[0x12, 0x34, 0, 80].as_slice(), &seq.to_be_bytes()].concat();
                tcp.extend([0, 0, 0, 7, 0x50, flags, 1, 0, 0, 0, 0, 0]);
                tcp.extend(payload);
                let id = self.id.wrapping_add(number as u16);
                let inside = packet(self.v6, 10, 6, id, &tcp, true);
                let kind: [u8; 2] = if self.v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
                let len = (16 + 14 + inside.len()) as u16;
                let mut udp = [[0x9c, 0x40, 0x12, 0xb5].as_slice(), &len.to_be_bytes()].concat();
                udp.extend([0, 0, 8, 0, 0, 0, 0, 0, 42, 0]);
                udp.extend([[2; 12].as_slice(), &kind, &inside].concat());
                packet(self.v6_outside, 9, 17, id, &udp, self.has_checksum)
            })
            .collect()
    }
}

/// As a router sends it on.
fn hopped(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 6 {
        packet[7] -= 1;
        return packet;
    }
    packet[8] -= 1;
    packet[10..12].fill(0);
    let checksum = !sum(&packet[..20]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// Segments that were joined in tunnels come out of Linux as they went in, whether it cuts them or the port that they
/// leave by.
#[test]
fn what_is_joined_in_tunnels_linux_cuts_again() {
    in_namespace(|| {
        let mut near = host("cvio0", 1, 1500);
        if !near.offloads().udp_tunnels {
            eprintln!("skipped: this kernel is older than 6.17");
            return;
        }
        // Linux shows its ends of both families.
        for v6 in [false, true] {
            tunnel(("vxlan id 42 dstport 4789", v6), 1, 2);
            ip("neigh add 10.10.0.2 lladdr 02:00:00:00:00:02 dev ov");
            let socket = UdpSocket::bind("0.0.0.0:4000").expect("bind");
            send(&socket, "10.10.0.2:9", 1000, 3000);
            take(&mut near, 3);
            ip("link del ov");
        }
        // And then forwards to them.
        let far = RefCell::new(host("cvio1", 3, 1500));
        for (family, end, len, from, own) in [
            ("-4", "10.9.0.1", 24, "10.9.0.2", "10.9.0.3"),
            ("-6", "fd09::1", 64, "fd09::2", "fd09::3"),
        ] {
            ip(&format!("addr del {end}/{len} dev cvio0"));
            ip(&format!("{family} route replace {end} dev cvio1 src {own}"));
            ip(&format!("{family} route replace {from} dev cvio0"));
        }
        let near = RefCell::new(near);
        for switch in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{switch}"), "1").expect("forwarding");
        }
        let mut runner = TestRunner::new(Config { cases: 48, ..Config::default() });
        let outcome = runner.run(&streams(), |stream| {
            let packets = stream.packets();
            let expected: Vec<_> = packets.iter().map(|packet| hopped(packet)).collect();
            let (mut near, mut far) = (near.borrow_mut(), far.borrow_mut());
            for switch in ["off", "on"] {
                let features = ["tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"];
                let [one, other] = features.map(|feature| format!("{feature} {switch}"));
                run("ethtool", &format!("-K cvio1 {one} {other}"));
                let (_umem, mut pool) = region(64);
                let mut burst = Burst::new();
                for packet in &packets {
                    let mut frame = pool.take().expect("a frame");
                    let start = frame.headroom();
                    frame.bytes_mut()[start..start + packet.len()].copy_from_slice(packet);
                    burst.push(Packet { frame, span: Span { start, len: packet.len() } });
                }
                let before = near.joined();
                prop_assert_eq!(near.tx(&mut burst, &mut pool).expect("tx"), packets.len());
                prop_assert!(near.joined() - before >= packets.len() as u64 - 2, "joined");
                let seen = take_all(&mut far, expected.len());
                prop_assert_eq!(&seen, &expected, "with its segmentation {}", switch);
            }
            Ok(())
        });
        outcome.expect("as they went in");
        let refused = near.borrow().stats().tx_refused + far.borrow().stats().rx_refused;
        assert_eq!(refused, 0);
    });
}
