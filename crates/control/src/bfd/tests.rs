//! A `bfdd` of our own at the other end of a socket: what it says, and what culvert makes of it.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use bfd::{Counts, Diagnostic, PeerSaid, Standing, State};
use config::{BfdConfig, DataPlane};
use dataplane::{BfdAsked, BfdChange, BfdRefusals, BfdReports, BfdSession};
use mirror::{Address, Change, Snapshot};
use report::Occurrence;

use super::{AGAIN, Bfd, Carrier, Owner, Places};
use crate::clock::Now;

const WAN: u32 = 4;
const TUNNEL: u32 = 9;

/// Workers that note what they are told.
#[derive(Default)]
struct Noted {
    changes: RefCell<Vec<BfdChange>>,
    standing: RefCell<Option<Standing>>,
}

impl Carrier for Noted {
    fn change(&self, change: BfdChange) {
        self.changes.borrow_mut().push(change);
    }

    fn ask(&self, asked: BfdAsked) -> Option<BfdReports> {
        let standing = *self.standing.borrow();
        let of = |standing: &Standing| {
            asked == BfdAsked::From(0) || asked == BfdAsked::One(standing.discr)
        };
        let sessions = standing.into_iter().filter(of).collect();
        let refusals = BfdRefusals { ttl: 2, ..BfdRefusals::default() };
        Some(BfdReports { sessions, next: None, refusals })
    }
}

struct Bench {
    listener: UnixListener,
    bfd: Bfd,
    workers: Noted,
    snapshot: Snapshot,
    now: Now,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("dplane.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let address = |ifindex, addr: IpAddr, prefix_len| Address {
            ifindex,
            addr,
            prefix_len,
            scope: 0,
            tentative: false,
            secondary: false,
            deprecated: false,
        };
        let addresses = [
            address(WAN, IpAddr::from([192, 0, 2, 1]), 24),
            address(TUNNEL, IpAddr::from([10, 9, 0, 1]), 30),
        ];
        let snapshot = addresses.map(Change::Address).into_iter().collect();
        let workers = Noted::default();
        let mut bfd = Bfd::default();
        bfd.follow(&BfdConfig { dataplane: Some(DataPlane::Unix(path)) }, &workers);
        Bench { listener, bfd, workers, snapshot, now: Now::read(), _folder: folder }
    }

    fn serve(&mut self) -> Vec<Occurrence> {
        let leaves_by = |ifindex| ifindex == TUNNEL;
        let places = Places { snapshot: &self.snapshot, leaves_by: &leaves_by };
        self.bfd.serve(self.now, places, &self.workers)
    }

    /// Culvert has connected; the other end.
    fn accept(&mut self) -> UnixStream {
        let told = self.serve();
        assert!(
            matches!(told.as_slice(), [Occurrence::BfdConnection { why: None, .. }]),
            "{told:?}"
        );
        self.listener.accept().expect("culvert").0
    }

    /// Events of culvert once `bfdd` has said something.
    fn hears(&mut self, bfdd: &mut UnixStream, bytes: &[u8]) -> Vec<Occurrence> {
        bfdd.write_all(bytes).expect("room");
        self.serve()
    }

    fn changes(&self) -> Vec<BfdChange> {
        self.workers.changes.take()
    }

    fn row(&self) -> report::BfdRow {
        let mut rows = self.bfd.report(self.now, &self.snapshot, &self.workers).sessions;
        assert_eq!(rows.len(), 1);
        rows.remove(0)
    }
}

/// A message of version 1.
fn message(kind: u16, id: u16, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let words = [0x0100, kind, id, len].map(u16::to_be_bytes).concat();
    [&words, payload].concat()
}

const ADD: u16 = 2;
const DELETE: u16 = 3;

/// A session from this address, or any, to that one.
fn session(discr: u32, flags: u32, ends: (&str, &str), (min_tx, ifindex): (u32, u32)) -> Vec<u8> {
    let mut payload = flags.to_be_bytes().to_vec();
    for addr in [ends.0, ends.1] {
        let bytes = match addr.parse().expect("an address") {
            IpAddr::V4(addr) => addr.octets().to_vec(),
            IpAddr::V6(addr) => addr.octets().to_vec(),
        };
        payload.extend_from_slice(&bytes);
        payload.resize(payload.len() + 16 - bytes.len(), 0);
    }
    for word in [discr, min_tx, 10_000, 0, 0, 0] {
        payload.extend_from_slice(&word.to_be_bytes());
    }
    payload.extend_from_slice(&[254, 3, 0, 0]);
    payload.extend_from_slice(&ifindex.to_be_bytes());
    payload.resize(132, 0);
    payload
}

