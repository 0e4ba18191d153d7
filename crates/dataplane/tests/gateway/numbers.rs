//! Sequence numbers: each SA's leave in order, none twice and none left out, however bursts are made up.
//!
//! A run of packets of one SA takes its numbers at once; while bursts are spread over many SAs each packet takes
//! its own when it is gathered. What counts as spread changes from burst to burst, and also by what is
//! decrypted while packets wait to be encrypted.

use core::sync::atomic::Ordering::Relaxed;

use outcome::DropReason;
use policy::{Direction, Prefix, SaConfig, Selector, Template};
use proptest::prelude::*;

use crate::packets::Ip;
use crate::pool::pooled;
use crate::support::{
    Gateway, Side, Sizes, Spec, craft_esp_for, esp_text, make_leased_sa, make_sa, make_sa_of,
    policy, sa_config, template,
};

/// Enough for a burst to count as spread.
const SAS: usize = 12;
/// SPIs of the SAs that this host sends by, and of those that it receives by.
const OUT: u32 = 0x2000;
const IN: u32 = 0x3000;
/// Numbers that are left to the first SA where it is nearly at its end.
const LEFT: u32 = 50;

#[derive(Clone, Debug)]
enum Step {
    /// Packets to be sealed, each by an SA.
    Seal(Vec<usize>),
    /// Packets to be opened, each of an SA; in the same round as the next step's.
    Open(Vec<usize>),
    /// Many packets to be sealed by one SA.
    Run(usize, usize),
    /// The same, and while they are under way the SA is deleted and added again with its keys.
    Move(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(0..SAS, 1..200).prop_map(Step::Seal),
        2 => prop::collection::vec(0..SAS, 1..100).prop_map(Step::Open),
        2 => (0..SAS, 1_usize..150).prop_map(|(sa, count)| Step::Run(sa, count)),
        2 => (0..SAS, 0_usize..250).prop_map(|(sa, count)| Step::Move(sa, count)),
    ]
}

fn config(from: Side, spi: u32) -> SaConfig {
    let mut config: SaConfig = sa_config(&Spec::default(), from);
    config.params.spi = spi;
    config
}

struct Subject {
    gateway: Gateway,
    received: [u32; SAS],
    /// The last number that each SA has sent.
    sent: [u64; SAS],
    left_out: u64,
}

impl Subject {
    fn new(is_nearly_out: bool) -> Subject {
        let sizes = Sizes { chunks: 8192, stock: 6144, port_limit: 512 };
        let mut gateway = Gateway::with_sizes(Side::A, sizes);
        gateway.add_policies(&Spec::default());
        for n in 0..SAS as u32 {
            for config in [config(Side::A, OUT + n), config(Side::B, IN + n)] {
                let sa = make_sa(&config.params);
                gateway.db.add_sa(config, sa).expect("new");
            }
            // One host there for each SA.
            let to = Prefix { addr: Side::B.lan(false, 10 + n as u16), len: 32 };
            let selector = Selector::between(Side::A.net(false), to);
            let by = Template { spi: OUT + n, ..template(&Spec::default(), Side::A) };
            let mut policy = policy(100 + n, Direction::Out, selector, vec![by]);
            policy.priority = 1;
            gateway.db.put_policy(policy);
        }
        let mut sent = [0; SAS];
        if is_nearly_out {
            let last = u64::from(u32::MAX - LEFT);
            let sa = gateway.db.sa(&config(Side::A, OUT).id()).expect("just added");
            sa.esp.live().sent().store(last, Relaxed);
            sent[0] = last;
        }
        Subject { gateway, received: [0; SAS], sent, left_out: 0 }
    }

