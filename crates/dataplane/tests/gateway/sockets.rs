//! A UDP socket in place of ports: where the way to the peer leads by an interface that is Linux's alone.

use std::net::IpAddr;
use std::sync::Arc;

use dataplane::{Interface, SocketWay};
use forward::{NeighbourState, RouteKind, SourceCheck, Subnet, table};
use outcome::DropReason;
use wire::MacAddr;

use crate::packets::Ip;
use crate::support::{Gateway, OTHER, Side, Spec, WAN, route};

/// The socket's index, and the MTU of the interface that Linux sends by.
const SOCKET: u32 = 0x7fff_ff00;
const MTU: u32 = 1400;

/// Gateway A with a socket, bound to an address, in the slot of its port; the peer is behind an interface of Linux's.
fn with_socket(local: IpAddr) -> Gateway {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec { encap: true, ..Spec::default() });
    let peer = Subnet { addr: Side::B.wan(false), len: 32 };
    let other = route(table::MAIN, peer, RouteKind::Unicast, Some(OTHER), None);
    g.set_topology_but(vec![other], |topology| {
        let port = topology.interfaces[&WAN].clone();
        let linuxs = Interface { port: None, mtu: MTU, ..port.clone() };
        let socket = Interface {
            mac: MacAddr::default(),
            mtu: u16::MAX.into(),
            source_check: SourceCheck::Off,
            ..port
        };
        topology.interfaces.extend([(OTHER, linuxs), (SOCKET, socket)]);
        topology.sockets.push(SocketWay { ifindex: SOCKET, local });
    });
    // Whether Linux knows the peer's station is of no matter.
    g.set_neighbours(NeighbourState::Failed);
    let mut neighbours = (**g.tables.neighbours.load()).clone();
    neighbours.address_nobody_from(SOCKET);
    g.tables.neighbours.store(Arc::new(neighbours));
    g
}

fn a_to_b() -> Ip {
    Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10))
}

#[test]
fn protected_packets_leave_by_it_and_no_station_is_asked_for() {
    for local in [[0, 0, 0, 0].into(), Side::A.wan(false)] {
        let mut g = with_socket(local);
        for n in 0..3 {
            g.put_lan(&a_to_b().sized(100, n));
            g.run();
        }
        let port = g.wan.clone();
        let frames = g.take(&port);
        assert_eq!(frames.len(), 3);
        for frame in frames {
            assert_eq!(frame[..14], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
            let h = wire::parse_ip(&frame[14..]).expect("an IP packet");
            assert_eq!((h.dst, h.dst_port), (Side::B.wan(false), 4500));
        }
        assert_eq!(g.drops(), []);
    }
}

#[test]
fn what_linux_would_not_get_out_in_one_piece_is_too_big() {
    let mut g = with_socket([0, 0, 0, 0].into());
    let packet = Ip { dont_fragment: true, ..a_to_b() };
    g.put_lan(&packet.sized(MTU as usize - 20, 1));
    g.run();
    assert_eq!(g.drops(), [(DropReason::OutTooBig, 1)]);
    assert!(g.wan_out().is_empty());
}

#[test]
fn a_socket_of_another_address_or_family_is_not_used() {
    for local in [[192, 0, 2, 99].into(), Side::A.wan(true), [0_u16; 8].into()] {
        let mut g = with_socket(local);
        g.put_lan(&a_to_b().sized(100, 1));
        g.run();
        assert_eq!(g.drops(), [(DropReason::EgressNotPort, 1)], "{local}");
    }
}

#[test]
fn cleartext_stays_with_linux() {
    let mut g = with_socket([0, 0, 0, 0].into());
    let elsewhere = [198, 51, 100, 7].into();
    g.put_linux(&Ip::new(Side::A.lan(false, 10), elsewhere).sized(100, 1));
    g.run();
    assert!(g.wan_out().is_empty(), "nothing leaves in clear by the socket");
}