fn wan(discr: u32) -> Vec<u8> {
    session(discr, 0, ("192.0.2.1", "192.0.2.2"), (10_000, WAN))
}

fn standing(discr: u32, state: State) -> Standing {
    Standing {
        discr,
        state,
        diagnostic: Diagnostic::EXPIRED,
        peer: PeerSaid { discr: 77, detect_mult: 3, ..PeerSaid::default() },
        transmit_us: Some(10_000),
        detection_us: Some(30_000),
        counts: Counts { received: 5, sent: 6 },
    }
}

#[test]
fn a_session_is_had_told_of_and_ended() {
    let mut bench = Bench::new();
    let mut bfdd = bench.accept();
    bench.hears(&mut bfdd, &message(ADD, 0, &wan(7)));
    let changes = bench.changes();
    let [BfdChange::Set(BfdSession { settings, local, far, source_port, .. })] = changes.as_slice()
    else {
        panic!("{changes:?}")
    };
    assert_eq!((settings.discr, settings.min_tx, settings.detect_mult), (7, 10_000, 3));
    assert_eq!((local.to_string(), far.to_string()), ("192.0.2.1".into(), "192.0.2.2".into()));
    assert!(*source_port >= bfd::FIRST_SOURCE_PORT && bench.bfd.has_sessions());
    assert_eq!(bench.bfd.ports().collect::<Vec<_>>(), [3784, 4784, 3785]);
    // bfdd and operators hear that it is up, and operators that it is down and why.
    let up = bench.bfd.note(bench.now, standing(7, State::Up));
    assert!(
        matches!(&up, Some(Occurrence::BfdState { to, why, .. }) if to == "up" && why.is_empty()),
        "{up:?}"
    );
    let mut heard = [0; 36];
    bfdd.read_exact(&mut heard).expect("a state");
    assert_eq!((&heard[..4], heard[32]), (&[1, 0, 0, 4][..], 3));
    assert_eq!(
        bench.bfd.note(bench.now, standing(7, State::Up)),
        None,
        "the peer says something else"
    );
    bfdd.read_exact(&mut heard).expect("the same state");
    let down = bench.bfd.note(bench.now, standing(7, State::Down));
    assert!(
        matches!(&down, Some(Occurrence::BfdState { why, .. }) if why.contains("expired")),
        "{down:?}"
    );
    bfdd.read_exact(&mut heard).expect("a state");
    assert_eq!(bench.bfd.warnings(), ["BFD sessions down: 192.0.2.2; see culvert bfd"]);
    *bench.workers.standing.borrow_mut() = Some(standing(7, State::Up));
    let row = bench.row();
    assert_eq!(
        (row.state.as_str(), row.transmit_ms, row.detection_ms),
        ("up", Some(10.0), Some(30.0))
    );
    // The same once more is no change; other settings are one.
    bench.hears(&mut bfdd, &message(ADD, 0, &wan(7)));
    assert_eq!(bench.changes(), []);
    bench.hears(&mut bfdd, &message(DELETE, 0, &wan(7)));
    assert_eq!((bench.changes(), bench.bfd.has_sessions()), (vec![BfdChange::End(7)], false));
    assert_eq!(bench.bfd.note(bench.now, standing(7, State::AdminDown)), None, "its last word");
}

#[test]
fn counters_and_signs_of_life_are_answered() {
    let mut bench = Bench::new();
    let mut bfdd = bench.accept();
    *bench.workers.standing.borrow_mut() = Some(standing(7, State::Up));
    let asks = message(5, 21, &7_u32.to_be_bytes());
    let stream = [message(ADD, 0, &wan(7)), asks, message(0, 22, &[3; 16])].concat();
    bench.hears(&mut bfdd, &stream);
    // What bfdd takes no notice of goes in front of counters.
    let mut fillers = [0; 2 * 24];
    bfdd.read_exact(&mut fillers).expect("two of them");
    assert_eq!([0, 24].map(|at| fillers[at + 2..at + 8].to_vec()), [[0, 1, 0, 0, 0, 24]; 2]);
    let mut answers = [0; 80 + 24];
    bfdd.read_exact(&mut answers).expect("answers");
    assert_eq!(answers[..8], [1, 0, 0, 6, 0, 21, 0, 80]);
    let number = |at: usize| u64::from_be_bytes(*answers[at..].first_chunk().unwrap());
    assert_eq!([16, 24, 32, 40].map(number), [5 * 24, 5, 6 * 24, 6]);
    assert_eq!(answers[80..88], [1, 0, 0, 1, 0, 22, 0, 24]);
    assert_eq!(answers[88..], [3; 16]);
}

