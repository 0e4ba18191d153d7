//! Flows whose plan is kept, case by case: SAs that are replaced, limits, neighbours, more flows than places, order.

use forward::NeighbourState;
use outcome::DropReason;
use policy::{SaId, VolumeLimits};

use crate::packets::Ip;
use crate::support::{Gateway, Side, Spec, WAN, craft_esp_for, esp_text, make_sa, sa_config};

/// Ten packets of a flow to the other network, and what left the WAN port.
fn ten(g: &mut Gateway) -> Vec<Vec<u8>> {
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    for n in 0..10 {
        g.put_lan(&flow.sized(100, n));
    }
    g.run();
    g.wan_out()
}

#[test]
fn a_rekeyed_sa_takes_over_in_the_middle_of_a_flow() {
    let spec = Spec::default();
    let mut g = Gateway::new(Side::A);
    g.protect(&spec);
    assert_eq!(ten(&mut g).len(), 10);
    let mut config = sa_config(&spec, Side::A);
    config.params.spi = 0x9999;
    config.generation = 2;
    let sa = make_sa(&config.params);
    g.db.add_sa(config, sa).unwrap();
    let after = ten(&mut g);
    assert_eq!(after.len(), 10);
    assert!(after.iter().all(|p| p[20..24] == 0x9999_u32.to_be_bytes()), "the younger SA");
    // And back, when that one is deleted.
    let id = SaId { spi: 0x9999, ..sa_config(&spec, Side::A).id() };
    assert!(g.db.remove_sa(&id).is_some());
    let back = ten(&mut g);
    assert!(back.iter().all(|p| p[20..24] == Side::A.spi().to_be_bytes()));
}

/// A packet from the peer to a host of ours by the SA with this SPI.
fn from_peer(g: &mut Gateway, spi: u32, number: u32) -> usize {
    let inner = Ip::new(Side::B.lan(false, 10), Side::A.lan(false, 10)).sized(100, 1);
    g.put_wan(&craft_esp_for(spi, Side::B, number, &esp_text(&inner, 4), 0));
    g.run();
    g.lan_out().len()
}

#[test]
fn an_inbound_sa_that_is_replaced_is_found_anew() {
    let spec = Spec::default();
    let mut g = Gateway::new(Side::A);
    g.protect(&spec);
    let config = sa_config(&spec, Side::B);
    let spi = config.params.spi;
    assert_eq!((from_peer(&mut g, spi, 1), from_peer(&mut g, spi, 2)), (1, 1));
    assert!(g.db.remove_sa(&config.id()).is_some());
    assert_eq!((from_peer(&mut g, spi, 3), g.dropped(DropReason::InNoState)), (0, 1));
    // Another one of the same name: its replay window is empty.
    let sa = make_sa(&config.params);
    g.db.add_sa(config, sa).unwrap();
    assert_eq!((from_peer(&mut g, spi, 1), g.dropped(DropReason::InNoState)), (1, 1));
    assert_eq!((from_peer(&mut g, spi, 1), g.dropped(DropReason::InReplayDuplicate)), (0, 1));
}

/// SPIs whose low bits are the same are told apart, packet by packet, with SAs and without.
#[test]
fn inbound_sas_do_not_stand_for_one_another() {
    let spec = Spec::default();
    let mut g = Gateway::new(Side::A);
    g.protect(&spec);
    let first = sa_config(&spec, Side::B);
    let mut second = sa_config(&spec, Side::B);
    second.params.spi += 1 << 12;
    let (one, two) = (first.params.spi, second.params.spi);
    let sa = make_sa(&second.params);
    g.db.add_sa(second, sa).unwrap();
    for number in 1..4 {
        assert_eq!((from_peer(&mut g, one, number), from_peer(&mut g, two, number)), (1, 1));
        assert_eq!(from_peer(&mut g, two + (1 << 12), number), 0);
    }
    assert_eq!(g.drops(), [(DropReason::InNoState, 3)]);
}

#[test]
fn a_limit_of_packets_is_exact_in_a_known_flow() {
    let limits = VolumeLimits { hard_packets: 14, ..VolumeLimits::NONE };
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec { limits, ..Spec::default() });
    assert_eq!(ten(&mut g).len(), 10);
    assert_eq!(ten(&mut g).len(), 4);
    // The one that found the limit; the others wait for another SA.
    assert_eq!((g.dropped(DropReason::OutStateExpired), g.counters.totals().held), (1, 5));
}

#[test]
fn a_neighbour_s_new_address_is_used_at_once() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    assert_eq!(ten(&mut g).len(), 10);
    let moved = wire::MacAddr([2, 9, 9, 9, 9, 9]);
    g.tables.neighbours.rcu(|old| {
        let mut new = forward::Neighbours::clone(old);
        new.insert(forward::NeighbourEntry {
            ifindex: WAN,
            addr: Side::B.wan(false),
            mac: Some(moved),
            state: NeighbourState::Reachable,
        });
        new
    });
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    g.put_lan(&flow.sized(100, 1));
    g.run();
    let wan = g.wan.clone();
    let frames = g.take(&wan);
    assert_eq!(frames[0][..6], moved.0);
}

/// More flows than are kept, each several times: every one gets where it should.
#[test]
fn more_flows_than_are_kept() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let mut sent = 0_usize;
    for _ in 0..2 {
        for batch in 0..250_u16 {
            for n in 0..100_u16 {
                let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
                g.put_lan(&flow.udp(1 + batch, 1 + n, &n.to_be_bytes()));
            }
            g.run();
            sent += g.wan_out().len();
        }
    }
    assert_eq!((sent, g.drops()), (50_000, vec![]));
}

#[test]
fn order_is_kept_between_known_and_new_flows() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let packet = |port: u16, n: u16| {
        let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        flow.udp(port, 2000, &n.to_be_bytes())
    };
    g.put_lan(&packet(1, 0));
    g.run();
    g.wan_out();
    for n in 0..50_u16 {
        g.put_lan(&packet(if n % 2 == 0 { 1 } else { n }, n));
    }
    g.run();
    let numbers: Vec<u32> =
        g.wan_out().iter().map(|p| u32::from_be_bytes([p[24], p[25], p[26], p[27]])).collect();
    assert_eq!(numbers, (2..52).collect::<Vec<_>>());
}
