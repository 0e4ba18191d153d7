//! Flows whose application is not known are looked at, and pay nothing once it is.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use apps::{AppId, Application, Catalogue, Classifier, Hints, KnownBy};
use dataplane::{Applications, Command, CopyReader, Each, RateRules, TrafficMatch, copies};
use outcome::DropReason;
use policy::Prefix;
use wire::protocol;

use crate::overlays;
use crate::packets::Ip;
use crate::rates;
use crate::support::{Pair, Side, Spec};

/// A gateway that tells applications apart, and the classifier's end.
struct Subject {
    pair: Pair,
    applications: Arc<Applications>,
    classifier: Classifier,
    reader: CopyReader,
}

impl Subject {
    /// With the application `backup`, port 873 of side B.
    fn new() -> Subject {
        let backup = Application {
            name: "backup".into(),
            prefixes: vec![Prefix { addr: Side::B.lan(false, 0), len: 24 }],
            ports: vec![873..=873],
            ..Application::default()
        };
        let catalogue = Arc::new(Catalogue::new(vec![backup]).expect("a catalogue"));
        let hints = Arc::new(Hints::new(256));
        let classifier = Classifier::new(Arc::clone(&catalogue), Arc::clone(&hints), Vec::new());
        let applications = Arc::new(Applications::new(catalogue, hints));
        let pair = Pair::new(&Spec::default());
        let (copiers, reader) = copies(1);
        for copier in copiers {
            pair.a.commands.send(Command::Look(Box::new(copier))).expect("a worker");
        }
        let told = Some(Arc::clone(&applications));
        pair.a.set_topology_but(Vec::new(), |topology| topology.applications = told);
        let mut subject = Subject { pair, applications, classifier, reader };
        subject.pair.a.run();
        subject
    }

    /// Sends a packet from A's LAN through the tunnel.
    fn send(&mut self, packet: &[u8]) {
        self.pair.a.put_lan(packet);
        self.pair.a.run();
        assert_eq!(self.pair.a.wan_out().len(), 1, "it leaves");
        self.pair.a.check();
    }

    /// Has the classifier look at all copies; how many there were.
    fn classify(&mut self) -> usize {
        let mut count = 0;
        // A worker tells what there is once the reader has nothing to do.
        self.pair.a.run();
        while let Ok(Some(copies)) = self.reader.next(Duration::ZERO) {
            for (now_ns, packet) in copies.iter() {
                self.classifier.packet(now_ns, packet);
                count += 1;
            }
            self.reader.give_back(copies);
            self.pair.a.run();
        }
        count
    }

    fn counted(&self, name: &str) -> u64 {
        let app = self.applications.catalogue().find(name).expect("an application");
        self.applications.counted(app).0
    }

    fn misses(&self) -> u64 {
        self.pair.a.counters.work.flow_misses.value()
    }
}

fn ends() -> Ip {
    Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10))
}

/// A segment of a connection to port 80.
fn segment(sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    Ip { protocol: protocol::TCP, ..ends() }.with(&tcp(sequence, flags, payload))
}

