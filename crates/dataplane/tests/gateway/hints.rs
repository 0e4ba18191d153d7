//! Bursts of many SAs, where the flow of an encrypted packet is predicted: a hint may be wrong in every
//! way, and changes nothing of what comes out.
//!
//! Flows change places and are pushed out, the same inner flow comes by several SAs, SAs and policies
//! change in between. The reference forgets its flows before each step, so that what was predicted does
//! not hold there, and takes the slow path.

use core::sync::atomic::Ordering::Relaxed;

use outcome::DropReason;
use policy::{Action, Direction, PolicyConfig, SaConfig, SaId, SaState, Selector};
use proptest::prelude::*;

use crate::packets::Ip;
use crate::pool::pooled;
use crate::support::{
    Gateway, Side, Sizes, Spec, craft_esp_for, esp_text, ip, make_sa, policy, sa_config,
};

/// Enough for a burst to count as spread.
const SAS: usize = 12;

#[derive(Clone, Debug)]
enum Step {
    /// Packets, each of an SA and a flow.
    Burst(Vec<(usize, u16)>),
    /// One SA, many packets: nothing is spread any more.
    Run(usize, u16),
    Rekey(usize),
    Remove(usize),
    Advance(usize, bool),
    Block(u16),
    Unblock(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let sa = 0..SAS;
    // Mostly each SA has a flow of its own.
    let packet =
        (sa.clone(), 0_u16..40).prop_map(|(sa, n)| (sa, if n < 30 { sa as u16 } else { n }));
    let flow = 0_u16..40;
    prop_oneof![
        // Of one burst, or of several that come in one round.
        12 => prop::collection::vec(packet, 20..140).prop_map(Step::Burst),
        1 => (sa.clone(), flow.clone()).prop_map(|(sa, flow)| Step::Run(sa, flow)),
        2 => sa.clone().prop_map(Step::Rekey),
        1 => sa.clone().prop_map(Step::Remove),
        1 => (sa, any::<bool>()).prop_map(|(sa, hard)| Step::Advance(sa, hard)),
        1 => flow.clone().prop_map(Step::Block),
        1 => flow.prop_map(Step::Unblock),
    ]
}

struct Subject {
    gateway: Gateway,
    forgets: bool,
    generation: u64,
    /// The peers' next numbers.
    numbers: [u32; SAS],
}

#[derive(Debug, PartialEq)]
struct Outcome {
    lan: Vec<Vec<u8>>,
    drops: Vec<(DropReason, u64)>,
    policies: Vec<(u32, u64, u64)>,
    sas: Vec<Option<(u64, u64, u64)>>,
}

impl Subject {
    fn new(forgets: bool, flows: usize) -> Subject {
        // Frames of dropped packets do not come back to the stock.
        let sizes = Sizes { chunks: 8192, stock: 6144, port_limit: 256 };
        let mut gateway = Gateway::with_flows(Side::A, sizes, flows);
        gateway.add_policies(&Spec::default());
        let mut subject = Subject { gateway, forgets, generation: 1, numbers: [0; SAS] };
        (0..SAS).for_each(|n| subject.renew(n));
        subject
    }

    fn config(&self, n: usize) -> SaConfig {
        let mut config = sa_config(&Spec::default(), Side::B);
        config.params.spi = 0x2000 + n as u32;
        config.generation = self.generation;
        config
    }

    fn id(&self, n: usize) -> SaId {
        self.config(n).id()
    }

    fn renew(&mut self, n: usize) {
        self.generation += 1;
        self.numbers[n] = 0;
        let config = self.config(n);
        let sa = make_sa(&config.params);
        self.gateway.db.replace_sa(config, sa);
    }

    fn put(&mut self, sa: usize, flow: u16) {
        self.numbers[sa] += 1;
        let inner = Ip::new(Side::B.lan(false, 10 + flow % 3), Side::A.lan(false, 10));
        let text = esp_text(&inner.udp(1000 + flow, 2000, &[flow as u8; 40]), 4);
        let packet = craft_esp_for(0x2000 + sa as u32, Side::B, self.numbers[sa], &text, 0);
        self.gateway.put_wan(&packet);
    }

