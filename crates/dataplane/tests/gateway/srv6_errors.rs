//! ICMPv6 errors from inside of the path of segments: who is believed, and who is told.

use std::net::Ipv6Addr;
use std::sync::Arc;

use ::srv6::{Behaviour, Done, Flavours, Mode, Sid};
use dataplane::Event;
use forward::path_mtu::{PathMtuTable, Stops};
use forward::{IcmpCause, MtuPath, Reporter, icmp_error};
use outcome::DropReason;
use policy::{Direction, Prefix, Selector};
use wire::parse_ip;

use crate::packets::{Ip, hopped};
use crate::path_mtu::{checksummed, router, too_big};
use crate::srv6::{gateway, publish, sid, wrapped};
use crate::support::{Gateway, Pair, Side, Spec, ip, policy, template};

/// Bytes that A's route to 10.78.0.0/16 puts on packets: a header of 40, and a list of two segments.
const OVERHEAD: usize = 80;

fn through(numbers: &[&str]) -> MtuPath {
    let segments: Vec<Ipv6Addr> = numbers.iter().map(|n| sid(Side::B, n)).collect();
    MtuPath::Through(Stops::new(&segments).expect("few"))
}

fn reports(gateway: &mut Gateway) -> Vec<(MtuPath, u32)> {
    let report = |event| match event {
        Event::SegmentsTooBig { path, mtu } => Some((path, mtu)),
        _ => None,
    };
    gateway.events().into_iter().filter_map(report).collect()
}

/// As the control thread does.
fn learn(gateway: &Gateway, path: MtuPath, mtu: u32) {
    let mut table = PathMtuTable::new(1);
    table.report(path, mtu, 0);
    gateway.tables.path_mtus.store(Arc::new(table.path_mtus()));
}

/// With DF, to where A has a route with two segments (IPv4), or one (IPv6).
fn to_b(v6: bool) -> Ip {
    let dst = if v6 { ip("2001:db8:78::1") } else { ip("10.78.0.1") };
    Ip { dont_fragment: true, ..Ip::new(Side::A.lan(v6, 10), dst) }
}

/// A packet as A sends it.
fn sent(a: &mut Gateway, packet: &[u8]) -> Vec<u8> {
    a.put_lan(packet);
    a.run();
    a.wan_out().remove(0)
}

/// A packet as it is behind a segment of another node.
fn at_segment(mut packet: Vec<u8>, psp: bool) -> Vec<u8> {
    let flavours = Flavours { psp, ..Flavours::default() };
    let end = Sid { flavours, ..Sid::new(Behaviour::End) };
    let Ok(Done::Onward { cut }) = end.process(&mut packet) else { panic!("goes on") };
    packet.split_off(cut)
}

/// Packets of up to `longest` bytes pass, and the sender of a longer one is told so.
fn assert_fits(a: &mut Gateway, v6: bool, longest: usize) {
    for (len, fits) in [(longest, true), (longest + 1, false)] {
        a.put_lan(&to_b(v6).sized(len, 2));
        a.run();
        assert_eq!(a.wan_out().len(), usize::from(fits), "{len} of {longest}");
        let errors = a.lan_out();
        assert_eq!(errors.len(), usize::from(!fits), "{len} of {longest}");
        let Some(error) = errors.first() else { continue };
        let told = match v6 {
            true => u32::from_be_bytes(error[44..48].try_into().expect("4")) as usize,
            false => u16::from_be_bytes([error[26], error[27]]).into(),
        };
        assert_eq!(told, longest);
    }
}

#[test]
fn the_next_sender_is_told_what_a_router_between_segments_said() {
    let mut a = gateway(Side::A);
    let first = sent(&mut a, &to_b(false).sized(1400, 1));
    // On its way to the first segment, and to the second.
    for quoted in [first.clone(), at_segment(first.clone(), false)] {
        let error = too_big(&quoted, 1300);
        a.put_wan(&error);
        a.run();
        assert_eq!(reports(&mut a), [(through(&["1", "46"]), 1300)]);
        // Linux hears of it, too.
        assert_eq!(a.linux_out(), [error]);
    }
    assert_eq!(a.counters.work.srv6_path_mtu_reports.value(), 2);
    assert_fits(&mut a, false, 1500 - OVERHEAD);
    learn(&a, through(&["1", "46"]), 1300);
    assert_fits(&mut a, false, 1300 - OVERHEAD);
    // What may be cut is, and fits.
    a.put_lan(&Ip { dont_fragment: false, ..to_b(false) }.sized(1400, 1));
    a.run();
    let pieces = a.wan_out();
    assert!(pieces.len() == 2 && pieces.iter().all(|piece| piece.len() <= 1300));
    // Another path, though it ends at the same segment.
    assert_fits(&mut a, true, 1500 - 40);
    assert_eq!(a.drops(), [(DropReason::OutTooBig, 3)]);
}

