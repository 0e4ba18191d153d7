//! Slots used again and again, under readers that look things up meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;

use crate::common::{ESP, UDP, headers, hosts, policy, sa, template, v4};
use policy::{
    Action, Databases, Direction, Flow, Outbound, PolicyConfig, PortMask, Reader, SaHandle,
    SaState, Stamp,
};

const READERS: usize = 2;
/// Changes; each reuses a slot that readers have only just left.
const ROUNDS: u32 = 160_000;
/// SPIs that are there all the time.
const KEPT: [u32; 2] = [1, 2];

/// The writer goes on only when every reader has been refreshed since: slots are free at once.
struct Pace([AtomicU64; READERS]);

impl Pace {
    fn step(&self, reader: usize) {
        self.0[reader].fetch_add(1, SeqCst);
    }

    fn wait(&self, failed: impl Fn() -> bool) {
        let seen = self.0.each_ref().map(|count| count.load(SeqCst));
        for (count, seen) in self.0.iter().zip(seen) {
            while count.load(SeqCst) < seen + 2 && !failed() {
                thread::yield_now();
            }
        }
    }
}

/// Runs `write` against readers that call `look` after each refresh, until it is done or one of
/// them failed.
fn race<M>(
    mut databases: Databases<u32>,
    memory: impl Fn() -> M + Sync,
    mut write: impl FnMut(&mut Databases<u32>, u32),
    look: impl Fn(&mut Reader<u32>, &mut M) + Sync,
) {
    let pace = Pace([const { AtomicU64::new(0) }; READERS]);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|at| {
                let mut reader = databases.reader();
                let (pace, done, look, memory) = (&pace, &done, &look, &memory);
                scope.spawn(move || {
                    let mut memory = memory();
                    while !done.load(SeqCst) {
                        reader.refresh();
                        pace.step(at);
                        // The first reader looks more often between two refreshes.
                        for _ in 0..(4 >> at) {
                            look(&mut reader, &mut memory);
                        }
                        thread::yield_now();
                    }
                })
            })
            .collect();
        for round in 0..ROUNDS {
            if round % 16 == 0 {
                let failed = || readers.iter().any(|reader| reader.is_finished());
                pace.wait(failed);
                if failed() {
                    break;
                }
            }
            write(&mut databases, round);
        }
        done.store(true, SeqCst);
    });
}

/// Every SA's value is its SPI. There are two outbound chains, whose slots change places; the SAs
/// that stay are at the end of one of them, behind some that have expired, so a look-up walks it.
#[test]
fn sas_share_a_chain_and_slots() {
    let mut databases = Databases::new();
    let protect = PolicyConfig { templates: vec![template(v4(9))], ..policy(1, Direction::Out, 5) };
    databases.put_policy(protect);
    for spi in KEPT {
        // The oldest: at the end of the chain.
        let config = policy::SaConfig { added_s: 1, ..sa(v4(9), spi) };
        databases.add_sa(config, spi).unwrap();
    }
    let checked = AtomicU32::new(0);
    race(
        databases,
        Vec::<(SaHandle, u32, Stamp)>::new,
        |databases, round| {
            // Eight at a time, of five keys that are used again.
            let spi = |round: u32| 10 + round % 40;
            let config = policy::SaConfig { reqid: 1 + round % 2, ..sa(v4(9), spi(round)) };
            databases.add_sa(config, spi(round)).unwrap().advance(SaState::Expired);
            if round >= 8 {
                databases.remove_sa(&sa(v4(9), spi(round - 8)).id()).unwrap();
            }
        },
        |reader, kept| {
            for spi in KEPT {
                let found = reader.inbound_sa(v4(9), spi, ESP, 0).and_then(|sa| reader.sa(sa));
                assert_eq!(found.map(|sa| sa.esp), Some(spi));
            }
            for spi in 10..50 {
                if let Some(sa) = reader.inbound_sa(v4(9), spi, ESP, 0) {
                    assert_eq!(reader.sa(sa).map(|sa| sa.esp), Some(spi));
                }
            }
            let h = headers(v4(1), v4(2), UDP, 1, 2);
            let flow = Flow::new(&h, 0);
            let Outbound::Protect(policy, sa) = reader.outbound(&flow) else { panic!("no SA") };
            let value = reader.sa(sa).unwrap().esp;
            // A handle finds its own SA or nothing, however old it is, and while a stamp holds the
            // answer is the same.
            for (handle, then, stamp) in kept.iter() {
                assert!(reader.sa(*handle).is_none_or(|sa| sa.esp == *then));
                let is_valid = |sa: &policy::SaEntry<u32>| sa.state() == SaState::Valid;
                let holds = reader.holds(*stamp) && reader.sa(*handle).is_some_and(is_valid);
                assert!(!holds || (*handle, *then) == (sa, value));
            }
            if kept.len() == 64 {
                kept.remove(0);
            }
            kept.push((sa, value, reader.stamp(Direction::Out, &flow, Some(policy))));
            checked.fetch_add(1, SeqCst);
        },
    );
    assert!(checked.load(SeqCst) > ROUNDS / 16);
}

/// Policies with ports: each is in two groups, of which that for later fragments has one chain.
#[test]
fn policies_share_a_chain_and_slots() {
    let mut databases = Databases::new();
    let with_port = |index: u32, port: u32, priority: u32| {
        let mut config = policy(index, Direction::Out, priority);
        config.action = Action::Block;
        config.selector = hosts(v4(1), v4(2));
        config.selector.protocol = UDP;
        config.selector.dst_port = PortMask { value: port as u16, mask: u16::MAX };
        config
    };
    // The last of all stays.
    databases.put_policy(with_port(1, 7, 100));
    race(
        databases,
        || (),
        |databases, round| {
            let index = |round: u32| 10 + round % 40;
            let config = with_port(index(round), 1000 + index(round), round % 7);
            databases.put_policy(config);
            if round >= 8 {
                databases.remove_policy(index(round - 8)).unwrap();
            }
        },
        |reader, ()| {
            let look = |h: &wire::Headers| {
                reader.policy(Direction::Out, &Flow::new(h, 0)).map(|p| p.config.index)
            };
            assert_eq!(look(&headers(v4(1), v4(2), UDP, 3, 7)), Some(1));
            for index in 10..50_u16 {
                let found = look(&headers(v4(1), v4(2), UDP, 3, 1000 + index));
                assert!(found.is_none_or(|found| found == u32::from(index)));
            }
            // A later fragment meets the first of all, whichever that is at the moment.
            let mut fragment = headers(v4(1), v4(2), UDP, 0, 0);
            fragment.fragment = wire::Fragment::Later;
            assert!(look(&fragment).is_some());
        },
    );
}
