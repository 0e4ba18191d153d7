//! `culvert bench`: the data path in memory, against the bare cipher of the same run.

use std::error::Error;
use std::time::Duration;

use bench::{Direction, EspOptions, Row};

use crate::cli::{BenchDirection, BenchEspArgs};
use crate::daemon::provider;
use crate::table::table;

/// `culvert bench esp`.
pub fn esp(args: &BenchEspArgs, json: bool) -> Result<String, Box<dyn Error>> {
    let provider = provider(args.engine)?;
    let suites = args
        .suite
        .iter()
        .map(|name| {
            bench::suite_by_name(name).ok_or_else(|| {
                let known: Vec<String> = crypto::Suite::all().map(|s| s.to_string()).collect();
                format!("--suite {name}: not known; one of {}", known.join(", "))
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let options = EspOptions {
        suites,
        sizes: args.size.clone(),
        directions: args
            .direction
            .iter()
            .map(|d| match d {
                BenchDirection::Outbound => Direction::Outbound,
                BenchDirection::Inbound => Direction::Inbound,
            })
            .collect(),
        repeat: args.repeat,
        duration: Duration::from_millis(args.millis),
        cpu: args.cpu,
        ..EspOptions::new(&*provider)
    };
    let rows = bench::esp(&options)?;
    if json {
        return Ok(serde_json::to_string(&rows)?);
    }
    Ok(format!(
        "{} {}; tunnel mode, IPv4, one SA, one core; median of {} x {} ms\n\n{}",
        provider.name(),
        provider.description(),
        args.repeat,
        args.millis,
        table(HEAD, rows.iter().map(cells))
    ))
}

const HEAD: &[&str] = &[
    "SUITE",
    "DIRECTION",
    ">BYTES",
    ">MPPS",
    ">MIN",
    ">MAX",
    ">GBIT/S",
    ">CYCLES",
    ">RAW MPPS",
    ">OF RAW",
];

fn cells(row: &Row) -> Vec<String> {
    vec![
        row.suite.clone(),
        match row.direction {
            Direction::Outbound => "outbound".into(),
            Direction::Inbound => "inbound".into(),
        },
        row.size_bytes.to_string(),
        format!("{:.2}", row.mpps_median),
        format!("{:.2}", row.mpps_min),
        format!("{:.2}", row.mpps_max),
        format!("{:.2}", row.gbps_median),
        row.cycles_per_packet.map_or_else(|| "-".into(), |c| format!("{c:.0}")),
        format!("{:.2}", row.raw_mpps),
        format!("{:.0} %", row.ratio_raw * 100.0),
    ]
}