#[test]
fn half_messages_wait_for_the_rest() {
    let mut bench = Bench::new();
    let mut bfdd = bench.accept();
    let bytes = message(ADD, 0, &wan(7));
    for byte in &bytes[..bytes.len() - 1] {
        assert_eq!(bench.hears(&mut bfdd, &[*byte]), []);
        assert_eq!(bench.changes(), []);
    }
    bench.hears(&mut bfdd, &bytes[bytes.len() - 1..]);
    assert_eq!(bench.changes().len(), 1);
}

#[test]
fn garbage_ends_the_connection_by_name_and_the_next_begins_anew() {
    for (garbage, named) in [
        (vec![0xff; 64], "version 255"),
        (message(9, 0, &[]), "type 9"),
        ([&[1, 0, 0, 2, 0, 0, 0xff, 0xff][..], &[0; 64]].concat(), "65535 bytes"),
        (vec![1, 0, 0, 2, 0, 0, 0, 7], "7 bytes"),
        (message(ADD, 0, &wan(0)), "a discriminator or a multiplier of 0"),
    ] {
        let mut bench = Bench::new();
        let mut bfdd = bench.accept();
        // What came before it counts, and ends with the connection.
        let told = bench.hears(&mut bfdd, &[message(ADD, 0, &wan(7)), garbage].concat());
        let [Occurrence::BfdConnection { why: Some(why), .. }] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert!(why.contains(named), "{why}");
        assert!(matches!(bench.changes().as_slice(), [BfdChange::Set(_), BfdChange::EndAll]));
        assert!(bench.bfd.warnings()[0].contains(named));
        assert_eq!(bfdd.read(&mut [0; 8]).ok(), Some(0), "it is closed");
        assert_eq!(bench.serve(), [], "not at once");
        bench.now = bench.now.after(AGAIN);
        bfdd = bench.accept();
        bench.hears(&mut bfdd, &message(ADD, 0, &wan(8)));
        assert!(matches!(bench.changes().as_slice(), [BfdChange::Set(_)]));
    }
}

#[test]
fn a_bfdd_that_goes_ends_its_sessions() {
    let mut bench = Bench::new();
    let mut bfdd = bench.accept();
    bench.hears(&mut bfdd, &message(ADD, 0, &wan(7)));
    drop(bfdd);
    let told = bench.serve();
    assert!(
        matches!(told.as_slice(), [Occurrence::BfdConnection { why: Some(_), .. }]),
        "{told:?}"
    );
    assert_eq!(bench.changes().last(), Some(&BfdChange::EndAll));
    assert!(!bench.bfd.has_sessions());
    assert_eq!(bench.bfd.due_in(bench.now), Some(AGAIN));
}

#[test]
fn a_bfdd_that_does_not_read_is_given_up() {
    let mut bench = Bench::new();
    let mut bfdd = bench.accept();
    bfdd.set_nonblocking(true).expect("set");
    let asks = message(5, 1, &7_u32.to_be_bytes()).repeat(500);
    let mut told = Vec::new();
    for _ in 0..100 {
        let _ = bfdd.write_all(&asks);
        told.extend(bench.serve());
    }
    let gone = told.iter().find_map(|what| match what {
        Occurrence::BfdConnection { why, .. } => why.clone(),
        _ => None,
    });
    assert_eq!(gone.as_deref(), Some("bfdd does not read"));
}

#[test]
fn nobody_there_is_said_and_tried_again() {
    let mut bench = Bench::new();
    bench.bfd.follow(
        &BfdConfig { dataplane: Some(DataPlane::Unix("/nonexistent/dplane.sock".into())) },
        &bench.workers,
    );
    assert_eq!(bench.serve(), []);
    let warnings = bench.bfd.warnings();
    assert!(
        warnings[0].contains("/nonexistent") && warnings[0].contains("No such file"),
        "{warnings:?}"
    );
    assert_eq!(bench.bfd.due_in(bench.now), Some(AGAIN));
    bench.bfd.follow(&BfdConfig::default(), &bench.workers);
    assert_eq!((bench.bfd.warnings(), bench.bfd.due_in(bench.now)), (vec![], None::<Duration>));
}

