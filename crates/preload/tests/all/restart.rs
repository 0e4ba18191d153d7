//! The server is killed and started again while a program does this or that.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{Program, command, python};
use crate::server::{Heard, Record, Server};

const NEWSA: u16 = 0x10;
const SA_GROUP: u32 = 3;

/// A server, a program that uses it, and the ways to disturb them.
struct Scene {
    _dir: tempfile::TempDir,
    path: PathBuf,
    server: Option<Server>,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().expect("scratch");
        let path = dir.path().join("xfrm.sock");
        let server = Some(Server::start(&path));
        Scene { _dir: dir, path, server }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    fn kill(&mut self) {
        self.server = None;
    }

    fn start(&mut self) {
        self.server = Some(Server::start(&self.path));
    }

    fn restart_after(&mut self, pause: Duration) {
        self.kill();
        thread::sleep(pause);
        self.start();
    }

    fn python(&self, script: &str) -> Program {
        python(script, &self.path, "60")
    }

    /// Waits until so many sockets have renewed their memberships with this server.
    fn wait_for_members(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let members = |heard: Vec<(usize, Heard)>| {
            let joined =
                |h: &Heard| matches!(h, Heard::Control(Record::Groups { mask }) if *mask & 4 != 0);
            heard.iter().filter(|(_, h)| joined(h)).count()
        };
        while members(self.server().heard()) < count {
            assert!(Instant::now() < deadline, "no renewal: {:?}", self.server().heard());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Restarts the server, and sends an event once `listeners` sockets are members again.
    fn restart_and_send(&mut self, absence: Duration, listeners: usize) {
        self.restart_after(absence);
        self.wait_for_members(listeners);
        self.server().event(NEWSA, SA_GROUP);
    }
}

/// How long the server stays away: less than any back-off, and more than the first ones.
const ABSENCES: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(60), Duration::from_millis(900)];

#[test]
fn a_listener_blocked_in_recv_goes_on_listening() {
    for absence in ABSENCES {
        let mut scene = Scene::new();
        let mut p = scene.python(
            r#"
s = nl(); s.bind((0, 4)); s.setsockopt(SOL_NETLINK, 11, 1); say('ready')
fails(lambda: s.recv(4096), errno.ENOBUFS)           # events may have been missed: said once
assert head(s.recv(4096))[1] == NEWSA
assert s.getsockname() == (os.getpid(), 4)
"#,
        );
        p.expect("ready");
        thread::sleep(Duration::from_millis(30));
        scene.restart_and_send(absence, 1);
        p.finish();
        let heard = scene.server().heard();
        assert!(heard.contains(&(0, Heard::Control(Record::OptionOn { option: 11 }))), "{heard:?}");
    }
}

/// Listens, as an IKE daemon does, and has a socket for ESP in UDP, which is handed over.
const ENCAPSULATES: &str = r#"
n = nl(); n.bind((0, 4)); threading.Thread(target=lambda: fails(lambda: n.recv(4096), errno.ENOBUFS), daemon=True).start()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0))
s.setsockopt(17, 100, 2); say('ready'); hear()
"#;

#[test]
fn a_socket_is_handed_over_to_a_server_that_takes_long_to_begin() {
    let mut scene = Scene::new();
    scene.server().take_sockets();
    let is_given = |h: &Heard| matches!(h, Heard::Control(Record::Socket { .. }));
    let mut p = scene.python(ENCAPSULATES);
    p.expect("ready");
    scene.server().wait_for(is_given);
    scene.kill();
    // It has begun to listen, and is asked.
    scene.server = Some(Server::begin(&scene.path));
    scene.server().wait_for(|h| matches!(h, Heard::Control(Record::Sockets { .. })));
    // Longer than the library waits for an answer.
    thread::sleep(Duration::from_millis(2500));
    assert!(!scene.server().heard().iter().any(|(_, h)| is_given(h)), "it has said nothing");
    scene.server().speak();
    scene.server().wait_for(is_given);
    p.finish();
}

/// Counts how often a poller that is told "readable" finds nothing: it must not spin.
const POLLER: &str = r#"
s = nl(); s.bind((0, 4)); s.setblocking(False); start = time.process_time(); began = time.time()
if how == 'poll':
    p = select.poll(); p.register(s, select.POLLIN); wait = lambda: p.poll(60000)
elif how == 'select':
    wait = lambda: select.select([s], [], [], 60)[0]
else:
    e = select.epoll(); e.register(s, select.EPOLLIN, ); wait = lambda: e.poll(60)
say('ready'); rounds = 0; errors = []
while True:
    assert wait(), 'nothing in a minute'
    rounds += 1
    try: data = s.recv(4096)
    except OSError as e2: errors.append(e2.errno); continue
    assert head(data)[1] == NEWSA
    break
