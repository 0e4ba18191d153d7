//! `ip xfrm` through the library against the databases that culvert serves.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use crate::program::{Program, command, python};
use crypto::Keys;
use policy::{Action, Direction, PolicyConfig, SaConfig, SaId};
use xfrm::{
    Backend, Counters, Database, Handed, Now, PolicyLive, Refusal, Replay, SaLive, Server,
    ServerLimits, Settings, Start,
};

/// A data path that takes everything and carries nothing.
#[derive(Debug)]
struct Idle;

impl Backend for Idle {
    fn sa_add(&mut self, _: &SaConfig, _: &Keys, _: &Start) -> Result<(), Refusal> {
        Ok(())
    }

    fn sa_update(&mut self, _: &SaConfig) -> Result<(), Refusal> {
        Ok(())
    }

    fn sa_delete(&mut self, _: &SaId, _: &Keys, _: xfrm::SaEnd) {}

    fn sa_live(&self, _: &SaId) -> Option<SaLive> {
        None
    }

    fn sa_set_replay(&mut self, _: &SaId, _: &Replay) -> Result<(), Refusal> {
        Ok(())
    }

    fn sa_set_counters(&mut self, _: &SaId, _: &Counters) -> Result<(), Refusal> {
        Ok(())
    }

    fn policy_put(&mut self, _: &PolicyConfig) -> Result<(), Refusal> {
        Ok(())
    }

    fn ask_again(&mut self, _: u32) {}

    fn policy_delete(&mut self, _: u32) {}

    fn policy_live(&self, _: u32) -> Option<PolicyLive> {
        None
    }

    fn set_default(&mut self, _: Direction, _: Action) {}
}

/// The databases behind a socket, in a thread.
struct Served {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// UDP sockets that programs have handed over; each is taken.
    sockets: Receiver<OwnedFd>,
    _dir: tempfile::TempDir,
}

impl Served {
    fn start() -> Served {
        Served::wanting(false)
    }