    fn put(&mut self, sa: usize) {
        let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10 + sa as u16));
        self.gateway.put_lan(&packet.udp(1000, 2000, &[sa as u8; 40]));
    }

    fn put_encrypted(&mut self, sa: usize) {
        self.received[sa] += 1;
        let inner = Ip::new(Side::B.lan(false, 100), Side::A.lan(false, 10));
        let text = esp_text(&inner.udp(1000 + sa as u16, 2000, &[7; 40]), 4);
        let packet = craft_esp_for(IN + sa as u32, Side::B, self.received[sa], &text, 0);
        self.gateway.put_wan(&packet);
    }

    /// Deletes an SA and adds it again, as the daemon does it.
    fn go_on(&mut self, sa: usize) {
        let config = config(Side::A, OUT + sa as u32);
        let gone = self.gateway.db.remove_sa(&config.id()).expect("it was added");
        let last = gone.esp.live().close();
        let sa = make_sa(&config.params);
        sa.live().sent().store(last, Relaxed);
        self.gateway.db.add_sa(config, sa).expect("the old one is gone");
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let sealed: Vec<usize> = match step {
            Step::Seal(sas) => sas.clone(),
            Step::Run(sa, count) | Step::Move(sa, count) => vec![*sa; *count],
            Step::Open(sas) => {
                sas.iter().for_each(|sa| self.put_encrypted(*sa));
                return Ok(());
            }
        };
        sealed.iter().for_each(|sa| self.put(*sa));
        let mut moved = None;
        if let Step::Move(sa, _) = step {
            // Some are through, some with a thread of the pool, and some have not come yet.
            self.gateway.worker.round_at(self.gateway.now);
            self.go_on(*sa);
            moved = Some(*sa);
        }
        self.gateway.run();
        let mut due = [0_u64; SAS];
        sealed.iter().for_each(|sa| due[*sa] += 1);
        for packet in self.gateway.wan_out() {
            let word = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().expect("four"));
            let sa = (word(20) - OUT) as usize;
            self.sent[sa] += 1;
            due[sa] -= 1;
            prop_assert_eq!(u64::from(word(24)), self.sent[sa], "SA {}", sa);
        }
        for (sa, due) in due.into_iter().enumerate().filter(|(_, due)| *due > 0) {
            // What was under way when the number was closed got no number, and none is left out for it.
            let is_out = sa == 0 && self.sent[0] == u64::from(u32::MAX);
            prop_assert!(is_out || moved == Some(sa), "SA {}: {}", sa, due);
            self.left_out += due;
        }
        let exhausted = self.gateway.dropped(DropReason::OutSequenceExhausted);
        prop_assert_eq!(exhausted, self.left_out);
        self.gateway.lan_out();
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn of_each_sa_leave_in_order(
        steps in prop::collection::vec(step(), 1..30),
        is_nearly_out in any::<bool>(),
    ) {
        let mut subject = Subject::new(is_nearly_out);
        for step in &steps {
            subject.take(step)?;
        }
    }

    #[test]
    fn of_each_sa_leave_in_order_with_a_pool(
        steps in prop::collection::vec(step(), 1..20),
        is_nearly_out in any::<bool>(),
        threads in 0_usize..3,
    ) {
        let mut subject = Subject::new(is_nearly_out);
        let threads = pooled(&mut subject.gateway, threads);
        let taken = steps.iter().try_for_each(|step| subject.take(step));
        drop(subject);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        taken?;
    }
}

/// A lease of an owner is used to its end, and nothing beyond it; also by an SA that replaces another.
#[test]
fn none_is_above_the_ceiling() {
    for threads in [None, Some(0), Some(2)] {
        let spec = Spec::default();
        let sizes = Sizes { chunks: 8192, stock: 4096, port_limit: 512 };
        let mut g = Gateway::with_sizes(Side::A, sizes);
        g.protect(&spec);
        let threads = threads.map_or_else(Vec::new, |threads| pooled(&mut g, threads));
        let config = sa_config(&spec, Side::A);
        let sa = make_leased_sa(&config.params, 0);
        g.db.replace_sa(config.clone(), sa);
        let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        let (mut ceiling, mut sent, mut dropped) = (0_u64, 0_u64, 0_u64);
        for (round, raise) in (0..).zip([0, 1, 150, 20, 0, 500, 3, 64, 200, 0, 150, 1000]) {
            let entry = g.sa(Side::A, &spec);
            ceiling += raise;
            entry.esp.raise_ceiling(ceiling);
            entry.esp.raise_ceiling(ceiling / 2);
            assert_eq!(entry.esp.ceiling(), Some(ceiling), "never lowered");
            if round % 3 == 2 {
                let live = entry.esp.live().clone();
                let sa = make_sa_of(&config.params, live).with_ceiling(entry.esp.has_ceiling());
                g.db.replace_sa(config.clone(), sa);
            }
            (0..150).for_each(|n| g.put_lan(&flow.sized(100, n)));
            g.run();
            let numbers: Vec<u32> = g
                .wan_out()
                .iter()
                .map(|p| u32::from_be_bytes(p[24..28].try_into().expect("four")))
                .collect();
            let count = (ceiling - sent).min(150);
            let due: Vec<u32> = (sent + 1..=sent + count).map(|n| n as u32).collect();
            assert_eq!(numbers, due, "round {round}");
            (sent, dropped) = (sent + count, dropped + 150 - count);
            assert_eq!(g.dropped(DropReason::OutLease), dropped);
        }
        assert!(dropped > 0 && g.drops().len() == 1);
        drop(g);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}
