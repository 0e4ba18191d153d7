//! Random histories of connections that Linux translates: what it tells is learnt, ports take it, and it hears what is
//! alive. Ports open and vanish in the same history, news are lost, and requests fail.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use conntrack::{Direction, Entry, Status, TcpState, Tuple};
use dataplane::Event;
use mirror::Change;
use proptest::prelude::*;
use steer::Flow;

use super::connections::{Connections, kept_ms};
use super::{Plane, link};
use crate::RETRY_INTERVAL;
use crate::plan::testing::PORTS;

const CONFIG: &str = "[nat]\nlearn = \"conntrack\"\n\
                      [[port]]\ninterface = \"wan\"\n[[port]]\ninterface = \"eth1\"\n";

/// Connections of a history.
const CONNECTIONS: u32 = 8;

/// Longest time between two looks at a connection, in milliseconds: a sixth of the shortest time-out, and a round.
const LOOK_MS: u64 = 6_000;

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// Linux sees a packet of a connection: the first, or an answer.
    Sees(u32, Status),
    /// A connection ends.
    Ends(u32),
    /// A worker carries a packet.
    Carries(u32, bool),
    /// Workers carry a packet each second, for so many seconds.
    Keeps(u32, u64),
    /// Rules of NAT come or go.
    Rules([bool; 2]),
    /// News are lost.
    NewsLost,
    /// So many requests fail.
    Fails(u32),
    /// The interface of a port is there, up or down.
    Link(u32, bool),
    /// The interface of a port goes.
    LinkGone(u32),
    /// A worker has lost a port.
    PortGone(u32),
    /// So many seconds pass.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop_oneof![
        Just(Status::CONFIRMED),
        Just(Status::CONFIRMED.with(Status::SEEN_REPLY)),
        Just(Status::CONFIRMED.with(Status::SEEN_REPLY).with(Status::ASSURED)),
        // Dying: Linux's alone.
        Just(Status::CONFIRMED.with(Status(1 << 9))),
    ];
    prop_oneof![
        8 => (0..CONNECTIONS, status).prop_map(|(n, status)| Step::Sees(n, status)),
        3 => (0..CONNECTIONS).prop_map(Step::Ends),
        6 => (0..CONNECTIONS, any::<bool>()).prop_map(|(n, is_reply)| Step::Carries(n, is_reply)),
        2 => (0..CONNECTIONS, 10..200u64).prop_map(|(n, seconds)| Step::Keeps(n, seconds)),
        1 => any::<[bool; 2]>().prop_map(Step::Rules),
        1 => Just(Step::NewsLost),
        1 => (1..4u32).prop_map(Step::Fails),
        2 => (2..4u32, any::<bool>()).prop_map(|(index, is_up)| Step::Link(index, is_up)),
        1 => (2..4u32).prop_map(Step::LinkGone),
        1 => (2..4u32).prop_map(Step::PortGone),
        4 => prop_oneof![0..3u64, 3..40u64].prop_map(Step::Pass),
    ]
}

/// A connection: every second one is translated, every third is TCP. `status` tells how far it is.
fn entry(n: u32, status: Status) -> Entry {
    let protocol = if n.is_multiple_of(3) { wire::protocol::TCP } else { wire::protocol::UDP };
    let addr = |host: u8| IpAddr::V4(Ipv4Addr::new(203, 0, 113, host));
    let (inside, outside) = (IpAddr::V4(Ipv4Addr::new(10, 77, 0, n as u8)), addr(200));
    let seen_as = if n.is_multiple_of(2) { addr(1) } else { inside };
    let port = 1000 + n as u16;
    Entry {
        original: Tuple { src: inside, dst: outside, protocol, src_port: port, dst_port: 80 },
        reply: Tuple { src: outside, dst: seen_as, protocol, src_port: 80, dst_port: port },
        status,
        tcp: (protocol == wire::protocol::TCP).then_some(TcpState::ESTABLISHED),
        id: n,
        zone: 0,
    }
}

