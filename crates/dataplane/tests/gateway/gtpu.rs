//! GTP-U that is decrypted goes to the application that has its TEID, and what applications send takes the same road back.

use std::sync::Arc;

use conntrack::Bindings;
use dataplane::gtpu::{Application, Otherwise, Service, Services, Station};
use dataplane::{PortKind, Tables, slots};
use outcome::DropReason;
use wire::MacAddr;
use wire::gtpu::{GtpuFields, Teid, message};

use crate::packets::{Ip, cut};
use crate::support::{Gateway, LAN, LAN_SLOT, Pair, SIZES, Side, Spec, WAN};

/// The address of the applications: one of gateway B's own.
fn forth(v6: bool) -> Ip {
    Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 1))
}

/// A message of so many bytes, of this kind and tunnel.
pub fn gtpu(kind: u8, teid: u32, payload: usize) -> Vec<u8> {
    let fields = GtpuFields { message: kind, payload_len: payload as u16, teid: Teid(teid) };
    let mut bytes = vec![7; 8 + payload];
    fields.emit(&mut bytes).expect("room");
    bytes
}

fn to_port(v6: bool, payload: &[u8]) -> Vec<u8> {
    forth(v6).udp(40000, wire::gtpu::PORT, payload)
}

/// Two applications: one behind the LAN port with 0x1000 to 0x1fff, one behind the WAN port with 0x2000 to 0x2fff.
fn applications() -> Vec<Application> {
    [(LAN, 0x1000), (WAN, 0x2000)]
        .map(|(ifindex, first)| Application {
            ifindex,
            queue: None,
            to: Station::Mac(MacAddr([2, 0, 0, 0, 0, ifindex as u8])),
            teids: first..=first + 0xfff,
            takes_echo: false,
            takes_errors: false,
        })
        .to_vec()
}

fn serve(gateway: &Gateway, change: impl Fn(&mut Service)) {
    let services = [false, true].map(|v6| {
        let mut service = Service {
            address: Side::B.lan(v6, 1),
            applications: applications(),
            malformed: Otherwise::Drop,
            unknown: Otherwise::Linux,
        };
        change(&mut service);
        service
    });
    gateway.set_topology_but(vec![], |topology| topology.gtpu = Services::new(services.to_vec()));
}

fn pair(change: impl Fn(&mut Service)) -> Pair {
    let pair = Pair::new(&Spec::default());
    serve(&pair.b, change);
    pair
}

/// Gives a gateway two applications behind its LAN port, at each of its addresses: 0x10 to 0x1f by a station's address, 0x20 to 0x2f by
/// the first queue, to a neighbour.
pub fn serve_two(gateway: &mut Gateway) {
    let side = gateway.side;
    let addresses = [false, true].map(|v6| [(v6, side.lan(v6, 1)), (v6, side.wan(v6))]);
    let service = |(v6, address)| Service {
        address,
        applications: vec![
            Application {
                ifindex: LAN,
                queue: None,
                to: Station::Mac(side.host_mac(10)),
                teids: 0x10..=0x1f,
                takes_echo: true,
                takes_errors: false,
            },
            Application {
                ifindex: LAN,
                queue: Some(0),
                to: Station::Neighbour(side.lan(v6, 11)),
                teids: 0x20..=0x2f,
                takes_echo: false,
                takes_errors: true,
            },
        ],
        malformed: Otherwise::Drop,
        unknown: Otherwise::Linux,
    };
    gateway.gtpu = Services::new(addresses.into_iter().flatten().map(service).collect());
    gateway.set_topology(1500, vec![]);
}

/// Has gateway A seal packets and B work on them.
fn carry(pair: &mut Pair, packets: &[Vec<u8>]) {
    packets.iter().for_each(|packet| pair.a.put_lan(packet));
    pair.a.run();
    pair.carry(Side::A);
}

/// A packet that a router has forwarded once, as gateway B gets it.
fn arrived(packet: &[u8]) -> Vec<u8> {
    crate::packets::hopped(packet, 1)
}

/// Makes gateway B drop a message for this reason.
pub fn produce(reason: DropReason) -> Gateway {
    let mut pair = pair(|service| service.unknown = Otherwise::Drop);
    let packets = match reason {
        DropReason::GtpuMalformed => vec![to_port(false, &gtpu(message::G_PDU, 0x1000, 20)[..27])],
        DropReason::GtpuTeid => vec![to_port(false, &gtpu(message::G_PDU, 0x3000, 20))],
        // It comes through the tunnel in fragments.
        _ => cut(&to_port(false, &gtpu(message::G_PDU, 0x1000, 1600)), 1000, 9),
    };
    carry(&mut pair, &packets);
    pair.b
}

