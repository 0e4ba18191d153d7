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
use super::xfrm_kernel::XfrmKernel;
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
    /// It does so between two requests of the daemon's, after so many more.
    EncryptsAmid(u32, u32, u32),
    /// A worker does, if it has the SA.
    Sends(u32, u32),
    /// A worker does that has not taken over what has changed since the step before.
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

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3 * TUNNELS, prop::bool::weighted(0.7)).prop_map(|(n, is_new)| Step::Policy(n, is_new)),
        6 => (0..2 * TUNNELS, prop::bool::weighted(0.7)).prop_map(|(n, is_new)| Step::Sa(n, is_new)),
        1 => Just(Step::FlushSas),
        1 => Just(Step::FlushPolicies),
        3 => (0..TUNNELS, 1..50u32).prop_map(|(t, n)| Step::Encrypts(t, n)),
        4 => (0..6u32, 0..TUNNELS, 1..50u32).prop_map(|(after, t, n)| Step::EncryptsAmid(after, t, n)),
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
    /// Outbound SAs as a late worker has them, by tunnel, with their place among all.
    late: BTreeMap<u32, (u32, Arc<SaEntry<Sa>>)>,
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
        Beside { plane, kernel, late: BTreeMap::new() }
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
        for tunnel in 0..TUNNELS {
            let Some(entry) = self.published(2 * tunnel) else { continue };
            // It may have gone, and its end may not be heard yet.
            let Some((sent, _)) = self.kernel.sent(ends(2 * tunnel).2) else { continue };
            let ceiling = entry.esp.ceiling().expect("a lease");
            assert!(
                ceiling <= sent,
                "tunnel {tunnel} may use {ceiling}, and the kernel is at {sent}"
            );
            assert!(entry.esp.live().sent().load(Relaxed) <= ceiling);
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
        let late = std::mem::take(&mut self.late);
        for tunnel in 0..TUNNELS {
            if let (Some(entry), Some(place)) =
                (self.published(2 * tunnel), model.sas.get(&(2 * tunnel)))
            {
                self.late.insert(tunnel, (*place, entry));
            }
        }
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
            Step::EncryptsAmid(after, tunnel, packets) => {
                self.kernel.encrypt_amid(after, ends(2 * tunnel).2, packets);
            }
            Step::Sends(tunnel, packets) => {
                if let Some((place, entry)) = self.late.get(&tunnel) {
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

    /// Everything goes back to the kernel, which has counted all of it.
    fn give_back(mut self, model: &mut Model) {
        let mut rounds = 0;
        while !self.plane.daemon.sa.source.kernel_mut().is_none_or(KernelSource::release) {
            self.round(model, Duration::from_millis(1));
            rounds += 1;
            assert!(rounds < 3000, "not all goes back");
        }
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
