//! `culvert-bench moves`: a path dies, and all flows on it take another one.

use std::error::Error;

use bench::moves::{MoveOptions, MoveRow, moves};
use config::EngineChoice;
use control::providers;

use super::cli::BenchMovesArgs;
use super::growing::Rows;

/// Prints each move as it comes: a line of a table, or a JSON object.
pub fn run(args: &BenchMovesArgs, json: bool) -> Result<(), Box<dyn Error>> {
    let providers = providers(EngineChoice::default())?;
    let options = MoveOptions {
        provider: &**providers.first(),
        flows: args.flows,
        size: args.size,
        repeat: args.repeat,
        cpu: args.cpu,
    };
    let mut rows = Rows::new(HEAD, WIDEST, json);
    moves(&options, |row| rows.print(row, cells))?;
    Ok(rows.finish()?)
}

const HEAD: &[&str] = &[
    ">FLOWS",
    ">OTHERS",
    ">DECIDED",
    ">BEFORE MS",
    ">MOVED MS",
    ">P99 BEFORE US",
    ">P99 US",
    ">MOST US",
];

/// The widest cells that are expected.
const WIDEST: &[&str] =
    &["100000", "100000", "100000", "1234.5", "1234.5", "1234.5", "1234.5", "1234.5"];

fn cells(row: &MoveRow) -> Vec<String> {
    let times =
        [row.before_ms, row.all_ms, row.before_p99_us, row.during_p99_us, row.during_most_us];
    let counts = [row.flows as u64, row.others as u64, row.decided].map(|count| count.to_string());
    counts.into_iter().chain(times.map(|time| format!("{time:.1}"))).collect()
}