#[test]
fn a_message_goes_to_the_application_that_has_its_teid() {
    let mut pair = pair(|_| {});
    for v6 in [false, true] {
        let of = |teid| to_port(v6, &gtpu(message::G_PDU, teid, 100));
        let end = to_port(v6, &gtpu(message::END_MARKER, 0x1fff, 0));
        carry(&mut pair, &[of(0x1000), of(0x2000), of(0x1001), of(0x3000), end.clone()]);
        assert_eq!(pair.b.lan_out(), [of(0x1000), of(0x1001), end].map(|p| arrived(&p)));
        assert_eq!(pair.b.wan_out(), [arrived(&of(0x2000))]);
        assert_eq!(pair.b.linux_out(), [arrived(&of(0x3000))]);
    }
    let counted = &pair.b.counters.gtpu;
    assert_eq!((counted.data.value(), counted.end_markers.value()), (8, 2));
    assert_eq!(counted.unknown.value(), 2);
    // To the flow cache all tunnels between two nodes are one flow, which has a plan by now.
    let before = pair.b.counters.work.flow_misses.value();
    for teid in [0x1002, 0x2003, 0x3004] {
        carry(&mut pair, &[to_port(false, &gtpu(message::G_PDU, teid, 100))]);
    }
    assert_eq!(pair.b.counters.work.flow_misses.value(), before);
    assert_eq!(
        [pair.b.lan_out(), pair.b.wan_out(), pair.b.linux_out()].map(|out| out.len()),
        [1; 3]
    );
    assert!(pair.b.drops().is_empty());
}

#[test]
fn other_packets_and_other_ports_are_linuxs() {
    let mut pair = pair(|_| {});
    let other = forth(false).udp(40000, 2153, &gtpu(message::G_PDU, 0x1000, 100));
    let elsewhere = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    let through = elsewhere.udp(40000, wire::gtpu::PORT, &gtpu(message::G_PDU, 0x1000, 100));
    carry(&mut pair, &[other.clone(), through.clone()]);
    assert_eq!(pair.b.linux_out(), [arrived(&other)]);
    assert_eq!(pair.b.lan_out(), [crate::packets::hopped(&through, 2)], "it is forwarded");
    assert_eq!(pair.b.counters.gtpu.iter().map(|(_, n)| n).sum::<u64>(), 0);
}

#[test]
fn what_is_of_no_tunnel_goes_where_it_is_wanted() {
    let messages = [
        message::ECHO_REQUEST,
        message::ECHO_RESPONSE,
        message::SUPPORTED_EXTENSION_HEADERS,
        message::ERROR_INDICATION,
    ]
    .map(|kind| to_port(false, &gtpu(kind, 0, 4)));
    let expected = messages.clone().map(|packet| arrived(&packet));
    let mut linuxs = pair(|_| {});
    carry(&mut linuxs, &messages);
    assert_eq!(linuxs.b.linux_out(), expected);
    let mut both = pair(|service| {
        service.applications[0].takes_errors = true;
        service.applications[1].takes_echo = true;
    });
    carry(&mut both, &messages);
    assert_eq!(both.b.lan_out(), expected[3..]);
    assert_eq!(both.b.wan_out(), expected[..3]);
    let counted = &both.b.counters.gtpu;
    assert_eq!((counted.path.value(), counted.errors.value(), counted.unknown.value()), (3, 1, 0));
}

#[test]
fn malformed_messages_are_counted_by_what_is_wrong() {
    let good = gtpu(message::G_PDU, 0x1000, 20);
    let flagged = |flags: u8| [&[flags], &good[1..]].concat();
    let bad = [
        (good[..7].to_vec(), "malformed-short"),
        (flagged(0x50), "malformed-version"),
        (flagged(0x20), "malformed-protocol-type"),
        (good[..27].to_vec(), "malformed-length"),
        (flagged(0x34), "malformed-extension"),
    ];
    for otherwise in [Otherwise::Drop, Otherwise::Linux] {
        let mut pair = pair(|service| service.malformed = otherwise);
        let packets = bad.clone().map(|(payload, _)| to_port(false, &payload));
        carry(&mut pair, &packets);
        for (name, n) in pair.b.counters.gtpu.iter() {
            assert_eq!(n, u64::from(bad.iter().any(|(_, of)| *of == name)), "{name}");
        }
        match otherwise {
            Otherwise::Drop => assert_eq!(pair.b.drops(), [(DropReason::GtpuMalformed, 5)]),
            Otherwise::Linux => assert_eq!(pair.b.linux_out(), packets.map(|p| arrived(&p))),
        }
        assert!(pair.b.lan_out().is_empty());
    }
}

