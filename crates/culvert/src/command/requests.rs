//! `culvert bench requests`: SAs and policies, installed, read and removed over the XFRM socket.

use std::error::Error;

use crate::cli::BenchRequestsArgs;
use crate::daemon::{InstallOptions, InstallReport, bench_install, providers};
use crate::table::table;

/// Runs each number of SAs; a table, or JSON objects, one a line.
pub fn run(args: &BenchRequestsArgs, json: bool) -> Result<String, Box<dyn Error>> {
    let providers = providers(args.engine)?;
    let reports = args
        .sas
        .iter()
        .map(|sas| {
            bench_install(&InstallOptions {
                providers: providers.clone(),
                directory: args.directory.clone(),
                sas: *sas,
                window: args.window,
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    if json {
        let lines: Vec<String> =
            reports.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        return Ok(lines.join("\n"));
    }
    Ok(table(HEAD, reports.iter().map(cells)))
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
