//! `culvert-bench moves`: a path dies, and all flows on it take another one.

use std::error::Error;
use std::io::{self, Write};

use bench::moves::{MoveOptions, MoveRow, moves};
use config::EngineChoice;
use control::providers;

use super::cli::BenchMovesArgs;
use super::growing::Growing;

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
    let mut table = Growing::new(HEAD);
    table.fit(
        &["100000", "100000", "100000", "1234.5", "1234.5", "1234.5", "1234.5", "1234.5"]
            .map(str::to_owned),
    );
    let (mut number, mut failed) = (0, None);
    moves(&options, |row| {
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
    ">FLOWS",
    ">OTHERS",
    ">DECIDED",
    ">BEFORE MS",
    ">MOVED MS",
    ">P99 BEFORE US",
    ">P99 US",
    ">MOST US",
];

fn cells(row: &MoveRow) -> Vec<String> {
    let times =
        [row.before_ms, row.all_ms, row.before_p99_us, row.during_p99_us, row.during_most_us];
    let counts = [row.flows as u64, row.others as u64, row.decided].map(|count| count.to_string());
    counts.into_iter().chain(times.map(|time| format!("{time:.1}"))).collect()
}
