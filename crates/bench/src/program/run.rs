//! The data path in memory, against the bare cipher of the same run.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bench::report::{Part, Report};
use bench::{Bench, Direction, Options, Peer, Row};
use config::EngineChoice;
use control::providers;
use crypto::{Provider, Suite};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::cli::{AllArgs, BenchArgs, BenchCommand, BenchDirection, PeerArgs};
use super::live::Live;
use super::{limits, moves, requests};

/// Runs one benchmark, and prints its rows as they come: a table, or JSON, one object a line.
pub fn run(command: &BenchCommand, json: bool) -> Result<(), Box<dyn Error>> {
    match command {
        BenchCommand::Esp(args) => one(Bench::Esp, args, &Peer::default(), json),
        BenchCommand::Forward(args) => one(Bench::Forward, args, &Peer::default(), json),
        BenchCommand::Crypto(args) => one(Bench::Crypto, args, &Peer::default(), json),
        BenchCommand::Sas(args) => one(Bench::Sas, args, &Peer::default(), json),
        BenchCommand::Scale(args) => one(Bench::Scale, args, &Peer::default(), json),
        BenchCommand::Offload(args) => one(Bench::Offload, args, &Peer::default(), json),
        BenchCommand::Iptfs(args) => one(Bench::Iptfs, args, &Peer::default(), json),
        BenchCommand::Overlay(args) => one(Bench::Overlay, args, &Peer::default(), json),
        BenchCommand::Srv6(args) => one(Bench::Srv6, args, &Peer::default(), json),
        BenchCommand::SmallCell(args) => one(Bench::SmallCell, args, &Peer::default(), json),
        BenchCommand::Growth(args) => one(Bench::Growth, args, &Peer::default(), json),
        BenchCommand::Rekey(args) => one(Bench::Rekey, args, &Peer::default(), json),
        BenchCommand::Install(args) => one(Bench::Install, args, &Peer::default(), json),
        BenchCommand::Rtl(args) => one(Bench::Rtl, args, &Peer::default(), json),
        BenchCommand::Peer(args) => one(Bench::Peer, &args.bench, &peer(args)?, json),
        BenchCommand::Limits(args) => limits::run(args, json),
        BenchCommand::Moves(args) => moves::run(args, json),
        BenchCommand::Requests(args) => requests::run(args, json),
        BenchCommand::All(args) => all(args, json),
        BenchCommand::Count(args) => count(args.case.as_deref()),
    }
}

/// One case of the guard on instructions, by the fastest engine that there is; or the names of all.
fn count(case: Option<&str>) -> Result<(), Box<dyn Error>> {
    match case {
        Some(case) => {
            let providers = providers(EngineChoice::default())?;
            println!("{}", bench::guard::run(&**providers.first(), case)?);
        }
        None => bench::guard::CASES.iter().for_each(|case| println!("{}", case.name)),
    }
    Ok(())
}

/// Every benchmark, one after the other; one that fails does not stop the others, but the command
/// fails then. Without the peer there is no comparison, and that is no failure.
fn all(args: &AllArgs, json: bool) -> Result<(), Box<dyn Error>> {
    let (args, all) = (&args.peer, args);
    let peer = peer(args)?;
    let providers = providers(args.bench.engine.into())?;
    let provider = providers.first();
    let begun = Instant::now();
    let mut parts = Vec::new();
    let mut failed = Vec::new();
    let live = Live::new(json, Arc::clone(&peer.stop));
    for bench in Bench::ALL {
        let is_missing = *bench == Bench::Peer && peer.check().is_err();
        let gap = if parts.is_empty() { "" } else { "\n" };
        live.start(bench.name(), &format!("{gap}{}: {}", bench.name(), bench.about()));
        let options = options(*bench, &**provider, &args.bench)?;
        let rows =
            bench.run(&Options { listener: &live, stop: Some(&peer.stop), ..options }, &peer);
        live.end();
        if peer.stop.load(Relaxed) {
            return Err("interrupted".into());
        }
        let rows = rows.map_err(|e| e.to_string());
        if let Err(reason) = &rows {
            eprintln!("culvert-bench {}: {reason}", bench.name());
            if !is_missing {
                failed.push(bench.name());
            }
        }
        if let (Ok(rows), Some(directory)) = (&rows, &args.bench.plot) {
            plot(*bench, rows, directory)?;
        }
        parts.push(Part { bench: *bench, rows });
    }
    if let Some(directory) = &all.report {
        let failed = |e: std::io::Error| format!("--report {}: {e}", directory.display());
        fs::create_dir_all(directory).map_err(failed)?;
        let example = options(Bench::Esp, &**provider, &args.bench)?;
        let report = Report {
            engine: format!("{} {}", provider.name(), provider.description()),
            command: all.command.clone().unwrap_or_else(|| "culvert-bench all".to_owned()),
            repetitions: format!(
                "medians of {} repetitions of {} ms",
                example.repeat,
                example.duration.as_millis()
            ),
            took: begun.elapsed(),
            parts,
        };
        let path = report.write(directory).map_err(failed)?;
        eprintln!("culvert-bench: report written to {}", path.display());
    }
    match failed.as_slice() {
        [] => Ok(()),
        names => Err(format!("failed: {}", names.join(", ")).into()),
    }
}

