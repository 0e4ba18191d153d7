//! Floods of new flows, and those who are known.

use outcome::DropReason;
use wire::parse_ip;

use crate::packets::Ip;
use crate::support::{Gateway, Pair, SIZES, Side, Sizes, Spec};

/// A whole burst.
const BURST: u16 = 64;

const MS: u64 = 1_000_000;

/// Many more than whole bursts that mean nothing.
const FLOWS: usize = 1000;

fn flow(port: u16) -> Vec<u8> {
    Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).udp(port, 9, &[7; 32])
}

fn gateway() -> Gateway {
    // What is dropped stays with the worker.
    let mut gateway =
        Gateway::with_sizes(Side::A, Sizes { chunks: 16_384, stock: 12_000, ..SIZES });
    gateway.protect(&Spec::default());
    gateway
}

/// A burst of which every eighth packet is of the known flow, and the others are each of a flow of its own.
fn put_flood(gateway: &mut Gateway, next: &mut u16) {
    for n in 0..BURST {
        if n % 8 == 7 {
            gateway.put_lan(&flow(1));
            continue;
        }
        *next += 1;
        gateway.put_lan(&flow(*next));
    }
}

/// One round, and a millisecond.
fn round(gateway: &mut Gateway) {
    gateway.worker.round_at(gateway.now);
    gateway.now.ns += MS;
}

pub fn produce() -> Gateway {
    let mut gateway = gateway();
    let mut next = 1;
    for _ in 0..10 {
        put_flood(&mut gateway, &mut next);
        round(&mut gateway);
        gateway.wan_out();
    }
    gateway
}

/// While a port has more than the worker takes, what is known goes on, and a share of what is not.
#[test]
fn known_flows_go_on_in_a_flood_of_new_ones() {
    let mut a = gateway();
    a.put_lan(&flow(1));
    a.run();
    assert_eq!(a.wan_out().len(), 1);
    let (mut next, mut sent) = (1, Vec::new());
    for n in 0..16 {
        put_flood(&mut a, &mut next);
        a.worker.round_at(a.now);
        sent.push(a.wan_out().len());
        // The first whole bursts mean nothing yet.
        a.now.ns += if n < 7 { 0 } else { MS };
    }
    // Eight that are known, and 56 newcomers, then 32, and so on down to one.
    assert_eq!(sent, [64, 64, 64, 64, 64, 64, 64, 64, 40, 24, 16, 12, 10, 9, 9, 9]);
    let refused = 16 * 64 - sent.iter().sum::<usize>() as u64;
    assert_eq!(a.drops(), [(DropReason::NewFlowLimit, refused)]);
    assert_eq!(a.counters.work.flow_hits.value(), 16 * 8, "each packet of the known flow");
    // The port is empty: all that come are taken again.
    a.run();
    put_flood(&mut a, &mut next);
    round(&mut a);
    assert_eq!(a.wan_out().len(), 64);
}

/// A flow that was refused begins with a later packet, and its packets keep their order.
#[test]
fn flows_keep_their_order_in_a_flood() {
    let mut a = gateway();
    let mut b = Pair::new(&Spec::default()).b;
    let mut sent: Vec<Vec<u16>> = vec![Vec::new(); FLOWS];
    for number in 0..200_u16 {
        // Each flow in turn.
        for n in 0..BURST {
            let port = (number * BURST + n) % FLOWS as u16;
            let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
            a.put_lan(&packet.udp(1000 + port, 9, &number.to_be_bytes()));
        }
        round(&mut a);
        a.wan_out().iter().for_each(|packet| b.put_wan(packet));
        b.run();
        for packet in b.lan_out() {
            let h = parse_ip(&packet).expect("IPv4");
            let number = u16::from_be_bytes([packet[28], packet[29]]);
            sent[usize::from(h.src_port - 1000)].push(number);
        }
    }
    assert!(a.dropped(DropReason::NewFlowLimit) > 0);
    assert!(sent.iter().all(|numbers| numbers.is_sorted()), "{sent:?}");
    // Those of the first bursts lose nothing, and the others come in one by one.
    let whole = sent.iter().filter(|numbers| numbers.len() >= 12).count();
    assert!((8 * usize::from(BURST)..FLOWS).contains(&whole), "{whole}");
}

/// Nor do new flows take the places of known ones in the flow cache, however many they are.
#[test]
fn plans_of_known_flows_keep_their_places() {
    let mut a = gateway();
    // So few that no set is full of them.
    let known: Vec<_> = (1..=64).map(flow).collect();
    for _ in 0..2 {
        known.iter().for_each(|packet| a.put_lan(packet));
        a.run();
    }
    let misses = |a: &Gateway| a.counters.work.flow_misses.value();
    let mut next = 1000;
    for _ in 0..20 {
        let before = misses(&a);
        // More than the cache has places, in bursts that are not whole.
        for _ in 0..50 {
            for _ in 0..60 {
                next += 1;
                a.put_lan(&flow(next));
            }
            a.run();
            a.wan_out();
        }
        known.iter().for_each(|packet| a.put_lan(packet));
        a.run();
        assert_eq!(misses(&a) - before, 50 * 60, "the flood's alone");
        a.wan_out();
    }
    assert_eq!(a.drops(), []);
}