#[test]
fn fragments_are_put_together_first() {
    let mut pair = pair(|_| {});
    for v6 in [false, true] {
        let packet = to_port(v6, &gtpu(message::G_PDU, 0x1005, 1300));
        carry(&mut pair, &cut(&packet, 600, 3));
        let came = pair.b.lan_out();
        assert_eq!(came.len(), 1);
        // The header of fragments may say other things of no weight.
        assert_eq!(came[0][came[0].len() - 1300..], packet[packet.len() - 1300..]);
    }
    // Of other UDP each is given on as it is.
    let other = forth(false).udp(40000, 53, &[1; 1300]);
    let pieces = cut(&other, 600, 4);
    carry(&mut pair, &pieces);
    assert_eq!(pair.b.linux_out().len(), pieces.len());
}

#[test]
fn an_application_sends_from_the_gateways_own_address() {
    // Where Linux translates what is forwarded, this is not.
    for (is_served, has_nat) in [(true, false), (true, true), (false, false)] {
        let mut pair = Pair::new(&Spec::default());
        if has_nat {
            let nat = Arc::new(Bindings::default());
            nat.set_asks([true; 2]);
            pair.b = Gateway::with_tables(Side::B, Tables { nat: Some(nat), ..Tables::default() });
            pair.b.protect(&Spec::default());
        }
        if is_served {
            serve(&pair.b, |_| {});
        }
        let back = Ip::new(Side::B.lan(false, 1), Side::A.lan(false, 10));
        let packet = back.udp(2152, 2152, &gtpu(message::G_PDU, 9, 50));
        pair.b.put_lan(&packet);
        pair.b.run();
        match is_served {
            true => {
                assert_eq!(pair.carry(Side::B).len(), 1);
                assert_eq!(pair.a.lan_out(), [crate::packets::hopped(&packet, 2)]);
            }
            false => assert_eq!(pair.b.drops(), [(DropReason::MartianSource, 1)]),
        }
    }
}

#[test]
fn a_queue_is_that_of_the_worker_that_has_it() {
    let mut pair =
        Pair { a: Gateway::new(Side::A), b: Gateway::with_workers(Side::B, SIZES, 256, 2) };
    let spec = Spec::default();
    pair.a.protect(&spec);
    pair.b.protect(&spec);
    serve(&pair.b, |service| {
        service.applications[0].queue = Some(1);
        service.applications[1].queue = Some(0);
    });
    let of = |teid| to_port(false, &gtpu(message::G_PDU, teid, 100));
    carry(&mut pair, &[of(0x1000), of(0x1001), of(0x2000)]);
    let queue = pair.b.others[0].ports[0].clone();
    assert_eq!(pair.b.take(&queue).len(), 2);
    assert_eq!(pair.b.wan_out(), [arrived(&of(0x2000))]);
    let handed: u64 = pair.b.all_counters().map(|counters| counters.handed_over.value()).sum();
    assert!(handed >= 2);
    // The fourth queue is the second one of the second worker.
    let further = io::MemoryHandle::new("lan 3", 64);
    let slot = slots::of_turn(LAN_SLOT, 1).expect("a slot");
    pair.b.others[0].worker.add_port(slot, LAN, further.port(), PortKind::Ethernet);
    pair.b.more.push(further.clone());
    serve(&pair.b, |service| service.applications[0].queue = Some(3));
    carry(&mut pair, &[of(0x1000)]);
    assert_eq!((pair.b.take(&further).len(), pair.b.take(&queue).len()), (1, 0));
}

#[test]
fn a_neighbour_is_looked_for_as_any() {
    let mut pair = pair(|service| {
        let address = Side::B.lan(service.address.is_ipv6(), 10);
        service.applications[0].to = Station::Neighbour(address);
    });
    let packet = to_port(false, &gtpu(message::G_PDU, 0x1000, 100));
    carry(&mut pair, std::slice::from_ref(&packet));
    assert_eq!(pair.b.lan_out(), [arrived(&packet)]);
    // One that does not answer.
    serve(&pair.b, |service| {
        service.applications[0].to = Station::Neighbour(Side::B.lan(false, 99));
    });
    carry(&mut pair, &[packet]);
    assert!(pair.b.lan_out().is_empty());
    assert_eq!(pair.b.counters.totals().held, 1);
}
