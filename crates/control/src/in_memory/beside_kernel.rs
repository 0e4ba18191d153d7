//! Random histories beside a kernel that owns SAs and policies: what it tells comes as bytes, and so does what it is told.
//!
//! Whatever happens, no outbound number is used twice, the kernel's own last number is at or beyond what the fast path may
//! use, and in the end the kernel has everything again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use esp::Sa;
use mirror::{Address, Change, Family, Rule};
use policy::{Action, Direction, SaEntry};
use proptest::prelude::*;
use xfrm::codec::{LifetimeConfig, Message, MessageWriter, SaFlush, flag, kind};

use super::Plane;
use super::xfrm_kernel::{Amid, XfrmKernel};
use crate::install::{delete_policy, delete_sa, ends, limits, new_policy, new_sa_within};
use crate::sources::kernel::KernelSource;

const CONFIG: &str = "source = \"kernel\"\n[tun]\nmark = 0\n";

/// Tunnels of a history.
const TUNNELS: u32 = 3;

/// Longest time for which an SA is left to the kernel after something went wrong.
const LEFT_AT_MOST: Duration = Duration::from_secs(3600);

/// A step of a history. SAs with even numbers are outbound.
#[derive(Clone, Debug)]
enum Step {
    /// An IKE daemon installs a policy, or deletes it.
    Policy(u32, bool),
    /// The same, of an SA.
    Sa(u32, bool),
    /// It deletes all SAs.
    FlushSas,
    /// It deletes all policies.
    FlushPolicies,
    /// The kernel encrypts packets by an outbound SA of a tunnel.
    Encrypts(u32, u32),
    /// It does so between two requests of the daemon's.
    EncryptsAmid(Amid, u32, u32),
    /// A worker does, if it has the SA.
    Sends(u32, u32),
    /// A worker does that has not taken over what has changed since the step before, or that the SA has gone.
    SendsLate(u32, u32),
    /// Requests to the kernel fail.
    Fails(u32),
    /// News of the kernel are lost.
    NewsLost,
    /// The address of this host comes or goes.
    Address(bool),
    /// So many milliseconds pass.
    Pass(u64),
    /// The control thread has so many rounds of a millisecond.
    Rounds(u32),
}

fn amid() -> impl Strategy<Value = Amid> {
    prop_oneof![2 => (0..6u32).prop_map(Amid::After), 1 => Just(Amid::BeforeSet)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3 * TUNNELS, prop::bool::weighted(0.7)).prop_map(|(n, is_new)| Step::Policy(n, is_new)),
        6 => (0..2 * TUNNELS, prop::bool::weighted(0.7)).prop_map(|(n, is_new)| Step::Sa(n, is_new)),
        1 => Just(Step::FlushSas),
        1 => Just(Step::FlushPolicies),
        3 => (0..TUNNELS, 1..50u32).prop_map(|(t, n)| Step::Encrypts(t, n)),
        6 => (amid(), 0..TUNNELS, 1..50u32).prop_map(|(amid, t, n)| Step::EncryptsAmid(amid, t, n)),
        6 => (0..TUNNELS, prop_oneof![9 => 1..50u32, 1 => 1..3_000_000u32])
            .prop_map(|(t, n)| Step::Sends(t, n)),
        3 => (0..TUNNELS, 1..50u32).prop_map(|(t, n)| Step::SendsLate(t, n)),
        1 => (1..6u32).prop_map(Step::Fails),
        1 => Just(Step::NewsLost),
        1 => prop::bool::weighted(0.8).prop_map(Step::Address),
        2 => prop_oneof![1..30u64, 500..3000u64, 30_000..90_000u64].prop_map(Step::Pass),
        8 => (1..120u32).prop_map(Step::Rounds),
    ]
}

