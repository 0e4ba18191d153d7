//! `culvert doctor`: what keeps culvert from working well here, and what to do about it.
//!
//! First everything is looked at (`gather`), in the caller's network namespace and without
//! changing anything: sockets and programs are opened and closed again, rules are checked and not
//! applied. Then pure functions judge these facts, one file for each area. With `--fix`
//! what is safe to do is done (`fix`, `mend`), and everything is looked at again.
#![forbid(unsafe_code)]

mod apparmor;
mod beside;
mod drivers;
mod encapsulation;
mod expiry;
mod facts;
mod finding;
mod fix;
mod gather;
mod huge_pages;
mod instance;
mod machine;
mod mend;
mod nat;
mod network;
mod options;
pub mod orphans;
mod others;
mod overlays;
mod paths;
mod policies;
mod ports;
pub mod processes;
#[cfg(test)]
mod rows;
mod segments;
mod taken;
mod unprivileged;
mod vlan_entries;

use std::error::Error;
use std::process::ExitCode;

use report::terminal::has_colours;

use self::facts::Facts;
use self::finding::{Finding, Outcome};
use self::fix::How;
pub use self::fix::confirm;
pub use self::options::Options;

/// Looks, judges, and says what to do, or does it; the status is a failure if there are problems, or if
/// something did not help.
///
/// # Errors
/// When the findings cannot be written as JSON, and when there is nobody to agree to a change.
pub fn run(
    name: &str,
    json: bool,
    options: &Options,
) -> Result<(String, ExitCode), Box<dyn Error>> {
    let look = || examine(&gather::facts(name, options));
    let colour = has_colours();
    let (output, is_well) = if options.fix {
        fix::run(How { yes: options.yes, json, colour }, look)?
    } else {
        let findings = look();
        let is_well = findings.iter().all(|f| f.result != Outcome::Problem);
        let output = match json {
            true => serde_json::to_string(&findings)?,
            false => finding::text(&findings, colour),
        };
        (output, is_well)
    };
    Ok((output, if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// Every check, in the order in which an operator would set things up.
fn examine(facts: &Facts) -> Vec<Finding> {
    let checks = [
        machine::check,
        huge_pages::check,
        ports::check,
        vlan_entries::check,
        segments::check,
        overlays::check,
        drivers::check,
        encapsulation::check,
        network::check,
        nat::check,
        orphans::check,
        others::check,
        instance::check,
        apparmor::check,
        paths::check,
        expiry::check,
        policies::check,
        beside::check,
    ];
    let findings = checks.into_iter().flat_map(|check| check(facts)).collect();
    match facts.is_unprivileged() {
        true => unprivileged::judge(findings, facts),
        false => findings,
    }
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
        let options = Options {
            config: "/nonexistent/culvert.toml".into(),
            unprivileged: false,
            fix: false,
            yes: false,
            preload: Err("nowhere".into()),
        };
        let (json, _) = run("doctor-test", true, &options).unwrap();
        let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
        let config = rows.iter().find(|r| r["check"] == "config").expect("a row about the file");
        assert_eq!(config["result"], "problem");
        assert!(config["seen"].as_str().unwrap().contains("/nonexistent/culvert.toml"));
        assert!(rows.iter().any(|r| r["check"] == "kernel"), "{rows:#?}");
    }
}