assert rounds < 12 + 4 * (time.time() - began), rounds
assert set(errors) <= {errno.EAGAIN, errno.ENOBUFS} and errors.count(errno.ENOBUFS) == 1, errors
assert time.process_time() - start < 0.5
"#;

#[test]
fn a_program_that_polls_sleeps_meanwhile_and_gets_events_again() {
    for how in ["poll", "select", "epoll"] {
        for absence in ABSENCES {
            let mut scene = Scene::new();
            let mut p = scene.python(&format!("how = {how:?}\n{POLLER}"));
            p.expect("ready");
            thread::sleep(Duration::from_millis(30));
            scene.restart_and_send(absence, 1);
            p.finish();
        }
    }
}

#[test]
fn a_child_that_keeps_the_old_connection_open_does_not_make_epoll_spin() {
    let mut scene = Scene::new();
    let mut p = scene.python(&format!(
        "how = 'epoll'\n{}",
        POLLER.replace(
            "say('ready');",
            "child = os.fork()\nif child == 0: time.sleep(1000)\nsay('ready');"
        ) + "os.kill(child, 9)\n"
    ));
    p.expect("ready");
    scene.restart_and_send(Duration::from_millis(200), 1);
    p.finish();
}

#[test]
fn a_request_in_flight_is_sent_again() {
    for absence in ABSENCES {
        let mut scene = Scene::new();
        scene.server().fall_silent();
        let mut p = scene.python(
            r#"
a = nl(); a.bind((0, 0)); a.send(msg(NEWSA, ACK, 41)); b = nl(); b.bind((0, 0)); b.send(msg(GETSA, DUMP, 42)); say('sent')
assert head(a.recv(4096))[1:4] == (2, 0, 41)
assert select.select([b], [], [], 60)[0]
assert head(b.recv(4096))[1] == NEWSA and head(b.recv(4096))[1] == 3
fails(lambda: a.recv(99, socket.MSG_DONTWAIT), errno.EAGAIN)
"#,
        );
        p.expect("sent");
        scene.server().wait_for(|h| matches!(h, Heard::Netlink(_, 42)));
        scene.restart_after(absence);
        p.finish();
        let heard = scene.server().heard();
        let times = heard.iter().filter(|(_, h)| *h == Heard::Netlink(NEWSA, 41)).count();
        assert_eq!(times, 1, "{heard:?}");
    }
}

#[test]
fn an_answered_request_is_not_sent_again() {
    let mut scene = Scene::new();
    let mut p = scene.python(
        r#"
s = nl(); s.bind((0, 0)); s.send(msg(NEWSA, ACK, 41)); s.recv(99); s.send(msg(DELSA, 0, 42)); say('sent'); hear()
s.send(msg(GETSPDINFO, 0, 43)); assert head(s.recv(99))[3] == 43
"#,
    );
    p.expect("sent");
    scene.server().wait_for(|h| matches!(h, Heard::Netlink(_, 42)));
    scene.restart_after(Duration::ZERO);
    p.go();
    p.finish();
    let heard = scene.server().heard();
    let netlink: Vec<_> = heard.iter().filter(|(_, h)| matches!(h, Heard::Netlink(..))).collect();
    assert_eq!(netlink, [&(0, Heard::Netlink(0x25, 43))], "{heard:?}");
}

#[test]
fn a_dump_that_was_half_read_ends_as_interrupted() {
    let mut scene = Scene::new();
    scene.server().halve_dumps();
    let mut p = scene.python(
        r#"
s = nl(); s.bind((0, 0)); s.send(msg(GETSA, DUMP, 9)); assert head(s.recv(4096))[1] == NEWSA; say('half')
assert head(s.recv(4096)) == (20, 3, 2 | 0x10, 9, os.getpid())
s.send(msg(GETSA, DUMP, 10)); assert head(s.recv(4096))[3] == 10
"#,
    );
    p.expect("half");
    scene.restart_after(Duration::from_millis(50));
    p.finish();
}

#[test]
fn a_send_waits_for_the_server_and_gives_up_in_time() {
    let mut scene = Scene::new();
    let mut p = scene.python(
        "s = nl(); s.bind((0, 0)); say('ready'); hear(); s.send(msg(GETSPDINFO, 0, 1)); assert head(s.recv(99))[3] == 1",
    );
    p.expect("ready");
    scene.kill();
    p.go();
    thread::sleep(Duration::from_millis(300));
    scene.start();
    p.finish();

    let mut p = python(
        r#"
s = nl(); s.bind((0, 0)); t = nl(); t.bind((0, 0)); t.send(msg(NEWSA, ACK, 5)); say('ready'); hear()
fails(lambda: s.send(b'x' * 16, socket.MSG_DONTWAIT), errno.ECONNREFUSED)
fails(lambda: s.recv(99, socket.MSG_DONTWAIT), errno.EAGAIN)
start = time.time()
fails(lambda: s.send(msg(GETSPDINFO, 0, 1)), errno.ECONNREFUSED)
assert time.time() - start > 0.9
fails(nl, errno.ECONNREFUSED)
# A request in flight is answered with the error.
assert select.select([t], [], [], 60)[0]
answer = t.recv(99)
assert head(answer)[1:4] == (2, 0x100, 5) and struct.unpack('=i', answer[16:20])[0] == -errno.ECONNREFUSED
"#,
        &scene.path,
        "1",
    );
    scene.server().fall_silent();
    p.expect("ready");
    scene.server().wait_for(|h| matches!(h, Heard::Netlink(_, 5)));
    scene.kill();
    p.go();
    p.finish();
}

