//! Engine against engine, with everything mixed in one run.

use crypto::{Engine, Job, JobStatus, Op, Provider, Session, Suite};
use engine_gm::GmProvider;
use engine_openssl::OpensslProvider;
use ipsec_mb::{CodePath, IpsecMbProvider};
use proptest::prelude::*;

use crate::common::{Random, keys, pair, shared};

/// Sessions per suite.
const SESSIONS: usize = 3;

/// An operation on one packet.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Seal the packet.
    Seal,
    /// Open it as it was sealed.
    Open,
    /// Open it with one bit flipped; the number picks the bit, those of `seq_hi` included.
    Forged(u64),
    /// Give it a length that does not fit.
    Short,
}

/// One packet and what is done with it.
#[derive(Clone, Debug)]
pub struct Spec {
    pub suite: usize,
    pub session: usize,
    pub text_len: usize,
    pub seq_hi: Option<u32>,
    pub what: What,
    pub seed: u64,
}

/// Two engines with sessions of every suite.
pub struct Bench {
    suites: Vec<Suite>,
    sessions: [Vec<Vec<Session>>; 2],
    engines: [Box<dyn Engine>; 2],
}

/// One engine's result for one packet.
type Outcome = (JobStatus, Vec<u8>);

impl Bench {
    pub fn new() -> Bench {
        Bench::of(pair())
    }

    pub fn of(pair: [Box<dyn Provider>; 2]) -> Bench {
        let suites = shared(&pair);
        let sessions = |provider: &dyn Provider| {
            suites
                .iter()
                .enumerate()
                .map(|(index, suite)| {
                    (0..SESSIONS)
                        .map(|seed| {
                            let keys = keys(*suite, (index * SESSIONS + seed) as u64);
                            provider.session(*suite, &keys).unwrap()
                        })
                        .collect()
                })
                .collect()
        };
        Bench {
            sessions: [sessions(&*pair[0]), sessions(&*pair[1])],
            suites,
            engines: [pair[0].engine().unwrap(), pair[1].engine().unwrap()],
        }
    }

    /// Runs the packets as one batch on each engine and checks every outcome.
    pub fn check(&mut self, specs: &[Spec]) {
        let made: Vec<Made> = specs.iter().map(|spec| self.make(spec)).collect();
        let outcomes = [self.run(0, &made), self.run(1, &made)];
        for (index, made) in made.iter().enumerate() {
            let (a, b) = (&outcomes[0][index], &outcomes[1][index]);
            for (status, left) in [a, b] {
                made.check(*status, left);
            }
            assert_eq!(a.0, b.0, "{:?}", made.spec);
            if matches!(made.spec.what, What::Seal) {
                assert_eq!(a.1, b.1, "{:?}", made.spec);
            }
        }
    }

    /// Prepares a packet; what is to be opened is sealed alone by the first engine.
    fn make(&mut self, spec: &Spec) -> Made {
        let suite = self.suites[spec.suite];
        let (iv_len, icv_len) = (suite.iv_len_bytes(), suite.icv_len_bytes());
        let text_len = spec.text_len - spec.text_len % suite.block_bytes();
        let plain = Random(spec.seed).bytes(8 + iv_len + text_len + icv_len);
        let mut packet = plain.clone();
        let mut seq_hi = spec.seq_hi;
        if matches!(spec.what, What::Open | What::Forged(_)) {
            let session = &self.sessions[0][spec.suite][spec.session];
            let mut jobs = [Job::esp(session, Op::Seal, &mut packet, seq_hi)];
            self.engines[0].run(&mut jobs);
            assert_eq!(jobs[0].status, JobStatus::Done);
        }
        match spec.what {
            What::Forged(pick) => {
                let bits = packet.len() * 8;
                let bit = (pick % (bits + if seq_hi.is_some() { 32 } else { 0 }) as u64) as usize;
                match packet.get_mut(bit / 8) {
                    Some(byte) => *byte ^= 1 << (bit % 8),
                    None => seq_hi = seq_hi.map(|hi| hi ^ 1 << (bit - bits)),
                }
            }
            What::Short => packet.truncate(8 + iv_len + icv_len - 1),
            What::Seal | What::Open => {}
        }
        let text = 8 + iv_len..(packet.len().max(8 + iv_len + icv_len) - icv_len);
        Made { spec: spec.clone(), suite, plain, packet, seq_hi, text }
    }

    fn run(&mut self, engine: usize, made: &[Made]) -> Vec<Outcome> {
        let mut packets: Vec<Vec<u8>> = made.iter().map(|made| made.packet.clone()).collect();
        let sessions = &self.sessions[engine];
        let mut jobs: Vec<Job<'_>> = made
            .iter()
            .zip(&mut packets)
            .map(|(made, packet)| {
                let session = &sessions[made.spec.suite][made.spec.session];
                Job::esp(session, made.op(), packet, made.seq_hi)
            })
            .collect();
        self.engines[engine].run(&mut jobs);
        let statuses: Vec<JobStatus> = jobs.iter().map(|job| job.status).collect();
        statuses.into_iter().zip(packets).collect()
    }
}