/// The kernel's state, and all that was used of it.
#[derive(Debug, Default)]
struct Model {
    policies: BTreeSet<u32>,
    /// The SAs, and when they came, by their number among all.
    sas: BTreeMap<u32, u32>,
    sas_in_all: u32,
    /// Numbers that packets have, by SA: its number, and which of those with this number.
    used: BTreeMap<(u32, u32), Vec<RangeInclusive<u64>>>,
    /// Packets of each SA that is there, encrypted by the kernel and by workers.
    packets: BTreeMap<u32, u64>,
    /// SAs that went and came again: what was counted before may go on, as where their ends move.
    came_again: BTreeSet<u32>,
    /// Requests failed, or the kernel counted while it was told a count.
    is_miscounted: bool,
}

impl Model {
    /// Packets have these numbers.
    fn used(&mut self, sa: (u32, u32), numbers: RangeInclusive<u64>) {
        let before = self.used.entry(sa).or_default();
        let is_apart = |used: &RangeInclusive<u64>| {
            used.end() < numbers.start() || numbers.end() < used.start()
        };
        assert!(before.iter().all(is_apart), "{numbers:?} of {sa:?} twice: {before:?}");
        if self.sas.get(&sa.0) == Some(&sa.1) {
            *self.packets.entry(sa.0).or_default() += numbers.end() - numbers.start() + 1;
        }
        before.push(numbers);
    }

    /// True if the fast path is to have an SA, when all is calm.
    fn is_taken(&self, sa: u32) -> bool {
        let tunnel = sa / 2;
        let users: &[u32] = if sa.is_multiple_of(2) { &[0] } else { &[1, 2] };
        self.sas.contains_key(&sa)
            && users.iter().any(|n| self.policies.contains(&(3 * tunnel + n)))
    }
}

/// The daemon beside its kernel.
struct Beside {
    plane: Plane,
    kernel: XfrmKernel,
    /// Outbound SAs as a late worker has them, by tunnel, with their place among all: those too that have gone.
    late: BTreeMap<u32, (u32, Arc<SaEntry<Sa>>)>,
    /// Outbound SAs that packets may use, likewise. One that the kernel has replaced stays until that is heard.
    used: BTreeMap<u32, (u32, Arc<SaEntry<Sa>>)>,
}

fn flush(kind: u16) -> Message {
    let mut request = MessageWriter::new(kind, flag::REQUEST | flag::ACK, 1, 0);
    if kind == kind::FLUSHSA {
        request.fixed(&SaFlush { protocol: 50, ..SaFlush::default() });
    }
    request.finish()
}

/// SAs outlast any pause here.
fn unlimited() -> LifetimeConfig {
    LifetimeConfig { soft_add_s: 0, hard_add_s: 0, ..limits(0) }
}

fn address() -> Change {
    Change::Address(Address {
        ifindex: 2,
        addr: Ipv4Addr::new(192, 0, 2, 1).into(),
        prefix_len: 24,
        scope: 0,
        tentative: false,
        secondary: false,
        deprecated: false,
    })
}

impl Beside {
    fn start() -> Beside {
        let plane = Plane::start(CONFIG);
        plane.linux.put(Change::Rule(Rule::new(Family::V4, 32766, 254)));
        plane.linux.put(address());
        let kernel = plane.xfrm.clone().expect("a kernel");
        Beside { plane, kernel, late: BTreeMap::new(), used: BTreeMap::new() }
    }

    /// The SA of the fast path with this number, if packets may use it.
    fn published(&self, number: u32) -> Option<Arc<SaEntry<Sa>>> {
        let (_, dst, spi) = ends(number);
        let databases = self.plane.daemon.sa.source.databases();
        databases.sas().find(|sa| {
            let id = sa.config.id();
            (id.dst, id.spi) == (dst, spi)
        })
    }

