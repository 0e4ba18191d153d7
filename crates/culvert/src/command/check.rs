//! `culvert check`: what is wrong with a configuration file, on this machine or by itself.

use std::path::Path;
use std::process::ExitCode;

use config::{Config, Examined, Listed, any_machine};
use control::examine;
use serde_json::json;

use crate::cli::CheckArgs;

/// Prints all problems and warnings; the status is a failure if there are problems.
pub fn run(name: &str, json: bool, args: &CheckArgs) -> (String, ExitCode) {
    let path = &args.config.config;
    let examined = match args.offline {
        true => Config::examine_file(path, any_machine),
        false => examine(path, args.unprivileged),
    };
    let examined = examined.named(name);
    let status = match examined.problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    };
    if json {
        return (as_json(path, &examined), status);
    }
    if status == ExitCode::SUCCESS {
        return (format!("{}: valid{}", path.display(), warnings(path, &examined)), status);
    }
    // As all errors of commands: standard output stays free for what was asked for.
    let warnings = warnings(path, &examined);
    if let Err(error) = examined.accept(path) {
        eprintln!("culvert: {error}{warnings}");
    }
    (String::new(), status)
}

fn as_json(path: &Path, examined: &Examined) -> String {
    json!({
        "valid": examined.problems.is_empty(),
        "file": path,
        "name": examined.name.as_deref().or(examined.config.as_ref().map(|c| c.name.as_str())),
        "problems": examined.problems,
        "warnings": examined.warnings,
    })
    .to_string()
}

fn warnings(path: &Path, examined: &Examined) -> String {
    let one = |warning| {
        format!("\nwarning: {}", Listed { path, problems: std::slice::from_ref(warning) })
    };
    examined.warnings.iter().map(one).collect()
}