/// State of a history.
#[derive(Debug, Default)]
struct Model {
    /// When packets of a connection came by, in milliseconds.
    alive_ms: BTreeMap<u32, Vec<u64>>,
    /// True if Linux may not have been told of packets.
    has_failed: bool,
}

impl Model {
    /// The longest time without a packet of a connection, between two times.
    fn silence_ms(&self, id: u32, from_ms: u64, to_ms: u64) -> u64 {
        let packets = self.alive_ms.get(&id).into_iter().flatten().copied();
        let within = packets.filter(|at| (from_ms..to_ms).contains(at));
        let times: Vec<u64> = [from_ms].into_iter().chain(within).chain([to_ms]).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }
}

/// The daemon, and what Linux tells it.
struct Translated {
    plane: Plane,
    linux: Connections,
}

impl Translated {
    fn start() -> Translated {
        let plane = Plane::start(CONFIG);
        let linux = plane.connections.clone();
        Translated { plane, linux }
    }

    fn now_ms(&self) -> u64 {
        self.plane.now.at_ns / 1_000_000
    }

    fn round(&mut self, model: &Model, passed: Duration) {
        self.plane.now = self.plane.now.after(passed);
        for over in self.linux.pass(self.plane.now) {
            let (now_ms, kept_ms) = (self.now_ms(), kept_ms(&over));
            let silent_ms = model.silence_ms(over.id, now_ms.saturating_sub(kept_ms), now_ms);
            let least_ms = (kept_ms * 2 / 3).saturating_sub(LOOK_MS);
            assert!(
                model.has_failed || silent_ms >= least_ms,
                "{over:?} ends, and was never silent for longer than {silent_ms} ms"
            );
        }
        self.plane.round();
    }

    /// A worker carries a packet, if it may.
    fn carry(&self, model: &mut Model, n: u32, is_reply: bool) {
        let entry = entry(n, Status::default());
        let tuple = if is_reply { entry.reply } else { entry.original };
        let nat = self.plane.daemon.linux.nat.as_ref().expect("learns");
        let Some(found) = nat.bindings().find(&tuple) else { return };
        let is_carried = found.binding.is_live()
            && (found.direction == Direction::Original || found.binding.carries_both());
        if is_carried {
            found.binding.count(found.direction, 100);
            model.alive_ms.entry(n).or_default().push(self.now_ms());
        }
    }

    fn take(&mut self, model: &mut Model, step: &Step) {
        match *step {
            Step::Sees(n, status) => {
                self.linux.sees(entry(n, status));
                model.alive_ms.entry(n).or_default().push(self.now_ms());
            }
            Step::Ends(n) => self.linux.end(n),
            Step::Carries(n, is_reply) => self.carry(model, n, is_reply),
            Step::Keeps(n, seconds) => {
                for _ in 0..seconds {
                    self.carry(model, n, false);
                    self.take(model, &Step::Pass(1));
                }
            }
            Step::Rules(rules) => self.linux.set_rules(rules),
            Step::NewsLost => self.linux.lose_news(),
            Step::Fails(requests) => {
                self.linux.fail(requests);
                model.has_failed = true;
            }
            Step::Link(index, is_up) => {
                let name = PORTS[index as usize - 2];
                self.plane.linux.put(Change::Link(link(index, name, is_up)));
            }
            Step::LinkGone(index) => {
                self.plane.linux.remove(|c| matches!(c, Change::Link(link) if link.index == index));
            }
            Step::PortGone(ifindex) => {
                assert!(self.plane.events.send(Event::PortGone { ifindex }));
            }
            Step::Pass(seconds) => {
                for _ in 0..4 * seconds {
                    self.round(model, Duration::from_millis(250));
                }
            }
        }
    }