#[test]
fn sessions_that_cannot_be_had_say_why() {
    const DEMAND: u32 = 1 << 1;
    const V6: u32 = 1 << 4;
    let addrs = ("192.0.2.1", "192.0.2.2");
    for (payload, named) in [
        (session(7, DEMAND, addrs, (10_000, WAN)), "demand mode"),
        (session(7, 0, addrs, (999, WAN)), "999 us"),
        (session(7, 0, ("0.0.0.0", "198.51.100.1"), (10_000, WAN)), "local-address"),
        (session(7, 0, ("192.0.2.1", "224.0.0.1"), (10_000, WAN)), "224.0.0.1 is no address"),
        (session(7, V6, ("fe80::1", "fe80::2"), (10_000, WAN)), "link-local"),
    ] {
        let mut bench = Bench::new();
        let mut bfdd = bench.accept();
        bench.hears(&mut bfdd, &message(ADD, 0, &payload));
        let row = bench.row();
        let why = row.refused.expect(named);
        assert!(why.contains(named), "{why}");
        assert!(bench.bfd.warnings()[0].contains(&why));
        assert!(bench.changes().is_empty() && !bench.bfd.has_sessions());
        // Once it can be had, it is.
        bench.hears(&mut bfdd, &message(ADD, 0, &wan(7)));
        assert!(matches!(bench.changes().as_slice(), [BfdChange::Set(_)]), "{named}");
        bench.hears(&mut bfdd, &message(ADD, 0, &payload));
        assert_eq!(bench.changes(), [BfdChange::End(7)]);
    }
    // Through a tunnel there is one way alone.
    let mut bench = Bench::new();
    let mut bfdd = bench.accept();
    let payload = session(7, V6, ("fe80::1", "fe80::2"), (10_000, TUNNEL));
    bench.hears(&mut bfdd, &message(ADD, 0, &payload));
    assert!(matches!(bench.changes().as_slice(), [BfdChange::Set(_)]));
}

/// As FRR 10.3 says of sessions that it has had before culvert connected.
#[test]
fn a_link_local_peer_without_an_interface_is_on_the_link_of_the_address_here() {
    const V6: u32 = 1 << 4;
    let payload = session(7, V6, ("fe80::1", "fe80::2"), (10_000, 0));
    let with = |interfaces: &[u32]| {
        let mut bench = Bench::new();
        let old = bench.snapshot.addresses_of(WAN).next().copied().expect("an address");
        let addr = "fe80::1".parse().expect("an address");
        let address = |ifindex: &u32| Change::Address(Address { ifindex: *ifindex, addr, ..old });
        bench.snapshot = interfaces.iter().map(address).collect();
        let mut bfdd = bench.accept();
        bench.hears(&mut bfdd, &message(ADD, 0, &payload));
        let set = bench.changes().first().map(|change| match change {
            BfdChange::Set(session) => session.ifindex,
            other => panic!("{other:?}"),
        });
        (set, bench.row().refused.is_some())
    };
    // Workers do not send by the other one.
    assert_eq!(with(&[TUNNEL, WAN]), (Some(TUNNEL), false));
    assert_eq!(with(&[WAN]), (None, true));
    assert_eq!(with(&[]), (None, true));
}

#[test]
fn a_session_goes_without_the_echo_function_and_says_so() {
    const ECHO: u32 = 1 << 3;
    let mut bench = Bench::new();
    let mut bfdd = bench.accept();
    let mut payload = session(7, ECHO, ("192.0.2.1", "192.0.2.2"), (10_000, WAN));
    payload[52..56].copy_from_slice(&50_000_u32.to_be_bytes());
    bench.hears(&mut bfdd, &message(ADD, 0, &payload));
    let changes = bench.changes();
    let [BfdChange::Set(BfdSession { settings, .. })] = changes.as_slice() else {
        panic!("{changes:?}")
    };
    assert_eq!(settings.min_echo_rx, 50_000, "the peer's are sent back all the same");
    assert_eq!(bench.row().without.as_deref(), Some("the echo function"));
    let warnings = bench.bfd.warnings();
    assert!(warnings[0].contains("192.0.2.2 goes without the echo function"), "{warnings:?}");
}

