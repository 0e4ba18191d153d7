//! The benches `esp`, `forward` and `sas`: the gateway's path on one core.

use crypto::Suite;
use io::{Burst, ChunkSize, Packet, Port, Umem, UmemConfig};
use offload::Placement;
use wire::Span;

use crate::error::BenchError;
use crate::gateway::{Arrival, Gateway, Path, Plan};
use crate::options::{Direction, Options, suite_by_name};
use crate::pin::pinned;
use crate::port::Wire;
use crate::random::{Random, Zipf};
use crate::raw::Raw;
use crate::row::Row;
use crate::rows::{Rows, label};
use crate::timing::{Repetitions, Timed, fill_gain};
use crate::traffic::{Choice, Traffic};
use crate::world;

/// The bench `esp`: the whole path, each suite in each direction with each size and number of SAs,
/// in turns with the cipher alone.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn esp(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    pinned(options.cpu, || {
        let mut rows = Rows::new(options, options.cases() * options.sas.len());
        for suite in &options.suites {
            for direction in &options.directions {
                for size in &options.sizes {
                    for sas in &options.sas {
                        rows.begin(&label(*suite, *direction, *size));
                        rows.push(one(options, *suite, *direction, *size, *sas)?);
                    }
                }
            }
        }
        Ok(rows.into_vec())
    })
}

fn one(
    options: &Options<'_>,
    suite: Suite,
    direction: Direction,
    size: usize,
    sas: usize,
) -> Result<Row, BenchError> {
    let traffic = Traffic::new(direction, size, sas, options.flows, Choice::InTurn(0));
    let mut gateway = Gateway::new(plan(options, suite, Path::Esp, traffic))?;
    let mut raw = Raw::new(options, suite, size, direction)?;
    gateway.prove()?;
    raw.once()?;
    let (mut path, mut cipher) = (Repetitions::default(), Repetitions::default());
    for _ in 0..options.repeat {
        path.0.push(repetition(&mut gateway, options)?);
        cipher.0.push(raw.repetition()?);
    }
    let mut row = row(options, "esp", &gateway);
    path.fill(&mut row, options.allocations.is_some());
    row.io_cycles = ports_alone(options, size)?;
    row.raw_mpps = Some(cipher.mpps());
    row.ratio_raw = Some(path.mpps() / cipher.mpps());
    Ok(row)
}

/// The bench `forward`: packets that no SA protects, from Linux to the local network: policy,
/// route, neighbour, Ethernet header.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn forward(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    pinned(options.cpu, || {
        let mut rows = Rows::new(options, options.sizes.len());
        // No packet is encrypted; the gateway has a tunnel all the same.
        let suite = suite_by_name("aes128gcm16").or(options.suites.first().copied());
        let Some(suite) = suite else { return Ok(rows.into_vec()) };
        for size in &options.sizes {
            rows.begin(&format!("{size} bytes"));
            let flows = options.flows;
            let traffic = Traffic::new(Direction::Inbound, *size, 1, flows, Choice::InTurn(0));
            let mut plan = plan(options, suite, Path::Clear, traffic);
            plan.policies = vec![world::bypass()];
            let mut gateway = Gateway::new(plan)?;
            gateway.prove()?;
            let all = Repetitions::of(options.repeat, || repetition(&mut gateway, options))?;
            let mut row = row(options, "forward", &gateway);
            (row.suite, row.direction, row.engine) = (None, None, None);
            all.fill(&mut row, options.allocations.is_some());
            row.io_cycles = ports_alone(options, *size)?;
            rows.push(row);
        }
        Ok(rows.into_vec())
    })
}

/// The bench `sas`: many SAs, each packet of one chosen at random, uniformly and by Zipf's law.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn sas(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    // The largest first: what it adds to the resident memory is its own.
    let mut counts = options.sas.clone();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    pinned(options.cpu, || {
        let mut rows = Rows::new(options, options.cases() * CHOICES.len());
        for suite in &options.suites {
            for direction in &options.directions {
                for size in &options.sizes {
                    let mut raw = Raw::new(options, *suite, *size, *direction)?;
                    raw.once()?;
                    let cipher = Repetitions::of(options.repeat, || raw.repetition())?.mpps();
                    for case in CHOICES {
                        let weigh = rows.is_empty();
                        rows.begin(&format!("{}, {case}", label(*suite, *direction, *size)));
                        let more = many(options, *suite, *direction, *size, &counts, case)?;
                        rows.extend(more.into_iter().map(|row| Row {
                            raw_mpps: Some(cipher),
                            ratio_raw: row.mpps_median.map(|mpps| mpps / cipher),
                            // Later ones live in memory that the process has already.
                            bytes_per_sa: row.bytes_per_sa.filter(|_| weigh),
                            bytes_per_key: row.bytes_per_key.filter(|_| weigh),
                            ..row
                        }));
                    }
                }
            }
        }
        Ok(rows.into_vec())
    })
}

