//! Each call on the socket, held against what a netlink socket does.

use crate::program::{command, python};
use crate::server::{Heard, Record, Server};

/// Runs a script to its end; of what it sent last, the server may hear a moment later.
fn run(script: &str) -> Server {
    let dir = tempfile::tempdir().expect("scratch");
    let path = dir.path().join("xfrm.sock");
    let server = Server::start(&path);
    python(script, &path, "60").finish();
    server
}

#[test]
fn names_and_port_ids() {
    let server = run(r#"
a = nl(); b = nl(socket.SOCK_DGRAM); c = nl()
assert a.getsockname() == (0, 0)
a.bind((0, 0)); b.bind((0, 0x42)); c.bind((77, 0))
assert a.getsockname() == (os.getpid(), 0)
assert b.getsockname()[1] == 0x42 and b.getsockname()[0] not in (0, 77, os.getpid())
assert c.getsockname() == (77, 0)
fails(lambda: c.bind((78, 0)), errno.EINVAL)
fails(lambda: nl().bind((77, 0)), errno.EADDRINUSE)
c.bind((77, 3)); assert c.getsockname() == (77, 3)
assert a.getpeername() == (0, 0)
a.connect((0, 0))
fails(lambda: a.shutdown(2), errno.EOPNOTSUPP)
fails(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_STREAM, XFRM), errno.ESOCKTNOSUPPORT)
d = nl(); d.send(msg(GETSPDINFO, 0, 1)); assert d.getsockname()[0] != 0   # bound on first use
"#);
    let heard = server.heard();
    let hellos: Vec<_> = heard
        .iter()
        .filter_map(|(n, h)| match h {
            Heard::Control(Record::Hello { port_id }) => Some((*n, *port_id)),
            _ => None,
        })
        .collect();
    assert_eq!(hellos[2], (2, 77));
    assert!(heard.contains(&(1, Heard::Control(Record::Groups { mask: 0x42 }))));
    assert_ne!(hellos[0].1, hellos[1].1);
}

