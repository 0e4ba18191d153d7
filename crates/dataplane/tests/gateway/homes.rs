//! SAs one inside the other that have different homes, as when bundles share SAs: each home writes its own
//! SAs, and nothing else changes.

use core::sync::atomic::Ordering::Relaxed;

use outcome::DropReason;
use policy::{Direction, PortMask, SaConfig, SaState, Selector, Template, VolumeLimits};

use crate::nested::{
    AH_TRANSPORT, COMP_TUNNEL, ESP_TRANSPORT, ESP_TUNNEL, Layer, config, id, protect, templates,
};
use crate::packets::Ip;
use crate::support::{Gateway, Side, Sizes, make_sa, policy};

const SIZES: Sizes = Sizes { chunks: 8192, stock: 4096, port_limit: 1024 };

/// A packet of one of many flows, told by its source port; its first bytes number it.
fn packet(flow: u16, number: u16, to: u16) -> Vec<u8> {
    let header = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    header.udp(1000 + flow, to, &[&number.to_be_bytes()[..], &[7; 60]].concat())
}

/// The order within each flow.
fn assert_order(packets: &[Vec<u8>], flows: u16, what: &str) {
    for flow in 0..flows {
        let of = |p: &&Vec<u8>| u16::from_be_bytes([p[20], p[21]]) == 1000 + flow;
        let numbers = packets.iter().filter(of).map(|p| u16::from_be_bytes([p[28], p[29]]));
        assert!(numbers.is_sorted(), "{what}, flow {flow}");
    }
}

/// Packets and bytes that an SA has counted, and its last number.
fn counts(gateway: &Gateway, layer: Layer, n: usize) -> (u64, u64) {
    let sa = gateway.db.sa(&id(layer, Side::A, n, false)).expect("sa");
    let live = sa.esp.live();
    (live.packets().load(Relaxed), live.bytes().load(Relaxed))
}

/// A gateway with four workers whose first SAs, from A, have these homes.
fn with_homes(layers: &[Layer], homes: &[usize]) -> Gateway {
    let mut a = Gateway::with_workers(Side::A, SIZES, 256, 4);
    protect(&mut a, layers, false);
    for (n, (layer, home)) in layers.iter().zip(homes).enumerate() {
        let sa = a.db.sa(&id(*layer, Side::A, n, false)).expect("sa");
        assert_eq!(sa.home().claim(*home), *home);
    }
    a
}

#[test]
fn each_home_seals_with_its_own_sas() {
    let stacks: [&[Layer]; 3] = [
        &[ESP_TUNNEL, AH_TRANSPORT],
        &[ESP_TUNNEL, ESP_TRANSPORT, AH_TRANSPORT],
        &[COMP_TUNNEL, ESP_TRANSPORT, AH_TRANSPORT],
    ];
    for layers in stacks {
        for each in 0..4_usize.pow(layers.len() as u32) {
            let homes: Vec<_> =
                (0..layers.len() as u32).map(|n| each / 4_usize.pow(n) % 4).collect();
            let what = format!("{layers:?} {homes:?}");
            let mut a = with_homes(layers, &homes);
            let mut b = Gateway::with_sizes(Side::B, SIZES);
            protect(&mut b, layers, false);
            for round in 0..3 {
                for n in 0..60 {
                    a.put_lan(&packet(n % 16, round * 60 + n, 2000));
                }
                a.run();
                let carried = a.wan_out();
                assert_eq!(carried.len(), 60, "{what}");
                carried.iter().for_each(|packet| b.put_wan(packet));
                b.run();
                let arrived = b.lan_out();
                assert_eq!(arrived.len(), 60, "{what}");
                assert_order(&arrived, 16, &what);
            }
            assert_eq!((a.drops(), b.drops()), (vec![], vec![]), "{what}");
            for (n, layer) in layers.iter().enumerate() {
                assert_eq!(counts(&a, *layer, n), counts(&b, *layer, n), "{what}");
                assert_eq!(counts(&a, *layer, n).0, 180, "{what}");
            }
            let encrypted: u64 = a.all_counters().map(|c| c.work.encrypted.value()).sum();
            assert_eq!(encrypted, 180, "{what}");
        }
    }
}

/// The first worker gets all of a bundle; an SA that a worker has with another bundle brings the rest there.
#[test]
fn a_bundle_has_one_home_where_it_can() {
    let layers = [ESP_TUNNEL, ESP_TRANSPORT, AH_TRANSPORT];
    let homes = |a: &Gateway| -> Vec<usize> {
        let sa = |(n, layer): (usize, &Layer)| a.db.sa(&id(*layer, Side::A, n, false)).expect("sa");
        layers.iter().enumerate().map(sa).map(|sa| sa.home().at()).collect()
    };
    for claimed in [None, Some((0, 2)), Some((2, 3))] {
        let mut a = with_homes(&layers, &[]);
        if let Some((n, home)) = claimed {
            let sa = a.db.sa(&id(layers[n], Side::A, n, false)).expect("sa");
            assert_eq!(sa.home().claim(home), home);
        }
        for n in 0..100 {
            a.put_lan(&packet(n % 16, n, 2000));
        }
        a.run();
        assert_eq!(a.wan_out().len(), 100);
        let found = homes(&a);
        let expected = claimed.map_or(found[0], |(_, home)| home);
        assert_eq!(found, [expected; 3], "{claimed:?}");
    }
}

