//! The server on its socket, with clients that behave and clients that do not.
#![allow(unsafe_code, reason = "clients of the test make system calls of their own")]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use crate::common::*;
use xfrm::codec::{Message, MessageWriter, Messages, SaInfo, flag, kind};
use xfrm::shim_protocol::{MAGIC, Record, records};
use xfrm::{Change, Database, Group, Now, Output, Server, ServerLimits, Settings};

/// A program behind the preload library.
struct Program(OwnedFd);

impl Program {
    fn connect(path: &Path) -> Program {
        use std::os::unix::ffi::OsStrExt;
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers are involved.
        let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
        assert!(fd >= 0);
        // SAFETY: the descriptor was just made.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut address = libc::sockaddr_un { sun_family: 1, sun_path: [0; 108] };
        for (to, from) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
            *to = *from as libc::c_char;
        }
        let len = size_of::<libc::sockaddr_un>() as u32;
        // SAFETY: the address lives through the call and has this length.
        let r = unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) };
        assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
        Program(fd)
    }

    fn greet(path: &Path, port_id: u32, more: &[Record]) -> Program {
        let p = Program::connect(path);
        let mut datagram = MAGIC.to_vec();
        datagram.extend(Record::Hello { port_id }.to_bytes());
        for r in more {
            datagram.extend(r.to_bytes());
        }
        assert!(p.send(&datagram));
        p
    }

    fn send(&self, bytes: &[u8]) -> bool {
        // SAFETY: the bytes are valid for reads of their length.
        let n = unsafe {
            libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
        };
        n >= 0
    }

    /// One datagram; `None` if there is none; empty at the end.
    fn receive(&self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 65536];
        // SAFETY: the buffer is valid for writes of its length.
        let n =
            unsafe { libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        if n < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ECONNRESET) {
            // Closed with something unread.
            return Some(Vec::new());
        }
        buffer.truncate(usize::try_from(n).ok()?);
        Some(buffer)
    }

    fn kinds(&self) -> Vec<u16> {
        let mut kinds = Vec::new();
        while let Some(d) = self.receive() {
            assert!(!d.is_empty(), "the connection ended");
            kinds.extend(Messages::new(&d).map(|(h, _)| h.kind));
        }
        kinds
    }
}

struct World {
    _dir: tempfile::TempDir,
    path: std::path::PathBuf,
    server: Server,
    db: Database<Recorder>,
    journal: Vec<Change>,
}

impl World {
    fn new(queued_bytes: usize) -> World {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("xfrm.sock");
        // SAFETY: the call has no preconditions.
        let uid = unsafe { libc::getuid() };
        let limits = ServerLimits { clients: 3, queued_bytes, uid };
        let server = Server::new(&path, limits).unwrap();
        let db = Database::new(Recorder::default(), Settings::default());
        World { _dir: dir, path, server, db, journal: Vec::new() }
    }

    fn turn(&mut self) {
        let journal = &mut self.journal;
        for _ in 0..4 {
            self.server.process(&mut self.db, Now::default(), &mut |c| journal.push(c)).unwrap();
        }
    }
}

#[test]
fn a_request_is_answered_with_the_port_id_and_announced_to_subscribers() {
    let mut w = World::new(1 << 20);
    let asks = Program::greet(&w.path, 100, &[Record::OptionOn { option: 11 }]);
    let watches = Program::greet(&w.path, 200, &[Record::Groups { mask: 1 << 2 }]);
    let deaf = Program::greet(&w.path, 300, &[Record::Subscribe { group: 4 }]);
    asks.send(&gcm_sa(kind::NEWSA, &sa_info(1)).finish());
    w.turn();
    let answer = asks.receive().unwrap();
    assert_eq!((header(&answer).kind, header(&answer).port_id), (kind::ERROR, 100));
    // Who subscribed before the server handled the request sees it; the order of two
    // connections is not defined, so ask once more.
    asks.send(&request(kind::DELSA, &sa_id(1)).finish());
    w.turn();
    assert!(watches.kinds().contains(&kind::DELSA));
    assert!(deaf.kinds().is_empty());
    assert_eq!(w.journal.len(), 2);
    assert!(w.server.listening(Group::Sa) && !w.server.listening(Group::Acquire));
    // Leaving a group.
    watches.send(&Record::Unsubscribe { group: 3 }.datagram());
    w.turn();
    assert!(!w.server.listening(Group::Sa));
}

