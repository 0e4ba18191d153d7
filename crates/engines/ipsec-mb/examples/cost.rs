//! Cost of the engine over the bare library: cycles of the time stamp counter for each packet.
//!
//! `cargo run --release -p culvert-ipsec-mb --example cost -- [SESSIONS [FRAMES]]`
//!
//! Runs bursts of 64 packets over shuffled frames of 2048 bytes, so that with many frames (8192 by
//! default) packets come from beyond the second-level cache, except for their headers, which a
//! gateway has just written or read; sessions take turns packet by packet.
//! Each figure is the median of eleven turns in which bare library and engine alternate.

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("this engine needs an x86-64 processor");
}

#[cfg(target_arch = "x86_64")]
fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let sessions = args.next().unwrap_or(1).max(1);
    let frames = args.next().unwrap_or(8192).max(cost::BURST_LEN);
    match ipsec_mb::IpsecMbProvider::new() {
        Ok(provider) => cost::table(&provider, sessions, frames),
        Err(error) => println!("{error}"),
    }
}

#[cfg(target_arch = "x86_64")]
mod cost {
    use crypto::Suite;
    use crypto::{
        AesKey, Bare, Cipher, Engine, IcvLen, Integrity, Job, JobStatus, Keys, Op, Provider,
        Session,
    };
    use mem::Cache;

    pub const BURST_LEN: usize = 64;
    const FRAME_LEN: usize = 2048;
    const HEADROOM: usize = 256;
    const TURNS: usize = 11;

    const SUITES: [Suite; 5] = [
        Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 },
        Suite::AesGcm { key: AesKey::Aes256, icv: IcvLen::Icv16 },
        Suite::Separate { cipher: CBC, integrity: Integrity::Sha1_96 },
        Suite::Separate { cipher: CBC, integrity: Integrity::Sha256_128 },
        Suite::ChaCha20Poly1305,
    ];

    const CBC: Cipher = Cipher::AesCbc(AesKey::Aes128);

    /// Text lengths in bytes; multiples of AES's block.
    const TEXT_LENS: [usize; 3] = [64, 512, 1408];

    pub fn table(provider: &dyn Provider, sessions: usize, frames: usize) {
        println!("{}, {sessions} sessions, {frames} frames", provider.description());
        println!("{:18} {:>5} {:>5} {:>7} {:>7}", "suite", "op", "text", "bare", "engine");
        for suite in SUITES {
            for text_len in TEXT_LENS {
                let mut bed = Bed::new(provider, suite, text_len, sessions, frames);
                let (seal, open) = bed.measure();
                for (op, [bare, engine]) in [("seal", seal), ("open", open)] {
                    let suite = suite.to_string();
                    println!("{suite:18} {op:>5} {text_len:>5} {bare:>7.1} {engine:>7.1}");
                }
            }
        }
    }

    struct Bed {
        memory: Vec<u8>,
        order: Vec<usize>,
        packet_len: usize,
        sessions: Vec<Session>,
        engine: Box<dyn Engine>,
        bare: Box<dyn Bare>,
    }

    impl Bed {
        fn new(
            provider: &dyn Provider,
            suite: Suite,
            text_len: usize,
            sessions: usize,
            frames: usize,
        ) -> Bed {
            let keys = Keys {
                cipher: vec![1; suite.cipher_key_len_bytes()],
                salt: vec![2; suite.salt_len_bytes()],
                auth: vec![3; suite.auth_key_len_bytes()],
            };
            let mut order: Vec<usize> = (0..frames).collect();
            let mut state = 0x9e37_79b9_7f4a_7c15_u64;
            for at in (1..frames).rev() {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                order.swap(at, (state >> 33) as usize % (at + 1));
            }
            Bed {
                memory: vec![7; frames * FRAME_LEN],
                order,
                packet_len: 8 + suite.iv_len_bytes() + text_len + suite.icv_len_bytes(),
                sessions: (0..sessions).map(|_| provider.session(suite, &keys).unwrap()).collect(),
                engine: provider.engine().unwrap(),
                bare: provider.bare(suite, &keys).unwrap(),
            }
        }

        /// Median cycles per packet, bare and engine, for sealing and for opening.
        fn measure(&mut self) -> ([f64; 2], [f64; 2]) {
            let mut seal = [vec![], vec![]];
            let mut open = [vec![], vec![]];
            for _ in 0..TURNS {
                seal[0].push(self.bare(Op::Seal));
                open[0].push(self.bare(Op::Open));
                seal[1].push(self.engine(Op::Seal));
                open[1].push(self.engine(Op::Open));
            }
            (seal.map(median), open.map(median))
        }

        fn bare(&mut self, op: Op) -> f64 {
            let Bed { memory, order, packet_len, bare, .. } = self;
            let mut packets = packets(memory, order, *packet_len);
            let (mut cycles, mut done) = (0, 0);
            for burst in packets.chunks_mut(BURST_LEN) {
                burst.iter_mut().for_each(touch);
                let from = now();
                done += bare.run(op, burst);
                cycles += now() - from;
            }
            assert_eq!(done, packets.len());
            cycles as f64 / packets.len() as f64
        }

        fn engine(&mut self, op: Op) -> f64 {
            let Bed { memory, order, packet_len, sessions, engine, .. } = self;
            let mut packets = packets(memory, order, *packet_len);
            let mut sessions = sessions.iter().cycle();
            let mut jobs: Vec<Job<'_>> = Vec::with_capacity(BURST_LEN);
            let mut cycles = 0;
            for burst in packets.chunks_mut(BURST_LEN) {
                burst.iter_mut().for_each(touch);
                let burst = burst.iter_mut().zip(&mut sessions);
                jobs.extend(burst.map(|(packet, session)| Job::esp(session, op, packet, None)));
                let from = now();
                jobs.iter().for_each(|job| job.session.prefetch_end(Cache::First));
                engine.run(&mut jobs);
                cycles += now() - from;
                assert!(jobs.iter().all(|job| job.status == JobStatus::Done));
                jobs.clear();
            }
            cycles as f64 / packets.len() as f64
        }
    }

    /// The frames' packets in the order given.
    fn packets<'a>(memory: &'a mut [u8], order: &[usize], len: usize) -> Vec<&'a mut [u8]> {
        let mut frames: Vec<Option<&mut [u8]>> = memory
            .chunks_mut(FRAME_LEN)
            .map(|frame| frame.get_mut(HEADROOM..HEADROOM + len))
            .collect();
        order.iter().filter_map(|index| frames[*index].take()).collect()
    }

    /// Brings a packet's header near, which in a gateway has just been written or read.
    fn touch(packet: &mut &mut [u8]) {
        let first = std::hint::black_box(packet[0]);
        packet[0] = first;
    }

    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    fn now() -> u64 {
        // SAFETY: every x86-64 processor that Linux runs on has a time stamp counter.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
}