    /// One round, in which the kernel always is ahead of the fast path.
    fn round(&mut self, model: &mut Model, passed: Duration) {
        self.plane.now = self.plane.now.after(passed);
        self.kernel.pass(self.plane.now.xfrm());
        self.plane.round();
        for (spi, numbers) in self.kernel.take_amid() {
            let sa = (0..TUNNELS).map(|tunnel| 2 * tunnel).find(|sa| ends(*sa).2 == spi);
            let sa = sa.expect("an outbound SA");
            model.used((sa, model.sas[&sa]), numbers);
            // Of numbers that is made sure; what is counted meanwhile is overwritten.
            model.is_miscounted = true;
        }
        self.follow_published(model);
        for (tunnel, (place, entry)) in &self.used {
            // It may have gone, or be another one, and its end may not be heard yet.
            if model.sas.get(&(2 * tunnel)) != Some(place) {
                continue;
            }
            let (sent, _) = self.kernel.sent(ends(2 * tunnel).2).expect("an SA");
            let ceiling = entry.esp.ceiling().expect("a lease");
            assert!(
                ceiling <= sent,
                "tunnel {tunnel} may use {ceiling}, and the kernel is at {sent}"
            );
            assert!(entry.esp.live().sent().load(Relaxed) <= ceiling);
        }
    }

    /// Follows what packets may use. What comes is made of what the kernel has.
    fn follow_published(&mut self, model: &Model) {
        for tunnel in 0..TUNNELS {
            let Some(entry) = self.published(2 * tunnel) else {
                self.used.remove(&tunnel);
                continue;
            };
            if self.used.get(&tunnel).is_none_or(|(_, known)| !Arc::ptr_eq(known, &entry)) {
                self.used.insert(tunnel, (model.sas[&(2 * tunnel)], entry));
            }
        }
    }

    /// A worker encrypts packets by an SA.
    fn send(model: &mut Model, sa: (u32, u32), entry: &SaEntry<Sa>, packets: u32) {
        let Ok(lease) = entry.esp.lease(packets) else { return };
        let numbers: Vec<u64> = match packets {
            0..100 => lease.map(|number| number.value()).collect(),
            _ => {
                let (left, mut lease) = (u64::from(lease.left()), lease);
                let first = lease.next().expect("a number").value();
                vec![first, first + left - 1]
            }
        };
        let (first, last) = (numbers[0], *numbers.last().expect("a number"));
        for _ in first..=last {
            entry.esp.live().count(100, 1);
        }
        model.used(sa, first..=last);
    }

    fn take(&mut self, model: &mut Model, step: &Step) {
        let late = self.late.clone();
        self.late.extend(self.used.iter().map(|(tunnel, used)| (*tunnel, used.clone())));
        match *step {
            Step::Policy(n, is_new) => {
                let request = if is_new { new_policy(n) } else { delete_policy(n) };
                let errno = self.kernel.request(&request);
                let is_changed = match is_new {
                    true => model.policies.insert(n),
                    false => model.policies.remove(&n),
                };
                assert_eq!(errno == 0, is_changed, "errno {errno}");
            }
            Step::Sa(n, true) => {
                let errno = self.kernel.request(&new_sa_within(n, unlimited()));
                assert_eq!(errno == 0, !model.sas.contains_key(&n), "errno {errno}");
                if errno == 0 {
                    model.sas_in_all += 1;
                    model.sas.insert(n, model.sas_in_all);
                    if model.packets.insert(n, 0).is_some() {
                        model.came_again.insert(n);
                    }
                }
            }
            Step::Sa(n, false) => {
                let errno = self.kernel.request(&delete_sa(n));
                assert_eq!(errno == 0, model.sas.remove(&n).is_some(), "errno {errno}");
            }
            Step::FlushSas => {
                self.kernel.request(&flush(kind::FLUSHSA));
                model.sas.clear();
            }
            Step::FlushPolicies => {
                self.kernel.request(&flush(kind::FLUSHPOLICY));
                model.policies.clear();
            }
            Step::Encrypts(tunnel, packets) => {
                let sa = 2 * tunnel;
                if let Some(numbers) = self.kernel.encrypt(ends(sa).2, packets) {
                    let place = model.sas[&sa];
                    model.used((sa, place), numbers);
                }
            }
            Step::EncryptsAmid(amid, tunnel, packets) => {
                self.kernel.encrypt_amid(amid, ends(2 * tunnel).2, packets);
            }
            Step::Sends(tunnel, packets) => {
                if let Some((place, entry)) = self.used.get(&tunnel) {
                    Self::send(model, (2 * tunnel, *place), entry, packets);
                }
            }
            Step::SendsLate(tunnel, packets) => {
                if let Some((place, entry)) = late.get(&tunnel) {
                    Self::send(model, (2 * tunnel, *place), entry, packets);
                }
            }
            Step::Fails(requests) => {
                self.kernel.fail(requests);
                model.is_miscounted = true;
            }
            Step::NewsLost => self.kernel.lose_news(),
            Step::Address(is_there) => match is_there {
                true => self.plane.linux.put(address()),
                false => {
                    self.plane.linux.remove(|change| matches!(change, Change::Address(_)));
                }
            },
            Step::Pass(ms) => self.round(model, Duration::from_millis(ms)),
            Step::Rounds(rounds) => {
                for _ in 0..rounds {
                    self.round(model, Duration::from_millis(1));
                }
            }
        }
    }

