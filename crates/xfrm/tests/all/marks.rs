//! Which packets a policy with a mark is for: random policies (in, out, fwd; block, allow, protect; IPv4 and IPv6)
//! with random marks and masks go to the running kernel, in a network namespace of its own, and to the database.
//! Packets of the host, for it, and forwarded must be treated alike.
//!
//! The kernel needs no ESP for this: what has no SA is not sent. Where the process may not make a network namespace,
//! or the kernel has no XFRM, or there is no `nft`, the test says so and passes.
#![allow(unsafe_code, reason = "sockets of packets and namespaces need system calls")]

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::*;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_XFRM};
use policy::{Databases, Direction, Flow, Marks, Outbound, Reader};
use xfrm::codec::{
    Field, Header, Id, MarkAttribute, Message, MessageWriter, Messages, PolicyInfo, SelectorInfo,
    Template, attr, flag, kind,
};

/// Marks of packets. A packet's source port is [`FIRST_PORT`] and the number of its mark in this list.
const MARKS: [u32; 16] =
    [0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 0xff, 0x100, 0x10f, 0x8000_000f, u32::MAX];
const FIRST_PORT: u16 = 20_000;
const PORT: u16 = 7000;

const MASKS: [u32; 8] = [0, 1, 3, 0x0f, 0xf0, 0xff, 0x8000_0000, u32::MAX];

/// Sets of policies to each family.
const SETS: u32 = 40;

/// How a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// This host sends it.
    Own,
    /// It is for this host.
    Arriving,
    /// Packets of neither end: forwarded.
    Forwarded,
}

const WAYS: [Way; 3] = [Way::Own, Way::Arriving, Way::Forwarded];

/// The addresses of one family: of the host at its two interfaces, and of a neighbour behind each.
struct Net {
    here: [IpAddr; 2],
    near: IpAddr,
    far: IpAddr,
}

impl Net {
    fn new(v6: bool) -> Net {
        let ip = |n: u8, last: u8| {
            let text = if v6 { format!("fd0{n}::{last}") } else { format!("10.{n}.0.{last}") };
            text.parse().unwrap()
        };
        Net { here: [ip(1, 1), ip(2, 1)], near: ip(1, 9), far: ip(2, 9) }
    }

    fn ends(&self, way: Way) -> (IpAddr, IpAddr) {
        match way {
            Way::Own => (self.here[1], self.far),
            Way::Arriving => (self.near, self.here[0]),
            Way::Forwarded => (self.near, self.far),
        }
    }

    /// An IP packet with UDP, and this in it.
    fn packet(&self, way: Way, mark: usize, body: [u8; 8]) -> Vec<u8> {
        let (src, dst) = self.ends(way);
        let mut udp = Vec::new();
        for word in [FIRST_PORT + mark as u16, PORT, 16, 0] {
            udp.extend(word.to_be_bytes());
        }
        udp.extend(body);
        let mut packet = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut header = vec![0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0];
                header.extend(src.octets().into_iter().chain(dst.octets()));
                let sum = wire::checksum::checksum(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                header
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut header = vec![0x60, 0, 0, 0, 0, 16, 17, 64];
                header.extend(src.octets().into_iter().chain(dst.octets()));
                let pseudo = [&header[8..40], &[0, 0, 0, 16, 0, 0, 0, 17], &udp].concat();
                let sum = wire::checksum::checksum(&pseudo);
                udp[6..8].copy_from_slice(&sum.to_be_bytes());
                header
            }
            _ => unreachable!(),
        };
        packet.extend(udp);
        packet
    }
}

/// A fixed sequence: every run is the same.
struct Dice(u32);

impl Dice {
    fn below(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) % below
    }

    fn word(&mut self) -> u32 {
        self.below(1 << 16) << 16 | self.below(1 << 16)
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u32) as usize]
    }
}

