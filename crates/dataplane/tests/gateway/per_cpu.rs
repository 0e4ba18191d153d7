//! SAs of each worker's own (RFC 9611): which one a packet leaves by, and when owners are asked.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use dataplane::Event;
use esp::Sa;
use io::HEADROOM;
use policy::{Direction, PolicyConfig, PolicyFlags, SaConfig, SaEntry, SaState, Selector};
use proptest::prelude::*;

use crate::packets::Ip;
use crate::support::{
    Gateway, LAN, SIZES, Side, Spec, ethernet, make_sa, policy, sa_config, template,
};

const SECOND_NS: u64 = 1_000_000_000;

/// SPI of the SA for all.
const FOR_ALL: u32 = 0x2000;

fn spi(cpu: Option<u32>) -> u32 {
    cpu.map_or(FOR_ALL, |cpu| FOR_ALL + 1 + cpu)
}

fn out_policy(per_cpu: bool) -> PolicyConfig {
    let out = Selector::between(Side::A.net(false), Side::B.net(false));
    let config = policy(11, Direction::Out, out, vec![template(&Spec::default(), Side::A)]);
    PolicyConfig { flags: PolicyFlags { per_cpu, ..PolicyFlags::default() }, ..config }
}

/// Gateway A with a policy for its packets, and no SA.
fn gateway(workers: usize, per_cpu: bool) -> Gateway {
    let mut gateway = Gateway::with_workers(Side::A, SIZES, 1024, workers);
    gateway.db.put_policy(out_policy(per_cpu));
    gateway
}

fn config(cpu: Option<u32>) -> SaConfig {
    let mut config = sa_config(&Spec::default(), Side::A);
    config.params.spi = spi(cpu);
    SaConfig { cpu, ..config }
}

fn add_sa(gateway: &mut Gateway, cpu: Option<u32>) {
    let config = config(cpu);
    let sa = make_sa(&config.params);
    gateway.db.add_sa(config, sa).expect("new");
}

fn sa(gateway: &Gateway, cpu: Option<u32>) -> Arc<SaEntry<Sa>> {
    gateway.db.sa(&config(cpu).id()).expect("there")
}

/// A host's packet of one of many flows, received by this very worker.
fn put(gateway: &mut Gateway, worker: usize, flow: u16) {
    let header = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    let packet = header.udp(1000 + flow, 2000, &[7; 40]);
    let frame = ethernet(Side::A.mac(LAN), Side::A.host_mac(10), &packet);
    let queue = match worker.checked_sub(1) {
        None => gateway.lan.clone(),
        Some(other) => gateway.others[other].ports[0].clone(),
    };
    gateway.put_into(&queue, &frame, HEADROOM);
}

/// Sends packets of flows of each worker, and tells the SPIs by which those of each leave.
fn spis_of(gateway: &mut Gateway, workers: usize) -> Vec<Vec<u32>> {
    let spis = |gateway: &mut Gateway, worker: usize| {
        for flow in 0..8 {
            put(gateway, worker, 100 * worker as u16 + flow % 4);
        }
        gateway.run();
        let carried = gateway.wan_out();
        assert_eq!(carried.len(), 8, "worker {worker}");
        let mut spis: Vec<u32> =
            carried.iter().map(|p| u32::from_be_bytes(p[20..24].try_into().unwrap())).collect();
        spis.dedup();
        spis
    };
    (0..workers).map(|worker| spis(gateway, worker)).collect()
}

/// The CPUs for which owners are asked, in order.
fn asked(gateway: &mut Gateway) -> Vec<Option<u32>> {
    let cpu = |event| match event {
        Event::Acquire { policy: 11, cpu, .. } => cpu,
        other => panic!("{other:?}"),
    };
    gateway.events().into_iter().map(cpu).collect()
}

