//! Dependence of the portable version's time on keys or text, in the manner of dudect (Reparaz, Balasch and
//! Verbauwhede, 2017): the same work with one fixed secret and with ever other ones takes turns at random, and Welch's t-test says whether the
//! two times differ.
//!
//! `cargo run --release -p culvert-engine-gm --example leak -- [ROUNDS]`
//!
//! For each part a value of t; beyond 10 either way a difference is sure, and the exit status is 1. Below it none was seen with as
//! many rounds: that is all that such a test can say.

use std::process::ExitCode;
use std::time::Instant;

use crypto::{Engine, IcvLen, Integrity, Job, JobStatus, Keys, Op, Provider, Session, Suite};
use engine_gm::GmProvider;

/// Bytes of text, and how many secrets take turns.
const LEN: usize = 240;
const SECRETS: usize = 64;

/// Beyond this a difference is sure.
const SURE: f64 = 10.0;

fn main() -> ExitCode {
    let rounds = std::env::args().nth(1).map_or(200_000, |arg| arg.parse().expect("a number"));
    let provider = GmProvider::all().next().expect("the portable version");
    let mut random = Random(1);
    let mut is_even = true;
    let cbc = Suite::Separate { cipher: crypto::Cipher::Sm4Cbc, integrity: Integrity::Sm3_256 };
    for suite in [Suite::Sm4Gcm { icv: IcvLen::Icv16 }, cbc] {
        for part in ["key", "text"] {
            let t = measure(&provider, suite, part == "key", rounds, &mut random);
            println!("{suite} {part}: t = {t:.2}");
            is_even &= t.abs() < SURE;
        }
    }
    if is_even { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// t of times with the first secret against times with the others.
fn measure(
    provider: &dyn Provider,
    suite: Suite,
    of_keys: bool,
    rounds: usize,
    random: &mut Random,
) -> f64 {
    let mut engine = provider.engine().expect("an engine");
    let mut keys = || Keys {
        cipher: random.bytes(suite.cipher_key_len_bytes()),
        salt: random.bytes(suite.salt_len_bytes()),
        auth: random.bytes(suite.auth_key_len_bytes()),
    };
    // The fixed secret is there as often as the others are, so that memory makes no difference: the first half of each list.
    let fixed = keys();
    let all =
        (0..2 * SECRETS).map(|at| if at < SECRETS || !of_keys { fixed.clone() } else { keys() });
    let sessions: Vec<Session> =
        all.map(|keys| provider.session(suite, &keys).expect("a session")).collect();
    // A table would hold zeros most unevenly.
    let text = |at| if at < SECRETS || of_keys { vec![0; LEN] } else { random.bytes(LEN) };
    let texts: Vec<Vec<u8>> = (0..2 * SECRETS).map(text).collect();
    let mut times = [Vec::new(), Vec::new()];
    let mut packet = vec![0; 8 + suite.iv_len_bytes() + LEN + suite.icv_len_bytes()];
    for _ in 0..rounds {
        let class = (random.next() & 1) as usize;
        let secret = class * SECRETS + random.next() as usize % SECRETS;
        let (session, text) = (&sessions[secret], &texts[secret]);
        packet[8 + suite.iv_len_bytes()..][..LEN].copy_from_slice(text);
        times[class].push(run(&mut *engine, session, &mut packet));
    }
    // The slowest tenth is what else ran on the machine.
    let mut all: Vec<f64> = times.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let limit = all[all.len() * 9 / 10];
    let [fixed, other] =
        times.map(|times| Moments::of(times.into_iter().filter(|time| *time < limit)));
    (fixed.mean - other.mean) / (fixed.variance / fixed.count + other.variance / other.count).sqrt()
}

fn run(engine: &mut dyn Engine, session: &Session, packet: &mut [u8]) -> f64 {
    let mut jobs = [Job::esp(session, Op::Seal, packet, None)];
    let begun = Instant::now();
    engine.run(&mut jobs);
    let time = begun.elapsed();
    assert_eq!(jobs[0].status, JobStatus::Done);
    time.as_nanos() as f64
}

struct Moments {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Moments {
    fn of(times: impl Iterator<Item = f64>) -> Moments {
        let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
        for time in times {
            count += 1.0;
            let off = time - mean;
            mean += off / count;
            squares += off * (time - mean);
        }
        Moments { count, mean, variance: squares / (count - 1.0) }
    }
}

/// Reproducible numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