    /// `sockets` says whether UDP sockets are wanted.
    fn wanting(sockets: bool) -> Served {
        let dir = tempfile::tempdir().expect("scratch");
        let path = dir.path().join("xfrm.sock");
        let mut server = Server::new(&path, ServerLimits::default()).expect("it listens");
        if sockets {
            server.want_sockets();
        }
        let (came, sockets) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut database = Database::new(Idle, Settings::default());
            let start = Instant::now();
            while !stopped.load(SeqCst) {
                let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let now = Now {
                    wall_s: wall.expect("after 1970").as_secs(),
                    mono_ms: start.elapsed().as_millis() as u64,
                };
                server.process(&mut database, now, &mut |_| {}).expect("it serves");
                for Handed { client, socket } in server.take_sockets() {
                    server.answer(client, 0);
                    let _ = came.send(socket);
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        Served { path, stop, thread: Some(thread), sockets, _dir: dir }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Runs `ip` with these arguments; returns whether it succeeded, and all that it said.
fn ip(path: &Path, arguments: &str) -> (bool, String) {
    let out = command("ip", Some(path)).args(arguments.split(' ')).output().expect("ip runs");
    let said = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn done(path: &Path, arguments: &str) -> String {
    let (success, said) = ip(path, arguments);
    assert!(success, "ip {arguments}: {said}");
    said
}

const ID: &str = "src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x1000";
const AEAD: &str = "aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128";

#[test]
fn states_are_added_shown_and_deleted() {
    let served = Served::start();
    let path = &served.path;
    done(path, &format!("xfrm state add {ID} reqid 7 mode tunnel replay-window 32 {AEAD}"));
    let (success, said) = ip(path, &format!("xfrm state add {ID} reqid 7 mode tunnel {AEAD}"));
    assert!(!success && said.contains("exists"), "{said}");
    for query in ["xfrm state".to_owned(), format!("xfrm state get {ID}")] {
        let said = done(path, &query);
        assert!(said.contains("proto esp spi 0x00001000 reqid 7 mode tunnel"), "{said}");
        assert!(said.contains("aead rfc4106(gcm(aes)) 0x0001020304"), "{said}");
    }
    let said = done(path, "-s xfrm state");
    assert!(said.contains("lifetime current:") && said.contains("0(bytes), 0(packets)"), "{said}");
    assert!(done(path, "xfrm state count").contains("SAD count 1"));
    done(path, &format!("xfrm state delete {ID}"));
    let (success, said) = ip(path, &format!("xfrm state delete {ID}"));
    assert!(!success && (said.contains("Error") || said.contains("No such process")), "{said}");
    let said = done(path, "xfrm state allocspi src 192.0.2.1 dst 192.0.2.2 proto esp mode tunnel");
    assert!(said.contains("proto esp spi 0x"), "{said}");
    done(path, "xfrm state flush");
    assert_eq!(done(path, "xfrm state"), "");
}

#[test]
fn policies_are_added_shown_and_deleted() {
    let served = Served::start();
    let path = &served.path;
    let selector = "src 10.1.0.0/16 dst 10.2.0.0/16";
    let tmpl = "tmpl src 192.0.2.1 dst 192.0.2.2 proto esp reqid 7 mode tunnel";
    done(path, &format!("xfrm policy add {selector} dir out priority 100 {tmpl}"));
    let (success, said) = ip(path, &format!("xfrm policy add {selector} dir out {tmpl}"));
    assert!(!success && said.contains("exists"), "{said}");
    for query in ["xfrm policy".to_owned(), format!("xfrm policy get {selector} dir out")] {
        let said = done(path, &query);
        assert!(said.contains("dir out priority 100"), "{said}");
        assert!(said.contains("proto esp reqid 7 mode tunnel"), "{said}");
    }
    assert!(done(path, "-s xfrm policy").contains("lifetime current:"));
    assert!(done(path, "xfrm policy count").contains("SPD"));
    done(path, &format!("xfrm policy delete {selector} dir out"));
    assert_eq!(done(path, "xfrm policy"), "");
    done(path, &format!("xfrm policy add {selector} dir in action block"));
    done(path, "xfrm policy flush");
    assert_eq!(done(path, "xfrm policy"), "");
}

#[test]
fn a_monitor_sees_what_another_program_does() {
    let served = Served::start();
    let mut c = command("stdbuf", Some(&served.path));
    c.args(["-oL", "ip", "xfrm", "monitor"]);
    let mut monitor = Program::spawn(c);
    // The monitor may not listen yet; what it misses is done again, until it has seen something.
    let (has_seen, pid) = (AtomicBool::new(false), monitor.pid());
    thread::scope(|scope| {
        scope.spawn(|| {
            let deadline = Instant::now() + Duration::from_secs(60);
            while !has_seen.load(SeqCst) && Instant::now() < deadline {
                done(&served.path, &format!("xfrm state add {ID} mode tunnel {AEAD}"));
                done(&served.path, &format!("xfrm state delete {ID}"));
                thread::sleep(Duration::from_millis(50));
            }
            if !has_seen.load(SeqCst) {
                // What is expected of it fails then.
                let killed = Command::new("kill").arg(pid.to_string()).status();
                assert!(killed.is_ok_and(|status| status.success()));
            }
        });
        monitor.expect("192.0.2.1 dst 192.0.2.2");
        monitor.expect("Deleted");
        has_seen.store(true, SeqCst);
    });
    monitor.kill();
}

#[test]
fn a_dump_of_many_states_is_whole() {
    let served = Served::start();
    let dir = tempfile::tempdir().expect("scratch");
    let batch = dir.path().join("batch");
    let lines: String = (0..1000)
        .map(|i| {
            format!(
                "xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi {} mode tunnel {AEAD}\n",
                4096 + i
            )
        })
        .collect();
    std::fs::write(&batch, lines).expect("written");
    done(&served.path, &format!("-batch {}", batch.display()));
    let said = done(&served.path, "xfrm state");
    assert_eq!(said.matches("proto esp spi 0x").count(), 1000);
}

/// As an IKE daemon does: a socket of each family, bound, and then `UDP_ENCAP`. Says where they are.
const IKE_DAEMON: &str = "
all = [socket.socket(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_INET6)]
all[1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
for s, address in zip(all, ('127.0.0.1', '::1')):
    s.bind((address, 0))
    s.setsockopt(socket.IPPROTO_UDP, 100, 2)
    s.settimeout(20)
say('bound', *[s.getsockname()[1] for s in all])
";

#[test]
fn ike_stays_with_its_daemon_and_all_else_is_culverts() {
    let served = Served::wanting(true);
    let script =
        format!("{IKE_DAEMON}for s in all: say('heard', s.recv(100)[4:].decode())\nhear()");
    let mut daemon = python(&script, &served.path, "20");
    let ports = daemon.expect("bound");
    let patience = Duration::from_secs(20);
    for (port, own) in ports.split(' ').skip(1).zip(["127.0.0.1:0", "[::1]:0"]) {
        let culverts = UdpSocket::from(served.sockets.recv_timeout(patience).expect("a socket"));
        let at = culverts.local_addr().expect("bound");
        assert_eq!(at.port().to_string(), port);
        culverts.set_read_timeout(Some(patience)).expect("a time");
        let peer = UdpSocket::bind(own).expect("a socket");
        for datagram in [&b"\0\0\0\0ike"[..], b"\0\0\x10\0esp", b"\xff", b"\0\0\0"] {
            peer.send_to(datagram, at).expect("sent");
        }
        let mut buffer = [0; 16];
        for datagram in [&b"\0\0\x10\0esp"[..], b"\xff", b"\0\0\0"] {
            let len = culverts.recv(&mut buffer).expect("a datagram");
            assert_eq!(&buffer[..len], datagram);
        }
        assert_eq!(daemon.expect("heard"), "heard ike");
        culverts.set_nonblocking(true).expect("it can");
        assert!(culverts.recv(&mut buffer).is_err(), "IKE is not culvert's");
    }
    daemon.go();
    daemon.finish();
}

#[test]
fn sockets_that_are_not_wanted_stay_with_their_program() {
    let served = Served::start();
    let mut daemon = python(&format!("{IKE_DAEMON}hear()"), &served.path, "20");
    daemon.expect("bound");
    assert!(served.sockets.try_recv().is_err());
    daemon.go();
    daemon.finish();
}