#[test]
fn sync_comes_back_after_what_was_asked_before() {
    let mut w = World::new(1 << 20);
    let p = Program::greet(&w.path, 1, &[]);
    p.send(&request(kind::GETSADINFO, &0u32).finish());
    p.send(&Record::Sync { value: 42 }.datagram());
    w.turn();
    assert_eq!(header(&p.receive().unwrap()).kind, kind::NEWSADINFO);
    assert_eq!(header(&p.receive().unwrap()).kind, kind::ERROR);
    let sync = p.receive().unwrap();
    assert_eq!(records(&sync).unwrap().collect::<Vec<_>>(), [Record::Sync { value: 42 }]);
}

#[test]
fn netlink_before_hello_ends_the_connection_and_no_other() {
    let mut w = World::new(1 << 20);
    let good = Program::greet(&w.path, 1, &[]);
    let rude = Program::connect(&w.path);
    rude.send(&request(kind::GETSADINFO, &0u32).finish());
    let ruder = Program::connect(&w.path);
    ruder.send(&Record::Subscribe { group: 1 }.datagram());
    w.turn();
    assert_eq!(rude.receive(), Some(Vec::new()));
    assert_eq!(ruder.receive(), Some(Vec::new()));
    assert_eq!(w.server.client_count(), 1);
    good.send(&[0xff; 1000]);
    good.send(&[1]);
    good.send(&request(kind::GETSADINFO, &0u32).finish());
    w.turn();
    assert_eq!(good.kinds(), [kind::NEWSADINFO, kind::ERROR]);
}

#[test]
fn connections_are_limited() {
    let mut w = World::new(1 << 20);
    let programs: Vec<_> = (1..=4).map(|n| Program::greet(&w.path, n, &[])).collect();
    w.turn();
    assert_eq!(w.server.client_count(), 3);
    assert!(programs.iter().any(|p| p.receive() == Some(Vec::new())));
    drop(programs);
    w.turn();
    assert_eq!(w.server.client_count(), 0);
}

#[test]
fn who_says_nothing_gives_way() {
    let mut w = World::new(1 << 20);
    let served = Program::greet(&w.path, 1, &[]);
    w.turn();
    let silent: Vec<_> = (0..2).map(|_| Program::connect(&w.path)).collect();
    w.turn();
    let next = Program::greet(&w.path, 2, &[]);
    w.turn();
    assert_eq!(silent[0].receive(), Some(Vec::new()), "the oldest silent one is closed");
    assert_eq!(silent[1].receive(), None);
    for program in [&served, &next] {
        program.send(&request(kind::GETSADINFO, &0u32).finish());
        w.turn();
        assert_eq!(program.kinds(), [kind::NEWSADINFO, kind::ERROR]);
    }
    let last = Program::greet(&w.path, 3, &[]);
    w.turn();
    let late = Program::greet(&w.path, 4, &[]);
    w.turn();
    assert_eq!((silent[1].receive(), late.receive()), (Some(Vec::new()), Some(Vec::new())));
    assert_eq!((last.receive(), w.server.client_count()), (None, 3));
}

#[test]
fn another_user_is_turned_away() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let limits = ServerLimits { uid: 12345, ..ServerLimits::default() };
    let mut server = Server::new(&path, limits).unwrap();
    let mut db = Database::new(Recorder::default(), Settings::default());
    let p = Program::greet(&path, 1, &[]);
    server.process(&mut db, Now::default(), &mut |_| ()).unwrap();
    assert_eq!(server.client_count(), 0);
    assert_eq!(p.receive(), Some(Vec::new()));
}