/// One row for each number of SAs, the smallest first.
///
/// All of them are measured in turns: the speed of a machine that others use changes from second to
/// second, and what counts is the part of the smallest number's rate that is left to the larger ones.
fn many(
    options: &Options<'_>,
    suite: Suite,
    direction: Direction,
    size: usize,
    counts: &[usize],
    case: &'static str,
) -> Result<Vec<Row>, BenchError> {
    let gateway = |sas: &usize| {
        let mut random = Random::new(3);
        let choice = match case {
            "zipf" => Choice::Zipf(Box::new(Zipf::new(*sas, &mut random)), random),
            _ => Choice::Uniform(random),
        };
        let traffic = Traffic::new(direction, size, *sas, options.flows, choice);
        let mut gateway = Gateway::new(plan(options, suite, Path::Esp, traffic))?;
        gateway.prove()?;
        // Until nearly all SAs have been met, and more than once: what a gateway learns in its first
        // seconds is not timed.
        for _ in 0..(MEETINGS * gateway.traffic.flows / gateway.packets()) {
            gateway.load()?;
            gateway.run();
            gateway.unload()?;
        }
        Ok((gateway, Repetitions::default()))
    };
    let mut gateways = counts.iter().map(gateway).collect::<Result<Vec<_>, BenchError>>()?;
    gateways.reverse();
    for _ in 0..options.repeat {
        for (gateway, all) in &mut gateways {
            all.0.push(repetition(gateway, options)?);
        }
    }
    let first = gateways.first().map(|(_, all)| all.clone()).unwrap_or_default();
    let rows = gateways.iter().enumerate().map(|(at, (gateway, all))| {
        let mut row = row(options, "sas", gateway);
        all.fill(&mut row, options.allocations.is_some());
        if at > 0 {
            fill_gain(&mut row, all.rates().zip(first.rates()));
        }
        row.case = Some(case);
        row.build_seconds = Some(gateway.built.seconds);
        // Only the first that was built added to the process's memory all that it has.
        if at + 1 == gateways.len() && gateway.traffic.sas >= ENOUGH_TO_WEIGH {
            row.bytes_per_sa = gateway.built.bytes_per_sa;
            row.bytes_per_key = gateway.built.bytes_per_key;
        }
        row
    });
    Ok(rows.collect())
}

/// A gateway without anything beyond its traffic.
pub(crate) fn plan<'p>(
    options: &Options<'p>,
    suite: Suite,
    path: Path,
    traffic: Traffic,
) -> Plan<'p> {
    Plan {
        provider: options.provider,
        suite,
        path,
        arrival: Arrival::Cached,
        placement: Placement::Cpu,
        traffic,
        frames: options.frames,
        policies: Vec::new(),
        routes: Vec::new(),
    }
}

/// The columns that all rows of a gateway share.
pub(crate) fn row(options: &Options<'_>, bench: &'static str, gateway: &Gateway) -> Row {
    let traffic = &gateway.traffic;
    Row {
        bench,
        engine: Some(options.provider.name()),
        suite: Some(gateway.suite.to_string()),
        direction: Some(traffic.direction),
        size_bytes: Some(traffic.size),
        sas: Some(traffic.sas),
        cores: Some(1),
        flows: Some(traffic.flows),
        ..Row::default()
    }
}

/// The gateway's path, until the time is over.
pub(crate) fn repetition(
    gateway: &mut Gateway,
    options: &Options<'_>,
) -> Result<Timed, BenchError> {
    repetition_by(gateway, options, Gateway::unload)
}

/// The same, where `renew` makes ready for the next round what a round has left.
pub(crate) fn repetition_by(
    gateway: &mut Gateway,
    options: &Options<'_>,
    renew: fn(&mut Gateway) -> Result<(), BenchError>,
) -> Result<Timed, BenchError> {
    let mut timed = Timed::within(options.patience);
    while timed.has_time(options.duration) {
        options.check_stop()?;
        gateway.load()?;
        let posts = gateway.posts();
        let run = |gateway: &mut Gateway| {
            gateway.run();
            gateway.packets()
        };
        let switches = Gateway::crypto_switches;
        timed.quiet_piece_on(gateway, &posts, options.allocations, run, switches);
        renew(gateway)?;
    }
    Ok(timed)
}

/// Cycles that the ports take for a packet: received and transmitted, not looked at.
pub(crate) fn ports_alone(options: &Options<'_>, size: usize) -> Result<Option<f64>, BenchError> {
    let config =
        UmemConfig { chunks: options.frames, chunk_size: ChunkSize::Bytes2048, populate: true };
    let (_umem, mut pool) = Umem::new(config)?;
    let mut stock: Vec<Packet> = core::iter::from_fn(|| pool.take())
        .map(|frame| Packet { frame, span: Span { start: 0, len: size } })
        .collect();
    let count = stock.len();
    let (left, right) = (Wire::default(), Wire::default());
    let (mut from, mut to) = (left.port(count), right.port(count));
    let mut timed = Timed::default();
    let mut burst = Burst::new();
    for pass in 0..=PORT_PASSES {
        left.give(&mut stock);
        let mut work = || {
            while from.rx(&mut pool, &mut burst).is_ok_and(|came| came > 0) {
                // These ports take everything and do not fail.
                let _ = to.tx(&mut burst, &mut pool);
            }
            let _ = to.rx(&mut pool, &mut burst);
        };
        match pass {
            0 => work(),
            _ => timed.quiet_piece(count, None, work),
        }
        right.take(&mut stock);
    }
    Ok(timed.cycles_per_packet())
}

/// How the bench `sas` chooses an SA for each packet.
const CHOICES: [&str; 2] = ["uniform", "zipf"];
/// Packets for each flow before many SAs are timed. Chosen at random, one flow in 400 is left out.
const MEETINGS: usize = 6;
/// The fewest SAs whose memory can be told from the process's own.
const ENOUGH_TO_WEIGH: usize = 1000;
/// Passes of all packets through the ports alone, after one to warm up.
const PORT_PASSES: usize = 8;
