//! `culvert bench`: the data path in memory, against the bare cipher of the same run.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bench::report::{Part, Report};
use bench::row::columns;
use bench::{Bench, Direction, Options, Peer, Row};
use crypto::{Provider, Suite};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::{AllArgs, BenchArgs, BenchCommand, BenchDirection, PeerArgs};
use crate::command::requests;
use crate::daemon::providers;
use crate::table::table;

/// Runs one benchmark; returns its table, or its rows as JSON, one object a line.
pub fn run(command: &BenchCommand, json: bool) -> Result<String, Box<dyn Error>> {
    match command {
        BenchCommand::Esp(args) => one(Bench::Esp, args, &Peer::default(), json),
        BenchCommand::Forward(args) => one(Bench::Forward, args, &Peer::default(), json),
        BenchCommand::Crypto(args) => one(Bench::Crypto, args, &Peer::default(), json),
        BenchCommand::Sas(args) => one(Bench::Sas, args, &Peer::default(), json),
        BenchCommand::Scale(args) => one(Bench::Scale, args, &Peer::default(), json),
        BenchCommand::Growth(args) => one(Bench::Growth, args, &Peer::default(), json),
        BenchCommand::Rekey(args) => one(Bench::Rekey, args, &Peer::default(), json),
        BenchCommand::Install(args) => one(Bench::Install, args, &Peer::default(), json),
        BenchCommand::Rtl(args) => one(Bench::Rtl, args, &Peer::default(), json),
        BenchCommand::Peer(args) => one(Bench::Peer, &args.bench, &peer(args)?, json),
        BenchCommand::Requests(args) => requests::run(args, json),
        BenchCommand::All(args) => all(args, json),
    }
}

/// Every benchmark, one after the other; one that fails does not stop the others, but the command
/// fails then. Without the peer there is no comparison, and that is no failure.
fn all(args: &AllArgs, json: bool) -> Result<String, Box<dyn Error>> {
    let (args, all) = (&args.peer, args);
    let peer = peer(args)?;
    let providers = providers(args.bench.engine)?;
    let provider = providers.first();
    let begun = Instant::now();
    let mut parts = Vec::new();
    let mut failed = Vec::new();
    let mut out = String::new();
    for bench in Bench::ALL {
        eprintln!("culvert bench {} ...", bench.name());
        let is_missing = *bench == Bench::Peer && peer.check().is_err();
        let rows = bench.run(&options(*bench, &**provider, &args.bench)?, &peer);
        if peer.stop.load(Relaxed) {
            return Err("interrupted".into());
        }
        let rows = rows.map_err(|e| e.to_string());
        match &rows {
            Ok(rows) if json => out.push_str(&(lines(rows)? + "\n")),
            Ok(rows) => {
                out.push_str(&format!("{}: {}\n\n", bench.name(), bench.about()));
                out.push_str(&format!("{}\n\n", rows_table(rows)));
            }
            Err(reason) => {
                eprintln!("culvert bench {}: {reason}", bench.name());
                if !is_missing {
                    failed.push(bench.name());
                }
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
            command: all.command.clone().unwrap_or_else(|| "culvert bench all".to_owned()),
            repetitions: format!(
                "medians of {} repetitions of {} ms",
                example.repeat,
                example.duration.as_millis()
            ),
            took: begun.elapsed(),
            parts,
        };
        let path = report.write(directory).map_err(failed)?;
        eprintln!("culvert bench: report written to {}", path.display());
    }
    match failed.as_slice() {
        [] => Ok(out),
        names => Err(format!("{out}failed: {}", names.join(", ")).into()),
    }
}

/// Whether a hangup is ignored, as under nohup(1): then it stays so.
fn ignores_hangup() -> bool {
    // A mask in hexadecimal whose lowest bit is signal 1 (proc_pid_status(5)).
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// The peer, which is ended, and everything put back as it was, also on SIGINT, SIGTERM and SIGHUP.
fn peer(args: &PeerArgs) -> Result<Peer, Box<dyn Error>> {
    let peer = Peer { program: args.secgw.clone(), ..Peer::default() };
    let hangup = (!ignores_hangup()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        signal_hook::flag::register(signal, Arc::clone(&peer.stop))?;
    }
    Ok(peer)
}

fn one(bench: Bench, args: &BenchArgs, peer: &Peer, json: bool) -> Result<String, Box<dyn Error>> {
    let providers = providers(args.engine)?;
    let provider = providers.first();
    let options = options(bench, &**provider, args)?;
    let rows = bench.run(&options, peer)?;
    if let Some(directory) = &args.plot {
        plot(bench, &rows, directory)?;
    }
    if json {
        return Ok(lines(&rows)?);
    }
    let head = format!(
        "{} {}; median of {} x {} ms",
        provider.name(),
        provider.description(),
        options.repeat,
        options.duration.as_millis()
    );
    Ok(format!("{head}\n\n{}", rows_table(&rows)))
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

/// Rows as JSON objects, one a line.
fn lines(rows: &[Row]) -> serde_json::Result<String> {
    let lines: Vec<String> = rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    Ok(lines.join("\n"))
}

fn rows_table(rows: &[Row]) -> String {
    let columns = columns(rows);
    let head: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let cells = |row: &Row| {
        columns.iter().map(|(_, cell)| cell(row).unwrap_or_else(|| "-".into())).collect()
    };
    table(&head, rows.iter().map(cells))
}

fn plot(bench: Bench, rows: &[Row], directory: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("--plot {}: {e}", directory.display());
    fs::create_dir_all(directory).map_err(failed)?;
    for chart in bench.charts(rows) {
        fs::write(directory.join(format!("{}.svg", chart.name)), chart.svg()).map_err(failed)?;
    }
    Ok(())
}