    /// Nothing happens for so long that whatever was left to the kernel is taken again.
    fn calm_down(&mut self, model: &mut Model) {
        self.kernel.fail(0);
        for passed in [Duration::ZERO, LEFT_AT_MOST, LEFT_AT_MOST] {
            self.round(model, passed);
            for _ in 0..100 {
                self.round(model, Duration::from_millis(10));
            }
        }
        self.plane.settle();
    }

    /// The fast path has what it is to have.
    fn hold(&self, model: &Model) {
        let databases = self.plane.daemon.sa.source.databases();
        for sa in 0..2 * TUNNELS {
            let is_there = self.published(sa).is_some();
            assert_eq!(is_there, model.is_taken(sa), "SA {sa}: {model:?}");
        }
        let mut wanted = BTreeSet::new();
        for n in &model.policies {
            let taken = n % 3 != 0 || model.is_taken(2 * (n / 3));
            let direction = [Direction::Out, Direction::In, Direction::Forward][(n % 3) as usize];
            let far = Ipv4Addr::from_bits(0x0a00_0000 + ((n / 3) << 8));
            wanted.insert((direction as u8, IpAddr::V4(far), taken));
        }
        let is_taken = |policy: &policy::PolicyConfig| {
            policy.action == Action::Allow && !policy.templates.is_empty()
        };
        let far = |policy: &policy::PolicyConfig| match policy.direction {
            Direction::Out => policy.selector.dst.addr,
            _ => policy.selector.src.addr,
        };
        let policies = databases.policies().map(|policy| &policy.config);
        let had: BTreeSet<_> = policies.map(|p| (p.direction as u8, far(p), is_taken(p))).collect();
        assert_eq!(had, wanted, "{model:?}");
    }

    /// Everything goes back to the kernel.
    fn give_back_all(&mut self, model: &mut Model) {
        let mut rounds = 0;
        while !self.plane.daemon.sa.source.kernel_mut().is_none_or(KernelSource::release) {
            self.round(model, Duration::from_millis(1));
            rounds += 1;
            assert!(rounds < 3000, "not all goes back");
        }
    }

    /// Everything goes back to the kernel, which has counted all of it.
    fn give_back(mut self, model: &mut Model) {
        self.give_back_all(model);
        for (sa, place) in &model.sas {
            assert!(self.published(*sa).is_none(), "SA {sa} is still here");
            let (sent, packets) = self.kernel.sent(ends(*sa).2).expect("an SA");
            let used = model.used.get(&(*sa, *place)).into_iter().flatten();
            let last = used.map(|numbers| *numbers.end()).max().unwrap_or(0);
            assert!(sent >= last, "SA {sa}: {sent}, and {last} is used");
            if !model.is_miscounted && !model.came_again.contains(sa) {
                assert_eq!(packets, model.packets.get(sa).copied().unwrap_or(0), "SA {sa}");
            }
        }
    }
}