#[test]
fn a_slow_reader_loses_notifications_and_is_told() {
    let mut w = World::new(16 << 10);
    let slow = Program::greet(&w.path, 1, &[Record::Groups { mask: 1 << 2 }]);
    w.turn();
    let event = |n: u32| {
        let mut m = MessageWriter::new(kind::NEWSA, 0, n, 0);
        Output::Event { group: Group::Sa, message: m.raw(&[0; 1000]).take() }
    };
    for n in 0..2000 {
        w.server.publish(&w.db, vec![event(n)], &mut |_| ());
    }
    let (mut seen, mut lost) = (Vec::new(), 0);
    loop {
        w.turn();
        let Some(d) = slow.receive() else { break };
        match records(&d) {
            Some(r) => r.for_each(|r| match r {
                Record::Overrun { lost: n } => lost += n,
                other => panic!("{other:?}"),
            }),
            None => seen.push(header(&d).seq),
        }
    }
    assert!(lost > 0 && !seen.is_empty());
    assert_eq!(seen.len() as u32 + lost, 2000);
    assert!(seen.is_sorted());
    // Afterwards all is well again.
    w.server.publish(&w.db, vec![event(9999)], &mut |_| ());
    assert_eq!(header(&slow.receive().unwrap()).seq, 9999);
}

#[test]
fn a_dump_of_any_size_reaches_a_slow_reader_whole() {
    let mut w = World::new(4 << 10);
    let p = Program::greet(&w.path, 1, &[]);
    let mut out = Vec::new();
    for spi in 1..=5000 {
        let sa: Message = gcm_sa(kind::NEWSA, &sa_info(spi)).finish();
        w.db.request(&Default::default(), &sa, Now::default(), &mut out);
    }
    let dump = MessageWriter::new(kind::GETSA, flag::REQUEST | flag::DUMP, 1, 0).finish();
    p.send(&dump);
    p.send(&request(kind::GETSADINFO, &0u32).finish());
    let mut spis = Vec::new();
    let mut after = Vec::new();
    let mut idle = 0;
    while idle < 10 {
        w.turn();
        match p.receive() {
            Some(d) => {
                idle = 0;
                for (h, m) in Messages::new(&d) {
                    match h.kind {
                        kind::NEWSA => spis.push(fixed::<SaInfo>(m).id.spi.0),
                        other => after.push(other),
                    }
                }
            }
            None => idle += 1,
        }
    }
    assert_eq!(spis, (1..=5000).rev().collect::<Vec<_>>());
    assert_eq!(after, [kind::DONE, kind::NEWSADINFO, kind::ERROR]);
}

#[test]
fn who_never_reads_is_not_read_from() {
    let mut w = World::new(8 << 10);
    let p = Program::greet(&w.path, 1, &[]);
    let mut sent = 0u32;
    for _ in 0..200 {
        while sent < 100_000 && p.send(&request(kind::GETSADINFO, &sent).finish()) {
            sent += 1;
        }
        w.turn();
    }
    // The server stopped reading, so the socket is full; nothing is lost once it is read.
    assert!(sent < 100_000);
    let mut answers = 0;
    loop {
        w.turn();
        let kinds = p.kinds();
        if kinds.is_empty() {
            break;
        }
        answers += kinds.iter().filter(|k| **k == kind::NEWSADINFO).count();
    }
    assert_eq!(answers, sent as usize);
}

#[test]
fn the_journal_is_written_before_the_answer_is_sent() {
    let mut w = World::new(1 << 20);
    let p = Program::greet(&w.path, 1, &[]);
    p.send(&gcm_sa(kind::NEWSA, &sa_info(1)).finish());
    let mut early = true;
    for _ in 0..4 {
        w.server
            .process(&mut w.db, Now::default(), &mut |_| early &= p.receive().is_none())
            .unwrap();
    }
    assert!(early);
    assert_eq!(p.kinds(), [kind::ERROR]);
}

