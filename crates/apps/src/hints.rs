//! Knowledge of flows ahead: words that one thread writes and all read, so that a flow's first packet finds its
//! application.
//!
//! ```text
//!   63          32 31            12 11         0
//!   | tag of key | until, in 4 s  | application |     0: empty
//! ```
//!
//! A table has a fixed size: a key has eight places, and a newcomer takes one that is empty or over, else the one that ends
//! soonest. A key is a keyed hash, so nobody outside chooses which keys share places. A tag may be another key's in one of
//! 2^29 look-ups; the flow's own content corrects it.

use core::hash::Hash;
use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::application::AppId;
use crate::flow_id::{End, FlowId};

/// Places of a key.
const WAYS: usize = 8;

/// Seconds of one step of a word's time.
const STEP_S: u64 = 4;

/// Steps after which the time of words begins anew: 48 days, far more than any word lasts.
const STEPS: u64 = 1 << 20;

/// Stands for servers that several applications are at.
const SEVERAL: u16 = 0xfff;

/// Seconds that a flow's application is kept after it was asked for last.
const FLOW_S: u64 = 4 * 3600;

/// Seconds that a server's application is kept after a flow has shown it.
const SERVER_S: u64 = 600;

/// Seconds that an answer counts at least: programs use addresses for longer than they may.
const LEAST_ANSWER_S: u64 = 60;

/// Seconds that an answer counts at most.
const MOST_ANSWER_S: u64 = 3600;

/// A table of words.
#[derive(Debug)]
struct Table(Box<[[AtomicU64; WAYS]]>);

/// Applications of flows, of servers, and of addresses that name servers gave. One thread learns; all may ask.
#[derive(Debug)]
pub struct Hints {
    seed: ahash::RandomState,
    flows: Table,
    servers: Table,
    answers: Table,
}

impl Hints {
    /// Tables with room for so many flows, and for as many servers and answers, rounded up to a power of two: 24 bytes each.
    pub fn new(room: usize) -> Hints {
        let [flows, servers, answers] = core::array::from_fn(|_| Table::new(room));
        Hints { seed: ahash::RandomState::new(), flows, servers, answers }
    }

    /// The application of a flow, which is kept for longer then.
    pub fn flow(&self, flow: &FlowId, now_ns: u64) -> Option<AppId> {
        let key = self.key(flow);
        let app = self.flows.find(key, now_ns)?;
        self.flows.put(key, app, now_ns, FLOW_S);
        Some(AppId::of_index(app))
    }

    /// The application that a flow between two ends will most likely have, by the answers that the client got, and by
    /// earlier flows. Either end may be the server.
    pub fn likely(&self, protocol: u8, one: End, other: End, now_ns: u64) -> Option<Likely> {
        let ends = [(one, other), (other, one)];
        let answer = ends.iter().find_map(|(client, server)| self.answer(client, server, now_ns));
        if answer.is_some() {
            return answer.map(Likely::Answer);
        }
        let of_server =
            |(_, server): &(End, End)| self.known(&self.servers, (protocol, *server), now_ns);
        ends.iter().find_map(of_server).map(Likely::Earlier)
    }

    fn answer(&self, client: &End, server: &End, now_ns: u64) -> Option<AppId> {
        let of = |client: Option<IpAddr>| self.known(&self.answers, (client, server.addr), now_ns);
        of(Some(client.addr)).or_else(|| of(None))
    }

    /// The application of a key, if it is one and is known.
    fn known(&self, table: &Table, key: impl Hash, now_ns: u64) -> Option<AppId> {
        let app = table.find(self.key(key), now_ns)?;
        let is_one = app != SEVERAL && app != AppId::UNKNOWN.index() as u16;
        is_one.then_some(AppId::of_index(app))
    }

    /// Notes the application of a flow. Any thread may: who knows it says the same.
    pub fn learn_flow(&self, flow: &FlowId, app: AppId, now_ns: u64) {
        self.flows.put(self.key(flow), app.index() as u16, now_ns, FLOW_S);
    }

    /// Notes that a flow of an application went to a server.
    pub(crate) fn learn_server(&self, protocol: u8, server: End, app: AppId, now_ns: u64) {
        self.servers.unite(self.key((protocol, server)), app, now_ns, SERVER_S);
    }

    /// Notes that a name of an application has an address; `client`: who was told so, none for all.
    pub(crate) fn learn_answer(
        &self,
        (client, server): (Option<IpAddr>, IpAddr),
        app: AppId,
        now_ns: u64,
        ttl_s: u32,
    ) {
        let s = u64::from(ttl_s).clamp(LEAST_ANSWER_S, MOST_ANSWER_S);
        self.answers.unite(self.key((client, server)), app, now_ns, s);
    }

    fn key(&self, key: impl Hash) -> u64 {
        self.seed.hash_one(key)
    }
}

/// The application that a flow will most likely have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likely {
    /// By an answer that the client got.
    Answer(AppId),
    /// By earlier flows to the server and port.
    Earlier(AppId),
}

impl Likely {
    /// Application of the flow.
    pub const fn application(self) -> AppId {
        match self {
            Likely::Answer(app) | Likely::Earlier(app) => app,
        }
    }
}

impl Table {
    fn new(room: usize) -> Table {
        let sets = room.div_ceil(WAYS).next_power_of_two();
        Table((0..sets).map(|_| [const { AtomicU64::new(0) }; WAYS]).collect())
    }

