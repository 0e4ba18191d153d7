//! Random policies, hostile ones among them, in a kernel that refuses what it likes: with the daemon dead nothing passes
//! that a policy protects, and where nothing is refused, nothing else is blocked.

use std::net::IpAddr;
use std::path::Path;
use std::time::Instant;

use policy::{Action, Direction, Mark, PolicyConfig, PolicyFlags, PortMask, Prefix, Selector};
use proptest::prelude::*;

use crate::barrier::{Barrier, Effect};
use crate::cases::protecting;
use crate::fakes::{FakeKernel, FakeNft, Packet, World, meets};
use crate::kernel::Tag;
use crate::list::List;
use crate::netfilter::Netfilter;
use crate::{Guard, GuardError, Refusal};

const NAME: &str = "fuzz";

fn open(world: &World, directory: &Path) -> Guard {
    let tag = Tag::of(NAME);
    let list = List::open(directory.join("guard.json")).unwrap();
    let nft = Box::new(FakeNft(world.clone()));
    let netfilter = Netfilter::new(NAME, "culvert0", nft);
    Guard::with(list, Box::new(FakeKernel(world.clone(), tag)), tag, netfilter)
}

/// Has everything that is refused tried again, as it is after a while.
fn try_again(guard: &mut Guard) -> Result<(), GuardError> {
    guard.retry();
    guard.finish(Instant::now())
}

const SITES4: [&str; 4] = ["10.1.0.0", "10.2.0.7", "10.2.1.0", "0.0.0.0"];
const SITES6: [&str; 4] = ["fd01::", "fd02::7", "fd02:0:0:1::", "::"];

#[derive(Clone, Debug)]
enum Step {
    Put(Box<PolicyConfig>),
    Remove(usize),
    /// The daemon is killed, and another one starts.
    Kill,
    Flush(bool),
    /// Refuses from now on: a priority, a protocol, an interface, nft altogether.
    Refuse(Refused),
    Heal,
    /// Something of this instance that no list names, or a stranger's.
    Plant(Box<PolicyConfig>, bool),
}

