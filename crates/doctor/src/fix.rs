//! `culvert doctor --fix`: runs what mends findings and is safe, looks again, and says what became of each.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write as _};

use serde::Serialize;

use super::finding::{Finding, Outcome, text};
use super::mend::Mend;

/// How to go about it.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Set to run commands without asking.
    pub yes: bool,
    /// The report is JSON.
    pub json: bool,
    /// The report has colours.
    pub colour: bool,
}

/// A step for a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Planned {
    check: String,
    seen: String,
    mend: Mend,
}

/// A step with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Done {
    check: String,
    seen: String,
    command: Mend,
    result: Became,
    error: Option<String>,
}

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Became {
    /// The finding is gone.
    Mended,
    /// The command ended well, and the finding is still there.
    Unchanged,
    /// The command failed.
    Failed,
}

/// JSON report of the steps.
#[derive(Serialize)]
struct Report<'r> {
    fixes: &'r [Done],
    findings: &'r [Finding],
}

/// Mends what may be mended. Returns the report, and whether all that was tried has helped and no problem is left.
///
/// # Errors
/// Nobody can be asked, or the answer was no: nothing is changed then.
pub fn run(how: How, look: impl Fn() -> Vec<Finding>) -> Result<(String, bool), Box<dyn Error>> {
    let before = look();
    let planned = plan(&before);
    if planned.is_empty() {
        return Ok((report(how, &[], &before)?, is_well(&[], &before)));
    }
    // With JSON only the report goes to standard output.
    let shown = shown(&planned);
    let mut to: Box<dyn io::Write> =
        if how.json { Box::new(io::stderr()) } else { Box::new(io::stdout()) };
    writeln!(to, "{shown}")?;
    if !is_agreed(how.yes, io::stdin().is_terminal(), ask)? {
        return Err("nothing was changed".into());
    }
    let tried: Vec<_> =
        planned.into_iter().map(|one| (one.mend.run(), one)).map(|(r, one)| (one, r)).collect();
    let after = look();
    let done = became(tried, &after);
    Ok((report(how, &done, &after)?, is_well(&done, &after)))
}

/// Commands that may be run, each once.
fn plan(findings: &[Finding]) -> Vec<Planned> {
    let mut seen = HashSet::new();
    let mends = findings.iter().filter_map(|f| Some((f, f.fix.clone()?)));
    mends
        .filter(|(_, mend)| seen.insert(mend.clone()))
        .map(|(f, mend)| Planned { check: f.check.clone(), seen: f.seen.clone(), mend })
        .collect()
}

