//! Cost of the engine for each byte of text, beside OpenSSL's functions: cycles of the time stamp counter.
//!
//! `cargo run --release -p culvert-engine-gm --example speed -- [TEXT_LEN...]`
//!
//! Bursts of 64 packets under one key, in memory that stays near. All take turns, and each figure is that
//! of the fastest burst: what else runs on the machine is not in it.

use std::time::Instant;

use crypto::{Engine, IcvLen, Integrity, Job, JobStatus, Keys, Op, Provider, Session, Suite};
use engine_gm::GmProvider;
use engine_openssl::OpensslProvider;

const BURST_LEN: usize = 64;
const TURNS: usize = 11;

fn main() {
    let lens: Vec<usize> =
        std::env::args().skip(1).map(|arg| arg.parse().expect("a length in bytes")).collect();
    let lens = if lens.is_empty() { vec![64, 512, 1408] } else { lens };
    let mut providers: Vec<(String, Box<dyn Provider>)> =
        GmProvider::all().map(|gm| (gm.description(), Box::new(gm) as Box<dyn Provider>)).collect();
    match OpensslProvider::new() {
        Ok(openssl) => providers.push(("OpenSSL's engine".to_owned(), Box::new(openssl))),
        Err(error) => println!("{error}"),
    }
    let separate = |cipher, integrity| Suite::Separate { cipher, integrity };
    let suites = [
        Suite::Sm4Gcm { icv: IcvLen::Icv16 },
        separate(crypto::Cipher::Sm4Cbc, Integrity::Sm3_256),
        separate(crypto::Cipher::Sm4Ctr, Integrity::Sm3_256),
        Suite::integrity_only(Integrity::Sm3_256),
    ];
    let clock = Clock::new();
    println!(
        "{:10} {:>5} {:>6} {:20} {:>10} {:>10}",
        "suite", "op", "text", "by", "cycles/B", "Gbit/s"
    );
    for suite in suites {
        for len in &lens {
            let mut beds: Vec<(String, Bed)> = providers
                .iter()
                .filter(|(_, provider)| provider.supports(suite))
                .map(|(name, provider)| (name.clone(), Bed::new(&**provider, suite, *len)))
                .collect();
            for op in [Op::Seal, Op::Open] {
                let mut turns = vec![Vec::new(); beds.len()];
                for _ in 0..TURNS {
                    for ((_, bed), turns) in beds.iter_mut().zip(&mut turns) {
                        turns.push(bed.turn(op));
                    }
                }
                for ((name, _), turns) in beds.iter().zip(&mut turns) {
                    turns.sort_by(f64::total_cmp);
                    let seconds = turns[0];
                    let (cycles, bits) = (seconds * clock.hertz, 8e-9 / seconds);
                    let op = if op == Op::Seal { "seal" } else { "open" };
                    println!(
                        "{:10} {op:>5} {len:>6} {name:20} {cycles:>10.2} {bits:>10.2}",
                        suite.to_string()
                    );
                }
            }
        }
    }
}

/// How often the time stamp counter counts.
struct Clock {
    hertz: f64,
}

impl Clock {
    fn new() -> Clock {
        let (begun, ticks) = (Instant::now(), ticks());
        while begun.elapsed().as_millis() < 50 {}
        Clock { hertz: (self::ticks() - ticks) as f64 / begun.elapsed().as_secs_f64() }
    }
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds, where there is no such counter.
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    use std::sync::LazyLock;
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGUN.elapsed().as_nanos() as u64
}

struct Bed {
    session: Session,
    engine: Box<dyn Engine>,
    plain: Vec<Vec<u8>>,
    sealed: Vec<Vec<u8>>,
    len: usize,
}

impl Bed {
    fn new(provider: &dyn Provider, suite: Suite, len: usize) -> Bed {
        let keys = Keys {
            cipher: vec![1; suite.cipher_key_len_bytes()],
            salt: vec![2; suite.salt_len_bytes()],
            auth: vec![3; suite.auth_key_len_bytes()],
        };
        let session = provider.session(suite, &keys).expect("a session");
        let packet = vec![7; 8 + suite.iv_len_bytes() + len + suite.icv_len_bytes()];
        let mut bed = Bed {
            session,
            engine: provider.engine().expect("an engine"),
            plain: vec![packet.clone(); BURST_LEN],
            sealed: vec![packet; BURST_LEN],
            len,
        };
        bed.run(Op::Seal, true);
        bed
    }

    /// Runs one burst: packets that are sealed again and again, or copies of sealed ones.
    fn run(&mut self, op: Op, copy: bool) -> f64 {
        if copy {
            let from = if op == Op::Seal { &self.plain } else { &self.sealed };
            let mut work = from.clone();
            let seconds = burst(&mut *self.engine, &self.session, op, &mut work);
            if op == Op::Seal {
                self.sealed = work;
            }
            return seconds;
        }
        burst(&mut *self.engine, &self.session, op, &mut self.plain)
    }

    /// Seconds for each byte of text.
    fn turn(&mut self, op: Op) -> f64 {
        let rounds = (2_000_000 / (self.len * BURST_LEN)).clamp(3, 200);
        let bursts = (0..rounds).map(|_| self.run(op, op == Op::Open));
        bursts.fold(f64::INFINITY, f64::min) / (BURST_LEN * self.len) as f64
    }
}

fn burst(engine: &mut dyn Engine, session: &Session, op: Op, packets: &mut [Vec<u8>]) -> f64 {
    let mut jobs: Vec<Job<'_>> =
        packets.iter_mut().map(|packet| Job::esp(session, op, packet, None)).collect();
    let begun = Instant::now();
    engine.run(&mut jobs);
    let seconds = begun.elapsed().as_secs_f64();
    assert!(jobs.iter().all(|job| job.status == JobStatus::Done));
    seconds
}
