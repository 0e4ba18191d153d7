//! The cipher alone: what bounds the gateway from above.
//!
//! Packets of one key that are ready for the cipher, in as many buffers as the gateway has, in
//! bursts; and nothing else. Where the provider has the library's own best call for that
//! ([`Provider::bare`]) it is used, else an engine. The packets begin at one of four cache lines of
//! their buffers, so that a burst does not crowd a few places of the first-level cache.
//!
//! With several numbers of SAs each has a key, packets are of any, and all go through an engine: the cycles that the
//! cipher loses when its keys lie in memory are lost to a gateway too.

use arrayvec::ArrayVec;
use crypto::{Bare, Engine, Job, JobStatus, Op, Provider, Session, Suite};
use io::{BURST_LEN, HEADROOM};
use mem::Cache;
use wire::ethernet::HEADER_LEN;

use crate::error::BenchError;
use crate::options::{Direction, Options};
use crate::pin::pinned;
use crate::random::Random;
use crate::row::Row;
use crate::rows::{Rows, label};
use crate::timing::{Repetitions, Timed, fill_gain};
use crate::world;

/// The bench `crypto`: each suite, size and direction.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn crypto(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    pinned(options.cpu, || {
        let mut rows = Rows::new(options, options.cases());
        for suite in &options.suites {
            for direction in &options.directions {
                for size in &options.sizes {
                    rows.begin(&label(*suite, *direction, *size));
                    rows.extend(of_each_number(options, *suite, *size, *direction)?);
                }
            }
        }
        Ok(rows.into_vec())
    })
}

/// A row for each number of SAs, measured in turns; the first is what the others are held against.
fn of_each_number(
    options: &Options<'_>,
    suite: Suite,
    size: usize,
    direction: Direction,
) -> Result<Vec<Row>, BenchError> {
    let is_bare = options.sas == [1];
    let raw = |sas: &usize| {
        let mut raw = match is_bare {
            true => Raw::new(options, suite, size, direction)?,
            false => {
                let cipher = Cipher::engine(options.provider, suite, direction, *sas)?;
                Raw::of(options, suite, size, direction, cipher)
            }
        };
        raw.once()?;
        Ok((raw, Repetitions::default()))
    };
    let mut all = options.sas.iter().map(raw).collect::<Result<Vec<_>, BenchError>>()?;
    for _ in 0..options.repeat {
        for (raw, done) in &mut all {
            done.0.push(raw.repetition()?);
        }
    }
    let first = all.first().map(|(_, done)| done.clone()).unwrap_or_default();
    let rows = all.iter().zip(&options.sas).enumerate().map(|(at, ((_, done), sas))| {
        let mut row = Row {
            bench: "crypto",
            engine: Some(options.provider.name()),
            suite: Some(suite.to_string()),
            direction: Some(direction),
            size_bytes: Some(size),
            sas: (!is_bare).then_some(*sas),
            cores: Some(1),
            ..Row::default()
        };
        done.fill(&mut row, options.allocations.is_some());
        if at > 0 {
            fill_gain(&mut row, done.rates().zip(first.rates()));
        }
        row
    });
    Ok(rows.collect())
}

/// Buffers full of packets, and an engine.
pub(crate) struct Raw<'o> {
    options: &'o Options<'o>,
    suite: Suite,
    direction: Direction,
    cipher: Cipher,
    /// The buffers' memory; where the packet of each lies is `order`.
    memory: Vec<u8>,
    /// Numbers of the buffers, in the order of the packets.
    order: Vec<usize>,
    /// SPI, sequence number, IV, text and ICV, in bytes.
    len: usize,
    /// Number of the next packet, and its IV.
    number: u64,
    /// Chooses the packets' SAs.
    random: Random,
}