/// A list that was taken off on the way, or was not needed, is not quoted.
#[test]
fn a_packet_without_its_list_is_known_by_the_last_segment() {
    let mut a = gateway(Side::A);
    let two = sent(&mut a, &to_b(false).sized(1400, 1));
    let one = sent(&mut a, &to_b(true).sized(1400, 1));
    let bare = MtuPath::Bare(sid(Side::B, "46"));
    for quoted in [at_segment(two, true), one] {
        a.put_wan(&too_big(&quoted, 1340));
        a.run();
        assert_eq!(reports(&mut a), [(bare, 1340)]);
    }
    learn(&a, bare, 1340);
    // The list's 40 bytes are not there where it was too long.
    assert_fits(&mut a, false, 1340 + 40 - OVERHEAD);
    assert_fits(&mut a, true, 1340 - 40);
}

/// No sender of IPv6 goes below 1280 bytes, so no report does.
#[test]
fn ipv6_of_1280_bytes_goes_on() {
    let mut a = gateway(Side::A);
    learn(&a, MtuPath::Bare(sid(Side::B, "46")), 1280);
    assert_fits(&mut a, true, 1280);
    assert_fits(&mut a, false, 1280 + 40 - OVERHEAD);
}

#[test]
fn what_no_headend_has_made_is_not_believed() {
    let mut a = gateway(Side::A);
    let quoted = sent(&mut a, &to_b(false).sized(1400, 1));
    let good = too_big(&quoted, 1300);
    let changed = |at: usize, to: &[u8]| {
        let mut error = good.clone();
        error[at..at + to.len()].copy_from_slice(to);
        checksummed(error)
    };
    let (outer, list) = (48, 88);
    let wrong = [
        ("source", changed(outer + 23, &[77])),
        ("destination", changed(outer + 39, &[77])),
        ("next header", changed(outer + 6, &[17])),
        ("routing type", changed(list + 2, &[3])),
        ("more left", changed(list + 3, &[2])),
        ("another list", changed(list + 8 + 15, &[77])),
        ("no link is narrower than 1280 bytes", changed(44, &1279_u32.to_be_bytes())),
        ("wider than the packet is long", changed(44, &1480_u32.to_be_bytes())),
        ("half a list", {
            let mut short = good[..list + 20].to_vec();
            short[4..6].copy_from_slice(&((list + 20 - 40) as u16).to_be_bytes());
            checksummed(short)
        }),
        ("checksum", {
            let mut error = good.clone();
            error[42] ^= 1;
            error
        }),
    ];
    for (what, error) in wrong {
        a.put_wan(&error);
        a.run();
        assert_eq!(reports(&mut a), [], "{what}");
        assert_eq!(a.linux_out(), [error], "{what}");
    }
    // Nobody outside the domain is on the path.
    a.put_lan(&good);
    a.run();
    assert_eq!((reports(&mut a), a.linux_out().len()), (vec![], 1));
    assert_eq!(a.counters.work.srv6_path_mtu_reports.value(), 0);
    a.put_wan(&good);
    a.run();
    assert_eq!(reports(&mut a).len(), 1);
}

#[test]
fn other_errors_are_counted() {
    let mut a = gateway(Side::A);
    let quoted = sent(&mut a, &to_b(false).sized(100, 1));
    let h = parse_ip(&quoted).expect("IPv6");
    let reporter = Reporter { src: router(true), ident: 5 };
    for cause in [IcmpCause::NoRoute, IcmpCause::HostUnreachable, IcmpCause::TimeExceeded] {
        let mut error = vec![0; 1280];
        let len = icmp_error::build(cause, &quoted, &h, false, reporter, &mut error);
        error.truncate(len.expect("an error"));
        a.put_wan(&error);
        a.run();
        assert_eq!(a.linux_out(), [error]);
    }
    assert_eq!(a.counters.work.srv6_path_errors.value(), 3);
    assert_eq!(reports(&mut a), []);
}

