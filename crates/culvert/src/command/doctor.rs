//! `culvert doctor`: what keeps culvert from working well here, and what to do about it.
//!
//! First everything is looked at ([`gather`]), in the caller's network namespace and without
//! changing anything: sockets and programs are opened and closed again, rules are checked and not
//! applied. Then pure functions judge the [`facts::Facts`], one file for each area.

mod beside;
mod facts;
mod finding;
mod gather;
mod instance;
mod machine;
mod network;
mod ports;
mod processes;
#[cfg(test)]
mod rows;
mod taken;

use std::error::Error;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use self::facts::Facts;
use self::finding::{Finding, Outcome};

/// Looks, judges, and says what to do; the status is a failure if there are problems.
///
/// # Errors
/// When the findings cannot be written as JSON.
pub fn run(name: &str, json: bool, config: &Path) -> Result<(String, ExitCode), Box<dyn Error>> {
    let findings = examine(&gather::facts(name, config));
    let output = if json {
        serde_json::to_string(&findings)?
    } else {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        finding::text(&findings, colour)
    };
    let failed = findings.iter().any(|f| f.result == Outcome::Problem);
    Ok((output, if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
}

/// Every check, in the order in which an operator would set things up.
fn examine(facts: &Facts) -> Vec<Finding> {
    [machine::check, ports::check, network::check, instance::check, beside::check]
        .into_iter()
        .flat_map(|check| check(facts))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_healthy_machine_is_all_well() {
        let mut facts = facts::healthy();
        for daemon in [None, Some(Ok(facts::healthy_daemon()))] {
            facts.instance.daemon = daemon;
            let findings = examine(&facts);
            assert!(findings.iter().all(|f| f.result == Outcome::Ok), "{findings:#?}");
            assert!(findings.len() >= 18, "{findings:#?}");
        }
    }

    #[test]
    fn what_is_not_well_says_why_and_what_next() {
        let mut facts = facts::healthy();
        facts.machine.root = false;
        facts.machine.kernel = "4.19.0".into();
        facts.ports[0].link = None;
        facts.network.rp_filter = vec![("all".into(), 1)];
        facts.programs.ike = None;
        facts.programs.swanctl = None;
        let findings = examine(&facts);
        let bad: Vec<_> = findings.iter().filter(|f| f.result != Outcome::Ok).collect();
        assert!(bad.len() >= 5, "{bad:#?}");
        for finding in bad {
            let said = |text: &Option<String>| text.as_ref().is_some_and(|t| !t.is_empty());
            assert!(said(&finding.why) && said(&finding.next), "{finding:?}");
        }
    }

    /// The real machine, whatever it is like: looking takes a short time and ends in findings.
    #[test]
    fn looks_at_this_machine() {
        let (json, _) = run("doctor-test", true, Path::new("/nonexistent/culvert.toml")).unwrap();
        let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
        let config = rows.iter().find(|r| r["check"] == "config").expect("a row about the file");
        assert_eq!(config["result"], "problem");
        assert!(config["seen"].as_str().unwrap().contains("/nonexistent/culvert.toml"));
        assert!(rows.iter().any(|r| r["check"] == "kernel"), "{rows:#?}");
    }
}