#[test]
fn each_worker_s_packets_leave_by_its_own_sa_as_soon_as_it_is_there() {
    let mut a = gateway(3, true);
    add_sa(&mut a, None);
    assert_eq!(spis_of(&mut a, 3), vec![vec![FOR_ALL]; 3]);
    assert_eq!(asked(&mut a), [Some(0), Some(1), Some(2)], "each once");
    // Flows that have a plan change over; the others, whose packets worker 0 seals, do not.
    add_sa(&mut a, Some(1));
    assert_eq!(spis_of(&mut a, 3), [[FOR_ALL], [spi(Some(1))], [FOR_ALL]]);
    add_sa(&mut a, Some(0));
    assert_eq!(sa(&a, None).home().at(), 0, "the first that met it");
    assert_eq!(spis_of(&mut a, 3), [[spi(Some(0))], [spi(Some(1))], [FOR_ALL]]);
    add_sa(&mut a, Some(2));
    let handed = |a: &Gateway| a.all_counters().map(|c| c.totals().handed_over).sum::<u64>();
    let before = handed(&a);
    assert_eq!(spis_of(&mut a, 3), [0, 1, 2].map(|cpu| vec![spi(Some(cpu))]));
    assert_eq!(handed(&a), before, "nothing is handed over any more");
    for cpu in 0..3 {
        let own = sa(&a, Some(cpu));
        assert_eq!(own.home().at(), cpu as usize);
        assert_eq!(own.esp.live().sent().load(Relaxed), own.esp.live().packets().load(Relaxed));
    }
    let packets = |cpu| sa(&a, cpu).esp.live().packets().load(Relaxed);
    let carried = [None, Some(0), Some(1), Some(2)].map(packets);
    assert_eq!(carried, [24 + 16 + 8, 16, 24, 8]);
    assert_eq!(a.drops(), vec![]);
    // One that goes leaves its worker the one for all.
    a.db.remove_sa(&config(Some(1)).id());
    assert_eq!(spis_of(&mut a, 3), [[spi(Some(0))], [FOR_ALL], [spi(Some(2))]]);
}

/// The sender of a flow may be moved to another CPU, and with it the flow to another worker.
#[test]
fn a_flow_that_comes_by_another_worker_takes_that_one_s_sa() {
    let mut a = gateway(2, true);
    add_sa(&mut a, None);
    let spi_by = |a: &mut Gateway, worker: usize| {
        put(a, worker, 1);
        a.run();
        let carried = a.wan_out();
        assert_eq!(carried.len(), 1);
        u32::from_be_bytes(carried[0][20..24].try_into().unwrap())
    };
    // Worker 1 is the home of the one for all.
    assert_eq!(spi_by(&mut a, 1), FOR_ALL);
    add_sa(&mut a, Some(1));
    for _ in 0..3 {
        assert_eq!(spi_by(&mut a, 1), spi(Some(1)));
        assert_eq!(spi_by(&mut a, 0), FOR_ALL);
    }
    assert_eq!(sa(&a, None).home().at(), 1);
    add_sa(&mut a, Some(0));
    for _ in 0..2 {
        assert_eq!([1, 0].map(|worker| spi_by(&mut a, worker)), [1, 0].map(|cpu| spi(Some(cpu))));
    }
    assert_eq!(a.drops(), vec![]);
}

#[test]
fn without_the_flag_nobody_is_asked() {
    let mut a = gateway(2, false);
    add_sa(&mut a, None);
    add_sa(&mut a, Some(1));
    assert_eq!(spis_of(&mut a, 2), [[FOR_ALL], [spi(Some(1))]]);
    assert_eq!(asked(&mut a), []);
}

#[test]
fn an_sa_of_another_cpu_is_none() {
    let mut a = gateway(2, true);
    add_sa(&mut a, Some(1));
    add_sa(&mut a, Some(40));
    put(&mut a, 0, 1);
    put(&mut a, 1, 2);
    a.run();
    assert_eq!(a.wan_out().len(), 1);
    // Linux asks for one that is for all first, too.
    assert_eq!(asked(&mut a), [None]);
    add_sa(&mut a, None);
    a.run();
    assert_eq!(a.wan_out().len(), 1, "what waited");
    assert_eq!(asked(&mut a), [Some(0)]);
}