#[test]
fn a_program_started_before_the_server_waits_for_it() {
    let mut scene = Scene::new();
    scene.kill();
    let p = scene.python("s = nl(); s.bind((0, 0)); s.send(msg(GETSPDINFO, 0, 1)); s.recv(99)");
    thread::sleep(Duration::from_millis(300));
    scene.start();
    p.finish();
}

#[test]
fn parent_and_child_both_reconnect() {
    for fork_while_away in [false, true] {
        let mut scene = Scene::new();
        let mut p = scene.python(&format!(
            r#"
s = nl(); s.bind((0, 4)); say('bound'); hear()
if {}: fails(lambda: s.recv(1, socket.MSG_DONTWAIT), errno.EAGAIN)
pid = os.fork()
me = 'child' if pid == 0 else 'parent'
say('ready ' + me)
fails(lambda: s.recv(4096), errno.ENOBUFS)
assert head(s.recv(4096))[1] == NEWSA
say(me + ' got it')
if pid: assert os.waitpid(pid, 0)[1] == 0
else: os._exit(0)
"#,
            if fork_while_away { "True" } else { "False" }
        ));
        p.expect("bound");
        if fork_while_away {
            scene.kill();
        }
        p.go();
        p.expect("ready");
        p.expect("ready");
        thread::sleep(Duration::from_millis(50));
        scene.restart_and_send(Duration::from_millis(100), 2);
        p.finish();
    }
}

#[test]
fn many_restarts_leak_no_descriptor() {
    let mut scene = Scene::new();
    let mut p = scene.python(
        r#"
a = nl(); a.bind((0, 4)); b = os.dup(a.fileno()); c = nl(); c.bind((0, 0))
count = lambda: len(os.listdir('/proc/self/fd'))
before = count()
for i in range(20):
    say('ready'); hear()
    c.send(msg(GETSPDINFO, 0, i)); assert head(c.recv(99))[3] == i
    fails(lambda: a.recv(99), errno.ENOBUFS)
    assert count() == before, os.listdir('/proc/self/fd')
assert os.fstat(a.fileno()).st_ino == os.fstat(b).st_ino
say(len(os.listdir('/proc/self/task')), 'thread')
"#,
    );
    for i in 0..20 {
        p.expect("ready");
        scene.restart_after(Duration::from_millis(i * 7 % 40));
        p.go();
    }
    p.expect("thread");
    p.finish();
}

#[test]
fn a_server_that_hangs_up_on_everyone_does_not_make_the_program_spin() {
    let mut scene = Scene::new();
    let mut p = scene.python(
        r#"
s = nl(); s.bind((0, 4)); s.setblocking(False); say('ready'); hear(); start = time.process_time(); rounds = 0
p = select.poll(); p.register(s, select.POLLIN); end = time.time() + 1.5
while time.time() < end:
    if p.poll(100):
        rounds += 1
        try: s.recv(99)
        except OSError as e: assert e.errno in (errno.EAGAIN, errno.ENOBUFS), e
assert time.process_time() - start < 0.5
say(rounds, 'rounds')
"#,
    );
    p.expect("ready");
    scene.kill();
    // Accepts and hangs up, again and again.
    let listener = Server::start(&scene.path);
    listener.hang_up_on_everyone();
    p.go();
    let rounds = p.expect("rounds");
    let rounds: usize = rounds.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(rounds < 100, "{rounds}");
    p.finish();
}

#[test]
fn ip_monitor_survives() {
    let mut scene = Scene::new();
    let mut c = command("stdbuf", Some(&scene.path));
    c.args(["-oL", "ip", "xfrm", "monitor"]);
    let mut monitor = Program::spawn(c);
    scene.wait_for_members(1);
    scene.restart_after(Duration::from_millis(100));
    scene.wait_for_members(1);
    thread::sleep(Duration::from_millis(50));
    scene.server().event(NEWSA, SA_GROUP);
    monitor.expect("src 192.0.2.1 dst 192.0.2.2");
    monitor.kill();
}
