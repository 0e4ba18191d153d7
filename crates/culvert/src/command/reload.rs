//! `culvert reload`: has the daemon read its configuration file again, and tells what it says.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use config::Listed;
use report::client;
use report::{Reloaded, Request};

use crate::cli::ReloadArgs;

/// Asks; the status is a failure if the file was refused.
///
/// # Errors
/// No daemon answers.
pub fn run(
    name: &str,
    json: bool,
    args: &ReloadArgs,
) -> Result<(String, ExitCode), Box<dyn Error>> {
    let name = match args.pid {
        Some(pid) => client::instance_of(pid).ok_or_else(|| {
            format!("--pid {pid}: no daemon with this process id answers; see culvert status --name NAME")
        })?,
        None => name.to_owned(),
    };
    let answer: Reloaded = client::ask(&name, Request::Reload)?;
    let status = if answer.reloaded { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if json {
        return Ok((serde_json::to_string(&answer)?, status));
    }
    let text = text(&answer);
    if answer.reloaded {
        return Ok((text, status));
    }
    eprintln!("culvert: {text}");
    Ok((String::new(), status))
}

/// Result of a reload, for people. The verdict is the last line.
fn text(answer: &Reloaded) -> String {
    let path = Path::new(&answer.file);
    let mut lines: Vec<String> = Vec::new();
    if !answer.problems.is_empty() {
        let count = answer.problems.len();
        let problems = if count == 1 { "problem" } else { "problems" };
        lines.push(format!("{}: {count} {problems}", answer.file));
        lines.push(Listed { path, problems: &answer.problems }.to_string());
    }
    for warning in &answer.warnings {
        lines
            .push(format!("warning: {}", Listed { path, problems: std::slice::from_ref(warning) }));
    }
    if !answer.waits_for_restart.is_empty() {
        lines.push(format!("waits for a restart: {}", answer.waits_for_restart.join(", ")));
    }
    lines.push(match (&answer.failed, answer.reloaded) {
        (_, true) => "configuration reloaded".into(),
        (Some(why), _) => format!("configuration not reloaded: {why}; everything is as before"),
        (None, false) => "configuration not reloaded: nothing was changed".into(),
    });
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use config::Problem;

    use super::*;

    #[test]
    fn the_last_line_is_the_verdict() {
        let file = "c.toml".to_owned();
        let answer = Reloaded { file: file.clone(), reloaded: true, ..Reloaded::default() };
        assert_eq!(text(&answer), "configuration reloaded");
        let waits_for_restart = vec!["tun.mtu".to_owned(), "log.level".to_owned()];
        let answer = Reloaded { waits_for_restart, ..answer };
        let expected = "waits for a restart: tun.mtu, log.level\nconfiguration reloaded";
        assert_eq!(text(&answer), expected);
        let problems = vec![Problem::new("worker.cpus", &"[0, 99]", "core 99 ...", "it may use 0")];
        let answer = Reloaded { file: file.clone(), problems, ..Reloaded::default() };
        let expected = "c.toml: 1 problem\nc.toml: worker.cpus = [0, 99]: core 99 ...\n  it may use 0\n\
                        configuration not reloaded: nothing was changed";
        assert_eq!(text(&answer), expected);
        let failed = Some("port lan: no native XDP".to_owned());
        let answer = Reloaded { file, failed, ..Reloaded::default() };
        assert!(text(&answer).ends_with("no native XDP; everything is as before"));
    }
}
