//! RFC 9800, line by line: what each line of its pseudocode does to a packet, and the addresses of its examples. Lines
//! are named as in the RFC, N of section 4.1.1 (NEXT-CSID), S and R of section 4.2.1 (REPLACE-CSID).

use std::net::{Ipv4Addr, Ipv6Addr};

use srv6::{Behaviour, Csid, Done, Fault, Flavours, Headend, Icmp, Inner, Mode, Next, Quoted};
use srv6::{Sid, Srh};
use wire::ipv6::Ipv6Fields;
use wire::protocol;

fn a(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// A packet of 20 bytes inside.
fn inner() -> Vec<u8> {
    let fields = Ipv6Fields {
        traffic_class: 0,
        flow_label: 0,
        payload_len: 20,
        next_header: protocol::UDP,
        hop_limit: 64,
        src: a("2001:db8:a::1"),
        dst: a("2001:db8:c::1"),
    };
    [&fields.to_bytes()[..], &[7; 20]].concat()
}

/// A packet to a destination with a list, `list[0]` first, as it stands in the header.
fn packet(dst: &str, hop_limit: u8, left: u8, list: &[&str]) -> Vec<u8> {
    let list: Vec<Ipv6Addr> = list.iter().map(|entry| a(entry)).collect();
    let mut srh = if list.is_empty() { vec![] } else { srv6::emit(&list, left).expect("short") };
    if let Some(next) = srh.first_mut() {
        *next = protocol::IPV6;
    }
    let inner = inner();
    let fields = Ipv6Fields {
        traffic_class: 0,
        flow_label: 0,
        payload_len: (srh.len() + inner.len()) as u16,
        next_header: if srh.is_empty() { protocol::IPV6 } else { protocol::ROUTING },
        hop_limit,
        src: a("2001:db8::ff"),
        dst: a(dst),
    };
    [&fields.to_bytes()[..], &srh, &inner].concat()
}

fn dst(packet: &[u8]) -> Ipv6Addr {
    Ipv6Addr::from(<[u8; 16]>::try_from(&packet[24..40]).expect("16"))
}

/// A packet after a step: destination, hop limit, segments left; none left where the header is gone.
#[derive(Debug, PartialEq)]
enum After {
    Onward(Ipv6Addr, u8, Option<u8>),
    Inside,
    Here,
    Refused(Fault, Option<Icmp>),
}
use After::{Here, Inside, Onward, Refused};

fn step(sid: &Sid, mut packet: Vec<u8>) -> (After, Vec<u8>) {
    let before = packet.clone();
    match sid.process(&mut packet) {
        Ok(Done::Onward { cut }) => {
            packet.drain(..cut);
            let srh = (packet[6] == protocol::ROUTING).then(|| Srh::parse(&packet[40..]));
            let left = srh.map(|srh| srh.expect("whole").segments_left());
            let payload_len = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
            assert_eq!(payload_len + 40, packet.len());
            assert!(packet.ends_with(&inner()));
            (Onward(dst(&packet), packet[7], left), packet)
        }
        Ok(Done::Inside { cut, inner: kind }) => {
            assert_eq!((kind, &packet[cut..]), (Inner::V6, &inner()[..]));
            (Inside, packet)
        }
        Ok(Done::Here { .. }) => (Here, packet),
        Err(refusal) => {
            assert_eq!(packet, before, "an error quotes the packet as it came");
            (Refused(refusal.fault, refusal.icmp()), packet)
        }
    }
}

const NONE: Flavours = Flavours { psp: false, usp: false, usd: false };
const PSP: Flavours = Flavours { psp: true, ..NONE };
const USP: Flavours = Flavours { usp: true, ..NONE };
const USD: Flavours = Flavours { usd: true, ..NONE };

/// The behaviours whose steps are those of End, and how their packets go on.
fn ends() -> [(Behaviour, Next); 3] {
    let via = a("fe80::1");
    [
        (Behaviour::End, Next::Lookup),
        (Behaviour::EndX(via), Next::Via(via.into())),
        (Behaviour::EndT(100), Next::Table(100)),
    ]
}

fn next_csid(block: u8, function: u8) -> Csid {
    Csid::next(block, function).expect("fits")
}

fn replace_csid(block: u8, function: u8) -> Csid {
    Csid::replace(block, function).expect("fits")
}

/// A line of a table: its source, block and function, flavours, the packet, and what becomes of it.
type Line<'a> = (&'a str, (u8, u8), Flavours, (&'a str, u8, u8, &'a [&'a str]), After);

fn check(lines: Vec<Line<'_>>, csid: fn(u8, u8) -> Csid) {
    for (source, (block, function), flavours, (to, hop_limit, left, list), expected) in lines {
        for (behaviour, goes_on) in ends() {
            let sid = Sid { behaviour, flavours, csid: csid(block, function) };
            assert_eq!(sid.next(), goes_on);
            let (after, _) = step(&sid, packet(to, hop_limit, left, list));
            assert_eq!(after, expected, "{source}, {}", sid.name());
        }
    }
}

fn onward(to: &str, hop_limit: u8, left: impl Into<Option<u8>>) -> After {
    Onward(a(to), hop_limit, left.into())
}

/// Parameter problem at Segments Left.
const LEFT: Option<Icmp> = Some(Icmp::Parameter { code: 0, pointer: 43 });
/// The hop limit ends here.
const TIME: After = Refused(Fault::HopLimit, Some(Icmp::TimeExceeded));

/// Refusal of what is no upper layer for End (RFC 8986 §4.1.1), behind this many bytes.
fn upper(pointer: u32) -> After {
    Refused(Fault::UpperLayer, Some(Icmp::Parameter { code: 4, pointer }))
}

#[test]
fn next_csid_line_by_line() {
    let one = &["2001:db8:b1:7:8::"][..];
    check(
        vec![
            // Block of 48 bits, identifiers of 16 (§6.3's node 10, 2001:db8:b1:10::/64).
            (
                "N01 to N08: the argument is the next identifier",
                (48, 16),
                NONE,
                ("2001:db8:b1:10:f123::", 64, 0, &[]),
                onward("2001:db8:b1:f123::", 63, None),
            ),
            (
                "N05: all of the argument moves",
                (48, 16),
                NONE,
                ("2001:db8:b1:10:20:30:40:50", 64, 0, &[]),
                onward("2001:db8:b1:20:30:40:50:0", 63, None),
            ),
            (
                "N06: zeros come in behind it",
                (48, 16),
                NONE,
                ("2001:db8:b1:10::1", 64, 0, &[]),
                onward("2001:db8:b1::1:0", 63, None),
            ),
            (
                "N05: block of 32 bits, identifiers of 16",
                (32, 16),
                NONE,
                ("2001:db8:1:2:3:4:5:6", 64, 0, &[]),
                onward("2001:db8:2:3:4:5:6:0", 63, None),
            ),
            (
                "N05: block of 16 bits, identifiers of 32",
                (16, 32),
                NONE,
                ("fc00:1:2:3:4:5:6:7", 64, 0, &[]),
                onward("fc00:3:4:5:6:7::", 63, None),
            ),
            (
                "N05: block of 48 bits, node 16 and function 16",
                (48, 32),
                NONE,
                ("2001:db8:b1:10:1:20:2:0", 64, 0, &[]),
                onward("2001:db8:b1:20:2::", 63, None),
            ),
            (
                "N02, N03: the hop limit ends",
                (48, 16),
                NONE,
                ("2001:db8:b1:10:20::", 1, 0, &[]),
                TIME,
            ),
            ("N02: a hop limit of 0", (48, 16), NONE, ("2001:db8:b1:10:20::", 0, 0, &[]), TIME),
            (
                "N08: the list is not touched",
                (48, 16),
                NONE,
                ("2001:db8:b1:10:20::", 64, 1, one),
                onward("2001:db8:b1:20::", 63, 1),
            ),
            (
                "N01, else: the next container",
                (48, 16),
                NONE,
                ("2001:db8:b1:10::", 64, 1, one),
                onward("2001:db8:b1:7:8::", 63, 0),
            ),
            (
                "N01, else; §4.1.7, PSP: off with the header, though identifiers follow",
                (48, 16),
                PSP,
                ("2001:db8:b1:10::", 64, 1, one),
                onward("2001:db8:b1:7:8::", 63, None),
            ),
            (
                "§4.1.7, PSP: not while the container has some",
                (48, 16),
                PSP,
                ("2001:db8:b1:10:20::", 64, 0, one),
                onward("2001:db8:b1:20::", 63, 0),
            ),
            (
                "N01, else; RFC 8986 §4.1, S09: more left than there are",
                (48, 16),
                NONE,
                ("2001:db8:b1:10::", 64, 3, one),
                Refused(Fault::SegmentsLeft, LEFT),
            ),
            (
                "N01 comes before the list is looked at",
                (48, 16),
                NONE,
                ("2001:db8:b1:10:20::", 64, 3, one),
                onward("2001:db8:b1:20::", 63, 3),
            ),
            (
                "N01, else; RFC 8986 §4.1.1: no segment follows",
                (48, 16),
                NONE,
                ("2001:db8:b1:10::", 64, 0, &[]),
                upper(40),
            ),
            (
                "RFC 8986 §4.1.1: no segment of the list follows",
                (48, 16),
                NONE,
                ("2001:db8:b1:10::", 64, 0, one),
                upper(64),
            ),
            (
                "§4.1.7, USD: what was inside",
                (48, 16),
                USD,
                ("2001:db8:b1:10::", 64, 0, &[]),
                Inside,
            ),
            (
                "§4.1.7, USD: first the argument",
                (48, 16),
                USD,
                ("2001:db8:b1:10:20::", 64, 0, &[]),
                onward("2001:db8:b1:20::", 63, None),
            ),
            ("§4.1.7, USP: for this node", (48, 16), USP, ("2001:db8:b1:10::", 64, 0, one), Here),
        ],
        next_csid,
    );
}

/// §4.2, an entry of four identifiers of 32 bits, which are used from its lowest bits on, and entries of 16 bits.
#[test]
fn replace_csid_line_by_line() {
    // In the order of the path: node 21 function 1, node 22, node 23, node 24.
    let four = "24:1:23:1:22:1:21:1";
    let two = "::22:1:21:1";
    let dst = |node: &str, index: u8| format!("2001:db8:b2:{node}:1::{index}");
    let d = |node: &str, index: u8| a(&dst(node, index));
    let (d0, d1, d2, d3) = (dst("20", 0), dst("24", 0), dst("22", 2), dst("21", 3));
    let wrong = || Refused(Fault::SegmentsLeft, LEFT);
    check(
        vec![
            (
                "R12, R16, R17, R20: the first identifier of the next entry",
                (48, 32),
                NONE,
                (&d0, 64, 1, &[four]),
                Onward(d("21", 3), 63, Some(0)),
            ),
            (
                "R05, R20: the next one of the same",
                (48, 32),
                NONE,
                (&d3, 64, 0, &[four]),
                Onward(d("22", 2), 63, Some(0)),
            ),
            (
                "R05, R20, of two entries: Segments Left stays",
                (48, 32),
                NONE,
                (&d2, 64, 1, &["fd00::9", four]),
                Onward(d("23", 1), 63, Some(1)),
            ),
            (
                "R20: down to index 0",
                (48, 32),
                NONE,
                (&dst("23", 1), 64, 0, &[four]),
                Onward(d("24", 0), 63, Some(0)),
            ),
            ("S02: index 0 and no segment left", (48, 32), NONE, (&d1, 64, 0, &[four]), upper(64)),
            ("S02: what follows is padding", (48, 32), NONE, (&d2, 64, 0, &[two]), upper(64)),
            ("S02 comes before the hop limit: USD", (48, 32), USD, (&d2, 1, 0, &[two]), Inside),
            (
                "S02, USD: not while an identifier follows",
                (48, 32),
                USD,
                (&d3, 64, 0, &[two]),
                Onward(d("22", 2), 63, Some(0)),
            ),
            ("S02, USP", (48, 32), USP, (&d1, 64, 0, &[four]), Here),
            (
                "R12: from a full entry to the next",
                (48, 32),
                NONE,
                (&d1, 64, 1, &[two, four]),
                Onward(d("21", 3), 63, Some(0)),
            ),
            (
                "R06 to R09: behind padding, a whole address",
                (48, 32),
                NONE,
                (&d2, 64, 1, &["fd00::9", two]),
                Onward(a("fd00::9"), 63, Some(0)),
            ),
            (
                "§4.2.8, PSP behind R09, whatever that address has for an index",
                (48, 32),
                PSP,
                (&d2, 64, 1, &["fd00::9", two]),
                Onward(a("fd00::9"), 63, None),
            ),
            (
                "§4.2.8, PSP behind R20: on to index 0",
                (48, 32),
                PSP,
                (&dst("23", 1), 64, 0, &[four]),
                Onward(d("24", 0), 63, None),
            ),
            (
                "§4.2.8, PSP behind R20: on to what has padding behind it",
                (48, 32),
                PSP,
                (&d3, 64, 0, &[two]),
                Onward(d("22", 2), 63, None),
            ),
            (
                "§4.2.8, PSP: on to the only identifier",
                (48, 32),
                PSP,
                (&d0, 64, 1, &["::21:1"]),
                Onward(d("21", 3), 63, None),
            ),
            (
                "§4.2.8, PSP: not while identifiers follow",
                (48, 32),
                PSP,
                (&d3, 64, 0, &[four]),
                Onward(d("22", 2), 63, Some(0)),
            ),
            (
                "§4.2.8, PSP: not while entries follow",
                (48, 32),
                PSP,
                (&dst("23", 1), 64, 1, &[two, four]),
                Onward(d("24", 0), 63, Some(1)),
            ),
            ("S05, S06: the hop limit ends", (48, 32), NONE, (&d3, 1, 0, &[four]), TIME),
            (
                "R02, R03: in an entry that is not there",
                (48, 32),
                NONE,
                (&d3, 64, 1, &[four]),
                wrong(),
            ),
            (
                "R12 to R14: a reduced list has one more left",
                (48, 32),
                NONE,
                (&d0, 64, 2, &[two, four]),
                Onward(d("21", 3), 63, Some(1)),
            ),
            ("R13, R14: two more", (48, 32), NONE, (&d0, 64, 2, &[four]), wrong()),
            // Eight identifiers of 16 bits: three bits of index.
            (
                "R17: index 7 of 8",
                (64, 16),
                NONE,
                ("2001:db8:b3:1:20::", 64, 1, &["28:27:26:25:24:23:22:21"]),
                onward("2001:db8:b3:1:21::7", 63, 0),
            ),
            (
                "R05: index 6 of 8",
                (64, 16),
                NONE,
                ("2001:db8:b3:1:21::7", 64, 0, &["28:27:26:25:24:23:22:21"]),
                onward("2001:db8:b3:1:22::6", 63, 0),
            ),
            // What else is in the argument stays as it is.
            (
                "R05, R20: nothing but index and identifier is written",
                (48, 16),
                NONE,
                ("2001:db8:b2:21:5:6:7:f", 64, 0, &["28:27:26:25:24:23:22:21"]),
                onward("2001:db8:b2:22:5:6:7:e", 63, 0),
            ),
            (
                "block of 80 bits, identifiers of 32",
                (80, 32),
                NONE,
                ("2001:db8:b4:0:0:20:1:0", 64, 1, &[four]),
                onward("2001:db8:b4::21:1:3", 63, 0),
            ),
        ],
        replace_csid,
    );
}

/// The list ends before the entry that it says, R02's and R13's first condition.
#[test]
fn a_last_entry_beyond_the_header_is_refused() {
    for to in ["2001:db8:b2:21:1::3", "2001:db8:b2:20:1::"] {
        let mut packet = packet(to, 64, 1, &["::22:1", "::21:1"]);
        packet[44] = 2;
        let sid = Sid { csid: replace_csid(48, 32), ..Sid::new(Behaviour::End) };
        assert_eq!(step(&sid, packet).0, Refused(Fault::SegmentsLeft, LEFT), "{to}");
    }
}

/// §4.2.7: as in RFC 8986, whatever index and argument the destination has; no entry may be left.
#[test]
fn replace_csids_end_at_decapsulation() {
    let behaviours =
        [Behaviour::EndDx6(a("fe80::1")), Behaviour::EndDt6(100), Behaviour::EndDt46(100)];
    for behaviour in behaviours {
        let sid = Sid { csid: replace_csid(48, 32), ..Sid::new(behaviour) };
        for (to, left, list, expected) in [
            ("2001:db8:b2:24:1::", 0, &["24:1:23:1:22:1:21:1"][..], Inside),
            ("2001:db8:b2:22:1::2", 0, &["::22:1:21:1"], Inside),
            ("2001:db8:b2:22:1:77::2", 0, &["::22:1:21:1"], Inside),
            ("2001:db8:b2:24:1::", 0, &[], Inside),
            ("2001:db8:b2:24:1::", 1, &["::1", "::24:1"], Refused(Fault::SegmentsLeft, LEFT)),
        ] {
            assert_eq!(step(&sid, packet(to, 64, left, list)).0, expected, "{to} {}", sid.name());
        }
    }
    let v4 = Sid { csid: replace_csid(48, 32), ..Sid::new(Behaviour::EndDx4(Ipv4Addr::LOCALHOST)) };
    assert_eq!(step(&v4, packet("2001:db8:b2:24:1::", 64, 0, &["::24:1"])).0, upper(64));
}

/// §4.1.4, §4.1.5, §4.2.4, §4.2.5: the same step, and the policy's headers around it.
#[test]
fn binding_segments_take_the_same_step() {
    let policy = [a("fd00::1"), a("fd00::2")];
    for mode in [Mode::Encap, Mode::EncapRed] {
        let headend = Headend::new(mode, &policy, a("fd00::ff")).expect("two");
        for (csid, to, left, list, next) in [
            (next_csid(48, 16), "2001:db8:b1:10:20::", 0, &[][..], "2001:db8:b1:20::"),
            (
                replace_csid(48, 32),
                "2001:db8:b2:21:1::3",
                0,
                &["::22:1:21:1"],
                "2001:db8:b2:22:1::2",
            ),
        ] {
            let sid = Sid { csid, ..Sid::new(Behaviour::EndB6Encaps(headend.clone())) };
            let mut bytes = vec![0; sid.overhead()];
            bytes.extend(packet(to, 64, left, list));
            assert_eq!(sid.process(&mut bytes), Ok(Done::Onward { cut: 0 }));
            assert_eq!(dst(&bytes), policy[0]);
            assert_eq!(dst(&bytes[sid.overhead()..]), a(next));
        }
    }
}

/// The example of a path in two containers and one more segment, as a headend sends it and each node passes it on.
#[test]
fn a_path_through_containers_of_both_kinds() {
    // §4.1: block 2001:db8:b1::/48, nodes 1 to 7; §4.2: node 9 of another block.
    let segments = [a("2001:db8:b1:1:2:3:4:5"), a("2001:db8:b1:6:7::"), a("2001:db8:c::9")];
    let headend = Headend::new(Mode::EncapRed, &segments, a("2001:db8::ff")).expect("three");
    let mut packet = vec![0; headend.overhead()];
    packet.extend(inner());
    headend.apply(&mut packet).expect("IPv6");
    let sid = Sid { csid: next_csid(48, 16), ..Sid::new(Behaviour::End) };
    for to in [
        "2001:db8:b1:2:3:4:5:0",
        "2001:db8:b1:3:4:5::",
        "2001:db8:b1:4:5::",
        "2001:db8:b1:5::",
        "2001:db8:b1:6:7::",
        "2001:db8:b1:7::",
        "2001:db8:c::9",
    ] {
        // A router in between quotes it: the headend knows its packet all the way.
        assert!(headend.has_made(&Quoted::parse(&packet).expect("segments")), "{to}");
        let after;
        (after, packet) = step(&sid, packet);
        let Onward(at, ..) = after else { panic!("{after:?}") };
        assert_eq!(at, a(to));
    }
    assert!(headend.has_made(&Quoted::parse(&packet).expect("segments")));
}

#[test]
fn lengths_that_fit_no_address_are_refused() {
    // Argument (128 - LBL - LNFL) of at least one byte; entries hold whole identifiers.
    assert!(Csid::next(64, 64).is_none() && Csid::next(120, 8).is_none());
    assert!(Csid::next(112, 8).is_some() && Csid::replace(112, 8).is_some());
    assert!(Csid::replace(48, 24).is_none() && Csid::replace(96, 32).is_none());
    assert!(Csid::replace(88, 32).is_some() && Csid::replace(56, 64).is_some());
}
