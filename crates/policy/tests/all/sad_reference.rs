//! The SAD against a plain list that is scanned, with readers that lag behind each in its own way.

use std::net::IpAddr;

use crate::common::{ESP, UDP, headers, policy, sa, template, v4, v6};
use esp::Mode;
use policy::{
    Databases, Direction, Flow, Mark, Marks, Outbound, PolicyConfig, Reader, SaConfig, SaHandle,
    SaState, Stamp, Template, WorkerIndex,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// The database as Linux describes it: a list, youngest first.
#[derive(Clone, Default)]
struct List(Vec<Held>);

#[derive(Clone)]
struct Held {
    config: SaConfig,
    value: u32,
    state: SaState,
}

impl List {
    fn position(&self, config: &SaConfig) -> Option<usize> {
        self.0.iter().position(|held| held.config.id() == config.id())
    }

    fn put(&mut self, config: &SaConfig, value: u32) {
        let state = self.remove(config).map_or(SaState::Valid, |old| old.state);
        let age = |config: &SaConfig| (config.added_s, config.generation);
        let older = |held: &Held| age(&held.config) <= age(config);
        let at = self.0.iter().position(older).unwrap_or(self.0.len());
        self.0.insert(at, Held { config: config.clone(), value, state });
    }

    fn remove(&mut self, config: &SaConfig) -> Option<Held> {
        self.position(config).map(|at| self.0.remove(at))
    }

    fn inbound(&self, dst: IpAddr, spi: u32, mark: u32) -> Option<u32> {
        let found = self.0.iter().find(|held| {
            let id = held.config.id();
            id.dst == dst && id.spi == spi && mark & id.mark.mask == id.mark.value
        });
        found.map(|held| held.value)
    }

    fn outbound(&self, policy: &PolicyConfig, flow: &Flow<'_>) -> Option<u32> {
        let template = policy.templates[0];
        let (src, dst) = match template.mode {
            Mode::Tunnel | Mode::Iptfs => (template.src, template.dst),
            Mode::Transport => (flow.headers.src, flow.headers.dst),
        };
        let candidates = self.0.iter().filter(|held| {
            let (config, params) = (&held.config, &held.config.params);
            held.state != SaState::Expired
                && params.dst == dst
                && (params.src == src || params.src.is_unspecified() || src.is_unspecified())
                && params.mode == template.mode
                && config.reqid == template.reqid
                && config.if_id == policy.if_id
                && (template.spi == 0 || params.spi == template.spi)
                && policy.mark.value & config.mark.mask == config.mark.value
                && config.cpu.is_none_or(|cpu| flow.worker.is_some_and(|w| w.get() == cpu as usize))
        });
        let order = |held: &&Held| {
            let config = &held.config;
            (config.cpu.is_none(), config.params.src.is_unspecified(), held.state == SaState::Dying)
        };
        // The first of the best: the youngest.
        candidates.min_by_key(order).map(|held| held.value)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(SaConfig),
    Remove(SaConfig),
    Advance(SaConfig, SaState),
    /// This reader is refreshed.
    Refresh(usize),
    /// A new reader in the place of this one.
    Renew(usize),
}

/// Few distinct values, so that SAs share keys and replace each other.
fn config() -> impl Strategy<Value = SaConfig> {
    let dst = prop::sample::select(vec![v4(9), v4(8), v6(9)]);
    let src = prop::sample::select(vec![None, None, Some(v4(7)), Some(crate::common::any4())]);
    let mark = prop::sample::select(vec![(0, 0), (0, 0), (1, 1), (0, 1), (1, 3)]);
    // Two are workers here, the third is of a CPU that no worker is.
    let cpu = prop::sample::select(vec![None, None, Some(0), Some(1), Some(1 << 20)]);
    (dst, 1..6u32, src, mark, 0..2u32, 1..3u32, (0..3u64, cpu), any::<bool>()).prop_map(
        |(dst, spi, src, (value, mask), if_id, reqid, (added_s, cpu), transport)| {
            let mut config = sa(dst, spi);
            // No two that could be taken for each other are of one age.
            let generation = u64::from(spi << 4 | value << 2 | mask);
            config.params.src = src.unwrap_or(config.params.src);
            config.params.mode = if transport { Mode::Transport } else { Mode::Tunnel };
            let mark = Mark { value, mask };
            SaConfig { mark, if_id, reqid, cpu, added_s, generation, ..config }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => config().prop_map(Step::Put),
        3 => config().prop_map(Step::Remove),
        1 => (config(), any::<bool>()).prop_map(|(config, hard)| {
            Step::Advance(config, if hard { SaState::Expired } else { SaState::Dying })
        }),
        4 => (0..READERS).prop_map(Step::Refresh),
        1 => (0..READERS).prop_map(Step::Renew),
    ]
}

const READERS: usize = 3;

/// Templates and packets that meet the SAs above.
fn questions() -> Vec<(PolicyConfig, wire::Headers, Option<WorkerIndex>)> {
    let mut all = Vec::new();
    let mut workers = [None, WorkerIndex::new(0), WorkerIndex::new(1)].into_iter().cycle();
    for (dst, reqid, if_id, mark) in
        [(v4(9), 1, 0, 0), (v4(9), 2, 0, 1), (v4(8), 1, 1, 0), (v6(9), 1, 0, 3)]
    {
        for (mode, spi) in [(Mode::Tunnel, 0), (Mode::Transport, 0), (Mode::Tunnel, 3)] {
            let (src, h) = match dst {
                IpAddr::V4(_) => (v4(1), headers(v4(1), dst, UDP, 1, 2)),
                IpAddr::V6(_) => (v6(1), headers(v6(1), dst, UDP, 1, 2)),
            };
            let template = Template { src, dst, mode, reqid, spi, ..template(dst) };
            let mark = Mark { value: mark, mask: if mark == 0 { 0 } else { 3 } };
            let config = PolicyConfig {
                templates: vec![template],
                mark,
                if_id,
                ..policy(1, Direction::Out, 5)
            };
            all.push((config, h, workers.next().unwrap()));
        }
    }
    all
}

/// A reader, the list that it should show, and what it answered when it was last refreshed.
struct Follower {
    reader: Reader<u32>,
    shows: List,
    handles: Vec<(SaHandle, u32)>,
    stamps: Vec<(Stamp, Option<SaHandle>)>,
}

impl Follower {
    fn new(databases: &Databases<u32>, shows: &List) -> Follower {
        let reader = databases.reader();
        Follower { reader, shows: shows.clone(), handles: Vec::new(), stamps: Vec::new() }
    }

    fn check(&self) {
        for dst in [v4(9), v4(8), v6(9), v6(8)] {
            for spi in 0..6 {
                for mark in 0..4 {
                    let found = self.reader.inbound_sa(dst, spi, ESP, mark);
                    let value = found.map(|sa| self.reader.sa(sa).unwrap().esp);
                    assert_eq!(value, self.shows.inbound(dst, spi, mark), "{dst} {spi} {mark}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_linear_scan(steps in vec(step(), 1..120)) {
        let mut databases = Databases::<u32>::new();
        let mut list = List::default();
        let mut followers: Vec<_> =
            (0..READERS).map(|_| Follower::new(&databases, &list)).collect();
        for (value, step) in steps.into_iter().enumerate() {
            let value = value as u32;
            match step {
                Step::Put(config) => {
                    databases.replace_sa(config.clone(), value);
                    list.put(&config, value);
                }
                Step::Remove(config) => {
                    let gone = databases.remove_sa(&config.id());
                    let expected = list.remove(&config);
                    prop_assert_eq!(gone.map(|sa| sa.esp), expected.map(|held| held.value));
                }
                Step::Advance(config, state) => {
                    // A state is in the SA itself and known to all at once.
                    if let Some(entry) = databases.sa(&config.id()) {
                        entry.advance(state);
                        let lists = followers.iter_mut().map(|f| &mut f.shows);
                        for list in lists.chain([&mut list]) {
                            for held in list.0.iter_mut().filter(|h| h.value == entry.esp) {
                                held.state = held.state.max(state);
                            }
                        }
                    }
                }
                Step::Refresh(at) => {
                    followers[at].reader.refresh();
                    followers[at].shows = list.clone();
                }
                Step::Renew(at) => followers[at] = Follower::new(&databases, &list),
            }
            let values: Vec<u32> = list.0.iter().map(|held| held.value).collect();
            let mut kept: Vec<u32> = databases.sas().map(|sa| sa.esp).collect();
            kept.sort_unstable();
            let mut expected = values.clone();
            expected.sort_unstable();
            prop_assert_eq!(kept, expected);
            prop_assert_eq!(databases.sa_count(), list.0.len());
            for follower in &mut followers {
                follower.check();
                // Handles find their own SA while it is there, and nothing afterwards.
                let reader = &follower.reader;
                for (handle, value) in &follower.handles {
                    let there = follower.shows.0.iter().any(|held| held.value == *value);
                    prop_assert_eq!(reader.sa(*handle).map(|sa| sa.esp), there.then_some(*value));
                }
                for held in &follower.shows.0 {
                    let id = held.config.id();
                    let mark = id.mark.value;
                    if let Some(handle) = reader.inbound_sa(id.dst, id.spi, id.protocol, mark) {
                        let pair = (handle, reader.sa(handle).unwrap().esp);
                        if !follower.handles.contains(&pair) {
                            follower.handles.push(pair);
                        }
                    }
                }
            }
        }
    }

    /// The SA for a template is the one that a scan finds, and while a stamp holds and the SA's
    /// state is the same, so is the answer.
    #[test]
    fn templates_and_stamps_agree_with_a_linear_scan(steps in vec(step(), 1..80)) {
        for (policy, h, worker) in questions() {
            let marks = Marks { mark: policy.mark.value, if_id: policy.if_id };
            let flow = Flow::marked(&h, 0, marks).of(worker);
            let mut databases = Databases::<u32>::new();
            let selector = crate::common::hosts(h.src, h.dst);
            let protect = PolicyConfig { selector, ..policy.clone() };
            databases.put_policy(protect.clone());
            let mut list = List::default();
            let mut followers: Vec<_> =
                (0..READERS).map(|_| Follower::new(&databases, &list)).collect();
            for (value, step) in steps.iter().enumerate() {
                let value = value as u32;
                match step {
                    Step::Put(config) => {
                        databases.replace_sa(config.clone(), value);
                        list.put(config, value);
                    }
                    Step::Remove(config) => {
                        databases.remove_sa(&config.id());
                        list.remove(config);
                    }
                    // Stamps do not speak of states: see the test above.
                    Step::Advance(..) => continue,
                    Step::Refresh(at) => {
                        followers[*at].reader.refresh();
                        followers[*at].shows = list.clone();
                    }
                    Step::Renew(at) => followers[*at] = Follower::new(&databases, &list),
                }
                for follower in &mut followers {
                    let reader = &follower.reader;
                    let (found, answer) = match reader.outbound(&flow) {
                        Outbound::Protect(found, sa) => (found, Some(sa)),
                        Outbound::NoState(found, _) => (found, None),
                        other => panic!("{other:?}"),
                    };
                    let value = answer.map(|sa| reader.sa(sa).unwrap().esp);
                    prop_assert_eq!(value, follower.shows.outbound(&policy, &flow));
                    follower.stamps.retain(|(stamp, _)| reader.holds(*stamp));
                    for (_, then) in &follower.stamps {
                        prop_assert_eq!(*then, answer, "a stamp holds for another answer");
                    }
                    let stamp = reader.stamp(Direction::Out, &flow, Some(found));
                    prop_assert!(reader.holds(stamp));
                    follower.stamps.push((stamp, answer));
                }
            }
        }
    }
}
