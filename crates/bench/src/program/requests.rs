//! `culvert-bench requests`: SAs and policies, installed, read and removed over the XFRM socket.

use std::error::Error;
use std::io::{self, Write};

use control::{InstallOptions, InstallReport, bench_install, providers};

use super::cli::BenchRequestsArgs;
use super::growing::Growing;

/// Runs each number of SAs, and prints what it gives at once: a line of a table, or a JSON object.
pub fn run(args: &BenchRequestsArgs, json: bool) -> Result<(), Box<dyn Error>> {
    let providers = providers(args.engine.into())?;
    let mut table = Growing::new(HEAD);
    for (number, sas) in args.sas.iter().enumerate() {
        let report = bench_install(&InstallOptions {
            providers: providers.clone(),
            directory: args.directory.clone(),
            sas: *sas,
            window: args.window,
        })?;
        let cells = cells(&report);
        table.fit(&cells);
        let line = match (json, number) {
            (true, _) => serde_json::to_string(&report)?,
            (false, 0) => format!("{}\n{}", table.head(), table.line(&cells)),
            (false, _) => table.line(&cells),
        };
        // Nobody reads any more, as with `| head`.
        if writeln!(io::stdout(), "{line}").is_err() {
            break;
        }
    }
    Ok(())
}

const HEAD: &[&str] = &[
    ">SAS",
    ">SAS/S",
    ">LAST TENTH",
    ">POLICIES/S",
    ">DUMP SAS",
    ">DUMP POLICIES",
    ">DELETIONS/S",
    ">FLUSH SAS",
    ">FLUSH POLICIES",
    ">TURN",
    ">REFRESH",
    ">BYTES/SA",
    ">BYTES/POLICY",
];

fn cells(r: &InstallReport) -> Vec<String> {
    let seconds = |s: f64| format!("{s:.3} s");
    vec![
        r.sas.to_string(),
        format!("{:.0}", r.sas_per_s),
        format!("{:.0}", r.last_sas_per_s),
        format!("{:.0}", r.policies_per_s),
        seconds(r.sa_dump_s),
        seconds(r.policy_dump_s),
        format!("{:.0}", r.sa_deletions_per_s),
        seconds(r.sa_flush_s),
        seconds(r.policy_flush_s),
        format!("{:.1} ms", r.longest_turn_ms),
        format!("{:.0} us", r.longest_refresh_us),
        format!("{:.0}", r.bytes_per_sa),
        format!("{:.0}", r.bytes_per_policy),
    ]
}
