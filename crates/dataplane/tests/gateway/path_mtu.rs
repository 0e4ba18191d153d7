//! Path MTUs that routers report, and what TCP connections are told of them.

use std::net::IpAddr;
use std::sync::Arc;

use dataplane::{Event, SaMtu, Topology};
use forward::path_mtu::PathMtuTable;
use forward::{IcmpCause, Reporter, icmp_error};
use outcome::DropReason;
use wire::tcp::{TcpHeader, flag};
use wire::{L4Checksum, parse_ip, protocol};

use crate::packets::Ip;
use crate::support::{Gateway, Pair, Side, Spec, ip};

fn forth(v6: bool) -> Ip {
    Ip { dont_fragment: true, ..Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 10)) }
}

pub fn router(v6: bool) -> IpAddr {
    if v6 { ip("2001:db8:f::99") } else { ip("192.0.2.99") }
}

/// A router's answer to a packet that is too long for its next link.
pub fn too_big(packet: &[u8], mtu: u32) -> Vec<u8> {
    let h = parse_ip(packet).expect("packet");
    let reporter = Reporter { src: router(h.src.is_ipv6()), ident: 5 };
    let mut out = vec![0; 1280];
    let cause = IcmpCause::TooBig { mtu };
    let len = icmp_error::build(cause, packet, &h, false, reporter, &mut out).expect("an error");
    out.truncate(len);
    out
}

pub fn checksummed(mut error: Vec<u8>) -> Vec<u8> {
    if error[0] >> 4 == 4 {
        wire::ipv4::fill_checksum(&mut error[..20]);
    }
    let h = parse_ip(&error).expect("packet");
    assert!(wire::fill_l4_checksum(&mut error, &h));
    error
}

/// The gateway's reports to its control thread: destination and MTU.
fn reports(gateway: &mut Gateway) -> Vec<(IpAddr, u32)> {
    let report = |event| match event {
        Event::TooBig { dst, mtu, .. } => Some((dst, mtu)),
        _ => None,
    };
    gateway.events().into_iter().filter_map(report).collect()
}

/// As the control thread does.
fn learn(gateway: &Gateway, dst: IpAddr, mtu: u32) {
    let mut table = PathMtuTable::new(1);
    table.report(dst, mtu, 0);
    gateway.tables.path_mtus.store(Arc::new(table.path_mtus()));
}

#[test]
fn a_report_about_what_was_sent_is_believed() {
    for (outer_v6, encap) in [(false, false), (true, false), (false, true), (true, true)] {
        let spec = Spec { outer_v6, encap, ..Spec::default() };
        let mut pair = Pair::new(&spec);
        pair.a.put_lan(&forth(false).sized(1400, 1));
        pair.a.run();
        let sent = pair.a.wan_out().remove(0);
        let error = too_big(&sent, 1300);
        pair.a.put_wan(&error);
        pair.a.run();
        let peer = Side::B.wan(outer_v6);
        assert_eq!(reports(&mut pair.a), [(peer, 1300)], "{spec:?}");
        // Linux hears of it, too: it has packets of its own for that path.
        assert_eq!(pair.a.linux_out(), [error]);
        assert_eq!(pair.a.counters.work.path_mtu_reports.value(), 1);

        // The sender of the next long packet is told what fits the SA now.
        let mtu_of = |g: &Gateway| g.tables.sa_mtu(&g.sa(Side::A, &spec).esp).expect("a route");
        let before = mtu_of(&pair.a);
        assert_eq!((before.outer, before.is_learnt), (1500, false));
        learn(&pair.a, peer, 1300);
        let SaMtu { outer, inner, is_learnt } = mtu_of(&pair.a);
        assert_eq!((outer, is_learnt), (1300, true));
        assert_eq!(inner, pair.a.sa(Side::A, &spec).esp.max_inner_len(1300));
        for (len, fits) in [(inner, true), (inner + 1, false)] {
            pair.a.put_lan(&forth(false).sized(len, 2));
            pair.a.run();
            assert_eq!(pair.a.wan_out().len(), usize::from(fits));
            let errors = pair.a.lan_out();
            assert_eq!(errors.len(), usize::from(!fits));
            if let Some(error) = errors.first() {
                assert_eq!(usize::from(u16::from_be_bytes([error[26], error[27]])), inner);
            }
        }
        assert_eq!(pair.a.drops(), [(DropReason::OutTooBig, 1)]);
        // An inbound SA leads to no path.
        assert_eq!(pair.a.tables.sa_mtu(&pair.a.sa(Side::B, &spec).esp), None);
    }
}

