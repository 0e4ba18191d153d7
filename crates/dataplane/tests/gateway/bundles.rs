//! Plans of flows that several SAs protect: they do what a fresh decision does, and are not followed when that
//! would be another.

use outcome::DropReason;
use policy::{SaConfig, SaState};

use crate::nested::{
    AH_TRANSPORT, COMP_TUNNEL, ESP_TRANSPORT, ESP_TUNNEL, Layer, config, id, pair,
};
use crate::packets::{Ip, hopped};
use crate::support::{Gateway, Pair, Side, make_sa};

const LAYERS: [Layer; 2] = [ESP_TUNNEL, AH_TRANSPORT];

fn flow() -> Ip {
    Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10))
}

/// Packets of the flow that went by a plan, and that did not, through gateway A.
fn cached(gateway: &Gateway) -> (u64, u64) {
    let work = &gateway.counters.work;
    (work.flow_hits.value(), work.flow_misses.value())
}

/// Sends one packet; returns what came out behind B, and whether A had a plan for it.
fn send(pair: &mut Pair, packet: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let (hits, misses) = cached(&pair.a);
    pair.a.put_lan(packet);
    pair.a.run();
    pair.carry(Side::A);
    let (more_hits, more_misses) = cached(&pair.a);
    let had_plan = more_hits > hits;
    assert_eq!(more_hits + more_misses - hits - misses, 1, "each packet counts once");
    (pair.b.lan_out(), had_plan)
}

#[test]
fn packets_after_the_first_go_by_the_plan() {
    let stacks: [&[Layer]; 3] =
        [&LAYERS, &[COMP_TUNNEL, ESP_TRANSPORT], &[ESP_TUNNEL, ESP_TRANSPORT, AH_TRANSPORT]];
    for layers in stacks {
        for v6 in [false, true] {
            let mut pair = pair(layers, v6);
            for n in 0..20 {
                let packet = flow().sized(60 + 20 * usize::from(n), n);
                let (arrived, had_plan) = send(&mut pair, &packet);
                assert_eq!(arrived, [hopped(&packet, 2)], "{layers:?}");
                assert_eq!(had_plan, n > 0, "{layers:?} {n}");
            }
            assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
        }
    }
}

#[test]
fn transport_mode_goes_by_the_plan_too() {
    let layers = [ESP_TRANSPORT, AH_TRANSPORT];
    let mut pair = pair(&layers, false);
    let flow = Ip::new(Side::A.wan(false), Side::B.wan(false));
    for n in 0..10 {
        let packet = flow.sized(100, n);
        pair.a.put_linux(&packet);
        pair.a.run();
        pair.carry(Side::A);
        assert_eq!(pair.b.linux_out(), [packet]);
    }
    assert_eq!(cached(&pair.a), (9, 1));
}

#[test]
fn a_packet_that_needs_more_is_resolved() {
    let mut pair = pair(&LAYERS, false);
    let small = flow().sized(100, 1);
    send(&mut pair, &small);
    assert!(send(&mut pair, &small).1);
    // Its TTL ends here.
    let (arrived, had_plan) = send(&mut pair, &Ip { ttl: 1, ..flow() }.sized(100, 1));
    assert_eq!((arrived.len(), had_plan), (0, false));
    assert_eq!(pair.a.lan_out().len(), 1, "time exceeded");
    // It is too long, and may be cut; or not.
    let (arrived, had_plan) = send(&mut pair, &flow().sized(1500, 2));
    assert_eq!((arrived.len(), had_plan), (2, false), "in two pieces");
    let (arrived, had_plan) = send(&mut pair, &Ip { dont_fragment: true, ..flow() }.sized(1500, 2));
    assert_eq!((arrived.len(), had_plan), (0, false));
    assert_eq!(pair.a.lan_out().len(), 1, "fragmentation needed");
    assert!(send(&mut pair, &small).1, "the plan is still there");
    // A path that is shorter now.
    pair.a.set_topology(1300, Vec::new());
    let long = flow().sized(1300, 3);
    assert_eq!(send(&mut pair, &long).0.len(), 2);
    let drops = [(DropReason::OutTooBig, 1), (DropReason::TtlExceeded, 1)];
    assert!(drops.iter().all(|drop| pair.a.drops().contains(drop)), "{:?}", pair.a.drops());
}

#[test]
fn an_sa_that_changes_voids_the_plan() {
    for (n, layer) in LAYERS.into_iter().enumerate() {
        let mut pair = pair(&LAYERS, false);
        let packet = flow().sized(100, 1);
        send(&mut pair, &packet);
        assert!(send(&mut pair, &packet).1);
        // A younger one: it is used from now on, whichever layer it is of.
        let old = config(layer, Side::A, n, false);
        let params = esp::SaParams { spi: old.params.spi + 0x1000, ..old.params.clone() };
        let younger = SaConfig { params, generation: 2, added_s: 2, ..old };
        for gateway in [&mut pair.a, &mut pair.b] {
            let sa = make_sa(&younger.params);
            gateway.db.add_sa(younger.clone(), sa).expect("new");
        }
        let before = pair.a.db.sa(&id(layer, Side::A, n, false)).expect("sa");
        let sent = || before.esp.live().sent().load(core::sync::atomic::Ordering::Relaxed);
        let last = sent();
        let (arrived, had_plan) = send(&mut pair, &packet);
        assert_eq!((arrived.len(), had_plan, sent()), (1, false, last), "layer {n}");
        assert!(send(&mut pair, &packet).1);
        // That one dies: the older is better.
        let young = pair.a.db.sa(&younger.id()).expect("sa");
        assert!(young.advance(SaState::Dying));
        let (arrived, had_plan) = send(&mut pair, &packet);
        assert_eq!((arrived.len(), had_plan, sent()), (1, false, last + 1), "layer {n}");
        // Both go: the packet waits.
        pair.a.db.remove_sa(&younger.id());
        pair.a.db.remove_sa(&before.config.id());
        let (arrived, had_plan) = send(&mut pair, &packet);
        assert_eq!((arrived.len(), had_plan), (0, false), "layer {n}");
        assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
    }
}