#[test]
fn others_are_served_while_a_flush_is_under_way() {
    let mut w = World::new(1 << 20);
    let flushes = Program::greet(&w.path, 1, &[]);
    let asks = Program::greet(&w.path, 2, &[]);
    for spi in 1..=3000 {
        let request = gcm_sa(kind::NEWSA, &sa_info(spi)).finish();
        w.db.request(&xfrm::Sender::default(), &request, Now::default(), &mut Vec::new());
    }
    let process = |w: &mut World| {
        let journal = &mut w.journal;
        w.server.process(&mut w.db, Now::default(), &mut |c| journal.push(c)).unwrap();
    };
    // Connections and their greetings.
    process(&mut w);
    process(&mut w);
    assert!(!w.server.is_busy());
    flushes.send(&request(kind::FLUSHSA, &0u32).finish());
    flushes.send(&request(kind::DELSA, &sa_id(3000)).finish());
    process(&mut w);
    assert!(w.server.is_busy() && w.db.sa_count() > 0);
    asks.send(&request(kind::DELSA, &sa_id(1)).finish());
    process(&mut w);
    let served = asks.receive().expect("not kept waiting");
    assert_eq!(errno_of(&served), 0);
    assert!(w.server.is_busy() && flushes.receive().is_none(), "not at its end");
    while w.server.is_busy() {
        assert!(flushes.receive().is_none());
        process(&mut w);
    }
    assert_eq!((w.db.sa_count(), w.journal.len()), (0, 3000));
    assert_eq!(errno_of(&flushes.receive().expect("the flush's answer")), 0);
    w.turn();
    let behind = flushes.receive().expect("what was asked behind it");
    assert_eq!(errno_of(&behind), -libc::ESRCH);
}

#[test]
fn a_dump_takes_turns_though_the_socket_would_take_more() {
    let mut w = World::new(1 << 20);
    let asks = Program::greet(&w.path, 1, &[]);
    for spi in 1..=2000 {
        let request = gcm_sa(kind::NEWSA, &sa_info(spi)).finish();
        w.db.request(&xfrm::Sender::default(), &request, Now::default(), &mut Vec::new());
    }
    w.turn();
    asks.send(&MessageWriter::new(kind::GETSA, flag::REQUEST | flag::DUMP, 9, 0).finish());
    let (mut kinds, mut turns) = (Vec::new(), 0);
    while kinds.last() != Some(&kind::DONE) {
        w.server.process(&mut w.db, Now::default(), &mut |_| ()).unwrap();
        turns += 1;
        let datagrams: Vec<Vec<u8>> = std::iter::from_fn(|| asks.receive()).collect();
        assert!((1..=32).contains(&datagrams.len()), "{} in turn {turns}", datagrams.len());
        kinds.extend(datagrams.iter().flat_map(|d| Messages::new(d).map(|(h, _)| h.kind)));
    }
    assert!(turns > 3, "{turns}");
    assert_eq!(kinds.len(), 2000 + 1);
}

#[test]
fn a_flush_goes_on_when_its_client_is_gone() {
    let mut w = World::new(1 << 20);
    let flushes = Program::greet(&w.path, 1, &[]);
    for spi in 1..=3000 {
        let request = gcm_sa(kind::NEWSA, &sa_info(spi)).finish();
        w.db.request(&xfrm::Sender::default(), &request, Now::default(), &mut Vec::new());
    }
    flushes.send(&request(kind::FLUSHSA, &0u32).finish());
    while !w.server.is_busy() {
        w.server.process(&mut w.db, Now::default(), &mut |_| ()).unwrap();
    }
    drop(flushes);
    w.turn();
    w.turn();
    assert_eq!(w.db.sa_count(), 0);
    assert!(!w.server.is_busy());
    assert_eq!(w.server.client_count(), 0);
}

/// The error code of an acknowledgement.
fn errno_of(datagram: &[u8]) -> i32 {
    assert_eq!(header(datagram).kind, kind::ERROR);
    i32::from_ne_bytes(datagram[16..20].try_into().expect("four bytes"))
}