/// RFC 1191 §5: a router that does not know the field tells 0; the next plateau is tried.
#[test]
fn an_old_router_says_no_mtu() {
    let mut pair = Pair::new(&Spec::default());
    pair.a.put_lan(&forth(false).sized(1400, 1));
    pair.a.run();
    let mut error = too_big(&pair.a.wan_out()[0], 1300);
    error[26..28].fill(0);
    pair.a.put_wan(&checksummed(error));
    pair.a.run();
    assert_eq!(reports(&mut pair.a), [(Side::B.wan(false), 1006)]);
}

/// An error that nobody on the path would send is not believed; Linux gets it as any other packet.
#[test]
fn what_was_not_sent_is_not_believed() {
    for (v6, encap) in [(false, false), (true, false), (false, true)] {
        let spec = Spec { outer_v6: v6, encap, ..Spec::default() };
        let mut pair = Pair::new(&spec);
        for n in 0..5 {
            pair.a.put_lan(&forth(false).sized(1400, n));
        }
        pair.a.run();
        let sent = pair.a.wan_out().remove(2);
        let (ip_len, icmp) = if v6 { (40, 40) } else { (20, 20) };
        let quoted = icmp + 8;
        let esp = quoted + ip_len + if encap { 8 } else { 0 };
        let good = too_big(&sent, 1300);
        let changed = |at: usize, to: &[u8]| {
            let mut error = good.clone();
            error[at..at + to.len()].copy_from_slice(to);
            checksummed(error)
        };
        let source = quoted + if v6 { 8 } else { 12 } + if v6 { 15 } else { 3 };
        let mut wrong = vec![
            ("SPI", changed(esp, &7_u32.to_be_bytes())),
            ("number 0", changed(esp + 4, &0_u32.to_be_bytes())),
            ("number to come", changed(esp + 4, &6_u32.to_be_bytes())),
            ("number long ago", changed(esp + 4, &0x8000_0000_u32.to_be_bytes())),
            ("quoted source", changed(source, &[77])),
            ("quoted protocol", changed(quoted + if v6 { 6 } else { 9 }, &[protocol::TCP])),
            ("a longer MTU than the packet", too_big(&sent, sent.len() as u32)),
            ("too short", {
                let mut short = good.clone();
                short.truncate(esp + 4);
                let len = short.len() as u16;
                match v6 {
                    true => short[4..6].copy_from_slice(&(len - 40).to_be_bytes()),
                    false => short[2..4].copy_from_slice(&len.to_be_bytes()),
                }
                checksummed(short)
            }),
            ("checksum", {
                let mut error = good.clone();
                error[icmp + 2] ^= 1;
                error
            }),
        ];
        if encap {
            wrong.push(("port", changed(quoted + ip_len, &4501_u16.to_be_bytes())));
        }
        for (what, error) in wrong {
            pair.a.put_wan(&error);
            pair.a.run();
            assert_eq!(reports(&mut pair.a), [], "{what}, {spec:?}");
            assert_eq!(pair.a.linux_out(), [error], "{what}");
        }
        // The right one among them is.
        pair.a.put_wan(&good);
        pair.a.run();
        assert_eq!(reports(&mut pair.a).len(), 1);
        pair.a.linux_out();
    }
}

/// An attacker who guesses SPIs gets a few tries a second, at whatever rate they come: years for 2^32 of them.
#[test]
fn guesses_at_what_was_sent_are_limited() {
    for encap in [false, true] {
        let mut pair = Pair::new(&Spec { encap, ..Spec::default() });
        pair.a.put_lan(&forth(false).sized(1400, 1));
        pair.a.run();
        let sent = pair.a.wan_out().remove(0);
        let right = too_big(&sent, 1300);
        let spi = 28 + 20 + if encap { 8 } else { 0 };
        let guess = |n: u32| {
            let mut error = right.clone();
            error[spi..spi + 4].copy_from_slice(&(0x8000_0000 + n).to_be_bytes());
            checksummed(error)
        };
        let (mut guessed, mut linux) = (0, 0);
        // A second's worth at 100,000 a second, with the right one among them every 100 ms.
        for ms in 1..=1000 {
            for n in 0..100 {
                pair.a.put_wan(&guess(guessed));
                guessed += 1;
                if n == 50 && ms % 100 == 0 {
                    pair.a.put_wan(&right);
                }
            }
            pair.a.run();
            // Linux judges each of them itself.
            linux += pair.a.linux_out().len();
            pair.a.pass_ns(1_000_000);
        }
        assert_eq!(reports(&mut pair.a), [], "not among so many");
        let work = &pair.a.counters.work;
        assert_eq!(work.path_mtu_guesses.value(), u64::from(guessed));
        assert_eq!((work.path_mtu_ignored.value(), work.path_mtu_reports.value()), (10, 0));
        assert_eq!(linux, guessed as usize + 10);
        // It is over in a moment.
        pair.a.pass_ns(100_000_000);
        pair.a.put_wan(&right);
        pair.a.run();
        assert_eq!(reports(&mut pair.a), [(Side::B.wan(false), 1300)]);
    }
}