/// The request for a policy with a random mark. Where the kernel does not cut marks, they are cut here.
fn policy_request(dice: &mut Dice, net: &Net, kernel_cuts: bool) -> Message {
    let v6 = net.far.is_ipv6();
    let family = if v6 { 10 } else { 2 };
    let ends = [net.here[0], net.here[1], net.near, net.far];
    let mut selector = SelectorInfo { family, ..SelectorInfo::default() };
    // Most of them differ in nothing but marks and priority.
    if dice.below(4) == 0 {
        (selector.dst, selector.dst_prefix_len) =
            (dice.of(&ends).into(), if v6 { 128 } else { 32 });
    }
    let (dir, action) = (dice.below(3) as u8, dice.below(3));
    let info = PolicyInfo {
        selector,
        limits: unlimited(),
        priority: dice.below(6),
        dir,
        action: u8::from(action == 1),
        ..PolicyInfo::default()
    };
    let peer: IpAddr = if v6 { "fd99::1".parse().unwrap() } else { "192.0.2.1".parse().unwrap() };
    let protecting = Template {
        id: Id { dst: peer.into(), protocol: 50, ..Id::default() },
        family,
        src: net.here[1].into(),
        mode: 1,
        ..template()
    };
    let templates = if action == 2 { vec![protecting] } else { Vec::new() };
    let mut w = policy(kind::NEWPOLICY, &info, &templates);
    if dice.below(5) > 0 {
        let mask = dice.of(&MASKS);
        // By chance one that packets have, the same with more bits, or anything.
        let value = match dice.below(4) {
            0 => dice.word(),
            1 => dice.of(&MARKS) & mask,
            _ => dice.of(&MARKS) & mask | dice.word() & !mask,
        };
        let value = if kernel_cuts { value } else { value & mask };
        w.field(attr::MARK, &MarkAttribute { value, mask });
    }
    w.take()
}

/// The database's decision: true if the packet goes on.
fn passes(reader: &Reader<()>, way: Way, packet: &[u8], mark: u32) -> bool {
    let headers = wire::parse_ip(packet).unwrap();
    let flow = Flow::marked(&headers, 0, Marks::of_mark(mark));
    let leaves = || matches!(reader.outbound(&flow), Outbound::NoPolicy | Outbound::Bypass(_));
    let comes = |direction| reader.verify(direction, &flow, &[]).is_ok();
    match way {
        Way::Own => leaves(),
        Way::Arriving => comes(Direction::In),
        Way::Forwarded => comes(Direction::Forward) && leaves(),
    }
}