/// True if a hangup is ignored, as under nohup(1): it stays so.
fn ignores_hangup() -> bool {
    // A mask in hexadecimal whose lowest bit is signal 1 (proc_pid_status(5)).
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// The peer. While it runs SIGINT, SIGTERM and SIGHUP end it, and everything is put back as it was; at
/// other times they do what they always do.
fn peer(args: &PeerArgs) -> Result<Peer, Box<dyn Error>> {
    let peer = Peer { program: args.secgw.clone(), ..Peer::default() };
    let hangup = (!ignores_hangup()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&peer.is_idle))?;
        signal_hook::flag::register(signal, Arc::clone(&peer.stop))?;
    }
    Ok(peer)
}

fn one(bench: Bench, args: &BenchArgs, peer: &Peer, json: bool) -> Result<(), Box<dyn Error>> {
    let providers = providers(args.engine.into())?;
    // One engine is measured: that of the first suite, or the fastest.
    let named = args.suite.iter().flatten().next().and_then(|name| suite(name).ok());
    let serving = named.and_then(|suite| providers.serving(suite).ok());
    let provider = serving.unwrap_or_else(|| providers.first());
    let options = options(bench, &**provider, args)?;
    let live = Live::new(json, Arc::clone(&peer.stop));
    let head = format!(
        "{} {}; median of {} x {} ms",
        provider.name(),
        provider.description(),
        options.repeat,
        options.duration.as_millis()
    );
    live.start(bench.name(), &head);
    let rows = bench.run(&Options { listener: &live, stop: Some(&peer.stop), ..options }, peer);
    live.end();
    let rows = rows?;
    if let Some(directory) = &args.plot {
        plot(bench, &rows, directory)?;
    }
    Ok(())
}

/// The benchmark's defaults, and what the command line says otherwise.
fn options<'p>(
    bench: Bench,
    provider: &'p dyn Provider,
    args: &BenchArgs,
) -> Result<Options<'p>, String> {
    let mut options = bench.defaults(provider);
    if args.quick {
        bench.hurry(&mut options);
    }
    if let Some(names) = &args.suite {
        options.suites = names.iter().map(|name| suite(name)).collect::<Result<_, _>>()?;
    }
    if let Some(directions) = &args.direction {
        let direction = |d: &BenchDirection| match d {
            BenchDirection::Outbound => Direction::Outbound,
            BenchDirection::Inbound => Direction::Inbound,
        };
        options.directions = directions.iter().map(direction).collect();
    }
    options.sizes = args.size.clone().unwrap_or(options.sizes);
    options.sas = args.sas.clone().unwrap_or(options.sas);
    options.flows = args.flows.unwrap_or(options.flows);
    options.frames = args.frames.unwrap_or(options.frames);
    options.repeat = args.repeat.unwrap_or(options.repeat);
    options.duration = args.millis.map_or(options.duration, Duration::from_millis);
    options.cpu = args.cpu;
    options.allocations = Some(bench::allocation::count);
    Ok(options)
}

fn suite(name: &str) -> Result<Suite, String> {
    bench::suite_by_name(name).ok_or_else(|| {
        let known: Vec<String> = Suite::all().map(|s| s.to_string()).collect();
        format!("--suite {name}: not known; one of {}", known.join(", "))
    })
}

fn plot(bench: Bench, rows: &[Row], directory: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("--plot {}: {e}", directory.display());
    fs::create_dir_all(directory).map_err(failed)?;
    for chart in bench.charts(rows) {
        fs::write(directory.join(format!("{}.svg", chart.name)), chart.svg()).map_err(failed)?;
    }
    Ok(())
}