/// For each one headends are looked through, and each report makes all workers decide anew.
#[test]
fn errors_and_reports_are_rationed() {
    let mut a = gateway(Side::A);
    let quoted = sent(&mut a, &to_b(false).sized(1400, 1));
    for mtu in 0..120 {
        a.put_wan(&too_big(&quoted, 1420 - mtu));
    }
    a.run();
    let reported = reports(&mut a).len();
    assert!((10..20).contains(&reported), "{reported}");
    let heard = a.counters.work.srv6_path_mtu_reports.value();
    assert!((100..120).contains(&heard), "{heard}");
    assert_eq!(a.linux_out().len(), 120);
}

/// Where segments are under protection an error in clear is nobody's of the path.
#[test]
fn errors_come_as_the_segments_go() {
    let spec = Spec { outer_v6: true, ..Spec::default() };
    let mut pair = Pair { a: Gateway::new(Side::A), b: Gateway::new(Side::B) };
    let host = |side: Side| Prefix { addr: side.wan(true), len: 128 };
    let all = Prefix { addr: ip("::"), len: 0 };
    for gateway in [&mut pair.a, &mut pair.b] {
        gateway.add_sas(&spec);
        let (here, there) = (gateway.side, gateway.side.other());
        let segments = Prefix { addr: sid(there, "0").into(), len: 64 };
        let ours = vec![template(&spec, here)];
        let out = [Selector::between(all, segments), Selector::between(all, host(there))];
        for (index, out) in (1..).zip(out) {
            gateway.db.put_policy(policy(index, Direction::Out, out, ours.clone()));
        }
        publish(gateway, 1500, false);
    }
    let quoted = wrapped(
        Side::B,
        Mode::Encap,
        &[sid(Side::B, "1"), sid(Side::B, "46")],
        &to_b(false).sized(1300, 1),
    );
    let error = too_big(&quoted, 1300);
    pair.a.put_wan(&error);
    pair.a.run();
    assert_eq!((reports(&mut pair.a), pair.a.linux_out().len()), (vec![], 1));
    // From behind the other gateway, through its SA.
    let theirs = Selector::between(all, host(Side::A));
    let templates = vec![template(&spec, Side::B)];
    pair.a.db.put_policy(policy(9, Direction::In, theirs, templates));
    pair.b.put_lan(&error);
    pair.b.run();
    pair.carry(Side::B);
    assert_eq!(reports(&mut pair.a), [(through(&["1", "46"]), 1300)], "{:?}", pair.a.drops());
    assert_eq!(pair.a.linux_out(), [hopped(&error, 1)]);
    // In clear policy does not let it in any more.
    pair.a.put_wan(&error);
    pair.a.run();
    assert_eq!(reports(&mut pair.a), []);
    assert_eq!(pair.a.drops(), [(DropReason::InCleartext, 1)]);
}

/// A binding segment is a headend in the middle of another one's path.
#[test]
fn who_sends_too_much_to_a_binding_segment_is_told() {
    let mut b = gateway(Side::B);
    let segments = [sid(Side::B, "b6"), sid(Side::A, "9")];
    let of = |len: usize| {
        let inner = Ip::new(ip("10.9.0.1"), ip("10.77.0.1")).sized(len - OVERHEAD, 1);
        wrapped(Side::B, Mode::Encap, &segments, &inner)
    };
    // The policy's header has 40 bytes.
    for _ in 0..2 {
        for (len, fits) in [(1460, true), (1461, false)] {
            b.put_wan(&of(len));
            b.run();
            let out = b.wan_out().remove(0);
            if fits {
                assert_eq!(out.len(), 1500);
            } else {
                assert_eq!((out[6], out[40]), (58, 2));
                assert_eq!(out[44..48], 1460_u32.to_be_bytes());
            }
        }
    }
    assert_eq!(b.drops(), [(DropReason::OutTooBig, 2)]);
}