#[derive(Clone, Debug)]
enum Refused {
    Priority(u32),
    Protocol(u8),
    Word(&'static str),
    Nft,
    NoNft,
}

fn prefix(v6: bool) -> impl Strategy<Value = Prefix> {
    let lens = if v6 { [0u8, 32, 64, 128] } else { [0, 16, 24, 32] };
    (0..4usize, prop::sample::select(lens.to_vec())).prop_map(move |(site, len)| {
        let text = if v6 { SITES6[site] } else { SITES4[site] };
        Prefix { addr: text.parse().unwrap(), len }
    })
}

fn port() -> impl Strategy<Value = PortMask> {
    prop::sample::select(vec![
        (0u16, 0u16),
        (0, 0),
        (0, 0),
        (7, u16::MAX),
        (135, u16::MAX),
        (300, u16::MAX),
        (0x107, 0xff),
        (0x100, 0xff00),
        (9, 0),
        (0, u16::MAX),
    ])
    .prop_map(|(value, mask)| PortMask { value, mask })
}

/// Any policy, also such as no IKE daemon makes.
pub(crate) fn config() -> impl Strategy<Value = PolicyConfig> {
    let selector = any::<bool>().prop_flat_map(|v6| {
        (
            prefix(v6),
            prefix(v6),
            prop::sample::select(vec![0u8, 0, 6, 17, 58, 50, 89]),
            port(),
            port(),
            prop::sample::select(vec![0u32, 0, 0, 1, 2, 7, u32::MAX, i32::MAX as u32, 1 << 31]),
        )
            .prop_map(|(src, dst, protocol, src_port, dst_port, ifindex)| Selector {
                protocol,
                src_port,
                dst_port,
                ifindex,
                ..Selector::between(src, dst)
            })
    });
    let marks = vec![(0, 0), (0, 0), (15, 15), (0xff, 0x0f), (0, 1), (5, 0), (u32::MAX, u32::MAX)];
    (
        selector,
        prop::sample::select(vec![Direction::In, Direction::Out, Direction::Forward]),
        prop::sample::select(vec![0u32, 1, 5, 1000, u32::MAX - 1, u32::MAX]),
        0..3u8,
        prop::sample::select(marks),
        prop::sample::select(vec![0u32, 0, 0, 0, 7]),
    )
        .prop_map(|(selector, direction, priority, kind, (value, mask), if_id)| {
            let template = protecting("10.1.0.0/16", "10.2.0.0/16", direction).templates;
            PolicyConfig {
                index: 1,
                direction,
                selector,
                priority,
                action: if kind == 1 { Action::Block } else { Action::Allow },
                flags: PolicyFlags::default(),
                templates: if kind == 0 { template } else { Vec::new() },
                mark: Mark { value, mask },
                if_id,
            }
        })
}

fn step() -> impl Strategy<Value = Step> {
    let refused = prop_oneof![
        prop::sample::select(vec![1u32, 5, 1000]).prop_map(Refused::Priority),
        prop::sample::select(vec![6u8, 17, 58]).prop_map(Refused::Protocol),
        prop::sample::select(vec!["oif", "mark", "icmpv6", "th", "@class-0", "drop"])
            .prop_map(Refused::Word),
        Just(Refused::Nft),
        Just(Refused::NoNft),
    ];
    prop_oneof![
        12 => config().prop_map(|c| Step::Put(Box::new(c))),
        4 => any::<usize>().prop_map(Step::Remove),
        1 => Just(Step::Kill),
        1 => any::<bool>().prop_map(Step::Flush),
        1 => refused.prop_map(Step::Refuse),
        1 => Just(Step::Heal),
        1 => (config(), any::<bool>()).prop_map(|(c, ours)| Step::Plant(Box::new(c), ours)),
    ]
}

/// Every packet that can tell policies of these tests apart, one by one of some.
fn packets() -> Vec<Packet> {
    let mut packets = Vec::new();
    let mut n = 0usize;
    let ends4 = ["10.1.0.0", "10.2.0.7", "10.2.0.9", "10.2.1.1", "10.9.0.1"];
    let ends6 = ["fd01::", "fd02::7", "fd02::9", "fd02:0:0:1::1", "fd09::1"];
    for ends in [ends4, ends6] {
        for (src, dst) in ends.iter().flat_map(|src| ends.iter().map(move |dst| (src, dst))) {
            for direction in 0..3u8 {
                n += 1;
                // Their other fields change from one to the next.
                let protocol = [6, 17, 58, 50, 89][n % 5];
                let has_ports = matches!(protocol, 6 | 17 | 58);
                let ports =
                    if has_ports { ([7, 9, 135, 44][n % 4], [7, 0, 9][n % 3]) } else { (0, 0) };
                let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
                packets.push(Packet {
                    direction,
                    src: ip(src),
                    dst: ip(dst),
                    protocol,
                    ports,
                    // That of an arriving packet's route is the loopback's.
                    ifindex: if direction == 0 { 1 } else { [2, 3, 7][n / 2 % 3] },
                    mark: [0, 15, 0xff, 0x2f][n / 3 % 4],
                });
            }
        }
    }
    packets
}

/// True if nothing blocks the packet, in spite of policies: neighbour discovery and IKE of IPv6.
fn is_exempt(packet: &Packet) -> bool {
    packet.src.is_ipv6() && packet.protocol == 58 && (133..=137).contains(&packet.ports.0)
}

/// Verdict of the policies: the first in order decides. `None` if two of one priority differ,
/// whose order is not known here.
fn is_blocked(policies: &[PolicyConfig], packet: &Packet) -> Option<bool> {
    let barriers = policies.iter().filter_map(Barrier::of_policy);
    let met: Vec<Barrier> = barriers.filter(|b| meets(b, packet)).collect();
    let Some(priority) = met.iter().map(Barrier::priority).min() else { return Some(false) };
    let mut first = met.iter().filter(|b| b.priority() == priority).map(Barrier::effect);
    let effect = first.next()?;
    first.all(|other| other == effect).then_some(effect == Effect::Block)
}

struct Case {
    world: World,
    directory: tempfile::TempDir,
    guard: Option<Guard>,
    policies: Vec<PolicyConfig>,
    /// Policies of other programs, which stay as they are.
    strangers: Vec<Barrier>,
    packets: Vec<Packet>,
}

impl Case {
    fn new() -> Case {
        let (world, directory) = (World::new(), tempfile::tempdir().unwrap());
        let guard = Some(open(&world, directory.path()));
        let (policies, strangers, packets) = (Vec::new(), Vec::new(), packets());
        Case { world, directory, guard, policies, strangers, packets }
    }