#[test]
fn requests_and_answers_by_every_call() {
    run(r#"
s = nl(); s.bind((0, 0)); fd = s.fileno()
sends = [
    lambda m: s.send(m), lambda m: s.sendto(m, (0, 0)), lambda m: os.write(fd, m),
    lambda m: s.sendmsg([m[:7], m[7:]]), lambda m: s.sendmsg([m], [], 0, (0, 0)),
    lambda m: os.writev(fd, [m[:1], b'', m[1:]]),
]
def readv():
    parts = [bytearray(3), bytearray(100)]
    n = os.readv(fd, parts)
    return (parts[0] + parts[1])[:n]
def recvfrom():
    data, address = s.recvfrom(4096)
    assert address == (0, 0), address
    return data
def recvmsg():
    data, ancillary, flags, address = s.recvmsg(4096, 512)
    assert (ancillary, flags, address) == ([], 0, (0, 0))
    return data
receives = [lambda: s.recv(4096), lambda: os.read(fd, 4096), readv, recvfrom, recvmsg]
seq = 100
for send in sends:
    for receive in receives:
        seq += 1
        m = msg(GETSPDINFO, 0, seq)
        assert send(m) == len(m)
        assert head(bytes(receive())) == (20, 0x24, 0, seq, os.getpid())
fails(lambda: s.sendto(msg(GETSPDINFO, 0, 1), (999, 0)), errno.ECONNREFUSED)
fails(lambda: s.send(b'x' * 300000), errno.EMSGSIZE)
fails(lambda: s.send(b'x', socket.MSG_OOB), errno.EOPNOTSUPP)
"#);
}

#[test]
fn peeking_truncation_and_not_waiting() {
    run(r#"
s = nl(); s.bind((0, 0))
fails(lambda: s.recv(100, socket.MSG_DONTWAIT), errno.EAGAIN)
s.send(msg(NEWSA, ACK, 7))
data, _, flags, _ = s.recvmsg(0, 0, socket.MSG_PEEK | socket.MSG_TRUNC)
assert (data, flags) == (b'', socket.MSG_TRUNC)
data, _, flags, address = s.recvmsg(10, 0, socket.MSG_PEEK)
assert (len(data), flags, address) == (10, socket.MSG_TRUNC, (0, 0))
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
buf = ctypes.create_string_buffer(8)
assert libc.recv(s.fileno(), buf, 8, socket.MSG_PEEK | socket.MSG_TRUNC) == 36
assert libc.recv(s.fileno(), buf, 8, socket.MSG_TRUNC) == 36
assert struct.unpack('=IHH', buf.raw) == (36, 2, 0)
fails(lambda: s.recv(100, socket.MSG_DONTWAIT), errno.EAGAIN)
s.setblocking(False)
fails(lambda: s.recv(100), errno.EAGAIN)
s.setblocking(True)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('=qq', 0, 50000))
start = time.time(); fails(lambda: s.recv(100), errno.EAGAIN); assert time.time() - start > 0.03
"#);
}

#[test]
fn options() {
    let server = run(r#"
s = nl(); s.bind((0, 0))
for o in (11, 10): s.setsockopt(SOL_NETLINK, o, 1); assert s.getsockopt(SOL_NETLINK, o) == 1
s.setsockopt(SOL_NETLINK, 10, 0); assert s.getsockopt(SOL_NETLINK, 10) == 0
for group in (1, 6, 32): s.setsockopt(SOL_NETLINK, 1, group)
s.setsockopt(SOL_NETLINK, 2, 32)
assert s.getsockopt(SOL_NETLINK, 9) == 0x21 and s.getsockname()[1] == 0x21
for group in (0, 33, -1): fails(lambda: s.setsockopt(SOL_NETLINK, 1, group), errno.EINVAL)
fails(lambda: s.setsockopt(SOL_NETLINK, 99, 1), errno.ENOPROTOOPT)
fails(lambda: s.getsockopt(SOL_NETLINK, 99), errno.ENOPROTOOPT)
fails(lambda: s.setsockopt(SOL_NETLINK, 11, b'x'), errno.EINVAL)
for o in (socket.SO_RCVBUF, socket.SO_SNDBUF, 33, 32): s.setsockopt(socket.SOL_SOCKET, o, 65536)
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 65536
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_NETLINK
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == XFRM
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_RAW
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
assert socket.socket(fileno=os.dup(s.fileno())).family == socket.AF_NETLINK
"#);
    for record in [
        Record::OptionOn { option: 11 },
        Record::OptionOff { option: 10 },
        Record::Subscribe { group: 6 },
        Record::Unsubscribe { group: 32 },
    ] {
        server.wait_for(|h| *h == Heard::Control(record));
    }
}

#[test]
fn nothing_is_missed_once_bind_or_joining_has_returned() {
    run(r#"
for i in range(100):
    listener, other = nl(), nl()
    if i % 2: listener.bind((0, 4))
    else: listener.bind((0, 0)); listener.setsockopt(SOL_NETLINK, 1, 3)
    other.send(msg(NEWSA, ACK, i)); other.recv(100)
    data, address = listener.recvfrom(4096, socket.MSG_DONTWAIT)
    assert head(data)[1] == NEWSA and address == (0, 4), address
    # The answer to a request of one's own is no event, even for a member.
    listener.send(msg(GETSA, DUMP, 9)); assert listener.recvfrom(4096)[1] == (0, 0)
    listener.close(); other.close()
"#);
}

#[test]
fn copies_of_a_descriptor_are_the_same_socket() {
    run(r#"
a = nl(); a.bind((0, 0)); fd = a.fileno()
copies = [os.dup(fd), fcntl.fcntl(fd, fcntl.F_DUPFD, 100), fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200), os.dup2(fd, 300), os.dup2(fd, 301, False)]
a.close()
for i, c in enumerate(copies):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, XFRM, fileno=c)
    assert s.getsockname() == (os.getpid(), 0)
    s.send(msg(GETSPDINFO, 0, i)); assert head(s.recv(100))[3] == i
    s.close()
# All closed: the number is free again, for a port id as for a descriptor.
fails(lambda: os.read(copies[0], 1), errno.EBADF)
b = nl(); b.bind((0, 0)); assert b.getsockname()[0] == os.getpid()
# What is put over one of our descriptors is what it was.
r, w = os.pipe(); os.dup2(r, b.fileno()); os.write(w, b'abc'); assert os.read(b.fileno(), 9) == b'abc'
# Closed by a raw system call, and the number given out anew.
import ctypes
c = nl(); c.bind((0, 0)); n = c.fileno(); ctypes.CDLL(None).syscall(3 if os.uname().machine == 'x86_64' else 57, n)
r2, w2 = os.pipe(); assert n in (r2, w2); os.write(w2, b'x'); assert os.read(r2, 9) == b'x'; c.detach()
d = nl(); d.bind((0, 0)); os.closerange(d.fileno(), d.fileno() + 1); d.detach()
"#);
}

#[test]
fn children_share_the_socket_and_do_not_disturb_it() {
    run(r#"
s = nl(); s.bind((0, 0))
subprocess.run(['/bin/true'], close_fds=True, check=True)          # vfork, and closes all it can
subprocess.run(['/bin/true'], preexec_fn=lambda: None, check=True) # fork
pid = os.fork()
if pid == 0:
    s.send(msg(GETSPDINFO, 0, 1)); assert head(s.recv(100))[3:] == (1, os.getppid())
    t = nl(); t.bind((0, 0)); assert t.getsockname()[0] == os.getpid()
    s.close(); os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
s.send(msg(GETSPDINFO, 0, 2)); assert head(s.recv(100))[3] == 2
"#);
}

#[test]
fn forks_while_other_threads_use_sockets_do_not_hang() {
    run(r#"
stop = False
def work():
    while not stop:
        t = nl(); t.bind((0, 0)); t.send(msg(GETSPDINFO, 0, 3)); assert head(t.recv(100))[3] == 3; t.close()
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
for i in range(60):
    pid = os.fork()
    if pid == 0:
        c = nl(); c.bind((0, 0)); c.send(msg(GETSPDINFO, 0, 4)); os._exit(0 if head(c.recv(100))[3] == 4 else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop = True
for t in threads: t.join()
"#);
}

#[test]
fn other_sockets_and_files_are_left_alone() {
    run(r#"
a, b = socket.socketpair(); a.send(b'hello'); assert b.recv(3, socket.MSG_PEEK) == b'hel'; assert b.recv(9) == b'hello'
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); route.bind((0, 0)); assert route.getsockname()[0] == os.getpid()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0)); u.sendto(b'x', u.getsockname()); assert u.recvfrom(9) == (b'x', u.getsockname())
fails(lambda: u.setsockopt(socket.IPPROTO_IP, 9999, 1), errno.ENOPROTOOPT)
u.setsockopt(socket.IPPROTO_UDP, 100, 2)
fails(lambda: os.read(999, 1), errno.EBADF); fails(lambda: os.close(999), errno.EBADF)
fails(lambda: os.dup2(999, 5), errno.EBADF)
assert fcntl.fcntl(0, fcntl.F_GETFD) in (0, 1)
e = select.epoll(); r, w = os.pipe(); e.register(r, select.EPOLLIN); os.write(w, b'x'); assert e.poll(5) == [(r, select.EPOLLIN)]; e.close()
"#);
}

#[test]
fn an_overrun_is_told_once() {
    let dir = tempfile::tempdir().expect("scratch");
    let path = dir.path().join("xfrm.sock");
    let server = Server::start(&path);
    let mut p = python(
        r#"
s = nl(); s.bind((0, 4)); say('ready'); hear()
assert select.select([s], [], [], 60)[0]
fails(lambda: s.recv(100, socket.MSG_DONTWAIT), errno.ENOBUFS)
fails(lambda: s.recv(100, socket.MSG_DONTWAIT), errno.EAGAIN)
s.setsockopt(SOL_NETLINK, 5, 1); say('deaf'); hear()
assert select.select([s], [], [], 60)[0]
fails(lambda: s.recv(100, socket.MSG_DONTWAIT), errno.EAGAIN)
"#,
        &path,
        "60",
    );
    p.expect("ready");
    server.overrun();
    p.go();
    p.expect("deaf");
    server.overrun();
    p.go();
    p.finish();
}

#[test]
fn without_the_variable_everything_is_the_kernels() {
    let script = "
import socket, os
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 6); s.bind((0, 0))
inode = os.fstat(s.fileno()).st_ino
assert any(line.split()[-1] == str(inode) for line in open('/proc/net/netlink')), inode
";
    let status = command("/usr/bin/python3", None).args(["-c", script]).status().expect("runs");
    assert!(status.success());
}

#[test]
fn iproute2_dumps_and_monitors() {
    let dir = tempfile::tempdir().expect("scratch");
    let path = dir.path().join("xfrm.sock");
    let server = Server::start(&path);
    let out = command("ip", Some(&path)).args(["xfrm", "state"]).output().expect("runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(String::from_utf8_lossy(&out.stdout).contains("src 192.0.2.1 dst 192.0.2.2"));
    let mut c = command("stdbuf", Some(&path));
    c.args(["-oL", "ip", "xfrm", "monitor"]);
    let mut monitor = crate::program::Program::spawn(c);
    server.wait_for(|h| matches!(h, Heard::Control(Record::Groups { mask }) if *mask != 0));
    server.event(0x10, 3);
    monitor.expect("src 192.0.2.1 dst 192.0.2.2");
    monitor.kill();
}

/// A daemon older than the library answers nothing about UDP sockets: the program's own stays as it is.
#[test]
fn a_daemon_that_knows_nothing_of_udp_sockets_gets_none() {
    let server = run(r#"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0))
s.setsockopt(socket.IPPROTO_UDP, 100, 2)
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 0
s.close()
"#);
    server.wait_for(|h| matches!(h, Heard::Control(Record::Sockets { .. })));
}