#[test]
fn owners_are_left_in_peace_for_a_second() {
    let mut a = gateway(1, true);
    add_sa(&mut a, None);
    for flow in 0..50 {
        put(&mut a, 0, flow);
        a.run();
    }
    assert_eq!(asked(&mut a), [Some(0)]);
    a.pass_ns(SECOND_NS);
    // Flows with a plan ask no more, until the owner's time to answer is over.
    put(&mut a, 0, 1);
    a.run();
    assert_eq!(asked(&mut a), []);
    a.db.ask_again(11);
    put(&mut a, 0, 1);
    a.run();
    assert_eq!(asked(&mut a), [Some(0)]);
    a.pass_ns(SECOND_NS);
    // A new one does.
    put(&mut a, 0, 77);
    a.run();
    assert_eq!(asked(&mut a), [Some(0)]);
    assert_eq!(a.wan_out().len(), 53);
}

/// Other workers, other homes: each still has its own.
#[test]
fn another_set_of_workers_finds_its_own() {
    let mut a = gateway(2, true);
    for cpu in [None, Some(0), Some(1), Some(2)] {
        add_sa(&mut a, cpu);
    }
    assert_eq!(spis_of(&mut a, 2), [[spi(Some(0))], [spi(Some(1))]]);
    a.set_workers(3);
    assert_eq!(spis_of(&mut a, 3), [0, 1, 2].map(|cpu| vec![spi(Some(cpu))]));
    a.set_workers(1);
    assert_eq!(spis_of(&mut a, 1), [[spi(Some(0))]]);
}

/// A dying one of the worker's own is preferred to the one for all: its owner replaces it.
#[test]
fn a_dying_own_one_is_used_until_it_expires() {
    let mut a = gateway(1, true);
    add_sa(&mut a, None);
    add_sa(&mut a, Some(0));
    sa(&a, Some(0)).advance(SaState::Dying);
    assert_eq!(spis_of(&mut a, 1), [[spi(Some(0))]]);
    sa(&a, Some(0)).advance(SaState::Expired);
    assert_eq!(spis_of(&mut a, 1), [[FOR_ALL]]);
    assert_eq!(asked(&mut a), [Some(0)]);
}

/// Something that happens to a gateway of one worker.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A packet of this flow.
    Packet(u16),
    /// An SA comes, or goes if it is there.
    Toggle(Option<u32>),
    Dying(Option<u32>),
    Flag(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let cpu = prop::sample::select(vec![None, Some(0), Some(1)]);
    prop_oneof![
        8 => (0_u16..4).prop_map(Step::Packet),
        3 => cpu.clone().prop_map(Step::Toggle),
        1 => cpu.prop_map(Step::Dying),
        1 => any::<bool>().prop_map(Step::Flag),
    ]
}

proptest! {
    /// Plans decide as somebody does who asks about each packet.
    #[test]
    fn plans_decide_as_fresh_questions_do(steps in prop::collection::vec(step(), 1..60)) {
        let mut gateways = [gateway(1, true), gateway(1, true)];
        for step in steps {
            let outcomes = gateways.each_mut().map(|g| happen(g, step));
            let [plans, fresh] = &outcomes;
            prop_assert_eq!(plans, fresh);
            gateways[1].worker.forget_flows();
        }
        let counted = gateways.each_ref().map(|g| (g.drops(), g.counters.totals().held));
        prop_assert_eq!(&counted[0], &counted[1]);
    }
}

/// Frames that leave in a step.
fn happen(gateway: &mut Gateway, step: Step) -> Vec<Vec<u8>> {
    match step {
        Step::Packet(flow) => put(gateway, 0, flow),
        Step::Toggle(cpu) => {
            if gateway.db.remove_sa(&config(cpu).id()).is_none() {
                add_sa(gateway, cpu);
            }
        }
        Step::Dying(cpu) => {
            if let Some(sa) = gateway.db.sa(&config(cpu).id()) {
                sa.advance(SaState::Dying);
            }
        }
        Step::Flag(per_cpu) => drop(gateway.db.put_policy(out_policy(per_cpu))),
    }
    gateway.run();
    let mut packets = gateway.wan_out();
    packets.sort_unstable();
    packets
}