    fn take(&mut self, step: &Step) -> Outcome {
        if self.forgets {
            self.gateway.worker.forget_flows();
        }
        match step {
            Step::Burst(packets) => packets.iter().for_each(|(sa, flow)| self.put(*sa, *flow)),
            Step::Run(sa, flow) => (0..20).for_each(|_| self.put(*sa, *flow)),
            Step::Rekey(n) => self.renew(*n),
            Step::Remove(n) => drop(self.gateway.db.remove_sa(&self.id(*n))),
            Step::Advance(n, hard) => {
                if let Some(sa) = self.gateway.db.sa(&self.id(*n)) {
                    sa.advance(if *hard { SaState::Expired } else { SaState::Dying });
                }
            }
            Step::Block(flow) => drop(self.gateway.db.put_policy(block(*flow))),
            Step::Unblock(flow) => drop(self.gateway.db.remove_policy(block(*flow).index)),
        }
        self.gateway.run();
        let g = &mut self.gateway;
        let policies = g.db.policies().map(|p| (p.config.index, p.packets(), p.bytes())).collect();
        let lan = g.lan_out();
        let drops = g.drops();
        let sas = (0..SAS).map(|n| {
            let sa = self.gateway.db.sa(&self.id(n))?;
            let live = sa.esp.live();
            let [packets, bytes, edge] = [live.packets(), live.bytes(), live.edge()];
            Some((packets.load(Relaxed), bytes.load(Relaxed), edge.load(Relaxed)))
        });
        Outcome { lan, drops, policies, sas: sas.collect() }
    }
}

/// Blocks one flow, before all other policies.
fn block(flow: u16) -> PolicyConfig {
    let any = policy::Prefix { addr: ip("0.0.0.0"), len: 0 };
    let selector = Selector {
        protocol: 17,
        src_port: policy::PortMask { value: 1000 + flow, mask: 0xffff },
        ..Selector::between(any, any)
    };
    PolicyConfig {
        priority: 1,
        action: Action::Block,
        ..policy(100 + u32::from(flow), Direction::Forward, selector, vec![])
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Also where flows push each other out of eight places all the time.
    #[test]
    fn a_guess_changes_nothing(
        steps in prop::collection::vec(step(), 1..40),
        flows in prop::sample::select(vec![1_usize, 64, 1 << 14]),
    ) {
        let mut hints = Subject::new(false, flows);
        let mut plain = Subject::new(true, flows);
        for (n, step) in steps.iter().enumerate() {
            prop_assert_eq!(hints.take(step), plain.take(step), "step {}: {:?}", n, step);
        }
    }

    /// So it is with a pool, whose threads keep hints of their own.
    #[test]
    fn a_guess_of_a_pool_changes_nothing(
        steps in prop::collection::vec(step(), 1..40),
        threads in 0_usize..3,
    ) {
        let mut pool = Subject::new(false, 64);
        let threads = pooled(&mut pool.gateway, threads);
        let mut plain = Subject::new(true, 64);
        for (n, step) in steps.iter().enumerate() {
            prop_assert_eq!(pool.take(step), plain.take(step), "step {}: {:?}", n, step);
        }
        drop(pool);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

/// While bursts are spread over many SAs a round takes several; all the others take one.
#[test]
fn a_round_takes_more_of_what_is_spread() {
    let mut subject = Subject::new(false, 64);
    let mut rounds = |sas: usize| {
        (0..200).for_each(|n| subject.put(n % sas, 0));
        let now = subject.gateway.now;
        let came = core::array::from_fn(|_| subject.gateway.worker.round_at(now));
        assert_eq!(subject.gateway.lan_out().len(), 200);
        came
    };
    assert_eq!(rounds(1), [64, 64, 64, 8]);
    // The first burst tells.
    assert_eq!(rounds(SAS), [64, 136, 0, 0]);
    assert_eq!(rounds(SAS), [200, 0, 0, 0]);
    assert_eq!(rounds(1), [128, 64, 8, 0]);
}