fn run(command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A socket of packets at an interface.
struct Wire(OwnedFd);

impl Wire {
    fn at(interface: &str) -> Wire {
        let all = 3u16.to_be();
        // SAFETY: no pointers are involved.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(all)) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: the descriptor was just made.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let name = std::ffi::CString::new(interface).unwrap();
        // SAFETY: all zero is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        // SAFETY: the name ends with 0 and lives through the call.
        address.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) }.cast_signed();
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the address lives through the call and has this length.
        let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        Wire(fd)
    }

    fn send(&self, packet: &[u8]) {
        let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        let frame = [&HERE_MAC[..], &THERE_MAC, &kind, packet].concat();
        let fd = self.0.as_raw_fd();
        // SAFETY: the bytes are valid for reads of their length.
        let n = unsafe { libc::send(fd, frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(n, frame.len() as isize);
    }

    /// The bodies of packets of this test that have come since.
    fn bodies(&self) -> Vec<[u8; 8]> {
        let mut bodies = Vec::new();
        let mut buffer = [0u8; 2048];
        loop {
            let (at, fd) = (buffer.as_mut_ptr().cast(), self.0.as_raw_fd());
            // SAFETY: the buffer is valid for writes of its length.
            let n = unsafe { libc::recv(fd, at, buffer.len(), libc::MSG_DONTWAIT) };
            let Ok(n) = usize::try_from(n) else { return bodies };
            bodies.extend(buffer[..n].last_chunk::<8>().filter(|body| body[0] == TAG));
        }
    }
}

const HERE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THERE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// First byte of this test's packets.
const TAG: u8 = 0xa7;

/// A namespace of this thread with an interface to either side, and the marks of what comes in.
fn world() -> io::Result<()> {
    // SAFETY: the call only affects this thread, which the test ends with.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    run("ip link set lo up");
    for (n, name) in [(1, "near"), (2, "far")] {
        run(&format!(
            "ip link add {name} address 02:00:00:00:00:01 type veth peer name {name}-end"
        ));
        run(&format!("ip link set {name}-end address 02:00:00:00:00:09 up"));
        run(&format!("ip link set {name} up"));
        run(&format!("ip addr add 10.{n}.0.1/24 dev {name}"));
        run(&format!("ip addr add fd0{n}::1/64 dev {name} nodad"));
        // Of no interface here, so that what is sent to it does not come in again.
        for addr in [format!("10.{n}.0.9"), format!("fd0{n}::9")] {
            run(&format!("ip neigh add {addr} lladdr 02:00:00:00:00:99 dev {name}"));
        }
    }
    run(
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0",
    );
    // Linux sends nothing on a link before it has handled the carrier's coming, which it does in its own time.
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_up = |name: &str| {
        let output = Command::new("ip").args(["link", "show", name]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("state UP")
    };
    while !["near", "far"].into_iter().all(is_up) {
        assert!(Instant::now() < deadline, "an interface has no carrier");
        std::thread::sleep(Duration::from_millis(5));
    }
    let map: Vec<String> = MARKS
        .iter()
        .enumerate()
        .map(|(n, mark)| format!("{} : {mark:#x}", usize::from(FIRST_PORT) + n))
        .collect();
    let rules = format!(
        "table inet t {{\n chain c {{\n type filter hook prerouting priority -300;\n \
         meta mark set udp sport map {{ {} }}\n }}\n}}\n",
        map.join(", ")
    );
    let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn()?;
    io::Write::write_all(nft.stdin.as_mut().unwrap(), rules.as_bytes())?;
    assert!(nft.wait()?.success(), "{rules}");
    Ok(())
}

/// The kernel's answer to a request: its errno, and all that it said before.
fn ask(socket: &Socket, request: &[u8]) -> (i32, Vec<Vec<u8>>) {
    socket.send(request, 0).unwrap();
    let mut said = Vec::new();
    loop {
        let (answer, _) = socket.recv_from_full().unwrap();
        for (header, message) in Messages::new(&answer) {
            match header.kind {
                kind::ERROR => {
                    let errno = message[Header::LEN..][..4].try_into().unwrap();
                    return (-i32::from_ne_bytes(errno), said);
                }
                _ => said.push(message.to_vec()),
            }
        }
    }
}

fn flush(socket: &Socket) {
    for what in [kind::FLUSHPOLICY, kind::FLUSHSA] {
        let mut w = MessageWriter::new(what, flag::REQUEST | flag::ACK, 1, 0);
        if what == kind::FLUSHSA {
            w.fixed(&0u32);
        }
        ask(socket, &w.finish());
    }
}

/// True if the kernel stores marks cut to their masks.
fn kernel_cuts(socket: &Socket) -> bool {
    let mut w = policy(kind::NEWPOLICY, &policy_info(1), &[]);
    ask(socket, &w.field(attr::MARK, &MarkAttribute { value: 0xff, mask: 0x0f }).take());
    let mut w = request(kind::GETPOLICY, &policy_id(1, 0));
    let (errno, _) =
        ask(socket, &w.field(attr::MARK, &MarkAttribute { value: 0x0f, mask: 0x0f }).take());
    flush(socket);
    errno == 0
}

fn compare(kernel: &Socket, v6: bool) {
    let net = Net::new(v6);
    let [near_end, far_end] = ["near-end", "far-end"].map(Wire::at);
    let receiver = UdpSocket::bind((net.here[0], PORT)).unwrap();
    receiver.set_nonblocking(true).unwrap();
    let senders = [(); MARKS.len()].iter().enumerate().map(|(n, ())| {
        let socket = UdpSocket::bind((net.here[1], FIRST_PORT + n as u16)).unwrap();
        let (mark, fd) = (MARKS[n], socket.as_raw_fd());
        let at = (&raw const mark).cast();
        // SAFETY: the option's value lives through the call and has this length.
        let result = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_MARK, at, 4) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        socket
    });
    let senders: Vec<UdpSocket> = senders.collect();
    let cuts = kernel_cuts(kernel);
    let mut dice = Dice(if v6 { 6 } else { 4 });
    let (mut passed, mut sent, mut beyond) = (0, 0, 0);
    for set in 0..SETS {
        flush(kernel);
        let mut lab = Lab::new();
        for _ in 0..10 {
            let request = policy_request(&mut dice, &net, cuts);
            let ours = errno(&lab.send(&request));
            assert_eq!(ask(kernel, &request).0, ours, "{request:02x?}");
            let mark = attribute::<PolicyInfo>(&request, attr::MARK);
            let mark = mark.map(|m| MarkAttribute::decode(&m).unwrap()).unwrap_or_default();
            beyond += u32::from(mark.value & !mark.mask != 0);
        }
        let mut databases = Databases::<()>::new();
        for policy in lab.db.backend().policies.values() {
            databases.put_policy(policy.clone());
        }
        let mut reader = databases.reader();
        reader.refresh_all();

        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for (n, mark) in MARKS.into_iter().enumerate() {
            for (number, way) in WAYS.into_iter().enumerate() {
                let body = [TAG, set as u8, n as u8, number as u8, u8::from(v6), 0, 0, 0];
                let packet = net.packet(way, n, body);
                let list =
                    if passes(&reader, way, &packet, mark) { &mut wanted } else { &mut unwanted };
                list.push(body);
                match way {
                    // The kernel may say that it is not sent.
                    Way::Own => drop(senders[n].send_to(&body, (net.far, PORT))),
                    Way::Arriving | Way::Forwarded => near_end.send(&packet),
                }
            }
        }
        (passed, sent) = (passed + wanted.len(), sent + wanted.len() + unwanted.len());
        let told = |body: &[u8; 8]| {
            format!(
                "set {set}, {:?} with mark {:#x}",
                WAYS[usize::from(body[3])],
                MARKS[usize::from(body[2])]
            )
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut last = false;
        loop {
            let mut came = far_end.bodies();
            let mut buffer = [0; 8];
            while receiver.recv(&mut buffer).is_ok() {
                came.push(buffer);
            }
            for body in came {
                let more = format!("the kernel lets pass what the database stops: {}", told(&body));
                assert!(
                    !unwanted.contains(&body),
                    "{more}: {:#?}",
                    databases.policies().collect::<Vec<_>>()
                );
                wanted.retain(|other| *other != body);
            }
            if last {
                break;
            }
            // Once more when all is there: for what should not have come.
            last = wanted.is_empty() || Instant::now() > deadline;
            std::thread::sleep(Duration::from_millis(5));
        }
        let missing: Vec<String> = wanted.iter().map(told).collect();
        assert!(
            missing.is_empty(),
            "the kernel stops what the database lets pass: {missing:?}\n{:#?}",
            databases.policies().map(|p| &p.config).collect::<Vec<_>>()
        );
    }
    assert!((sent / 5..sent * 4 / 5).contains(&passed), "{passed} of {sent}: no test of both");
    assert!(!cuts || beyond > SETS, "only {beyond} marks had bits outside their masks");
    println!(
        "IPv{}: {sent} packets, {passed} pass; {beyond} marks beyond their masks",
        if v6 { 6 } else { 4 }
    );
}

#[test]
fn packets_meet_the_policies_that_they_meet_in_linux() {
    // A thread of its own: the namespace ends with it.
    let result = std::thread::spawn(|| {
        if Command::new("nft").arg("--version").output().is_err() {
            return Err(io::Error::other("there is no nft"));
        }
        world()?;
        let mut kernel = Socket::new(NETLINK_XFRM)?;
        kernel.bind_auto()?;
        kernel.connect(&SocketAddr::new(0, 0))?;
        for v6 in [false, true] {
            compare(&kernel, v6);
        }
        Ok(())
    });
    match result.join() {
        Ok(Ok(())) => {}
        Ok(Err(e)) => eprintln!("skipped: no XFRM of the kernel to compare with ({e})"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