    fn set(&self, key: u64) -> &[AtomicU64] {
        let at = key as usize & (self.0.len() - 1);
        self.0.get(at).map_or(&[], |set| set)
    }

    fn find(&self, key: u64, now_ns: u64) -> Option<u16> {
        let words = self.set(key).iter().map(|word| word.load(Relaxed));
        let mut found = words.filter(|word| tag(*word) == tag_of(key) && left(*word, now_ns) > 0);
        found.next().map(|word| word as u16 & 0xfff)
    }

    fn put(&self, key: u64, app: u16, now_ns: u64, seconds: u64) {
        let set = self.set(key);
        let same = set.iter().position(|word| tag(word.load(Relaxed)) == tag_of(key));
        let least =
            || (0..set.len()).min_by_key(|at| set.get(*at).map(|w| left(w.load(Relaxed), now_ns)));
        if let Some(word) = same.or_else(least).and_then(|at| set.get(at)) {
            // A reader sees the old word or the new one; who is faster with the same key says the same.
            let until = (now_ns / NS_PER_S / STEP_S + seconds.div_ceil(STEP_S)) % STEPS;
            word.store(tag_of(key) << 32 | until << 12 | u64::from(app & 0xfff), Relaxed);
        }
    }

    /// Notes an application. Where there is another one already, they are several from then on.
    fn unite(&self, key: u64, app: AppId, now_ns: u64, seconds: u64) {
        let app = app.index() as u16;
        let app = match self.find(key, now_ns) {
            Some(before) if before != app => SEVERAL,
            _ => app,
        };
        self.put(key, app, now_ns, seconds);
    }
}

const NS_PER_S: u64 = 1_000_000_000;

const fn tag(word: u64) -> u64 {
    word >> 32
}

/// The upper half of a key, and never 0.
const fn tag_of(key: u64) -> u64 {
    key >> 32 | 1
}

/// Steps that a word is good for; 0 if it is over or empty.
const fn left(word: u64, now_ns: u64) -> u64 {
    if word == 0 {
        return 0;
    }
    let until = word >> 12 & (STEPS - 1);
    let left = until.wrapping_sub(now_ns / NS_PER_S / STEP_S) & (STEPS - 1);
    if left < STEPS / 2 { left } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = NS_PER_S;

    fn end(last: u8, port: u16) -> End {
        End { addr: [192, 0, 2, last].into(), port }
    }

    fn app(number: u16) -> AppId {
        AppId::of_index(number)
    }

    #[test]
    fn answers_count_for_who_was_told() {
        let hints = Hints::new(64);
        let (client, other, server) = (end(1, 4000), end(2, 4000), end(9, 443));
        hints.learn_answer((Some(client.addr), server.addr), app(7), 0, 300);
        let likely = |client, now_s| hints.likely(6, client, server, now_s * S);
        assert_eq!(likely(client, 1), Some(Likely::Answer(app(7))));
        assert_eq!(hints.likely(6, server, client, S), likely(client, 1), "either way");
        assert_eq!(likely(other, 1), None);
        assert_eq!(likely(client, 296), Some(Likely::Answer(app(7))));
        assert_eq!(likely(client, 300), None, "its time is over");
        hints.learn_answer((None, server.addr), app(8), 400 * S, 0);
        assert_eq!(likely(other, 456), Some(Likely::Answer(app(8))));
    }

    #[test]
    fn a_server_of_several_applications_tells_none() {
        let hints = Hints::new(64);
        let (client, server) = (end(1, 4000), end(9, 443));
        hints.learn_server(6, server, app(7), 0);
        hints.learn_server(6, server, app(7), S);
        let likely = |now_s| hints.likely(6, client, server, now_s * S);
        assert_eq!(likely(2), Some(Likely::Earlier(app(7))));
        hints.learn_server(6, server, AppId::UNKNOWN, 2 * S);
        assert_eq!(likely(3), None);
        hints.learn_server(6, server, app(7), 3 * S);
        assert_eq!(likely(4), None, "still");
        hints.learn_server(6, server, app(7), 700 * S);
        assert_eq!(likely(701), Some(Likely::Earlier(app(7))), "the others are long ago");
    }

    #[test]
    fn a_flow_that_goes_on_is_kept() {
        let hints = Hints::new(64);
        let flow = FlowId::new(17, end(1, 1), end(2, 2));
        hints.learn_flow(&flow, app(3), 0);
        for hour in [3, 6, 9] {
            assert_eq!(hints.flow(&flow, hour * 3600 * S), Some(app(3)));
        }
        assert_eq!(hints.flow(&flow, 14 * 3600 * S), None);
    }

    #[test]
    fn a_full_table_forgets_and_does_not_grow() {
        let hints = Hints::new(64);
        for n in 0..100_000u32 {
            let client = End { addr: n.to_be_bytes().into(), port: 1 };
            hints.learn_flow(&FlowId::new(6, client, end(9, 443)), app(9), u64::from(n) * S / 1000);
        }
        assert_eq!(hints.flows.0.len(), 8);
        let last = End { addr: 99_999u32.to_be_bytes().into(), port: 1 };
        assert_eq!(hints.flow(&FlowId::new(6, last, end(9, 443)), 100 * S), Some(app(9)));
    }
}
