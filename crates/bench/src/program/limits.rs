//! `culvert-bench limits`: ways for workers to share rate limits, against each other.

use std::error::Error;
use std::time::Duration;

use bench::limits::{LimitOptions, LimitRow, limits};

use super::cli::BenchLimitsArgs;
use super::growing::Rows;

/// Prints each row as it comes: a line of a table, or a JSON object.
pub fn run(args: &BenchLimitsArgs, json: bool) -> Result<(), Box<dyn Error>> {
    let options = LimitOptions {
        cores: args.cores.clone(),
        limiters: args.limiters.clone(),
        flows: args.flows.clone(),
        len: args.size,
        duration: Duration::from_millis(args.millis),
        repeat: args.repeat,
    };
    let mut rows = Rows::new(HEAD, WIDEST, json);
    limits(&options, |row| rows.print(row, cells))?;
    Ok(rows.finish()?)
}

const HEAD: &[&str] = &[
    "SHARING",
    ">CORES",
    ">LIMITERS",
    ">FLOWS",
    ">MPPS",
    ">CYCLES",
    ">LOST PPM",
    ">FAIR",
    ">OF RATE",
];

/// The widest cells that are expected.
const WIDEST: &[&str] =
    &["shared-atomic", "64", "100000", "100000", "1234.56", "12345.6", "1000000"];

fn cells(row: &LimitRow) -> Vec<String> {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    vec![
        row.sharing.name().into(),
        row.cores.to_string(),
        row.limiters.to_string(),
        row.flows.to_string(),
        format!("{:.2}", row.packets_per_s / 1e6),
        or_none(row.cycles.map(|cycles| format!("{cycles:.1}"))),
        format!("{:.0}", row.lost_ppm),
        or_none(row.fairness.map(|part| format!("{part:.2}"))),
        format!("{:.3}", row.of_rate),
    ]
}
