//! `culvert-bench limits`: ways for workers to share rate limits, against each other.

use std::error::Error;
use std::io::{self, Write};
use std::time::Duration;

use bench::limits::{LimitOptions, LimitRow, limits};

use super::cli::BenchLimitsArgs;
use super::growing::Growing;

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
    let mut table = Growing::new(HEAD);
    table.fit(
        &["shared-atomic", "64", "100000", "100000", "1234.56", "12345.6", "1000000"]
            .map(str::to_owned),
    );
    let (mut number, mut failed) = (0, None);
    limits(&options, |row| {
        let line = match (json, number) {
            (true, _) => serde_json::to_string(row).unwrap_or_default(),
            (false, 0) => format!("{}\n{}", table.head(), table.line(&cells(row))),
            (false, _) => table.line(&cells(row)),
        };
        number += 1;
        if let Err(error) = writeln!(io::stdout(), "{line}") {
            failed.get_or_insert(error);
        }
    })?;
    match failed {
        // Nobody reads any more, as with `| head`.
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
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