    /// Connections of Linux are known, and taken by every port that is open.
    fn hold(&self, model: &Model) {
        let bindings = self.plane.daemon.linux.nat.as_ref().expect("learns").bindings();
        let mut flows = BTreeSet::new();
        for entry in self.linux.there() {
            let found = bindings.find(&entry.original).filter(|found| found.binding.is_live());
            let (original, reply) = entry.carried();
            assert_eq!(found.is_some(), original, "{entry:?}: {model:?}");
            let Some(found) = found else { continue };
            assert!(!reply || found.binding.carries_both(), "{entry:?}");
            if found.binding.is_translated() {
                flows.extend([entry.original, entry.reply].map(flow));
            }
        }
        let carried = self.linux.there().iter().filter(|entry| entry.carried().0).count();
        assert_eq!(bindings.len(), 2 * carried, "{model:?}");
        let ip = Ipv4Addr::new(203, 0, 113, 9).into();
        assert_eq!(bindings.asks(ip), self.linux.rules()[0]);
        for (name, taken) in self.plane.hardware.taken() {
            assert_eq!(taken.flows, flows, "{name}: {model:?}");
        }
    }
}

fn flow(tuple: Tuple) -> Flow {
    let Tuple { src, dst, protocol, src_port, dst_port } = tuple;
    Flow { src, dst, protocol, src_port, dst_port }
}

fn run(steps: &[(Step, bool)]) {
    let mut translated = Translated::start();
    let mut model = Model::default();
    translated.plane.settle();
    for (step, is_heard) in steps {
        translated.take(&mut model, step);
        // Several things may have happened when a round begins, and news of all of them may be lost.
        if *is_heard {
            translated.round(&model, Duration::from_millis(1));
        }
    }
    translated.linux.fail(0);
    translated.take(&mut model, &Step::Pass(RETRY_INTERVAL.as_secs()));
    translated.plane.settle();
    translated.plane.settle();
    translated.hold(&model);
}

#[test]
fn what_could_not_be_read_after_a_loss_is_read_later() {
    let confirmed = Status::CONFIRMED;
    let steps = [
        (Step::Sees(7, confirmed), true),
        (Step::Fails(1), false),
        (Step::Sees(7, confirmed.with(Status::SEEN_REPLY)), false),
        (Step::NewsLost, true),
    ];
    run(&steps);
}

/// Every connection has packets for longer than Linux would keep it without, and then none.
#[test]
fn what_has_packets_is_kept_alive_and_the_rest_ends() {
    let confirmed = Status::CONFIRMED;
    let answered = confirmed.with(Status::SEEN_REPLY);
    for status in [confirmed, answered, answered.with(Status::ASSURED)] {
        let (mut translated, mut model) = (Translated::start(), Model::default());
        let kept_s = kept_ms(&entry(1, status)) / 1000;
        for step in [Step::Sees(1, status), Step::Sees(2, status), Step::Keeps(1, 3 * kept_s)] {
            translated.take(&mut model, &step);
            translated.round(&model, Duration::from_millis(1));
        }
        let ids = |translated: &Translated| -> Vec<u32> {
            translated.linux.there().iter().map(|entry| entry.id).collect()
        };
        assert_eq!(ids(&translated), [1], "{status:?}: the second one had no packet");
        translated.take(&mut model, &Step::Pass(kept_s / 2));
        assert_eq!(ids(&translated), [1], "{status:?}");
        translated.take(&mut model, &Step::Pass(kept_s + 10));
        assert!(ids(&translated).is_empty(), "{status:?}");
    }
}

/// It was answered, which was lost: it is not given the shorter time of one that was not.
#[test]
fn an_answer_that_was_not_heard_shortens_no_time() {
    let answered = Status::CONFIRMED.with(Status::SEEN_REPLY);
    // Connections are looked at in turn: one of these moments is that of this one.
    for moment in 0..21 {
        let (mut translated, mut model) = (Translated::start(), Model::default());
        translated.take(&mut model, &Step::Sees(1, Status::CONFIRMED));
        translated.take(&mut model, &Step::Pass(11));
        for _ in 0..moment {
            translated.round(&model, Duration::from_millis(250));
        }
        for step in [Step::Carries(1, false), Step::Sees(1, answered), Step::NewsLost] {
            translated.take(&mut model, &step);
        }
        translated.take(&mut model, &Step::Pass(60));
        assert_eq!(translated.linux.there().len(), 1, "{moment}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_connections_are_known_taken_and_kept(
        steps in prop::collection::vec((step(), prop::bool::weighted(0.7)), 1..40)
    ) {
        run(&steps);
    }
}