impl<'o> Raw<'o> {
    pub(crate) fn new(
        options: &'o Options<'o>,
        suite: Suite,
        size: usize,
        direction: Direction,
    ) -> Result<Raw<'o>, BenchError> {
        let provider: &dyn Provider = options.provider;
        let keys = world::keys(suite, direction, 0);
        let cipher = match provider.bare(suite, &keys) {
            Some(bare) => Cipher::Bare(bare),
            None => Cipher::engine(provider, suite, direction, 1)?,
        };
        Ok(Raw::of(options, suite, size, direction, cipher))
    }

    fn of(
        options: &'o Options<'o>,
        suite: Suite,
        size: usize,
        direction: Direction,
        cipher: Cipher,
    ) -> Raw<'o> {
        let mut order: Vec<usize> = (0..options.frames as usize).collect();
        Random::new(1).shuffle(&mut order);
        // The trailer's two bytes, and padding (RFC 4303 §2.4).
        let text_len = (size + 2).next_multiple_of(suite.align_bytes());
        Raw {
            options,
            suite,
            direction,
            cipher,
            memory: vec![0x5a; order.len() * CHUNK_LEN],
            order,
            len: ESP_LEN + suite.iv_len_bytes() + text_len + suite.icv_len_bytes(),
            number: 1,
            random: Random::new(5),
        }
    }

    /// One pass over all packets: a warm-up, and a proof.
    pub(crate) fn once(&mut self) -> Result<(), BenchError> {
        self.pass(&mut Timed::default())
    }

    /// Runs until the time is over.
    pub(crate) fn repetition(&mut self) -> Result<Timed, BenchError> {
        let mut timed = Timed::within(self.options.patience);
        while timed.has_time(self.options.duration) {
            self.options.check_stop()?;
            self.pass(&mut timed)?;
        }
        Ok(timed)
    }

    fn pass(&mut self, timed: &mut Timed) -> Result<(), BenchError> {
        let mut packets: Vec<Option<&mut [u8]>> = (0..)
            .zip(self.memory.chunks_mut(CHUNK_LEN))
            .map(|(n, chunk)| {
                let at = HEADROOM + HEADER_LEN + OUTER_LEN + n % 4 * LINE_LEN;
                chunk.get_mut(at..at + self.len)
            })
            .collect();
        // In the order of the packets, which is not that of the memory.
        let mut packets: Vec<&mut [u8]> =
            self.order.iter().filter_map(|n| packets.get_mut(*n)?.take()).collect();
        for packet in &mut packets {
            let number = self.number.to_be_bytes();
            self.number += 1;
            for (place, byte) in packet.iter_mut().skip(4).zip(number.iter().skip(4)) {
                *place = *byte;
            }
            for (place, byte) in packet.iter_mut().skip(ESP_LEN).zip(number) {
                *place = byte;
            }
        }
        let mut all_done = true;
        let count = packets.len();
        let allocations = self.options.allocations;
        let cipher = &mut self.cipher;
        let sas = cipher.sas();
        let chosen: Vec<usize> = (0..count).map(|_| self.random.below(sas)).collect();
        let mut run = |op| {
            for (burst, chosen) in packets.chunks_mut(BURST_LEN).zip(chosen.chunks(BURST_LEN)) {
                all_done &= cipher.run(op, burst, chosen);
            }
        };
        match self.direction {
            Direction::Outbound => {
                timed.quiet_piece(count, allocations, || run(Op::Seal));
            }
            Direction::Inbound => {
                run(Op::Seal);
                timed.quiet_piece(count, allocations, || run(Op::Open));
            }
        }
        if all_done { Ok(()) } else { Err(BenchError::Wrong { suite: self.suite }) }
    }
}

/// Cipher that encrypts and decrypts.
enum Cipher {
    /// The library's best call.
    Bare(Box<dyn Bare>),
    /// Jobs, by the keys of many SAs: the gateway's, and, where it decrypts, its peers' to encrypt with, which lie
    /// elsewhere.
    Engine { engine: Box<dyn Engine>, own: Vec<Session>, peers: Vec<Session> },
}

impl Cipher {
    fn engine(
        provider: &dyn Provider,
        suite: Suite,
        direction: Direction,
        sas: usize,
    ) -> Result<Cipher, BenchError> {
        let session = |n: usize| provider.session(suite, &world::keys(suite, direction, n as u32));
        let sessions = || (0..sas).map(session).collect::<Result<Vec<Session>, _>>();
        let peers = match direction {
            Direction::Outbound => Vec::new(),
            Direction::Inbound => sessions()?,
        };
        Ok(Cipher::Engine { engine: provider.engine()?, own: sessions()?, peers })
    }

    /// How many SAs there are.
    fn sas(&self) -> usize {
        match self {
            Cipher::Bare(_) => 1,
            Cipher::Engine { own, .. } => own.len(),
        }
    }

    /// Runs a burst, each packet by the SA that was chosen for it; returns whether all of it was done.
    fn run(&mut self, op: Op, burst: &mut [&mut [u8]], chosen: &[usize]) -> bool {
        match self {
            Cipher::Bare(bare) => bare.run(op, burst) == burst.len(),
            Cipher::Engine { engine, own, peers } => {
                let sessions = match op {
                    Op::Seal if !peers.is_empty() => peers,
                    _ => own,
                };
                // The page that the keys are on, as the gateway does; the engine asks for the rest.
                if sessions.len() > 1 {
                    let chosen = chosen.iter().filter_map(|n| sessions.get(*n));
                    chosen.for_each(|session| session.prefetch_end(Cache::First));
                }
                let mut jobs: ArrayVec<Job<'_>, BURST_LEN> = ArrayVec::new();
                for (packet, n) in burst.iter_mut().zip(chosen) {
                    let Some(session) = sessions.get(*n) else { return false };
                    jobs.push(Job::esp(session, op, packet, None));
                }
                engine.run(&mut jobs);
                jobs.iter().all(|job| job.status == JobStatus::Done)
            }
        }
    }
}

/// As a frame of the gateway.
const CHUNK_LEN: usize = 2048;
/// A cache line.
const LINE_LEN: usize = 64;
/// SPI and sequence number.
const ESP_LEN: usize = 8;
/// The outer IPv4 header.
const OUTER_LEN: usize = 20;