#[test]
fn the_address_of_the_link_is_the_sessions_and_follows_linux() {
    let mut bench = Bench::new();
    let mut bfdd = bench.accept();
    bench.hears(
        &mut bfdd,
        &message(ADD, 0, &session(7, 0, ("0.0.0.0", "192.0.2.2"), (10_000, WAN))),
    );
    let local = |bench: &Bench| match bench.changes().as_slice() {
        [BfdChange::Set(session)] => session.local.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(local(&bench), "192.0.2.1");
    let old = bench.snapshot.addresses_of(WAN).next().copied().expect("an address");
    let new = Address { addr: [192, 0, 2, 9].into(), ..old };
    bench.snapshot = [Change::Address(new)].into_iter().collect();
    let leaves_by = |_| false;
    let places = Places { snapshot: &bench.snapshot, leaves_by: &leaves_by };
    assert_eq!(bench.bfd.follow_places(bench.now, places, &bench.workers), []);
    assert_eq!(local(&bench), "192.0.2.9");
    // None is left: nobody checks the session, and bfdd must not believe in it.
    bench.bfd.note(bench.now, standing(7, State::Up));
    let snapshot = Snapshot::default();
    let places = Places { snapshot: &snapshot, leaves_by: &leaves_by };
    let told = bench.bfd.follow_places(bench.now, places, &bench.workers);
    assert!(
        matches!(told.as_slice(), [Occurrence::BfdState { to, why, .. }] if to == "down" && why == "path down"),
        "{told:?}"
    );
    let mut heard = [0; 72];
    bfdd.read_exact(&mut heard).expect("two states");
    assert_eq!((heard[32], heard[36 + 32]), (3, 1));
    assert_eq!(bench.bfd.note(bench.now, standing(7, State::Up)), None, "too late");
}

#[test]
fn two_sessions_between_the_same_ends_are_one_too_many() {
    let mut bench = Bench::new();
    let mut bfdd = bench.accept();
    bench.hears(&mut bfdd, &[message(ADD, 0, &wan(7)), message(ADD, 0, &wan(8))].concat());
    assert_eq!(bench.changes().len(), 1);
    assert!(bench.bfd.warnings()[0].contains("session 7 has the same ends"));
    // The other takes its place by itself, once, and a third one waits for that one.
    bench.hears(&mut bfdd, &[message(ADD, 0, &wan(9)), message(DELETE, 0, &wan(7))].concat());
    let has = |bench: &Bench| match bench.changes().as_slice() {
        [BfdChange::End(_), BfdChange::Set(session)] => session.settings.discr,
        other => panic!("{other:?}"),
    };
    assert_eq!(has(&bench), 8);
    assert!(bench.bfd.warnings()[0].contains("session 8 has the same ends"));
    bench.hears(&mut bfdd, &message(DELETE, 0, &wan(8)));
    assert_eq!(has(&bench), 9);
    // One that waits and goes is waited for by nobody.
    bench.hears(&mut bfdd, &[message(ADD, 0, &wan(10)), message(DELETE, 0, &wan(10))].concat());
    bench.hears(&mut bfdd, &message(DELETE, 0, &wan(9)));
    assert!(matches!(bench.changes().as_slice(), [BfdChange::End(9)]));
}

#[test]
fn a_session_takes_the_ends_that_another_leaves_for_others() {
    let mut bench = Bench::new();
    let mut bfdd = bench.accept();
    let to = |discr, far| message(ADD, 0, &session(discr, 0, ("192.0.2.1", far), (10_000, WAN)));
    bench.hears(&mut bfdd, &[to(7, "192.0.2.2"), to(8, "192.0.2.2")].concat());
    assert_eq!(bench.changes().len(), 1);
    bench.hears(&mut bfdd, &to(7, "192.0.2.3"));
    let changes = bench.changes();
    let [BfdChange::Set(seven), BfdChange::Set(eight)] = changes.as_slice() else {
        panic!("{changes:?}")
    };
    assert_eq!((seven.settings.discr, eight.settings.discr), (7, 8));
    assert_eq!(bench.bfd.warnings().len(), 1, "they are down, and nothing else");
}

#[test]
fn sessions_beyond_the_most_take_no_ports() {
    let mut owner = Owner::default();
    let (workers, snapshot) = (Noted::default(), Snapshot::default());
    let places = Places { snapshot: &snapshot, leaves_by: &|_| false };
    // As often as there are source ports, and once more.
    let ports = u32::from(u16::MAX - bfd::FIRST_SOURCE_PORT) + 1;
    for discr in 1..=ports + 1 {
        let added = message(ADD, 0, &wan(discr));
        let (message, _) = bfd::dplane::parse(&added).expect("a message").expect("whole");
        owner.hear(Instant::now(), message, places, &workers);
    }
    assert_eq!(owner.known.len(), 4096);
}