fn shown(planned: &[Planned]) -> String {
    let lines = planned.iter().map(|one| {
        let first = one.seen.lines().next().unwrap_or_default();
        format!("  {}\n      because of {}: {first}", one.mend, one.check)
    });
    format!("This would be done:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// True if the operator agrees to go on.
fn is_agreed(
    yes: bool,
    is_terminal: bool,
    ask: impl FnOnce() -> io::Result<String>,
) -> Result<bool, Box<dyn Error>> {
    if yes {
        return Ok(true);
    }
    if !is_terminal {
        return Err(
            "this is no terminal to ask at, and nothing was changed; --yes does not ask".into()
        );
    }
    Ok(is_yes(&ask()?))
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Asks at the terminal.
pub fn confirm() -> io::Result<bool> {
    ask().map(|answer| is_yes(&answer))
}

fn ask() -> io::Result<String> {
    let mut stderr = io::stderr();
    stderr.write_all(b"Do it? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer)
}

/// Holds what was tried against what is seen now.
fn became(tried: Vec<(Planned, Result<(), String>)>, after: &[Finding]) -> Vec<Done> {
    let left: HashSet<&str> =
        after.iter().filter_map(|f| f.fix.as_ref()).map(Mend::subject).collect();
    let done = tried.into_iter().map(|(Planned { check, seen, mend }, outcome)| {
        let result = match &outcome {
            Err(_) => Became::Failed,
            Ok(()) if left.contains(mend.subject()) => Became::Unchanged,
            Ok(()) => Became::Mended,
        };
        Done { check, seen, command: mend, result, error: outcome.err() }
    });
    done.collect()
}

fn is_well(done: &[Done], findings: &[Finding]) -> bool {
    done.iter().all(|one| one.result == Became::Mended)
        && findings.iter().all(|f| f.result != Outcome::Problem)
}

fn report(how: How, done: &[Done], findings: &[Finding]) -> serde_json::Result<String> {
    if how.json {
        return serde_json::to_string(&Report { fixes: done, findings });
    }
    let mut out = String::new();
    for one in done {
        let word = match one.result {
            Became::Mended => "mended",
            Became::Unchanged => "unchanged",
            Became::Failed => "failed",
        };
        let why = one.error.as_ref().map(|e| format!(": {e}")).unwrap_or_default();
        // Writing to a string does not fail.
        let _ = writeln!(out, "{word:<9}  {}{why}", one.command);
    }
    if done.is_empty() {
        out.push_str("Nothing was changed: what is left is for you to do.\n");
    } else if done.iter().any(|one| one.command.is_setting()) {
        out.push_str("These settings last until the next boot; /etc/sysctl.d keeps them.\n");
    }
    out.push('\n');
    out.push_str(&text(findings, how.colour));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn finding(setting: &str) -> Finding {
        let command = format!("sysctl -w net.ipv4.conf.{setting}");
        Finding::warning("rp_filter", "strict", "drops", &command).mended_by(Mend::new(&command))
    }

    fn planned(command: &str) -> Planned {
        Planned { check: "c".into(), seen: "s".into(), mend: Mend::new(command) }
    }

    const YES: How = How { yes: true, json: true, colour: false };

    #[test]
    fn only_what_is_marked_is_planned_and_once() {
        let by_hand = finding("all.rp_filter=2");
        assert_eq!(by_hand.fix, None);
        let one = finding("wan.rp_filter=2");
        let plan = plan(&[Finding::ok("x", "y"), by_hand, one.clone(), one.clone()]);
        assert_eq!(plan.len(), 1);
        assert_eq!(Some(&plan[0].mend), one.fix.as_ref());
        let shown = shown(&plan);
        assert!(shown.contains("sysctl -w net.ipv4.conf.wan.rp_filter=2"), "{shown}");
        assert!(shown.contains("because of rp_filter: strict"), "{shown}");
    }

    #[test]
    fn nothing_is_done_without_consent() {
        let never = || unreachable!("asked");
        assert!(is_agreed(true, false, never).unwrap());
        let refused = is_agreed(false, false, never).unwrap_err().to_string();
        assert!(refused.contains("--yes"), "{refused}");
        for (answer, agreed) in
            [("y\n", true), ("Yes\n", true), ("n\n", false), ("\n", false), ("", false)]
        {
            assert_eq!(is_agreed(false, true, || Ok(answer.into())).unwrap(), agreed, "{answer:?}");
        }
    }

    #[test]
    fn what_became_of_each() {
        let tried = vec![
            (planned("sysctl -w net.ipv4.conf.a.rp_filter=2"), Ok(())),
            (planned("sysctl -w vm.nr_hugepages=64"), Ok(())),
            (planned("ethtool -K a rx-vlan-offload off"), Err("no".to_owned())),
        ];
        // The kernel had memory for some of the pages, and more are asked for.
        let left = Finding::warning("hugepages", "few", "slow", "more");
        let left = left.mended_by(Mend::new("sysctl -w vm.nr_hugepages=50"));
        let done = became(tried, &[left]);
        let results: Vec<_> = done.iter().map(|one| one.result).collect();
        assert_eq!(results, [Became::Mended, Became::Unchanged, Became::Failed]);
        assert_eq!(done[2].error.as_deref(), Some("no"));
        assert!(!is_well(&done, &[]) && is_well(&done[..1], &[]));
        assert!(!is_well(&[], &[Finding::problem("a", "b", "c", "d")]));
        let how = How { json: false, ..YES };
        let text = report(how, &done, &[]).unwrap();
        assert!(text.contains("failed     ethtool -K a rx-vlan-offload off: no\n"), "{text}");
        assert!(text.contains("until the next boot"), "{text}");
    }

    #[test]
    fn it_looks_again() {
        // The first look finds what `true` mends; the second nothing more.
        let looks = RefCell::new(vec![vec![], vec![finding("no-such.rp_filter=2")]]);
        let (json, is_well) = run(YES, || looks.borrow_mut().pop().unwrap()).unwrap();
        assert!(looks.borrow().is_empty(), "looked twice");
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        let fix = &report["fixes"][0];
        assert_eq!(fix["command"], "sysctl -w net.ipv4.conf.no-such.rp_filter=2");
        assert_eq!((&fix["result"], is_well), (&"failed".into(), false), "{report}");
        assert!(fix["error"].as_str().unwrap().contains("no-such"), "{report}");
        assert_eq!(report["findings"], serde_json::json!([]));
    }

    #[test]
    fn where_nothing_can_be_mended_nothing_is_asked() {
        let how = How { yes: false, json: false, colour: false };
        let (text, is_well) = run(how, || vec![Finding::ok("a", "b")]).unwrap();
        assert!(is_well && text.starts_with("Nothing was changed"), "{text}");
    }
}