fn run(steps: &[Step]) {
    let mut beside = Beside::start();
    let mut model = Model::default();
    for step in steps {
        beside.take(&mut model, step);
    }
    // What is in the fast path stays there while an address is gone: so does it in a kernel.
    beside.take(&mut model, &Step::Address(true));
    beside.calm_down(&mut model);
    beside.hold(&model);
    // Whatever was missed is known: what packets use is what the kernel has.
    for (tunnel, (place, _)) in &mut beside.used {
        *place = model.sas[&(2 * tunnel)];
    }
    for tunnel in 0..TUNNELS {
        let steps = [Step::Sends(tunnel, 20), Step::Encrypts(tunnel, 5), Step::Rounds(2)];
        all(&mut beside, &mut model, &steps);
    }
    beside.give_back(&mut model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn beside_a_kernel_no_number_is_used_twice_and_all_goes_back(
        steps in prop::collection::vec(step(), 1..40)
    ) {
        run(&steps);
    }
}

/// A tunnel whose outbound SA is in the fast path.
fn taken_over() -> (Beside, Model) {
    let (mut beside, mut model) = (Beside::start(), Model::default());
    let steps =
        [Step::Policy(0, true), Step::Policy(1, true), Step::Sa(0, true), Step::Sa(1, true)];
    all(&mut beside, &mut model, &steps);
    // Limits of a later second, so that an SA added then is another one.
    all(&mut beside, &mut model, &[Step::Rounds(60), Step::Pass(1500)]);
    assert!(beside.published(0).is_some() && beside.published(1).is_some());
    (beside, model)
}

fn all(beside: &mut Beside, model: &mut Model, steps: &[Step]) {
    steps.iter().for_each(|step| beside.take(model, step));
}

/// News are lost, and the kernel does not answer in the round that follows.
const UNHEARD: [Step; 4] = [Step::NewsLost, Step::Fails(100), Step::Rounds(1), Step::Fails(0)];

/// An SA goes, which the daemon cannot hear of, and comes again with its keys, at its first number.
fn replace_unheard(beside: &mut Beside, model: &mut Model, sa: u32) {
    all(beside, model, &[Step::Sa(sa, false)]);
    all(beside, model, &UNHEARD);
    assert!(beside.published(sa).is_some(), "it could not be heard");
    all(beside, model, &[Step::Sa(sa, true)]);
}

#[test]
fn an_sa_replaced_unheard_goes_on_past_its_numbers() {
    for used in [20, 5_000_020] {
        let (mut beside, mut model) = taken_over();
        // The second lot is of a lease that was renewed.
        let sends = [Step::Sends(0, used / 2), Step::Pass(200), Step::Sends(0, used / 2)];
        all(&mut beside, &mut model, &sends);
        let old = beside.published(0).expect("taken");
        replace_unheard(&mut beside, &mut model, 0);
        assert_eq!(beside.kernel.sent(ends(0).2).expect("an SA").0, 0);
        // It is heard that it came, and then the kernel is ahead of all that workers may use, also late ones.
        all(&mut beside, &mut model, &[Step::Rounds(1)]);
        let (sent, _) = beside.kernel.sent(ends(0).2).expect("an SA");
        assert!(old.esp.ceiling().expect("a lease") <= sent, "{sent}");
        let steps =
            [Step::Sends(0, 20), Step::Encrypts(0, 5), Step::Rounds(60), Step::Sends(0, 20)];
        all(&mut beside, &mut model, &steps);
        let numbers = &model.used[&(0, model.sas[&0])];
        assert!(numbers.iter().all(|numbers| *numbers.start() > used.into()), "{numbers:?}");
        beside.give_back(&mut model);
    }
}

#[test]
fn the_kernel_gets_an_sa_back_that_was_replaced_unheard_past_its_numbers() {
    let (mut beside, mut model) = taken_over();
    all(&mut beside, &mut model, &[Step::Sends(0, 20)]);
    replace_unheard(&mut beside, &mut model, 0);
    // That it came is not heard either.
    all(&mut beside, &mut model, &UNHEARD);
    beside.give_back_all(&mut model);
    let (sent, _) = beside.kernel.sent(ends(0).2).expect("an SA");
    assert_eq!(sent, 20);
}

#[test]
fn an_inbound_sa_replaced_unheard_begins_with_the_kernels_window() {
    let (mut beside, mut model) = taken_over();
    let old = beside.published(1).expect("taken");
    // A worker receives packets, and the kernel is told.
    old.esp.live().edge().store(50, Relaxed);
    old.esp.live().count(100, 1);
    all(&mut beside, &mut model, &[Step::Pass(1500), Step::Rounds(2)]);
    replace_unheard(&mut beside, &mut model, 1);
    all(&mut beside, &mut model, &[Step::Rounds(60)]);
    let new = beside.published(1).expect("taken");
    assert_eq!((old.esp.replay().edge(), new.esp.replay().edge()), (50, 0));
}

#[test]
fn an_sa_that_went_is_taken_from_packets_though_the_kernel_does_not_answer() {
    for news_are_lost in [false, true] {
        let (mut beside, mut model) = taken_over();
        let lost: &[Step] = if news_are_lost { &[Step::NewsLost] } else { &[Step::Sa(2, true)] };
        all(&mut beside, &mut model, lost);
        all(&mut beside, &mut model, &[Step::Sa(0, false), Step::Fails(100), Step::Rounds(1)]);
        assert!(beside.published(0).is_none(), "lost: {news_are_lost}");
    }
}

#[test]
fn a_late_worker_gets_no_number_of_an_sa_that_goes_back() {
    let (mut beside, mut model) = taken_over();
    all(&mut beside, &mut model, &[Step::Sends(0, 20)]);
    let late = beside.published(0).expect("taken");
    // Nothing is lost if the kernel does not take the number at first.
    let is_back = |beside: &mut Beside| {
        beside.plane.daemon.sa.source.kernel_mut().is_none_or(KernelSource::release)
    };
    assert!(!is_back(&mut beside));
    beside.round(&mut model, Duration::from_millis(1));
    all(&mut beside, &mut model, &[Step::Fails(3)]);
    beside.give_back_all(&mut model);
    assert!(late.esp.lease(1).is_err());
    assert_eq!(beside.kernel.sent(ends(0).2), Some((20, 20)));
}

/// The kernel encrypts just before its number is set: that lease is not used.
#[test]
fn a_lease_that_the_kernel_came_into_is_not_used() {
    let (mut beside, mut model) = (Beside::start(), Model::default());
    let enters =
        [Step::EncryptsAmid(Amid::BeforeSet, 0, 10), Step::Policy(0, true), Step::Sa(0, true)];
    all(&mut beside, &mut model, &enters);
    for _ in 0..60 {
        all(&mut beside, &mut model, &[Step::Rounds(1), Step::Sends(0, 1)]);
    }
    assert!(model.used[&(0, model.sas[&0])].len() > 10);
    beside.give_back(&mut model);
}

/// The kernel has used numbers beyond the lease, which is heard or not.
#[test]
fn a_lease_is_not_renewed_across_numbers_of_the_kernel() {
    for failures in 0..8 {
        let (mut beside, mut model) = taken_over();
        let steps = [
            Step::Sends(0, 4_194_200),
            Step::Encrypts(0, 10),
            Step::NewsLost,
            Step::Fails(failures),
            Step::Pass(150),
            Step::Sends(0, 1000),
            Step::Sends(0, 1000),
            Step::Fails(0),
        ];
        all(&mut beside, &mut model, &steps);
        beside.give_back(&mut model);
    }
}

/// The kernel has numbers beyond the lease: those that follow are beyond these.
#[test]
fn numbers_go_on_past_those_that_the_kernel_has_used() {
    let (mut beside, mut model) = taken_over();
    let steps = [
        Step::Sends(0, 4_194_000),
        Step::Encrypts(0, 5),
        Step::Rounds(2),
        Step::Sends(0, 1000),
        Step::Encrypts(0, 5),
        Step::Pass(200),
        Step::Sends(0, 1000),
    ];
    all(&mut beside, &mut model, &steps);
    assert!(model.used[&(0, model.sas[&0])].len() >= 4);
    beside.give_back(&mut model);
}
