//! Findings of the checks, and how they are shown.

use std::fmt::Write as _;

use serde::Serialize;

use super::mend::Mend;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// Works, but not as well as it could, or not for everything.
    Warning,
    /// Does not work.
    Problem,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check's name; with several findings it comes several times.
    pub check: String,
    /// How it came out.
    pub result: Outcome,
    /// Observation, in a line.
    pub seen: String,
    /// Why it matters; nothing where all is well.
    pub why: Option<String>,
    /// Next step, a command where there is one. Empty where all is well.
    pub next: Option<String>,
    /// Command that `--fix` would run. `None` where a person has to decide.
    pub fix: Option<Mend>,
}

impl Finding {
    /// As it should be.
    pub fn ok(check: impl Into<String>, seen: impl Into<String>) -> Finding {
        let (check, seen) = (check.into(), seen.into());
        Finding { check, result: Outcome::Ok, seen, why: None, next: None, fix: None }
    }

    /// Could be better.
    pub fn warning(
        check: impl Into<String>,
        seen: impl Into<String>,
        why: impl Into<String>,
        next: impl Into<String>,
    ) -> Finding {
        let (why, next) = (Some(why.into()), Some(next.into()));
        Finding { result: Outcome::Warning, why, next, ..Finding::ok(check, seen) }
    }

    /// Does not work.
    pub fn problem(
        check: impl Into<String>,
        seen: impl Into<String>,
        why: impl Into<String>,
        next: impl Into<String>,
    ) -> Finding {
        Finding { result: Outcome::Problem, ..Finding::warning(check, seen, why, next) }
    }

    /// Names the command that mends it; `--fix` runs those that are marked as safe.
    pub fn mended_by(self, mend: Mend) -> Finding {
        Finding { fix: Some(mend).filter(Mend::is_safe), ..self }
    }
}

/// Most of one fate in a row that are shown to people.
const ALIKE: usize = 8;

/// The findings for people: a line each, with the reasons below those that are not well, and the
/// sum at the end. Of many in a row that differ in nothing but what was seen, the first.
pub fn text(findings: &[Finding], colour: bool) -> String {
    let width = findings.iter().map(|f| f.check.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    let fate = |f: &Finding| (f.check.clone(), f.result, f.why.clone(), f.next.clone());
    for alike in findings.chunk_by(|a, b| fate(a) == fate(b)) {
        let Some(finding) = alike.first() else { continue };
        let marker = marker(finding.result, colour);
        for finding in alike.iter().take(ALIKE) {
            // Writing to a string does not fail.
            let _ = writeln!(out, "{marker}  {:<width$}  {}", finding.check, below(&finding.seen));
        }
        if alike.len() > ALIKE {
            let more = alike.len() - ALIKE;
            let _ = writeln!(
                out,
                "{marker}  {:<width$}  ... and {more} more like these",
                finding.check
            );
        }
        for (label, line) in [("why", &finding.why), ("next", &finding.next)] {
            if let Some(line) = line {
                let _ = writeln!(out, "        {label:<4}  {}", below(line));
            }
        }
    }
    let count = |result| findings.iter().filter(|f| f.result == result).count();
    let (ok, warnings) = (count(Outcome::Ok), count(Outcome::Warning));
    let problems = count(Outcome::Problem);
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let _ = write!(
        out,
        "\n{ok} ok, {warnings} warning{}, {problems} problem{}",
        plural(warnings),
        plural(problems)
    );
    let fixes = findings.iter().filter(|f| f.fix.is_some()).count();
    if fixes > 0 {
        let _ = write!(out, "; culvert doctor --fix mends {fixes} of them");
    }
    out
}

fn marker(result: Outcome, colour: bool) -> String {
    let (word, number) = match result {
        Outcome::Ok => ("ok  ", 32),
        Outcome::Warning => ("warn", 33),
        Outcome::Problem => ("FAIL", 31),
    };
    if colour { format!("\u{1b}[{number}m{word}\u{1b}[0m") } else { word.into() }
}

/// Further lines of a message stay below its first.
fn below(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("\n              ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Finding> {
        vec![
            Finding::ok("kernel", "6.1"),
            Finding::warning("port wan", "no carrier", "nothing arrives", "ip link show wan"),
            Finding::problem("tun", "missing\nreally", "needed", "mknod"),
        ]
    }

    #[test]
    fn text_is_aligned_and_explains_what_is_not_well() {
        let expected = "ok    kernel    6.1\n\
                        warn  port wan  no carrier\n        why   nothing arrives\n        \
                        next  ip link show wan\n\
                        FAIL  tun       missing\n              really\n        why   needed\n        \
                        next  mknod\n\n1 ok, 1 warning, 1 problem";
        assert_eq!(text(&some(), false), expected);
    }

    #[test]
    fn many_of_one_fate_are_one_paragraph() {
        let of = |n| Finding::warning("sa", format!("number {n}"), "slow", "mend");
        let shown = text(&(0..ALIKE + 3).map(of).collect::<Vec<_>>(), false);
        assert_eq!(shown.matches("number").count(), ALIKE);
        assert_eq!((shown.matches("why").count(), shown.matches("mend").count()), (1, 1));
        assert!(shown.contains("... and 3 more like these\n        why   slow"), "{shown}");
        assert!(shown.ends_with("11 warnings, 0 problems"), "{shown}");
        let other = Finding::ok("sa", "number 0");
        assert_eq!(text(&[of(1), other, of(2)], false).matches("slow").count(), 2);
    }

    #[test]
    fn colour_only_where_asked_for() {
        assert!(!text(&some(), false).contains('\u{1b}'));
        let coloured = text(&some(), true);
        assert!(coloured.contains("\u{1b}[31mFAIL\u{1b}[0m"), "{coloured}");
        assert!(coloured.contains("\u{1b}[33mwarn\u{1b}[0m"), "{coloured}");
    }

    #[test]
    fn json_has_every_key_in_every_row() {
        let json = serde_json::to_value(some()).unwrap();
        for (row, result) in json.as_array().unwrap().iter().zip(["ok", "warning", "problem"]) {
            let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["check", "fix", "next", "result", "seen", "why"]);
            assert_eq!(row["result"], result);
        }
        assert!(json[0]["why"].is_null() && json[1]["next"] == "ip link show wan");
        assert!(json[1]["fix"].is_null());
    }

    #[test]
    fn what_fix_would_run_is_told() {
        let command = "ethtool -K wan rx-vlan-offload off";
        let warned = Finding::warning("port wan", "offload", "lost", command);
        let safe = warned.clone().mended_by(Mend::new(command));
        assert_eq!(serde_json::to_value(&safe).unwrap()["fix"], command);
        let end = "2 warnings, 0 problems; culvert doctor --fix mends 1 of them";
        let shown = text(&[safe, warned.clone()], false);
        assert!(shown.ends_with(end), "{shown}");
        assert_eq!(warned.mended_by(Mend::new("ip link set wan down")).fix, None);
    }
}