/// A limit of an SA that is another worker's is kept there, to the packet.
#[test]
fn a_limit_in_packets_is_exact() {
    let layers = [ESP_TUNNEL, AH_TRANSPORT];
    for limited in [0, 1] {
        let mut a = with_homes(&layers, &[1, 3]);
        let old = config(layers[limited], Side::A, limited, false);
        let limits = VolumeLimits { soft_packets: 150, hard_packets: 333, ..VolumeLimits::NONE };
        let sa = a.db.replace_sa(SaConfig { limits, ..old.clone() }, make_sa(&old.params));
        assert_eq!(sa.home().at(), [1, 3][limited]);
        for n in 0..800 {
            a.put_lan(&packet(n % 64, n, 2000));
        }
        a.run();
        assert_eq!(a.wan_out().len(), 333, "layer {limited}");
        // What came then waits for another SA.
        assert!(a.dropped(DropReason::OutStateExpired) > 0);
        let events: Vec<String> = a.events().iter().map(|event| format!("{event:?}")).collect();
        let told = |hard: &str| events.iter().filter(|event| event.contains(hard)).count();
        assert_eq!((told("hard: false"), told("hard: true")), (1, 1), "{events:?}");
    }
}

/// An SA that goes, or comes to its end, while other homes go on.
#[test]
fn an_sa_of_another_home_may_go() {
    let layers = [ESP_TUNNEL, AH_TRANSPORT];
    let mut a = with_homes(&layers, &[1, 3]);
    let send = |a: &mut Gateway| {
        (0..40).for_each(|n| a.put_lan(&packet(n % 16, n, 2000)));
        a.run();
        a.wan_out().len()
    };
    assert_eq!(send(&mut a), 40);
    let outer = a.db.sa(&id(layers[1], Side::A, 1, false)).expect("sa");
    assert!(outer.advance(SaState::Expired));
    assert_eq!(send(&mut a), 0);
    a.db.remove_sa(&outer.config.id());
    assert_eq!(send(&mut a), 0, "they wait");
    let config = config(layers[1], Side::A, 1, false);
    let sa = make_sa(&config.params);
    let successor = a.db.add_sa(config, sa).expect("new");
    a.run();
    assert!(!a.wan_out().is_empty());
    assert_eq!((send(&mut a), successor.home().at()), (40, 1), "with the inner one");
}

/// The SAs of bundles that share them: two that encrypt, two that authenticate, each with each.
const SHARED: [Layer; 4] = [ESP_TUNNEL, ESP_TUNNEL, AH_TRANSPORT, AH_TRANSPORT];

/// Which of them protect what goes to a port, the innermost first.
const BUNDLES: [(u16, [usize; 2]); 4] =
    [(2000, [0, 2]), (2001, [1, 3]), (2002, [0, 3]), (2003, [1, 2])];

fn share(gateway: &mut Gateway) {
    let (here, there) = (gateway.side, gateway.side.other());
    for (n, (port, bundle)) in (0..).zip(BUNDLES) {
        let of = |from: Side| -> Vec<Template> {
            let all = templates(&SHARED, from, false);
            bundle.iter().map(|n| all[*n]).collect()
        };
        let only = PortMask { value: port, mask: u16::MAX };
        let (src, dst) = (Side::A.net(false), Side::B.net(false));
        let selector = Selector { protocol: 17, dst_port: only, ..Selector::between(src, dst) };
        match here {
            Side::A => gateway.db.put_policy(policy(40 + n, Direction::Out, selector, of(here))),
            Side::B => {
                gateway.db.put_policy(policy(40 + n, Direction::Forward, selector, of(there)))
            }
        };
    }
    for (n, layer) in SHARED.into_iter().enumerate() {
        let config = config(layer, Side::A, n, false);
        let sa = make_sa(&config.params);
        gateway.db.add_sa(config, sa).expect("new");
    }
}

/// Four real threads: bundles that share SAs find homes as they come, in any way there is.
#[test]
fn four_threads_share_sas() {
    let mut have_differed = false;
    for start in 0..6_u16 {
        let mut a = Gateway::with_workers(Side::A, SIZES, 256, 4);
        let mut b = Gateway::with_sizes(Side::B, SIZES);
        share(&mut a);
        share(&mut b);
        for round in 0..4_u16 {
            for n in 0..240_u16 {
                // A flow is always of one bundle; who comes first is not always the same.
                let flow = (n + start) % 24;
                a.put_lan(&packet(flow, round * 240 + n, 2000 + flow % 4));
            }
            a.run_threads(u64::from(round + 1) * 240);
            let carried = a.wan_out();
            assert_eq!(carried.len(), 240, "{:?}", a.drops());
            carried.iter().for_each(|packet| b.put_wan(packet));
            b.run();
            let arrived = b.lan_out();
            assert_eq!(arrived.len(), 240);
            assert_order(&arrived, 24, "threads");
        }
        assert_eq!((a.drops(), b.drops()), (vec![], vec![]));
        for (n, layer) in SHARED.into_iter().enumerate() {
            assert_eq!(counts(&a, layer, n), counts(&b, layer, n));
            let sa = a.db.sa(&id(layer, Side::A, n, false)).expect("sa");
            assert_eq!(counts(&a, layer, n).0, 480);
            assert_eq!(sa.esp.live().sent().load(Relaxed), 480, "no number is lost or used twice");
        }
        let home = |n: usize| a.db.sa(&id(SHARED[n], Side::A, n, false)).expect("sa").home().at();
        have_differed |= BUNDLES.iter().any(|(_, [inner, outer])| home(*inner) != home(*outer));
    }
    assert!(have_differed, "or this shows nothing");
}