/// A packet that is ready to run.
struct Made {
    spec: Spec,
    suite: Suite,
    plain: Vec<u8>,
    packet: Vec<u8>,
    seq_hi: Option<u32>,
    text: std::ops::Range<usize>,
}

impl Made {
    fn op(&self) -> Op {
        match self.spec.what {
            What::Seal => Op::Seal,
            What::Open | What::Forged(_) | What::Short => Op::Open,
        }
    }

    /// Checks that hold for every engine.
    fn check(&self, status: JobStatus, left: &[u8]) {
        let label = format!("{} {:?}", self.suite, self.spec);
        let head = ..self.text.start;
        match self.spec.what {
            What::Seal => {
                assert_eq!(status, JobStatus::Done, "{label}");
                assert_eq!(left[head], self.plain[head], "{label}");
                let null = !self.suite.is_confidential();
                let kept = left[self.text.clone()] == self.plain[self.text.clone()];
                assert!(self.text.len() < 16 || kept == null, "{label}");
            }
            What::Open => {
                assert_eq!(status, JobStatus::Done, "{label}");
                assert_eq!(left[..self.text.end], self.plain[..self.text.end], "{label}");
            }
            What::Forged(_) => {
                assert_eq!(status, JobStatus::BadIcv, "{label}");
                assert_eq!(left[head], self.packet[head], "{label}");
                let left = &left[self.text.clone()];
                let zero = left.iter().all(|byte| *byte == 0);
                let as_received = left == &self.packet[self.text.clone()];
                let null = !self.suite.is_confidential();
                assert!(zero || as_received && !null, "{label}");
            }
            What::Short => {
                assert_eq!(status, JobStatus::Failed, "{label}");
                assert_eq!(left, self.packet, "{label}");
            }
        }
    }
}

fn spec() -> impl Strategy<Value = Spec> {
    let text_len = prop_oneof![0..64usize, 0..1500usize, 0..9000usize];
    let what = prop_oneof![
        4 => Just(What::Seal),
        4 => Just(What::Open),
        3 => any::<u64>().prop_map(What::Forged),
        1 => Just(What::Short),
    ];
    (0..shared(&pair()).len(), 0..SESSIONS, text_len, any::<Option<u32>>(), what, any::<u64>())
        .prop_map(|(suite, session, text_len, seq_hi, what, seed)| Spec {
            suite,
            session,
            text_len,
            seq_hi,
            what,
            seed,
        })
}

/// OpenSSL has all of it but SM4-GCM, which the implementations have among themselves.
fn pairs_of_sm4_and_sm3() -> Vec<[Box<dyn Provider>; 2]> {
    let portable = || GmProvider::all().next().unwrap();
    let mut pairs: Vec<[Box<dyn Provider>; 2]> =
        vec![[Box::new(OpensslProvider::new().unwrap()), Box::new(portable())]];
    pairs.extend(GmProvider::all().skip(1).map(|faster| {
        let pair: [Box<dyn Provider>; 2] = [Box::new(portable()), Box::new(faster)];
        pair
    }));
    pairs
}

/// OpenSSL beside the library's code for each generation of processors that this one can stand for.
fn pairs_of_code_paths() -> impl Iterator<Item = [Box<dyn Provider>; 2]> {
    CodePath::all().filter_map(|path| {
        let library = IpsecMbProvider::on(path).ok()?;
        Some([Box::new(OpensslProvider::new().unwrap()) as Box<dyn Provider>, Box::new(library)])
    })
}

/// Lengths in every combination of what is left behind whole vectors and blocks, in one run.
#[test]
fn engines_agree_about_every_length() {
    for pair in pairs_of_sm4_and_sm3().into_iter().chain(pairs_of_code_paths()) {
        let mut bench = Bench::of(pair);
        let mut random = Random(4);
        for suite in 0..bench.suites.len() {
            let specs: Vec<Spec> = (0..100)
                .map(|number| Spec {
                    suite,
                    session: number % SESSIONS,
                    text_len: if number < 60 { 16 * number } else { random.below(1600) },
                    seq_hi: (number % 3 == 0).then_some(number as u32),
                    what: [What::Seal, What::Open, What::Forged(random.next()), What::Seal]
                        [number % 4],
                    seed: random.next(),
                })
                .collect();
            bench.check(&specs);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn engines_agree(specs in prop::collection::vec(spec(), 0..140)) {
        Bench::new().check(&specs);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn implementations_of_sm4_and_sm3_agree(specs in prop::collection::vec(spec(), 0..70)) {
        for pair in pairs_of_sm4_and_sm3() {
            let mut bench = Bench::of(pair);
            let mut specs = specs.clone();
            specs.iter_mut().for_each(|spec| spec.suite %= bench.suites.len());
            bench.check(&specs);
        }
    }
}