    fn restart(&mut self) -> Result<(), GuardError> {
        self.guard = None;
        let mut guard = open(&self.world, self.directory.path());
        let result = guard.set(&self.policies, &[], Instant::now());
        self.guard = Some(guard);
        result
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let before = self.world.transactions();
        let guard = self.guard.as_mut().unwrap();
        let result = match step {
            Step::Put(new) => {
                let is_same = |p: &PolicyConfig| {
                    let id = |p: &PolicyConfig| {
                        (p.selector, p.direction, p.mark.value & p.mark.mask, p.mark.mask, p.if_id)
                    };
                    id(p) == id(&new)
                };
                let old =
                    self.policies.iter().position(is_same).map(|at| self.policies.swap_remove(at));
                guard.change(old.as_ref(), Some(&new));
                self.policies.push(*new);
                guard.settle(Instant::now())
            }
            Step::Remove(_) if self.policies.is_empty() => Ok(()),
            Step::Remove(n) => {
                let old = self.policies.swap_remove(n % self.policies.len());
                guard.change(Some(&old), None);
                guard.settle(Instant::now())
            }
            Step::Kill => self.restart(),
            Step::Flush(rules) => {
                match rules {
                    true => self.world.flush_rules(),
                    false => {
                        self.world.flush_policies();
                        self.strangers.clear();
                    }
                }
                guard.check(Instant::now()).map(|_| ())
            }
            Step::Refuse(what) => {
                self.world.set_moods(|moods| match what {
                    Refused::Priority(priority) => drop(moods.priorities.insert(priority)),
                    Refused::Protocol(protocol) => drop(moods.protocols.insert(protocol)),
                    Refused::Word(word) => drop(moods.words.insert(word.into())),
                    Refused::Nft => moods.nft_fails = true,
                    Refused::NoNft => moods.has_nft = false,
                });
                // A start has to put up everything again.
                self.restart()
            }
            Step::Heal => {
                self.world.set_moods(|moods| {
                    *moods = crate::fakes::Moods { has_nft: true, ..Default::default() };
                });
                try_again(guard)
            }
            Step::Plant(config, ours) => {
                let Some(barrier) = Barrier::of_policy(&config) else { return Ok(()) };
                let standing = self.guard.as_ref().unwrap().standing();
                let is_known = { standing }.any(|b| b.identity() == barrier.identity());
                let is_theirs = self.strangers.iter().any(|b| b.identity() == barrier.identity());
                if barrier.is_netfilter() || is_known || is_theirs {
                    return Ok(());
                }
                // A stranger's is in nobody's way: it lets pass what nothing is about.
                if !ours {
                    let far = Selector { protocol: 200, ..config.selector };
                    let far = PolicyConfig {
                        selector: far,
                        templates: Vec::new(),
                        action: Action::Allow,
                        ..*config
                    };
                    let barrier = Barrier::of_policy(&far).unwrap();
                    self.world.plant(barrier, None);
                    self.strangers.push(barrier);
                    return Ok(());
                }
                self.world.plant(barrier, Some(Tag::of(NAME)));
                self.restart()
            }
        };
        let cost = self.world.transactions() - before;
        prop_assert!(cost < 300, "{cost} runs of nft for one step");
        self.look(&result)
    }

    fn look(&mut self, result: &Result<(), GuardError>) -> Result<(), TestCaseError> {
        let guard = self.guard.as_ref().unwrap();
        let refusals = guard.refusals();
        let is_gap = refusals.iter().any(Refusal::leaves_a_gap);
        prop_assert_eq!(is_gap, refusals.iter().any(|r| r.leaves_a_gap() && !guard.is_complete()));
        let is_whole = refusals.is_empty() && guard.due().is_none();
        for packet in &self.packets {
            let Some(is_blocked) = is_blocked(&self.policies, packet) else { continue };
            let passes = self.world.passes(packet);
            let is_excused = is_exempt(packet) || is_gap;
            prop_assert!(
                !is_blocked || !passes || is_excused,
                "passes in clear: {packet:?}\n{refusals:#?}\n{result:?}"
            );
            prop_assert!(is_blocked || passes || !is_whole, "is blocked: {packet:?}\n{result:?}");
        }
        let policies = self.world.policies();
        prop_assert!(
            self.strangers.iter().all(|b| policies.contains(b)),
            "a stranger's policy is gone"
        );
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_protected_passes_whatever_is_refused(steps in prop::collection::vec(step(), 1..50)) {
        let mut case = Case::new();
        for step in steps {
            case.step(step)?;
        }
        // Once everything works, it is as if nothing had been; a few classes are tried at a time.
        for _ in 0..8 {
            case.step(Step::Heal)?;
        }
        let guard = case.guard.as_mut().unwrap();
        let odd = |r: &Refusal| !r.why.contains("no interface can have") && !r.why.contains("valid range");
        let left = guard.refusals();
        prop_assert!(!left.iter().any(odd), "still refused: {left:?}");
        for policy in std::mem::take(&mut case.policies) {
            guard.change(Some(&policy), None);
            guard.settle(Instant::now()).unwrap();
        }
        guard.finish(Instant::now()).unwrap();
        prop_assert_eq!(guard.due(), None);
        let left: Vec<_> = case.world.policies();
        prop_assert!(left.iter().all(|b| case.strangers.contains(b)), "{left:?}");
        prop_assert_eq!(left.len(), case.strangers.len());
        prop_assert!(!case.directory.path().join("guard.json").exists());
        case.world.flush_policies();
        prop_assert!(case.world.is_empty(), "a table is left");
    }
}