/// Reports are rationed: each makes all workers decide anew.
#[test]
fn reports_are_rationed() {
    let mut pair = Pair::new(&Spec::default());
    pair.a.put_lan(&forth(false).sized(1400, 1));
    pair.a.run();
    let sent = pair.a.wan_out().remove(0);
    for mtu in 0..100 {
        pair.a.put_wan(&too_big(&sent, 1300 - mtu));
    }
    pair.a.run();
    assert_eq!(reports(&mut pair.a).len(), 10);
    assert_eq!(pair.a.linux_out().len(), 100);
}

/// A narrow path that is learnt makes plans void, and no packet is lost but those that do not fit.
#[test]
fn ipv6_below_the_least_mtu_is_cut_after_encryption() {
    let spec = Spec { outer_v6: true, ..Spec::default() };
    let mut pair = Pair::new(&spec);
    learn(&pair.a, Side::B.wan(true), 1300);
    for len in [1200, 1280] {
        let packet = forth(true).sized(len, 1);
        pair.a.put_lan(&packet);
        pair.a.run();
        let carried = pair.carry(Side::A);
        assert!(carried.iter().all(|p| p.len() <= 1300));
        assert_eq!(carried.len(), if len == 1280 { 2 } else { 1 });
        // The peer puts them together.
        assert_eq!(pair.b.lan_out(), [crate::packets::hopped(&packet, 2)]);
    }
}

/// A TCP segment with these flags, that announces 1460 bytes if it opens a connection.
fn segment(from: Ip, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut tcp = vec![0x10, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, flags, 0xff, 0xff, 0, 0, 0, 0];
    tcp.extend(if flags & flag::SYN != 0 { [2, 4, 0x05, 0xb4] } else { [1; 4] });
    tcp.extend(payload);
    let mut packet = Ip { protocol: protocol::TCP, ..from }.with(&tcp);
    let h = parse_ip(&packet).expect("packet");
    assert!(wire::fill_l4_checksum(&mut packet, &h));
    packet
}

fn mss(packet: &[u8]) -> Option<u16> {
    let h = parse_ip(packet).expect("packet");
    assert_eq!(wire::verify_l4_checksum(packet, &h), L4Checksum::Valid);
    TcpHeader::parse(&packet[h.header_len.into()..]).expect("tcp").mss()
}

fn clamp(gateway: &Gateway) {
    let old = gateway.tables.topology.load_full();
    let (fib, interfaces, local) = (old.fib.clone(), old.interfaces.clone(), old.local.clone());
    let topology = Topology { clamps_mss: true, fib, interfaces, local, ..Topology::default() };
    gateway.tables.topology.store(Arc::new(topology));
}

/// On the way in and on the way out, also where the flow has a plan; nothing but SYNs is touched.
#[test]
fn connections_are_told_what_fits() {
    for v6 in [false, true] {
        let spec = Spec::default();
        let mut pair = Pair::new(&spec);
        let ip = Ip { dont_fragment: true, ..forth(v6) };
        let through = |pair: &mut Pair, flags| {
            let packet = segment(ip, flags, b"data");
            pair.a.put_lan(&packet);
            pair.a.run();
            pair.carry(Side::A);
            (packet, pair.b.lan_out().remove(0))
        };
        let (_, arrived) = through(&mut pair, flag::SYN);
        assert_eq!(mss(&arrived), Some(1460), "off unless asked for");

        let headers = if v6 { 60 } else { 40 };
        clamp(&pair.a);
        let limit = pair.a.sa(Side::A, &spec).esp.max_inner_len(1500) - headers;
        for _ in 0..3 {
            let (_, arrived) = through(&mut pair, flag::SYN);
            assert_eq!(mss(&arrived), Some(limit as u16));
            let (sent, arrived) = through(&mut pair, flag::ACK);
            assert_eq!(arrived, crate::packets::hopped(&sent, 2));
        }
        assert_eq!(pair.a.counters.work.mss_clamped.value(), 3);
        assert!(pair.a.counters.work.flow_hits.value() >= 3, "segments go by their plan");

        // What comes out of a tunnel, by the path back: that of the other gateway is narrower.
        pair.b.set_topology(1300, Vec::new());
        clamp(&pair.b);
        let narrow = pair.b.sa(Side::B, &spec).esp.max_inner_len(1300) - headers;
        for _ in 0..3 {
            let (_, arrived) = through(&mut pair, flag::SYN | flag::ACK);
            assert_eq!(mss(&arrived), Some(narrow as u16));
            through(&mut pair, flag::ACK);
        }
        assert_eq!(pair.b.counters.work.mss_clamped.value(), 3);
        assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
    }
}