/// The segment alone.
fn tcp(sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut tcp = [4000u16.to_be_bytes(), 80u16.to_be_bytes()].concat();
    tcp.extend(sequence.to_be_bytes());
    tcp.extend([0; 4]);
    tcp.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    tcp.extend_from_slice(payload);
    tcp
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

#[test]
fn a_flow_is_looked_at_until_it_is_known() {
    let mut s = Subject::new();
    s.send(&segment(1, 0x02, b""));
    s.send(&segment(2, 0x10, b""));
    assert_eq!(s.classify(), 0, "without payload there is nothing to see");
    s.send(&segment(2, 0x18, &REQUEST[..20]));
    s.send(&segment(22, 0x18, &REQUEST[20..]));
    assert_eq!(s.classify(), 2);
    // Its verdict is seen with the next packet, and the one behind is resolved.
    let before = s.misses();
    for n in 0..10 {
        s.send(&segment(100 + n, 0x18, b"x"));
    }
    assert_eq!((s.misses() - before, s.classify()), (1, 1));
    assert_eq!(s.counted("http"), 9, "all but the one that was looked at");
    let looked = s.classifier.tally().of(AppId::HTTP);
    assert_eq!((looked.packets, looked.flows[KnownBy::Http as usize]), (3, 1));
}

#[test]
fn the_first_packet_tells_what_an_operator_has_said() {
    let mut s = Subject::new();
    for _ in 0..5 {
        s.send(&ends().udp(4000, 873, b"data"));
    }
    assert_eq!((s.classify(), s.counted("backup"), s.misses()), (0, 5, 1));
    let backup = s.applications.catalogue().find("backup").expect("an application");
    assert_eq!(s.applications.flows_by_rule(backup), 1);
    // A plan that is made anew is of the same flow.
    s.pair.a.worker.forget_flows();
    s.send(&ends().udp(4000, 873, b"data"));
    assert_eq!((s.applications.flows_by_rule(backup), s.counted("backup")), (1, 6));
}

#[test]
fn a_flow_that_tells_nothing_is_given_up_without_a_classifier() {
    let mut s = Subject::new();
    for _ in 0..40 {
        s.send(&ends().udp(4000, 9999, b"data"));
    }
    // Nobody looks; the time for a verdict passes.
    s.pair.a.pass_ns(2_000_000_000);
    let before = s.misses();
    for _ in 0..10 {
        s.send(&ends().udp(4000, 9999, b"data"));
    }
    assert_eq!(s.misses() - before, 1);
    assert_eq!(s.counted("unknown"), 9);
    assert_eq!(s.classify(), 16, "and no more were copied");
}

#[test]
fn a_flow_through_an_overlay_is_looked_at() {
    let mut s = Subject::new();
    let told = Some(Arc::clone(&s.applications));
    overlays::publish(&s.pair.a, Vec::new(), |topology| topology.applications = told);
    s.pair.a.run();
    let ends = overlays::through(overlays::GRE);
    s.send(&Ip { protocol: protocol::TCP, ..ends }.with(&tcp(1, 0x18, REQUEST)));
    assert_eq!((s.classify(), s.pair.a.counters.work.overlay_encapsulated.value()), (1, 1));
    for n in 0..3 {
        s.send(&Ip { protocol: protocol::TCP, ..ends }.with(&tcp(100 + n, 0x18, b"x")));
    }
    assert_eq!(s.counted("http"), 2, "all but the one that sees the verdict");
}

#[test]
fn all_that_goes_to_name_servers_is_looked_at() {
    let mut s = Subject::new();
    let question =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x07example\x00\x00\x01\x00\x01";
    for _ in 0..40 {
        s.send(&ends().udp(4000, 53, question));
        s.classify();
    }
    assert_eq!(s.classifier.tally().of(AppId::DNS).packets, 40);
    assert_eq!(s.misses(), 1);
}

#[test]
fn a_flow_in_the_other_direction_is_known_with_it() {
    let mut s = Subject::new();
    s.send(&segment(1, 0x18, REQUEST));
    s.classify();
    let mut tcp = [80u16.to_be_bytes(), 4000u16.to_be_bytes()].concat();
    tcp.extend([0; 8]);
    tcp.extend([0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    tcp.extend_from_slice(b"HTTP/1.1 200 OK\r\n\r\n");
    let answer =
        Ip { protocol: protocol::TCP, ..Ip::new(Side::B.lan(false, 10), Side::A.lan(false, 10)) };
    s.pair.b.put_lan(&answer.with(&tcp));
    s.pair.b.run();
    assert_eq!(s.pair.carry(Side::B).len(), 1, "it comes through");
    assert_eq!((s.classify(), s.counted("http")), (0, 1));
}

#[test]
fn a_limit_of_an_application_has_its_flows_from_the_first_packet_on() {
    let mut s = Subject::new();
    let zoom = s.applications.catalogue().find("zoom").expect("it is built in");
    let limiter = rates::limiter("calls", rates::settings(1, 300), None);
    let matches = TrafficMatch { application: Some(zoom), ..TrafficMatch::default() };
    let rules = Arc::new(RateRules::new(vec![rates::rule(matches, Each::All, &limiter)]));
    let told = Some(Arc::clone(&s.applications));
    s.pair.a.set_topology_but(Vec::new(), |topology| {
        (topology.applications, topology.rate_rules) = (told, rules);
    });
    let pass = |s: &mut Subject, packet: &[u8]| {
        s.pair.a.put_lan(packet);
        s.pair.a.run();
        s.pair.a.check();
        s.pair.a.wan_out().len()
    };
    let big = [0; 200];
    let nameless = ends().udp(4000, 9999, &big);
    assert_eq!((0..5).map(|_| pass(&mut s, &nameless)).sum::<usize>(), 5, "no call's");
    // The client asks for a name, and gets the server's address.
    let message = |flags: [u8; 2], answers: u8| {
        let head = [&[0, 7], &flags[..], &[0, 1, 0, answers, 0, 0, 0, 0]].concat();
        [&head[..], b"\x03www\x04zoom\x02us\0\0\x01\0\x01"].concat()
    };
    let server = Side::B.lan(false, 10);
    let IpAddr::V4(address) = server else { panic!("IPv4") };
    let record = [&[0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 0, 0, 4], &address.octets()[..]].concat();
    let answer = [message([0x81, 0x80], 1), record].concat();
    let client = Side::A.lan(false, 10);
    s.classifier.packet(0, &ends().udp(5000, 53, &message([1, 0], 0)));
    s.classifier.packet(0, &Ip::new(server, client).udp(53, 5000, &answer));
    assert_eq!(s.classifier.tally().answers, 1);
    // Its next flow is a call: the bucket has room for one packet.
    let call = ends().udp(4001, 9998, &big);
    assert_eq!((0..5).map(|_| pass(&mut s, &call)).sum::<usize>(), 1);
    assert_eq!(s.pair.a.dropped(DropReason::RateLimit), 4);
    assert_eq!(pass(&mut s, &nameless), 1, "the flow that was there before goes on");
}
